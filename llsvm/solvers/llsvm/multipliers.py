"""The method of multipliers with semismooth Newton steps, over rows at hand (Yan & Li 2020, Algorithms 1 and 2).

Dual, over the α_i of these rows, the others' being fixed: max Σ C_i b(α_i/C_i) − ½‖v(α)‖², v(α) = rest + Σ α_i y_i
x_i. Proximal points (Rockafellar 1976) of it, from α^k on, are found in the primal: with σ > 0,

    α_i(w) = argmax over a of  a (t_i − m_i(w)) − epsilon |a| − ½ ridge a²/C_i − (a − α_i^k)²/(2σ)
    ψ(w) = ½‖w − rest‖² + Σ of these maxima,   ∇ψ(w) = w − v(α(w)),   H = I + Σ_{i in J} h_i x_i x_iᵀ

J being the rows strictly inside their bounds, h_i = 1/(1/σ + ridge/C_i). Newton steps with a line search lead to
‖∇ψ‖² ≤ κ ‖α − α^k‖²/σ, and then α^k = α(w), and σ grows. A loss with ridge > 0 is smooth: σ = ∞, and ψ is the
primal itself, as with the logistic loss, whose α_i(w) is −C_i φ'. α(w) is feasible throughout, so that the gap of
w and α(w), ½‖∇ψ‖² + Σ C_i φ + α_i m_i − C_i b, is known at every step. That of α(w) and v(α(w)) can be far larger,
where C is large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.kernels.proximal import DUAL, GAP, MOVED, N_TOTALS, SLOPE, proximal
from llsvm.objective.losses import Loss, PLQLoss
from llsvm.objective.problems import Positions
from llsvm.process.trace import trace
from llsvm.solvers.llsvm.chosen_rows import ChosenRows
from llsvm.solvers.llsvm.multiplier_kernels import logistic_point
from llsvm.solvers.llsvm.newton_system import NewtonSystem, Prices
from llsvm.solvers.llsvm.second_order_tuning import MultipliersTuning
from llsvm.solvers.optim.line_search import step_length
from llsvm.stream.progress import OutOfTime

Vector = NDArray[np.float64]

ROW_BYTES = 104  # that solving a subproblem takes for each of its rows
VECTORS = 10  # as long as the weights, that it takes
ROUNDING = 1e-14  # of margins, at which the largest α(w) of a smooth loss are told from it
_PIECE = 1 << 15  # rows that losses are computed of at a time


@dataclass(frozen=True, slots=True)
class Subproblem:
    """n rows of one problem, chosen from a block.

    rows: of the block; at: (n,) positions of these. sign, cost: (n,) float64 y_i and C_i > 0. target: t_i, (n,)
    float64 or that of all; 0 for the logistic loss, which has none. rest: (d + 1,) float64 what all other rows add
    to the weights."""

    rows: ChosenRows
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
        some = np.flatnonzero(alpha)
        self.rows.add(self.at[some], alpha[some] * self.sign[some], v)
        return v

    def first_sigma(self, n_columns: int | None = None) -> float:
        """1 over the mean of ‖x_i‖², of the first so many columns if not of all."""
        squares = np.zeros_like(self.rest)
        self.rows.add_squares(self.at, np.ones(len(self.at)), squares)
        return len(self.at) / max(float(squares[:n_columns].sum()), 1e-300)

    def dual(self, alpha: Vector, v: Vector) -> float:
        """D(α), the others' part of Σ C_i b left out; v: the weights that α makes."""
        total = -0.5 * float(np.einsum("i,i", v, v))
        for piece, target in self._pieces():
            cost = self.cost[piece]
            total += float(np.einsum("i,i", cost, self.loss.dual_value(alpha[piece] / cost, target)))
        return total

    def gap(self, alpha: Vector, margin: Vector) -> float:
        """Of α and the weights it makes, which have these margins: these rows' part."""
        total = 0.0
        for piece, target in self._pieces():
            cost, m = self.cost[piece], margin[piece]
            a = alpha[piece] / cost
            each = self.loss.value(m, target) + a * m - self.loss.dual_value(a, target)
            total += float(np.einsum("i,i", cost, each))
        return total

    def _pieces(self) -> list[tuple[slice, Vector | float]]:
        n, target = len(self.at), self.target
        pieces = [slice(start, min(start + _PIECE, n)) for start in range(0, n, _PIECE)]
        return [(piece, target if isinstance(target, float) else target[piece]) for piece in pieces]


@dataclass(frozen=True, slots=True)
class Solution:
    """alpha: (n,) dual variables. v: (d + 1,) the weights that they make. dual: D(α), see Subproblem. w: (d + 1,)
    weights whose primal, with that dual, has the smallest gap. margins: (n,) at w. steps: Newton's."""

    alpha: Vector
    v: Vector
    dual: float
    w: Vector
    margins: Vector
    steps: int


