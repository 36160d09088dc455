"""Products of rows: decision values X W + b, summed in float64; sums of sparse rows, with a coefficient for each
class, and of the squares in each; and dot products of sparse rows with each other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix
from llsvm.kernels.options import ANY_ORDER, JIT, njit


@njit(**JIT)
def _csr_scores(indptr, indices, data, base, weights, scores):  # type: ignore[no-untyped-def]
    """Add the dot products of each row to its scores.

    indptr: (n + 1,) int64, indices: (nnz,) int32, data: (nnz,) float32 or float64: the rows.
    base: int, subtracted from the column numbers.
    weights: (d, k) float64, C-contiguous; columns beyond d are skipped.
    scores: (n, k) float64, changed in place.
    """
    d, k = weights.shape
    for i in range(len(indptr) - 1):
        if k == 1:
            total = 0.0
            for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                j = np.int64(indices[p]) - base
                if 0 <= j < d:
                    total += data[p] * weights[np.uint64(j), 0]
            scores[i, 0] += total
        else:
            for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                j = np.int64(indices[p]) - base
                if 0 <= j < d:
                    value = data[p]
                    for c in range(k):
                        scores[i, c] += value * weights[np.uint64(j), c]


def matrix_scores(
    X: Matrix, weights: NDArray[np.float64], intercept: NDArray[np.float64], base: int = 0
) -> NDArray[np.float64]:
    """Decision values (n, k) float64 of the rows of X.

    X: n rows, CSR or dense; columns beyond d count nothing, columns that it lacks count as zero.
    weights: (d, k) float64, C-contiguous.
    intercept: (k,) float64.
    base: int, subtracted from the column numbers of a CSR.
    """
    if isinstance(X, CSR):
        scores = np.tile(intercept, (len(X.indptr) - 1, 1))
        _csr_scores(X.indptr, X.indices, X.data, base, weights, scores)
        return scores
    width = min(X.shape[1], len(weights))
    return X[:, :width].astype(np.float64, copy=False) @ weights[:width] + intercept


@njit(**JIT)
def _csr_sparse_scores(indptr, indices, data, base, starts, problems, values, scores):  # type: ignore[no-untyped-def]
    """Add scores as ``_csr_scores`` does, of weights without zeros.

    starts: (d + 1,) int32, where each column's weights begin; problems: (nnz,) int32, values: (nnz,) float64.
    """
    d = len(starts) - 1
    for i in range(len(indptr) - 1):
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            j = np.int64(indices[p]) - base
            if 0 <= j < d:
                value = data[p]
                for q in range(starts[j], starts[j + 1]):
                    scores[i, problems[q]] += value * values[q]


def sparse_scores(
    X: CSR,
    starts: NDArray[np.int32],
    problems: NDArray[np.int32],
    values: NDArray[np.float64],
    intercept: NDArray[np.float64],
    base: int = 0,
) -> NDArray[np.float64]:
    """Return scores as ``matrix_scores`` does, of weights without zeros; see ``_csr_sparse_scores``."""
    scores = np.tile(intercept, (len(X.indptr) - 1, 1))
    _csr_sparse_scores(X.indptr, X.indices, X.data, base, starts, problems, values, scores)
    return scores


@njit(**JIT)
def add_rows(indptr, indices, data, coefficients, out):  # type: ignore[no-untyped-def]
    """out += Xᵀ V.

    indptr: (n + 1,) int64, indices: (nnz,) int32, data: (nnz,) float32 or float64: the rows X.
    coefficients: (n, k) float64, V.
    out: (d, k) float64, changed in place; d is more than any column.
    """
    k = out.shape[1]
    for i in range(len(indptr) - 1):
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            value = np.float64(data[p])
            row = out[np.uint32(indices[p])]
            for m in range(k):
                row[m] += value * coefficients[i, m]


@njit(**ANY_ORDER)
def squared_norms(indptr, data, rows, out):  # type: ignore[no-untyped-def]
    """out[i] = ‖x_j‖² for the i-th of some rows j.

    indptr: (n + 1,) int64, data: (nnz,) float32 or float64: of the rows X. rows: (m,) int64. out: (m,) float64.
    """
    for i in range(rows.shape[0]):
        total = 0.0
        for p in range(np.uint64(indptr[rows[i]]), np.uint64(indptr[rows[i] + 1])):
            value = np.float64(data[p])
            total += value * value
        out[i] = total


@njit(**JIT)
def csr_dots(indptr, indices, data, base, other_indptr, other_indices, other_data, first, end, scratch, out):  # type: ignore[no-untyped-def]
    """out[i, j] = x_i · z_j for all rows x and the rows first..end of z.

    indptr: (n + 1,) int64, indices: (nnz,) int32, data: (nnz,) float32 or float64: the rows x.
    base: int, subtracted from the column numbers of x; those of z start at 0.
    other_indptr, other_indices, other_data: as these, the rows z.
    first, end: int, the range of rows of z.
    scratch: (d,) float64, zeros before and after; d is more than any column of z, and columns of x beyond d count
        nothing.
    out: (n, m) float64, its columns first..end filled.
    """
    d = scratch.shape[0]
    for j in range(first, end):
        for p in range(np.uint64(other_indptr[j]), np.uint64(other_indptr[j + 1])):
            scratch[np.uint32(other_indices[p])] = other_data[p]
        for i in range(out.shape[0]):
            total = 0.0
            for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                column = np.int64(indices[p]) - base
                if 0 <= column < d:
                    total += data[p] * scratch[np.uint64(column)]
            out[i, j] = total
        for p in range(np.uint64(other_indptr[j]), np.uint64(other_indptr[j + 1])):
            scratch[np.uint32(other_indices[p])] = 0.0


@njit(**JIT)
def dense_dots(indptr, indices, data, base, other, out):  # type: ignore[no-untyped-def]
    """out[i, j] += x_i · z_j for sparse rows x and dense columns z.

    indptr: (n + 1,) int64, indices: (nnz,) int32, data: (nnz,) float32 or float64: the rows x.
    base: int, subtracted from the column numbers of x.
    other: (d, m) float64, C-contiguous, the columns z_j; columns of x beyond d count nothing.
    out: (n, m) float64, changed in place.
    """
    d, m = other.shape
    for i in range(out.shape[0]):
        row = out[i]
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            column = np.int64(indices[p]) - base
            if 0 <= column < d:
                value = np.float64(data[p])
                z = other[np.uint64(column)]
                for j in range(m):
                    row[j] += value * z[j]
