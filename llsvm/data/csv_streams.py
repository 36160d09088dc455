"""Streams of text that CSV is read from."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
        """Return how to treat a row of too few or too many values: pyarrow's "skip" or "error"."""
        if row.text.rstrip("\r\n") != self._text:
            return "error"
        self.is_met = True
        return "skip"


def row_with_rows(column: pa.Array, delimiter: str, n_columns: int) -> int | None:
    """Return the first row whose value is of several lines, of which one looks like a row of the table, as where a
    value begins with a quote that is not meant as one, and ends at the next such quote; None where there is
    none."""
    if n_columns < TELLING or not pc.any(pc.match_substring(column, "\n")).as_py():
        return None
    cell, many = f"[^{re.escape(delimiter)}\n]*", min(n_columns - 1, _MOST_CELLS)
    row = rf"\n(?:{cell}{re.escape(delimiter)}){{{many}}}{cell}"
    index = pc.index(pc.match_substring_regex(column, row), True).as_py()
    return None if index < 0 else index


class RowsWithin:
    """Tells values that are rows of the table, since a quote that was not meant as one began them, from those of
    several lines: where each line has the columns' values, and one of these says something. Of two columns a value
    of two lines is taken for what it is, if its quotes can be in pairs: there is but one row to tell it by.

    delimiter: between values. fits: for each column, whether it can have a value; None: any.
    """

    def __init__(self, delimiter: str, fits: Sequence[Callable[[str], bool] | None]) -> None:
        self._delimiter, self._fits = delimiter, fits

    def first(self, column: pa.Array, place: int) -> int | None:
        """Return the first row with such a value; None where there is none. place: of the column in the file."""
        for row in np.flatnonzero(pc.match_substring_regex(column, self._first_line(place)).fill_null(False)):
            if self._are_rows(column[int(row)].as_py(), place):
                return int(row)
        return None

    def _first_line(self, place: int) -> str:
        """Return a pattern of values whose first line has as many cells as a row from that place on."""
        rest, delimiter = len(self._fits) - place - 1, re.escape(self._delimiter)
        cell = f"[^{delimiter}\n]*"
        end = "" if rest <= _MOST_CELLS else "[^\n]*"
        return rf"\A(?:{cell}{delimiter}){{{min(rest, _MOST_CELLS)}}}{cell}{end}\n"

    def _are_rows(self, value: str, place: int) -> bool:
        n, lines, n_checked = len(self._fits), value.split("\n"), 0
        if n < TELLING and len(lines) < TELLING and value.count('"') % 2 == 0:
            return False
        for at, line in enumerate(lines):
            begin, end = place if at == 0 else 0, place + 1 if at == len(lines) - 1 else n
            cells = line.removesuffix("\r").split(self._delimiter)
            if len(cells) != end - begin:
                return False
            for i, cell in enumerate(cells, begin):
                fit = self._fits[i]
                if i != place and (cell[:1] == " " or (fit is not None and not fit(cell))):
                    return False
                n_checked += i != place and fit is not None
        return n_checked > 0
