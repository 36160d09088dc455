"""Epochs: sweeps over the rows that survived a full pass, in memory and spilled, until their gap is small; and
second order (second_order.py) over those in memory where sweeps crawl."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import PLQLoss
from llsvm.objective.problems import Positions
from llsvm.process.trace import trace
from llsvm.solvers.llsvm.duals import BlockState
from llsvm.solvers.llsvm.run import Run
from llsvm.solvers.llsvm.second_order import SecondOrder
from llsvm.solvers.llsvm.sweeps import CALL_VISITS
from llsvm.solvers.llsvm.working_sets import WorkingSets
from llsvm.solvers.optim.line_search import ROUNDING
from llsvm.solvers.state import Value
from llsvm.stream.progress import Progress

Gaps = NDArray[np.float64] | float  # of the problems, or of one

# Epochs before sweeps over survivors are extrapolated: the first ones still change which rows are free.
# Extrapolated at once, pairs of wide rows with the squared hinge at C = 1e4 take 14 passes instead of 5; later,
# sweeps crawl for longer before extrapolation helps them.
EXTRAPOLATED_AFTER = 3


class Epochs:
    """Epochs over survivors between two full passes, and what they remember from one round to the next."""

    def __init__(self, run: Run, allowance: float, crawled: bool) -> None:
        """allowance: epochs end early once a round has taken so many updates, all problems together.
        crawled: second order over rows in memory takes over at once."""
        self._run = run
        self._allowance = allowance
        self._work_before = np.zeros(len(run.sweeps.w), np.int64)  # ``Sweeps.work``, as the epochs began
        self._second_order = SecondOrder(run)
        self._sets = WorkingSets(run, self._second_order)
        # (k,) rows that are free, or that the last sweep over all chosen rows has moved
        self._n_free = np.zeros(len(run.sweeps.w), np.int64)
        # sweeps over all rows in memory have crawled in every problem, now or in a run that this one goes on from
        self.crawled = crawled
        self._early = True  # passes know too little yet of who survives
        # (k,) the gap that the last sweeps over all chosen rows have met; and what part of the gap that the next
        # pass measured that was: sweeps meet each row at weights that have just been moved to suit it
        self._swept_gap = np.zeros(len(run.sweeps.w))
        self._swept_share = np.ones(len(run.sweeps.w))

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays that a SolverState holds of it."""
        return {"rows_share": self._sets.rows_share, "met": self._swept_gap, "met_share": self._swept_share}

    @property
    def numbers(self) -> dict[str, Value]:
        """Numbers that a SolverState holds of it."""
        return {"crawled": self.crawled}

    def restore(self, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> None:
        """Go on from what these were."""
        self._sets.rows_share[...] = arrays["rows_share"]
        self._swept_gap[...], self._swept_share[...] = arrays["met"], arrays["met_share"]
        self.crawled = numbers["crawled"]

    def begin(self, passes: int, gaps: NDArray[np.float64]) -> None:
        """The last of so many full passes is at its end; gaps: (k,) that it has measured, ∞ where it has not."""
        known = (self._swept_gap > 0) & np.isfinite(gaps) & (gaps > 0)
        share = np.divide(self._swept_gap, gaps, out=np.ones_like(gaps), where=known)
        self._swept_share[known] = np.minimum(share[known], 1.0)
        self._swept_gap[:] = 0.0
        self._early = passes < 2  # one of them has measured weights, and knows who survives
        self._work_before = self._run.sweeps.work

    def in_block(self, threshold: float) -> int:
        """Epochs where all rows are one block, over those of a slack up to ``threshold``; returns how many there
        are, all problems together."""
        part, n_rows = self._run.duals.whole, 0
        assert part is not None

        def rows_of(c: int) -> Positions:
            return part.violating(c, self._run.sweeps.negligible, threshold)

        for _ in self._multipliers(part, self._run.survivors_gap):
            n_rows, crawled = self._over_part(part, rows_of, threshold)
            self.crawled |= crawled
        return n_rows

    @property
    def calls_price(self) -> float:
        """Seconds of work that sweeps have taken so far beside their visits to rows."""
        dataset = self._run.stream.dataset
        prices = self._second_order.prices(dataset.nnz / max(dataset.n_rows, 1), 0, 0)
        return prices.updates(CALL_VISITS * int(self._run.sweeps.calls.sum()))

    def over_survivors(self, n_active: int, threshold: float, limited: bool) -> tuple[int, str]:
        """Epochs over the survivors, in memory and spilled; returns how many there are, and why epochs ended.

        n_active: how many rows were free or violated their conditions in the pass. threshold: of slack. limited:
        there are too few survivors, and all of them take part."""
        run, survivors = self._run, self._run.stream.survivors
        n_kept = len(survivors)
        run.stream.progress.begin("survivors", n_kept)
        run.measure_weights_next()
        self._sets.begin()
        self._n_free[:] = 0
        has_room = survivors.spilled is not None and survivors.spilled.nbytes <= run.stream.disk_room()[0]
        rewrites = has_room and n_active < run.tuning.rewrite_below * n_kept  # both are on disk for a while
        return n_kept, self._until_small(threshold, limited, rewrites)

    def _until_small(self, threshold: float, limited: bool, rewrites: bool) -> str:
        """Epochs until the gap that they meet is small; returns why they ended. rewrites: the first of them writes
        the spill anew."""
        run, sweeps, survivors = self._run, self._run.sweeps, self._run.stream.survivors
        first_gaps = np.zeros(len(sweeps.w))
        for epoch in range(run.tuning.max_spill_epochs):
            selected = (survivors.slack < np.inf) if limited else (survivors.slack <= threshold)
            self._over_resident(selected, threshold)
            if self._progress.out_of_time:
                return "time is over"
            if survivors.spilled is None:
                return "all survivors are in memory, and done"
            gaps = self._over_spill(threshold if rewrites and epoch == 0 else None)
            if epoch == 0:
                first_gaps = gaps
            target_gaps = self._target_gap(first_gaps, run.sizes, self._swept_share)
            self._swept_gap += gaps
            trace("epoch.made", met=gaps, enough=target_gaps)
            if np.all(gaps <= target_gaps):
                return "the gap met is small enough"
            if all(map(self._is_spent, sweeps.open)):
                return "the round has taken its allowance"
            if self._try_working_sets((gaps > self._run.survivors_gap * run.sizes) & ~self._sets.done):
                return "second order over survivors that were brought together"
            if self._sets.done[sweeps.open].all():
                return "second order has solved every problem"
        return "as many epochs as a round may have"

    def _over_resident(self, selected: NDArray[np.bool_], threshold: float) -> None:
        """Epochs over the selected survivors in memory, selected: (n,); ``run.start`` becomes weights for the next
        pass. Nothing may hold on to these rows after: second order over others takes their room."""
        run = self._run
        resident = run.duals.of(run.stream.survivors.resident)

        def rows_of(c: int) -> Positions:
            members = resident.members(c)
            return members[selected[members]]

        for _ in self._multipliers(resident, self._run.survivors_gap):
            self._over_part(resident, rows_of, threshold)
        if run.threshold is not None:  # its multiplier has changed since second order
            run.measure_weights_next()
        self.put_back(resident)

    def _try_working_sets(self, has_gap: NDArray[np.bool_]) -> bool:
        """Solve these problems, (k,), over survivors that are brought together, if sweeps over them crawl; return
        whether a full pass is to follow."""
        if self._early or self._progress.out_of_time:
            return False
        problems = [c for c in self._run.sweeps.open if has_gap[c]]
        solved = self._sets.worthwhile(problems, self._n_free)
        if not solved:
            return False
        return self._sets.solve(solved, self._n_free, self._run.survivors_gap) and len(solved) == len(
            problems
        )

    def _multipliers(self, part: BlockState, missing: float) -> Iterator[None]:
        """Once; of the one-class SVM, until the sum of its dual variables is where it should be, but for such a
        share, as far as the rows of the part can bring it there."""
        yield
        threshold = self._run.threshold
        if threshold is None:
            return
        for _ in range(self._run.tuning.max_threshold_updates):
            reached = threshold.within_reach(part)
            if (
                threshold.update() <= missing
                or threshold.cautious
                or not reached
                or self._progress.out_of_time
            ):
                return
            yield

    def to_last_digits(self) -> int:
        """Solve small data by second order, if that has room; returns how many rows that are.

        Where it costs next to nothing it makes the answer the same to the last digits, whatever the order of the
        rows, and whether a row is written twice or weighs 2. That is of all problems, also of those that have
        converged. Gaps are closed to rounding; with the logistic loss, whose steps double the digits, steps end
        where these change nothing."""
        run, part = self._run, self._run.duals.whole
        assert part is not None
        run.sweeps.begin(range(len(run.sweeps.w)), 0.0)
        if not self._second_order.is_worthwhile(part, part.n_rows, part.n_rows, 0, 0.0, is_forced=True):
            return 0
        for _ in self._multipliers(part, ROUNDING):
            self._finish(part, run.sweeps.open, ROUNDING if isinstance(run.sweeps.loss, PLQLoss) else 0.0)
        return part.n_rows

    def _finish(self, part: BlockState, crawling: list[int], gap: float) -> None:
        """Solve these problems over all their rows, which the part has, to such a gap, a share of the dual."""
        self._run.measure_weights_next()
        members = [part.members(c) for c in crawling]
        self._second_order.solve(part, crawling, members, gap)

    def _over_part(
        self, part: BlockState, rows_of: Callable[[int], Positions], threshold: float
    ) -> tuple[int, bool]:
        """Epochs over the rows of the part that are chosen for each problem, then second order over all its rows in
        the problems where they crawl; returns how many rows were chosen, all problems together, and whether all
        problems crawl. ``run.start`` becomes weights for the next pass."""
        sweeps = self._run.sweeps
        n_rows, needs_newton = np.zeros(len(sweeps.w), np.int64), np.zeros(len(sweeps.w), bool)

        def descend(c: int) -> None:
            if self._progress.out_of_time or self._sets.done[c]:
                return
            with part.held(c):
                rows = rows_of(c)
                n_rows[c] = len(rows)
                needs_newton[c] = self._descend(part, c, rows, threshold, len(part.members(c)))

        sweeps.for_each(descend)
        self._finish(part, np.flatnonzero(needs_newton).tolist(), self._run.survivors_gap)
        return int(n_rows.sum()), bool(needs_newton.all())

    def put_back(self, resident: BlockState) -> None:
        """Store the survivors in memory as they are now."""
        survivors = self._run.stream.survivors
        self._run.duals.store(resident)
        seen = ~np.isnan(resident.margin).all(axis=0)
        survivors.set_slack(np.where(seen, resident.slack(self._run.sweeps.negligible), survivors.slack))

    def _over_spill(self, threshold: float | None) -> NDArray[np.float64]:
        """Sweep over each spilled block; returns the gap as met, (k,).

        threshold: of slack, up to which rows survive this epoch, too, but no more than margins have drifted in it:
        rows that are at rest wait for the next pass. None: all rows of the spill do, as it is not written anew."""
        run, gaps, drift = self._run, np.zeros(len(self._run.sweeps.w)), 0.0
        survivors = run.stream.survivors
        self._count_free(run.duals.of(survivors.resident))
        for block in run.stream.active():
            if self._progress.out_of_time:
                break  # the next pass, if there is one, sees all rows
            part = run.duals.of(block)
            self._sweep(part, gaps)
            if threshold is not None:
                drift = max(drift, run.drift(part.block))
                survivors.add(part.block, part.slack(run.sweeps.negligible), min(threshold, drift))
        if threshold is not None:
            survivors.swap_generation()
        run.measure_weights_next()
        return gaps

    def _count_free(self, resident: BlockState) -> None:
        """A sweep over spilled rows begins; resident: the survivors in memory."""
        loss = self._run.sweeps.loss
        self._n_free[:] = 0
        for c in self._run.sweeps.open:
            at, alpha, _ = resident.of(c)
            self._n_free[c] = np.count_nonzero(loss.free(alpha, resident.cost(c)[at]))

    def _sweep(self, part: BlockState, gaps: NDArray[np.float64]) -> None:
        """Sweep over a block's rows, and once more over those that are free or were violating; adds the gap as met
        by the first sweep to ``gaps``, (k,), and the rows that are active then to ``_n_free``."""
        run, sweeps = self._run, self._run.sweeps

        def sweep(c: int) -> None:
            if self._progress.out_of_time or self._sets.done[c]:
                return
            with part.held(c):
                gaps[c] += sweeps.sweep(part, c)
                sweeps.sweep(part, c)
            self._n_free[c] += len(part.active[c])

        sweeps.for_each(sweep)
        run.duals.store(part)

    def _descend(self, part: BlockState, c: int, rows: Positions, threshold: float, n_rows: int) -> bool:
        """Epochs over rows of the part, until their gap, as met by a sweep over all of them, is small; or until
        second order over ``n_rows`` pays, and then returns True."""
        sweeps, tuning, first_gap, extrapolation = self._run.sweeps, self._run.tuning, 0.0, None
        for epoch in range(tuning.max_epochs):
            if epoch == EXTRAPOLATED_AFTER:
                extrapolation = self._second_order.extrapolation(part, c, rows)
            if extrapolation is not None:
                extrapolation.step()
            gap = self._swept_gap[c] = sweeps.sweep(part, c, rows)
            visits = int(sweeps.work[c])
            first_gap = gap if epoch == 0 else first_gap
            size, share = float(self._run.sizes[c]), float(self._swept_share[c])
            target_gap = float(self._target_gap(first_gap, size, share))
            if gap <= target_gap or self._is_spent(c):
                return False
            self._n_free[c] = n_active = len(part.active[c])
            falls = gap < first_gap
            to_come = visits * math.log(gap / target_gap) / math.log(first_gap / gap) if falls else 0.0
            if self._second_order.is_worthwhile(part, n_rows, n_active, visits, to_come, self.crawled):
                return True
            if epoch == 0:
                # the others survived on account of other problems
                rows = part.violating(c, sweeps.negligible, threshold, rows)
            sweeps.sweep_active(part, c, gap, tuning.block_sweeps)
        return False

    def _target_gap(self, first: Gaps, size: Gaps, swept_share: Gaps) -> Gaps:
        """Return the gap, as sweeps meet it, at which epochs over rows end that began at the gap ``first``.

        size: of the objective. swept_share: see ``_swept_share``."""
        return np.maximum(
            self._run.tuning.survivors_until * first, swept_share * self._run.survivors_gap * size
        )

    @property
    def _progress(self) -> Progress:
        return self._run.stream.progress

    def _is_spent(self, c: int) -> bool:
        """Return whether the problem has had its share of what a round may take, or the run its time."""
        sweeps = self._run.sweeps
        work = int(sweeps.work[c] - self._work_before[c])
        return work * len(sweeps.open) >= self._allowance or self._progress.out_of_time
