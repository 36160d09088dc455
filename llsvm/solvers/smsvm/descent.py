"""Descent: the weights of one binary SmSVM problem on their way down, from the sums of one pass to the next point.

SmSVM's Algorithms 2 (Newton step on the active set) and 3 (smoothing parameter); who sums, and over which rows,
is not known here.
"""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.penalty import Penalty
from llsvm.solvers.smsvm.columns import ColumnModel, Columns
from llsvm.solvers.smsvm.newton import Dense, minimise
from llsvm.solvers.smsvm.smoothed import STEPS, Point, Sums

Vector = NDArray[np.float64]

FIRST_SMOOTHING = 1.0
WARM_SMOOTHING = 0.125  # with weights to begin with
ENOUGH_FALL = 0.5  # a step is taken if F_a falls by this share of what the best step on the grid would give
HALVE_BELOW = 5.0  # a is halved when the predicted fall is below so many times the excess that a causes
MORE_CAUTION = 4.0
SMOOTH_ENOUGH = 0.4  # share of tol · P that the smoothing may cost in the end
# Without L2, columns that depend on each other or rows that are all far from the margin leave the Hessian singular,
# and steps may be of any length. So the model gets a least curvature, this share of its mean, and more of it while
# steps would leave the region in which the last one has proved the model right; with L2 only after a step has been
# of no use. It moves no optimum.
PROXIMAL, PROXIMAL_RISE, PROXIMAL_SINK, MAX_PROXIMAL = 1e-9, 10.0, 0.1, 1e3
LONGER = 16.0  # the next step may be so many times as long as one that the model foresaw
EXACT = 512  # up to so many active columns the model's minimiser is cheap enough to be found exactly
TOO_LONG = 1 / 16  # of the step was best
UNSEEN = 1e-3  # differences below this share of tol · P are not worth another try
ROUNDING = 1e-15
MIN_SMOOTHING = 1e-13


