"""The one set of options that every kernel is compiled with.

A cached kernel goes stale when only a function of another file that it calls is edited; Numba does not see that, so
the cache's folder is named after all kernel files (cache.py). What kernels do with a row is in
llsvm/solvers/optim/rows.py.

Where a kernel follows ``indptr`` and ``indices`` they are cast to unsigned numbers: an index that may be negative
counts from the end, and what Numba does about that is a third of the time of a sweep over sparse rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numba

from llsvm.kernels.cache import cache_folder

# nogil: kernels run in plain Python threads. cache: the compilation is part of the user's time only once.
# Nothing calls them from C. LLVM keeps what it has compiled, some MB a kernel, as long as the process lives.
JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}

# For kernels that take sums: their terms may be added in any order, and fused with products. Sums over dense rows
# become vector instructions; a sum over a sparse row becomes several at once, so that no addition waits for the
# one before it (a sweep takes a tenth less time, dot products alone a fifth).
ANY_ORDER: dict[str, Any] = JIT | {"fastmath": {"reassoc", "contract", "nsz"}}

# For what only kernels of its file call, whose names begin with _: nothing is compiled that would take arguments
# from Python, and a call from there ends the process.
CALLED: dict[str, Any] = {"no_cpython_wrapper": True}

# For what kernels of its file call to work with floats. Not inlined, such a function would be called as compiled by
# itself, if that was in this process, and else as it was compiled with the kernel, fused with other products: the
# run that compiles gave another model than those after it.
INLINED: dict[str, Any] = {"forceinline": True}


_FOLDER = cache_folder()
_CONFIG: Any = numba.config
_decorating = threading.Lock()


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a kernel as ``numba.njit`` does; the compiled code is stored in ``cache_folder()``.

    Numba decides where when it decorates, and has one place for all; other code in this process keeps its own.
    """
    return partial(_decorated, numba.njit(**options | ({} if _FOLDER else {"cache": False})))


def _decorated(decorate: Callable[[Callable[..., Any]], Any], function: Callable[..., Any]) -> Any:
    with _decorating:
        before, _CONFIG.CACHE_DIR = _CONFIG.CACHE_DIR, str(_FOLDER or "")
        try:
            return decorate(function)
        finally:
            _CONFIG.CACHE_DIR = before
