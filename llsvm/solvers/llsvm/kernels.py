"""Dual coordinate descent sweeps. Rows are sparse or dense: see llsvm/kernels/rows.py.

The dual of ½‖w‖² + Σ_i C_i φ(m_i, t_i) for a loss φ of llsvm.objective.losses.PLQLoss, by its four numbers, is

    D(α) = Σ_i (t_i α_i − epsilon |α_i| − ½ ridge α_i² / C_i) − ½‖w‖²,   lower C_i ≤ α_i ≤ upper C_i

Classes: m_i = y_i w·x_i, t_i = 1, w = Σ α_i y_i x_i (Hsieh et al. 2008, eqs. 3-4). Regression: m_i = w·x_i, t_i is
the row's target, w = Σ α_i x_i (Ho & Lin 2012).
A step on row i is the exact maximiser of D in α_i (Hsieh et al., Algorithm 1; the slides' update rule with η_i =
1/Q_ii; Ho & Lin, Algorithm 4, in closed form): the quadratic's, moved epsilon / Q_ii towards 0, then clipped.
"""

# mypy: ignore-errors
# Numba infers the types here, and mypy cannot follow it.

from __future__ import annotations

import numpy as np

from llsvm.kernels.intrinsics import fetch
from llsvm.kernels.options import ANY_ORDER, njit
from llsvm.kernels.rows import NEXT, SOON, add_row, dot_and_square, fetch_row

GAIN, GAP = 0, 1  # places in ``totals``


@njit(**ANY_ORDER)
def sweep(
    indptr,
    indices,
    data,
    y,
    cost,
    alpha,
    margin,
    order,
    w,
    bias,
    targets,
    lower,
    upper,
    ridge,
    epsilon,
    round_to_float32,
    totals,
):
    """One sweep over the rows ``order``; returns how many of them (now in front) are free or were violating.

    indptr, indices, data: rows.
    y: (n,) float64: classes, -1 or +1, or targets.
    cost: (n,) float64 C_i; rows that cost 0 are passed over.
    alpha: (n,) float64, updated.
    margin: (n,) float64, set to m_i as it was when row i was visited.
    order: (v,) int64 positions, reordered: the rows that changed, or are between their bounds, come first.
    w: (d + 1,) float64, updated; the last entry is the weight of the constant feature.
    bias: float64, the constant feature's value.
    targets: bool, what y is.
    lower, upper, ridge, epsilon: float64, the loss's; see the file's head.
    round_to_float32: bool, α_i / C_i is rounded, so that a float32 store of it agrees with w to the last bit; what
        is rounded to a bound is at it.
    totals: (2,) float64, added to: [GAIN] in D; [GAP] the duality gap of the visited rows as met,
    Σ C_i φ(m_i, t_i) + α_i (m_i − t_i) + epsilon |α_i| + ½ ridge α_i² / C_i.
    """
    last = w.shape[0] - 1
    lowest, highest = np.float32(lower), np.float32(upper)
    rounds_bounds = np.float64(lowest) != lower or np.float64(highest) != upper
    flatness = 1.0 / ridge if ridge > 0.0 else 0.0
    active = 0
    gain = 0.0
    gap = 0.0
    for t in range(order.shape[0]):
        if t + SOON < order.shape[0]:
            soon = order[t + SOON]
            fetch(indptr, soon)
            fetch(alpha, soon)
            fetch(cost, soon)
            fetch(y, soon)
            fetch(margin, soon)
            fetch_row(indptr, indices, data, order[t + NEXT])
        i = order[t]
        c = cost[i]
        if c <= 0.0:
            continue
        product, square = dot_and_square(indptr, indices, data, i, w, bias)
        old = alpha[i]
        sign, target = (1.0, y[i]) if targets else (y[i], 1.0)
        m = sign * product
        margin[i] = m
        z = target - m
        above = max(z - epsilon, 0.0)
        below = max(-z - epsilon, 0.0)
        low, high = lower * c, upper * c
        curvature = 0.0
        if ridge > 0.0:
            curvature = ridge / c
            a = min(above * flatness, upper)
            b = min(below * flatness, -lower)
            loss = c * a * (above - 0.5 * ridge * a) + c * b * (below - 0.5 * ridge * b)
            gap += loss - old * z + 0.5 * curvature * old * old
        else:
            gap += c * (upper * above - lower * below) - old * z
        if epsilon > 0.0:
            gap += epsilon * abs(old)
        g = curvature * old - z
        q = square + curvature
        if q > 0.0:
            new = old - g / q
            if epsilon > 0.0:
                new = max(new - epsilon / q, 0.0) + min(new + epsilon / q, 0.0)
            new = min(max(new, low), high)
        else:  # A row without features has a constant gradient: its α belongs at a bound, or at 0.
            new = high if above > 0.0 else (low if below > 0.0 else 0.0)
        if round_to_float32:
            share = np.float32(new / c)
            new = c * np.float64(share)
            if rounds_bounds:
                new = high if share >= highest else (low if share <= lowest else new)
        delta = new - old
        if delta != 0.0:
            gain -= g * delta + 0.5 * q * delta * delta
            if epsilon > 0.0:
                gain -= epsilon * (abs(new) - abs(old))
            alpha[i] = new
            step = delta * sign
            w[last] += step * bias
            add_row(indptr, indices, data, i, step, w)
            order[t] = order[active]
            order[active] = i
            active += 1
        elif low < new < high and (epsilon == 0.0 or new != 0.0):
            order[t] = order[active]
            order[active] = i
            active += 1
    totals[GAIN] += gain
    totals[GAP] += gap
    return active


@njit(**ANY_ORDER)
def merge(w, copies, begin, end):
    """Add each thread's steps, copies[t] - w, to w, for the columns ``begin`` to ``end``.

    w: (d,) float64; copies: (threads, d) float64. Returns the sum of the products of different threads' steps.
    """
    lost = 0.0
    for j in range(begin, end):
        total = 0.0
        for t in range(copies.shape[0]):
            step = copies[t, j] - w[j]
            lost += step * total
            total += step
        w[j] += total
    return lost
