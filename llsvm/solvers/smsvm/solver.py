"""SmSVM: smoothed Newton with an L1 active set (Hajewski, Oliveira & Stewart, ICDM 2018), in a handful of passes.

Primal:  P(w) = C Σ_i c_i max(0, z_i) + (l2/2) ‖w‖² + l1 ‖w‖₁,  z_i = 1 − y_i w·x_i (objective/penalty.py);
the constant feature ``bias`` is part of x and penalised. One problem per class (one-vs-rest) for more than two.
Smoothed: F_a(w) has ψ_a(z) = ½ (z + √(z² + a²)) (eq. 1.5) for max(0, z).

Algorithm 1, a pass per line: each pass is at w + s, s the step that the pass before has led to, and sums
    the true hinge loss, and with α_i = C c_i ψ'_a(z_i) a feasible dual point: the certificate;
    the gradient for all columns and the Hessian for the active ones: the next step (Algorithm 2);
    F_a(w + t s) for a grid of t: if t = 1 was a bad choice, the next pass is at the best t instead.
a is halved when the step gains little against what the smoothing costs (Algorithm 3), down to what the
tolerance needs. Three things differ from the paper, all to save passes. The Hessian weights are those of the
primal-dual Newton step (kernels.py): a may then be halved at nearly every pass. Newton, line search and
active set run on the quadratic model to its minimiser (newton.py), where the paper takes one step and
changes one weight per pass. And rows near the margin stay in memory: once a is so small that the others are as
good as straight lines, Algorithm 1 goes on with the near rows alone until their problem is solved, and then
passes over all rows again, which certifies the result or, with the same line search, corrects it.

Active set: all columns while their Hessian is small; else the weights that are not zero and, with L1, those with
|∂f/∂w_j| > ½ l1, the largest first. No Hessian is formed on wide data (more columns than rows, or than memory
has room for): where the rows are in memory all of them are "near", and Newton's steps are found by conjugate
gradients (L2), or by coordinate descent and conjugate gradients on the active columns (L1); where they are not,
conjugate gradients take a pass for each product (L2), or the active set is limited (L1).
Stop when P − D ≤ tol · P.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.memory.sizes import format_size
from llsvm.objective.costs import RowCosts
from llsvm.objective.losses import loss_of
from llsvm.objective.penalty import Penalty
from llsvm.objective.problems import count_problems
from llsvm.settings.settings import Settings
from llsvm.solvers.blas import one_blas_thread
from llsvm.solvers.report import ROUNDED, STALLED, Report, Start
from llsvm.solvers.smsvm.columns import Columns
from llsvm.solvers.smsvm.conjugate import MAX_CG, ConjugateGradients
from llsvm.solvers.smsvm.descent import MIN_SMOOTHING, Descent
from llsvm.solvers.smsvm.layout import ALL_ACTIVE, Layout, layout
from llsvm.solvers.smsvm.smoothed import Far, Point, Summing, Sums
from llsvm.solvers.stall import Stall
from llsvm.stream.stream import Stream

Vector = NDArray[np.float64]

MAX_NEAR = 60  # steps on rows near the margin, before the next full pass
NEAR_GAP = 0.5  # of the tolerance: so well is their problem solved


class SmSVM:
    """See the file's head. ``solve`` yields a Report after each full pass."""

    def __init__(self, settings: Settings, class_weight: NDArray[np.float64], threads: int = 1) -> None:
        """class_weight: (n_classes,) factors of C."""
        self.settings = settings
        self.class_weight = class_weight
        self.threads = threads

    def layout(self, memory: MemoryLeft) -> Layout:
        """What it would do with the memory there is."""
        l1 = Penalty.of(self.settings, memory.dataset.n_rows).l1 > 0
        return layout(count_problems(len(memory.dataset.classes)), self.threads, l1, memory)

    def needs(self, memory: MemoryLeft) -> Needs:
        return self.layout(memory).needs

    def solve(self, stream: Stream, start: Start | None = None) -> Iterator[Report]:
        """start: what another solver has found for the same objective."""
        self.prepare(stream)
        if start is not None:
            for i, problem in enumerate(self.problems):
                problem.know(start.best[i], start.primal[i], start.dual[i])
            self.passes = start.passes
        yield from self._run(stream)

    def prepare(self, stream: Stream) -> None:
        """Spend the memory limit, and begin at w = 0."""
        self.stream, dataset = stream, stream.dataset
        k = count_problems(len(dataset.classes))
        self.penalty = Penalty.of(self.settings, dataset.n_rows)
        self.costs = RowCosts.of_classes(self.penalty.C, self.class_weight)
        self._plan(stream)
        self.problems = [Descent(c, dataset.n_columns + 1) for c in ([1] if k == 1 else range(k))]
        self.passes = 0

    def optimise(self, stream: Stream, penalty: Penalty) -> Iterator[Report]:
        """Passes until the problem with this penalty is solved; begins where the last one ended."""
        self.penalty = penalty
        self.costs = RowCosts.of_classes(penalty.C, self.class_weight)
        self.problems = [problem.again() for problem in self.problems]
        yield from self._run(stream)

    def _run(self, stream: Stream) -> Iterator[Report]:
        with ThreadPoolExecutor(self.threads) as self.pool, one_blas_thread():
            yield from self._passes(stream)

    def largest_lambda1(self, stream: Stream) -> float:
        """The smallest λ₁ with which all weights are zero: the largest |Σ c_i y_i x_ij| / N. A pass."""
        n = stream.dataset.n_columns + 1
        zero = np.zeros(n)
        points = [Point(zero, zero, MIN_SMOOTHING, MIN_SMOOTHING, p.positive) for p in self.problems]
        with ThreadPoolExecutor(self.threads) as self.pool:
            sums = self._sum(stream, points)
        largest = max(float(np.abs(s.v).max()) for s in sums)
        return largest / (self.penalty.C * stream.dataset.n_rows)

    def _plan(self, stream: Stream) -> None:
        """Decide what the memory limit has room for, and sign for it."""
        dataset = stream.dataset
        room = self.layout(stream.memory_left)
        self.most_active, self.by_columns, self.by_products = (
            room.most_active,
            room.by_columns,
            room.by_products,
        )
        self.note = self._plan_in_words(dataset.n_features, room.all_near) if room.wide else ""
        stream.prepare(room.needs)
        assert stream.in_one_block or not room.all_near
        self.near = _Near(stream, room.all_near, self.penalty.l2 == 0)
        self.columns: Columns | None = None

    def _plan_in_words(self, n_features: int, all_near: bool) -> str:
        nbytes = format_size(8.0 * (n_features + 1) ** 2)
        what = f"no Hessian over all {n_features:,} features, which would take {nbytes}: "
        if self.by_columns:
            return what + "coordinate descent and conjugate gradients on the columns of the rows in memory"
        if self.by_products:
            return what + (
                "conjugate gradients on the rows in memory"
                if all_near
                else "conjugate gradients, with a pass for each product until few rows are near the margin"
            )
        return what + f"the active set is limited to {self.most_active:,} of them at a time"

    def _passes(self, stream: Stream) -> Iterator[Report]:
        settings = self.settings
        live, stall = list(self.problems), Stall(settings.tol, None)  # Newton's gap may fall all at once
        while True:
            for problem, sums in zip(live, self._sum(stream, [self._point(p) for p in live]), strict=True):
                problem.measure(sums, self.penalty)
            report = self._report()
            assert report.certificate is not None
            opened = report.certificate.open(settings.tol)
            live = [p for i, p in enumerate(self.problems) if i in opened and p in live]
            live = [p for p in live if p.a >= MIN_SMOOTHING]
            if not live and not report.converged:  # what is left cannot be smoothed any less
                report.cause = ROUNDED
            elif stall.note(self.passes, report.certificate.primal, report.certificate.dual):
                report.cause, live = STALLED, []
            yield report
            if not live or self._out_of_passes():
                return
            ahead = [p for p in live if p.judge(self.penalty, settings.tol)]
            near = [p for p in ahead if self.near.enough(p.caution * p.a)]
            if near:
                yield from self._solve_near(near)
            yield from self._step(
                [p for p in ahead if p not in near], lambda points: self._sum(stream, points)
            )

    def _step(
        self, problems: list[Descent], sum_up: Callable[[list[Point]], list[Sums]], near: bool = False
    ) -> Iterator[Report]:
        """Newton's step of each problem."""
        if self.by_products:
            for _ in self._conjugate_gradients(problems, sum_up):
                if not near:  # each product was a pass
                    yield self._report()
        else:
            for problem in problems:
                problem.newton(self.penalty, self.columns)
        for problem in problems:
            problem.smooth_less(self.settings.tol)

    def _out_of_passes(self) -> bool:
        return bool(self.settings.max_passes) and self.passes >= (self.settings.max_passes or 0)

    def _sum(self, stream: Stream, points: list[Point]) -> list[Sums]:
        """The sums at each point, in a pass; rows near the margin are kept."""
        summing = self._summing(points)
        products = any(point.direction is not None for point in points)
        if not products:
            self.near.begin()
        for block in stream.all():
            summing.add(block)
            if not products:
                self.near.offer(block, summing.distance)
        if not products:
            self.near.end()
        self.passes += 1
        return summing.finish()

    def _sum_near(self, points: list[Point]) -> list[Sums]:
        """The same over the rows near the margin alone."""
        summing = self._summing(points)
        summing.add(self.near.rows)
        return summing.finish()

    def _summing(self, points: list[Point]) -> Summing:
        return Summing(
            points, self.costs, self.settings.constant, self.pool, self.threads, self.near.one_sided
        )

    def _solve_near(self, problems: list[Descent]) -> Iterator[Report]:
        """Go on with the rows near the margin alone, as if the others stayed on their side of it."""
        tol, n_near = self.settings.tol, self.near.rows.n_rows
        if self.by_columns and self.columns is None:
            rows = self.near.rows
            self.columns = Columns(rows.X, len(problems[0].w) - 1, self.settings.constant)
        inner = [p.among_near_rows(self.penalty) for p in problems]
        points = [self._point_at_hand(p) for p in inner]
        at_hand = self._sum_near(points)
        far = [Far.between(*each) for each in zip((p.sums for p in inner), at_hand, points, strict=True)]
        del points, at_hand  # vectors as long as the weights

        def measure(which: list[int]) -> None:
            points = [self._point(inner[i]) for i in which]
            for i, sums, point in zip(which, self._sum_near(points), points, strict=True):
                far[i].add_to(sums, point)
                inner[i].measure(sums, self.penalty)

        going = ahead = list(range(len(inner)))
        for _ in range(MAX_NEAR):
            yield from self._step([inner[i] for i in ahead], self._sum_near, near=True)
            measure(going)
            yield self._report("epoch", n_near)
            going = [
                i for i in going if inner[i].relative_gap > NEAR_GAP * tol and inner[i].a >= MIN_SMOOTHING
            ]
            ahead = [i for i in going if inner[i].judge(self.penalty, tol)]
            if not going:
                break
        for problem, near in zip(problems, inner, strict=True):
            problem.arrive(near)

    def _report(self, kind: str = "pass", survivors: int = 0) -> Report:
        problems = self.problems
        coef = np.array([p.best for p in problems])
        penalty = self.penalty
        bound = self.stream.rounding_bound(
            loss_of("hinge"), self.costs.by_class, self.settings.constant, False, penalty.l1, penalty.l2
        )
        certificate = bound.certificate(
            coef, [p.primal for p in problems], [p.dual for p in problems], self.passes
        )
        converged = certificate.relative_gap <= self.settings.tol
        extra = {"smoothing": max(p.a for p in problems), "nonzero_weights": float(np.count_nonzero(coef))}
        return Report(
            kind,
            self.passes,
            coef,
            certificate,
            certificate.total_dual,
            survivors,
            converged=converged,
            note=self.note,
            extra=extra,
        )

    def _point(self, problem: Descent) -> Point:
        """Where the next sums are wanted for the problem, and over which columns its Hessian."""
        n, l1 = len(problem.w), self.penalty.l1
        point = Point(problem.w, problem.change, problem.a, problem.previous, problem.positive)
        if self.by_products:
            point.diagonal = True
        elif self.by_columns:
            point.choose(problem.most_wanted(n, l1))
            if self.columns is not None:
                point.curvature = np.empty(self.columns.n_rows)
        elif n <= self.most_active and (n <= ALL_ACTIVE or l1 == 0):
            point.choose(np.arange(n))
        else:
            point.choose(problem.most_wanted(self.most_active, l1))
        problem.point = point
        return point

    def _point_at_hand(self, problem: Descent) -> Point:
        """Where the rows at hand are summed before their first step. A Hessian for it is there already, that of
        the full pass, over the columns which were active then: they stay so until the next is summed."""
        if self.by_columns or self.by_products:
            return self._point(problem)
        return Point(problem.w, problem.change, problem.a, problem.previous, problem.positive)

    def _conjugate_gradients(
        self, problems: list[Descent], sum_up: Callable[[list[Point]], list[Sums]]
    ) -> Iterator[None]:
        """Newton steps by conjugate gradients, products of the Hessians one at a time."""
        ridges = [p.ridge(self.penalty, float(p.sums.diagonal.mean())) for p in problems]
        runs = [
            ConjugateGradients(p.gradient, p.sums.diagonal + ridge, ridge)
            for p, ridge in zip(problems, ridges, strict=True)
        ]
        for _ in range(MAX_CG):
            going = [(run, p.point) for run, p in zip(runs, problems, strict=True) if not run.done]
            if not going or self._out_of_passes():
                break
            points = [replace(point, diagonal=False, direction=run.direction) for run, point in going]
            for (run, _), sums in zip(going, sum_up(points), strict=True):
                run.advance(sums.product)
            yield
        for run, problem in zip(runs, problems, strict=True):
            problem.step_to(problem.w + run.step, run.fall)


