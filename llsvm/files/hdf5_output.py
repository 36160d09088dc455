"""HDF5Output: what HDF5 writes to, so that it never sees an error of the disk.

HDF5 crashes where it cannot write what it has in its caches while a file is closed, at the latest when the process
ends. Here a writing never fails: the first error is kept for whoever asks, and what could not be written is held in
memory, for HDF5 reads it again. Ask often, and close the file soon after an error.
"""

from __future__ import annotations

import os
from typing import Any

from llsvm.files.file_objects import Seekable


class HDF5Output(Seekable):
    """The file of a descriptor, as ``h5py.File`` takes it.

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
        got = os.preadv(self._number, [view[:n]], self._at)
        while 0 < got < n and (more := os.preadv(self._number, [view[got:n]], self._at + got)):
            got += more
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
