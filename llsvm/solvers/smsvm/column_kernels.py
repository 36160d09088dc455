"""Coordinate descent on the quadratic model of a Newton step: by its Hessian, or by columns of the rows,
Σ_i h_i (x_i·p)² without its Hessian."""

from __future__ import annotations

import numpy as np

from llsvm.kernels.options import JIT, njit
from llsvm.solvers.optim.rows import values


@njit(**JIT)
def sweep_dense(H, columns, l1, v, slope):  # type: ignore[no-untyped-def]
    """One sweep of coordinate descent over v for a quadratic with Hessian H (A, A) plus Σ_j l1_j |v_j|.

    columns: (S,) int64, those to visit. l1, v, slope: (A,) float64, the last the quadratic's gradient at v.
    Changes v and slope. Returns how much the model fell.
    """
    fall = 0.0
    for j in columns:
        bend = H[j, j]
        if bend <= 0.0:
            continue
        to = v[j] - slope[j] / bend
        to = max(to - l1[j] / bend, 0.0) + min(to + l1[j] / bend, 0.0)
        change = to - v[j]
        if change != 0.0:
            fall -= slope[j] * change + 0.5 * bend * change * change + l1[j] * (abs(to) - abs(v[j]))
            v[j] = to
            row = H[j]
            for k in range(slope.shape[0]):
                slope[k] += change * row[k]
    return fall


@njit(**JIT)
def gather_columns(indptr, indices, data, bias, rows, h, place, n_columns, max_values):  # type: ignore[no-untyped-def]
    """Copy what the rows have in some columns.

    indptr, indices, data: rows, see llsvm/solvers/optim/rows.py. rows: (r,) int64, ascending. h: (r,) float64.
    place: (d + 1,) int32, a column's number in the copy, or −1; the last is that of the constant feature ``bias``.
    n_columns: of the copy. max_values: values that the copy may have.

    Returns indptr (n_columns + 1,), indices and data of the columns (CSC), whose rows are numbered from 0 to r − 1,
    and diagonal (n_columns,) Σ h_i x_ij²; with more than ``max_values`` values nothing is copied, and indices and
    data are empty.
    """
    constant = place[place.shape[0] - 1] if bias != 0.0 else -1
    index, value = np.empty(place.shape[0], np.int32), np.empty(place.shape[0], data.dtype)
    ends, diagonal = np.zeros(n_columns + 1, np.int64), np.zeros(n_columns)
    for i in rows:
        for j in values(indptr, indices, data, i, index, value)[0]:
            k = place[np.uint32(j)]
            if k >= 0:
                ends[k + 1] += 1
    if constant >= 0:
        ends[constant + 1] = rows.shape[0]
    for k in range(n_columns):
        ends[k + 1] += ends[k]
    n = ends[n_columns] if ends[n_columns] <= max_values else 0
    to_indices, to_data = np.empty(n, np.int32), np.empty(n, data.dtype)
    if n == 0:
        return ends, to_indices, to_data, diagonal
    for number in range(rows.shape[0]):
        row_columns, row_values = values(indptr, indices, data, rows[number], index, value)
        for p in range(row_columns.shape[0]):
            k = place[np.uint32(row_columns[p])]
            if k >= 0:
                x = np.float64(row_values[p])
                to_indices[ends[k]] = number
                to_data[ends[k]] = x
                diagonal[k] += h[number] * x * x
                ends[k] += 1
        if constant >= 0:
            to_indices[ends[constant]] = number
            to_data[ends[constant]] = bias
            diagonal[constant] += h[number] * bias * bias
            ends[constant] += 1
    for k in range(n_columns, 0, -1):  # each is where the column ends now
        ends[k] = ends[k - 1]
    ends[0] = 0
    return ends, to_indices, to_data, diagonal


@njit(**JIT)
def descend_columns(indptr, indices, data, h, diagonal, ridge, l1, g, w, v, bent, goal, max_sweeps):  # type: ignore[no-untyped-def]
    """Sweeps of coordinate descent over v for g·p + ½ Σ_i h_i (x_i·p)² + ½ Σ_j ridge_j p_j² + Σ_j l1_j |v_j|,
    p = v − w, until the violations of the optimality conditions that a sweep over all columns meets sum up to at
    most ``goal``, or ``max_sweeps`` sweeps are made. Weights that stay zero are left out from one sweep to the
    next, until the violations of the others do (shrinking: Yuan, Ho & Lin 2012, section 4).

    Columns are CSC: column j has rows ``indices[indptr[j]:indptr[j+1]]`` with values ``data``. h: (n,) float64.
    diagonal: (A,) Σ_i h_i x_ij². ridge, l1, g, w, v: (A,) float64. bent: (n,) h_i x_i·p. Changes v and bent;
    returns how many sweeps were made.
    """
    n = v.shape[0]
    candidates = np.arange(n)
    n_candidates = n
    for sweep in range(max_sweeps):
        violations = 0.0
        n_kept = 0
        for q in range(n_candidates):
            k = candidates[q]
            bend = diagonal[k] + ridge[k]
            if bend <= 0.0:
                continue
            slope = g[k] + ridge[k] * (v[k] - w[k])
            for p in range(np.uint64(indptr[k]), np.uint64(indptr[k + 1])):
                slope += data[p] * bent[np.uint32(indices[p])]
            if v[k] > 0.0:
                violation = abs(slope + l1[k])
            elif v[k] < 0.0:
                violation = abs(slope - l1[k])
            else:
                violation = max(abs(slope) - l1[k], 0.0)
            violations += violation
            if v[k] != 0.0 or violation > 0.0:
                candidates[n_kept] = k
                n_kept += 1
            to = v[k] - slope / bend
            to = max(to - l1[k] / bend, 0.0) + min(to + l1[k] / bend, 0.0)
            change = to - v[k]
            if change != 0.0:
                v[k] = to
                for p in range(np.uint64(indptr[k]), np.uint64(indptr[k + 1])):
                    i = np.uint32(indices[p])
                    bent[i] += change * data[p] * h[i]
        if violations > goal:
            n_candidates = n_kept
        elif n_candidates == n:
            return sweep + 1
        else:
            for k in range(n):
                candidates[k] = k
            n_candidates = n
    return max_sweeps
