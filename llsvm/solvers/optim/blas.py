"""One BLAS thread while solvers with threads of their own are at work, however many of them at the same time; and
products of arrays without BLAS."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.optim import lapack

Array = NDArray[np.float64]

_lock = threading.Lock()
_at_work = 0  # solvers that are within
_before: dict[str, int] = {}  # threads of each library (by its file) when the first of them came


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS threads and ours would fight for the processors. Their number is the whole process's, so the first to
    enter notes it, and the last to leave sets it back; only OpenMP keeps one for each thread that calls."""
    global _at_work
    lapack.load()  # with a BLAS of its own, which no one finds before it is loaded
    libraries = _libraries()
    with _lock:
        if _at_work == 0:
            _before.clear()
        for library in libraries:
            _before.setdefault(library.filepath, library.num_threads)
            _set(library, 1)
        _at_work += 1
    try:
        yield
    finally:
        with _lock:
            _at_work -= 1
            for library in libraries:
                if _at_work == 0 or library.info().get("threading_layer") == "openmp":
                    _set(library, _before[library.filepath])


def dot(a: Array, b: Array) -> float:
    """⟨a, b⟩, not by BLAS, whose threads would spin between products."""
    return float(np.einsum("i,i", a.ravel(), b.ravel()))


def _libraries() -> list[Any]:
    """Find the BLAS libraries of this process: a look at each library that is loaded, which takes under a
    millisecond."""
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _set(library: Any, threads: int) -> None:
    """Set a library's threads, from whichever thread of ours: threadpoolctl listens to the first alone, until it is
    told that this one is done."""
    from threadpoolctl import OpenBLASController

    OpenBLASController.clear_controlling_thread(force=True)
    library.set_num_threads(threads)
    OpenBLASController.clear_controlling_thread(force=True)
