"""Writing files so that a crash, a full disk or a kill leaves the old file or the new one, never a half."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from llsvm import remote
from llsvm.credentials import without_credentials
from llsvm.errors import DiskError, UsageError

STDOUT = "-"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # what a system says when a disk is full


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file that takes the place of ``path`` when the block ends without an error.

    "-" is standard output. An address (``s3://...``) is written to as ``llsvm.remote.replacing`` says. Else
    it is written under a temporary name in the same folder, synced and renamed. A symbolic link is followed;
    a device or a pipe (``/dev/null``) is written to directly. After an error nothing is left.
    Raises DiskError where the disk is full, UsageError where the path cannot be written.
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
    try:
        if target.exists() and not target.is_file() and not target.is_dir():
            with open(target, "wb") as stream:
                yield stream
            return
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            with open(temporary, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            if target.is_file():
                os.chmod(temporary, target.stat().st_mode & 0o7777)
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)
    except BrokenPipeError:
        raise
    except OSError as error:
        if isinstance(error, DiskError):
            raise
        if error.errno in NO_ROOM:
            raise DiskError(f"{path}: {error.strerror}; free some space or write elsewhere") from error
        if error.filename is not None or error.filename2 is not None:
            raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
        raise


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable; some network file systems refuse, and then there is nothing to do."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def require_writable(path: str | os.PathLike[str]) -> None:
    """Raise UsageError unless ``path`` names a file that ``replacing`` can write.

    It is asked before hours of training, not after."""
    if os.fspath(path) == STDOUT:
        raise UsageError(
            "-: this is no output for a pipe: name a file, or an address (./- is a file of that name)"
        )
    if remote.is_remote(path):
        remote.require_folder(without_credentials(os.fspath(path)))
        return
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise UsageError(f"{path}: is a folder; name a file in it")
    if target.exists() and not target.is_file():
        writable = os.access(target, os.W_OK)
    elif not target.parent.is_dir():
        raise UsageError(f"{path}: the folder {target.parent} does not exist; create it first")
    else:
        writable = os.access(target.parent, os.W_OK | os.X_OK)
    if not writable:
        raise UsageError(f"{path}: cannot be written: permission denied")


@contextmanager
def replacing_path(path: str | os.PathLike[str]) -> Iterator[str]:
    """As ``replacing``, for libraries that want to open the file themselves: the name of a file to write."""
    with replacing(path) as stream:
        name = getattr(stream, "name", None)
        if not isinstance(name, str) or not os.path.isfile(name):
            raise UsageError(f"{path}: not a regular file; this format needs one")
        yield name
