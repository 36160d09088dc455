"""Loading libraries: the threads that they cannot do without, and errors that the system or installation causes.

Threads are started before a library that needs them, to see whether the system allows it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType

_BLAS_THREADS = 64  # of a library, at most
_LIBRARIES = ("numpy", "scipy.linalg")  # which have one each
_INTERRUPT = {signal.SIGINT}


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


@contextmanager
def loading_blas() -> Iterator[None]:
    """Load NumPy, or SciPy's linear algebra, within this context.

    OpenBLAS starts threads of its own as it is loaded, and sends the process SIGINT, as if by Ctrl-C, where one is
    refused.

    Where the system refuses such threads, it starts none. Raises RuntimeError where one is refused all the same:
    OpenBLAS would wait for it for ever."""
    _spare_blas_threads()
    if not hasattr(signal, "sigtimedwait"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPT)
    try:
        yield
    finally:
        came = signal.sigtimedwait(_INTERRUPT, 0) if signal.SIGINT not in before else None
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if came is not None and came.si_pid != os.getpid():
            signal.raise_signal(signal.SIGINT)  # the user's own
    if came is not None:
        raise RuntimeError("can't start new thread for linear algebra")


def _spare_blas_threads() -> None:
    """Make OpenBLAS start no threads where the system refuses them: other threads may have been started since."""
    missing = sum(library not in sys.modules for library in _LIBRARIES)
    if not missing or "OPENBLAS_NUM_THREADS" in os.environ:
        return
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        # twice as many: those that have ended still count for a while
        _start(2 * missing * (min(processors, _BLAS_THREADS) - 1))
    except RuntimeError:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"


def is_of_loading(error: BaseException) -> bool:
    """Return whether the error means that a module could not be loaded, or not whole.

    A read that the system refuses with EAGAIN gives the import machinery None, which ends in a TypeError there; its
    own frames above ``compile`` it takes away. A folder whose ``__init__.py`` cannot be looked at is taken for a
    package without contents, and a codec whose module cannot be read is unknown."""
    if isinstance(error, ImportError | SystemError):
        return True
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        spec = error.obj.__spec__
        return (
            spec is not None and spec.origin is None
        )  # of no file: a name that a whole module lacks is a mistake
    if isinstance(error, LookupError) and str(error).startswith("unknown encoding"):
        return True
    if isinstance(error, TypeError) and str(error).startswith("compile() arg 1"):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    file = "" if trace is None else trace.tb_frame.f_code.co_filename
    return file.startswith("<frozen importlib") and not isinstance(error, OSError | MemoryError)
