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
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

import numpy as np
from numpy.typing import NDArray

from llsvm.dataset import DatasetInfo
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.best import BestPrimal
from llsvm.objective.costs import RowCosts
from llsvm.objective.losses import Loss, PLQLoss, loss_of
from llsvm.objective.problems import Fold, Problems
from llsvm.objective.rounding import CLOSE
from llsvm.process.threads import Threads
from llsvm.settings.settings import Settings
from llsvm.solvers.llsvm.lanes import (
    MEASURED_BYTES,
    PIECE_ROWS,
    WIDTHS,
    Lanes,
    Part,
    column_bytes,
    row_bytes,
)
from llsvm.solvers.llsvm.layout import WEIGHTS, shares_as_float32
from llsvm.solvers.llsvm.spilled_extrapolation import suits as extrapolates
from llsvm.solvers.report import UPDATES, Report
from llsvm.stream.stream import Stream

MOST = WIDTHS[-1]  # variants in the lanes of a register
DUALS, MEASURING = "dual variables of all rows", "measuring"  # the ledger's lines
ROW_WORK_BYTES, THREAD_BYTES = (
    64,
    48,
)  # of a row at hand: sign, cost, number; and in what order a thread visits it
_PIECE_VALUES = 1e8  # that a sweep visits between two looks at the clock


@dataclass(frozen=True, slots=True)
class SideBySideTuning:
    """The constants that its speed depends on, and never its answer."""

    above: int = 3000
    """Columns: rows of fewer are for second order."""
    sweeps: int = 3
    """Of a round;"""
    all_every: int = 4
    """the first of each of so many rounds, and of as many in the beginning, is over all rows, the others are over
    those that are active."""
    move_after: int = 2
    """Rounds: from then on each ends with a move."""
    average_share: float = 0.2
    """Of a round's weights, in their average;"""
    average_early: float = 4.0
    """of the first rounds so much over their number, as the gap falls fast then."""
    measure_at: float = 2.5
    """Times the tolerance: where the gap as met has come to this, a pass measures it,"""
    measure_again: float = 0.9
    """and if that was too soon, where the same ratio of both would make it this share of the tolerance; where the
    gap was above that as met, where this has come to such a share."""
    early_gaps: tuple[float, ...] = (30.0, 1.0)
    """As met, are measured too where values were rounded: the run begins again if that hides the optimum."""
    patience: int = 60
    """Rounds: it is given up where in so many no gap, as met,"""
    stands: float = 0.8
    """has come to less than this share."""


DEFAULT = SideBySideTuning()


def suits(settings: Settings, dataset: DatasetInfo, tuning: SideBySideTuning = DEFAULT) -> bool:
    """Are variants of this problem for SideBySide?"""
    loss = loss_of(settings)
    wide = not dataset.is_dense and dataset.n_columns > tuning.above
    return wide and dataset.n_classes <= 2 and not settings.paper and _suits(loss)


def _suits(loss: Loss) -> bool:
    if not (isinstance(loss, PLQLoss) and extrapolates(loss)):
        return False
    bounds = np.array([loss.lower, loss.upper])
    return bool(np.isfinite(bounds).all() and (bounds == bounds.astype(np.float32)).all())


