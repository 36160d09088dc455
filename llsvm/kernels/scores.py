"""Decision values of rows: X W + b, summed in float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix
from llsvm.kernels.options import JIT, njit


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
    """Add to the scores as ``_csr_scores`` does, from weights stored without their zeros.

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
    """Return the scores as ``matrix_scores`` does, from weights stored without their zeros; see
    ``_csr_sparse_scores``."""
    scores = np.tile(intercept, (len(X.indptr) - 1, 1))
    _csr_sparse_scores(X.indptr, X.indices, X.data, base, starts, problems, values, scores)
    return scores
