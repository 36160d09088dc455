"""NewtonRun: the passes of SmSVM over one stream; see solver.py for the algorithm.

Steps are found before the report of a pass is handed out, or, where they are on the rows near the margin, before
that of the last epoch: at these reports all that goes on is weights and a few numbers, no Hessian and no rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import UsageError
from llsvm.objective.best import BestPrimal
from llsvm.objective.certificate import Certificate
from llsvm.objective.losses import PLQLoss, loss_of
from llsvm.objective.penalty import Penalty
from llsvm.objective.problems import Problems, RowCosts
from llsvm.process.threads import Threads
from llsvm.process.trace import trace
from llsvm.settings.settings import Settings
from llsvm.solvers.base import NO_ROOM, ROUNDED, STALLED, Report
from llsvm.solvers.optim.conjugate_gradients import UNTIL
from llsvm.solvers.optim.lapack import one_blas_thread
from llsvm.solvers.optim.line_search import ROUNDING
from llsvm.solvers.smsvm.descent import GAP_SHARE, Descent, Known, NewtonStep, multiply
from llsvm.solvers.smsvm.hard_problems import HardProblems, NearRows
from llsvm.solvers.smsvm.layout import Layout
from llsvm.solvers.smsvm.newton import FEW_COLUMNS, active_columns
from llsvm.solvers.smsvm.sums import Point, RowsLeftOut, Summing, Sums
from llsvm.solvers.state import SolverState, Value, problem_name
from llsvm.solvers.stopping import StoppingRule, Verdict
from llsvm.stream.progress import Progress
from llsvm.stream.stream import Stream

_NO_WEIGHTS = 1e6
"""An L1 penalty of so many times the largest gradient at zero keeps every weight there while the intercept is
found. Lower, a gradient that the intercept has made larger may let a weight in; higher, it gains nothing."""
_EXACT_SMOOTHING = 1e-5
"""The least smoothing, in units of margins, with which a dual point is handed on for ``verify`` to compute again
from the weights. Lower, the slopes of losses depend on the last digits of margins, and the dual computed again may
be another; higher, more models have no dual to verify."""
_UNTIL_BENT = 1e-3
"""The share to which conjugate gradients reduce the residual's norm for losses whose curvature ends, on rows in
memory. Higher, half-solved steps put rows across the point where it does, and the step after that is worthless;
lower is more products."""
_NEAR_STEPS = 60
"""The most Newton steps on near rows between two passes. With more, they cost more than the pass that shows whether
they still help; with fewer, passes are made before the problem of these rows is solved."""


class NewtonRun:
    """All problems, on their way down in the same passes."""

    def __init__(
        self, settings: Settings, costs_of: Callable[[float], RowCosts], layout: Layout, stream: Stream
    ) -> None:
        """Spend the memory limit, and begin at w = 0. costs_of: the factors of rows' losses from C."""
        dataset = stream.dataset
        problems = Problems(dataset.n_classes, settings.multiclass == "ovo")
        k = len(problems)
        self.settings, self._costs_of, self.stream = settings, costs_of, stream
        self.loss = loss_of(settings)
        self.penalty = Penalty.of(settings, dataset.weight_sum)
        self.layout = layout
        stream.prepare(layout.needs)
        assert stream.in_one_block or not layout.all_near
        one_sided = self.penalty.l2 == 0 or not math.isfinite(self.loss.slope)
        self.near = NearRows(stream, layout.all_near, layout.keeps_near, one_sided, layout.tuning)
        self.hard = HardProblems(settings, self.loss, self.near, layout, stream.progress)
        self.passes = 0
        unit, level = 1.0, 0.0
        if dataset.target is not None:
            unit = dataset.target.size
            if settings.intercept:
                unit, level = dataset.target.spread, dataset.target.level
        self.problems = [
            Descent(positive, np.append(np.zeros(dataset.n_columns), level), self.loss, unit, negative)
            for positive, negative in map(problems.sides, range(k))
        ]
        self.live = list(self.problems)
        self.best = BestPrimal(k)
        self.rule = self._new_rule()
        self.steps: list[NewtonStep] = []  # under way
        self._threads: Threads

    # -- passes -------------------------------------------------------------------------------------------

    def passes_to_the_end(self, threads: Threads, passes_before: int = 0) -> Iterator[Report]:
        """Until converged, or out of passes, from wherever it is. passes_before: made for other penalties."""
        self._threads, max_passes = threads, self.settings.max_passes
        last = math.inf if max_passes is None else passes_before + max_passes
        with one_blas_thread():
            yield from self._finish_steps(last)
            while True:
                report = self._pass()
                if not self.live or self.passes >= last or self.progress.out_of_time:
                    yield report
                    return
                hard = [p for p in self.live if self.hard.includes(p, self.penalty)]
                others = [p for p in self.live if p not in hard]
                moved = [p for p in others if p.line_search(self.penalty)]
                near = [p for p in moved if self.near.suffice(p.margins_move)]
                self._begin_steps([p for p in moved if p not in near])
                report.resumable = not (near or hard)
                yield report
                if hard:
                    yield from self._multiply_out(hard)
                if near:
                    yield from self._go_near(near)
                yield from self._finish_steps(last)

    @property
    def progress(self) -> Progress:
        return self.stream.progress

    @property
    def costs(self) -> RowCosts:
        """Return the costs of the rows: their factor C is the penalty's."""
        return self._costs_of(self.penalty.C)

    @property
    def pairs(self) -> bool:
        """Return whether problems are of two classes each."""
        return self.problems[0].negative is not None

    def begin_again(self, penalty: Penalty) -> None:
        """Begin again with another penalty, at the best weights so far."""
        self.penalty = penalty
        coef = [np.zeros_like(p.w) for p in self.problems] if self.best.coef is None else self.best.coef
        self.problems = [problem.anew(w) for problem, w in zip(self.problems, coef, strict=True)]
        self.live, self.best = list(self.problems), BestPrimal(len(self.problems))
        self.rule = self._new_rule()

    def largest_gradient(self, threads: Threads) -> float:
        """Return the largest gradient |Σ C_i φ' y_i x_ij| of the losses alone, where all weights are zero. Makes a
        pass; a free intercept takes more, until it is what it is with no other weight."""
        zero, a = np.zeros(len(self.problems[0].w)), ROUNDING
        points = [Point(zero, zero, a, a, p.positive, negative=p.negative) for p in self.problems]
        self._threads = threads
        largest = max(float(np.abs(sums.v).max()) for sums in self._sum(points))
        if not self.penalty.intercept:
            return largest
        self.begin_again(replace(self.penalty, l1=_NO_WEIGHTS * largest, l2=0.0))
        for _ in self.passes_to_the_end(threads, self.passes):
            pass
        return max(float(np.abs(p.last.gradient[:-1]).max()) for p in self.problems)

    def _pass(self) -> Report:
        """A full pass for what is live; what is done then no longer is."""
        primal = np.full(len(self.problems), np.inf)
        number = {id(problem): i for i, problem in enumerate(self.problems)}
        points = [self._point(p) for p in self.live]
        for problem, point, sums in zip(self.live, points, self._sum(points), strict=True):
            primal[number[id(problem)]] = problem.measure(point, sums, self.penalty)
        unknown = np.full(len(primal), np.inf)
        self.best.offer(primal, unknown, [problem.aim.target for problem in self.problems])
        certificate, verdict = self._judged(at_new_weights=True)
        report = self._report_of(certificate, verdict, "pass")
        opened = [self.problems[i] for i in verdict.open]
        self.live = [p for p in opened if p in self.live and self.hard.may_gain(p, self.penalty)]
        trace("newton.pass", passes=self.passes, open_problems=len(self.live))
        if not self.live and not report.converged and not self.progress.out_of_time:
            report.cause = ROUNDED
        elif verdict.cause:
            report.cause, self.live = verdict.cause, []
        return report

    def _new_rule(self) -> StoppingRule:
        """Newton's gap may fall all at once, so that only standing still is a stall."""
        cause = NO_ROOM if self.layout.few_columns else STALLED
        return StoppingRule(self.settings.tol, stall_cause=cause, falls_steadily=False)

    def _sum(self, points: list[Point]) -> list[Sums]:
        """The sums at each point, in a pass; rows near the margin are kept."""
        summing = self._summing(points)
        products = any(point.direction is not None for point in points)
        if not products:
            # smoothed losses have the same smoothing after the pass, and the gap of others is then another
            self.near.begin(min((p.margins_move for p in self.live if p.smoothed), default=0.0))
        for block in self.stream.all():
            summing.add(block)
            if not products:
                self.near.offer(block, summing.slack)
        if not products:
            self.near.end()
        self.passes += 1
        return self._of_all_shards(summing)

    def _sum_near(self, points: list[Point]) -> list[Sums]:
        """The same over the rows near the margin alone."""
        summing = self._summing(points)
        summing.add(self.near.rows)
        return self._of_all_shards(summing)

    def _of_all_shards(self, summing: Summing) -> list[Sums]:
        return [Sums(*map(self.stream.sum, sums)) for sums in summing.finish()]

    def _summing(self, points: list[Point]) -> Summing:
        return Summing(
            points,
            self.loss,
            self.costs,
            self.settings.constant,
            self._threads,
            self.progress,
            one_sided=self.near.one_sided,
            by_sides=self.penalty.intercept,
            pairs=self.pairs,
            tuning=self.layout.tuning,
        )

    # -- steps --------------------------------------------------------------------------------------------

    def _point(self, problem: Descent) -> Point:
        """Return the point at which the next sums are wanted for the problem, with the columns of its Hessian."""
        n, l1, layout = len(problem.w), self.penalty.l1, self.layout
        point = problem.new_point()
        if layout.by_products:
            point.diagonal = True
        elif layout.by_columns:
            return point
        elif n <= layout.most_active and (n <= FEW_COLUMNS or l1 == 0):
            point.activate(np.arange(n))
        else:
            target, gradient = problem.aim.target, problem.last.gradient
            point.activate(active_columns(target, gradient, layout.most_active, self.penalty))
        return point

    def _begin_steps(self, problems: list[Descent]) -> None:
        """Newton's step of each problem, as far as it takes no pass."""
        if self.layout.by_products:
            self.steps = [self._cg_step(p, UNTIL) for p in problems]
            return
        for problem in problems:
            problem.newton_step(self.penalty, self.progress)
            problem.reduce_smoothing(self.settings.tol)

    def _finish_steps(self, last: float) -> Iterator[Report]:
        """The products for the steps under way, each of them a pass, up to the last."""
        while self.passes < last and multiply(self.steps, self._sum):
            yield self._report(resumable=True)
        self._take(self.steps)
        self.steps = []

    def _steps_near(self, problems: list[Descent]) -> None:
        """Newton's step of each problem, on the rows near the margin."""
        if not self.layout.by_products:
            return self._begin_steps(problems)
        until = _UNTIL_BENT if isinstance(self.loss, PLQLoss) else UNTIL
        steps = [self._cg_step(p, until) for p in problems]
        while multiply(steps, self._sum_near) and not self.progress.out_of_time:
            pass
        self._take(steps)
        return None

    def _cg_step(self, problem: Descent, until: float) -> NewtonStep:
        diagonal = problem.sums.diagonal
        ridge = problem.ridge(self.penalty, diagonal)
        return NewtonStep(problem, problem.point, diagonal + ridge, ridge, until)

    def _take(self, steps: list[NewtonStep]) -> None:
        for step in steps:
            step.finish(self.settings.tol)

    def _go_near(self, problems: list[Descent]) -> Iterator[Report]:
        """Go on with the rows near the margin alone, as if the others stayed on their side of it."""
        tol, n_near = self.settings.tol, self.near.rows.n_rows
        inner = [p.on_near_rows(self.penalty) for p in problems]
        left_out = self._left_out(inner)

        def measure(which: list[int]) -> None:
            points = [self._point(inner[i]) for i in which]
            for i, sums, point in zip(which, self._sum_near(points), points, strict=True):
                left_out[i].add_to(sums, point)
                inner[i].measure(point, sums, self.penalty)

        trace("newton.near", rows=n_near, problems=len(problems))
        going = moved = list(range(len(inner)))
        for number in range(1, _NEAR_STEPS + 1):
            self._steps_near([inner[i] for i in moved])
            measure(going)
            going = [
                i
                for i in going
                if inner[i].relative_gap > GAP_SHARE * tol
                and not (inner[i].exhausted or self.hard.includes(inner[i], self.penalty))
            ]
            moved = [i for i in going if inner[i].line_search(self.penalty)]
            if not going or number == _NEAR_STEPS or self.progress.out_of_time:
                break
            yield self._report("epoch", n_near)
        for problem, near in zip(problems, inner, strict=True):
            problem.follow(near)
        yield self._report("epoch", n_near, resumable=True)

    def _left_out(self, inner: list[Descent]) -> list[RowsLeftOut]:
        """The rows that are not at hand, for each of the problems on those that are."""
        # a Hessian for the first step is there already: that of the full pass, over the columns active then
        points = [self._point(p) if self.layout.by_products else p.new_point() for p in inner]
        return [
            RowsLeftOut.between(p.sums, sums, point, self.near.one_sided)
            for p, sums, point in zip(inner, self._sum_near(points), points, strict=True)
        ]

    def _multiply_out(self, problems: list[Descent]) -> Iterator[Report]:
        """Solve each of the problems by the method of multipliers, for the next pass."""
        n_rows = self.hard.rows.n_rows
        yield self._report("epoch", n_rows)
        self.hard.solve(
            problems, self.penalty, self.costs, self._threads, lambda inner: self._left_out([inner])[0]
        )
        yield self._report("epoch", n_rows, resumable=True)

    def dual_smoothing(self) -> tuple[float, ...] | None:
        """Return the smoothing of each problem's best dual point, which is at its best weights; 0 for smooth
        losses. None where one is elsewhere, or so little smoothed that the slopes depend on the last digits of
        margins."""
        smoothing = []
        for problem, best in zip(self.problems, self.best.primal.tolist(), strict=True):
            if problem.known.dual_primal != best:
                return None
            if problem.smoothed and problem.known.dual_a < _EXACT_SMOOTHING * problem.unit:
                return None
            smoothing.append(problem.known.dual_a if problem.smoothed else 0.0)
        return tuple(smoothing)

    # -- reports --------------------------------------------------------------------------------------------

    def _report(self, kind: str = "pass", survivors: int = 0, resumable: bool = False) -> Report:
        """Return a report between two points that a pass has measured."""
        certificate, verdict = self._judged(at_new_weights=False)
        return self._report_of(certificate, verdict, kind, survivors, resumable)

    def _judged(self, *, at_new_weights: bool) -> tuple[Certificate, Verdict]:
        """Return the certificate so far, and what the stopping rule says of it. at_new_weights: see there."""
        penalty, cost, constant = self.penalty, self.costs.largest, self.settings.constant
        bound = self.stream.rounding_bound(
            self.loss, cost, constant, self.pairs, penalty.l1, penalty.l2, penalty.intercept
        )
        dual = np.array([p.known.dual for p in self.problems])
        certificate = self.best.certificate(dual, self.passes, bound)
        return certificate, self.rule.judge(certificate, at_new_weights=at_new_weights)

    def _report_of(
        self,
        certificate: Certificate,
        verdict: Verdict,
        kind: str,
        survivors: int = 0,
        resumable: bool = False,
    ) -> Report:
        """Return the report of a certificate that the stopping rule has judged."""
        assert self.best.coef is not None
        extra = {"nonzero_weights": float(np.count_nonzero(self.best.coef))}
        if self.problems[0].smoothed:
            extra["smoothing"] = max(p.a for p in self.problems)
        return Report(
            kind,
            self.passes,
            self.best.coef,
            certificate,
            certificate.total_dual,
            survivors,
            converged=verdict.converged,
            note=self.layout.in_words(self.stream.dataset.n_features),
            resumable=resumable,
            extra=extra,
        )

    # -- state ----------------------------------------------------------------------------------------------

    def saved(self) -> tuple[dict[str, NDArray[Any]], dict[str, Value]]:
        """Return arrays and numbers for a SolverState; arrays are views."""
        arrays = {
            **self.best.arrays,
            **self.rule.arrays,
            "dual": np.array([p.known.dual for p in self.problems]),
        }
        numbers: dict[str, Value] = {
            **self._kind(),
            "live": [self.problems.index(p) for p in self.live],
            "steps": [self.problems.index(step.problem) for step in self.steps],
            "products": max((step.products for step in self.steps), default=0),
            "slack_threshold": self.near.threshold,
            "random_state": self.stream.random_state,
        }
        for c, problem in enumerate(self.problems):
            its_arrays, its_numbers = problem.saved(problem_name(c))
            arrays, numbers = arrays | its_arrays, numbers | its_numbers
        for step in self.steps:
            arrays |= step.arrays(problem_name(self.problems.index(step.problem)))
        return arrays, numbers

    def _kind(self) -> dict[str, Value]:
        names = ("by_columns", "by_products", "most_active", "all_near")
        return {name: getattr(self.layout, name) for name in names}

    def restore(self, state: SolverState) -> None:
        """Go on from there. Raises UsageError where the memory limit was another."""
        for name, value in self._kind().items():
            if state.numbers.get(name) != value:
                raise UsageError(
                    f"this state was made with another memory limit or number of threads ({name} "
                    f"{state.numbers.get(name)}, here {value}): go on under the same, or begin anew"
                )
        state.require_shapes({"best_coef": (len(self.problems), len(self.problems[0].w))})
        self.passes = state.passes
        self.best.restore(state.arrays)
        self.rule.restore(state.arrays)
        for c, problem in enumerate(self.problems):
            problem.restore(problem_name(c), state)
        numbers: Mapping[str, Any] = state.numbers
        self.live = [self.problems[c] for c in numbers["live"]]
        self.steps = [
            NewtonStep.restore(self.problems[c], problem_name(c), state, numbers["products"])
            for c in numbers["steps"]
        ]
        self.near.restore(numbers["slack_threshold"])
        self.stream.restore_random_state(cast(dict[str, Any], numbers["random_state"]))

    def begin_with(self, state: SolverState) -> None:
        """Begin at w = 0, with the best weights, their primal and the dual bound that another solver has found for
        the same objective."""
        self.passes = state.passes
        k, n = len(self.problems), len(self.problems[0].w)
        state.require_shapes({"best_coef": (k, n), "best_primal": (k,), "dual": (k,)})
        coef, primal, dual = (state.arrays[name] for name in ("best_coef", "best_primal", "dual"))
        self.best.offer(primal, np.full(k, np.inf), coef)
        known = map(Known, primal.tolist(), dual.tolist())
        self.problems = [p.anew(p.w, of_it) for p, of_it in zip(self.problems, known, strict=True)]
        self.live = list(self.problems)
