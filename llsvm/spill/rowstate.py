"""RowState: numbers that a solver keeps for every row (its dual variables), in memory or on disk."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from llsvm.spill.packing import is_consecutive
from llsvm.spill.rawfile import read_at, write_at, write_failed
from llsvm.spill.workspace import Workspace

_WINDOW_BYTES = 1 << 16  # scattered rows are read and written by pieces of the file of this size


class RowState:
    """An (n_rows, width) array of zeros at first, asked for by row numbers.

    On disk (``workspace`` given) it holds no memory but a window of 64 kB during a call. Threads may call it
    at any time; a ``set`` of rows that another thread reads meanwhile may be seen in part.
    """

    def __init__(
        self,
        n_rows: int,
        width: int,
        dtype: DTypeLike,
        workspace: Workspace | None = None,
        name: str = "rowstate",
    ) -> None:
        """``workspace``: keep it in its file ``name``, whose disk is taken at once. Raises DiskError."""
        self.n_rows = n_rows
        self.width = width
        self.dtype = np.dtype(dtype)
        self.nbytes = n_rows * width * self.dtype.itemsize  # in memory or on disk
        self._row_bytes = width * self.dtype.itemsize
        self._workspace = workspace
        self._memory: NDArray[Any] | None = None
        if workspace is None:
            self._memory = np.zeros((n_rows, width), self.dtype)
            return
        self._mutex = threading.Lock()
        self._path = workspace.path(name)
        workspace.claim(self.nbytes)
        self._file = workspace.create(name)
        self._allocate()

    @property
    def in_memory(self) -> bool:
        return self._workspace is None

    def get(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """A copy of the rows' values: (len(rows), width), or (len(rows),) if width is 1.

        Consecutive rows are one copy or one read. Raises IndexError for a row that is not there, SpillError
        if the file is damaged.
        """
        self._check(rows)
        if self._memory is not None:
            values = self._memory[_span(rows)].copy() if is_consecutive(rows) else self._memory[rows]
        else:
            values = np.empty((len(rows), self.width), self.dtype)
            self._get_from_disk(rows, values)
        return values[:, 0] if self.width == 1 else values

    def set(self, rows: NDArray[np.int64], values: NDArray[Any]) -> None:
        """Store the rows' values, shaped as ``get`` returns them. Of a row that comes twice, the last counts.

        Raises IndexError for a row that is not there, DiskError if the disk refuses.
        """
        self._check(rows)
        values = np.asarray(values, self.dtype).reshape(len(rows), self.width)
        if self._memory is None:
            with self._mutex:
                self._set_on_disk(rows, values)
        elif is_consecutive(rows):
            self._memory[_span(rows)] = values
        else:
            self._memory[rows] = values

    def close(self) -> None:
        """Let the memory go, or remove the file and release its disk; again does nothing."""
        self._memory = None
        if self._workspace is not None and not self._file.closed:
            self._file.close()
            self._path.unlink(missing_ok=True)
            self._workspace.release(self.nbytes)

    def _allocate(self) -> None:
        """Take the file's disk now: better to fail here than in the middle of a pass."""
        if self.nbytes == 0:
            return
        try:
            os.posix_fallocate(self._file.fileno(), 0, self.nbytes)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise write_failed(self._file, error) from error
            self._file.truncate(self.nbytes)  # this file system cannot promise: a file of holes

    def _check(self, rows: NDArray[np.int64]) -> None:
        if len(rows) and not (rows.min() >= 0 and rows.max() < self.n_rows):
            raise IndexError(f"rows {rows.min()} to {rows.max()} asked for, but there are {self.n_rows}")

    def _get_from_disk(self, rows: NDArray[np.int64], values: NDArray[Any]) -> None:
        if is_consecutive(rows):
            self._read(_first(rows), values)
            return
        for first, window, places in self._windows(rows):
            self._read(first, window)
            values[places] = window[rows[places] - first]

    def _set_on_disk(self, rows: NDArray[np.int64], values: NDArray[Any]) -> None:
        if is_consecutive(rows):
            self._write(_first(rows), np.ascontiguousarray(values))
            return
        for first, window, places in self._windows(rows):
            self._read(first, window)
            window[rows[places] - first] = values[places]
            self._write(first, window)

    def _windows(self, rows: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[Any], NDArray[np.int64]]]:
        """Cover scattered rows by short runs of the file.

        Yields: the run's first row, a buffer for the run, and the positions in ``rows`` of
        the rows in it. The buffer is used again for the next run.
        """
        per_window = max(1, _WINDOW_BYTES // self._row_bytes)
        order = np.argsort(rows, kind="stable")  # stable: of a row that comes twice, the last is written last
        ascending = rows[order]
        cuts = np.flatnonzero(np.diff(ascending // per_window)) + 1
        buffer = np.empty((per_window, self.width), self.dtype)
        for places in np.split(order, cuts):
            first, last = int(rows[places[0]]), int(rows[places[-1]])
            yield first, buffer[: last - first + 1], places

    def _read(self, first: int, out: NDArray[Any]) -> None:
        read_at(self._file, out.reshape(-1).view(np.uint8), first * self._row_bytes, f"row {first}")

    def _write(self, first: int, values: NDArray[Any]) -> None:
        write_at(self._file, values.reshape(-1).view(np.uint8), first * self._row_bytes)


def _first(rows: NDArray[np.int64]) -> int:
    return int(rows[0]) if len(rows) else 0


def _span(rows: NDArray[np.int64]) -> slice:
    """The slice that consecutive rows are."""
    return slice(_first(rows), _first(rows) + len(rows))
