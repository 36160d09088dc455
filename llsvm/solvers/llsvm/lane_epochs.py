"""Rounds of sweeps over lanes (lanes.py), and the passes that certify them; see side_by_side.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.best import BestPrimal
from llsvm.objective.certificate import Certificate
from llsvm.objective.costs import RowCosts
from llsvm.objective.losses import loss_of
from llsvm.objective.problems import Fold, Problems
from llsvm.objective.rounding import CLOSE
from llsvm.process.threads import Threads
from llsvm.settings.settings import Settings
from llsvm.solvers.base import LOOK_VALUES
from llsvm.solvers.llsvm.lanes import LaneRows, Lanes
from llsvm.solvers.report import UPDATES, Report
from llsvm.solvers.stopping import StoppingRule
from llsvm.stream.rereading import Rereading
from llsvm.stream.stream import Stream


@dataclass(frozen=True, slots=True)
class SideBySideTuning:
    """The constants that its speed depends on, and never its answer."""

    above: int = 3000
    """Columns: rows of fewer are for second order."""
    sweeps: int = 2
    """Of a round;"""
    all_every: int = 6
    """the first of each of so many rounds, and of as many in the beginning, is over all rows, the others are over
    those that are active."""
    average_early: float = 4.0
    """Of a round's weights, over the number of rounds, in their average: the gap falls fast at first."""
    measure_at: float = 2.5
    """Times the tolerance: where the gap as met has come to this, a pass measures it, and if that was too soon,
    where the same ratio of both would make it small enough; where it was above that as met, at the tolerance."""
    keep_below: float = 0.7
    """Of all rows are active: they are kept out of core, and read in place of all."""
    patience: int = 90
    """Rounds: it is given up where in so many no gap, as met,"""
    stands: float = 0.8
    """has come to less than this share."""


DEFAULT = SideBySideTuning()


@dataclass(slots=True)
class _Kept:
    """Active rows of a sweep over all. wanted: they are kept for those to come."""

    wanted: bool
    n_active: int = 0


