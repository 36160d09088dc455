"""Rounds: coordinate descent to a certified gap; see solver.py for what a round is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.files.growing import let_go
from llsvm.objective.certificate import LeaveOneOut, LeaveOneOutCounts
from llsvm.objective.problems import Positions
from llsvm.process.trace import trace
from llsvm.solvers.advice import NOTHING
from llsvm.solvers.base import NO_ROOM, SECONDS, STALLED, UPDATES, Report
from llsvm.solvers.llsvm.duals import BlockState
from llsvm.solvers.llsvm.epochs import Epochs
from llsvm.solvers.llsvm.run import Run
from llsvm.solvers.state import Value
from llsvm.solvers.stopping import StoppingRule, is_within

# Multiples of the weights that a pass measures, where these were rounded to 32-bit floats and the loss is the
# hinge. The margins of free rows should be 1, and every free row costs what rounding takes off: a slightly longer
# vector of weights costs less. They are longer by the rounding of one float32, 2^-23, up to 2^-10. Fewer of them
# leave a larger gap, and each takes time in every pass.
_OF_ROUNDED = np.concatenate([[1.0], 1.0 + 0.5 ** np.arange(10.0, 24.0)])


@dataclass(frozen=True, slots=True)
class Beginning:
    """State that rounds begin in.

    passes: full passes that were made before.
    has_weights: there are weights to measure.
    are_close: they are most likely the best: the next pass leaves those problems alone whose gap is small enough.
    sums_rows: they are not quite those of the dual variables, and the next pass sums these, too.
    crawled: second order over rows in memory takes over at once, whatever sweeps have cost."""

    passes: int = 0
    has_weights: bool = False
    are_close: bool = False
    sums_rows: bool = False
    crawled: bool = False


class Rounds:
    """A generator of rounds over the stream of ``run``, and what they remember of each other.

    passes: full passes so far. small: the data are yet to be solved to the last digits.
    """

    def __init__(self, run: Run, allowance: float, beginning: Beginning) -> None:
        """allowance: epochs end early once a round has taken so many updates."""
        self.passes = beginning.passes
        self.small = run.in_small_data
        self._run = run
        self._epochs = Epochs(run, allowance, beginning.crawled)
        cause = STALLED if run.start.dtype == np.float64 else NO_ROOM
        settings = run.settings
        self._rule = StoppingRule(settings.tol, settings.max_passes, least_passes=2, stall_cause=cause)
        self._limited = run.settings.survivors < 1.0  # not all rows that are free or violate may be kept
        self._slack = 0.0  # rows of a slack up to this are spilled too
        rounded = run.start.dtype == np.float32 and run.settings.loss == "hinge"
        self._factors = _OF_ROUNDED if rounded else _OF_ROUNDED[:1]
        # (k,) of ``run.start``: so many times these weights are what a pass certifies
        self._factor = np.ones(len(run.sweeps.w))
        self._has_start = beginning.has_weights  # there are weights to measure
        self._close = beginning.are_close  # the next pass measures problems that are most likely at their end
        hinge = run.settings.loss == "hinge" and len(run.start) == 1 and run.duals.problems.n_classes == 2
        self._bounds_left_out = hinge and run.duals.problems.variants[0].leaves_out is None
        self._left_out: LeaveOneOut | None = None  # of the last pass that counted
        # the next pass makes the weights that it began with anew, of rows
        self._sums_rows = beginning.sums_rows

    def reports(self) -> Iterator[Report]:
        """Yield a Report after each full pass, with its certificate, and one after the epochs that follow, from
        which a run can go on; end after the pass whose verdict ends the run.

        D of the certificate is that of α as the pass has left it, its primal the smallest that was measured so far.
        Small data go on, whatever the verdict, until they are solved to the last digits."""
        run, sweeps = self._run, self._run.sweeps
        while True:
            sweeps.begin(sweeps.open, sweeps.negligible)
            (primal, close_squares, costs), n_active = self._full_pass(measure=self._has_start)
            self.passes += 1
            if self._has_start:
                run.best.offer(primal, close_squares, run.certified, self._factor)
            else:
                run.best.offer_zeros(primal, close_squares, run.start.shape)
            self._has_start = True
            feasible = run.dual
            certificate = run.best.certificate(feasible, self.passes, run.bound)
            verdict = self._rule.judge(certificate)
            sweeps.begin(verdict.open, self._negligible(primal, costs))
            if run.threshold is not None:
                run.threshold.note(certificate.relative_gap)
            coef, dual = run.best.coef, float(feasible.sum())
            report = Report("pass", self.passes, coef, certificate, dual, n_active, verdict.converged)
            report.left_out = self._left_out
            report.note = NOTHING if certificate.is_nothing else ""
            report.extra[UPDATES] = int(sweeps.visits.sum()) / run.stream.dataset.n_rows
            if not run.stream.in_one_block:  # many problems, each begun on each block
                report.extra[SECONDS] = self._epochs.calls_price
            report.cause = verdict.cause
            self._epochs.begin(self.passes, primal - feasible)
            yield report
            if verdict.ends and not self.small:
                return
            n_rows = self._between_passes(n_active)
            dual = run.total_dual
            report = Report("epoch", self.passes, coef, certificate, dual, n_rows, verdict.converged)
            report.resumable = True
            report.left_out = self._left_out
            yield report

    @property
    def crawled(self) -> bool:
        """Whether sweeps over all rows in memory have crawled in every problem, now or in a run gone on from."""
        return self._epochs.crawled

    def _between_passes(self, n_active: int) -> int:
        """Epochs over the survivors; returns how many there are. n_active: how many rows were free or violated
        their conditions in the pass."""
        run = self._run
        if run.duals.whole is not None:
            n_rows = self._epochs.to_last_digits() if self.small else self._epochs.in_block(self._slack)
            # a run that goes on from where time was over has it to do again
            self.small &= run.stream.progress.out_of_time
            trace("epochs.in_memory", rows=n_rows, slack=self._slack, crawled=self._epochs.crawled)
            return n_rows
        trace("epochs.began", rows=len(run.stream.survivors), slack=self._slack, limited=self._limited)
        n_rows, why = self._epochs.over_survivors(n_active, self._slack, self._limited)
        trace("epochs.ended", why="time is over" if run.stream.progress.out_of_time else why, rows=n_rows)
        return n_rows

    def _negligible(self, primal: NDArray[np.float64], costs: NDArray[np.float64]) -> float:
        """The gap, for each unit of cost, that is left to rows; see ``Sweeps``. primal, costs: (k,), of the
        pass, of the problems that it measured."""
        measured = np.isfinite(primal) & (costs > 0)
        average = np.min(primal[measured] / costs[measured], initial=math.inf)
        share = self._run.tuning.row_share * self._run.settings.tol
        return share * float(average) if math.isfinite(average) else 0.0

    # -- a full pass ------------------------------------------------------------------------------------

    def _full_pass(self, measure: bool) -> tuple[NDArray[np.float64], int]:
        """Measure the primal at the weights it begins with, and update; returns it with what BestPrimal wants,
        and the sum of costs, (3, k), and how many rows are free or violate."""
        run, sweeps, stream = self._run, self._run.sweeps, self._run.stream
        factors, threshold = self._factors, run.threshold
        tried = np.full((len(factors), 3, len(run.start)), np.inf)
        for c in sweeps.open:
            tried[..., c] = 0.0
            if measure:
                square = np.einsum("i,i", run.start[c], run.start[c], dtype=np.float64)
                tried[:, 0, c] = 0.5 * (square * factors**2)
                let_go(run.start)
        if threshold is not None:
            threshold.begin_pass(run.start[0] if measure else None)
        n_active, drift = 0, 0.0
        left_out = (
            LeaveOneOutCounts(sweeps.bias) if measure and self._bounds_left_out and sweeps.open else None
        )
        # in the room of the best weights, which there are none of yet
        sums = np.zeros_like(sweeps.w) if self._sums_rows else None
        if not stream.in_one_block:
            stream.survivors.clear()  # every row is about to be seen again
        n_rows = 0
        for block in stream.all():
            part, n_rows = run.duals.of(block), n_rows + block.n_rows
            sweeps.measure(part, run.start if measure else None)
            if left_out is not None:
                left_out.add(block, part.alpha[0], part.margin[0], part.signs(0) > 0, part.cost(0) > 0)
            if threshold is not None:
                threshold.measure(part, stream.in_one_block)

            def train(c: int, part: BlockState = part) -> None:
                stream.progress.check_measuring()
                if sums is not None:
                    sweeps.add_rows(part, c, sums)
                for number, factor in enumerate(factors):
                    tried[number, :, c] += sweeps.losses(part, c, float(factor))
                if not stream.progress.out_of_time and not (
                    self._close and self._is_solved(c, tried[:, 0, c])
                ):
                    self._train(part, c, part.violating(c, sweeps.negligible) if measure else part.members(c))

            def alone(c: int, part: BlockState = part) -> None:
                with part.held(c):
                    train(c, part)

            sweeps.for_each(alone)
            if self._limited and not stream.progress.out_of_time and not stream.in_one_block:
                self._train_together(part)
            run.duals.store(part)
            slack = part.slack(sweeps.negligible)
            n_active += int(np.count_nonzero(slack <= 0))
            stream.progress.note_survivors(n_active)
            if n_rows == stream.dataset.n_rows:
                drift = run.drift(block, from_zero=not measure)
            if not stream.in_one_block:
                stream.survivors.add(block, slack, self._block_threshold(slack))
        self._close = False
        if sums is not None:
            sweeps.take_sums(sums, run.start)
            self._sums_rows = False
        self._left_out = self._left_out if left_out is None else left_out.answer()
        best = tried[:, 0].argmin(axis=0)
        measured = np.array(tried[best, :, np.arange(len(best))].T)
        self._factor = factors[best]
        if not stream.in_one_block:
            stream.survivors.swap_generation()
            self._limited |= len(stream.survivors) < n_active
        self._slack = drift
        if threshold is not None:
            measured[0, 0] = threshold.end_pass(stream.in_one_block)
        return measured, n_active

    def _is_solved(self, c: int, primals: NDArray[np.float64]) -> bool:
        """Return whether the gap of problem ``c`` is small enough, whose weights have been measured at all rows.

        primals: (m,) of multiples of these weights."""
        tol, dual = self._run.settings.tol, float(self._run.dual[c])
        return self._run.stream.in_one_block and is_within(tol, float(primals.min()), dual)

    def _block_threshold(self, slack: NDArray[np.float32]) -> float:
        """Return up to which slack the rows of a block are spilled: at most ``spill_most`` times as many as are
        free or violate."""
        max_rows = int(self._run.tuning.spill_most * np.count_nonzero(slack <= 0)) + 1
        if max_rows >= len(slack):
            return self._slack
        return min(self._slack, float(np.partition(slack, max_rows)[max_rows]))

    def _train(self, part: BlockState, c: int, rows: Positions) -> None:
        """Sweep over rows of a block; if they may not all survive, until their gap has fallen enough."""
        sweeps = self._run.sweeps
        first_gap = sweeps.sweep(part, c, rows)
        sweeps.sweep_active(part, c, first_gap, self._run.tuning.max_epochs - 1 if self._limited else 0)

    def _train_together(self, part: BlockState) -> None:
        """Sweep over a block and, in turn with it, the rows of the blocks before it that were kept in memory.

        Most rows of this block are not seen again before the next pass, and neither are most of those before:
        what it makes of the weights must suit them as well (Chang & Roth 2011, selective block minimisation)."""
        sweeps = self._run.sweeps
        resident = self._run.duals.of(self._run.stream.survivors.resident)

        def train(c: int) -> None:
            if self._run.stream.progress.out_of_time:
                return
            part.active[c] = part.violating(c, sweeps.negligible)
            for _ in range(self._run.tuning.block_sweeps + 1):
                sweeps.sweep(resident, c)
                sweeps.sweep(part, c)

        sweeps.for_each(train)
        self._epochs.put_back(resident)

    # -- what a SolverState holds of it, and other beginnings ---------------------------------------------

    def know(self, passes: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take in another solver's passes, ``best_coef`` (k, d + 1) and ``best_primal`` (k,), which are copied."""
        self.passes, self._has_start = passes, passes > 0
        self._run.best.primal[...] = arrays["best_primal"]
        self._run.best.take(arrays["best_coef"])

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        return {
            **self._run.best.arrays,
            **self._rule.arrays,
            "start": self._run.start,
            **self._epochs.arrays,
        }

    @property
    def numbers(self) -> dict[str, Value]:
        return {
            "small": self.small,
            "limited": bool(self._limited),
            "slack threshold": self._slack,
            **self._epochs.numbers,
        }

    def restore(self, passes: int, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> None:
        """Go on from what these were."""
        self.passes, self._has_start = passes, passes > 0
        self._run.best.restore(arrays)
        self._rule.restore(arrays)
        self._run.start[...] = arrays["start"]
        self.small, self._limited = numbers["small"], numbers["limited"]
        self._slack = numbers["slack threshold"]
        self._epochs.restore(arrays, numbers)
