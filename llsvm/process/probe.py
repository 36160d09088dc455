"""Threads that libraries would not do without, started before them to see whether the system does that."""

from __future__ import annotations

import os
import sys
import threading
from functools import cache

_BLAS_THREADS = 64  # of a library, at most
_LIBRARIES = ("numpy", "scipy.linalg")  # which have one each


@cache
def require_threads(number: int) -> None:
    """Raise RuntimeError unless the system starts so many threads more: once, before a library that would wait for
    ever for one that it is refused."""
    _start(number)


def _start(number: int) -> None:
    """Start so many threads, and end them. Raises RuntimeError where one is refused."""
    done, started = threading.Event(), list[threading.Thread]()
    try:
        for _ in range(number):
            thread = threading.Thread(target=done.wait, name="llsvm-probe", daemon=True)
            thread.start()
            started.append(thread)
    finally:
        done.set()
        for thread in started:
            thread.join()


def spare_blas_threads() -> None:
    """Have BLAS start no threads where the system refuses them. OpenBLAS starts its own as it is loaded, and sends
    the process SIGINT, as if by Ctrl-C, where one is refused. Call it before NumPy is imported, and before SciPy's
    linear algebra is: other threads may have been started since."""
    missing = sum(library not in sys.modules for library in _LIBRARIES)
    if not missing or "OPENBLAS_NUM_THREADS" in os.environ:
        return
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        # twice as many: those that have ended still count for a while
        _start(2 * missing * (min(processors, _BLAS_THREADS) - 1))
    except RuntimeError:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
