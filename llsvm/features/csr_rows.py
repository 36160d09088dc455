"""Sparse rows put together from parts, and those of SciPy checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR
from llsvm.errors import DataError


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
