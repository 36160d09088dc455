"""Streams of text that CSV is read from."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from llsvm.files.text_input import TextInput

_END = "llsvm: end of file"
TELLING = 3  # columns: a line of fewer values may be anything
_MOST_CELLS = 50  # of a line, that are looked for


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


def row_with_rows(column: pa.Array, delimiter: str, n_columns: int) -> int | None:
    """The first row whose value is of several lines, of which one looks like a row of the table, as where a value
    begins with a quote that is not meant as one, and ends at the next such quote; None where there is none."""
    if n_columns < TELLING or not pc.any(pc.match_substring(column, "\n")).as_py():
        return None
    cell, many = f"[^{re.escape(delimiter)}\n]*", min(n_columns - 1, _MOST_CELLS)
    row = rf"\n(?:{cell}{re.escape(delimiter)}){{{many}}}{cell}"
    found = pc.index(pc.match_substring_regex(column, row), True).as_py()
    return None if found < 0 else found


class RowsWithin:
    """Tells values that are rows of the table, since a quote that was not meant as one began them, from those of
    several lines: where each line has the columns' values, and one of these says something.

    delimiter: between values. fits: for each column, whether it can have a value; None: any.
    """

    def __init__(self, delimiter: str, fits: Sequence[Callable[[str], bool] | None]) -> None:
        self._delimiter, self._fits = delimiter, fits

    def first(self, column: pa.Array, place: int) -> int | None:
        """The first row with such a value; None where there is none. place: of the column in the file."""
        for row in np.flatnonzero(pc.match_substring(column, "\n").fill_null(False)):
            if self._are_rows(column[int(row)].as_py(), place):
                return int(row)
        return None

    def _are_rows(self, value: str, place: int) -> bool:
        n, (first, *lines) = len(self._fits), (line.split(self._delimiter) for line in value.splitlines())
        told = self._told(first[1:], place + 1) if len(first) == n - place else -1
        for cells in lines[:-1]:
            before, after = self._told(cells[:place], 0), self._told(cells[place + 1 :], place + 1)
            told = told + before + after if len(cells) == n and min(told, before, after) >= 0 else -1
        begun = self._told(lines[-1][:place], 0) if lines and len(lines[-1]) == place + 1 else -1
        return min(told, begun) >= 0 and told + begun > 0

    def _told(self, cells: Sequence[str], place: int) -> int:
        """How many of the cells say something; -1 where one does not fit its column. place: of the first one."""
        told = 0
        for cell, fit in zip(cells, self._fits[place:], strict=False):
            if cell[:1] == " " or (fit is not None and not fit(cell)):
                return -1
            told += fit is not None
        return told


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
