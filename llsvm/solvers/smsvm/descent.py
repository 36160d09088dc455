"""Descent: the weights of one binary SmSVM problem on their way down, from the sums of one pass to the next point.

SmSVM's Algorithms 2 (Newton step on the active set) and 3 (smoothing parameter); who sums, and over which rows,
is not known here. ``NewtonStep`` is the step where the Hessian is too large to hold, by its products with vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import Loss
from llsvm.objective.penalty import Penalty
from llsvm.solvers.optim.conjugate_gradients import UNTIL, ConjugateGradients
from llsvm.solvers.optim.lapack import mirror
from llsvm.solvers.optim.line_search import ROUNDING
from llsvm.solvers.optim.newton_system import MOST_PRODUCTS
from llsvm.solvers.smsvm.newton import FEW_COLUMNS, Dense, minimise
from llsvm.solvers.smsvm.sums import STEPS, Point, Sums
from llsvm.solvers.state import SolverState, Value, restored, saved_values
from llsvm.stream.progress import Progress

Vector = NDArray[np.float64]
SumUp = Callable[[list[Point]], list[Sums]]

GAP_SHARE = 0.5
"""The share of the tolerance that the smoothing may cost in the end, and to which problems on near rows or by the
method of multipliers are solved. The rest is left for the steps and for the other rows. Lower, a becomes smaller,
where steps crawl, and near rows are solved further than a pass confirms; higher, more passes end above the
tolerance."""
LEAST_CURVATURE = 1e-9
"""Without L2, columns that depend on each other or rows that are all far from the margin leave the Hessian
singular, and steps may be of any length. So the model gets a least curvature, at least this share of its mean, and
more of it after steps of no use; with L2 only after those. It moves no optimum. The method of multipliers has it
without L2, as a share of the curvature that a column would have if no row were at a bound. Higher makes short
steps, and more of them; lower leaves more steps that lead too far, and each of them costs a pass."""
SAFEGUARD = 10.0
"""The least curvature is multiplied by this, at least, after a step that led too far, and divided by it after each
that the model foresaw, here and in the method of multipliers. Lower, more steps lead too far before one is short
enough; higher, the steps after that are shorter than they need to be."""
_SAFETY_GROWTH = 10.0
"""The distance from the margin at which rows are left out is multiplied by this after too many of them have crossed
the margin. Lower, that happens more often, and each time costs a pass; higher, too many rows are near, and steps
need passes sooner."""


@dataclass(frozen=True, slots=True)
class Aim:
    """Point at which the next pass is to sum, and the step that leads there.

    target: (n,) w + change, its zeros exact.
    previous: the smoothing parameter that the step was computed with, 0 where it is not one Newton step.
    fall: the fall of the objective that the step promises.
    bend: the curvature along the step if each column had the mean one; 0 where that is not known.
    a_before: what a was, if the step was made on the rows near the margin; else 0.
    """

    target: Vector
    change: Vector
    previous: float
    fall: float = math.inf
    bend: float = 0.0
    a_before: float = 0.0


@dataclass(frozen=True, slots=True)
class Known:
    """primal, dual: the smallest true primal met, and the largest dual; dual_primal, dual_a: the primal, where it
    was the smallest, and the smoothing parameter where that dual was met."""

    primal: float = math.inf
    dual: float = -math.inf
    dual_primal: float = math.nan
    dual_a: float = math.nan

    def with_dual(self, dual: float, primal: float = math.nan, a: float = math.nan) -> Known:
        return replace(self, dual=dual, dual_primal=primal, dual_a=a) if dual > self.dual else self


@dataclass(frozen=True, slots=True)
class PassResult:
    """Gradient, gap and dual that the last pass measured at its point.

    gradient: (n,) of the smoothed objective without L1.
    smoothing_gap, cost: see Sums.
    closing: the step to that point has brought primal and dual much nearer to each other.
    """

    gradient: Vector
    gap: float = math.inf
    dual: float = -math.inf
    smoothing_gap: float = 0.0
    cost: float = 0.0
    closing: bool = False


@dataclass(frozen=True, slots=True)
class Caution:
    """Safeguards of the steps, which earlier steps have adapted.

    curvature: the model's least curvature, as a share of its mean.
    safety: factor of the usual distance from the margin beyond which rows are left out.
    straight: see Point.
    """

    curvature: float = LEAST_CURVATURE
    safety: float = 1.0
    straight: bool = True


@dataclass(frozen=True, slots=True)
class _Saved:
    """The attributes of a Descent that a state holds by name, beside its scale."""

    w: Vector
    aim: Aim
    known: Known
    last: PassResult
    caution: Caution
    a: float
    points: int
    multiplied: bool


class Descent:
    """One binary problem on its way down: rows of class ``positive`` against those of class ``negative``, or, where
    that is None, against the rest. n = d + 1 weights.

    From pass to pass: sums at ``new_point`` go into ``measure``; where ``line_search`` then takes the step,
    ``newton_step`` finds the next, and ``reduce_smoothing`` follows it.

    w (n,): the weights of the last step taken. aim: the step from there. a: the smoothing parameter. scale: (n,)
    what the columns' curvatures are measured in, so that it does not matter in which units they are given; (1,)
    until there is a Hessian over all of them. points: that were summed at since the method of multipliers, and
    multiplied: has it had its turn? point, sums: of the last pass, from ``measure`` on."""

    point: Point
    sums: Sums

    def __init__(
        self,
        positive: int,
        w: Vector,
        loss: Loss,
        unit: float = 1.0,
        negative: int | None = None,
        scale: Vector | None = None,
        known: Known | None = None,
    ) -> None:
        """w: (n,) to begin with. unit: what margins are measured in. scale, known: where there is any. However good
        weights are known the first step is best from zero: Newton's is on its way sooner from there than from
        weights that are half right."""
        self.positive, self.negative, self.unit, self._loss = positive, negative, unit, loss
        self.w, self.a = w, unit
        self.aim = Aim(w, np.zeros_like(w), self.a)
        self.known, self.last, self.caution = known or Known(), PassResult(np.zeros_like(w)), Caution()
        self.scale = np.ones(1) if scale is None else scale
        self.points, self.multiplied = 0, False

    @property
    def smoothed(self) -> bool:
        """Return whether the loss has a kink, and is smoothed."""
        return not math.isfinite(self._loss.smoothness)

    # -- where it begins ----------------------------------------------------------------------------------

    def anew(self, w: Vector, known: Known | None = None) -> Descent:
        """The problem before its first pass, perhaps with another penalty, to begin at these weights (n,)."""
        return Descent(self.positive, w, self._loss, self.unit, self.negative, self.scale, known)

    def saved(self, name: str) -> tuple[dict[str, NDArray[Any]], dict[str, Value]]:
        """Return the arrays and numbers that the problem goes on from before a pass, for a SolverState.

        name: of the problem."""
        arrays, numbers = saved_values(name, self._saved_part())
        return arrays | {f"{name} scale": self.scale}, numbers

    def restore(self, name: str, state: SolverState) -> None:
        """Go on from what ``saved`` gave the state. Raises UsageError where the state has no such."""
        self.scale = np.array(state.arrays[f"{name} scale"])
        part = restored(name, state, self._saved_part())
        self.w, self.aim, self.known, self.last, self.caution = (
            part.w,
            part.aim,
            part.known,
            part.last,
            part.caution,
        )
        self.a, self.points, self.multiplied = part.a, part.points, part.multiplied

    def _saved_part(self) -> _Saved:
        steps = (self.w, self.aim, self.known, self.last, self.caution)
        return _Saved(*steps, self.a, self.points, self.multiplied)

    def new_point(self) -> Point:
        """Return the point at which the next sums are wanted."""
        aim, straight, negative = self.aim, self.caution.straight, self.negative
        return Point(
            aim.target, aim.change, self.a, aim.previous, self.positive, straight=straight, negative=negative
        )

    # -- the rows near the margin ---------------------------------------------------------------------------

    def on_near_rows(self, penalty: Penalty) -> Descent:
        """The same problem where the last pass has summed, to go on with sums over some of the rows."""
        near = copy(self)
        near._stay(penalty)
        return near

    def _stay(self, penalty: Penalty) -> None:
        """Be where the last pass has summed, and know no more than it."""
        self.w, self.known = self.aim.target, Known()
        self.aim = replace(self.aim, change=np.zeros_like(self.w), previous=0.0)
        last = self.point  # where the products of a step are now wanted too
        self.measure(
            replace(self.new_point(), active=last.active, diagonal=last.diagonal), self.sums, penalty
        )
        self.last = replace(self.last, closing=True)

    def follow(self, near: Descent) -> None:
        """Aim at the point to which the rows near the margin have led."""
        target, fall = near.aim.target, self.known.primal - near.known.primal
        self.aim = Aim(target, target - self.w, 0.0, fall, a_before=self.a)
        self.points, self.caution = near.points, replace(self.caution, straight=near.caution.straight)
        if self.smoothed:
            self.a = near.a

    def end_at(self, w: Vector, primal: float, dual: float) -> None:
        """Aim at weights that the method of multipliers has found."""
        self.known = self.known.with_dual(dual)
        self.aim = Aim(w, w - self.w, 0.0, max(self.known.primal - primal, 0.0))
        self.points, self.multiplied = 0, True

    def near_has_failed(self, dual: float) -> None:
        """Over the rows near the margin alone the method of multipliers has led where others matter: leave out
        fewer. dual: that it has found."""
        self.known, self.points = self.known.with_dual(dual), 0
        self._leave_out_fewer()

    def _leave_out_fewer(self) -> None:
        self.caution = replace(self.caution, safety=self.caution.safety * _SAFETY_GROWTH)

    @property
    def margins_move(self) -> float:
        """About as much, until it is solved: rows that have some times this slack may be left out.

        a of smoothed losses. Of smooth ones the root of the mean square that the gap leaves: near the optimum
        P − D ≥ Σ c_i Δm_i² of those rows that have a loss."""
        safety, gap = self.caution.safety, max(self.known.primal - self.known.dual, 0.0)
        if self.smoothed:
            return safety * self.a
        return safety * math.sqrt(gap / self.last.cost) if self.last.cost > 0 else 0.0

    # -- a pass, and the step after it ----------------------------------------------------------------------

    @property
    def relative_gap(self) -> float:
        primal, dual = self.known.primal, self.known.dual
        return (primal - dual) / primal if primal > 0 else 0.0

    @property
    def exhausted(self) -> bool:
        """Return whether the gain that is left is lost in rounding."""
        return self.a < ROUNDING * self.unit

    def is_hard(self, patience: int) -> bool:
        """Return whether it is time for the method of multipliers. patience: points that are summed at before."""
        return self.points >= patience or (self.exhausted and not self.multiplied)

    def measure(self, point: Point, sums: Sums, penalty: Penalty) -> float:
        """Take in what a pass found at the point: primal, dual and gradient. Returns the primal there."""
        self.point, self.sums = point, sums
        self.points += 1
        target, last = point.target, self.last
        primal = sums.loss + penalty.value(target)
        longest = 1.0 if math.isfinite(self._loss.upper) else math.inf
        dual = penalty.dual(*(sums.balanced() if penalty.intercept else sums.dual_point), longest)
        gap = primal - dual
        closing = gap < 0.5 * last.gap or dual > 2 * last.dual  # halved, or doubled
        gradient = penalty.l2_of(len(target)) * target - sums.v
        self.last = PassResult(gradient, gap, dual, sums.smoothing_gap, sums.cost, closing)
        # of other weights with the very same primal, the first are kept
        known = self.known.with_dual(dual, primal if primal < self.known.primal else math.nan, self.a)
        self.known = replace(known, primal=min(known.primal, primal))
        return primal

    def line_search(self, penalty: Penalty) -> bool:
        """Take the step to the target if the objective fell by more than it could still fall along it; else aim at
        the best point of the grid, and say False."""
        aim, curvature = self.aim, self.caution.curvature
        values = self.sums.losses + [penalty.value(self.w + t * aim.change) for t in STEPS]
        best = int(np.argmin(values))
        at_target = float(values[STEPS == 1][0])
        moved = bool(aim.change.any())
        if at_target - values[best] <= values[0] - at_target or not moved:
            self.w, self.aim = aim.target, replace(aim, a_before=0.0)
            if moved:
                # the model is right where the objective falls by more than half of what the step promised
                straight = not values[0] - at_target > 0.5 * aim.fall
                if not straight:
                    curvature = max(LEAST_CURVATURE, curvature / SAFEGUARD)
                self.caution = replace(self.caution, curvature=curvature, straight=straight)
            return True
        a_before = aim.a_before
        if STEPS[best] < 0.5:  # the objective is more than twice as bent as the model
            if a_before:  # or too many of the rows that were left out have crossed the margin
                self.a, a_before = a_before, 0.0
                self._leave_out_fewer()
            # with this least curvature alone the model would be lowest at the best point of the step
            foreseen = max(float(STEPS[best]), float(STEPS[1])) * aim.bend
            curvature *= SAFEGUARD
            if foreseen > 0:
                curvature = max(curvature, 2 * aim.fall / foreseen)  # 2 fall: the slope that it began with
        self.caution = replace(self.caution, curvature=curvature, straight=True)
        change = STEPS[best] * aim.change
        self.aim = replace(aim, target=self.w + change, change=change, a_before=a_before)
        return False

    def newton_step(self, penalty: Penalty, progress: Progress) -> None:
        """The step to the minimiser of the model on the active columns; where time is over, on the way."""
        active = self.point.active
        assert active is not None
        now, g, l1 = self.w[active], self.last.gradient[active], penalty.l1_of(len(self.w))[active]
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
        """Return what is added to the Hessian's diagonal over the active columns, (A,), for each of them or, (1,),
        for all. With L2 on every weight that is nothing else until a step has been of no use."""
        if penalty.l2 > 0 and not penalty.intercept and self.caution.curvature <= LEAST_CURVATURE:
            return np.array([penalty.l2])
        least_curvature = self.caution.curvature * self._mean_curvature(diagonal, active)
        return np.maximum(penalty.l2_of(len(self.w))[active], least_curvature)

    def _mean_curvature(self, diagonal: Vector, active: NDArray[np.int64] | slice) -> Vector:
        """Return the mean curvature of the columns, in units of each of the active ones: (A,), or (1,) for all."""
        scale = self.scale if len(self.scale) == 1 else self.scale[active]
        return scale * float(np.sum(diagonal / scale)) / max(len(diagonal), 1)

    def step_to(self, target: Vector, fall: float, bend: float = 0.0) -> None:
        """Aim at ``target`` (n,) by Newton's step, by which the objective should fall so much. bend: see Aim."""
        self.aim = Aim(target, target - self.w, self.a, fall, bend)

    def reduce_smoothing(self, tol: float) -> None:
        """Halve a, or less where less is enough, when the step to come gains little against what a costs. Where
        there is nothing left to gain, and no a that hides it, the problem is exhausted."""
        fall, primal, gap = self.aim.fall, self.known.primal, self.last.smoothing_gap
        nothing_left = fall <= ROUNDING * primal and not self.last.closing
        if not self.smoothed:
            self.a = 0.0 if nothing_left else self.a
            return
        need = GAP_SHARE * tol * primal
        if fall > max(gap, need):
            return
        if gap > need:  # it goes with a²; a quarter below the need, as it differs from point to point
            self.a *= max(0.5, (0.75 * need / gap) ** 0.5)
        elif nothing_left:  # at this a, and yet not certified
            self.a *= 0.5


