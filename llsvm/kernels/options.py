"""The one set of options that every kernel is compiled with, and where compiled kernels are kept.

A cached kernel that calls a jitted helper of another file goes stale when only the helper is edited, so every
kernel file is self-contained: it imports nothing jitted.

Where a kernel follows ``indptr`` and ``indices`` they are cast to unsigned numbers: an index that may be negative
counts from the end, and what Numba does about that is a third of the time of a sweep over sparse rows.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any


def ensure_cache_folder() -> None:
    """Give Numba a folder to write to where it would find none (cron, containers), before it compiles.

    Numba itself looks at $NUMBA_CACHE_DIR, the folder of the source file, and the user's cache folder
    ($XDG_CACHE_HOME, else ~/.cache), and fails where none can be written. The last resort is a private folder
    under the temporary one.
    """
    if os.environ.get("NUMBA_CACHE_DIR"):
        return
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if _writable(Path(__file__).parent) or _writable(user):
        return
    folder = Path(tempfile.gettempdir()) / f"llsvm-kernels-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():  # somebody else's: compiled code from there cannot be trusted
        folder = Path(tempfile.mkdtemp(prefix="llsvm-kernels-"))
    os.environ["NUMBA_CACHE_DIR"] = str(folder)  # for child processes, and for Numba if it is not loaded yet
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = str(folder)


def _writable(folder: Path) -> bool:
    """Can files be made in the folder, which may have to be made first?"""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


ensure_cache_folder()  # on import: every kernel file imports JIT before it compiles anything

# nogil: kernels run in plain Python threads. cache: the compilation is part of the user's time only once.
JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
