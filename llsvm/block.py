"""Block: some rows of a data set, the one thing that flows through the whole package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa


class CSR(NamedTuple):
    """Sparse rows. Row i has columns ``indices[indptr[i]:indptr[i+1]]``, ascending, zero-based.

    indptr: (n + 1,) int64, starting at any value (a slice of a larger matrix keeps its offsets).
    indices: (nnz,) int32, column numbers.
    data: (nnz,) float32 or float64, values.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[np.floating]


Matrix = CSR | NDArray[np.floating]


def parts_of(X: Matrix) -> tuple[Any, Any, NDArray[np.floating]]:
    """Return X as kernels take it (llsvm/solvers/optim/rows.py): CSR's arrays, or None, None and dense rows."""
    return (X.indptr, X.indices, X.data) if isinstance(X, CSR) else (None, None, X)


FLOAT64_BYTES = np.dtype(np.float64).itemsize
ROW_BYTES = 8 + 8 + 4  # of a row beside its values: where they begin, its number, its class id
TARGET_BYTES = 4  # more where its label is a float64 instead
WEIGHT_BYTES = 8


@dataclass(slots=True)
class Block:
    """Some rows.

    X: CSR of n rows, or (n, d) float32 or float64, C-contiguous.
    y: (n,) labels. From a source: as the source has them (float64, integers or text). From a Stream:
       int32 class ids, positions in ``stream.dataset.classes``; of a regression float64 targets; of unlabelled rows
       float64 zeros.
    rows: (n,) int64, the rows' numbers in the data set, in the order in which the source hands them out.
    weight: (n,) float64 sample weights, or None where all are 1.
    kept: n rows of a table's columns that were asked for as they are, or None; for who scores.
    learned_weight: (n,) float64, see ``counts``; None: they count by ``weight``.
    """

    X: Matrix
    y: NDArray[Any]
    rows: NDArray[np.int64]
    weight: NDArray[np.float64] | None = None
    kept: pa.RecordBatch | None = None
    learned_weight: NDArray[np.float64] | None = None

    @property
    def n_rows(self) -> int:
        return len(self.y)

    @property
    def counts(self) -> NDArray[np.float64] | None:
        """(n,) by which rows count in what is learned of all of them before training; None where all are 1."""
        return self.weight if self.learned_weight is None else self.learned_weight

    @property
    def is_dense(self) -> bool:
        return not isinstance(self.X, CSR)

    @property
    def has_targets(self) -> bool:
        """From a Stream: are labels numbers (or nothing, which is 0), not class ids?"""
        return self.y.dtype.kind == "f"

    @property
    def class_ids(self) -> NDArray[np.int32]:
        """(n,) int32, from a Stream: where labels are no classes, all rows are of the one class 0."""
        return np.zeros(self.n_rows, np.int32) if self.has_targets else self.y

    @property
    def nnz(self) -> int:
        """Stored values: explicit zeros count, every cell of a dense block counts."""
        if isinstance(self.X, CSR):
            return int(self.X.indptr[-1] - self.X.indptr[0])
        return int(self.X.size)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that the block spans (a view counts as if it were a copy)."""
        if isinstance(self.X, CSR):
            values = self.nnz * (self.X.indices.itemsize + self.X.data.itemsize) + self.X.indptr.nbytes
        else:
            values = self.X.nbytes
        return values + self.y.nbytes + self.rows.nbytes + (0 if self.weight is None else self.weight.nbytes)

    def slice(self, start: int, stop: int) -> Block:
        """Rows start..stop as a view: nothing is copied."""
        X = self.X
        part: Matrix
        if isinstance(X, CSR):
            part = CSR(X.indptr[start : stop + 1], X.indices, X.data)
        else:
            part = X[start:stop]
        weight = None if self.weight is None else self.weight[start:stop]
        columns = None if self.kept is None else self.kept.slice(start, stop - start)
        learned = None if self.learned_weight is None else self.learned_weight[start:stop]
        return Block(part, self.y[start:stop], self.rows[start:stop], weight, columns, learned)

    def take(self, index: NDArray[np.integer] | NDArray[np.bool_]) -> Block:
        """The chosen rows (a boolean mask, or positions), copied and compact."""
        if index.dtype == np.bool_:
            index = np.flatnonzero(index)
        weight = None if self.weight is None else self.weight[index]
        columns = None if self.kept is None else self.kept.take(index)
        if not isinstance(self.X, CSR):
            return Block(self.X[index], self.y[index], self.rows[index], weight, columns)
        starts = self.X.indptr[index]
        lengths = self.X.indptr[index + 1] - starts
        indptr = np.zeros(len(index) + 1, np.int64)
        np.cumsum(lengths, out=indptr[1:])
        # position of every kept value: one after the one before it, but where a row begins; in one array, since
        # there may be little memory
        where = np.ones(indptr[-1], np.int64)
        nonempty = np.flatnonzero(lengths)
        starts, last = starts[nonempty], starts[nonempty] + lengths[nonempty] - 1
        starts[1:] -= last[:-1]
        where[indptr[nonempty]] = starts
        np.cumsum(where, out=where)
        X = CSR(indptr, self.X.indices[where], self.X.data[where])
        return Block(X, self.y[index], self.rows[index], weight, columns)


def running_sum(total: float, values: NDArray[np.float64] | None, n: int) -> float:
    """The total with n values, None where all are 1, added one after the other: the same however rows are cut into
    blocks."""
    return total + n if values is None else float(np.cumsum(np.concatenate([[total], values]))[-1])


def concat(blocks: Sequence[Block]) -> Block:
    """One block with the rows of all; all dense with the same width, or all CSR."""
    if len(blocks) == 1:
        return blocks[0]
    y = np.concatenate([b.y for b in blocks])
    rows = np.concatenate([b.rows for b in blocks])
    weight = None
    if any(b.weight is not None for b in blocks):
        weight = np.concatenate([np.ones(b.n_rows) if b.weight is None else b.weight for b in blocks])
    columns = _joined([b.kept for b in blocks if b.kept is not None])
    csr = [b.X for b in blocks if isinstance(b.X, CSR)]
    if not csr:
        return Block(np.concatenate([np.asarray(b.X) for b in blocks]), y, rows, weight, columns)
    if len(csr) != len(blocks):
        raise TypeError("cannot join dense and sparse blocks")
    lengths = np.concatenate([np.diff(x.indptr) for x in csr])
    indptr = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    indices = np.concatenate([x.indices[x.indptr[0] : x.indptr[-1]] for x in csr])
    data = np.concatenate([x.data[x.indptr[0] : x.indptr[-1]] for x in csr])
    return Block(CSR(indptr, indices, data), y, rows, weight, columns)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch | None:
    """One batch with the rows of all; None of none."""
    if not batches:
        return None
    import pyarrow as pa

    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


# Sparse rows put together from parts, and those of SciPy checked.


def ones(row: NDArray[np.integer], column: NDArray[np.integer], n_rows: int) -> CSR:
    """Return the rows that ``from_cells`` makes of cells that are 1."""
    return from_cells(row, column, np.ones(len(row), np.float32), n_rows)


def from_cells(
    row: NDArray[np.integer], column: NDArray[np.integer], value: NDArray[np.floating], n_rows: int
) -> CSR:
    """Return rows from cells in any order; cells in the same place are summed, as float64.

    row, column: (m,) integers, where each cell is.
    value: (m,) floats.
    n_rows: of the answer.
    """
    order = np.lexsort((column, row))
    row, column, value = row[order], column[order], value[order]
    if len(row):
        new = np.r_[True, (row[1:] != row[:-1]) | (column[1:] != column[:-1])]
        if not new.all():
            starts = np.flatnonzero(new)
            row, column = row[starts], column[starts]
            value = np.add.reduceat(value.astype(np.float64), starts)
    indptr = np.zeros(n_rows + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=n_rows), out=indptr[1:])
    return CSR(indptr, column.astype(np.int32), value)


def beside(parts: Sequence[CSR]) -> CSR:
    """Return the rows of all parts, one beside the other; column numbers are kept, so those of a later part are
    larger."""
    if len(parts) == 1:
        return parts[0]
    lengths = [np.diff(part.indptr) for part in parts]
    indptr = np.zeros(len(parts[0].indptr), np.int64)
    np.cumsum(np.sum(lengths, axis=0), out=indptr[1:])
    indices = np.empty(indptr[-1], np.int32)
    data = np.empty(indptr[-1], np.result_type(*(part.data.dtype for part in parts)))
    start = indptr[:-1].copy()
    for part, length in zip(parts, lengths, strict=True):
        first, last = int(part.indptr[0]), int(part.indptr[-1])
        where = np.arange(last - first) + np.repeat(start - part.indptr[:-1] + first, length)
        indices[where] = part.indices[first:last]
        data[where] = part.data[first:last]
        start += length
    return CSR(indptr, indices, data)


def moved(rows: CSR, offset: int) -> CSR:
    """Return the rows with their columns so many places further on; the values are shared."""
    return rows if offset == 0 else CSR(rows.indptr, rows.indices + np.int32(offset), rows.data)


def refuse_damaged(X: Any) -> None:
    """Raise DataError unless the parts of X, a SciPy CSR matrix, fit together: kernels do not check them again."""
    n, d = X.shape
    indptr, end = X.indptr, int(X.indptr[-1])
    if len(indptr) != n + 1 or indptr[0] < 0 or end > min(len(X.indices), len(X.data)):
        raise DataError(f"X is a damaged sparse matrix: indptr does not fit its {n} rows; rebuild it")
    if (indptr[1:] < indptr[:-1]).any():
        raise DataError("X is a damaged sparse matrix: indptr does not ascend; rebuild it")
    used = X.indices[indptr[0] : end]
    if used.size and used.min() < 0:
        raise DataError("X is a damaged sparse matrix: a column index is negative; rebuild it")
    if used.size and used.max() >= d:
        raise DataError(f"X is a damaged sparse matrix: a column index is not below {d}; rebuild it")
