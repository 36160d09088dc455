"""Rows at hand of one problem as the augmented Lagrangian method (optim/augmented_lagrangian.py) takes them.

Dual, over the α_i of these rows, the others' being fixed: max Σ C_i b(α_i/C_i) − ½‖v(α)‖², v(α) = rest + Σ α_i y_i
x_i. With the margins m_i of the weights w, Yan & Li (2020) have

    α_i(w) = argmax over a of  a (t_i − m_i(w)) − epsilon |a| − ½ ridge a²/C_i − (a − α_i^k)²/(2σ)
    ∇²ψ(w) = I + Σ_{i in J} h_i x_i x_iᵀ

J being the rows strictly inside their bounds, h_i = 1/(1/σ + ridge/C_i). A loss with ridge > 0 is smooth: σ = ∞,
and ψ is the primal itself, as with the logistic loss, whose α_i(w) is −C_i φ'. The gap of α(w) and v(α(w)) can be
far larger than that of w and α(w), where C is large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import Loss, PLQLoss
from llsvm.objective.problems import Positions
from llsvm.solvers.llsvm.kernels import kernels_of
from llsvm.solvers.optim.augmented_lagrangian import (
    MOST_INNER,
    MOST_STEPS,
    AugmentedLagrangian,
    LagrangianPoint,
)
from llsvm.solvers.optim.kernels import DUAL, GAP, MOVED, N_TOTALS, SLOPE, proximal
from llsvm.solvers.optim.line_search import ROUNDING
from llsvm.solvers.optim.newton_system import NewtonPrices, NewtonSystem
from llsvm.solvers.optim.row_operator import RowOperator

Vector = NDArray[np.float64]

# Bytes that solving a subproblem takes for each of its rows, as much as 13 arrays of float64. Lower exceeds the
# memory limit (tests/test_second_order_memory.py), higher turns second order down where it has room.
SUBPROBLEM_ROW_BYTES = 104
# Arrays of float64 as long as the weights that a subproblem takes, which extrapolation never exceeds. Lower exceeds
# the memory limit, higher turns second order down where it has room.
WEIGHT_VECTORS = 10
_PIECE = 1 << 15  # rows whose losses are computed at a time: fewer take more calls, more take more memory


@dataclass(slots=True)
class Subproblem:
    """n rows of one problem, chosen from a block; whoever makes it may set ``rest`` after.

    rows: of the block; at: (n,) positions of these. sign, cost: (n,) float64 y_i and C_i > 0. target: t_i, (n,)
    float64 or that of all; 0 for the logistic loss, which has none. rest: (d + 1,) float64 what all other rows add
    to the weights."""

    rows: RowOperator
    at: Positions
    sign: Vector
    target: Vector | float
    cost: Vector
    loss: Loss
    rest: Vector

    def margins(self, w: Vector) -> Vector:
        """(n,) y_i w·x_i."""
        dots = self.rows.dots(self.at, w)
        dots *= self.sign
        return dots

    def weights(self, alpha: Vector) -> Vector:
        """(d + 1,) v(α)."""
        v = self.rest.copy()
        J = np.flatnonzero(alpha)
        self.rows.add(self.at[J], alpha[J] * self.sign[J], v)
        return v

    def first_sigma(self, n_columns: int | None = None) -> float:
        """1 over the mean of ‖x_i‖², of the first so many columns if not of all."""
        squares = np.zeros_like(self.rest)
        self.rows.add_squares(self.at, np.ones(len(self.at)), squares)
        return len(self.at) / max(float(squares[:n_columns].sum()), 1e-300)  # rows may have no features

    def dual(self, alpha: Vector, v: Vector) -> float:
        """D(α), the others' part of Σ C_i b left out; v: the weights that α makes."""
        total = -0.5 * float(np.einsum("i,i", v, v))
        for start in range(0, len(self.at), _PIECE):
            piece = slice(start, start + _PIECE)
            cost, target = self.cost[piece], self.target
            target = target if isinstance(target, float) else target[piece]
            total += float(np.einsum("i,i", cost, self.loss.dual_value(alpha[piece] / cost, target)))
        return total

    def first_sigmas(self, sigma: float) -> list[float]:
        """Return σ to begin with, and another to begin anew with where the first has not led to the gap: ∞ for a
        smooth loss; but C ‖x‖² may be so large that its α_i(w), L C_i times a residual, are little but the rounding
        of that. sigma: 1 over the mean of ‖x_i‖²."""
        smoothness, costs = self.loss.smoothness, float(self.cost.max())
        if math.isinf(smoothness):
            return [sigma]
        rounds = isinstance(self.loss, PLQLoss) and ROUNDING * smoothness * costs > sigma
        return [math.inf, sigma] if rounds else [math.inf]