class Descent:
    """One binary problem on its way down: rows of class ``positive`` against the rest. n = d + 1 weights.

    w (n,): the weights of the last step taken. target (n,): w + change, where the pass sums, its zeros exact.
    gradient (n,): of the smoothed objective without L1. fall: of F_a that the step promises. primal, best,
    dual: the smallest true primal met, its weights, and the largest dual.
    """

    def __init__(self, positive: int, n: int) -> None:
        self.positive = positive
        self.w = np.zeros(n)
        self.target = np.zeros(n)
        self.change = np.zeros(n)
        self.a = self.previous = FIRST_SMOOTHING
        self.primal, self.dual = np.inf, -np.inf
        self.best = self.w
        self.gradient = np.zeros(n)
        self.fall = np.inf
        self.proximal = PROXIMAL
        self.radius = np.inf  # for the length of steps
        self.before_near = 0.0  # what a was, if the last step was by the near rows
        self.caution = 1.0  # so many times as far as usual must rows be not to be near
        self.point: Point
        self.sums: Sums

    def again(self) -> Descent:
        """The same problem before its first pass, with the best weights so far to begin with."""
        fresh = Descent(self.positive, len(self.w))
        if np.isfinite(self.primal):
            fresh.w = fresh.target = fresh.best = self.best
            fresh.a = fresh.previous = WARM_SMOOTHING
        return fresh

    def know(self, best: Vector, primal: float, dual: float) -> None:
        """Take in what is known already: the primal at ``best`` (n,) and a dual bound. The first step is from zero
        all the same: Newton's is on its way sooner from there than from weights that are half right."""
        self.best, self.primal, self.dual = best, primal, dual

    def among_near_rows(self, penalty: Penalty) -> Descent:
        """The same problem at the weights of the last step, to go on with sums over some of the rows."""
        near = copy(self)
        near.change, near.previous = np.zeros_like(self.w), 0.0
        near.primal, near.dual = np.inf, -np.inf
        near.measure(self.sums, penalty)
        return near

    def arrive(self, near: Descent) -> None:
        """Aim at the point to which the rows at hand have led."""
        self.step_to(near.target, self.primal - near.primal)
        self.before_near, self.a, self.previous = self.a, near.a, 0.0

    def _near_has_failed(self) -> None:
        """Too many of the rows that were taken for far have crossed the margin: go back to where a was, and go near
        only with more rows for it."""
        if self.before_near:
            self.a, self.before_near = self.before_near, 0.0
            self.caution *= MORE_CAUTION

    @property
    def relative_gap(self) -> float:
        return (self.primal - self.dual) / self.primal if self.primal > 0 else 0.0

    def measure(self, sums: Sums, penalty: Penalty) -> None:
        """Take in what a pass at ``target`` found: primal, dual and gradient."""
        self.sums = sums
        primal = sums.hinge + penalty.value(self.target)
        if primal < self.primal:
            self.primal, self.best = primal, self.target.copy()
        self.dual = max(self.dual, penalty.dual(sums.alpha, sums.v))
        self.gradient = penalty.l2 * self.target - sums.v

    def judge(self, penalty: Penalty, tol: float) -> bool:
        """Take the step to ``target`` if F_a fell well; else aim at the best point of the grid, and say False."""
        values = self.sums.losses + [penalty.value(self.w + t * self.change) for t in STEPS]
        best = int(np.argmin(values))
        here = float(values[STEPS == 1][0])
        tolerated = (1 - ENOUGH_FALL) * (values[0] - values[best]) + UNSEEN * tol * self.primal
        length = float(np.linalg.norm(self.change))
        if here <= values[best] + tolerated or length == 0:
            self.w = self.target
            self.before_near = 0.0
            self.proximal = max(PROXIMAL, PROXIMAL_SINK * self.proximal)
            if length:
                kept = values[0] - here > 0.5 * self.fall  # what the model promised
                if penalty.l2 == 0 or np.isfinite(self.radius):
                    self.radius = length * (LONGER if kept else 2.0)
                if penalty.l2 > 0 and kept:
                    self.radius = np.inf
            return True
        if STEPS[best] < 0.5:
            self._near_has_failed()
        if best == 0:  # F_a is too bent for the model
            self.radius = length * float(STEPS[1])
            self.proximal *= PROXIMAL_RISE
        elif STEPS[best] <= 0.25:
            self.radius = 2 * length * float(STEPS[best])
        self.change = STEPS[best] * self.change
        self.target = self.w + self.change
        return False

    def newton(self, penalty: Penalty, columns: Columns | None = None) -> None:
        """The step to the minimiser of the quadratic model on the active columns.

        columns: the rows at hand, whose curvatures the point has, in place of a Hessian.
        """
        active = self.point.active
        assert active is not None
        now, g = self.w[active], self.gradient[active]
        if columns is None:
            H = self.sums.hessian
            upper = np.triu_indices(len(H), 1)
            H[upper] = H.T[upper]
            diagonal = H.diagonal().copy()
        else:
            assert self.point.curvature is not None
            model = ColumnModel(columns, active, self.point.curvature, 0.0)
            diagonal = model.diagonal
        mean = float(diagonal.sum()) / max(len(active), 1)
        while True:
            ridge = self.ridge(penalty, mean)
            if columns is None:
                H.flat[:: len(H) + 1] = diagonal + ridge
                new, fall = minimise(Dense(H), g, now, penalty.l1, len(active) > EXACT)
            else:
                model.ridge = ridge
                new, fall = minimise(model, g, now, penalty.l1, roughly=True)
            length = float(np.linalg.norm(new - now))
            if length <= self.radius or self.proximal >= MAX_PROXIMAL:
                break
            self.proximal *= PROXIMAL_RISE
        target = self.w.copy()
        target[active] = new
        self.step_to(target, fall if len(active) else np.inf)

    def ridge(self, penalty: Penalty, mean: float) -> float:
        """What is added to the Hessian's diagonal, whose mean is known."""
        return max(penalty.l2, self.proximal * mean)

    def step_to(self, target: Vector, fall: float) -> None:
        self.target, self.change, self.fall = target, target - self.w, fall
        self.previous = self.a

    def smooth_less(self, tol: float) -> None:
        """Halve a, or less where less is enough, when the step to come gains little against what a costs."""
        need, excess = tol * self.primal, self.sums.excess
        if 2 * self.fall > HALVE_BELOW * max(excess, 0.5 * need):
            return
        if excess > SMOOTH_ENOUGH * need:  # the excess goes with a²
            self.a *= max(0.5, (0.75 * SMOOTH_ENOUGH * need / excess) ** 0.5)
        elif self.fall <= ROUNDING * self.primal:  # nothing left to gain at this a, and yet not certified
            self.a *= 0.5

    def most_wanted(self, most: int, l1: float) -> NDArray[np.int64]:
        """At most so many columns for the active set: weights that are not zero and gradients above ½ l1."""
        size = np.abs(self.gradient)
        nonzero = np.flatnonzero(self.target)
        if len(nonzero) >= most:  # the worst placed
            off = np.where(self.target != 0, np.abs(self.gradient + l1 * np.sign(self.target)), size - l1)
            return np.sort(np.argpartition(-off, most - 1)[:most])
        others = np.flatnonzero((self.target == 0) & (size > 0.5 * l1))
        room = most - len(nonzero)
        if len(others) > room:
            others = others[np.argpartition(-size[others], room - 1)[:room]]
        return np.union1d(nonzero, others)