class Multipliers:
    """Solves one subproblem; see the file's head."""

    def __init__(self, problem: Subproblem, prices: Prices, tuning: MultipliersTuning) -> None:
        self._problem = problem
        self._prices = prices
        self._tuning = tuning
        n = len(problem.at)
        self._alpha, self._curvature = np.empty(n), np.empty(n)
        self._v, self._of_v = problem.rest, np.zeros(n)  # weights, and the α that make them
        self._totals = np.zeros(N_TOTALS)

    def solve(
        self,
        alpha: Vector,
        w: Vector,
        sigma: float,
        enough: Callable[[float, Vector], float],
        v: Vector | None = None,
    ) -> Solution:
        """alpha: (n,), w: (d + 1,) dual variables and weights to begin with. sigma: the first σ. enough: of D(α)
        and v(α), the gap at which to end, if time is not over before. v: (d + 1,) v(alpha), where it is known."""
        if v is not None:
            self._v, self._of_v[...] = v.copy(), alpha
        problem, tuning, totals = self._problem, self._tuning, self._totals
        smooth = self._is_smooth(sigma)
        inverse = 0.0 if smooth else 1.0 / sigma
        residual = problem.target - problem.margins(w)
        w, before = w.copy(), alpha
        steps, in_point, standing, polished = 0, 0, 0, 0
        self._point(residual, residual, 0.0, before, inverse)
        ended = "most steps were made"
        trace("newton.began", rows=len(alpha), columns=len(w), sigma=sigma, smooth=smooth)
        for _ in range(tuning.max_steps):
            v = self._weights()
            g = w - v
            square = float(g @ g)
            dual = float(np.sum(problem.target * self._alpha)) + totals[DUAL] - 0.5 * float(v @ v)
            allowed = enough(dual, v)
            good = 0.5 * square + totals[GAP] <= allowed
            if good and (polished == tuning.max_polish or self._agree(v, allowed)):
                ended = "the gap is small enough"
                break
            polished += good
            if not smooth and not good and square <= tuning.kappa * totals[MOVED] * inverse:
                before = self._alpha.copy()
                inverse /= tuning.growth if in_point > 1 else tuning.fast_growth
                in_point = 0
                self._point(residual, residual, 0.0, before, inverse)
                continue
            try:
                s = self._newton(g)
            except OutOfTime:
                ended = "time is over"
                break
            steps += 1
            in_point += 1
            change = problem.margins(s)
            along = float(s @ (w - problem.rest)), float(s @ s)
            t = self._line_search(residual, change, before, inverse, *along)
            if t * float(np.abs(s).max()) <= tuning.stands * float(np.abs(w).max()):
                standing += 1
                if standing > tuning.max_standing or smooth:
                    ended = "steps hardly change the weights any more"
                    break
            w += t * s
            residual -= t * change
            self._point(residual, residual, 0.0, before, inverse)
        trace("newton.ended", why=ended, steps=steps, free=np.count_nonzero(self._curvature), dual=dual)
        v = problem.weights(self._alpha)
        residual *= -1.0
        residual += problem.target
        return Solution(self._alpha, v, problem.dual(self._alpha, v), w, residual, steps)

    def _weights(self) -> Vector:
        """v(α), which is not to be changed: as it was, and the rows whose α_i has changed; or all rows, where these
        are no more. So nothing is left of sums of an α without bounds, which can have been far larger."""
        problem, alpha, change = self._problem, self._alpha, self._alpha - self._of_v
        some = np.flatnonzero(change)
        if len(some) >= np.count_nonzero(alpha):
            self._v = problem.weights(alpha)
        else:
            problem.rows.add(problem.at[some], change[some] * problem.sign[some], self._v)
        self._of_v[...] = alpha
        return self._v

    def _is_smooth(self, sigma: float) -> bool:
        """Does the loss need no proximal points? Where C ‖x‖² is so large that its α_i(w), L C_i times a residual,
        would be little but the rounding of that, it does. sigma: 1 over the mean of ‖x_i‖²."""
        loss = self._problem.loss
        steepest = loss.smoothness * float(self._problem.cost.max())
        bounded = not isinstance(loss, PLQLoss) or ROUNDING * steepest <= sigma
        return math.isfinite(loss.smoothness) and bounded

    def _agree(self, v: Vector, enough: float) -> bool:
        """Is the gap small enough at v(α), too?"""
        return self._problem.gap(self._alpha, self._problem.margins(v)) <= enough

    def _newton(self, g: Vector) -> Vector:
        """Newton's step where ∇ψ is g. Raises OutOfTime."""
        problem = self._problem
        problem.rows.progress.check()
        J = np.flatnonzero(self._curvature)
        system = NewtonSystem(problem.rows, problem.at[J], self._curvature[J], len(g), self._prices)
        return system.solve(g, self._tuning.cg_until)

    def _point(self, residual: Vector, change: Vector, step: float, before: Vector, inverse: float) -> None:
        """Set α, curvatures and totals to those at w + step s."""
        problem, loss = self._problem, self._problem.loss
        if not isinstance(loss, PLQLoss):
            into = self._alpha, self._curvature, self._totals
            logistic_point(residual, change, step, problem.cost, *into)
            return
        tail = (loss.lower, loss.upper, loss.ridge, loss.epsilon, self._alpha, self._curvature, self._totals)
        proximal(residual, change, step, before, problem.cost, inverse, *tail)

    def _line_search(
        self, residual: Vector, change: Vector, before: Vector, inverse: float, slope: float, square: float
    ) -> float:
        """The step along s, as ψ' tells. slope: s·(w − rest); square: ‖s‖²."""

        def derivative(t: float) -> float:
            self._point(residual, change, t, before, inverse)
            return slope + t * square - float(self._totals[SLOPE])

        at_zero = slope - float(self._alpha @ change)  # α is that of t = 0
        return step_length(derivative, at_zero)
