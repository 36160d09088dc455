"""File objects in the manner of ``io``: files that wait for data, standard input, and the base of seekable ones.

A file may be set not to block: O_NONBLOCK belongs to the open file, which another program may share.
"""

from __future__ import annotations

import io
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class Waiting(io.FileIO):
    """A file whose reads wait for data and whose writes wait for room, whether it is set to block or not."""

    def readinto(self, buffer: Any) -> int:
        return self._waited(lambda: super(Waiting, self).readinto(buffer), select.POLLIN)

    def read(self, size: int | None = -1) -> bytes:
        return self._waited(lambda: super(Waiting, self).read(size), select.POLLIN)

    def write(self, data: Any) -> int:
        return self._waited(lambda: super(Waiting, self).write(data), select.POLLOUT)

    def _waited(self, attempt: Callable[[], T | None], event: int) -> T:
        """Return what the attempt returns once it is not None, which stands for "not now"."""
        while (done := attempt()) is None:
            poll = select.poll()
            poll.register(self, event)
            poll.poll()
        return done


class Seekable(io.RawIOBase):
    """A file that libraries read from, or write to, at any position; subclasses say how."""

    def __init__(self, size: int) -> None:
        """size: in bytes."""
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = (0, self._at, self._size)[whence] + offset
        return self._at


class _Ahead:
    """Bytes that have been looked at, which the next reader gets first; there is one standard input in a process.

    of: the ``sys.stdin`` that they are of. looking: what is read now is to be read again.
    """

    def __init__(self) -> None:
        self._of: Any = None
        self._data = bytearray()
        self.looking = False

    @contextmanager
    def look(self) -> Iterator[None]:
        """Keep what is read of standard input within this context, so that it is read again afterwards."""
        self.looking = True
        try:
            yield
        finally:
            self.looking = False

    def add(self, data: bytes | memoryview) -> None:
        self._of = sys.stdin
        self._data += data

    def take(self) -> bytes:
        data = bytes(self._data) if self._of is sys.stdin else b""
        self._data = bytearray()
        return data


_AHEAD = _Ahead()
looking_ahead = _AHEAD.look


class StandardInput(Waiting):
    """Standard input, from its first byte if that has only been looked at."""

    def __init__(self) -> None:
        super().__init__(sys.stdin.fileno(), closefd=False)
        self._first = _AHEAD.take()

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        n = min(len(view), len(self._first))
        if n:
            view[:n], self._first = self._first[:n], self._first[n:]
        else:
            n = super().readinto(view)
        if _AHEAD.looking:
            _AHEAD.add(view[:n])
        return n

    def close(self) -> None:
        if _AHEAD.looking and self._first:
            _AHEAD.add(self._first)
            self._first = b""
        super().close()

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            raise ValueError("standard input is read in parts")
        part = memoryview(bytearray(size))
        return bytes(part[: self.readinto(part)])