def lanes_of(n: int, of_cost: int) -> list[range]:
    """How ``n`` variants, so many of each C one after the other, are put side by side: those of a C together, as
    they take about as long. Fewer would be hardly quicker: a visit waits for memory, not for arithmetic."""
    size = of_cost * max(1, MOST // of_cost) if of_cost <= MOST else MOST
    return [range(start, min(start + size, n)) for start in range(0, n, size)]


class SideBySide:
    """See the file's head. ``solve`` yields a Report after each pass that measures, and each round of sweeps."""

    def __init__(
        self,
        settings: Settings,
        class_weight: NDArray[np.float64],
        threads: int,
        problems: Problems,
        tuning: SideBySideTuning = DEFAULT,
    ) -> None:
        """class_weight: (n_classes,) factors of C. problems: of two classes or numbers, with their variants."""
        loss = loss_of(settings)
        assert isinstance(loss, PLQLoss)
        assert _suits(loss)
        self.settings, self.class_weight, self.problems = settings, class_weight, problems
        self._loss, self._tuning, self._n_threads = loss, tuning, threads
        first = problems.variants[0]
        of_cost = sum(variant.cost == first.cost for variant in problems.variants)
        self._parts = lanes_of(len(problems), of_cost)
        self._lanes: list[Lanes] = []  # while ``solve`` is at it, and after

    @property
    def visits(self) -> int:
        """To rows by sweeps so far, lanes counted once."""
        return sum(lanes.visits for lanes in self._lanes)

    def needs(self, memory: MemoryLeft) -> Needs:
        dataset = memory.dataset
        columns, n, threads = (
            dataset.n_columns + 1,
            len(self.problems),
            min(self._n_threads, len(self._parts)),
        )
        itemsize = self._dtype(dataset).itemsize
        of_lanes = columns * sum(column_bytes(len(part), itemsize) for part in self._parts)
        rows = dataset.n_rows * sum(row_bytes(len(part), itemsize) for part in self._parts)
        measuring = threads * min(dataset.n_rows, PIECE_ROWS) * MEASURED_BYTES
        lines = {WEIGHTS: of_lanes + 8 * columns * n, DUALS: rows, MEASURING: measuring}
        return Needs(lines, ROW_WORK_BYTES + THREAD_BYTES * threads, survivors=False)

    def _dtype(self, dataset: DatasetInfo) -> np.dtype:
        by_class = RowCosts.of_classes(self.settings.C, self.class_weight).by_class
        variants = self.problems.variants
        cost = max(v.cost * float((by_class * (v.class_weight or 1.0)).max()) for v in variants)
        return np.dtype(np.float32 if shares_as_float32(self.settings, cost, dataset) else np.float64)

    def solve(self, stream: Stream) -> Iterator[Report]:
        """See llsvm.solvers.base."""
        stream.prepare(self.needs(stream.memory_left))
        dataset = stream.dataset
        given = dataset.n_rows, dataset.n_columns, self._loss, self.settings.constant, self._dtype(dataset)
        variants = self.problems.variants
        self._lanes = [
            Lanes(part.start, variants[part.start : part.stop], *given, self.settings.seed)
            for part in self._parts
        ]
        with closing(_Epochs(self, stream, self._lanes)) as epochs:
            yield from epochs.reports()

    def shares(self, start: int, stop: int) -> NDArray[np.floating]:
        """(stop − start, k) α_i / C_i of the rows from ``start`` to ``stop``."""
        return np.concatenate([each.shares(start, stop) for each in self._lanes], axis=1)

    def close(self) -> None:
        """Let go of the dual variables, once ``solve`` is at its end."""
        self._lanes = []


class _Epochs:
    """Sweeps, moves and measurements of lanes over the rows of a stream."""

    def __init__(self, solver: SideBySide, stream: Stream, lanes: Sequence[Lanes]) -> None:
        settings, k = solver.settings, len(solver.problems)
        self._solver, self._stream, self._lanes = solver, stream, lanes
        self._loss, self._tuning, self._settings = solver._loss, solver._tuning, settings
        self._costs = RowCosts.of_classes(settings.C, solver.class_weight)
        self._threads = Threads(solver._n_threads, stream.progress.stop)
        bound = stream.rounding_bound(self._loss, self._costs.by_class, settings.constant)
        self._bound = replace(bound, variants=solver.problems.variants)
        self._best = BestPrimal(k)
        self._dual = np.zeros(k)
        self._passes = 0
        self._folds = list({id(v.leaves_out): v.leaves_out for v in solver.problems.variants}.values())
        # the gap as met that is measured, of the tolerance; and larger ones, where rounding may hide the optimum
        self._enough = [self._tuning.measure_at] * len(lanes)
        self._met_before: dict[int, float] = {}
        asks = self._bound.lost > 0 and settings.stop == "gap"
        self._early = list(self._tuning.early_gaps) if asks else []

    def close(self) -> None:
        self._threads.close()

    def reports(self) -> Iterator[Report]:
        progress = self._stream.progress
        yield self._first()
        for number in count():
            self._round(number)
            ready = [each for each in self._open if self._is_ready(each)] if self._sees_all(number) else []
            last = self._stands(number) or progress.out_of_time
            if ready or last:
                report = self._measured(self._open if last else ready)
                yield report
                if report.converged or last:
                    return
            else:
                dual = float(sum(each.dual[: len(each.variants)].sum() for each in self._lanes))
                yield Report("epoch", self._passes, dual=dual)

    @property
    def _open(self) -> list[Lanes]:
        return [each for each in self._lanes if each.is_open]

    def _parts(self) -> Iterator[Part]:
        """Of a full pass, or of a sweep: they take about as long."""
        for block in self._stream.all():
            yield Part(block, self._costs.of(block))

    def _first(self) -> Report:
        """A pass that finds who leaves out which rows, and what no weights at all would cost."""
        k = len(self._solver.problems)
        primal, squares = np.zeros(k), np.zeros(k)
        for part in self._parts():
            folds: list[Fold] = [fold for fold in self._folds if fold is not None]
            outside = [(fold, fold.contains(part.rows, part.class_ids)) for fold in folds]
            for lanes in self._lanes:
                lanes.leave_out(part, outside)
                at = slice(lanes.numbers.start, lanes.numbers.stop)
                for rows, _ in part.pieces():
                    cost = lanes.costs(part, rows)
                    target = part.y[rows] if part.targets else np.ones(len(cost))
                    primal[at] += self._loss.value(np.zeros(len(cost)), target) @ cost
                    squares[at] += np.einsum("il,il->l", cost, cost)
        self._passes += 1
        self._best.offer_zeros(primal, squares, (k, self._stream.dataset.n_columns + 1))
        return self._report()

    def _sees_all(self, number: int) -> bool:
        """Does a round sweep over all rows?"""
        return number < self._tuning.all_every or number % self._tuning.all_every == 0

    def _round(self, number: int) -> None:
        """A sweep over all rows, some more over those that are active, and a move."""
        for sweep in range(self._tuning.sweeps):
            self._sweep(everyone=sweep == 0 and self._sees_all(number))
            if self._stream.progress.out_of_time:
                break
        for lanes in self._open:
            lanes.end_sweeps(self._tuning.average_share, self._tuning.average_early)
        if number + 1 >= self._tuning.move_after and not self._stream.progress.out_of_time:
            self._move()

    def _sweep(self, everyone: bool) -> None:
        open_, progress = self._open, self._stream.progress
        met = {id(lanes): np.zeros_like(lanes.met) for lanes in open_}
        for part in self._parts():

            def visit(lanes: Lanes, part: Part = part) -> None:
                order = lanes.order(part, everyone)
                values = len(part.X.data) / max(len(part), 1)
                for piece in np.array_split(order, int(len(order) * values / _PIECE_VALUES) + 1):
                    if progress.out_of_time:
                        return
                    lanes.sweep(part, piece, met[id(lanes)])

            self._threads.map(visit, open_)
            if progress.out_of_time:
                return
        if everyone:
            for lanes in open_:
                lanes.met[:] = met[id(lanes)]

    def _move(self) -> None:
        open_ = self._open
        self._threads.map(Lanes.begin_move, open_)
        for part in self._parts():
            self._threads.map(partial(Lanes.move, part=part), open_)
            if self._stream.progress.out_of_time:
                return
        self._threads.map(Lanes.end_move, open_)

    def _is_ready(self, lanes: Lanes) -> bool:
        """Is the gap that the last sweep over all rows met small enough for a pass to measure it?"""
        enough = [self._enough[self._lanes.index(lanes)] * self._settings.tol, *self._early[:1]]
        return self._met_share(lanes) <= max(enough)

    def _stands(self, number: int) -> bool:
        """Does no gap get much smaller any more?"""
        if (number + 1) % self._tuning.patience:
            return False
        before, self._met_before = self._met_before, {id(each): self._met_share(each) for each in self._open}
        return all(
            met > self._tuning.stands * before.get(each, np.inf) for each, met in self._met_before.items()
        )

    def _met_share(self, lanes: Lanes) -> float:
        """The gap of the problem that is farthest, as met, as a share of its objective."""
        n = len(lanes.variants)
        return float(np.max(lanes.met[:n] / np.maximum(lanes.dual[:n], np.finfo(float).tiny)))

    def _measured(self, some: list[Lanes]) -> Report:
        """A pass that certifies some lanes, and closes those whose problems are all near enough."""
        for lanes in some:
            lanes.begin_measuring()
        for part in self._parts():
            self._threads.map(partial(Lanes.measure, part=part, close=CLOSE), some)
        self._passes += 1
        k = len(self._solver.problems)
        primal, close = np.full(k, np.inf), np.full(k, np.inf)
        w: list[NDArray[np.floating]] = [self._lanes[0].weights[0]] * k
        for lanes in some:
            at = slice(lanes.numbers.start, lanes.numbers.stop)
            primal[at], close[at], dual, w[at] = lanes.end_measuring()
            self._dual[at] = np.maximum(self._dual[at], dual)
        self._best.offer(primal, close, w)
        early, self._early = bool(self._early), self._early[1:]
        report = self._report()
        assert report.certificate is not None
        gaps = np.array(report.certificate.gaps)
        for lanes in some:
            lanes.go_on()
            gap, met = float(gaps[lanes.numbers.start : lanes.numbers.stop].max()), self._met_share(lanes)
            if gap <= self._settings.tol:
                lanes.close()
            elif not early:
                if gap > met:
                    lanes.average_anew()
                # the next one, where the same ratio of both would make it small enough
                ratio = met / gap if met > gap else 1.0
                self._enough[self._lanes.index(lanes)] = self._tuning.measure_again * ratio
        return report

    def _report(self) -> Report:
        certificate = self._best.certificate(self._dual, self._passes, self._bound)
        converged = certificate.relative_gap <= self._settings.tol
        report = Report("pass", self._passes, self._best.coef, certificate, float(self._dual.sum()))
        report.converged = converged
        report.survivors = max((each.n_active for each in self._open), default=0)
        report.extra[UPDATES] = self._solver.visits / self._stream.dataset.n_rows
        return report