class LaneEpochs:
    """Sweeps, moves and measurements of lanes over the rows of a stream."""

    def __init__(
        self,
        settings: Settings,
        class_weight: NDArray[np.float64],
        threads: int,
        problems: Problems,
        stream: Stream,
        lanes: Sequence[Lanes],
        tuning: SideBySideTuning,
    ) -> None:
        """class_weight: (n_classes,) factors of C. problems: all that the lanes are of."""
        k, self._problems = len(problems), problems
        self._stream, self._lanes, self._settings, self._tuning = stream, lanes, settings, tuning
        self._loss = loss_of(settings)
        self._costs = RowCosts.of_classes(settings.C, class_weight)
        self._threads = Threads(threads, stream.progress.stop)
        bound = stream.rounding_bound(self._loss, self._costs.by_class, settings.constant)
        self._bound = replace(bound, variants=problems.variants)
        self._reading = Rereading(stream, lambda block: LaneRows(block, self._costs.of(block)))
        self._best = BestPrimal(k)
        self._dual = np.zeros(k)
        asked = np.array([not variant.to_begin_at for variant in problems.variants])
        self._asked = asked if asked.any() else ~asked  # (k,) for a certificate
        self._rule = StoppingRule(settings.tol, required=self._asked)
        self._passes = 0
        self._folds = list({id(v.leaves_out): v.leaves_out for v in problems.variants}.values())
        self._enough = dict[
            int, float
        ]()  # the gap as met that is measured, of the tolerance, once one has been
        self._met_before: dict[int, float] = {}
        self._keeps, self._active_share = False, 1.0  # rows that were active, when all were seen last

    def close(self) -> None:
        self._reading.end()
        self._threads.close()

    def reports(self) -> Iterator[Report]:
        progress = self._stream.progress
        yield self._first()
        for number in count():
            seen_all = self._round(number)
            ready = [each for each in self._open if self._is_ready(each)] if seen_all else []
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

    def _parts(self, everyone: bool = True) -> Iterator[LaneRows]:
        """All rows, or those that were active when all were seen last, where these are kept."""
        return self._reading.all() if everyone or not self._keeps else self._reading.active()

    def _first(self) -> Report:
        """A pass that finds who leaves out which rows, and what no weights at all would cost."""
        k = len(self._problems)
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

    def _round(self, number: int) -> bool:
        """A sweep over all rows now and then, more over those that are active, and a move. Has it seen all rows?"""
        every = self._tuning.all_every
        everyone = number < every or number % every == every - 1
        for sweep in range(self._tuning.sweeps):
            self._sweep(everyone=everyone and sweep == 0)
            if self._stream.progress.out_of_time:
                break
        for lanes in self._open:
            lanes.end_sweeps(self._tuning.average_early)
        if not self._stream.progress.out_of_time:
            self._move()
        return everyone

    def _sweep(self, everyone: bool) -> None:
        open_, progress = self._open, self._stream.progress
        met = {id(lanes): np.zeros_like(lanes.met) for lanes in open_}
        kept = self._begin_keeping() if everyone else None
        for part in self._parts(everyone):

            def visit(lanes: Lanes, part: LaneRows = part) -> None:
                order = lanes.order(part, everyone)
                values = len(part.X.data) / max(len(part), 1)
                for piece in np.array_split(order, int(len(order) * values / LOOK_VALUES) + 1):
                    if progress.out_of_time:
                        return
                    lanes.sweep(part, piece, met[id(lanes)])

            self._threads.map_with_caller(visit, open_)
            if progress.out_of_time:
                return
            if kept is not None:
                self._keep(part, kept)
        if kept is not None:
            self._end_keeping(kept)
        if everyone:
            for lanes in open_:
                lanes.met[:] = met[id(lanes)]

    # -- active rows, which are kept out of core ----------------------------------------------------------

    def _begin_keeping(self) -> _Kept | None:
        """All rows are about to be swept over: what is known of the active ones; None where all are in memory."""
        if self._stream.in_one_block:
            return None
        survivors, few = self._stream.survivors, self._active_share <= self._tuning.keep_below
        self._reading.end()
        survivors.clear()
        self._keeps = False
        return _Kept(few and self._settings.survivors == 1.0 and not survivors.note)

    def _keep(self, part: LaneRows, kept: _Kept) -> None:
        """Rows of the part that no lanes call active are out of all moves until all rows are seen again."""
        active = np.zeros(len(part), bool)
        for lanes in self._open:
            active |= lanes.is_active(part)
        kept.n_active += int(np.count_nonzero(active))
        if kept.wanted:
            for lanes in self._open:
                lanes.forget(part.rows[~active])
            self._stream.survivors.add(part.block, np.where(active, 0.0, np.inf).astype(np.float32), 0.0)

    def _end_keeping(self, kept: _Kept) -> None:
        self._active_share = kept.n_active / self._stream.dataset.n_rows
        if kept.wanted:
            self._stream.survivors.swap_generation()
            self._keeps = not self._stream.survivors.note  # the disk may have refused some

    def _move(self) -> None:
        open_ = self._open
        self._threads.map_with_caller(Lanes.begin_move, open_)
        for part in self._parts(everyone=False):
            self._threads.map_with_caller(partial(Lanes.move, part=part), open_)
            if self._stream.progress.out_of_time:
                return
        self._threads.map_with_caller(Lanes.end_move, open_)

    def _is_ready(self, lanes: Lanes) -> bool:
        """Is the gap that the last sweep over all rows met small enough for a pass to measure it?"""
        share = self._enough.get(id(lanes), self._tuning.measure_at)
        return self._met_share(lanes) <= share * self._settings.tol

    def _stands(self, number: int) -> bool:
        """Does no gap get much smaller any more?"""
        if (number + 1) % self._tuning.patience:
            return False
        before, self._met_before = self._met_before, {id(each): self._met_share(each) for each in self._open}
        return all(
            met > self._tuning.stands * before.get(each, np.inf) for each, met in self._met_before.items()
        )

    def _met_share(self, lanes: Lanes) -> float:
        """The gap of the problem that is farthest, of those that are asked for a certificate, as met, as a share of
        its objective."""
        asked = np.flatnonzero(self._asked[lanes.numbers.start : lanes.numbers.stop])
        met = lanes.met[asked] / np.maximum(lanes.dual[asked], np.finfo(float).tiny)
        return float(met.max(initial=0.0))

    def _measured(self, some: list[Lanes]) -> Report:
        """A pass that certifies some lanes, and closes those whose problems are all near enough."""
        for lanes in some:
            lanes.begin_measuring()
        for part in self._parts():
            self._threads.map_with_caller(partial(Lanes.measure, part=part, close=CLOSE), some)
        self._passes += 1
        k = len(self._problems)
        primal, close = np.full(k, np.inf), np.full(k, np.inf)
        w: list[NDArray[np.floating]] = [self._lanes[0].weights[0]] * k
        for lanes in some:
            at = slice(lanes.numbers.start, lanes.numbers.stop)
            primal[at], close[at], dual, w[at] = lanes.end_measuring()
            self._dual[at] = np.maximum(self._dual[at], dual)
        self._best.offer(primal, close, w)
        report = self._report()
        assert report.certificate is not None
        gaps = self._gaps(report.certificate)
        for lanes in some:
            lanes.go_on()
            gap, met = float(gaps[lanes.numbers.start : lanes.numbers.stop].max()), self._met_share(lanes)
            if gap <= self._settings.tol:
                lanes.close()
            else:
                if gap > met:
                    lanes.average_anew()
                self._enough[id(lanes)] = min(1.0, met / gap)
        return report

    def _gaps(self, certificate: Certificate) -> NDArray[np.float64]:
        """(k,) of the problems; 0 of those that are not asked."""
        return np.where(self._asked, certificate.gaps, 0.0)

    def _report(self) -> Report:
        certificate = self._best.certificate(self._dual, self._passes, self._bound)
        verdict = self._rule.judge(certificate)
        report = Report("pass", self._passes, self._best.coef, certificate, float(self._dual.sum()))
        report.converged = verdict.converged
        report.survivors = max((each.n_active for each in self._open), default=0)
        report.extra[UPDATES] = sum(lanes.visits for lanes in self._lanes) / self._stream.dataset.n_rows
        return report