@dataclass(frozen=True, slots=True)
class Solution:
    """alpha: (n,) dual variables. v: (d + 1,) the weights that they make. dual: D(α), see Subproblem. w: (d + 1,)
    weights whose primal, with that dual, has the smallest gap. margins: (n,) at w. steps: Newton's, those of
    the last σ to begin with."""

    alpha: Vector
    v: Vector
    dual: float
    w: Vector
    margins: Vector
    steps: int


class ProximalRows:
    """The rows of a subproblem and their α, as LagrangianRows (optim/augmented_lagrangian.py), which says in which
    order its methods are called. ``set_weights`` comes before all of them.

    alpha: (n,) α of the last point. residual: (n,) t_i − m_i at the weights."""

    def __init__(self, problem: Subproblem, prices: NewtonPrices, alpha: Vector) -> None:
        """alpha: (n,) α^0."""
        self.rest, self.n_rows = problem.rest, len(problem.at)
        self._problem, self._prices, self._base = problem, prices, alpha
        n = self.n_rows
        self.alpha, self._curvature, self._totals = np.empty(n), np.empty(n), np.zeros(N_TOTALS)
        # v, and the α that it is of: with α = 0 it is ``rest``, of which ``weights`` makes another before it adds
        self._v, self._alpha_of_v = problem.rest, np.zeros(n)

    def set_weights(self, w: Vector) -> None:
        self.residual = self._problem.target - self._problem.margins(w)

    def set_step(self, step: Vector) -> None:
        self._change = self._problem.margins(step)

    def take(self, length: float) -> None:
        self.residual -= length * self._change

    def point(self, sigma: float, length: float = 0.0) -> LagrangianPoint:
        loss, cost, base, totals = self._problem.loss, self._problem.cost, self._base, self._totals
        residual, alpha, h = self.residual, self.alpha, self._curvature
        change = self._change if length else residual
        if isinstance(loss, PLQLoss):
            low, high, ridge, epsilon = loss.lower, loss.upper, loss.ridge, loss.epsilon
            inverse = 1.0 / sigma
            proximal(
                residual, change, length, base, cost, inverse, low, high, ridge, epsilon, alpha, h, totals
            )
        else:
            kernels_of(loss).point(residual, change, length, cost, alpha, h, totals)
        dual = float(np.sum(self._problem.target * alpha)) + totals[DUAL]
        return LagrangianPoint(dual, totals[GAP], totals[MOVED], totals[SLOPE])

    def weights(self) -> Vector:
        """Return v(α): as it was, and the rows whose α_i has changed; or summed over all rows, where these are no
        more. So nothing is left of sums of an α without bounds, which can have been far larger."""
        problem, alpha, change = self._problem, self.alpha, self.alpha - self._alpha_of_v
        J = np.flatnonzero(change)
        if len(J) >= np.count_nonzero(alpha):
            self._v = problem.weights(alpha)
        else:
            problem.rows.add(problem.at[J], change[J] * problem.sign[J], self._v)
        self._alpha_of_v[...] = alpha
        return self._v

    def newton_step(self, gradient: Vector, sigma: float) -> Vector:
        problem = self._problem
        problem.rows.progress.check()
        J = np.flatnonzero(self._curvature)
        return NewtonSystem(problem.rows, problem.at[J], self._curvature[J], self._prices).solve(gradient)

    def move_base(self, sigma: float) -> None:
        if math.isfinite(sigma):
            self._base = self.alpha.copy()


def solve_subproblem(
    problem: Subproblem,
    prices: NewtonPrices,
    alpha: Vector,
    w: Vector,
    sigma: float,
    target_gap: Callable[[float, Vector], float],
) -> Solution:
    """Solve the problem by the augmented Lagrangian method and return where it ends.

    alpha: (n,), w: (d + 1,) dual variables and weights to begin with.
    sigma: the first σ.
    target_gap: of D(α) and v(α), the gap at which to end, if time is not over before.
    """
    rows, sigmas = ProximalRows(problem, prices, alpha), problem.first_sigmas(sigma)
    for first in sigmas:
        rows.set_weights(w)
        newton = AugmentedLagrangian(rows, w.copy(), first, problem.rows.progress)
        most_steps = MOST_STEPS if first == sigmas[-1] else MOST_INNER
        if newton.solve(lambda gap, dual, v: gap <= target_gap(dual, v), most_steps):
            break
    v = problem.weights(rows.alpha)
    margins = problem.target - rows.residual
    return Solution(rows.alpha, v, problem.dual(rows.alpha, v), newton.w, margins, newton.steps)
