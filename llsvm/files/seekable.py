"""What files that libraries read from, or write to, through Python have in common: a size, and a place in it."""

from __future__ import annotations

import io


class Seekable(io.RawIOBase):
    """A file of so many bytes that can be read anywhere. Who subclasses it says how.

    size: in bytes.
    """

    def __init__(self, size: int) -> None:
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
