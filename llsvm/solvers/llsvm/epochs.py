"""Epochs: sweeps over the rows that survived a full pass, in memory and spilled, until their gap is small; and
second order (second_order.py) over those in memory where sweeps crawl."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.problems import Positions
from llsvm.solvers.llsvm.all_rows import AllRows
from llsvm.solvers.llsvm.block_state import BlockState
from llsvm.solvers.llsvm.enough import Enough
from llsvm.solvers.llsvm.hidden import Hidden
from llsvm.solvers.llsvm.parts import Parts
from llsvm.solvers.llsvm.rows_at_hand import RowsAtHand
from llsvm.solvers.llsvm.run import Run
from llsvm.solvers.llsvm.scale import Scale
from llsvm.solvers.llsvm.second_order import SecondOrder
from llsvm.solvers.llsvm.spilled_extrapolation import SpilledExtrapolation
from llsvm.solvers.llsvm.spilled_face import SpilledFaces
from llsvm.solvers.llsvm.sweeps import CALL_VISITS
from llsvm.solvers.llsvm.warm import Probe
from llsvm.solvers.llsvm.working_sets import WorkingSets
from llsvm.stream.progress import Progress


class Epochs:
    """What comes between two full passes. enough: the gaps at which they end."""

    def __init__(self, run: Run, allowance: float, at_once: bool) -> None:
        """allowance: epochs end early once a round has taken so many updates, all problems together. at_once: see
        ``LLSVM.hasten``. Both may be changed."""
        self._run = run
        self.allowance, self.at_once = allowance, at_once
        self._work_before = np.zeros(len(run.sweeps.w), np.int64)  # ``Sweeps.work``, as the epochs began
        self._second_order = SecondOrder(run)
        self._at_hand = RowsAtHand(run, self._second_order)
        self._faces = SpilledFaces(run)
        self._sets = WorkingSets(run, self._second_order, self._faces.done)
        self._all_rows = AllRows(run, self._second_order, self._faces.done)
        self.crawled = False  # sweeps over all rows in memory have, of every problem
        self._late, self._again = False, False
        self._crawls = self._to_faces = False  # so slowly that working sets, or steps along faces, may pay
        self._waiting = list[int]()  # problems that crawl, for ``_sets`` or ``_all_rows``
        # (k,) second order over the survivors in memory has been, in a first round that working sets follow: that
        # knows few of the rows that matter
        self._settled = np.zeros(len(run.sweeps.w), bool)
        self.enough, self.why_ended = Enough(run), ""
        # (k,) the gap of rows in memory, as the last sweep over them met it
        self._met = np.zeros(len(run.sweeps.w))
        self._scale = Scale(run)
        self.hidden = Hidden(run)
        # (k, d + 1) sum of the weights that blocks of the epoch at hand have left, and of how many
        self._left = np.zeros_like(run.sweeps.w) if run.tuning.average else None
        self._n_left = 0
        self._parts = Parts(run)
        self._extrapolation = SpilledExtrapolation(run)

    def begin(self, passes: int, gaps: NDArray[np.float64], to_go: float, again: bool) -> None:
        """The last of so many full passes is at its end, and has certified the gaps (k,); at its rate, so many more
        are to go. again: a round before it took second order over spilled rows."""
        tuning = self._run.tuning
        self.enough.begin(passes, gaps)
        early = self.enough.early
        self._crawls = not early and (again or to_go > tuning.working_sets.passes)
        self._to_faces = not early and not self._run.extrapolates and (again or to_go > tuning.face.passes)
        self._again, self._late = again, passes >= tuning.multipliers.late
        self._work_before = self._run.sweeps.work
        if self.enough.warm is not None:
            # a short round tells no rate
            measured = passes > self.enough.warm.begun_after + tuning.face.first_pass
            self._crawls, self._to_faces = self._crawls & measured, self._to_faces & measured

    @property
    def second_order(self) -> bool:
        """Has there been second order over spilled rows in the last round?"""
        return self._faces.begun or self._sets.begun or self._all_rows.begun

    def in_block(self, threshold: float) -> int:
        """Epochs where all rows are one block, over those of a slack up to ``threshold``; returns how many there
        are, all problems together."""
        kept = 0
        for _ in self._at_hand.multipliers(self._run.duals.whole):
            kept = self._in_block(threshold)
        return kept

    @property
    def second_order_price(self) -> float:
        """See LLSVM."""
        part, price = self._run.duals.whole, 0.0
        if part is None:
            return math.inf
        for c in self._run.sweeps.open:
            price += self._second_order.price(part, len(part.members(c)), len(part.active[c]))
        return price

    @property
    def calls_price(self) -> float:
        """ns of processor time that sweeps have taken so far beside their visits to rows."""
        return CALL_VISITS * int(self._run.sweeps.calls.sum()) * self._second_order.visit_price

    def _in_block(self, threshold: float) -> int:
        sweeps, part = self._run.sweeps, self._run.duals.whole
        assert part is not None
        kept, crawl = np.zeros(len(sweeps.w), np.int64), np.zeros(len(sweeps.w), bool)
        threshold *= 1.0 if self.enough.warm is None else self.enough.warm.drift_share(self.enough.passes)

        def settle(c: int) -> None:
            if self._progress.out_of_time:
                return
            with part.held(c):
                rows = part.violating(c, threshold)
                kept[c] = len(rows)
                crawl[c] = self._settle(part, c, rows, threshold, len(part.members(c)))

        hidden = self.hidden.shows(part, settle, crawl)
        self.crawled |= bool(crawl.all())
        if not hidden:
            self._at_hand.finish(part, np.flatnonzero(crawl).tolist(), self.enough.of_tol)
        return int(kept.sum())

    def over_survivors(self, n_active: int, threshold: float, limited: bool, in_cache: bool) -> int:
        """Epochs over the survivors, in memory and spilled; returns how many there are.

        n_active: how many of them were free or violating when they were kept. threshold: of slack. limited: there
        are few, and all of them take part. in_cache: nothing was spilled, the cache has them."""
        run, sweeps, survivors = self._run, self._run.sweeps, self._run.stream.survivors
        run.stream.progress.begin("survivors", len(survivors))
        tuning, first, n_rows, few = run.tuning, np.zeros(len(sweeps.w)), run.stream.dataset.n_rows, False
        run.start[...] = sweeps.w
        if self.enough.warm is None:
            most = tuning.max_extrapolated if run.extrapolates else tuning.max_spill_epochs
            most_read = tuning.spill_reads * n_rows
        else:
            most, most_read = self.enough.warm.tuning.max_spill_epochs, 0.0
            threshold *= self.enough.warm.drift_share(self.enough.passes)
        n_kept, n_read = len(survivors), 0
        within, rewrite = threshold, n_active < tuning.rewrite_below * len(survivors)
        for each in (self._faces, self._sets, self._all_rows):
            each.begin()
        self._waiting, self._settled[:], self._met[:] = [], False, 0.0
        self._extrapolation.begin()
        for epoch in range(tuning.face.max_steps):
            self._extrapolation.begin_epoch()
            self._forget_left()
            cached = in_cache and tuning.cached_epochs
            if not (cached and tuning.average):  # else the cache has them, and they are averaged with all
                chosen = (survivors.slack < np.inf) if limited else (survivors.slack <= within)
                self._over_resident(chosen, threshold, self._crawls and not in_cache)
            self.why_ended = "all survivors are in memory, and done"
            if self._progress.out_of_time:
                break
            if cached:
                sweeps.begin()  # threads that conflicted may no longer, now that weights move less
                met, rewrite, n_read = self._over_cache(), False, n_read + n_rows
            elif (spilled := survivors.spilled) is not None:
                few, n_read = spilled.n_rows * most <= most_read, n_read + spilled.n_rows
                met, within, rewrite = self._over_spill(within, rewrite and not self._faces.begun)
                self.enough.met = met
            elif not self._waiting:
                break
            elif self._sets.solve(self._waiting, self.enough.of_tol):
                return n_kept
            else:
                continue
            if self.enough.warm is not None:
                met = met + self._met
            if epoch == 0:
                first = met
            enough = self.enough.spilled(first, self._faces.stepped, few)
            self.why_ended = "the gap met is small enough, or the round has taken its allowance"
            if np.all(met <= enough) or all(map(self._is_spent, sweeps.open)):
                break
            self.why_ended = "second order over survivors that were brought together"
            if self._together(met, in_cache):
                return n_kept
            self.why_ended = "as many epochs as a round may have"
            many = epoch + 1 >= most and n_read > most_read
            if not self._along_faces(met, in_cache) and many:
                break
            if self._faces.done[sweeps.open].all():
                break
            self._extrapolation.end_epoch(self._faces.done)
        run.begin_at_weights()
        if self._left is not None and self._n_left and not self.second_order:
            np.divide(self._left, self._n_left, out=run.start)
        return n_active if in_cache else n_kept

    def _over_resident(self, chosen: NDArray[np.bool_], threshold: float, may_wait: bool) -> None:
        """Epochs over the chosen survivors in memory, chosen: (n,). Nothing may hold on to these rows after: second
        order over others takes their room."""
        resident = self._run.duals.of(self._run.stream.survivors.resident)
        self._extrapolation.note(resident)
        for _ in self._at_hand.multipliers(resident):
            self._settle_resident(resident, chosen, threshold, may_wait)
        self.put_back(resident)

    def _forget_left(self) -> None:
        self._n_left = 0
        if self._left is not None:
            self._left[...] = 0.0

    def _together(self, met: NDArray[np.float64], in_cache: bool) -> bool:
        """Where sweeps over spilled rows crawl, second order over all rows, or over those brought together that
        matter to the problems that have the gap ``met``, (k,), still to go. Is a full pass to follow?"""
        if in_cache or not self._crawls or self._progress.out_of_time:
            return False
        far = (met > self.enough.spilled(np.zeros(len(met)), self._faces.stepped)) & ~self._faces.done
        problems, n_free = [c for c in self._run.sweeps.open if far[c]], self._faces.n_free
        fits = self._all_rows.fits
        apart = [c for c in problems if fits and not self._sets.may_take(c, int(n_free[c]))]
        # free rows that have room together are a working set first; where that was not enough, all rows are
        all_rows = self._all_rows.pay(problems if fits and self._again else apart, n_free, self._again)
        if all_rows:
            self._all_rows.solve(all_rows, self.enough.of_tol)
            return True
        late = self._late or bool(self._waiting)
        paying = self._sets.pay([c for c in problems if c not in apart], n_free, late)
        return bool(paying) and self._sets.solve(paying, self.enough.of_tol) and len(paying) == len(problems)

    def _along_faces(self, met: NDArray[np.float64], in_cache: bool) -> bool:
        """Where sweeps over spilled rows crawl, a step along the faces of the problems that have the gap ``met``,
        (k,), still to go. Has there been one?"""
        if in_cache or not self._to_faces or self._progress.out_of_time:
            return False
        far = (met > self.enough.spilled(np.zeros(len(met)), self._faces.stepped)) & ~self._faces.done
        crawling = self._faces.pay([c for c in self._run.sweeps.open if far[c]], self._late)
        if crawling:
            self._faces.step(crawling)
        return bool(crawling)

    def to_standstill(self, all_problems: bool) -> int:
        """See ``RowsAtHand``."""
        return self._at_hand.to_standstill(all_problems)

    def _settle_resident(
        self, resident: BlockState, chosen: NDArray[np.bool_], threshold: float, may_wait: bool
    ) -> None:
        """Epochs over the chosen ones of the survivors in memory, chosen: (n,). may_wait: problems that crawl may
        wait until working sets of all survivors can be had."""
        sweeps = self._run.sweeps
        crawl, waits = np.zeros(len(sweeps.w), bool), np.zeros(len(sweeps.w), bool)
        n_free, is_spilled = self._faces.n_free, self._run.stream.survivors.spilled is not None
        all_rows = self._all_rows.pay(sweeps.open, n_free, self._again) if may_wait and is_spilled else []

        def settle(c: int) -> None:
            if self._progress.out_of_time or self._faces.done[c] or self._settled[c]:
                return
            waits[c] = may_wait and (c in all_rows or self._sets.may_take(c, int(n_free[c])))
            with resident.held(c):
                members = resident.members(c)
                rows = members[chosen[members]]
                crawl[c] = self._settle(resident, c, rows, threshold, len(members), waits[c])

        sweeps.each(settle)
        crawling = np.flatnonzero(crawl).tolist()
        if self._faces.begun:  # all survivors take steps
            crawling = []
        else:
            self._waiting = [c for c in crawling if waits[c]]
            crawling = [c for c in crawling if not waits[c]]
        members = [resident.members(c) for c in crawling]
        self._second_order.solve(resident, crawling, members, self.enough.of_tol, whole=False)
        self._settled[crawling] = self.enough.early and is_spilled and self._sets.fits(0)

    def put_back(self, resident: BlockState) -> None:
        """Store the survivors in memory as they are now."""
        survivors = self._run.stream.survivors
        self._run.duals.store(resident)
        seen = ~np.isnan(resident.margin).all(axis=0)
        survivors.set_slack(np.where(seen, resident.slack(), survivors.slack))

    def _over_spill(self, within: float, rewrite: bool) -> tuple[NDArray[np.float64], float, bool]:
        """Sweep over each spilled block; returns the gap as met, (k,), the slack threshold, and whether so few rows
        are within it that the next epoch is to rewrite them.

        rewrite: these become the next generation, and those of least slack of all move to memory. The threshold is
        no more than margins have drifted in the last epoch: the nearer the end, the fewer rows can still matter."""
        run, survivors, spilled = self._run, self._run.stream.survivors, self._run.stream.survivors.spilled
        assert spilled is not None
        met, n_rows, n_within, drift = np.zeros(len(run.sweeps.w)), 0, 0, 0.0
        shrinks, n_spilled = not self._faces.begun, spilled.n_rows
        drifts = (run.tuning if self.enough.warm is None else self.enough.warm.tuning).epoch_drift_share
        if shrinks:
            run.start[...] = run.sweeps.w
        self._faces.begin_count(run.duals.of(survivors.resident))
        for part in self._parts.spilled(run.tuning.scan_spilled or self._faces.begun):
            if self._progress.out_of_time:
                break  # the next pass, if there is one, sees all rows
            self._extrapolation.note(part)
            self._sweep(part, met, 2)
            self._faces.count(part)
            slack, n_rows = part.slack(), n_rows + part.n_rows
            if shrinks and (rewrite or n_rows == n_spilled):
                drift = max(drift, drifts * run.drift(part.block))
            if rewrite:
                survivors.add(part.block, slack, min(within, drift))
            n_within += int(np.count_nonzero(slack <= within))
        if rewrite:
            survivors.swap_generation()
            self._extrapolation.forget()
        if n_rows == n_spilled and shrinks:
            within = min(within, drift)
        return met, within, not rewrite and n_within < run.tuning.rewrite_below * n_spilled

    def _over_cache(self) -> NDArray[np.float64]:
        """Sweep over all rows, block by block; returns the gap as met, (k,)."""
        met = np.zeros(len(self._run.sweeps.w))
        for block in self._run.stream.again():
            if self._progress.out_of_time:
                break
            self._sweep(self._run.duals.of(block), met, 1)
        return met

    def _sweep(self, part: BlockState, met: NDArray[np.float64], times: int) -> None:
        """Sweep over a block's active rows, and after that over those that are free or were violating; adds the gap
        as met by the first sweep to ``met``, (k,)."""
        run, sweeps = self._run, self._run.sweeps

        def sweep(c: int) -> None:
            if self._progress.out_of_time:
                return
            if self._faces.done[c]:
                part.active[c] = part.active[c][:0]
                return
            with part.held(c):
                met[c] += sweeps.sweep(part, c)
                for _ in range(times - 1):
                    sweeps.sweep(part, c)

        sweeps.each(sweep)
        if self._left is not None:
            self._left += sweeps.w
            self._n_left += 1
        run.duals.store(part)

    def _settle(
        self, part: BlockState, c: int, rows: Positions, threshold: float, n_rows: int, may_wait: bool = False
    ) -> bool:
        """Epochs over rows of the part, until their gap, as met by a sweep over all of them, is small; or until
        second order over ``n_rows`` pays, and then returns True. may_wait: in the room of working sets."""
        sweeps, tuning, first = self._run.sweeps, self._run.tuning, 0.0
        probe = Probe(part, c, tuning.probe_rows)
        lent_bytes = self._sets.lent_bytes if may_wait else 0
        ahead = None
        for epoch in range(tuning.max_epochs):
            if epoch == tuning.extrapolate_after:
                ahead = self._second_order.extrapolation(part, c, rows)
            if ahead is not None:
                ahead.step()
            part.active[c] = rows
            gap = sweeps.sweep(part, c)
            first = gap if epoch == 0 else first
            self._met[c] = gap
            if gap <= self.enough.at_hand(first, c) or self._is_spent(c):
                return False
            if self._scale.is_enough(part, c, gap, self.enough.of_tol * float(sweeps.dual[c])):
                return False
            n_active, visits = len(part.active[c]), int(sweeps.work[c])
            late = self._late or self.at_once
            if self._second_order.pays(part, n_rows, n_active, visits, late, lent_bytes):
                return True
            if epoch == 0:
                # the others survived on account of other problems
                rows = part.violating(c, threshold, rows)
            if self.enough.warm is not None:
                if self._run.stream.survivors.spilled is not None:
                    return False  # these are to be heard before more is made of the others
                threshold = min(threshold, self.enough.warm.tuning.epoch_drift_share * probe.drift())
                rows = part.violating(c, threshold, rows)
                probe.look(rows)
            met = gap
            for _ in range(tuning.block_sweeps):
                if self._progress.out_of_time:
                    break
                last, most = met, 2 * len(part.active[c]) >= len(rows)
                met = sweeps.sweep(part, c)
                if (
                    self.enough.warm is not None
                    and most
                    and met * min(1.0, met / last) <= self.enough.at_hand(first, c)
                ):
                    self._met[c] = met
                    return False
                if met <= tuning.sweep_until * gap:
                    break
        return False

    @property
    def _progress(self) -> Progress:
        return self._run.stream.progress

    def _is_spent(self, c: int) -> bool:
        """Has the problem had its share of what a round may take, or the run its time?"""
        sweeps = self._run.sweeps
        work = int(sweeps.work[c] - self._work_before[c])
        return work * len(sweeps.open) >= self.allowance or self._progress.out_of_time
