"""One BLAS thread while solvers with threads of their own are at work, however many of them at the same time."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from llsvm.solvers.optim import lapack

_lock = threading.Lock()
_at_work = 0  # solvers that are within
_before: dict[str, int] = {}  # threads of each library (by its file) when the first of them came


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS threads and ours would fight for the processors. Their number is the whole process's, so the first to
    enter notes it, and the last to leave sets it back; only OpenMP keeps one for each thread that calls."""
    global _at_work
    lapack.load()  # with a BLAS of its own, which no one finds before it is loaded
    libraries = _libraries(_loads())
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


@lru_cache(maxsize=1)
def _libraries(loads: tuple[int, int]) -> list[Any]:
    """Find the BLAS libraries of this process. threadpoolctl looks at each library that is loaded, which takes
    longer than many a problem to solve: once as long as ``loads``, see ``_loads``, stays the same."""
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


class _Object(ctypes.Structure):
    """``dl_phdr_info`` of <link.h>."""

    _fields_ = (
        ("addr", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("headers", ctypes.c_void_p),
        ("n_headers", ctypes.c_uint16),
        ("loaded", ctypes.c_ulonglong),
        ("unloaded", ctypes.c_ulonglong),
    )


def _loads() -> tuple[int, int]:
    """How many libraries this process has loaded, and how many of these it has unloaded, until now."""
    counts = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Object), ctypes.c_size_t, ctypes.c_void_p)
    def look(found: Any, size: int, data: None) -> int:
        counts.append((found.contents.loaded, found.contents.unloaded))
        return 1  # each has the same counts: no need of the others

    ctypes.CDLL(None).dl_iterate_phdr(look, None)
    return counts[0]


def _set(library: Any, threads: int) -> None:
    """Set a library's threads, from whichever thread of ours: threadpoolctl listens to the first alone, until it is
    told that this one is done."""
    from threadpoolctl import OpenBLASController

    OpenBLASController.clear_controlling_thread(force=True)
    library.set_num_threads(threads)
    OpenBLASController.clear_controlling_thread(force=True)