class _Near:
    """The rows near the margin, kept in memory in a full pass.

    With L2 what is far goes on as a straight line. Without, that has no minimum: then rows are only far where
    their loss is zero, and all others are at hand.
    """

    MOST = 0.5  # of all rows: beyond, a pass costs little more
    MAX_ONE_SIDED = 0.8
    REACH = 8.0  # so many times a the distance of what is far: ψ_a is there a straight line but for a/500

    def __init__(self, stream: Stream, everything: bool, one_sided: bool) -> None:
        """everything: all rows are near, in the one block of the stream."""
        self.one_sided = one_sided
        self._everything = everything
        self._stream = stream
        self._most = (self.MAX_ONE_SIDED if one_sided else self.MOST) * stream.dataset.n_rows
        self._wanted = 1.0  # rows up to this distance are kept
        self._reach = 0.0  # and up to this one all have been
        self.rows: Block

    def begin(self) -> None:
        if self._everything:
            return
        self._stream.survivors.clear()
        self._counts = np.zeros(64, np.int64)  # of rows by the exponent of their distance
        self._offered = 0

    def offer(self, block: Block, distance: NDArray[np.float32]) -> None:
        """distance: (n,) see Summing."""
        if self._everything:
            self.rows = block
            return
        for part in np.array_split(distance, 1 + len(distance) // 65536):
            exponents = np.frexp(np.maximum(part, 1e-9))[1]
            self._counts += np.bincount(np.clip(exponents + 32, 0, 63), minlength=64)
        wanted = distance < self._wanted
        self._offered += int(np.count_nonzero(wanted))
        distance[~wanted] = np.inf
        self._stream.survivors.add(block, distance, None)

    def end(self) -> None:
        if self._everything:
            return
        survivors = self._stream.survivors
        self.rows = survivors.resident
        all_kept = len(survivors) == self._offered
        self._reach = self._wanted if all_kept else float(survivors.distance.max(initial=0.0))
        few = int(np.searchsorted(np.cumsum(self._counts), self._most, side="right"))
        self._wanted = 2.0 ** (few - 33)

    def enough(self, a: float) -> bool:
        """Is the problem of the near rows that of all, at this smoothing and below?"""
        return self._everything or (0 < self.rows.n_rows <= 1.5 * self._most and a <= self.most_smoothing)

    @property
    def most_smoothing(self) -> float:
        return np.inf if self._everything else self._reach / self.REACH
