"""The one set of options that every kernel is compiled with, and where compiled kernels are kept.

A cached kernel that calls a jitted helper of another file goes stale when only the helper is edited, so every
kernel file is self-contained: it imports nothing jitted.

Where a kernel follows ``indptr`` and ``indices`` they are cast to unsigned numbers: an index that may be negative
counts from the end, and what Numba does about that is a third of the time of a sweep over sparse rows.

Compiled kernels are code that will be run: they are kept where nobody else can write, and never in the package,
where they would outlive it.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numba

import llsvm
from llsvm.process import leftovers

# nogil: kernels run in plain Python threads. cache: the compilation is part of the user's time only once.
JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


def cache_folder() -> Path | None:
    """The folder to keep compiled kernels in, made if missing; None where there is nowhere to write.

    $NUMBA_CACHE_DIR if that is set; else, for this version of llsvm and of Numba, a folder in the user's cache
    folder ($XDG_CACHE_HOME, else ~/.cache, with or without $HOME), if it is the user's alone; else a new temporary
    folder that goes when the process ends.
    """
    with suppress(OSError):
        if chosen := os.environ.get("NUMBA_CACHE_DIR"):
            return _tried(Path(chosen))
    with suppress(OSError, KeyError):  # KeyError: a user without an entry in the list of users
        return _tried(_private_folder(_user_cache()) / f"{llsvm.__version__}-numba-{numba.__version__}")
    with suppress(OSError):
        folder = tempfile.mkdtemp(prefix="llsvm-kernels-")
        remove = partial(shutil.rmtree, folder, ignore_errors=True)
        atexit.register(remove)
        leftovers.expect(remove)
        return Path(folder)
    return None


def _user_cache() -> Path:
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):  # relative ones are to be ignored, the standard says
        return Path(named)
    return Path(os.environ.get("HOME") or pwd.getpwuid(os.geteuid()).pw_dir, ".cache")


def _private_folder(user_cache: Path) -> Path:
    """The folder ``llsvm`` in ``user_cache``, a folder of ours in which nobody else can write, nor put another in
    its place. Raises OSError where it is not that, or cannot be made."""
    user_cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = user_cache.resolve() / "llsvm"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    state = folder.lstat()  # not of what a link points to
    private = stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & 0o022
    if not private or not all(map(_is_safe, folder.parents)):
        raise PermissionError(f"{folder}: not a private folder")
    return folder


def _is_safe(parent: Path) -> bool:
    """Can nobody but us and root rename what is in ``parent``? (A group of one's own is common.)"""
    state = parent.stat()
    others = stat.S_IWOTH | (0 if state.st_gid == os.getegid() else stat.S_IWGRP)
    return state.st_uid in (0, os.geteuid()) and (
        not state.st_mode & others or bool(state.st_mode & stat.S_ISVTX)
    )


def _tried(folder: Path) -> Path:
    """The folder, made if missing. Raises OSError unless files can be made in it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()
    return folder


_FOLDER = cache_folder()
_CONFIG: Any = numba.config
_decorating = threading.Lock()


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """As ``numba.njit``, for kernels: what is compiled is kept in ``cache_folder()``.

    Numba decides where when it decorates, and has one place for all; other code in this process keeps its own.
    """
    decorate = numba.njit(**options | ({} if _FOLDER else {"cache": False}))

    def decorated(function: Callable[..., Any]) -> Any:
        with _decorating:
            before, _CONFIG.CACHE_DIR = _CONFIG.CACHE_DIR, str(_FOLDER or "")
            try:
                return decorate(function)
            finally:
                _CONFIG.CACHE_DIR = before

    return decorated
