"""Conjugate gradients on the face: where there are many columns, the systems of the method of multipliers are
solved by conjugate gradients too, and most of that work is lost from one point to the next. Here sweeps of
coordinate descent find the face, the rows strictly inside their bounds, and conjugate gradients move along it (Moré
& Toraldo 1991), until both agree:

    (K + ridge/C + 1/σ) δ = r,   r_i = t_i − m_i − epsilon sgn α_i − ridge α_i/C_i,   K_ij = y_i y_j x_i·x_j
    α ← clip(α + t δ),  t the first of 1, ½, ¼, ... that raises D

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
FACE_ROW_BYTES = 160  # that a step takes for each row on the face,
FACE_VECTORS = 4  # and as long as the weights


def slope_of(loss: PLQLoss, alpha: Vector, residual: Vector, cost: Vector) -> Vector:
    """r, (r,): ∂D/∂α_i of rows on the face; residual: (r,) t_i − m_i, copied."""
    slope = residual - loss.epsilon * np.sign(alpha) if loss.epsilon else residual.copy()
    if loss.ridge:
        slope -= loss.ridge * alpha / cost
    return slope


def on_face(loss: PLQLoss, alpha: Vector, change: Vector, cost: Vector) -> Vector:
    """α + change, (r,), but not beyond the bounds, nor the kink."""
    low, high = loss.lower * cost, loss.upper * cost
    if loss.epsilon:
        low, high = np.where(alpha > 0, 0.0, low), np.where(alpha < 0, 0.0, high)
    return np.clip(alpha + change, low, high)


def gain_of(loss: PLQLoss, old: Vector, new: Vector, residual: Vector, cost: Vector, square: float) -> float:
    """Of D where rows go from ``old`` to ``new`` (r,), and w by a vector of this square; residual: t_i − m_i."""
    gain = float(np.einsum("i,i", new - old, residual)) - 0.5 * square
    if loss.ridge:
        gain -= 0.5 * loss.ridge * float(np.sum((new - old) * (new + old) / cost))
    if loss.epsilon:
        gain -= loss.epsilon * float(np.sum(np.abs(new) - np.abs(old)))
    return gain


class Face:
    """Steps along the faces of one subproblem; see the file's head.

    problem: its loss a PLQLoss, its ``rest`` is not looked at. rounded: what storing makes of new dual variables
    α (r,) of rows of costs C_i (r,)."""

    def __init__(
        self,
        problem: Subproblem,
        tuning: FaceTuning,
        rounded: Callable[[Vector, Vector], Vector],
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
        at, sign, cost, old = problem.at[J], problem.sign[J], problem.cost[J], alpha[J]
        target = problem.target if isinstance(problem.target, float) else problem.target[J]
        residual = target - sign * problem.rows.dots(at, w)
        change = self._solve(slope_of(loss, old, residual, cost), loss.ridge / cost + 1.0 / self._sigma, J)
        length = 1.0
        for _ in range(tuning.halvings):
            new = self._rounded(on_face(loss, old, length * change, cost), cost)
            moved = np.zeros_like(w)
            problem.rows.add(at, (new - old) * sign, moved)
            gain = gain_of(loss, old, new, residual, cost, float(moved @ moved))
            if gain > 0.0:
                break
            length *= 0.5
        else:
            length, gain = 0.0, 0.0
        self._sigma = tuning.next_sigma(self._sigma, length, self._unit)
        if length > 0.0:
            alpha[J] = new
            w += moved
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
