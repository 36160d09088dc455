"""Descent: the weights of one binary SmSVM problem on their way down, from the sums of one pass to the next point.

SmSVM's Algorithms 2 (Newton step on the active set) and 3 (smoothing parameter); who sums, and over which rows,
is not known here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import Loss
from llsvm.objective.penalty import Penalty
from llsvm.solvers.optim.lapack import mirror
from llsvm.solvers.optim.rounding import ROUNDING
from llsvm.solvers.smsvm.newton import FEW_COLUMNS, Dense, minimise
from llsvm.solvers.smsvm.sums import STEPS, Point, Sums
from llsvm.stream.progress import Progress

Vector = NDArray[np.float64]

GAP_SHARE = 0.5
"""The share of the tolerance that the smoothing may cost in the end, and to which problems on some of the rows are
solved: the rest is left for the steps, and for what the other rows do."""
LEAST_CURVATURE = 1e-9
"""Without L2, columns that depend on each other or rows that are all far from the margin leave the Hessian
singular, and steps may be of any length. So the model gets a least curvature, at least this share of its mean, and
more of it after steps of no use; with L2 only after those. It moves no optimum. The method of multipliers has it
without L2, as a share of the curvature that a column would have if no row were at a bound. Higher makes short
steps, and more of them."""
SAFEGUARD = 10.0
"""The least curvature is multiplied by this, at least, after a step that led too far, and divided by it after each
that the model foresaw. The distance from the margin at which rows are left out grows by it after too many of those
have crossed the margin."""
_ENOUGH_FALL = 0.5
"""A step is taken if the objective falls by this share of what the best step on the grid would give: higher spends
passes on better steps."""


class Descent:
    """One binary problem on its way down: rows of class ``positive`` against those of class ``negative``, or, where
    that is None, against the rest. n = d + 1 weights.

    w (n,): the weights of the last step taken. target (n,): w + change, where the pass sums, its zeros exact.
    gradient (n,): of the smoothed objective without L1. a: the smoothing parameter, and previous: that of the last
    step. fall: of the objective, that the step promises; bend: see ``step_to``. primal, dual: the smallest true
    primal met, and the largest dual. smoothing_gap, cost: of the last pass, see Sums. gap, dual_here: of the point
    there, and closing: has the last step brought the two much nearer to each other? proximal: a share for the
    model's least curvature. scale: (n,) what the columns' curvatures are measured in, so that it does not matter in
    which units they are given; (1,) until there is a Hessian over all of them. a_before: what a was, if the last
    step was made on the rows near the margin; else 0. safety: so many times as far as usual from the margin must
    rows be to be left out. straight: see Point. points: that were summed at since the method of multipliers, and
    multiplied: has it had its turn?
    """

    def __init__(
        self,
        positive: int,
        n: int,
        loss: Loss,
        unit: float = 1.0,
        level: float = 0.0,
        negative: int | None = None,
    ) -> None:
        """unit: what margins are measured in. level: the last weight to begin with."""
        self.unit = unit
        self.positive, self.negative = positive, negative
        self.loss = loss
        self.w = np.zeros(n)
        self.w[-1] = level
        self.target = self.w.copy()
        self.change = np.zeros(n)
        self.gradient = np.zeros(n)
        self.a = self.previous = unit
        self.primal, self.dual = np.inf, -np.inf
        self.fall, self.bend = np.inf, 0.0
        self.proximal = LEAST_CURVATURE
        self.scale = np.ones(1)
        self.a_before = 0.0
        self.safety = 1.0
        self.straight = True
        self.points, self.multiplied = 0, False
        self.smoothing_gap = self.cost = 0.0
        self.gap, self.dual_here, self.closing = np.inf, -np.inf, False
        self.dual_primal = self.dual_a = math.nan
        self.point: Point
        self.sums: Sums

    @property
    def smoothed(self) -> bool:
        """Has the loss a kink?"""
        return not math.isfinite(self.loss.smoothness)

    # -- where it begins ----------------------------------------------------------------------------------

    def anew(self, w: Vector) -> Descent:
        """The problem with another penalty, before its first pass, to begin at these weights (n,)."""
        new = Descent(self.positive, len(w), self.loss, self.unit, negative=self.negative)
        new.w = new.target = w
        new.scale = self.scale
        return new

    def know(self, primal: float, dual: float) -> None:
        """Take in what is known already. The first step is from zero all the same: Newton's is on its way sooner
        from there than from weights that are half right."""
        self.primal, self.dual = primal, dual

    def arrays(self, name: str) -> dict[str, Vector]:
        """What it goes on from before a pass, for a SolverState; name: of the problem."""
        numbers = [self.a, self.previous, self.primal, self.dual, self.fall, self.bend, self.proximal]
        numbers += [self.a_before, self.safety, self.smoothing_gap, self.cost, self.gap, self.dual_here]
        numbers += [self.closing, self.straight, self.multiplied, self.points, self.dual_primal, self.dual_a]
        return {
            f"{name} w": self.w,
            f"{name} target": self.target,
            f"{name} change": self.change,
            f"{name} gradient": self.gradient,
            f"{name} scale": self.scale,
            f"{name} numbers": np.array(numbers),
        }

    def restore(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what ``arrays`` were, which are copied."""
        parts = ("w", "target", "change", "gradient", "scale")
        copies = (np.array(arrays[f"{name} {of}"]) for of in parts)
        self.w, self.target, self.change, self.gradient, self.scale = copies
        numbers = arrays[f"{name} numbers"].tolist()
        self.a, self.previous, self.primal, self.dual, self.fall, self.bend, self.proximal = numbers[:7]
        self.a_before, self.safety, self.smoothing_gap, self.cost, self.gap, self.dual_here = numbers[7:13]
        self.closing, self.straight, self.multiplied = map(bool, numbers[13:16])
        self.points, (self.dual_primal, self.dual_a) = int(numbers[16]), numbers[17:]

    def new_point(self) -> Point:
        """Where the next sums are wanted."""
        where = self.target, self.change, self.a, self.previous
        return Point(*where, self.positive, straight=self.straight, negative=self.negative)

    # -- the rows near the margin ---------------------------------------------------------------------------

    def on_near_rows(self, penalty: Penalty) -> Descent:
        """The same problem where the last pass has summed, to go on with sums over some of the rows."""
        near = copy(self)
        near.w, near.change, near.previous = self.target, np.zeros_like(self.w), 0.0
        near.primal, near.dual = np.inf, -np.inf
        near.measure(self.sums, penalty)
        near.closing = True
        return near

    def follow(self, near: Descent) -> None:
        """Aim at the point to which the rows near the margin have led."""
        self.step_to(near.target, self.primal - near.primal)
        self.a_before, self.previous, self.straight = self.a, 0.0, near.straight
        self.points = near.points
        if self.smoothed:
            self.a = near.a

    def end_at(self, w: Vector, primal: float, dual: float, a: float | None) -> None:
        """Aim at weights that the method of multipliers has found. a: a smoothing that is next to none for them;
        None: over the rows near the margin alone, so that it may not be the last time."""
        self._take(dual)
        self.step_to(w, max(self.primal - primal, 0.0))
        self.previous = self.a_before = 0.0
        self.points, self.multiplied = 0, True
        if a is None:
            return
        if self.smoothed:
            self.a = min(a, self.a) if self.a > 0 else a

    def near_has_failed(self, dual: float) -> None:
        """Over the rows near the margin alone the method of multipliers has led where others matter: leave out
        fewer. dual: that it has found."""
        self._take(dual)
        self.safety *= SAFEGUARD
        self.points = 0

    def _take(self, dual: float, primal: float = math.nan, a: float = math.nan) -> None:
        if dual > self.dual:
            self.dual, self.dual_primal, self.dual_a = dual, primal, a

    def _near_has_failed(self) -> None:
        """Too many of the rows that were left out have crossed the margin: go back to where a was, and leave out
        fewer."""
        if self.a_before:
            self.a, self.a_before = self.a_before, 0.0
            self.safety *= SAFEGUARD

    @property
    def margins_move(self) -> float:
        """About as much, until it is solved: rows that have some times this slack may be left out.

        a of smoothed losses. Of smooth ones the root of the mean square that the gap leaves: near the optimum
        P − D ≥ Σ c_i Δm_i² of those rows that have a loss."""
        if self.smoothed:
            return self.safety * self.a
        return (
            self.safety * math.sqrt(max(self.primal - self.dual, 0.0) / self.cost) if self.cost > 0 else 0.0
        )

    # -- a pass, and the step after it ----------------------------------------------------------------------

    @property
    def relative_gap(self) -> float:
        return (self.primal - self.dual) / self.primal if self.primal > 0 else 0.0

    @property
    def exhausted(self) -> bool:
        """What is left is lost in rounding."""
        return self.a < ROUNDING * self.unit

    def crawls(self, patience: int) -> bool:
        """Is it time for the method of multipliers? patience: points that are summed at before."""
        return self.points >= patience or (self.exhausted and not self.multiplied)

    def measure(self, sums: Sums, penalty: Penalty) -> float:
        """Take in what a pass at ``target`` found: primal, dual and gradient. Returns the primal there."""
        self.points += 1
        self.sums, self.smoothing_gap, self.cost = sums, sums.smoothing_gap, sums.cost
        primal = sums.loss + penalty.value(self.target)
        longest = 1.0 if math.isfinite(self.loss.upper) else math.inf
        dual = penalty.dual(*(sums.balanced() if penalty.intercept else sums.dual_point), longest)
        self.closing, self.gap = primal - dual < 0.5 * self.gap or dual > 2 * self.dual_here, primal - dual
        self.dual_here = dual
        # of other weights with the very same primal, the first are kept
        self._take(dual, primal if primal < self.primal else math.nan, self.a)
        self.primal = min(self.primal, primal)
        self.gradient = penalty.l2_of(len(self.target)) * self.target - sums.v
        return primal

    def line_search(self, penalty: Penalty) -> bool:
        """Take the step to ``target`` if the objective fell well; else aim at the best point of the grid, and say
        False."""
        values = self.sums.losses + [penalty.value(self.w + t * self.change) for t in STEPS]
        best = int(np.argmin(values))
        here = float(values[STEPS == 1][0])
        moved = bool(self.change.any())
        if here <= values[best] + (1 - _ENOUGH_FALL) * (values[0] - values[best]) or not moved:
            self.w, self.a_before = self.target, 0.0
            if moved:
                self.straight = not values[0] - here > 0.5 * self.fall
                if not self.straight:  # the model is right
                    self.proximal = max(LEAST_CURVATURE, self.proximal / SAFEGUARD)
            return True
        self.straight = True
        if STEPS[best] < 0.5:  # the objective is too bent for the model
            self._near_has_failed()
            # with this least curvature alone the model would be lowest at the best point of the step
            foreseen = max(float(STEPS[best]), float(STEPS[1])) * self.bend
            self.proximal *= SAFEGUARD
            if foreseen > 0:
                self.proximal = max(self.proximal, 2 * self.fall / foreseen)
        self.change = STEPS[best] * self.change
        self.target = self.w + self.change
        return False

    def newton_step(self, penalty: Penalty, progress: Progress) -> None:
        """The step to the minimiser of the model on the active columns; where time is over, on the way."""
        active = self.point.active
        assert active is not None
        now, g, l1 = self.w[active], self.gradient[active], penalty.l1_of(len(self.w))[active]
        H = self.sums.hessian
        mirror(H)
        diagonal = H.diagonal().copy()
        if len(active) == len(self.w) > len(self.scale):
            self.scale = np.where(diagonal > 0, diagonal, 1.0)
        H.flat[:: len(H) + 1] = diagonal + self.ridge(penalty, diagonal, active)
        roughly = len(active) > FEW_COLUMNS
        new, fall = minimise(Dense(H), g, now, l1, roughly, progress)
        target = self.w.copy()
        target[active] = new
        bend = float(np.sum(self._mean_curvature(diagonal, active) * (new - now) ** 2))
        self.step_to(target, fall if len(active) else np.inf, bend)

    def ridge(
        self, penalty: Penalty, diagonal: Vector, active: NDArray[np.int64] | slice = slice(None)
    ) -> Vector:
        """What is added to the Hessian's diagonal over the active columns, (A,), for each of them or, (1,), for
        all. With L2 on every weight that is nothing else until a step has been of no use."""
        if penalty.l2 > 0 and not penalty.intercept and self.proximal <= LEAST_CURVATURE:
            return np.array([penalty.l2])
        least = self.proximal * self._mean_curvature(diagonal, active)
        return np.maximum(penalty.l2_of(len(self.w))[active], least)

    def _mean_curvature(self, diagonal: Vector, active: NDArray[np.int64] | slice) -> Vector:
        """Of the columns, in units of each of the active ones: (A,), or (1,) for all."""
        scale = self.scale if len(self.scale) == 1 else self.scale[active]
        return scale * float(np.sum(diagonal / scale)) / max(len(diagonal), 1)

    def step_to(self, target: Vector, fall: float, bend: float = 0.0) -> None:
        """Aim at ``target`` (n,), by which the objective should fall so much. bend: the curvature along the step if
        each column had the mean one; 0 where that is not known."""
        self.target, self.change, self.fall, self.bend = target, target - self.w, fall, bend
        self.previous = self.a

    def reduce_smoothing(self, tol: float) -> None:
        """Halve a, or less where less is enough, when the step to come gains little against what a costs. Where
        there is nothing left to gain, and no a that hides it, the problem is exhausted."""
        nothing_left = self.fall <= ROUNDING * self.primal
        if not self.smoothed:
            if nothing_left and not self.closing:
                self.a = 0.0
            return
        need, gap = GAP_SHARE * tol * self.primal, self.smoothing_gap
        if self.fall > max(gap, need):
            return
        if gap > need:  # it goes with a²
            self.a *= max(0.5, (0.75 * need / gap) ** 0.5)
        elif nothing_left and not self.closing:  # at this a, and yet not certified
            self.a *= 0.5
