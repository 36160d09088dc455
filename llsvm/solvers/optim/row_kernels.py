"""Kernels of rows chosen by position (row_operator.py)."""

# mypy: ignore-errors
# Numba infers the types here, and mypy cannot follow it.

from __future__ import annotations

import numpy as np

from llsvm.kernels.options import ANY_ORDER, JIT, njit
from llsvm.solvers.optim.rows import add_row, add_squares, dot


@njit(**ANY_ORDER)
def dots_at(indptr, indices, data, rows, w, bias, out):
    """out[t] = w·x_i + w[-1] bias, i = rows[t].

    indptr, indices, data: rows, see llsvm/solvers/optim/rows.py. rows: (r,) int64.
    w: (d + 1,) float64, the last entry is that of the constant feature ``bias``. out: (r,) float64.
    """
    for t in range(rows.shape[0]):
        out[t] = dot(indptr, indices, data, rows[t], w, bias)


@njit(**ANY_ORDER)
def add_at(indptr, indices, data, rows, factor, bias, squares, out):
    """out += Σ_t factor_t x_i, i = rows[t]; or Σ_t factor_t x_i², where ``squares`` (bool).

    factor: (r,) float64; out: (d + 1,) float64; the others as in ``dots_at``.
    """
    constant = 0.0
    for t in range(rows.shape[0]):
        f = factor[t]
        if f == 0.0:
            continue
        constant += f
        if squares:
            add_squares(indptr, indices, data, rows[t], f, out)
        else:
            add_row(indptr, indices, data, rows[t], f, out)
    out[out.shape[0] - 1] += constant * bias * bias if squares else constant * bias


@njit(**JIT)
def outer_at(indptr, indices, data, rows, factor, bias, place, columns, values, out):
    """Lower triangle of out += Σ_t factor_t x_i x_iᵀ, i = rows[t], over the columns with a place.

    place: (d + 1,) int32, a column's position in out, ascending, or -1. columns, values: room for a row, (A,) int64
    and float64. out: (A, A) float64; the others as in ``add_at``.
    """
    last = place.shape[0] - 1
    for t in range(rows.shape[0]):
        f = factor[t]
        if f == 0.0:
            continue
        i, n = rows[t], 0
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            at = place[np.uint32(indices[p])]
            if at >= 0:
                columns[n] = at
                values[n] = data[p]
                n += 1
        if bias != 0.0 and place[last] >= 0:
            columns[n] = place[last]
            values[n] = bias
            n += 1
        for j in range(n):
            row = out[np.uint64(columns[j])]
            v = f * values[j]
            for l in range(j + 1):
                row[np.uint64(columns[l])] += v * values[l]


@njit(**JIT)
def inner_at(indptr, indices, data, rows, start, bias, scratch, out):
    """Lower triangle of out[s, t] = x_i·x_j, i = rows[s], j = rows[t], from s = start on.

    scratch: (d + 1,) float64, zeros before and after. out: (r, r) float64. The others as in ``dots_at``.
    """
    for s in range(start, rows.shape[0]):
        i = rows[s]
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            scratch[np.uint32(indices[k])] = data[k]
        for t in range(s + 1):
            j = rows[t]
            dot = bias * bias
            for k in range(np.uint64(indptr[j]), np.uint64(indptr[j + 1])):
                dot += scratch[np.uint32(indices[k])] * data[k]
            out[s, t] = dot
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            scratch[np.uint32(indices[k])] = 0.0
