"""Statistics of columns, and scaling of sparse values: what ``llsvm.features.scaling`` needs of compiled code."""

from __future__ import annotations

import math

import numpy as np

from llsvm.kernels.options import INLINED, JIT, njit

# Columns of a table of statistics, (d, 6) float64: values that are neither 0 nor missing, missing values (NaN),
# and of the former the mean, the sum of squared distances from the mean, the smallest and the largest.
COUNT, MISSING, MEAN, SQUARES, SMALLEST, LARGEST = range(6)


@njit(**JIT, **INLINED)
def _take_in(table, j, x):  # type: ignore[no-untyped-def]
    """Take a value of column ``j`` into the table (Welford's update)."""
    if math.isnan(x):
        table[j, MISSING] += 1.0
    elif x != 0.0:
        table[j, COUNT] += 1.0
        away = x - table[j, MEAN]
        table[j, MEAN] += away / table[j, COUNT]
        table[j, SQUARES] += away * (x - table[j, MEAN])
        table[j, SMALLEST] = min(table[j, SMALLEST], x)
        table[j, LARGEST] = max(table[j, LARGEST], x)


@njit(**JIT)
def add_csr(begin, end, indices, data, table):  # type: ignore[no-untyped-def]
    """Take the values ``begin:end`` of sparse rows into the table; columns beyond it are left out.

    begin, end: int, the range of values.
    indices: (nnz,) int32, column numbers.
    data: (nnz,) float32 or float64, values; NaN where one is missing.
    table: (d, 6) float64, statistics of columns, changed in place.
    """
    for p in range(np.uint64(begin), np.uint64(end)):
        j, x = np.uint32(indices[p]), float(data[p])
        if j >= len(table):
            continue
        _take_in(table, j, x)


@njit(**JIT)
def add_dense(X, table):  # type: ignore[no-untyped-def]
    """Take all cells of dense rows into the table.

    X: (n, d) float32 or float64, values; NaN where one is missing.
    table: (d or more, 6) float64, statistics of columns, changed in place.
    """
    n, d = X.shape
    for i in range(n):
        for j in range(d):
            _take_in(table, j, float(X[i, j]))


@njit(**JIT)
def scale_csr(begin, end, indices, data, shift, scale, fill):  # type: ignore[no-untyped-def]
    """x ← (x − shift) · scale for the values ``begin:end``, missing ones replaced first; columns beyond ``scale``
    stay as they are.

    begin, end: int, the range of values.
    indices: (nnz,) int32, column numbers.
    data: (nnz,) float32 or float64, values, changed in place.
    shift, scale: (d,) float64, of each column.
    fill: (d,) float64, what replaces NaN.
    """
    for p in range(np.uint64(begin), np.uint64(end)):
        j, x = np.uint32(indices[p]), float(data[p])
        if j >= len(scale):
            continue
        if math.isnan(x):
            x = fill[j]
        data[p] = (x - shift[j]) * scale[j]


@njit(**JIT)
def unit_csr(indptr, data):  # type: ignore[no-untyped-def]
    """Divide every row by its Euclidean norm; a row of zeros stays.

    indptr: (n + 1,) int64, offsets into data.
    data: (nnz,) float32 or float64, values, changed in place.
    """
    for i in range(len(indptr) - 1):
        squares = 0.0
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            squares += float(data[p]) * float(data[p])
        if squares > 0.0:
            factor = 1.0 / math.sqrt(squares)
            for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                data[p] *= factor
