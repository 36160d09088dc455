"""Changes of a file while it is in use, told by its size, its modification time and its identity."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llsvm.errors import DataError
from llsvm.files import remote
from llsvm.files.fingerprint import changed
from llsvm.files.inputs import STDIN, check_regular


def size_and_mtime(path: str) -> tuple[int, int]:
    """Return (bytes, modification time), by which a change is noticed before anything is read; (0, 0) for standard
    input."""
    if path == STDIN:
        return 0, 0
    if remote.is_remote(path):
        return remote.status(path)
    status = check_regular(path)
    return status.st_size, status.st_mtime_ns


@contextmanager
def unchanged(path: str, expected: tuple[int, int]) -> Iterator[None]:
    """Require that a file stays the same while it is read within this context: it must be as ``expected`` (see
    ``size_and_mtime``) when that begins, and the same file, no different, when it ends or fails.

    What is read while somebody writes is neither the old data nor the new, and beyond a file's end some libraries
    read zeros.
    Raises DataError. Standard input can be read only once and is not looked at.
    """
    if path == STDIN:
        yield
        return
    before = _require_unchanged(path, expected)
    try:
        yield
    except Exception as error:  # a file that is written to is no longer what it claims to be
        try:
            _require_unchanged(path, expected, before)
        except DataError as change:
            raise change from error
        raise
    _require_unchanged(path, expected, before)


def _require_unchanged(
    path: str, expected: tuple[int, int], identity: tuple[int, int] | None = None
) -> tuple[int, int]:
    """Return the identity of the file of that name: device and number, as far as it has one."""
    who = 0, 0
    try:
        if remote.is_remote(path):
            now = remote.status(path)
        else:
            status = check_regular(path)
            now, who = (status.st_size, status.st_mtime_ns), (status.st_dev, status.st_ino)
        if now == expected and identity in (None, who):
            return who
        how = f"{expected[0]:,} bytes at first, now {now[0]:,}"
    except DataError as error:
        if identity is None:
            raise
        how = str(error)
    raise changed(path, how)
