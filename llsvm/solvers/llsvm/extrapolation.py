"""Extrapolation: where sweeps crawl, from each round of them to the next, α goes on along what this round, and the
last move before it, have made of it:

    α ← clip(α + c₁ (α − α^k) + c₂ (α^k − α^{k−1})),   c the maximiser of D, the bounds aside

which is the locally optimal form of conjugate gradients (Knyazev 2001, of one vector), sweeps their
preconditioner: errors that a round takes a small share of are gone after the root of as many rounds. What clipping
makes of it is taken as far as D rises, which never falls. Bertrand & Massias (2021, "Anderson acceleration of
coordinate descent") combine more rounds; two are as good here, once the face is found, and better before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from llsvm.block import FLOAT64_BYTES
from llsvm.objective.losses import PLQLoss
from llsvm.solvers.llsvm.duals import BlockState
from llsvm.solvers.llsvm.multipliers import WEIGHT_VECTORS, Subproblem
from llsvm.solvers.llsvm.sweeps import Sweeps

Vector = NDArray[np.float64]
Rounded = Callable[[Vector, Vector], Vector]
# Bytes of each row: its part of the subproblem 40, two points 16, the arrays of a step 88, and those of a sweep
# between two steps 24. Lower exceeds the memory limit, higher turns extrapolation down where it has room.
_ROW_BYTES = 168


def extrapolation_bytes(n_rows: int, columns: int) -> int:
    """Return what extrapolation takes for a problem of so many rows; columns: of its weights."""
    return _ROW_BYTES * n_rows + FLOAT64_BYTES * WEIGHT_VECTORS * columns


def best_combination(rises: Sequence[float], curved: Sequence[Sequence[float]]) -> Vector:
    """(m,) how much of each of some moves raises D the most: by its slopes along them, and how it bends along any
    two; the smallest, where these depend on each other."""
    return np.linalg.lstsq(np.array(curved), np.array(rises))[0]


def slope_of(loss: PLQLoss, alpha: Vector, residual: Vector | float, cost: Vector) -> Vector:
    """Return r, (n,): ∂D/∂α_i, of rows that are not at a kink. residual: (n,) or of all, t_i − m_i; t_i alone, for
    the part of it that does not depend on the weights."""
    slope = residual - loss.ridge * alpha / cost
    return slope - loss.epsilon * np.sign(alpha) if loss.epsilon else slope


def ascend(
    problem: Subproblem, rounded: Rounded, alpha: Vector, w: Vector, change: Vector
) -> tuple[float, float]:
    """Move alpha (n,) and the weights w (d + 1,) that it makes to clip(α + change), or to the best point on the way
    there.

    rounded: what storing makes of new dual variables (n,) of rows of costs (n,).
    change: (n,), which does not move rows at a kink nor lead others beyond it.
    Returns what D gains, and the share of the way; 0 and 0 where D does not rise and nothing has moved."""
    loss, cost = problem.loss, problem.cost
    assert isinstance(loss, PLQLoss)
    slope, length = slope_of(loss, alpha, problem.target, cost), 1.0
    low, high = loss.lower * cost, loss.upper * cost
    if loss.epsilon:
        low, high = np.where(alpha > 0, 0.0, low), np.where(alpha < 0, 0.0, high)
        change = np.where(alpha == 0, 0.0, change)
    new = rounded(np.clip(alpha + change, low, high), cost)
    moved, rise, curvature = _along(problem, loss, new - alpha, w, slope)
    if 0.0 < rise < curvature:
        length = rise / curvature
        new = rounded(alpha + length * (new - alpha), cost)
        moved, rise, curvature = _along(problem, loss, new - alpha, w, slope)
    gain = rise - 0.5 * curvature
    if gain <= 0.0:
        return 0.0, 0.0
    alpha[:] = new
    w += moved
    return gain, length


def _along(
    problem: Subproblem, loss: PLQLoss, change: Vector, w: Vector, slope: Vector
) -> tuple[Vector, float, float]:
    """Return what such a change of α (n,) brings to the weights, (d + 1,), and D's slope and curvature along it.
    slope: (n,) of D but for w."""
    moved, J = np.zeros_like(w), np.flatnonzero(change)
    problem.rows.add(problem.at[J], change[J] * problem.sign[J], moved)
    rise = np.einsum("i,i", slope, change) - np.einsum("i,i", w, moved)
    curvature = np.einsum("i,i", moved, moved) + loss.ridge * np.einsum("i,i", change, change / problem.cost)
    return moved, float(rise), float(curvature)


class Extrapolation:
    """Extrapolation of the sweeps of problem ``c``, over all rows of the part that may move."""

    def __init__(self, sweeps: Sweeps, part: BlockState, c: int, problem: Subproblem) -> None:
        """problem: of these rows, with a PLQLoss; its ``rest`` is not used."""
        assert isinstance(problem.loss, PLQLoss)
        self._sweeps, self._part, self._c = sweeps, part, c
        self._problem, self._loss = problem, problem.loss
        self._ridge = problem.loss.ridge / problem.cost
        self._points = list[tuple[Vector, Vector]]()  # α^{k−1} and α^k, with the weights that they make

    def step(self) -> None:
        """A round of sweeps has come to its end: move α and the weights further, if D rises."""
        at, w = self._problem.at, self._sweeps.w[self._c]
        alpha, margin = self._part.load(self._c, at)
        values = alpha[at]
        if self._points:
            change = self._best(values, w)
            self._sweeps.dual[self._c] += ascend(self._problem, self._sweeps.rounded, values, w, change)[0]
            alpha[at] = values
            self._part.store(self._c, at, alpha, margin)
        self._points = [*self._points[-1:], (values, w.copy())]

    def _best(self, alpha: Vector, w: Vector) -> Vector:
        """Return the best change of α, (r,), were there no bounds."""
        slope = slope_of(self._loss, alpha, self._problem.target, self._problem.cost)  # of D but for w
        points = [*self._points, (alpha, w)]
        steps = [(new[0] - old[0], new[1] - old[1]) for old, new in pairwise(points)]
        rises = [np.einsum("i,i", slope, a) - np.einsum("i,i", w, v) for a, v in steps]
        curved = [
            [np.einsum("i,i", v, u) + np.einsum("i,i,i", self._ridge, a, b) for b, u in steps]
            for a, v in steps
        ]
        factors = best_combination(rises, curved).tolist()
        change: Vector = sum(factor * a for factor, (a, _) in zip(factors, steps, strict=True))
        return change
