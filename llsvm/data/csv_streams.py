"""Streams of text that CSV is read from."""

from __future__ import annotations

import io
from typing import Any

from llsvm.files.text_input import TextInput

_END = "llsvm: end of file"


class Tail(io.RawIOBase):
    """Bytes that go by, and the last of them; ``end`` follows these."""

    def __init__(self, stream: io.RawIOBase, end: bytes) -> None:
        self._stream, self._end, self.last = stream, end, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if n := self._stream.readinto(view) or 0:
            self.last = bytes(view[n - 1 : n])
            return n
        n = min(len(view), len(self._end))
        view[:n], self._end = self._end[:n], self._end[n:]
        return n


class EndLine:
    """A line that follows the last one of a file, with a value too many, so that pyarrow asks what to do with it.

    It does not ask where the file ends within quotes, which then go on: the line is part of a value.
    """

    def __init__(self, delimiter: str, n_columns: int) -> None:
        self._text = _END + delimiter * n_columns
        self.text = f"\n{self._text}\n".encode()
        self.is_met = False

    def __call__(self, row: Any) -> str:
        """What to do with a row of too few or too many values: pyarrow's "skip" or "error"."""
        if row.text.rstrip("\r\n") != self._text:
            return "error"
        self.is_met = True
        return "skip"


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
