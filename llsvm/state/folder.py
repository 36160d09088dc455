"""Folder of a state. One run at a time uses it; it holds

lock          locked by the run that uses the folder, with who that is
state         the newest state that is complete and synced (see ``container``)
result        of a run that has come to its end: the model, what it was made with, the dual variables of its dual
state.next    a newer state that is complete, and becomes ``state`` when it is due, or when a signal comes
rows-*        with --keep-cache: copies of parsed files (see ``row_cache``)
*.part        what is being written
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from contextlib import suppress
from datetime import datetime
from io import FileIO
from pathlib import Path

from llsvm.errors import UsageError
from llsvm.files.remote import is_remote
from llsvm.files.writing import naming
from llsvm.process import leftovers

LOCK, STATE, RESULT, NEXT, PART = "lock", "state", "result", "state.next", ".part"
MODEL = "model" + PART  # which becomes a part of the result
# Parts of a result: (n_rows, width) α_i / C_i, see llsvm.solvers.state.RowShares; their weights, see ShareSums
# there, the rest of which is an entry of the result by the same name; shift, scale and fill of the columns, where
# these are scaled.
SHARES, SUMS, SCALES = "shares", "sums", "scales"
# Entries of a result: smoothing, where the dual is of the model's weights, see llsvm.solvers.state.AtWeights; and
# RowShares.largest_cost.
AT_WEIGHTS, LARGEST_COST = "at weights", "largest cost"
ROWS_OF_FILE = "rows-"  # the names of copies of files: this, and a digest
_OURS = (LOCK, STATE, RESULT, NEXT, STATE + PART, RESULT + PART, MODEL, MODEL + ".log.json")
_TEMPORARY = ".llsvm-"  # as llsvm.files.writing calls what it writes
_SEAL = "llsvm state, locked while in use"
_MAX_WHO_BYTES = 500


class StateFolder:
    """Folder that is made if need be, and locked until ``close``."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Make and lock the folder. Raises UsageError where it is no folder for a state, cannot be made, or another
        run uses it."""
        if is_remote(path):
            raise UsageError(f"{os.fspath(path)}: a state is kept in a folder here: name one with --state")
        self.path = Path(os.path.abspath(path))
        self._make()
        self._lock = self._locked()
        self._key = leftovers.expect(self._clear)
        self._clear()

    def __enter__(self) -> StateFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove what is not complete, and unlock the folder; again does nothing."""
        if not self._lock.closed:
            self._clear()
            leftovers.forget(self._key)
            self._lock.close()

    def file(self, name: str) -> Path:
        return self.path / name

    def bytes_of(self, *names: str) -> int:
        """Return the size of these files, 0 for those that do not exist."""
        total = 0
        for name in names:
            with suppress(OSError):
                total += os.stat(self.file(name)).st_size
        return total

    def copies(self) -> list[str]:
        """Return the names of the complete copies of files."""
        return [name for name in os.listdir(self.path) if name.startswith(ROWS_OF_FILE) and PART not in name]

    @property
    def held_bytes(self) -> int:
        """Return the size of all complete files."""
        return self.bytes_of(STATE, NEXT, RESULT, *self.copies())

    def free_bytes(self) -> int:
        """Return the bytes that the file system still has for this user."""
        status = os.statvfs(self.path)
        return status.f_bavail * status.f_frsize

    def sync(self, name: str, becomes: str) -> None:
        """Sync the file ``name`` to the disk, then rename it over another, which is the old or the new one,
        whatever happens. Raises DiskError."""
        with naming(self.file(becomes)):
            file = os.open(self.file(name), os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(file)
            finally:
                os.close(file)
            os.rename(self.file(name), self.file(becomes))
            with suppress(OSError):  # some network file systems cannot sync a folder
                folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)

    def _make(self) -> None:
        with naming(self.path):
            if not self.path.parent.is_dir():
                raise UsageError(
                    f"{self.path}: the folder {self.path.parent} does not exist; create it first"
                )
            if self.path.exists() and not self.path.is_dir():
                raise UsageError(f"{self.path}: is no folder; name another with --state")
            self.path.mkdir(exist_ok=True)
            strange = [
                name for name in os.listdir(self.path) if name not in _OURS and not _is_temporary(name)
            ]
            if strange and not self.file(LOCK).exists():
                raise UsageError(
                    f"{self.path}: is a folder of other things ({strange[0]}): name one with --state that is new, "
                    "or empty"
                )

    def _locked(self) -> FileIO:
        """Return the lock, with this process as its owner. Raises UsageError where another run has it."""
        path = self.file(LOCK)
        with naming(path):
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            lock = FileIO(os.open(path, flags, 0o666), "r+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                who = lock.read(_MAX_WHO_BYTES).decode(errors="replace").partition("\n")[2].strip()
                lock.close()
                raise UsageError(
                    f"{self.path}: this state is in use by {who or 'another run'}; wait for it, or name another "
                    "folder with --state"
                ) from error
            # a file system that knows no locks
        since = datetime.now().isoformat(sep=" ", timespec="seconds")
        with naming(path):
            lock.truncate(0)
            lock.write(f"{_SEAL}\nprocess {os.getpid()} on {socket.gethostname()}, since {since}\n".encode())
        return lock

    def _clear(self) -> None:
        """Remove files that no run will complete."""
        with suppress(OSError):
            for name in os.listdir(self.path):
                if _is_temporary(name):
                    with suppress(OSError):
                        os.unlink(self.file(name))


def _is_temporary(name: str) -> bool:
    ours = name in _OURS or name.startswith(ROWS_OF_FILE)
    return name == NEXT or (ours and PART in name) or name.startswith(_TEMPORARY)
