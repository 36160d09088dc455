"""How kernels are compiled: the one set of options, and the cache, a folder for each state of the kernels'
source, so that none outlives its text.

Numba itself looks at the time and the size of the file that a kernel is in, not at what it has from other files,
nor at what is in it: a package that is installed over another may have the same of both, and a cached kernel goes
stale when only a function of another file that it calls is edited. So the cache's folder is named after all kernel
files. To read what is in them takes a millisecond.

Compiled kernels are code that will be run: they are kept where nobody else can write, and never in the package,
where they would outlive it.

What kernels do with a row is in llsvm/solvers/optim/rows.py. Where a kernel follows ``indptr`` and ``indices`` they
are cast to unsigned numbers: an index that may be negative counts from the end, and what Numba does about that is a
third of the time of a sweep over sparse rows.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import pwd
import re
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numba

from llsvm.process import VERSION
from llsvm.process.signals import register_cleanup

# Files of the package that kernels are in, or take anything compiled from.
SOURCES = ("kernels/*.py", "solvers/*/*kernel*.py", "solvers/optim/rows.py")
UNUSED_SECONDS = 30 * 24 * 3600.0
"""Folders of other states that no run has used for so long are removed when a new one is made."""
_DIGEST_BYTES = 8
_OURS = re.compile(r"(llsvm-)?\d[^/]*-numba-[^/]*")
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
_CONFIG: Any = numba.config
_decorating = threading.Lock()


def cache_folder() -> Path | None:
    """Return the folder to keep compiled kernels in, made if missing; None where there is nowhere to write.

    For these kernels and this version of Numba a folder in $NUMBA_CACHE_DIR if that is set; else in the user's
    cache folder ($XDG_CACHE_HOME, else ~/.cache, with or without $HOME), if it is the user's alone; else a new
    temporary folder that goes when the process ends.
    """
    name = folder_name(Path(__file__).parents[1])
    with suppress(OSError):
        if folder_given := os.environ.get("NUMBA_CACHE_DIR"):
            return _tried(Path(folder_given), f"llsvm-{name}")
    with suppress(OSError, KeyError):  # KeyError: a user without an entry in the list of users
        return _tried(_private_folder(_user_cache()), name)
    with suppress(OSError):
        folder = tempfile.mkdtemp(prefix="llsvm-kernels-")
        remove = partial(shutil.rmtree, folder, ignore_errors=True)
        atexit.register(remove)
        register_cleanup(remove)
        return Path(folder)
    return None


def folder_name(package: Path) -> str:
    """Return the name of the folder for the kernels of the package in that folder."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for file in sorted(file for pattern in SOURCES for file in package.glob(pattern)):
        text = file.read_bytes()
        digest.update(f"{file.relative_to(package)} {len(text)} ".encode() + text)
    return f"{VERSION}-numba-{numba.__version__}-{digest.hexdigest()}"


def _user_cache() -> Path:
    named = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):  # relative ones are to be ignored, the standard says
        return Path(named)
    return Path(os.environ.get("HOME") or pwd.getpwuid(os.geteuid()).pw_dir, ".cache")


def _private_folder(user_cache: Path) -> Path:
    """Return the folder ``llsvm`` in ``user_cache``, a folder of ours in which nobody else can write, nor put
    another in its place. Raises OSError where it is not that, or cannot be made."""
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
    """Return whether nobody but us and root can rename what is in ``parent``. (A group of one's own is common.)"""
    state = parent.stat()
    others = stat.S_IWOTH | (0 if state.st_gid == os.getegid() else stat.S_IWGRP)
    return state.st_uid in (0, os.geteuid()) and (
        not state.st_mode & others or bool(state.st_mode & stat.S_ISVTX)
    )


def _tried(parent: Path, name: str) -> Path:
    """Return the folder of that name, made if missing. Raises OSError unless files can be made in it."""
    folder = parent / name
    is_new = not folder.exists()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()
    os.utime(folder)  # it is in use
    if is_new:
        _remove_unused(parent)
    return folder


def _remove_unused(parent: Path) -> None:
    """Remove what other states of the package have left in ``parent``, if nobody has used it for long."""
    for folder in parent.iterdir():
        with suppress(OSError):
            state = folder.lstat()
            ours = (
                stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid() and _OURS.fullmatch(folder.name)
            )
            if ours and time.time() - state.st_mtime > UNUSED_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)


_FOLDER = cache_folder()


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile as ``numba.njit`` does, and keep what is compiled in ``cache_folder()``.

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
