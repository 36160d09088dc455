"""SideBySide: coordinate descent for many variants of one binary problem over sparse rows: C's and folds of a grid.

The problems are those of solver.py, with a loss whose dual is linear but for w. All rows are read again and again,
from memory or from the binary cache, in blocks of random pages, so that each epoch puts other rows together: over
blocks that stay the same, a problem takes several times as many. Each block is swept over for all variants, eight
at a time in the lanes of a vector register (lanes.py), by a thread for each eight; after each round of sweeps all α
go on along their last moves (extrapolation.py). Where the gap that sweeps meet is small, a pass measures the primal
at the average of the weights that rounds have ended with, and sums D(α) afresh, which certifies them; lanes whose
problems are all certified are left alone.

It takes memory for the dual variables of all rows. What has no room for that, other losses, several classes, and
narrow or dense rows, where second order ends sooner, are for LLSVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import count

import numpy as np
from numpy.typing import NDArray

from llsvm.block import FLOAT64_BYTES
from llsvm.dataset import DatasetInfo
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.best import BestPrimal
from llsvm.objective.certificate import Certificate
from llsvm.objective.losses import Loss, PLQLoss, loss_of
from llsvm.objective.problems import Problems, RowCosts
from llsvm.objective.rounding import CLOSE
from llsvm.process.threads import Threads
from llsvm.settings.objective import ONE_CLASS
from llsvm.settings.settings import Settings
from llsvm.solvers.base import LOOK_VALUES, UPDATES, Report
from llsvm.solvers.llsvm.duals import row_work_bytes
from llsvm.solvers.llsvm.lanes import (
    MEASURED_BYTES,
    PIECE_ROWS,
    WIDTHS,
    LaneProblems,
    LaneRows,
    Lanes,
    column_bytes,
    row_bytes,
)
from llsvm.solvers.llsvm.layout import WEIGHTS, shares_as_float32
from llsvm.solvers.llsvm.tuning import DEFAULT
from llsvm.solvers.optim.newton_system import MOST_ORDER
from llsvm.solvers.stopping import StoppingRule
from llsvm.stream.rereading import Rereading
from llsvm.stream.stream import Stream

# Sweeps of a round, which ends with a move. After more of them the weights hardly change before the next move; with
# one, moves, which read all rows, are a larger part of the work.
SWEEPS = 2
# The first sweep is over all rows in one of so many rounds, and in as many at the beginning; the others are over
# those that are active. Lower visits rows at rest more often, higher finds late those that no longer are.
ALL_EVERY = 6
# Rounds in which some gap, as sweeps meet it, has to halve, or all problems that are left are trained alone. They
# have as many sweeps over all rows as epochs may have. Lower gives up problems that would have ended, higher spends
# longer on those that do not.
PATIENCE = ALL_EVERY * DEFAULT.max_epochs
# Columns of sparse rows, above which variants are trained side by side. With no more, Newton's method decomposes a
# matrix of all columns, and training each variant alone is fast. Lower takes data from Newton's method that it is
# good at, higher trains variants of wide rows one after the other.
LEAST_COLUMNS = MOST_ORDER
MOST = WIDTHS[-1]  # variants in the lanes of a register
DUALS, MEASURING = "dual variables of all rows", "measuring"  # lines of the memory plan


class LaneEpochs:
    """Rounds of sweeps over lanes and of moves, and the passes that certify them, over the rows of a stream."""

    def __init__(
        self,
        settings: Settings,
        class_weight: NDArray[np.float64],
        threads: int,
        problems: Problems,
        stream: Stream,
        lanes: Sequence[Lanes],
    ) -> None:
        """class_weight: (n_classes,) factors of C. problems: all that the lanes are of."""
        k, self._problems = len(problems), problems
        self._stream, self._lanes, self._settings = stream, lanes, settings
        self._loss = loss_of(settings)
        costs = RowCosts.of_classes(settings.C, class_weight)
        self._threads = Threads(threads, stream.progress.stop)
        bound = stream.rounding_bound(self._loss, costs.by_class, settings.constant)
        self._bound = replace(bound, variants=problems.variants)
        self._reading = Rereading(stream, lambda block: LaneRows(block, costs.of(block)))
        self._best = BestPrimal(k)
        self._dual = np.zeros(k)
        asked = np.array([not variant.to_begin_at for variant in problems.variants])
        self._asked = asked if asked.any() else ~asked  # (k,) for a certificate
        self._rule = StoppingRule(settings.tol, required=self._asked)
        self._passes = 0
        # by the first number of lanes: the share of the tolerance at which the gap that sweeps meet is measured;
        # and what share of the objective that gap was PATIENCE rounds ago
        self._measured_at, self._shares_before = dict[int, float](), dict[int, float]()

    def close(self) -> None:
        self._reading.end()
        self._threads.close()

    def reports(self) -> Iterator[Report]:
        progress = self._stream.progress
        yield self._first()
        for number in count():
            seen_all = self._round(number)
            ready = [each for each in self._open if self._is_ready(each)] if seen_all else []
            last = self._is_stalled(number) or progress.out_of_time
            if ready or last:
                report = self._measure(self._open if last else ready)
                yield report
                if report.converged or last:
                    return
            else:
                dual = float(sum(each.dual[: len(each.numbers)].sum() for each in self._lanes))
                yield Report("epoch", self._passes, dual=dual)

    @property
    def _open(self) -> list[Lanes]:
        return [each for each in self._lanes if each.is_open]

    def _first(self) -> Report:
        """A pass that finds who leaves out which rows, and what no weights at all would cost."""
        k = len(self._problems)
        primal, squares = np.zeros(k), np.zeros(k)
        folds = {id(v.leaves_out): v.leaves_out for v in self._problems.variants if v.leaves_out is not None}
        for part in self._reading.all():
            block = part.block
            outside = [(fold, fold.contains(block.rows, block.class_ids)) for fold in folds.values()]
            for lanes in self._lanes:
                lanes.problems.leave_out(part, outside)
                at = slice(lanes.numbers.start, lanes.numbers.stop)
                for rows in part.pieces():
                    cost = lanes.problems.costs(rows)
                    target = rows.y if rows.targets else np.ones(len(cost))
                    primal[at] += self._loss.value(np.zeros(len(cost)), target) @ cost
                    squares[at] += np.einsum("il,il->l", cost, cost)
        self._passes += 1
        self._best.offer_zeros(primal, squares, (k, self._stream.dataset.n_columns + 1))
        certificate = self._certificate()
        return self._report(certificate, self._rule.judge(certificate).converged)

    def _round(self, number: int) -> bool:
        """A sweep over all rows now and then, more over those that are active, and a move. Has it seen all rows?"""
        everyone = number < ALL_EVERY or number % ALL_EVERY == ALL_EVERY - 1
        for sweep in range(SWEEPS):
            self._sweep(everyone=everyone and sweep == 0)
            if self._stream.progress.out_of_time:
                break
        for lanes in self._open:
            lanes.end_sweeps()
        if not self._stream.progress.out_of_time:
            self._move()
        return everyone

    def _sweep(self, everyone: bool) -> None:
        open_, progress = self._open, self._stream.progress
        gaps = {id(lanes): np.zeros_like(lanes.swept_gap) for lanes in open_}
        for part in self._reading.all():

            def visit(lanes: Lanes, part: LaneRows = part) -> None:
                order = lanes.order(part, everyone)
                values = len(part.whole.data) / max(len(part), 1)
                for piece in np.array_split(order, int(len(order) * values / LOOK_VALUES) + 1):
                    if progress.out_of_time:
                        return
                    lanes.sweep(part, piece, gaps[id(lanes)])

            self._threads.map_with_caller(visit, open_)
            if progress.out_of_time:
                return
        if everyone:
            for lanes in open_:
                lanes.swept_gap[:] = gaps[id(lanes)]

    def _move(self) -> None:
        open_ = self._open
        self._threads.map_with_caller(Lanes.begin_move, open_)
        for part in self._reading.all():
            self._threads.map_with_caller(partial(Lanes.move, part=part), open_)
            if self._stream.progress.out_of_time:
                return
        self._threads.map_with_caller(Lanes.end_move, open_)

    def _is_ready(self, lanes: Lanes) -> bool:
        """Return whether the gap that the last sweep over all rows met is small enough for a pass to measure it.

        At first that is at the tolerance; if that was too soon, where the same ratio of both gaps reaches it."""
        return self._gap_share(lanes) <= self._measured_at.get(lanes.numbers.start, 1.0) * self._settings.tol

    def _is_stalled(self, number: int) -> bool:
        """Return whether, after round ``number``, no gap has halved in the last PATIENCE rounds."""
        if (number + 1) % PATIENCE:
            return False
        shares = {lanes.numbers.start: self._gap_share(lanes) for lanes in self._open}
        before, self._shares_before = self._shares_before, shares
        # 2.0: none has halved, see PATIENCE
        return all(2.0 * share > before.get(first, np.inf) for first, share in shares.items())

    def _gap_share(self, lanes: Lanes) -> float:
        """Return the gap, as the last sweep over all rows met it, as a share of the objective: the largest of the
        problems that are asked for a certificate."""
        asked = np.flatnonzero(self._asked[lanes.numbers.start : lanes.numbers.stop])
        shares = lanes.swept_gap[asked] / np.maximum(lanes.dual[asked], np.finfo(float).tiny)
        return float(shares.max(initial=0.0))

    def _measure(self, measured: list[Lanes]) -> Report:
        """Certify these lanes in a pass, and close those whose problems are all near enough."""
        for lanes in measured:
            lanes.begin_measuring()
        for part in self._reading.all():
            self._threads.map_with_caller(partial(Lanes.measure, part=part, close=CLOSE), measured)
        self._passes += 1
        k = len(self._problems)
        primal, close = np.full(k, np.inf), np.full(k, np.inf)
        w: list[NDArray[np.floating]] = [self._lanes[0].weights[0]] * k
        for lanes in measured:
            at = slice(lanes.numbers.start, lanes.numbers.stop)
            primal[at], close[at], dual, w[at] = lanes.end_measuring()
            self._dual[at] = np.maximum(self._dual[at], dual)
        self._best.offer(primal, close, w)
        certificate = self._certificate()
        verdict = self._rule.judge(certificate)
        for lanes in measured:
            if any(c in lanes.numbers for c in verdict.open):
                gap = max(certificate.gaps[c] for c in lanes.numbers if self._asked[c])
                gap_share = self._gap_share(lanes)
                lanes.take_fresh_sums(average_anew=gap > gap_share)
                self._measured_at[lanes.numbers.start] = min(1.0, gap_share / gap)
            else:
                lanes.close()
        return self._report(certificate, verdict.converged)

    def _certificate(self) -> Certificate:
        return self._best.certificate(self._dual, self._passes, self._bound)

    def _report(self, certificate: Certificate, converged: bool) -> Report:
        report = Report("pass", self._passes, self._best.coef, certificate, float(self._dual.sum()))
        report.converged = converged
        report.survivors = max((each.n_active for each in self._open), default=0)
        report.extra[UPDATES] = sum(lanes.visits for lanes in self._lanes) / self._stream.dataset.n_rows
        return report


def suits(settings: Settings, dataset: DatasetInfo) -> bool:
    """Return whether SideBySide solves variants of this problem."""
    loss = loss_of(settings)
    wide = not dataset.is_dense and dataset.n_columns > LEAST_COLUMNS
    return wide and dataset.n_classes <= 2 and not settings.paper and _suits(loss)


def _suits(loss: Loss) -> bool:
    if not isinstance(loss, PLQLoss) or loss.ridge or loss.epsilon or loss.name == ONE_CLASS:
        return False
    bounds = np.array([loss.lower, loss.upper])
    return bool(np.isfinite(bounds).all() and (bounds == bounds.astype(np.float32)).all())


def lanes_of(n: int, of_cost: int) -> list[range]:
    """How ``n`` variants, so many of each C one after the other, are put side by side: those of a C together, as
    they take about as long. Fewer would be hardly quicker, also not by a thread for each half: a visit waits for
    memory, not for arithmetic."""
    size = of_cost * max(1, MOST // of_cost) if of_cost <= MOST else MOST
    return [range(start, min(start + size, n)) for start in range(0, n, size)]


class SideBySide:
    """Solver for many variants of one problem, see the file's head. ``solve`` yields a Report after each pass that
    measures, and each round of sweeps."""

    def __init__(
        self,
        settings: Settings,
        class_weight: NDArray[np.float64],
        threads: int,
        problems: Problems,
    ) -> None:
        """class_weight: (n_classes,) factors of C. problems: of two classes or numbers, with their variants."""
        loss = loss_of(settings)
        assert isinstance(loss, PLQLoss)
        assert _suits(loss)
        self.settings, self.class_weight, self.problems = settings, class_weight, problems
        self._loss, self._n_threads = loss, threads
        first = problems.variants[0]
        of_cost = sum(variant.cost == first.cost for variant in problems.variants)
        self._parts = lanes_of(len(problems), of_cost)
        self._lanes: list[Lanes] = []  # while ``solve`` is at it, and after

    def needs(self, memory: MemoryLeft) -> Needs:
        dataset = memory.dataset
        columns, threads = dataset.n_columns + 1, min(self._n_threads, len(self._parts))
        itemsize = self._dtype(dataset).itemsize
        of_lanes = columns * sum(column_bytes(len(part), itemsize) for part in self._parts)
        rows = dataset.n_rows * sum(row_bytes(len(part), itemsize) for part in self._parts)
        measuring = threads * min(dataset.n_rows, PIECE_ROWS) * MEASURED_BYTES
        # as the rows of one problem of LLSVM, which each thread visits in an order of its own
        work_bytes = row_work_bytes(Problems(self.problems.n_classes), 1) + FLOAT64_BYTES * threads
        best = FLOAT64_BYTES * columns * len(self.problems)
        lines = {WEIGHTS: of_lanes + best, DUALS: rows, MEASURING: measuring}
        return Needs(lines, work_bytes, resident_survivors=False)

    def _dtype(self, dataset: DatasetInfo) -> np.dtype:
        by_class = RowCosts.of_classes(self.settings.C, self.class_weight).by_class
        variants = self.problems.variants
        cost = max(v.cost * float((by_class * (v.class_weight or 1.0)).max()) for v in variants)
        return np.dtype(np.float32 if shares_as_float32(self.settings, cost, dataset) else np.float64)

    def solve(self, stream: Stream) -> Iterator[Report]:
        """Train over the rows of the stream; see llsvm.solvers.base."""
        stream.prepare(self.needs(stream.memory_left))
        dataset = stream.dataset
        n_rows, n_columns, dtype = dataset.n_rows, dataset.n_columns, self._dtype(dataset)
        self._lanes = [
            Lanes(self._lane_problems(part, n_rows), part.start, n_rows, n_columns, dtype, self.settings.seed)
            for part in self._parts
        ]
        epochs = LaneEpochs(
            self.settings, self.class_weight, self._n_threads, self.problems, stream, self._lanes
        )
        with closing(epochs):
            yield from epochs.reports()

    def _lane_problems(self, part: range, n_rows: int) -> LaneProblems:
        variants = self.problems.variants[part.start : part.stop]
        return LaneProblems(variants, n_rows, self._loss, self.settings.constant)

    def shares(self, start: int, stop: int) -> NDArray[np.floating]:
        """(stop − start, k) α_i / C_i of the rows from ``start`` to ``stop``."""
        return np.concatenate([each.shares(start, stop) for each in self._lanes], axis=1)

    def close(self) -> None:
        """Let go of the dual variables, once ``solve`` is at its end."""
        self._lanes = []
