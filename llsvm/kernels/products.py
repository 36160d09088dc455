"""Dot products of sparse rows with each other."""

from __future__ import annotations

import numpy as np

from llsvm.kernels.options import JIT, njit


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
