"""Cache of compiled kernels: a folder for each state of the kernels' source, so that none outlives its text.

Numba itself looks at the time and the size of the file that a kernel is in, not at what it has from other files,
nor at what is in it: a package that is installed over another may have the same of both. To read what is in the
kernels' files takes a millisecond.

Compiled kernels are code that will be run: they are kept where nobody else can write, and never in the package,
where they would outlive it.
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
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import numba

from llsvm.process import VERSION
from llsvm.process.signals import register_cleanup

# Files of the package that kernels are in, or take anything compiled from.
SOURCES = ("kernels/*.py", "solvers/*/*kernel*.py", "solvers/optim/rows.py", "solvers/optim/proximal.py")
UNUSED_SECONDS = 30 * 24 * 3600.0
"""Folders of other states that no run has used for so long are removed when a new one is made."""
_DIGEST_BYTES = 8
_OURS = re.compile(r"(llsvm-)?\d[^/]*-numba-[^/]*")


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
