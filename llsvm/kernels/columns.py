"""Statistics of columns, and scaling of sparse values: compiled code of ``llsvm.features``."""

from __future__ import annotations

import math

import numpy as np

from llsvm.kernels.options import INLINED, JIT, njit

# Columns of a table of statistics, (d, 8) float64: sums of the weights of rows whose value is neither 0 nor
# missing, and of those where it is missing (NaN); of the former the mean, the sum of squared distances from the
# mean, the smallest and the largest. Mean and squares are of (x - FIRST) UNIT: FIRST is the column's first value,
# so that of values that differ in their last digits these are left, and UNIT is a power of two, so that no square
# leaves the range of a float64.
COUNT, MISSING, MEAN, SQUARES, SMALLEST, LARGEST, FIRST, UNIT = range(8)
BIG = 2.0**300  # of a value times UNIT
MAX_POWER = 1000  # of UNIT: 2^-1000 to 2^1000
SMALL_SQUARES = 2.0**-900  # Σ x² below, or beyond one over this, has lost some of its terms


@njit(**JIT, **INLINED)
def _lost_of_sum(a, b, total):  # type: ignore[no-untyped-def]
    """Return what rounding has taken of ``total`` = a + b (Knuth's two-sum)."""
    added = total - a
    return (a - (total - added)) + (b - added)


@njit(**JIT, **INLINED)
def _take_in(table, lost, j, x, weight):  # type: ignore[no-untyped-def]
    """Take a value of column ``j``, of a row of that weight, > 0, into the table (West's update, 1979)."""
    if math.isnan(x):
        before = table[j, MISSING]
        table[j, MISSING] = before + weight
        if len(lost) > 0:
            lost[j, 0] += _lost_of_sum(before, weight, table[j, MISSING])
    elif x != 0.0:
        if abs(x) * table[j, UNIT] > BIG or table[j, COUNT] == 0.0:
            unit = math.ldexp(1.0, -min(max(math.frexp(x)[1], -MAX_POWER), MAX_POWER))
            if table[j, COUNT] == 0.0:
                table[j, FIRST], table[j, UNIT] = x, unit
            change = unit / table[j, UNIT]
            table[j, MEAN] *= change
            table[j, SQUARES] *= change * change
            table[j, UNIT] = unit
            if len(lost) > 0:
                lost[j, 1] *= change
        before = table[j, COUNT]
        after = before + weight
        table[j, COUNT] = after
        scaled = x * table[j, UNIT] - table[j, FIRST] * table[j, UNIT]
        mean = table[j, MEAN]
        if len(lost) == 0:
            away = scaled - mean
            table[j, MEAN] += weight * away / after
            table[j, SQUARES] += weight * away * (scaled - table[j, MEAN])
        else:  # weights may be so far apart that these would lose all that the smaller ones bring
            lost[j, 0] += _lost_of_sum(before, weight, after)
            away = (scaled - mean) - lost[j, 1]
            table[j, SQUARES] += weight * away * away * (before / after)
            if weight <= before:
                start, step, rest = mean, away * (weight / after), lost[j, 1]
            else:
                start, step, rest = scaled, -away * (before / after), 0.0
            table[j, MEAN] = start + step
            lost[j, 1] = _lost_of_sum(start, step, table[j, MEAN]) + rest
        table[j, SMALLEST] = min(table[j, SMALLEST], x)
        table[j, LARGEST] = max(table[j, LARGEST], x)


@njit(**JIT)
def add_csr(indptr, indices, data, weight, table, lost):  # type: ignore[no-untyped-def]
    """Take sparse rows into the table, but those of weight 0; columns beyond it are left out.

    indptr: (n + 1,) int64, offsets into data.
    indices: (nnz,) int32, column numbers.
    data: (nnz,) float32 or float64, values; NaN where one is missing.
    weight: (n,) float64, of each row; (0,): all are 1.
    table: (d, 8) float64, statistics of columns, changed in place.
    lost: (d, 2) float64, changed in place: what rounding has taken of the sums of weights, and of the means;
        (0, 2): it is not wanted.
    """
    for i in range(len(indptr) - 1):
        s = weight[i] if len(weight) > 0 else 1.0
        if s == 0.0:
            continue
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            j, x = np.uint32(indices[p]), float(data[p])
            if j >= len(table):
                continue
            _take_in(table, lost, j, x, s)


@njit(**JIT)
def add_dense(X, weight, table, lost):  # type: ignore[no-untyped-def]
    """Take all cells of dense rows into the table, but those of rows of weight 0.

    X: (n, d) float32 or float64, values; NaN where one is missing.
    weight: (n,) float64, of each row; (0,): all are 1.
    table: (d or more, 8) float64, statistics of columns, changed in place.
    lost: (d or more, 2) or (0, 2), see ``add_csr``.
    """
    n, d = X.shape
    for i in range(n):
        s = weight[i] if len(weight) > 0 else 1.0
        if s == 0.0:
            continue
        for j in range(d):
            _take_in(table, lost, j, float(X[i, j]), s)


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
        if not SMALL_SQUARES < squares < 1.0 / SMALL_SQUARES:  # else some squares may have been lost
            largest = 0.0
            for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                largest = max(largest, abs(float(data[p])))
            if largest == 0.0:
                continue
            unit = math.ldexp(1.0, -min(max(math.frexp(largest)[1], -MAX_POWER), MAX_POWER))
            squares = 0.0
            for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                x = float(data[p]) * unit
                squares += x * x
                data[p] = x
        factor = 1.0 / math.sqrt(squares)
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            data[p] *= factor
