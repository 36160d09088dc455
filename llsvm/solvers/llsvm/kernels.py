"""Dual coordinate descent sweeps. Rows are sparse or dense: see llsvm/solvers/optim/rows.py.

The dual of ½‖w‖² + Σ_i C_i φ(m_i, t_i) for a loss φ of llsvm.objective.losses.PLQLoss, by its four numbers, is

    D(α) = Σ_i (t_i α_i − epsilon |α_i| − ½ ridge α_i² / C_i) − ½‖w‖²,   lower C_i ≤ α_i ≤ upper C_i

Classes: m_i = y_i w·x_i, t_i = 1, w = Σ α_i y_i x_i (Hsieh et al. 2008, eqs. 3-4). Regression: m_i = w·x_i, t_i is
the row's target, w = Σ α_i x_i (Ho & Lin 2012).
A step on row i is the exact maximiser of D in α_i (Hsieh et al., Algorithm 1; the slides' update rule with η_i =
1/Q_ii; Ho & Lin, Algorithm 4, in closed form): the quadratic's, moved epsilon / Q_ii towards 0, then clipped.

The dual of the logistic loss, ½‖w‖² + Σ_i C_i log(1 + exp(−y_i w·x_i)), is, with w = Σ α_i y_i x_i and
a_i = α_i / C_i,

    D(α) = Σ_i C_i b(a_i) − ½‖w‖²,   b(a) = −a log a − (1 − a) log(1 − a),   0 < a_i < 1

(Yu, Huang & Lin 2011). A step on row i maximises D in α_i (their Algorithm 5): the root of

    log(a/(1 − a)) + Q (a − a_i) + m_i = 0,   Q = C_i ‖x_i‖²

which is found in the smaller of a and 1 − a, that digits are not lost. They begin at a small α > 0 and its weights;
here a row that was never visited has α = 0, where b is 0 too, and which needs no weights.

A new loss that no four numbers describe gets a line in ``kernels_of``; all of solver llsvm takes it then.
"""

# mypy: ignore-errors
# Numba infers the types here, and mypy cannot follow it.

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from llsvm.kernels.intrinsics import fetch
from llsvm.kernels.options import ANY_ORDER, INLINED, JIT, njit
from llsvm.objective.losses import LogisticLoss, Loss
from llsvm.solvers.optim.kernels import logistic_point
from llsvm.solvers.optim.rows import NEXT, SOON, add_row, dot_and_square, fetch_row

GAIN, GAP = 0, 1  # places in ``totals``

# Newton steps for one α of the logistic loss, at most. They take two to five, but for margins so large that α is
# next to 0: there each step leaves a tenth of it. Lower than five leaves α inexact; without a cap it would become
# 0, which has no logarithm.
ROOT_STEPS = 50
# Relative length of the last of these steps. Convergence is quadratic, so α has twice the digits: lower takes a
# step more for nothing, much higher leaves α inexact.
ROOT_ACCURACY = 1e-6


@njit(**JIT, **INLINED)
def fetch_ahead(indptr, indices, data, y, cost, alpha, margin, order, t):
    """Fetch into the cache what the sweep needs of the rows that it visits SOON and NEXT visits after the t-th."""
    if t + SOON < order.shape[0]:
        soon = order[t + SOON]
        fetch(indptr, soon)
        fetch(alpha, soon)
        fetch(cost, soon)
        fetch(y, soon)
        fetch(margin, soon)
        fetch_row(indptr, indices, data, order[t + NEXT])


class SweepRows(NamedTuple):
    """The first arguments of ``sweep`` and ``sweep_logistic``, in their order."""

    indptr: Any
    indices: Any
    data: Any
    y: Any
    cost: Any
    alpha: Any
    margin: Any
    order: Any
    w: Any
    bias: float


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
        fetch_ahead(indptr, indices, data, y, cost, alpha, margin, order, t)
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
        # where log(z/(1 − z)) − Q old + slope = 0: right of the root, and the step from there stays above 0;
        # 700: exp has no larger finite values
        z = min(0.5, 1.0 / (1.0 + math.exp(min(slope - Q * old, 700.0))))
    for _ in range(ROOT_STEPS):
        step = (math.log(z / (1.0 - z)) + Q * (z - old) + slope) / (1.0 / (z * (1.0 - z)) + Q)
        z = z - step if step < z else 0.1 * z  # a step beyond 0 goes nine tenths of the way
        if z > 0.5:
            z = 0.5
        if abs(step) <= ROOT_ACCURACY * z:
            break
    return z if smaller else 1.0 - z


@njit(**ANY_ORDER)
def sweep_logistic(
    indptr, indices, data, sign, cost, alpha, margin, order, w, bias, negligible, round_to_float32, totals
):
    """One sweep over the rows ``order``; returns how many of them (now in front) had more to gain than
    ``negligible``. Only these are updated.

    negligible: float64 ≥ 0, a part of the duality gap, in units of C_i; at 0 every row is updated, since a gain of
    less than rounding leaves α only half of its digits. The other arguments are those of ``sweep``,
    with classes; totals[GAP] is Σ C_i log(1 + exp(−m_i)) + α_i m_i − C_i b(a_i) over the visited rows, as met.
    """
    last = w.shape[0] - 1
    active = 0
    gain = 0.0
    gap = 0.0
    for t in range(order.shape[0]):
        fetch_ahead(indptr, indices, data, sign, cost, alpha, margin, order, t)
        i = order[t]
        c = cost[i]
        if c <= 0.0:
            continue
        product, square = dot_and_square(indptr, indices, data, i, w, bias)
        m = sign[i] * product
        margin[i] = m
        a = alpha[i] / c
        dual = entropy(a)
        row_gap = loss(m) + a * m - dual
        gap += c * row_gap
        if row_gap <= negligible and negligible > 0.0:
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


class Kernels(NamedTuple):
    """sweep: coordinate descent over rows, as ``sweep_logistic``. point: α and the curvature of rows at given
    weights, for Newton's method, as ``logistic_point`` (optim/proximal.py)."""

    sweep: Callable[..., int]
    point: Callable[..., None]


def kernels_of(loss: Loss) -> Kernels:
    """Return the kernels of a loss that is no PLQLoss; TypeError where there are none."""
    if isinstance(loss, LogisticLoss):
        return Kernels(sweep_logistic, logistic_point)
    raise TypeError(f"there is no kernel for loss {loss.name}: see the guide internals, To add a loss")