class NewtonStep:
    """A Newton step, (H + ridge) s = −gradient, by conjugate gradients that are preconditioned by the diagonal.

    point: where the Hessian H is. products: of H with vectors, so far."""

    def __init__(
        self, problem: Descent, point: Point, diagonal: Vector, ridge: Vector, until: float, products: int = 0
    ) -> None:
        """ridge: (n,), or (1,) for all. diagonal: (n,) of H + ridge. until: the residual falls to this share of the
        gradient."""
        self.problem, self.point, self.products = problem, point, products
        self._diagonal, self._ridge, self._until = diagonal, ridge, until
        self._system = ConjugateGradients(-problem.last.gradient, lambda r: r / diagonal)

    @property
    def done(self) -> bool:
        return self.products >= MOST_PRODUCTS or self._system.fell_to(self._until)

    @property
    def direction(self) -> Vector:
        """(n,) that H is to be multiplied with next."""
        return self._system.direction

    def advance(self, product: Vector) -> None:
        """Move on by a product of H with the direction, (n,)."""
        self.products += 1
        self._system.advance(product + self._ridge * self.direction)

    def finish(self, tol: float) -> None:
        """Let the problem aim at where this has led."""
        fall = 0.5 * float((self._system.residual - self.problem.last.gradient) @ self._system.solution)
        self.problem.step_to(self.problem.w + self._system.solution, fall)
        self.problem.reduce_smoothing(tol)

    def arrays(self, name: str) -> dict[str, Vector]:
        """Return what ``restore`` wants, for a SolverState; name: of the problem."""
        arrays = {f"{name} diagonal": self._diagonal, f"{name} ridge": self._ridge}
        return arrays | self._system.arrays(name)

    @classmethod
    def restore(cls, problem: Descent, name: str, state: SolverState, products: int) -> NewtonStep:
        """Return the step of which ``arrays`` are in the state, after so many products in passes."""
        diagonal, ridge = (np.array(state.arrays[f"{name} {a}"]) for a in ("diagonal", "ridge"))
        point = replace(problem.new_point(), straight=False, diagonal=True)
        step = cls(problem, point, diagonal, ridge, UNTIL, products)
        step._system.restore(name, state)
        return step


def multiply(steps: list[NewtonStep], sum_up: SumUp) -> bool:
    """Make a product of the Hessian for each step that wants one; return False where none does."""
    going = [step for step in steps if not step.done]
    if not going:
        return False
    points = [replace(step.point, diagonal=False, direction=step.direction) for step in going]
    for step, sums in zip(going, sum_up(points), strict=True):
        step.advance(sums.product)
    return True
