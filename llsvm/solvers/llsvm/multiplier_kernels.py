"""Kernels of rows chosen by position (chosen_rows.py)."""

# mypy: ignore-errors
# Numba infers the types here, and mypy cannot follow it.

from __future__ import annotations

import numpy as np

from llsvm.kernels.options import ANY_ORDER, JIT, njit
from llsvm.kernels.rows import add_row, add_squares, dot


@njit(**ANY_ORDER)
def dots_at(indptr, indices, data, rows, w, bias, out):
    """out[t] = w·x_i + w[-1] bias, i = rows[t].

    indptr, indices, data: rows, see llsvm/kernels/rows.py. rows: (r,) int64.
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
def outer_at(indptr, indices, data, rows, factor, bias, out):
    """Lower triangle of out += Σ_t factor_t x_i x_iᵀ, i = rows[t]; out: (d + 1, d + 1) float64, the others as in
    ``add_at``."""
    last = out.shape[0] - 1
    bottom = out[last]
    for t in range(rows.shape[0]):
        f = factor[t]
        i = rows[t]
        begin, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        for j in range(begin, end):
            row = out[np.uint32(indices[j])]
            v = f * data[j]
            for k in range(begin, j + np.uint64(1)):
                row[np.uint32(indices[k])] += v * data[k]
            bottom[np.uint32(indices[j])] += v * bias
        bottom[last] += f * bias * bias


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
