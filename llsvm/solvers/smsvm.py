"""SmSVM: smoothed Newton with an L1 active set (Hajewski, Oliveira & Stewart, ICDM 2018), in a handful of passes.

Primal:  P(w) = C Σ_i c_i max(0, z_i) + (l2/2) ‖w‖² + l1 ‖w‖₁,  z_i = 1 − y_i w·x_i (see llsvm/optim/penalty.py);
the constant feature ``bias`` is part of x and penalised. One problem per class (one-vs-rest) for more than two.
Smoothed: F_a(w) has ψ_a(z) = ½ (z + √(z² + a²)) (eq. 1.5) for max(0, z).

Algorithm 1, a pass per line: each pass is at w + s, s the step that the pass before has led to, and sums
    the true hinge loss, and with α_i = C c_i ψ'_a(z_i) a feasible dual point: the certificate;
    the gradient for all columns and the Hessian for the active ones: the next step (Algorithm 2);
    F_a(w + t s) for a grid of t: if t = 1 was a bad choice, the next pass is at the best t instead.
a is halved when the step gains little against what the smoothing costs (Algorithm 3), down to what the
tolerance needs. Two things differ from the paper, both to save passes. The Hessian weights are those of the
primal-dual Newton step (kernels/smsvm.py): a may then be halved at nearly every pass. And Newton, line
search and active set run on the quadratic model to its minimiser (llsvm/optim/newton.py), where the paper takes
one step and changes one weight per pass.

Active set: all columns while their Hessian is small; else the weights that are not zero and, with L1, those with
|∂f/∂w_j| > ½ l1, the largest first. Where L2 keeps more weights than the memory limit has room for a Hessian,
conjugate gradients take its place, with a pass for each product.
Stop when P − D ≤ tol · P.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import UsageError
from llsvm.memory import format_size
from llsvm.optim.newton import minimise
from llsvm.optim.penalty import Penalty
from llsvm.optim.smoothed import STEPS, Point, Summing, Sums, work_bytes
from llsvm.report import Certificate, Report
from llsvm.settings import Settings
from llsvm.stream import Stream

Vector = NDArray[np.float64]

HESSIAN_SHARE = 4  # Hessians get at most this part (1/4) of the memory that is left
MOST_ACTIVE = 4096  # columns of a Hessian: beyond, the cube of it costs more than passes do
ALL_ACTIVE = 512  # up to so many columns all of them are active
FIRST_SMOOTHING = 1.0
WARM_SMOOTHING = 0.125  # with weights to begin with
ENOUGH_FALL = 0.5  # a step is taken if F_a falls by this share of what the best step on the grid would give
HALVE_BELOW = 5.0  # a is halved when the predicted fall is below so many times the excess that a causes
SMOOTH_ENOUGH = 0.4  # share of tol · P that the smoothing may cost in the end
# The model's least curvature, as a share of the mean: without L2, columns that depend on each other or rows
# that are all far from the margin leave the Hessian singular. It rises while steps turn out too long; it
# moves no optimum.
PROXIMAL, PROXIMAL_RISE, PROXIMAL_SINK = 1e-9, 100.0, 0.1
TOO_LONG = 1 / 16  # of the step was best
UNSEEN = 1e-3  # differences below this share of tol · P are not worth another try
ROUNDING = 1e-15
LEAST_SMOOTHING = 1e-13
MOST_CG, CG_UNTIL = 30, 0.1  # products per Newton step; the residual's norm falls to this share


class SmSVM:
    """See the file's head. ``solve`` yields a Report after each full pass."""

    def __init__(self, settings: Settings, class_weight: NDArray[np.float64], threads: int = 1) -> None:
        """class_weight: (n_classes,) factors of C. Raises UsageError for what the method cannot do."""
        if settings.loss != "hinge":
            raise UsageError(f"solver smsvm is for the hinge loss, not {settings.loss} (use --solver llsvm)")
        if settings.paper:
            raise UsageError("--paper is the LLSVM slides' algorithm; it goes with --solver llsvm")
        self.settings = settings
        self.class_weight = class_weight
        self.threads = threads

    def solve(self, stream: Stream) -> Iterator[Report]:
        self.prepare(stream)
        yield from self.optimise(stream, self.penalty)

    def prepare(self, stream: Stream) -> None:
        """Spend the memory limit, and begin at w = 0."""
        facts = stream.facts
        k = 1 if len(facts.classes) == 2 else len(facts.classes)
        self.penalty = Penalty.of(self.settings, facts.n_rows)
        self._plan(stream, k)
        self.problems = [_Problem(c, facts.n_columns + 1) for c in ([1] if k == 1 else range(k))]
        self.passes = 0

    def optimise(self, stream: Stream, penalty: Penalty) -> Iterator[Report]:
        """Passes until the problem with this penalty is solved; begins where the last one ended."""
        from threadpoolctl import ThreadpoolController

        self.penalty = penalty
        self.problems = [problem.again() for problem in self.problems]
        # BLAS threads and ours would fight for the processors
        limited = ThreadpoolController().limit(limits=1, user_api="blas")
        with ThreadPoolExecutor(self.threads) as self.pool, limited:
            yield from self._passes(stream)

    def largest_lambda1(self, stream: Stream) -> float:
        """The smallest λ₁ with which all weights are zero: the largest |Σ c_i y_i x_ij| / N. A pass."""
        n = stream.facts.n_columns + 1
        zero = np.zeros(n)
        points = [Point(zero, zero, LEAST_SMOOTHING, LEAST_SMOOTHING, p.positive) for p in self.problems]
        with ThreadPoolExecutor(self.threads) as self.pool:
            sums = self._sum(stream, points)
        largest = max(float(np.abs(s.v).max()) for s in sums)
        return largest / (self.penalty.C * stream.facts.n_rows)

    def _plan(self, stream: Stream, k: int) -> None:
        """Decide what the memory limit has room for, and sign for it."""
        facts, threads = stream.facts, self.threads
        n = facts.n_columns + 1
        copies = (
            8 * k * (threads + 3)
        )  # bytes per element of a Hessian: each thread's, and those of the solution
        room = int((stream.budget.available_bytes / HESSIAN_SHARE / copies) ** 0.5)
        self.most_active = min(n, MOST_ACTIVE, max(room, 1))
        self.by_products = self.penalty.l2 > 0 and self.most_active < n and self.penalty.l1 == 0
        self.note = ""
        if self.most_active < n:
            what = f"a Hessian over all {facts.n_features:,} features would take {format_size(8.0 * n * n)}"
            if self.by_products:
                self.note = f"{what}: conjugate gradients instead, with a pass for each product"
            else:
                self.note = f"{what}: the active set is limited to {self.most_active:,} of them at a time"
        needs = {
            "weights": 8 * k * n * (10 + 2 * threads),
            "rows at hand": threads * work_bytes(n, facts.is_dense),
        }
        if not self.by_products:
            needs["Hessian"] = copies * self.most_active**2
        stream.prepare(needs, 0)

    def _passes(self, stream: Stream) -> Iterator[Report]:
        settings = self.settings
        live = list(self.problems)
        while True:
            for problem, sums in zip(live, self._sum(stream, [self._point(p) for p in live]), strict=True):
                problem.measure(sums, self.penalty)
            report = self._report()
            live = [p for p in live if p.relative_gap > settings.tol and p.a >= LEAST_SMOOTHING]
            yield report
            if not live or self._out_of_passes():
                return
            ahead = [p for p in live if p.judge(self.penalty, settings.tol)]
            if self.by_products:
                yield from self._conjugate_gradients(stream, ahead)
            else:
                for problem in ahead:
                    problem.newton(self.penalty)
            for problem in ahead:
                problem.smooth_less(settings.tol)

    def _out_of_passes(self) -> bool:
        return bool(self.settings.max_passes) and self.passes >= (self.settings.max_passes or 0)

    def _sum(self, stream: Stream, points: list[Point]) -> list[Sums]:
        """The sums at each point, in a pass."""
        cost = self.penalty.C * self.class_weight
        summing = Summing(points, cost, self.settings.bias, self.pool, self.threads)
        for block in stream.all():
            summing.add(block)
        self.passes += 1
        return summing.finish()

    def _report(self) -> Report:
        problems = self.problems
        certificate = Certificate(
            tuple(p.primal for p in problems), tuple(p.dual for p in problems), self.passes
        )
        coef = np.array([p.best for p in problems])
        converged = certificate.relative_gap <= self.settings.tol
        extra = {"smoothing": max(p.a for p in problems), "nonzero_weights": float(np.count_nonzero(coef))}
        return Report(
            "pass",
            self.passes,
            coef,
            certificate,
            certificate.total_dual,
            converged=converged,
            note=self.note,
            extra=extra,
        )

    def _point(self, problem: _Problem) -> Point:
        """Where the next pass sums for the problem, and over which columns its Hessian."""
        n = len(problem.w)
        point = Point(problem.w, problem.change, problem.a, problem.previous, problem.positive)
        if self.by_products:
            point.diagonal = True
        elif n <= self.most_active and (n <= ALL_ACTIVE or self.penalty.l1 == 0):
            point.choose(np.arange(n))
        else:
            point.choose(problem.most_wanted(self.most_active, self.penalty.l1))
        problem.point = point
        return point

    def _conjugate_gradients(self, stream: Stream, problems: list[_Problem]) -> Iterator[Report]:
        """Newton steps by conjugate gradients, a pass for one product of each problem's Hessian."""
        runs = [_ConjugateGradients(p.gradient, p.sums.diagonal + self.penalty.l2) for p in problems]
        for _ in range(MOST_CG):
            going = [(run, p.point) for run, p in zip(runs, problems, strict=True) if not run.done]
            if not going or self._out_of_passes():
                break
            points = [replace(point, diagonal=False, direction=run.direction) for run, point in going]
            for (run, _), sums in zip(going, self._sum(stream, points), strict=True):
                run.advance(sums.product + self.penalty.l2 * run.direction)
            yield self._report()
        for run, problem in zip(runs, problems, strict=True):
            problem.step_to(problem.w + run.step, run.fall)


