"""RowBuffer: a buffer of rows that grows up to a fixed number of bytes and is used again and again.

It holds whatever must sit in memory: the whole data set when it fits, the block being assembled from pages of
the cache, the survivors. Memory is taken from the system as it is touched, so a buffer may be made as large as
its limit and costs only what it holds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, ROW_BYTES, TARGET_BYTES, WEIGHT_BYTES, Block, Matrix

_INDEX_BYTES = 4  # one int32 column index
_STEP_BYTES = 1 << 17  # rows are copied and converted in steps, so that little is held beside them
_STEP_ROWS = 4096


def row_bytes(
    n_rows: int, nnz: int, itemsize: int, width: int | None, weighted: bool, targets: bool = False
) -> int:
    """Bytes that ``n_rows`` rows take in a buffer; ``width`` is None for CSR, the columns for dense rows."""
    values = nnz * (_INDEX_BYTES + itemsize) if width is None else n_rows * width * itemsize
    return values + n_rows * (ROW_BYTES + WEIGHT_BYTES * weighted + TARGET_BYTES * targets)


class RowBuffer:
    """Rows of one kind, CSR or dense of one width, whose bytes stay under a capacity.

    capacity_bytes: of the rows that it will hold, see ``row_bytes``.
    dtype: of the values, float32 or float64.
    width: columns of dense rows; None for CSR.
    weighted: rows have sample weights.
    targets: labels are float64, not class ids.
    """

    def __init__(
        self,
        capacity_bytes: int,
        dtype: np.dtype,
        width: int | None = None,
        weighted: bool = False,
        targets: bool = False,
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.dtype = np.dtype(dtype)
        self.width = width
        self.weighted = weighted
        self.targets = targets
        self.n_rows = 0
        self.nnz = 0
        # Virtual sizes: a row needs at least ROW_BYTES, a value at least its own bytes; see the file's head.
        per_row = self._bytes_of(1, 0, width)
        rows = max(1, capacity_bytes // per_row)
        self._indptr = np.zeros(rows + 1 if width is None else 1, np.int64)
        self._rows = np.empty(rows, np.int64)
        self._y: NDArray[Any] = np.empty(rows, np.float64 if targets else np.int32)
        self._weight = np.empty(rows if weighted else 0)
        values = capacity_bytes // (_INDEX_BYTES + self.dtype.itemsize) + 1
        if width is not None:  # room to ``widen`` in
            values = max(capacity_bytes // self.dtype.itemsize, rows * width)
        self._indices = np.empty(values if width is None else 0, np.int32)
        self._data = np.empty(values, self.dtype)

    @property
    def used_bytes(self) -> int:
        return self._bytes_of(self.n_rows, self.nnz, self.width)

    def _bytes_of(self, n_rows: int, nnz: int, width: int | None) -> int:
        return row_bytes(n_rows, nnz, self.dtype.itemsize, width, self.weighted, self.targets)

    def fits(self, n_rows: int, nnz: int) -> bool:
        """Would that many more rows and values stay under the capacity?"""
        return self.would_hold(self.n_rows + n_rows, self.nnz + nnz)

    def would_hold(self, n_rows: int, nnz: int) -> bool:
        """Would that many rows and values in all, in an empty buffer, stay under the capacity?"""
        return self._bytes_of(n_rows, nnz, self.width) <= self.capacity_bytes

    def could_widen(self, width: int, n_rows: int) -> bool:
        """Would the rows here and that many more stay under the capacity as dense rows of ``width``?"""
        return self._bytes_of(self.n_rows + n_rows, 0, width) <= self.capacity_bytes

    def widen(self, width: int) -> None:
        """Make the dense rows so much wider, with zeros, in place. The caller has asked ``could_widen``."""
        old = self.width
        assert old is not None
        step = max(1, _STEP_BYTES // (width * self.dtype.itemsize))
        for stop in range(self.n_rows, 0, -step):  # rows only move towards the end: the last go first
            start = max(0, stop - step)
            rows = self._data[start * old : stop * old].reshape(-1, old).copy()
            wide = self._data[start * width : stop * width].reshape(-1, width)
            wide[:, :old] = rows
            wide[:, old:] = 0
        self.width, self.nnz = width, self.n_rows * width

    def append(self, block: Block) -> None:
        """Copy a block's rows in, of either kind and any smaller width. The caller has asked ``fits``."""
        at, end = self.n_rows, self.n_rows + block.n_rows
        self._rows[at:end] = block.rows
        self._y[at:end] = block.y
        if self.weighted:
            self._weight[at:end] = 1.0 if block.weight is None else block.weight
        if self.width is None:
            self.nnz += self._append_csr(block, at)
        else:
            self._append_dense(block, at)
            self.nnz += block.n_rows * self.width
        self.n_rows = end

    def extend(self, n_rows: int, nnz: int) -> Block:
        """Make room for rows of CSR and return it, to be filled: indptr (n_rows + 1,) begins with where their
        values begin in the buffer. The caller has asked ``fits``."""
        at, end, first, last = self.n_rows, self.n_rows + n_rows, self.nnz, self.nnz + nnz
        self.n_rows, self.nnz = end, last
        self._indptr[at] = first
        X = CSR(self._indptr[at : end + 1], self._indices[first:last], self._data[first:last])
        return Block(X, self._y[at:end], self._rows[at:end], self._weight[at:end] if self.weighted else None)

    def _append_csr(self, block: Block, at: int) -> int:
        if isinstance(block.X, CSR):
            return self._copy_csr(block.X, at, self.nnz)
        n = 0
        for start, stop in steps(block.X):
            n += self._copy_csr(sparsify(block.X[start:stop]), at + start, self.nnz + n)
        return n

    def _copy_csr(self, X: CSR, at: int, first: int) -> int:
        start, stop = int(X.indptr[0]), int(X.indptr[-1])
        n = stop - start
        np.add(X.indptr[1:], first - start, out=self._indptr[at + 1 : at + len(X.indptr)])
        self._indices[first : first + n] = X.indices[start:stop]
        self._data[first : first + n] = X.data[start:stop]
        return n

    def _append_dense(self, block: Block, at: int) -> None:
        width = self.width or 0
        target = self._data[at * width : (at + block.n_rows) * width].reshape(block.n_rows, width)
        if isinstance(block.X, CSR):
            densify(block.X, target)
        else:
            filled = block.X.shape[1]
            target[:, :filled] = block.X
            target[:, filled:] = 0

    def relabel(self, finisher: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        """Replace the labels ``y`` by ``finisher(y)``."""
        self._y[: self.n_rows] = finisher(self._y[: self.n_rows])

    def append_rows(self, block: Block, chosen: NDArray[np.intp]) -> None:
        """Copy the rows ``chosen`` of a block in. The caller has asked ``fits``."""
        if self.width is None and isinstance(block.X, CSR):
            self._gather(block, chosen)
        else:
            for part in take(block, chosen):
                self.append(part)

    def _gather(self, block: Block, positions: NDArray[np.intp]) -> None:
        from llsvm.kernels.pages import gather

        X = block.X
        assert isinstance(X, CSR)
        at, end = self.n_rows, self.n_rows + len(positions)
        self._rows[at:end] = block.rows[positions]
        self._y[at:end] = block.y[positions]
        if self.weighted:
            self._weight[at:end] = 1.0 if block.weight is None else block.weight[positions]
        self._indptr[at] = self.nnz
        gather(X.indptr, X.indices, X.data, positions, self._indptr[at : end + 1], self._indices, self._data)
        self.n_rows, self.nnz = end, int(self._indptr[end])

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Drop the rows outside ``mask``, in place, with little extra memory."""
        positions = np.flatnonzero(mask)
        if len(positions) == self.n_rows:
            return
        # Rows only move towards the front, so nothing is overwritten that is still to be read.
        old = self.block()
        self.clear()
        self.append_rows(old, positions)

    def clear(self) -> None:
        self.n_rows = self.nnz = 0

    def block(self) -> Block:
        """All rows as a view, valid until the buffer changes."""
        n = self.n_rows
        weight = self._weight[:n] if self.weighted else None
        if self.width is None:
            X = CSR(self._indptr[: n + 1], self._indices[: self.nnz], self._data[: self.nnz])
            return Block(X, self._y[:n], self._rows[:n], weight)
        dense = self._data[: n * self.width].reshape(n, self.width)
        return Block(dense, self._y[:n], self._rows[:n], weight)


def take(block: Block, chosen: NDArray[np.intp], nbytes: int = _STEP_BYTES) -> Iterator[Block]:
    """The rows ``chosen``, copied, in parts of about ``nbytes`` (a single row may be larger)."""
    for start in range(0, len(chosen), _STEP_ROWS):
        piece = chosen[start : start + _STEP_ROWS]
        if isinstance(block.X, CSR):
            lengths = block.X.indptr[piece + 1] - block.X.indptr[piece]
            ends = np.cumsum(lengths * (_INDEX_BYTES + block.X.data.itemsize) + ROW_BYTES)
        else:
            ends = np.arange(1, len(piece) + 1) * (block.X.shape[1] * block.X.itemsize + ROW_BYTES)
        # a part ends with the row that reaches the next multiple of nbytes
        cuts = np.flatnonzero(np.diff(ends // max(nbytes, 1))) + 1
        for part in np.split(piece, cuts):
            yield block.take(part)


def steps(X: Matrix, nbytes: int = _STEP_BYTES) -> Iterator[tuple[int, int]]:
    """Ranges of consecutive rows that take ``nbytes`` at most (a single row may be larger)."""
    n = len(X.indptr) - 1 if isinstance(X, CSR) else len(X)

    def size(stop: int) -> int:
        values = int(X.indptr[stop]) * (_INDEX_BYTES + X.data.itemsize) if isinstance(X, CSR) else 0
        return values + stop * (ROW_BYTES if isinstance(X, CSR) else X.shape[1] * X.itemsize + ROW_BYTES)

    start = 0
    while start < n:
        stop = start + 1 + bisect_right(range(start + 2, n + 1), size(start) + nbytes, key=size)
        yield start, stop
        start = stop


def densify(X: CSR, out: NDArray[np.floating]) -> None:
    """Write sparse rows into ``out`` (n, d), C-contiguous; d is larger than every column number."""
    from llsvm.kernels.pages import scatter

    scatter(X.indptr, X.indices, X.data, out)


def sparsify(X: NDArray[np.floating]) -> CSR:
    """The non-zero values of dense rows."""
    i, j = np.nonzero(X)
    indptr = np.zeros(len(X) + 1, np.int64)
    np.cumsum(np.bincount(i, minlength=len(X)), out=indptr[1:])
    return CSR(indptr, j.astype(np.int32), X[i, j])
