"""Standard input, whose first bytes may be looked at before it is read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llsvm.files.waiting import Waiting


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
        """While this lasts, standard input is looked at: what is read of it now is read again afterwards."""
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

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            raise ValueError("standard input is read in parts")
        part = memoryview(bytearray(size))
        return bytes(part[: self.readinto(part)])
