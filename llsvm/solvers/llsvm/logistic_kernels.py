"""Dual coordinate descent sweeps of the logistic loss.

The dual of ½‖w‖² + Σ_i C_i log(1 + exp(−y_i w·x_i)) is, with w = Σ α_i y_i x_i and a_i = α_i / C_i,

    D(α) = Σ_i C_i b(a_i) − ½‖w‖²,   b(a) = −a log a − (1 − a) log(1 − a),   0 < a_i < 1

(Yu, Huang & Lin 2011). A step on row i maximises D in α_i (their Algorithm 5): the root of

    log(a/(1 − a)) + Q (a − a_i) + m_i = 0,   Q = C_i ‖x_i‖²

which is found in the smaller of a and 1 − a, that digits are not lost. They begin at a small α > 0 and its weights;
here a row that was never visited has α = 0, where b is 0 too, and which needs no weights.
"""

# mypy: ignore-errors
# Numba infers the types here, and mypy cannot follow it.

from __future__ import annotations

import math

import numpy as np

from llsvm.kernels.intrinsics import fetch
from llsvm.kernels.options import ANY_ORDER, INLINED, JIT, njit
from llsvm.kernels.rows import NEXT, SOON, add_row, dot_and_square, fetch_row

GAIN, GAP = 0, 1  # places in ``totals``
MAX_STEPS = 50  # of Newton's method; it takes two to five
ACCURACY = 1e-6
"""Relative length of the last step but one: convergence is quadratic, so the root has twice the digits."""


@njit(**JIT, **INLINED)
def entropy(a):
    """b(a); 0 at 0 and 1."""
    if a <= 0.0 or a >= 1.0:
        return 0.0
    return -a * math.log(a) - (1.0 - a) * math.log1p(-a)


@njit(**JIT, **INLINED)
def loss(m):
    """log(1 + exp(−m))."""
    return max(-m, 0.0) + math.log1p(math.exp(-abs(m)))


@njit(**JIT, **INLINED)
def best_share(m, a, Q):
    """The maximiser of  b(s) − (s − a) m − ½ Q (s − a)²  over 0 < s < 1; a in [0, 1], Q ≥ 0.

    On (0, ½] what must be 0 is concave and rises, so Newton's method, once left of the root, stays there."""
    smaller = Q * (0.5 - a) + m > 0.0  # than a half, is the root
    old, slope = (a, m) if smaller else (1.0 - a, -m)
    z = old
    if not 0.0 < z <= 0.5:
        # where log(z/(1 − z)) − Q old + slope = 0: right of the root, and the step from there stays above 0
        z = min(0.5, 1.0 / (1.0 + math.exp(min(slope - Q * old, 700.0))))
    for _ in range(MAX_STEPS):
        step = (math.log(z / (1.0 - z)) + Q * (z - old) + slope) / (1.0 / (z * (1.0 - z)) + Q)
        z = z - step if step < z else 0.1 * z
        if z > 0.5:
            z = 0.5
        if abs(step) <= ACCURACY * z:
            break
    return z if smaller else 1.0 - z


@njit(**ANY_ORDER)
def sweep_logistic(
    indptr, indices, data, sign, cost, alpha, margin, order, w, bias, enough, round_to_float32, totals
):
    """One sweep over the rows ``order``; returns how many of them (now in front) had more to gain than ``enough``.
    Only these are updated.

    enough: float64 ≥ 0, a part of the duality gap, in units of C_i; at 0 every row is updated, since a gain of
    less than rounding leaves α only half of its digits. The other arguments are those of ``sweep``,
    with classes; totals[GAP] is Σ C_i log(1 + exp(−m_i)) + α_i m_i − C_i b(a_i) over the visited rows, as met.
    """
    last = w.shape[0] - 1
    active = 0
    gain = 0.0
    gap = 0.0
    for t in range(order.shape[0]):
        if t + SOON < order.shape[0]:
            soon = order[t + SOON]
            fetch(indptr, soon)
            fetch(alpha, soon)
            fetch(cost, soon)
            fetch(sign, soon)
            fetch(margin, soon)
            fetch_row(indptr, indices, data, order[t + NEXT])
        i = order[t]
        c = cost[i]
        if c <= 0.0:
            continue
        product, square = dot_and_square(indptr, indices, data, i, w, bias)
        m = sign[i] * product
        margin[i] = m
        a = alpha[i] / c
        dual = entropy(a)
        mine = loss(m) + a * m - dual
        gap += c * mine
        if mine <= enough and enough > 0.0:
            continue
        order[t] = order[active]
        order[active] = i
        active += 1
        share = best_share(m, a, c * square)
        if round_to_float32:
            share = np.float64(np.float32(share))
        new = c * share
        delta = new - alpha[i]
        if delta != 0.0:
            gain += c * (entropy(share) - dual) - m * delta - 0.5 * square * delta * delta
            alpha[i] = new
            step = delta * sign[i]
            w[last] += step * bias
            add_row(indptr, indices, data, i, step, w)
    totals[GAIN] += gain
    totals[GAP] += gap
    return active
