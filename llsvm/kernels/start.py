"""A quick start of the compiler, for programs of our own.

Numba makes itself ready to compile before it looks whether a kernel's compilation is in the cache: it loads all
that it knows to compile, and SciPy and cffi for what no kernel here uses (``np.dot`` and C functions inside
kernels). That is a quarter of a second, and memory, for compiled kernels that need none of it.
"""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from typing import Any

EXTRAS = ("scipy.linalg", "cffi")


def start_quickly() -> None:
    """Let Numba look into the cache first, and go without SciPy and cffi when it compiles.

    Call it before the first kernel runs, and in a process of our own: in somebody else's Numba must find all it
    can. It changes Numba's private parts; with a Numba that has others, everything stays as it is. A second call
    does nothing.
    """
    try:
        from numba.core.caching import Cache
        from numba.core.registry import cpu_target
        from numba.core.runtime import rtsys

        if Cache._load_overload.__module__ == __name__:
            return
        look, guard = Cache._load_overload, Cache._guard_against_spurious_io_errors
        rtsys.initialize(cpu_target.target_context)  # compiled kernels call it
    except (ImportError, AttributeError):
        return

    def load_overload(cache: Any, signature: Any, context: Any) -> Any:
        """Load as Numba's own method does, which refreshes the context first; a compiler does that too, before it
        begins.

        Files that cannot be read, or that a machine which lost its power has cut off, are as good as none: the
        kernel is compiled, and the next process may keep it anew."""
        try:
            with guard(cache):
                overload = look(cache, signature, context)
        except MemoryError:
            raise
        except Exception:
            overload = None
            with suppress(OSError):
                cache.flush()
            cache.disable()  # to keep the kernel now, Numba would read the same files
        if overload is None:
            _refresh_without_extras(context)
        return overload

    Cache.load_overload = load_overload  # type: ignore[method-assign]
    gc.freeze()  # what is loaded by now stays: no collection need look at it again


def _refresh_without_extras(context: Any) -> None:
    extras = [name for name in EXTRAS if name not in sys.modules]
    for name in extras:
        sys.modules[name] = None  # type: ignore[assignment]  # importing it fails
    try:
        context.refresh()
    finally:
        for name in extras:
            del sys.modules[name]
