"""Kernels of methods of multipliers and Newton systems: sums over rows chosen by position (row_operator.py), and
proximal points of the dual (Rockafellar 1976) of rows in memory (augmented_lagrangian.py).
"""

# mypy: ignore-errors
# Numba infers the types here, and mypy cannot follow it.

from __future__ import annotations

import numpy as np

from llsvm.kernels.options import ANY_ORDER, JIT, njit
from llsvm.solvers.optim.rows import add_row, add_squares, dot

# Places in ``totals``.
SLOPE, GAP, MOVED, DUAL, N_TOTALS = 0, 1, 2, 3, 4


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


# Sums over rows in any order, so that the loop becomes vector instructions.
@njit(**ANY_ORDER)
def proximal(
    residual, change, step, before, cost, inverse, lower, upper, ridge, epsilon, alpha, curvature, totals
):
    """The proximal points α_i of the dual (Rockafellar 1976), at the weights w + step s: the maximisers of

        α e_i − epsilon |α| − ½ ridge α²/C_i − ½ inverse (α − before_i)²,   C_i lower ≤ α ≤ C_i upper

    residual: (n,) float64 t_i − m_i at w; change: (n,) float64 by how much less it is at w + s; e_i is that of w +
    step s. before, cost: (n,) float64 α_i there, and C_i > 0. inverse: 1/σ, 0 for none; lower, upper, ridge,
    epsilon: of the loss (llsvm/objective/losses.py). inverse + ridge > 0.
    Set: alpha (n,) float64; curvature (n,) float64 dα_i/de_i, 0 at bounds and kinks. totals: (N_TOTALS,) float64:
    [SLOPE] Σ α_i change_i; [GAP] Σ C_i φ(e_i) − α_i e_i + C_i b, rows' part of the duality gap of w + step s and α;
    [MOVED] Σ (α_i − before_i)²; [DUAL] −Σ epsilon |α_i| + ½ ridge α_i²/C_i, D but for t·α − ½‖v‖².
    """
    slope = 0.0
    gap = 0.0
    moved = 0.0
    dual = 0.0
    for i in range(residual.shape[0]):
        c = cost[i]
        e = residual[i] - step * change[i]
        curved = ridge / c
        point = inverse * before[i] + e
        if epsilon > 0.0:
            point = max(point - epsilon, 0.0) + min(point + epsilon, 0.0)
        bend = 1.0 / (inverse + curved)
        a = point * bend
        low = c * lower
        high = c * upper
        inside = low < a < high and not (epsilon > 0.0 and a == 0.0)
        a = min(max(a, low), high)
        alpha[i] = a
        curvature[i] = bend if inside else 0.0
        # the loss: the same without the proximal term
        far = e
        if epsilon > 0.0:
            far = max(e - epsilon, 0.0) + min(e + epsilon, 0.0)
        if ridge > 0.0:
            best = min(max(far / curved, low), high)
        elif far > 0.0:
            best = high
        else:
            best = low
        if far == 0.0:
            best = 0.0
        loss = best * far - 0.5 * curved * best * best
        conjugate = epsilon * abs(a) + 0.5 * curved * a * a
        gap += loss - a * e + conjugate
        slope += a * change[i]
        moved += (a - before[i]) * (a - before[i])
        dual -= conjugate
    totals[SLOPE] = slope
    totals[GAP] = gap
    totals[MOVED] = moved
    totals[DUAL] = dual


@njit(**JIT)
def logistic_point(residual, change, step, cost, alpha, curvature, totals):
    """Set the point that ``proximal`` sets, for the logistic loss, which is smooth: α_i = C_i / (1 + exp(−e_i)),
    inverse = 0.

    residual: (n,) float64 −m_i at w. The other arguments are those of ``proximal``; [GAP] is 0, [MOVED] not set.
    """
    slope = 0.0
    dual = 0.0
    for i in range(residual.shape[0]):
        e = residual[i] - step * change[i]
        small = np.exp(-abs(e))
        low = small / (1.0 + small)  # the smaller of a and 1 - a
        c = cost[i]
        alpha[i] = c * (1.0 - low) if e > 0.0 else c * low
        curvature[i] = c * low * (1.0 - low)
        slope += alpha[i] * change[i]
        dual += c * (low * abs(e) + np.log1p(small))  # C_i b
    totals[SLOPE] = slope
    totals[GAP] = 0.0
    totals[DUAL] = dual
