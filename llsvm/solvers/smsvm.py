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

from llsvm.block import Block
from llsvm.errors import UsageError
from llsvm.memory import format_size
from llsvm.optim.conjugate import MOST_CG, ConjugateGradients
from llsvm.optim.descent import LEAST_SMOOTHING, Descent
from llsvm.optim.penalty import Penalty
from llsvm.optim.smoothed import Far, Point, Summing, Sums, work_bytes
from llsvm.report import Certificate, Report
from llsvm.settings import Settings
from llsvm.stream import Stream

Vector = NDArray[np.float64]

HESSIAN_SHARE = 4  # Hessians get at most this part (1/4) of the memory that is left
MOST_ACTIVE = 4096  # columns of a Hessian: beyond, the cube of it costs more than passes do
ALL_ACTIVE = 512  # up to so many columns all of them are active


DEBUG = True
MOST_NEAR = 50
NEAR_GAP = 0.5


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
        self.problems = [Descent(c, facts.n_columns + 1) for c in ([1] if k == 1 else range(k))]
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
        rows = facts.n_rows * (facts.bytes_per_row + 32)
        copy = stream.budget.available_bytes - sum(needs.values()) > 2.5 * rows
        stream.prepare(needs, 8, copy_survivors=copy)
        self.near = _Near(stream, 0.5 if self.penalty.l2>0 else 1.0)

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
            if self.near.enough(max((p.a for p in ahead), default=0.0)):
                self._solve_near(stream.survivors.resident, ahead)
                continue
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
        """The sums at each point, in a pass; rows near the margin are kept."""
        summing = self._summing(points)
        self.near.begin(stream)
        for block in stream.all():
            summing.add(block)
            self.near.offer(block, summing.distance)
        self.near.end()
        self.passes += 1
        return summing.finish()

    def _summing(self, points: list[Point]) -> Summing:
        cost = self.penalty.C * self.class_weight
        return Summing(points, cost, self.settings.bias, self.pool, self.threads, self.penalty.l2 == 0)

    def _sum_near(self, rows: Block, points: list[Point]) -> list[Sums]:
        summing = self._summing(points)
        summing.add(rows)
        return summing.finish()

    def _solve_near(self, rows: Block, problems: list[Descent]) -> None:
        """Go on with the rows near the margin alone, as if the others stayed on their side of it."""
        inner = [p.among_near_rows() for p in problems]
        for p in inner:
            p.measure(p.sums, self.penalty)
        at_hand = self._sum_near(rows, [p.point for p in problems])
        far = [None] * len(inner)
        for count in range(MOST_NEAR):
            going = [i for i, p in enumerate(inner) if p.relative_gap > NEAR_GAP * self.settings.tol]
            if not going:
                break
            for i in going:
                p = inner[i]
                if count == 0 or p.judge(self.penalty, self.settings.tol):
                    p.newton(self.penalty)
                    p.smooth_less(self.settings.tol)
            if count == 0:
                far = [Far.between(p.sums, s, p.point) for p, s in zip(problems, at_hand, strict=True)]
            points = [self._point(inner[i]) for i in going]
            for i, sums, point in zip(going, self._sum_near(rows, points), points, strict=True):
                far[i].add_to(sums, point)
                inner[i].measure(sums, self.penalty)
                if DEBUG: print(f'      {count} P {inner[i].primal:.2f} D {inner[i].dual:.2f} gap {inner[i].relative_gap:.1e} a {inner[i].a:.5f} fall {inner[i].fall:.3g} exc {sums.excess:.3g} prox {inner[i].proximal:.1e} n {len(point.active)} nz {np.count_nonzero(inner[i].target)} t {np.linalg.norm(inner[i].change):.3g}')
        if DEBUG:
            print("   near", rows.n_rows, count, [(p.primal, p.dual, p.relative_gap, p.a) for p in inner][:2])
        for p, near in zip(problems, inner, strict=True):
            p.arrive(near)

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

    def _point(self, problem: Descent) -> Point:
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

    def _conjugate_gradients(self, stream: Stream, problems: list[Descent]) -> Iterator[Report]:
        """Newton steps by conjugate gradients, a pass for one product of each problem's Hessian."""
        runs = [ConjugateGradients(p.gradient, p.sums.diagonal + self.penalty.l2) for p in problems]
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


class _Near:
    """The rows near the margin, kept in memory in a full pass, so that Newton's method can go on without another.

    reach: rows with |z_i| below it are kept; chosen so that they are at most NEAR_SHARE of all."""

    def __init__(self, stream: Stream, share) -> None:
        self.most=share
        self.n_rows = stream.facts.n_rows
        self.reach = 1.0
        self.kept_reach = 0.0

    def begin(self, stream: Stream) -> None:
        self.survivors = stream.survivors
        self.survivors.clear()
        self.counts = np.zeros(64, np.int64)
        self.offered = 0

    def offer(self, block: Block, distance) -> None:
        exponent = np.frexp(np.maximum(distance, 1e-9))[1]  # distance < 2^exponent
        self.counts += np.bincount(np.clip(exponent + 32, 0, 63), minlength=64)
        wanted = distance < self.reach
        self.offered += np.count_nonzero(wanted)
        self.survivors.add(block, np.where(wanted, distance, np.float32(np.inf)), None)

    def end(self) -> None:
        kept = len(self.survivors)
        self.kept_reach = (
            self.reach if kept == self.offered else float(self.survivors.distance.max(initial=0.0))
        )
        self.share = kept / self.n_rows
        below = np.cumsum(self.counts)
        best = int(np.searchsorted(below, self.most * self.n_rows, side="right"))
        self.reach = 2.0 ** (best - 33)

    def enough(self, a: float) -> bool:
        return 0 < self.share <= self.most * 1.5 and self.kept_reach >= NEAR_REACH * a


NEAR_SHARE = 0.5
NEAR_REACH = 8.0
