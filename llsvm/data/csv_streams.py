"""Streams of text that CSV is read from."""

from __future__ import annotations

import io
from typing import Any

from llsvm.files.text_input import TextInput


class Tail(io.RawIOBase):
    """Bytes that go by, and the last of them."""

    def __init__(self, stream: io.RawIOBase) -> None:
        self._stream, self.last = stream, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        n = self._stream.readinto(view) or 0
        self.last = bytes(view[n - 1 : n]) if n else self.last
        return n


class Chained(io.RawIOBase):
    """Bytes that have been read already, and then the rest."""

    def __init__(self, head: bytes, rest: TextInput) -> None:
        self._head = memoryview(head)
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if len(self._head):
            n = min(len(view), len(self._head))
            view[:n] = self._head[:n]
            self._head = self._head[n:]
            return n
        return self._rest.readinto(view)
