"""Conjugate gradients on the face: where there are many columns, the systems of the method of multipliers are
solved by conjugate gradients too, and most of that work is lost from one point to the next. Here sweeps of
coordinate descent find the face, the rows strictly inside their bounds, and conjugate gradients move along it (Moré
& Toraldo 1991), until both agree:

    (K + ridge/C + 1/σ) δ = r,   r_i = t_i − m_i − epsilon sgn α_i − ridge α_i/C_i,   K_ij = y_i y_j x_i·x_j
    α ← clip(α + δ), or the best point on the way there

1/σ keeps δ short where K hardly tells what it should be (rows that contradict each other); σ grows while whole
steps are taken. K is never formed: a product is one visit of each row on the face to compute Σ p_j y_j x_j, and one
for its products with the rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import PLQLoss
from llsvm.solvers.llsvm.multipliers import Subproblem
from llsvm.solvers.llsvm.second_order_tuning import FaceTuning
from llsvm.solvers.optim.conjugate_gradients import conjugate_gradients

Vector = NDArray[np.float64]
Rounded = Callable[[Vector, Vector], Vector]
FACE_ROW_BYTES = 160  # that a step takes for each row on the face,
FACE_VECTORS = 4  # and as long as the weights


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


class Face:
    """Steps along the faces of one subproblem; see the file's head.

    problem: its loss a PLQLoss, its ``rest`` is not looked at. rounded: see ``ascend``."""

    def __init__(
        self,
        problem: Subproblem,
        tuning: FaceTuning,
        rounded: Rounded,
    ) -> None:
        self._problem, self._tuning, self._rounded = problem, tuning, rounded
        assert isinstance(problem.loss, PLQLoss)
        self._loss = problem.loss
        self._squares = problem.rows.squares(problem.at)
        self._unit = len(problem.at) / max(float(self._squares.sum()), 1e-300)  # 1 over the mean of ‖x_i‖²
        self._sigma = tuning.first_sigma * self._unit
        self.products = 0

    def step(self, alpha: Vector, w: Vector) -> float:
        """Move alpha (n,) and the weights w (d + 1,) that they make along the face; returns what D gains, 0 where
        it does not and nothing has moved."""
        problem, loss, tuning = self._problem, self._loss, self._tuning
        J = np.flatnonzero(loss.free(alpha, problem.cost))
        if not len(J):
            return 0.0
        at, sign, cost = problem.at[J], problem.sign[J], problem.cost[J]
        target = problem.target if isinstance(problem.target, float) else problem.target[J]
        slope = slope_of(loss, alpha[J], target - sign * problem.rows.dots(at, w), cost)
        change = np.zeros_like(alpha)
        change[J] = self._solve(slope, loss.ridge / cost + 1.0 / self._sigma, J)
        gain, length = ascend(problem, self._rounded, alpha, w, change)
        self._sigma = tuning.next_sigma(self._sigma, length, self._unit)
        return gain

    def _solve(self, slope: Vector, ridge: Vector, J: NDArray[np.intp]) -> Vector:
        """δ, (r,); slope: r_i; ridge: (r,) what stands beside K on the diagonal."""
        problem, tuning = self._problem, self._tuning
        at, sign = problem.at[J], problem.sign[J]
        diagonal = self._squares[J] + ridge

        def times(direction: Vector) -> Vector:
            self.products += 1
            v = np.zeros(len(problem.rest))
            problem.rows.add(at, direction * sign, v)
            product = sign * problem.rows.dots(at, v)
            product += ridge * direction
            return product

        most, progress = tuning.max_products, problem.rows.progress
        return conjugate_gradients(times, slope, lambda r: r / diagonal, tuning.cg_until, most, progress)
