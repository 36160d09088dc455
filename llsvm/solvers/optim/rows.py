"""Rows in kernels, sparse or dense: what a kernel does with one row is written once, whichever the matrix is.

indptr, indices, data: CSR rows, (n + 1,) int64, (nnz,) int32, (nnz,) float32 or float64; or None, None and dense
rows, (n, d) float32 or float64, their columns as many as w has features, or fewer. i: int64, of a row.
w: (d + 1,) float64 or float32; the last entry is that of the constant feature ``bias``.
"""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from llsvm.kernels.intrinsics import fetch
from llsvm.kernels.options import ANY_ORDER, INLINED

# Visits ahead of which the processor is told to fetch where a row begins and what belongs to it (SOON), and then
# the row itself (NEXT): rows are visited in random order, so that it cannot guess which are next. Fewer visits are
# over before the row has come; more fetch rows that later ones drive out of the cache again.
SOON, NEXT = 12, 6
# Bytes of a line of the processor's cache. Lower asks for the same line twice, higher leaves lines out.
LINE_BYTES = 64

_OPTIONS = {name: value for name, value in ANY_ORDER.items() if name != "cache"} | INLINED


def _either(sparse, dense):
    """A function that is one of these, as the rows are. Numba puts it in place in the kernels that call it; what it
    is in Python is for runs without the compiler."""

    def function(indptr, *arguments):
        return (dense if indptr is None else sparse)(indptr, *arguments)

    @overload(function, jit_options=_OPTIONS, strict=False)
    def _(indptr, *arguments):
        return sparse if isinstance(indptr, types.Array) else dense

    return function


def _sparse_fetch(indptr, indices, data, i):
    for k in range(indptr[i], indptr[i + 1], LINE_BYTES // 4):  # bytes of a value
        fetch(indices, k)
        fetch(data, k)


def _dense_fetch(indptr, indices, data, i):
    pass


# Has a sparse row brought in; a dense one is long enough for the processor to see what comes.
fetch_row = _either(_sparse_fetch, _dense_fetch)


def _sparse_values(indptr, indices, data, i, index, value):
    start, stop = indptr[i], indptr[i + 1]
    return indices[start:stop], data[start:stop]


def _dense_values(indptr, indices, data, i, index, value):
    row, n = data[i], 0
    for j in range(row.shape[0]):
        index[n], value[n] = j, row[j]
        n += row[j] != 0.0
    return index[:n], value[:n]


# Columns and values of x_i that are not 0; index, value: room for those of a dense row, (d,) or more, int32 and of
# the type of its values.
values = _either(_sparse_values, _dense_values)


def _sparse_dot(indptr, indices, data, i, w, bias):
    total = w[w.shape[0] - 1] * bias
    for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
        total += np.float64(w[np.uint32(indices[k])]) * data[k]
    return total


def _dense_dot(indptr, indices, data, i, w, bias):
    row = data[i]
    total = 0.0
    for j in range(row.shape[0]):
        total += w[j] * np.float64(row[j])
    return total + w[w.shape[0] - 1] * bias


# w·x_i, the constant feature included.
dot = _either(_sparse_dot, _dense_dot)


def _sparse_dot_and_square(indptr, indices, data, i, w, bias):
    total, square = w[w.shape[0] - 1] * bias, bias * bias
    for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
        v = np.float64(data[k])
        total += w[np.uint32(indices[k])] * v
        square += v * v
    return total, square


def _dense_dot_and_square(indptr, indices, data, i, w, bias):
    row = data[i]
    total = square = 0.0
    for j in range(row.shape[0]):
        v = np.float64(row[j])
        total += w[j] * v
        square += v * v
    return total + w[w.shape[0] - 1] * bias, square + bias * bias


# w·x_i and ‖x_i‖², the constant feature included.
dot_and_square = _either(_sparse_dot_and_square, _dense_dot_and_square)


def _sparse_add(indptr, indices, data, i, factor, out):
    for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
        out[np.uint32(indices[k])] += factor * data[k]


def _dense_add(indptr, indices, data, i, factor, out):
    row = data[i]
    for j in range(row.shape[0]):
        out[j] += factor * row[j]


# out (d + 1,) float64 += factor x_i, the constant feature left alone.
add_row = _either(_sparse_add, _dense_add)


def _sparse_add_squares(indptr, indices, data, i, factor, out):
    for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
        v = np.float64(data[k])
        out[np.uint32(indices[k])] += factor * v * v


def _dense_add_squares(indptr, indices, data, i, factor, out):
    row = data[i]
    for j in range(row.shape[0]):
        v = np.float64(row[j])
        out[j] += factor * v * v


# out (d + 1,) float64 += factor x_i², of each column, the constant feature left alone.
add_squares = _either(_sparse_add_squares, _dense_add_squares)


def _sparse_largest(indptr, indices, data, i):
    size = 0.0
    for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
        size = max(size, abs(np.float64(data[k])))
    return size


def _dense_largest(indptr, indices, data, i):
    row = data[i]
    size = 0.0
    for j in range(row.shape[0]):
        size = max(size, abs(np.float64(row[j])))
    return size


# ‖x_i‖∞, the constant feature left aside.
largest = _either(_sparse_largest, _dense_largest)
