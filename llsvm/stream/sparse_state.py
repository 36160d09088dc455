"""SparseState holds numbers that a solver keeps for every row, most of them zero (the shares of many classes)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from llsvm.spill.row_state import RowState

_STEP_ROWS = 4096  # rows are unpacked and packed in steps, so that little is held beside them
# where a row's values begin, and how many there are; and, while garbage is dropped, the rows in their order and
# what sorting them takes
_ROW_BYTES = 12 + 16


class SparseState:
    """Packed array (n_rows, width), all zeros at first, which is read and set by row numbers as ``RowState`` is.

    It holds the values that are not zero and their columns, at most ``nbytes`` in all. What a row had before is
    garbage until the end of the room is reached. Where the values themselves need more, all rows move to what
    ``overflow`` makes (on disk), for good; they are there from the start where not even their places fit.
    """

    def __init__(
        self, n_rows: int, width: int, dtype: DTypeLike, nbytes: int, overflow: Callable[[], RowState]
    ) -> None:
        self.n_rows, self.width, self.dtype = n_rows, width, np.dtype(dtype)
        kind = np.dtype(np.uint16 if width <= 1 << 16 else np.int32)
        self._overflow = overflow
        self._dense: RowState | None = overflow() if nbytes < _ROW_BYTES * n_rows else None
        room = max(0, nbytes - _ROW_BYTES * n_rows) // (kind.itemsize + self.dtype.itemsize)
        n_rows = 0 if self._dense is not None else n_rows
        # memory is taken from the system as it is touched, so the room costs only what has been filled
        self._column, self._value = np.empty(room, kind), np.empty(room, self.dtype)
        self._start, self._count = np.zeros(n_rows, np.int64), np.zeros(n_rows, np.int32)
        self._end = 0

    @property
    def in_memory(self) -> bool:
        return self._dense is None

    def get(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return a copy of the rows' values, (len(rows), width). Raises as ``RowState.get``."""
        if self._dense is not None:
            return self._dense.get(rows).reshape(len(rows), self.width)
        self._check(rows)
        out = np.zeros((len(rows), self.width), self.dtype)
        for part in _steps(len(rows)):
            count = self._count[rows[part]]
            at = _ranges(self._start[rows[part]], count)
            row = np.repeat(np.arange(len(count)), count)
            out[part][row, self._column[at]] = self._value[at]
        return out

    def set(self, rows: NDArray[np.int64], values: NDArray[Any]) -> None:
        """Store the rows' values, (len(rows), width); no row may come twice. Raises as ``RowState.set``."""
        self._check(rows)
        for part in _steps(len(rows)):
            if self._dense is None:
                self._set(rows[part], values[part])
            if self._dense is not None:
                self._dense.set(rows[part], values[part])

    def close(self) -> None:
        if self._dense is not None:
            self._dense.close()

    def _set(self, rows: NDArray[np.int64], values: NDArray[Any]) -> None:
        row, column = np.nonzero(values)
        if self._end + len(row) > len(self._value):
            self._count[rows] = 0
            self._compact()
            if self._end + len(row) > len(self._value):
                self._move()
                return
        count = np.bincount(row, minlength=len(rows))
        end = self._end + len(row)
        self._column[self._end : end], self._value[self._end : end] = column, values[row, column]
        self._start[rows] = self._end + np.cumsum(count) - count
        self._count[rows] = count
        self._end = end

    def _compact(self) -> None:
        """Drop the garbage: rows only move towards the front, in the order in which they lie."""
        order = np.argsort(self._start, kind="stable")
        end = 0
        for part in _steps(self.n_rows):
            rows = order[part]
            at = _ranges(self._start[rows], self._count[rows])
            last = end + len(at)
            self._column[end:last], self._value[end:last] = self._column[at], self._value[at]
            self._start[rows] = end + np.cumsum(self._count[rows]) - self._count[rows]
            end = last
        self._end = end

    def _move(self) -> None:
        """Move all rows to what ``overflow`` makes, for good."""
        dense = self._overflow()
        for part in _steps(self.n_rows):
            rows = np.arange(part.start, min(part.stop, self.n_rows))
            dense.set(rows, self.get(rows).reshape(len(rows), self.width))
        self._dense = dense
        self._column, self._value = self._column[:0].copy(), self._value[:0].copy()
        self._start, self._count = self._start[:0].copy(), self._count[:0].copy()

    def _check(self, rows: NDArray[np.int64]) -> None:
        if len(rows) and not (rows.min() >= 0 and rows.max() < self.n_rows):
            raise IndexError(f"rows {rows.min()} to {rows.max()} asked for, but there are {self.n_rows}")


def _steps(n: int) -> Iterator[slice]:
    for start in range(0, n, _STEP_ROWS):
        yield slice(start, start + _STEP_ROWS)


def _ranges(start: NDArray[np.int64], count: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return start[0], start[0] + 1, ... (count[0] of them), start[1], ... (count[1] of them), and so on."""
    total = np.cumsum(count, dtype=np.int64)
    return np.arange(total[-1] if len(total) else 0) + np.repeat(start - total + count, count)
