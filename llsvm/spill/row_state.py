"""Row state: numbers that a solver keeps for every row (its dual variables), in memory or on disk."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from llsvm.memory.budget import Reservation
from llsvm.memory.plan import STATE_CHUNK_BYTES
from llsvm.spill.packing import chunk_checksums, is_consecutive
from llsvm.spill.workspace import Workspace, damaged, read_at, write_at, write_failed

_WINDOW_CHUNKS = 4  # held at once to get or set rows that are scattered, or begin or end within a chunk
_MIN_RUN = 64  # rows on average; sorting out scattered ones costs less where runs are shorter


class RowState:
    """Array (n_rows, width), zeros at first, read and set by row numbers.

    On disk (``workspace`` given) it holds ``checksum_bytes``, checksums of its file's chunks, and a window of 64 kB
    during a call. Threads may call it at any time; a ``set`` of rows that another thread reads meanwhile may
    be seen in part.
    """

    def __init__(
        self,
        n_rows: int,
        width: int,
        dtype: DTypeLike,
        workspace: Workspace | None = None,
        name: str = "rowstate",
        reservation: Reservation | None = None,
    ) -> None:
        """``workspace``: keep it in its file ``name``, whose disk is taken at once. reservation: of its memory,
        which ``close`` releases. Raises DiskError."""
        self.n_rows = n_rows
        self.width = width
        self.dtype = np.dtype(dtype)
        self.nbytes = n_rows * width * self.dtype.itemsize  # in memory or on disk
        self._row_bytes = width * self.dtype.itemsize
        self._workspace, self._reservation = workspace, reservation
        self._memory: NDArray[Any] | None = None
        if workspace is None:
            self._memory = np.zeros((n_rows, width), self.dtype)
            return
        self._mutex = threading.Lock()
        self._chunk_rows = max(1, STATE_CHUNK_BYTES // max(self._row_bytes, 1))
        self._checksums = np.zeros((-(-n_rows // self._chunk_rows), 2), np.uint64)  # as those of zeros are
        self._path = workspace.path(name)
        workspace.claim(self.nbytes)
        self._file = workspace.create(name)
        self._allocate()

    @property
    def in_memory(self) -> bool:
        return self._workspace is None

    def get(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return a copy of the rows' values: (len(rows), width), or (len(rows),) if width is 1.

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
            self._checksums = self._checksums[:0].copy()
            self._file.close()
            self._path.unlink(missing_ok=True)
            self._workspace.release(self.nbytes)
        if self._reservation is not None:
            self._reservation.release()

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
        if (runs := _runs(rows)) is None:
            for first, window, places in self._windows(rows):
                self._read(first, window)
                values[places] = window[rows[places] - first]
            return
        for begin, end in runs:
            for first, last, at in self._pieces(int(rows[begin]), end - begin):
                out = values[begin + at : begin + at + last - first]
                window = out if self._is_whole(first, last) else self._window(first, last)
                self._read(first, window)
                if window is not out:
                    out[:] = window[first % self._chunk_rows :][: len(out)]

    def _set_on_disk(self, rows: NDArray[np.int64], values: NDArray[Any]) -> None:
        if (runs := _runs(rows)) is None:
            for first, window, places in self._windows(rows):
                self._read(first, window, locked=True)
                window[rows[places] - first] = values[places]
                self._write(first, window)
            return
        values = np.ascontiguousarray(values)
        for begin, end in runs:
            for first, last, at in self._pieces(int(rows[begin]), end - begin):
                part = values[begin + at : begin + at + last - first]
                if not self._is_whole(first, last):
                    window = self._window(first, last)
                    self._read(first, window, locked=True)
                    window[first % self._chunk_rows :][: len(part)] = part
                    part = window
                self._write(first, part)

    def _pieces(self, first: int, n: int) -> Iterator[tuple[int, int, int]]:
        """Yield (first row, last row, rows before these) of pieces of rows ``first`` to ``first + n``: all at once
        if a window holds their chunks, else whole chunks and, before and after these, parts of a chunk."""
        last, size = first + n, self._chunk_rows
        if self._chunk(last - 1) - self._chunk(first) < _WINDOW_CHUNKS:
            yield first, last, 0
            return
        begin, end = -(-first // size) * size, last if last == self.n_rows else last // size * size
        for low, high in ((first, begin), (begin, end), (end, last)):
            if low < high:
                yield low, high, low - first

    def _is_whole(self, first: int, last: int) -> bool:
        return first % self._chunk_rows == 0 and (last % self._chunk_rows == 0 or last == self.n_rows)

    def _window(self, first: int, last: int) -> NDArray[Any]:
        """Return a buffer for the chunks in which rows ``first`` to ``last`` are."""
        start, stop = self._chunk(first) * self._chunk_rows, (self._chunk(last - 1) + 1) * self._chunk_rows
        return np.empty((min(stop, self.n_rows) - start, self.width), self.dtype)

    def _windows(self, rows: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[Any], NDArray[np.int64]]]:
        """Cover scattered rows by short runs of chunks.

        Yields: the run's first row, a buffer for the run, and the positions in ``rows`` of
        the rows in it. The buffer is used again for the next run.
        """
        per_window = _WINDOW_CHUNKS * self._chunk_rows
        order = np.argsort(rows, kind="stable")  # stable: of a row that comes twice, the last is written last
        ascending = rows[order]
        cuts = np.flatnonzero(np.diff(ascending // per_window)) + 1
        buffer = np.empty((per_window, self.width), self.dtype)
        for places in np.split(order, cuts):
            first = self._chunk(int(rows[places[0]])) * self._chunk_rows
            last = min((self._chunk(int(rows[places[-1]])) + 1) * self._chunk_rows, self.n_rows)
            yield first, buffer[: last - first], places

    def _chunk(self, row: int) -> int:
        return row // self._chunk_rows

    def _read(self, first: int, out: NDArray[Any], locked: bool = False) -> None:
        """Read the whole chunks from that of row ``first`` on, checked. locked: the caller has the mutex."""
        at, data = self._chunk(first), out.reshape(-1).view(np.uint8)
        wrong = self._load(at, data)
        if len(wrong) and not locked:  # another thread may have been writing: once more, while none does
            with self._mutex:
                wrong = self._load(at, data)
        if len(wrong):
            low = (at + int(wrong[0])) * self._chunk_rows
            high = min(low + self._chunk_rows, self.n_rows)
            raise damaged(self._file, f"values of rows {low} to {high - 1}", "their checksum does not match")

    def _load(self, chunk: int, data: NDArray[np.uint8]) -> NDArray[np.intp]:
        """Fill ``data`` from a chunk on. Returns which of the chunks read are not as they were written."""
        first = chunk * self._chunk_rows
        read_at(self._file, data, first * self._row_bytes, f"values of rows from {first} on")
        checksums = chunk_checksums(data, self._chunk_rows * self._row_bytes)
        return np.flatnonzero((checksums != self._checksums[chunk : chunk + len(checksums)]).any(axis=1))

    def _write(self, first: int, values: NDArray[Any]) -> None:
        """Write whole chunks, from that of row ``first`` on."""
        at = self._chunk(first)
        data = values.reshape(-1).view(np.uint8)
        write_at(self._file, data, at * self._chunk_rows * self._row_bytes)
        sums = chunk_checksums(data, self._chunk_rows * self._row_bytes)
        self._checksums[at : at + len(sums)] = sums


def _runs(rows: NDArray[np.int64]) -> list[tuple[int, int]] | None:
    """Return where runs of consecutive rows begin and end in ``rows``, or None if they are short."""
    cuts = np.flatnonzero(np.diff(rows) != 1) + 1
    if len(cuts) > len(rows) // _MIN_RUN:
        return None
    bounds = [0, *cuts.tolist(), len(rows)]
    return list(pairwise(bounds)) if len(rows) else []


def _first(rows: NDArray[np.int64]) -> int:
    return int(rows[0]) if len(rows) else 0


def _span(rows: NDArray[np.int64]) -> slice:
    """Return the slice that consecutive rows are."""
    return slice(_first(rows), _first(rows) + len(rows))