class _Problem:
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
        self.point: Point
        self.sums: Sums

    def again(self) -> _Problem:
        """The same problem before its first pass, with the best weights so far to begin with."""
        fresh = _Problem(self.positive, len(self.w))
        if np.isfinite(self.primal):
            fresh.w = fresh.target = fresh.best = self.best
            fresh.a = fresh.previous = WARM_SMOOTHING
        return fresh

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
        if here <= values[best] + tolerated or not self.change.any():
            self.w = self.target
            self.proximal = max(PROXIMAL, PROXIMAL_SINK * self.proximal)
            return True
        if STEPS[best] <= TOO_LONG:
            self.proximal *= PROXIMAL_RISE
        self.change = STEPS[best] * self.change
        self.target = self.w + self.change
        return False

    def newton(self, penalty: Penalty) -> None:
        """The step to the minimiser of the quadratic model on the active columns."""
        active = self.point.active
        assert active is not None
        H = self.sums.hessian
        upper = np.triu_indices(len(H), 1)
        H[upper] = H.T[upper]
        mean = float(np.trace(H)) / max(len(H), 1)
        H.flat[:: len(H) + 1] += max(penalty.l2, self.proximal * mean)
        now, g = self.w[active], self.gradient[active]
        new = minimise(H, g, now, penalty.l1)
        p = new - now
        fall = -(g @ p + 0.5 * p @ H @ p + penalty.l1 * (np.abs(new).sum() - np.abs(now).sum()))
        target = self.w.copy()
        target[active] = new
        self.step_to(target, float(fall) if len(active) else np.inf)

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


class _ConjugateGradients:
    """Solves H step = −gradient, preconditioned by H's diagonal, a product at a time."""

    def __init__(self, gradient: Vector, diagonal: Vector) -> None:
        self.gradient, self.diagonal = gradient, diagonal
        self.step = np.zeros_like(gradient)
        self.residual = -gradient
        self.direction = self.residual / diagonal
        self.size = self.first = float(self.residual @ self.direction)

    @property
    def done(self) -> bool:
        return self.size <= CG_UNTIL**2 * self.first

    def advance(self, product: Vector) -> None:
        """product: H times ``direction``."""
        length = self.size / float(self.direction @ product)
        self.step += length * self.direction
        self.residual -= length * product
        scaled = self.residual / self.diagonal
        before, self.size = self.size, float(self.residual @ scaled)
        self.direction = scaled + self.size / before * self.direction

    @property
    def fall(self) -> float:
        """Of the quadratic model, by the step."""
        return 0.5 * float((self.residual - self.gradient) @ self.step)
