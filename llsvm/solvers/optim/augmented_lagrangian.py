"""The augmented Lagrangian method (method of multipliers) on a dual, with semismooth Newton steps inside.

Proximal points of the dual D (Rockafellar 1976), from α^k on, with σ > 0 that grows from one to the next:

    α^{k+1} ≈ argmax over feasible α of  D(α) − ‖α − α^k‖² / 2σ

Each is found in the primal (Yan & Li 2020, Algorithms 1 and 2): its dual is smooth and strongly convex,

    ψ(w) = ½‖w‖² − ⟨w, w₀⟩ + Σ_i of the maxima over α_i,     ∇ψ(w) = w − v(α(w)),

w₀ being the weights that other rows make, α(w) the maximisers, and v(α) the weights that α makes, w₀ included.
Newton's steps with a line search lead to ‖∇ψ‖² ≤ κ ‖α(w) − α^k‖² / σ; then α^{k+1} = α(w). With σ = ∞, for smooth
losses, ψ is the primal. α(w) is feasible throughout, so that the gap of w and α(w) is known at every step: ½‖∇ψ‖²
and the rows' part of it.

Coordinate descent finds most of the face in a few visits of each row, and may then need thousands to move along it,
the more the longer C_i ‖x_i‖² is; Newton's method needs some dozens of steps, whatever that is. So it comes last.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from llsvm.process.trace import trace
from llsvm.solvers.optim.lapack import dot
from llsvm.solvers.optim.line_search import step_length
from llsvm.stream.progress import OutOfTime, Progress

Array = NDArray[np.float64]

# A proximal point is found where ‖∇ψ‖² has come to this share of ‖α − α^k‖²/σ. Lower spends Newton steps on points
# that the next one leaves again; higher moves on from points that are farther off, and takes more of them.
KAPPA = 0.5
# Newton steps to one proximal point, at most; also those that a smooth loss has without proximal points before it
# begins anew with them (solvers/llsvm/multipliers.py). Lower moves α^k before a point is found, which takes more
# points; higher makes steps where rounding keeps ‖∇ψ‖ from falling further.
MOST_INNER = 50
# Factors of σ from one proximal point to the next; FAST_GROWTH where at most one step has led to a point. Lower
# takes more points, higher more steps to each. With one factor for both, L1 paths over documents did not converge.
GROWTH, FAST_GROWTH = 3.0, 10.0
# Factor of σ in all, at most: columns of 1e5 beside C = 1e4 need 1e17. At 1e14 KDD Cup 99 (raw, hinge, C = 1e4, in
# memory) took eight times as long; higher leaves less of the identity in Newton systems, which rounding takes.
MOST_GROWTH = 1e20
# A step counts as none if it changes no weight by more than this share of the largest one, some roundings of a
# 64-bit float. Lower makes steps that are nothing but rounding; higher ends with digits to gain.
STANDS = 1e-15
# Steps that count as none, one after the other, of which one more ends the method. A proximal point of a larger σ
# follows each, from which steps may get on again: lower gives that up, higher takes longer to end where none do.
MOST_STANDING = 5
# Newton steps and proximal points together, at most, where nothing else ends the method. Lower leaves large C
# unsolved: with 60 for the worst rows of joint losses, 20 newsgroups (Crammer-Singer, C = 1e4, in memory) took 1.7
# times as long. Higher only spends more time where rounding keeps the gap from what is asked.
MOST_STEPS = 300
ENOUGH = "the gap is small enough"  # the one end that is asked for


@dataclass(frozen=True, slots=True)
class LagrangianPoint:
    """Values at the point α(w).

    dual: D(α) + ½‖v(α)‖². gap: the rows' part of the duality gap of w and α. moved: ‖α − α^k‖². slope:
    ⟨v(α) − w₀, s⟩, s being the step along which it was looked for."""

    dual: float
    gap: float
    moved: float
    slope: float


class LagrangianRows(Protocol):
    """Rows with their dual variables α^k, at weights w and along a step s from there.

    ``point`` comes first, and whenever σ has changed. What it finds, α(w + length · s) and its curvature, is the
    last point until it is called again: ``weights``, ``newton_step`` and ``move_base`` are of that point. A line
    search is ``set_step``, then ``point`` at several lengths, and at last ``take`` with the length of its last
    call; one that ends at w again, where rounding is all that is left of the step, leaves its last look as the last
    point.

    rest: w₀, float64, of the shape of the weights. n_rows: how many they are."""

    @property
    def rest(self) -> Array: ...

    @property
    def n_rows(self) -> int: ...

    def set_step(self, step: Array) -> None:
        """Let this be the step s."""

    def take(self, length: float) -> None:
        """Let w + length · s, where the last point is, be the weights."""

    def point(self, sigma: float, length: float = 0.0) -> LagrangianPoint:
        """Find α at the weights w + length · s, and make this the last point; length 0 needs no step."""

    def weights(self) -> Array:
        """Return v(α) of the last point, which is not to be changed."""

    def newton_step(self, gradient: Array, sigma: float) -> Array:
        """Return −∇²ψ(w)⁻¹ ∇ψ at the last point. Raises OutOfTime."""

    def move_base(self, sigma: float) -> None:
        """Let α^k be α of the last point."""


class AugmentedLagrangian:
    """w: the weights, float64. sigma: σ, as it will be next. steps: of Newton's method, made so far."""

    def __init__(
        self,
        rows: LagrangianRows,
        w: Array,
        sigma: float,
        progress: Progress,
        inner: Callable[[Array, Array], float] | None = None,
    ) -> None:
        """w: to begin with; they are changed. sigma: math.inf: ψ is the primal. progress: of the run.

        inner: ⟨a, b⟩ of weights and steps, where they are not known by their coordinates (kernels); None: ``dot``.
            Of two that differ the first is the step, if either is."""
        self.w, self.sigma, self.steps = w, sigma, 0
        self._rows, self._progress, self._inner = rows, progress, inner or dot
        self._most_sigma = MOST_GROWTH * sigma

    def solve(self, is_enough: Callable[[float, float, Array], bool], most_steps: int) -> bool:
        """Move on until a point is good enough, time is over, or steps do not get on. Is it good enough?

        is_enough: of the gap of w and α, D(α) and v(α).
        most_steps: of Newton's method, and proximal points, at one of which it ends, unless σ is infinite."""
        trace("newton.began", rows=self._rows.n_rows, columns=len(self.w), sigma=self.sigma)
        why = self._solve(is_enough, most_steps)
        trace("newton.ended", why=why, steps=self.steps, sigma=self.sigma)
        return why == ENOUGH

    def _solve(self, is_enough: Callable[[float, float, Array], bool], most_steps: int) -> str:
        """Make Newton steps, and move α^k to each proximal point that they lead to; return why it ended.

        in_point, points: Newton steps since α^k moved, and how often it has. standing: steps that counted as none
        since one did not."""
        rows, is_smooth = self._rows, math.isinf(self.sigma)
        in_point, points, standing = 0, 0, 0
        point = rows.point(self.sigma)
        while not self._progress.out_of_time:
            v = rows.weights()
            gradient = self.w - v
            square = self._inner(gradient, gradient)
            if is_enough(point.gap + 0.5 * square, point.dual - 0.5 * self._inner(v, v), v):
                rows.move_base(self.sigma)
                return ENOUGH
            is_last = self.steps + points >= most_steps
            if (
                square > KAPPA * point.moved / self.sigma
                and in_point < MOST_INNER
                and not (is_last and is_smooth)
            ):
                try:
                    step = rows.newton_step(gradient, self.sigma)
                    self.steps += 1
                    next_point = self._search(gradient, step, point)
                except OutOfTime:
                    break
                if next_point is not None:
                    in_point, standing, point = in_point + 1, 0, next_point
                    continue
                standing += 1  # the proximal point is as near as rounding lets it come
                if standing > MOST_STANDING or is_smooth:
                    return "steps hardly change the weights any more"
            rows.move_base(self.sigma)
            if is_last:
                return "most steps were made"
            self.sigma = min(growth_after(in_point) * self.sigma, self._most_sigma)
            in_point, points = 0, points + 1
            point = rows.point(self.sigma)
        return "time is over"

    def _search(self, gradient: Array, step: Array, point: LagrangianPoint) -> LagrangianPoint | None:
        """Move w along the step as far as ψ' tells and return the point there; None where rounding is all that is
        left of the step. Raises OutOfTime, with w as it was."""
        rows, w = self._rows, self.w
        rows.set_step(step)
        inner = self._inner
        along, square = inner(step, w) - inner(step, rows.rest), inner(step, step)
        tried = point

        def derivative(length: float) -> float:
            nonlocal tried
            self._progress.check()
            tried = rows.point(self.sigma, length)
            return along + length * square - tried.slope

        length = step_length(derivative, inner(step, gradient))
        if not length * float(np.abs(step).max()) > STANDS * float(np.abs(w).max()):
            return None
        w += length * step
        rows.take(length)
        return tried


def growth_after(n_steps: int) -> float:
    """Return what σ is multiplied by after a proximal point that so many steps have led to."""
    return GROWTH if n_steps > 1 else FAST_GROWTH
