"""Newton's step on a quadratic with an L1 norm: minimise g·p + ½ pᵀHp + l1 ‖w + p‖₁ without another look at the data.

SmSVM's Algorithms 2 to 4 run on the quadratic model until its minimiser is reached: each step is Newton's on the active
set, the line search is exact, weights that reach zero leave, and those with |∂| > l1 enter. The paper takes
one such step per pass; here a pass is followed by as many as the model needs, since they cost no pass.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.linesearch import search

Vector = NDArray[np.float64]

MOST_STEPS = 100
ENOUGH = 1e-9  # of the largest first violation of the optimality conditions
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
    first = 0.0
    for _ in range(MOST_STEPS):
        violation = _violation(v, slope, l1)
        largest = float(np.max(violation, initial=0.0))
        first = first or largest
        if largest <= ENOUGH * first:
            break
        better = _newton_step(H, v, slope, l1)
        if better is None:
            better = _sweep(H, v, slope, l1)
        slope = slope + H @ (better - v)
        v = better
    return v


def _violation(v: Vector, slope: Vector, l1: float) -> Vector:
    """|smallest subgradient| of each weight."""
    return np.where(v != 0, np.abs(slope + l1 * np.sign(v)), np.maximum(np.abs(slope) - l1, 0.0))


def _newton_step(H: Vector, v: Vector, slope: Vector, l1: float) -> Vector | None:
    """Newton's step on the active set: cut off at zero for all weights that cross it, or the exact line search,
    whichever is lower; None where neither falls."""
    active = np.flatnonzero((v != 0) | (np.abs(slope) > l1))
    part, s = H[np.ix_(active, active)], slope[active]
    now = v[active]
    side = np.where(now != 0, np.sign(now), -np.sign(s))
    d = -solve(part, s + l1 * side)
    projected = np.where((now + d) * side > 0, now + d, 0.0)
    step, zeros = search(float(s @ d), float(d @ part @ d), now, d, l1)
    along = now + (step if np.isfinite(step) else 1.0) * d
    along[zeros] = 0.0

    def gain(to: Vector) -> float:
        p = to - now
        return float(-(s @ p) - 0.5 * p @ part @ p + l1 * (np.abs(now).sum() - np.abs(to).sum()))

    gains = [gain(projected), gain(along)]
    if not max(gains) > 0:
        return None
    out = v.copy()
    out[active] = projected if gains[0] >= gains[1] else along
    return out


def _sweep(H: Vector, v: Vector, slope: Vector, l1: float) -> Vector:
    """One sweep of coordinate descent, which always falls: for where Newton's direction does not."""
    v, slope = v.copy(), slope.copy()
    for j in np.flatnonzero((v != 0) | (np.abs(slope) > l1)):
        if H[j, j] <= 0:
            continue
        to = v[j] - slope[j] / H[j, j]
        to = np.sign(to) * max(abs(to) - l1 / H[j, j], 0.0)
        slope += (to - v[j]) * H[:, j]
        v[j] = to
    return v
