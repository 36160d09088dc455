"""Sums over sparse rows: of the rows, with a coefficient for each class, and of the squares in each."""

from __future__ import annotations

import numpy as np

from llsvm.kernels.options import ANY_ORDER, JIT, njit


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
