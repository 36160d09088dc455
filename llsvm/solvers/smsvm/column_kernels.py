"""Coordinate descent on the quadratic model of a Newton step: by its Hessian, or by columns of the rows at hand,
Σ_i h_i (x_i·p)² without its Hessian.

Columns are CSC: column j has rows ``indices[indptr[j]:indptr[j+1]]`` with values ``data``. h: (n,) float64
curvatures of the rows. columns: (A,) int64 those to work on.
"""

from __future__ import annotations

import numpy as np

from llsvm.kernels.options import JIT, njit


@njit(**JIT)
def sweep_dense(H, some, l1, v, slope):  # type: ignore[no-untyped-def]
    """One sweep of coordinate descent over v for a quadratic with Hessian H (A, A) plus Σ_j l1_j |v_j|.

    some: (S,) int64 columns to visit. l1, v, slope: (A,) float64, the last the quadratic's gradient at v. Changes
    v and slope. Returns how much the model fell.
    """
    fall = 0.0
    for j in some:
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
def gather_columns(indptr, indices, data, columns, place, to_indptr, to_indices, to_data):  # type: ignore[no-untyped-def]
    """Copy the columns' values in rows with a place. place: (n,) int32, a row's number in the copy, or −1.

    Set: to_indptr (A + 1,), to_indices, to_data: CSC, with room for all values of the columns.
    """
    n = 0
    to_indptr[0] = 0
    for k in range(columns.shape[0]):
        j = columns[k]
        for p in range(np.uint64(indptr[j]), np.uint64(indptr[j + 1])):
            i = place[np.uint32(indices[p])]
            if i >= 0:
                to_indices[n] = i
                to_data[n] = data[p]
                n += 1
        to_indptr[k + 1] = n


@njit(**JIT)
def gather_rows(indptr, indices, data, bias, rows, place, to_indptr, to_indices, to_data):  # type: ignore[no-untyped-def]
    """The same from rows (CSR): those numbered ``rows``, ascending. place: (d + 1,) int32, a column's number in the
    copy, or −1; the last is that of the constant feature ``bias``.

    Returns False where the copy has no room for all values: nothing is copied then.
    """
    n_columns = to_indptr.shape[0] - 1
    constant = place[place.shape[0] - 1] if bias != 0.0 else -1
    to_indptr[:] = 0
    for i in rows:
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            k = place[np.uint32(indices[p])]
            if k >= 0:
                to_indptr[k + 1] += 1
    if constant >= 0:
        to_indptr[constant + 1] = rows.shape[0]
    for k in range(n_columns):
        to_indptr[k + 1] += to_indptr[k]
    if to_indptr[n_columns] > to_data.shape[0]:
        return False
    for number in range(rows.shape[0]):
        i = rows[number]
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            k = place[np.uint32(indices[p])]
            if k >= 0:
                to_indices[to_indptr[k]] = number
                to_data[to_indptr[k]] = data[p]
                to_indptr[k] += 1
        if constant >= 0:
            to_indices[to_indptr[constant]] = number
            to_data[to_indptr[constant]] = bias
            to_indptr[constant] += 1
    for k in range(n_columns, 0, -1):  # each is where the column ends now
        to_indptr[k] = to_indptr[k - 1]
    to_indptr[0] = 0
    return True


@njit(**JIT)
def descend_columns(indptr, indices, data, h, diagonal, ridge, l1, g, w, v, bent, enough, most):  # type: ignore[no-untyped-def]
    """Sweeps of coordinate descent over v for g·p + ½ Σ_i h_i (x_i·p)² + ½ Σ_j ridge_j p_j² + Σ_j l1_j |v_j|,
    p = v − w, until the violations of the optimality conditions that a sweep over all columns meets sum up to at
    most ``enough``, or ``most`` sweeps are made. Weights that stay zero are left out from one sweep to the next,
    until that has been so of the others (shrinking: Yuan, Ho & Lin 2012, section 4).

    diagonal: (A,) Σ_i h_i x_ij². ridge, l1, g, w, v: (A,) float64. bent: (n,) h_i x_i·p. Changes v and bent;
    returns how many sweeps were made.
    """
    n = v.shape[0]
    left = np.arange(n)
    n_left = n
    for sweep in range(most):
        met = 0.0
        kept = 0
        for q in range(n_left):
            k = left[q]
            bend = diagonal[k] + ridge[k]
            if bend <= 0.0:
                continue
            slope = g[k] + ridge[k] * (v[k] - w[k])
            for p in range(np.uint64(indptr[k]), np.uint64(indptr[k + 1])):
                slope += data[p] * bent[np.uint32(indices[p])]
            if v[k] > 0.0:
                off = abs(slope + l1[k])
            elif v[k] < 0.0:
                off = abs(slope - l1[k])
            else:
                off = max(abs(slope) - l1[k], 0.0)
            met += off
            if v[k] != 0.0 or off > 0.0:
                left[kept] = k
                kept += 1
            to = v[k] - slope / bend
            to = max(to - l1[k] / bend, 0.0) + min(to + l1[k] / bend, 0.0)
            change = to - v[k]
            if change != 0.0:
                v[k] = to
                for p in range(np.uint64(indptr[k]), np.uint64(indptr[k + 1])):
                    i = np.uint32(indices[p])
                    bent[i] += change * data[p] * h[i]
        if met > enough:
            n_left = kept
        elif n_left == n:
            return sweep + 1
        else:
            for k in range(n):
                left[k] = k
            n_left = n
    return most


@njit(**JIT)
def add_columns(indptr, indices, data, columns, factor, out):  # type: ignore[no-untyped-def]
    """out (n,) += Σ_j factor_j x_·j over the columns; factor: (A,)."""
    for k in range(columns.shape[0]):
        f, j = factor[k], columns[k]
        if f != 0.0:
            for p in range(np.uint64(indptr[j]), np.uint64(indptr[j + 1])):
                out[np.uint32(indices[p])] += f * data[p]


@njit(**JIT)
def dot_columns(indptr, indices, data, columns, rows, squared, out):  # type: ignore[no-untyped-def]
    """out (A,) = Σ_i rows_i x_ij for each of the columns, or Σ_i rows_i x_ij² if squared; rows: (n,) float64."""
    for k in range(columns.shape[0]):
        j = columns[k]
        total = 0.0
        for p in range(np.uint64(indptr[j]), np.uint64(indptr[j + 1])):
            x = float(data[p])
            total += (x * x if squared else x) * rows[np.uint32(indices[p])]
        out[k] = total
