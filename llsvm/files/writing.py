"""Writing files so that a crash, a full disk or a kill leaves the old file or the new one, never a half."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from io import BufferedWriter
from pathlib import Path
from typing import Any, BinaryIO, cast

from llsvm.errors import DataError, DiskError, UsageError
from llsvm.files import remote
from llsvm.files.expansion import expand
from llsvm.files.file_objects import Waiting
from llsvm.files.remote import is_remote, without_credentials
from llsvm.process.signals import cancel_cleanup, register_cleanup, registered_cleanup

STDOUT = "-"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # what a system says when a disk is full
# what it says of a place where this user cannot have a file of this name
NO_PLACE = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EINVAL,
    errno.ETXTBSY,
    errno.EBADF,
)
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d{1,9})")
_MAX_LINKS = 40  # as Linux follows
# Names of temporary files say which process has made them, so that what a killed one has left is recognized at
# once, and nothing of one alive is taken for that.
_SIGNED = re.compile(r"[0-9a-f]{16}-([0-9a-f]{8})-([0-9]+)(?:\.|$)")
_UNKNOWN = "0" * 8
_PREFIX, _SUFFIX = ".llsvm-", ".tmp"
_ABANDONED_SECONDS = 3600  # without a write, and not locked: nobody's any more, whoever has made it
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a binary file that takes the place of ``path`` when the block ends without an error.

    "-" is standard output. An address (``s3://...``) is written to as ``llsvm.files.remote.replacing`` says. Else
    it is written under a temporary name of its own in the same folder, synced and renamed. A symbolic link is
    followed; a device, a pipe (``/dev/null``) or an open file (``/dev/stdout``, ``/dev/fd/3``) is written to
    directly. After an error nothing is left, and what killed processes of this user left in the folder is removed:
    of other hosts, an hour later.
    Raises DiskError where the disk is full or fails, UsageError where the path cannot be written.
    """
    if os.fspath(path) == STDOUT:
        if sys.stdout is None:
            raise UsageError("standard output is closed; name a file")
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if remote.is_remote(path):
        with remote.replacing(without_credentials(os.fspath(path))) as stream:
            yield stream
        return
    target = Path(os.path.realpath(path))
    with naming(path):
        special = is_special(path)
        folder = -1 if special else os.open(target.parent, _FOLDER)
    if special:
        with _opened(Path(path), path, os.O_WRONLY | os.O_CLOEXEC) as stream:
            yield stream
        return
    name = temporary_name()
    key = register_cleanup(lambda: os.unlink(target.with_name(name)))
    try:
        try:
            with _opened(target.with_name(name), path, _NEW, folder) as stream:
                yield stream
                stream.flush()
                with naming(path):
                    os.fsync(stream.fileno())
            with naming(path):
                if target.is_file():
                    os.chmod(name, target.stat().st_mode & 0o7777, dir_fd=folder)
                os.replace(name, target.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
            raise
        with suppress(OSError):  # some network file systems cannot sync a folder
            os.fsync(folder)
        _remove_abandoned(folder)
    finally:
        cancel_cleanup(key)
        os.close(folder)


def is_special(path: str | os.PathLike[str]) -> bool:
    """Return whether it is a device, a pipe or an open file, which no new file takes the place of."""
    file = Path(path)
    return _descriptor(path) is not None or (file.exists() and not file.is_file() and not file.is_dir())


def _descriptor(path: str | os.PathLike[str]) -> int | None:
    """Return the open file that a name such as /dev/stdout or /dev/fd/63 means. To open it by that name would
    begin a regular file anew, which others append to."""
    name = os.fspath(path)
    for _ in range(_MAX_LINKS):  # /dev/stdout is a link to /proc/self/fd/1
        if match := _DESCRIPTOR.fullmatch(name):
            return int(match[1])
        if not os.path.islink(name):
            break
        name = os.path.join(os.path.dirname(name), os.readlink(name))
    return None


def refuse_stdout(path: str | os.PathLike[str]) -> None:
    """Raise UsageError where "-" would mean standard output: for what is no text."""
    if os.fspath(path) == STDOUT:
        raise UsageError(
            "-: this is no output for a pipe: name a file, or an address (./- is a file of that name)"
        )


def require_writable(path: str | os.PathLike[str]) -> None:
    """Raise UsageError or DiskError unless ``replacing(path)`` works: found before hours of training, not after.

    A file of a name as long is made in the folder, and removed.
    """
    refuse_stdout(path)
    if remote.is_remote(path):
        remote.require_folder(without_credentials(os.fspath(path)))
        return
    target = Path(os.path.realpath(path))
    with naming(path):
        if target.is_dir():
            raise UsageError(f"{path}: is a folder; name a file in it")
        if (number := _descriptor(path)) is not None:
            os.fstat(number)
            return
        if is_special(path):
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
        if not target.parent.is_dir():
            raise UsageError(f"{path}: the folder {target.parent} does not exist; create it first")
        _require_own(target)
        folder = os.open(target.parent, _FOLDER)
        try:
            name = temporary_name(len(os.fsencode(target.name)))
            with registered_cleanup(lambda: os.unlink(target.with_name(name))):
                os.close(os.open(name, _NEW, 0o600, dir_fd=folder))
                os.unlink(name, dir_fd=folder)
        finally:
            os.close(folder)


def temporary_name(n_bytes: int = 0) -> str:
    """Return a ``signed_name`` of ``n_bytes`` bytes at least."""
    return signed_name(_PREFIX, _SUFFIX).ljust(n_bytes, "x")


def _require_own(target: Path) -> None:
    """Raise PermissionError where the file is another user's, in a folder such as /tmp, whose files only their
    owners may replace."""
    with suppress(FileNotFoundError):
        folder, owner = target.parent.stat(), target.stat().st_uid
        if folder.st_mode & stat.S_ISVTX and os.geteuid() not in (0, owner, folder.st_uid):
            raise PermissionError(errno.EPERM, "it is another user's")


class _Output(Waiting):
    """File whose failures to write name ``path``: not every OSError in a block that writes is of this file."""

    path: str | os.PathLike[str]

    def write(self, data: Any) -> int:
        with naming(self.path):
            return super().write(data)


def _opened(file: Path, path: str | os.PathLike[str], flags: int, folder: int | None = None) -> BinaryIO:
    """Return ``file``, open for writing, by its name in ``folder`` (a descriptor) if given; errors name
    ``path``."""

    def opener(name: str, _: int) -> int:
        if (number := _descriptor(name)) is not None:
            return os.dup(number)
        where = name if folder is None else os.path.basename(name)
        return os.open(where, flags, 0o666, dir_fd=folder)

    with naming(path):
        raw = _Output(str(file), "w", opener=opener)
    raw.path = path
    with suppress(OSError):  # a file system without locks
        if folder is not None:
            fcntl.flock(raw, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return cast(BinaryIO, BufferedWriter(raw))


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn an OSError within this context into a DiskError or a UsageError that names ``path``."""
    try:
        yield
    except (BrokenPipeError, DiskError):
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in NO_ROOM:
            raise DiskError(f"{path}: {reason}; {room_for(error, ' or write elsewhere')}") from error
        if error.errno in NO_PLACE:
            raise UsageError(f"{path}: cannot be written: {reason[:1].lower()}{reason[1:]}") from error
        raise DiskError(
            f"{path}: cannot be written: {reason}; the disk may be failing, or the network to it: write elsewhere"
        ) from error


def room_for(error: OSError, elsewhere: str = "") -> str:
    """Return the remedy where a file cannot be as large as it is to be. elsewhere: what else helps then."""
    if error.errno == errno.EFBIG:
        return "a limit on the size of files is reached: raise that of the shell (ulimit -f unlimited)"
    return f"free some space{elsewhere}"


def _remove_abandoned(folder: int) -> None:
    """Remove this user's temporary files that no living process writes any more."""
    with suppress(OSError), os.scandir(folder) as entries:
        for name in [entry.name for entry in entries if entry.name.startswith(_PREFIX)]:
            with suppress(OSError):
                if _SUFFIX in name and _is_abandoned(name, folder):
                    os.unlink(name, dir_fd=folder)


def _is_abandoned(name: str, folder: int) -> bool:
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        state = os.fstat(file)
        old = time.time() - state.st_mtime > _ABANDONED_SECONDS or maker_is_dead(name)
        if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid() or not old:
            return False
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    finally:
        os.close(file)


def refuse_overwriting(output: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Raise UsageError if ``output`` is one of the files that ``inputs`` (files, folders, patterns) stand for."""
    path = os.fspath(output)
    if not is_remote(path) and not os.path.exists(path):
        return
    for path_given in inputs:
        with suppress(DataError):  # an input that cannot be found is reported by its reader
            for file in expand([path_given]).files:
                if file == path or _is_same(file, path):
                    raise UsageError(f"{path}: would overwrite the input {file}; choose another name")


def _is_same(file: str, path: str) -> bool:
    with suppress(OSError):
        return os.path.samefile(file, path)
    return False


def signed_name(prefix: str, suffix: str = "") -> str:
    """Return a name that no other process, on whatever host, nor thread makes."""
    return f"{prefix}{secrets.token_hex(8)}-{_processes()}-{os.getpid()}{suffix}"


def maker_is_dead(name: str) -> bool:
    """Return whether the process that has made a ``signed_name`` is known to be gone; False where it ran
    elsewhere."""
    match = _SIGNED.search(name)
    if match is None or match[1] == _UNKNOWN or match[1] != _processes():
        return False
    return not os.path.exists(f"/proc/{match[2]}")


@cache
def _processes() -> str:
    """Return 8 hexadecimal digits for the processes that are numbered with this one: those of another host, boot or
    container may have the same numbers."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        numbering = boot + os.readlink("/proc/self/ns/pid")
    except OSError:
        return _UNKNOWN
    return blake2b(numbering.encode(), digest_size=4).hexdigest()
