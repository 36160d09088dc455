"""Newton's step on a quadratic with an L1 norm: minimise g·p + ½ pᵀHp + l1 ‖w + p‖₁ without another look at
the data.

SmSVM's Algorithms 2 to 4 run on the quadratic model until its minimiser is reached: each step is Newton's on
the active set, the line search is exact, weights that reach zero leave, and those with |∂| > l1 enter. The
paper takes one such step per pass; here a pass is followed by as many as the model needs, since they cost no
pass.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.optim.linesearch import search

Vector = NDArray[np.float64]

MOST_ROUNDS = 50
ENOUGH = 1e-8  # of the largest first violation of the optimality conditions
STALLED = 1e-12  # of the whole fall so far: rounding
RIDGE = 1e-12  # added to H, as a share of its mean diagonal, where it is singular


def solve(H: Vector, right: Vector) -> Vector:
    """H⁻¹ right for a symmetric positive semidefinite H (n, n), with the smallest ridge that works."""
    from scipy.linalg import cho_factor, cho_solve

    ridge = 0.0
    mean = float(np.trace(H)) / max(len(H), 1)
    while True:
        work = H.copy()
        work.flat[:: len(H) + 1] += ridge
        try:
            return np.asarray(cho_solve(cho_factor(work, lower=True, overwrite_a=True), right))
        except np.linalg.LinAlgError:
            ridge = max(ridge * 100, RIDGE * mean, 1e-300)


def minimise(H: Vector, g: Vector, w: Vector, l1: float) -> Vector:
    """The weights v that minimise g·(v − w) + ½ (v − w)ᵀH(v − w) + l1 ‖v‖₁, the zeros among them exact.

    H: (n, n) symmetric, positive semidefinite. g, w: (n,).
    """
    if l1 == 0:
        return w - solve(H, g)
    v, slope = w.copy(), g.copy()  # slope: the quadratic's gradient at v
    first, total = 0.0, 0.0
    for _ in range(MOST_ROUNDS):
        largest = float(np.max(_violation(v, slope, l1), initial=0.0))
        first = first or largest
        if largest <= ENOUGH * first:
            break
        fall = _sweep(H, v, slope, l1)
        while True:
            before = np.count_nonzero(v)
            more = _newton_step(H, v, slope, l1)
            fall += more
            if np.count_nonzero(v) == before or more <= STALLED * (total + fall):
                break  # each further step has a weight less, so this ends
        total += fall
        if fall <= STALLED * total:
            break
    return v


def _violation(v: Vector, slope: Vector, l1: float) -> Vector:
    """|smallest subgradient| of each weight."""
    return np.where(v != 0, np.abs(slope + l1 * np.sign(v)), np.maximum(np.abs(slope) - l1, 0.0))


def _sweep(H: Vector, v: Vector, slope: Vector, l1: float) -> float:
    """One sweep of coordinate descent over v, in place: weights enter and leave. Returns how much the model
    fell."""
    total = 0.0
    for j in np.flatnonzero((v != 0) | (np.abs(slope) > l1)):
        curvature = H[j, j]
        if curvature <= 0:
            continue
        to = v[j] - slope[j] / curvature
        to = np.sign(to) * max(abs(to) - l1 / curvature, 0.0)
        change = to - v[j]
        if change != 0:
            total -= slope[j] * change + 0.5 * curvature * change * change + l1 * (abs(to) - abs(v[j]))
            slope += change * H[j]
            v[j] = to
    return float(total)


def _newton_step(H: Vector, v: Vector, slope: Vector, l1: float) -> float:
    """Newton's step on the weights that are not zero, in place: with the exact line search, or cut off at zero for
    all that cross it, whichever is lower. Returns how much the model fell, 0 where v has to stay."""
    active = np.flatnonzero(v)
    part, s, now = H[np.ix_(active, active)], slope[active], v[active]
    side = np.sign(now)
    d = -solve(part, s + l1 * side)
    step, zeros = search(float(s @ d), float(d @ part @ d), now, d, l1)
    along = now + (step if np.isfinite(step) else 1.0) * d
    along[zeros] = 0.0
    cut = np.where((now + d) * side > 0, now + d, 0.0)

    def fall(to: Vector) -> float:
        p = to - now
        return float(-(s @ p) - 0.5 * p @ part @ p + l1 * (np.abs(now).sum() - np.abs(to).sum()))

    falls = [fall(along), fall(cut)]
    best = int(np.argmax(falls))
    if not falls[best] > 0:
        return 0.0
    to = (along, cut)[best]
    slope += (to - now) @ H[active]
    v[active] = to
    return falls[best]
