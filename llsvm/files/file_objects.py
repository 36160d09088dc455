"""File objects in the manner of ``io``: files that wait for data, standard input, the base of seekable ones, and
what HDF5 writes to.

A file may be set not to block: O_NONBLOCK belongs to the open file, which another program may share.
"""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


def read_into(file: int, out: memoryview, offset: int) -> int:
    """Fill ``out`` with the bytes of a file (a descriptor) from ``offset`` on; return how many it has."""
    done = 0
    while done < len(out) and (n_read := os.preadv(file, [out[done:]], offset + done)):
        done += n_read
    return done


class Waiting(io.FileIO):
    """File whose reads wait for data and whose writes wait for room, whether it is set to block or not."""

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
    """File that libraries read from, or write to, at any position; subclasses say how."""

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


class HDF5Output(Seekable):
    """File of a descriptor, as ``h5py.File`` takes it; HDF5 never sees an error of the disk.

    HDF5 crashes where it cannot write what it has in its caches while a file is closed, at the latest when the
    process ends. Here a writing never fails: the first error is kept for whoever asks, and what could not be
    written is held in memory, for HDF5 reads it again. Ask often, and close the file soon after an error.

    descriptor: stays the caller's.
    ``error``: the first OSError of a writing, or None.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(os.fstat(descriptor).st_size)
        self.error: OSError | None = None
        self._number = descriptor
        self._unwritten: list[tuple[int, bytes]] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        done = 0
        try:
            while done < len(view) and self.error is None:
                done += os.pwrite(self._number, view[done:], self._at + done)
        except OSError as error:
            self.error = error
        if done < len(view):
            self._unwritten.append((self._at + done, bytes(view[done:])))
        self._at += len(view)
        self._size = max(self._size, self._at)
        return len(view)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        n = max(0, min(len(view), self._size - self._at))
        view[:n] = bytes(n)
        read_into(self._number, view[:n], self._at)
        for offset, data in self._unwritten:
            first, last = max(offset, self._at), min(offset + len(data), self._at + n)
            if first < last:
                view[first - self._at : last - self._at] = data[first - offset : last - offset]
        self._at += n
        return n

    def truncate(self, size: int | None = None) -> int:
        self._size = self._at if size is None else size
        if self.error is None:
            try:
                os.ftruncate(self._number, self._size)
            except OSError as error:
                self.error = error
        return self._size

    def check(self) -> None:
        """Raise what went wrong, if anything did."""
        if self.error is not None:
            raise self.error
