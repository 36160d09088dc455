"""Workspace: the private folder that holds a run's spill files, and the account of the disk they take.

The folder carries a locked file. Whoever comes later in the same parent folder removes what a killed process
left behind: folders whose lock nobody holds. The lock file gets its content only after it is locked, so a
folder that is just being made is never taken for an abandoned one, nor is a user's folder of a like name. Of one
that was being made, or removed, when its process was killed, the name tells that (llsvm.files.writing).

Spill files are read into the caller's arrays, never mapped: mapped pages count in the resident set.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import mmap
import os
import shutil
import stat
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import FileIO
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from llsvm.errors import DiskError, SpillError, UsageError
from llsvm.files.file_objects import read_into
from llsvm.files.writing import maker_is_dead, room_for, signed_name
from llsvm.memory.sizes import format_size
from llsvm.process.signals import cancel_cleanup, register_cleanup

PREFIX = "llsvm-"
LOCK_NAME = "lock"
_SEAL = b"llsvm workspace, locked while in use\n"
RESERVE_BYTES = 16_000_000  # left free on the file system, for whoever else writes there
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Workspace:
    """A folder ``llsvm-<its own name>`` that is removed on every exit, and an account of the bytes in it.

    Use it as a context manager. Without, it goes when it is garbage-collected or the interpreter ends.
    A forked child may read from it; only the process that made it removes it. Thread safe.
    """

    def __init__(self, parent: str | Path, disk_limit_bytes: int | None = None) -> None:
        """Make the folder inside ``parent``, and clear what killed processes left there.

        ``disk_limit_bytes`` bounds the sum of the claims; None for the file system's free space alone.
        Raises DiskError when the folder cannot be made.
        """
        remove_abandoned(Path(parent))
        self.disk_limit_bytes = disk_limit_bytes
        self.used_bytes = 0
        self.peak_bytes = 0
        self.elsewhere_bytes = 0
        """Of the disk limit, what files of the run elsewhere take; see ``hold_elsewhere``."""
        self._mutex = threading.Lock()
        self._files: list[FileIO] = []
        self._retired: list[
            tuple[str, FileIO, int]
        ] = []  # files to write over, and the bytes claimed for each
        self._spare_names = (f"spare-{number}" for number in count(1))
        name = signed_name(PREFIX)
        self.folder = Path(parent).absolute() / name
        try:
            place = _Place.make(Path(parent), name)
            self._folder = place.folder
            self._finalizer = weakref.finalize(self, _dispose, place, self._files, os.getpid())
            self._files.append(_make_lock(place.folder))
        except OSError as error:
            raise DiskError(
                f"{parent}: cannot make a spill folder: {error.strerror}; "
                "pass --spill-dir with a writable folder"
            ) from error

    def __enter__(self) -> Workspace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the files that ``create`` opened and remove the folder; again does nothing."""
        self._finalizer()

    def path(self, name: str) -> Path:
        """Return the path of a file ``name`` inside the folder."""
        return self.folder / name

    def create(self, name: str) -> FileIO:
        """Return a new empty file, open for reading and writing, unbuffered. ``close`` closes it too."""
        return self._open(name, "x+")

    def _open(self, name: str, mode: str) -> FileIO:
        try:
            file = FileIO(self.path(name), mode, opener=_within(self._folder, name))
        except OSError as error:
            raise _cannot_make(self.path(name), error) from error
        with self._mutex:
            self._files[:] = [one for one in self._files if not one.closed] + [file]
        return file

    def reuse(self, name: str) -> tuple[FileIO, int]:
        """Open a file as ``create`` does, but it may be a retired one, to be written over: that costs the system
        much less than a new one's first pages. Returns it and the bytes that are claimed for it already."""
        with self._mutex:
            retired, file, nbytes = self._retired.pop() if self._retired else ("", None, 0)
        if file is None:
            return self.create(name), 0
        with file:
            try:
                self._rename(retired, name)
            except OSError as error:
                raise _cannot_make(self.path(name), error) from error
        return self._open(name, "r+"), nbytes

    def _rename(self, name: str, new_name: str) -> None:
        os.rename(name, new_name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def map_array(self, shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """Return zeros in a file, mapped: memory of the process only where they are looked at
        (llsvm.files.growing). File and claim are gone with the array, which may outlive the workspace. Raises
        DiskError."""
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        self.claim(nbytes)
        with self.create("array") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, nbytes)  # a disk that is full says so now
            except OSError as error:
                self.release(nbytes)
                raise _cannot_make(Path(file.name), error) from error
            finally:
                os.unlink("array", dir_fd=self._folder)
            mapped = mmap.mmap(file.fileno(), nbytes)
        weakref.finalize(mapped, self.release, nbytes)
        return np.ndarray(shape, dtype, mapped)

    def retire(self, file: FileIO, nbytes: int) -> None:
        """Retire a file whose content nobody needs any more; it keeps the ``nbytes`` claimed for it until
        ``reuse`` takes it or someone else needs the disk. Its name is free again: another training in the same
        folder, of the next candidates, has stores of the same names."""
        retired = next(self._spare_names)
        try:
            self._rename(os.path.basename(file.name), retired)
        except OSError:  # somebody has removed it
            file.close()
            self.release(nbytes)
            return
        with self._mutex:
            self._retired.append((retired, file, nbytes))

    def _drop_spare(self) -> None:
        for retired, file, nbytes in self._retired:
            file.close()
            self.path(retired).unlink(missing_ok=True)
            self.used_bytes -= nbytes
        self._retired.clear()

    def claim(self, nbytes: int) -> None:
        """Account for ``nbytes`` about to be written. Raises DiskError if limit or free space forbid it."""
        with self._mutex:
            if self._retired and self._refusal(nbytes):
                self._drop_spare()
            if refusal := self._refusal(nbytes):
                raise DiskError(refusal)
            self.used_bytes += nbytes
            self.peak_bytes = max(self.peak_bytes, self.used_bytes)

    def hold_elsewhere(self, nbytes: int, more_bytes: int) -> None:
        """Count files of the run that are not in this folder: they take ``nbytes`` of the disk limit, and are to
        take ``more_bytes`` more. Raises DiskError where the limit forbids these."""
        with self._mutex:
            self.elsewhere_bytes, limit = nbytes, self.disk_limit_bytes
            if limit is not None and self.used_bytes + nbytes + more_bytes > limit:
                raise DiskError(
                    f"disk limit too small: {self.folder} holds {format_size(self.used_bytes)}, other files of "
                    f"this run {format_size(nbytes)}, and {format_size(more_bytes)} more are needed, but the "
                    f"limit is {format_size(limit)}; pass a larger --disk-limit"
                )
            self.elsewhere_bytes += more_bytes

    def _refusal(self, nbytes: int) -> str:
        """Return why there is no room for ``nbytes`` more, or ""."""
        limit, free = self.disk_limit_bytes, self.free_bytes()
        needed = (
            f"{self.folder} holds {format_size(self.used_bytes)} and {format_size(nbytes)} more are needed"
        )
        if limit is not None and self.used_bytes + self.elsewhere_bytes + nbytes > limit:
            return (
                f"disk limit too small: {needed}, but the limit is {format_size(limit)}; "
                "pass a larger --disk-limit"
            )
        if nbytes + RESERVE_BYTES > free:
            return (
                f"disk full: {needed}, but only {format_size(free)} are free there "
                f"({format_size(RESERVE_BYTES)} are left to others); "
                "pass --spill-dir with a folder on a larger disk"
            )
        return ""

    def release(self, nbytes: int) -> None:
        """Give back ``nbytes`` of what was claimed."""
        with self._mutex:
            self.used_bytes -= nbytes

    def free_bytes(self) -> int:
        """Return the bytes that the file system still has for this user."""
        return free_bytes(self.folder)


def free_bytes(folder: Path) -> int:
    """Return the bytes that the file system of a folder still has for this user."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def _cannot_make(path: Path, error: OSError) -> DiskError:
    return DiskError(f"{path}: cannot make a spill file: {error.strerror}; pass another --spill-dir")


@dataclass(frozen=True, slots=True)
class _Place:
    """A workspace's folder. parent, folder: open descriptors. By them and not by their paths are things made and
    removed: a path may lead elsewhere by now."""

    parent: int
    name: str
    folder: int
    key: int = -1

    @classmethod
    def make(cls, parent: Path, name: str) -> _Place:
        above = os.open(parent, _FOLDER)
        key = register_cleanup(lambda: cls.open(above, name).remove())
        try:
            os.mkdir(name, 0o700, dir_fd=above)
            return cls(above, name, cls.open(above, name).folder, key)
        except BaseException:
            cancel_cleanup(key)
            os.close(above)
            raise

    @classmethod
    def open(cls, parent: int, name: str) -> _Place:
        """Raises OSError where it is a link, or no folder."""
        return cls(parent, name, os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent))

    def remove(self) -> None:
        """Remove the folder, its lock last: should it not come to that, the next workspace finishes the work."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self.folder):
                if name == LOCK_NAME:
                    continue
                try:
                    os.unlink(name, dir_fd=self.folder)
                except IsADirectoryError:
                    shutil.rmtree(name, dir_fd=self.folder)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(LOCK_NAME, dir_fd=self.folder)
            here = os.stat(self.name, dir_fd=self.parent, follow_symlinks=False)
            if os.path.samestat(here, os.fstat(self.folder)):
                os.rmdir(self.name, dir_fd=self.parent)


def _within(folder: int, name: str) -> Callable[[str, int], int]:
    """Return an opener for ``FileIO`` of the file ``name`` of the folder (a descriptor), and no link of that
    name."""
    return lambda _, flags: os.open(name, flags | os.O_NOFOLLOW, 0o600, dir_fd=folder)


def _make_lock(folder: int) -> FileIO:
    lock = FileIO(LOCK_NAME, "x+", opener=_within(folder, LOCK_NAME))
    # A file system that knows no locks: others cannot lock it either, and leave the folder alone.
    with contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    lock.write(_SEAL)
    return lock


def _dispose(place: _Place, files: list[FileIO], owner_pid: int) -> None:
    if os.getpid() != owner_pid:  # a forked child inherits the object, not the folder
        return
    for file in files[1:]:
        if not file.closed:
            # Its disk is free now, even if a library or a traceback holds the removed file open yet.
            with contextlib.suppress(OSError):
                file.truncate(0)
            file.close()
    place.remove()
    for lock in files[:1]:  # last: whoever gets the lock finds nothing to do
        lock.close()
    cancel_cleanup(place.key)
    os.close(place.folder)
    os.close(place.parent)


def remove_abandoned(parent: Path) -> None:
    """Remove this user's workspaces in ``parent`` whose process is gone. Those alive, or not ours, stay.

    Whatever stands there under such names, nothing is waited for, no link is followed, and nothing outside is
    touched.
    """
    with contextlib.suppress(OSError):
        above = os.open(parent, _FOLDER)
        try:
            with os.scandir(above) as entries:
                names = [entry.name for entry in entries if entry.name.startswith(PREFIX)]
            for name in names:
                _remove_if_abandoned(above, name)
        finally:
            os.close(above)


def _remove_if_abandoned(parent: int, name: str) -> None:
    # OSError: no folder, no lock file (not a workspace, or not yet), or locked by a living process
    with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
        place = _Place.open(parent, name)
        opened.callback(os.close, place.folder)
        if maker_is_dead(name) and _is_bare(place):
            place.remove()
            return
        # O_NONBLOCK: opening a pipe would wait for its other end
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        lock = os.open(LOCK_NAME, flags, dir_fd=place.folder)
        opened.callback(os.close, lock)
        mine = os.fstat(place.folder).st_uid == os.geteuid() == os.fstat(lock).st_uid
        if mine and stat.S_ISREG(os.fstat(lock).st_mode) and os.pread(lock, len(_SEAL), 0) == _SEAL:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            place.remove()


def _is_bare(place: _Place) -> bool:
    """Return whether it is this user's, with nothing in it but maybe a lock that says nothing."""
    for name in os.listdir(place.folder):
        there = os.stat(name, dir_fd=place.folder, follow_symlinks=False)
        if name != LOCK_NAME or there.st_size or not stat.S_ISREG(there.st_mode):
            return False
    return os.fstat(place.folder).st_uid == os.geteuid()


def choose_parent(spill_dir: str | Path | None, output: str | Path | None) -> Path:
    """Return the folder to spill into: ``spill_dir``, else $TMPDIR, else the folder of the file ``output``, else
    the current folder or, if that is not writable, the system's temporary folder.

    Made if missing. Raises UsageError where the folder above it does not exist either, DiskError if it cannot be
    made or written to.
    """
    if spill_dir is not None:
        return _writable(Path(spill_dir), "--spill-dir")
    if tmpdir := os.environ.get("TMPDIR"):
        return _writable(Path(tmpdir), "$TMPDIR")
    if output is not None:
        return _writable(Path(output).absolute().parent, "the output's folder")
    here = Path.cwd()
    return here if os.access(here, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


def _writable(folder: Path, origin: str) -> Path:
    if not folder.absolute().parent.exists():
        raise UsageError(
            f"{folder}: the folder {folder.parent} does not exist ({origin}); create it first, or pass another "
            "--spill-dir"
        )
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise DiskError(
            f"{folder}: cannot make this folder to spill into ({origin}): {error.strerror}; "
            "pass another --spill-dir"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DiskError(
            f"{folder}: cannot write to this folder ({origin}); pass --spill-dir with a writable one"
        )
    return folder


def is_memory_backed(path: str | Path, mounts: str | Path = "/proc/mounts") -> bool:
    """Return whether files at ``path`` live in memory (tmpfs, ramfs), so that spilling there saves none."""
    try:
        lines = Path(mounts).read_text().splitlines()
    except OSError:  # not Linux
        return False
    target = Path(path).resolve()
    deepest, kind = Path("/"), ""
    for line in lines:
        _, where, this_kind, *_ = line.split()
        point = Path(where.encode().decode("unicode_escape"))  # a blank stands there as \\040
        # of two mounts on one point, the later one is on top
        if target.is_relative_to(point) and len(point.parts) >= len(deepest.parts):
            deepest, kind = point, this_kind
    return kind in ("tmpfs", "ramfs")


def write_at(file: FileIO, data: NDArray[np.uint8], offset: int) -> None:
    """Write all bytes of ``data`` at ``offset``. Raises DiskError (disk full, quota, file size limit)."""
    done = 0
    try:
        while done < len(data):  # one call writes 2 GB at most, and less on a full disk
            done += os.pwrite(file.fileno(), data[done:].data, offset + done)
    except OSError as error:
        raise write_failed(file, error) from error


def write_pieces_at(file: FileIO, pieces: Sequence[NDArray[np.uint8]], offset: int) -> None:
    """Write all bytes of the pieces, one after the other, from ``offset`` on. Raises DiskError, as ``write_at``."""
    try:
        done = os.pwritev(file.fileno(), [piece.data for piece in pieces], offset)
    except OSError as error:
        raise write_failed(file, error) from error
    for piece in pieces:  # what one call has left: see ``write_at``
        if done < len(piece):
            write_at(file, piece[max(done, 0) :], offset + max(done, 0))
        done, offset = done - len(piece), offset + len(piece)


def write_failed(file: FileIO, error: OSError) -> DiskError:
    return DiskError(
        f"{os.fsdecode(file.name)}: cannot write to the spill file: {error.strerror or error}; "
        + room_for(error, " there, or pass --spill-dir with a folder on another disk")
    )


def read_at(file: FileIO, out: NDArray[np.uint8], offset: int, what: str) -> None:
    """Fill ``out`` from ``offset`` on. Raises SpillError, calling it ``what``, if the file has less."""
    try:
        done = read_into(file.fileno(), out.data, offset)
    except OSError as error:
        raise damaged(file, what, f"cannot be read: {error.strerror or error}") from error
    if done < len(out):
        raise damaged(file, what, f"{len(out):,} bytes expected, {done:,} found (the file is truncated)")


def damaged(file: FileIO, what: str, how: str) -> SpillError:
    return SpillError(
        f"{os.fsdecode(file.name)}: {what}: {how}; the disk may be failing: "
        "run again with --spill-dir on another one"
    )
