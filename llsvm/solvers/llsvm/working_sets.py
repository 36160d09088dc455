"""Working sets: where survivors are spilled, and sweeps over them crawl, those that are free or violate in a
problem are brought together in memory, in the room that a pass has for blocks of rows, and for the weights that
it began with; there second order (second_order.py) solves the problem over them, as if they were all there is. A
reading of all survivors tells what that was worth, and who violates now; the next full pass tells the rest.

If all survivors have room, they come together once, for all problems. Else each reading serves as many problems as
have room together, and takes those rows of a problem that are free or add most to its gap, as far as they have
room; a problem whose free rows have none is left to sweeps.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from llsvm.files.growing import is_mapped
from llsvm.process.work import Work
from llsvm.solvers.llsvm.duals import BlockState, row_gaps
from llsvm.solvers.llsvm.layout import WEIGHTS
from llsvm.solvers.llsvm.run import Run
from llsvm.solvers.llsvm.second_order import SecondOrder
from llsvm.solvers.optim.conjugate_gradients import Way
from llsvm.solvers.optim.newton_system import MOST_ORDER, NewtonPrices
from llsvm.spill.writer import row_sizes
from llsvm.stream.rereading import Gathered

Vector = NDArray[np.float64]
Counts = NDArray[np.int64]
# Classes of rows by what they add to the gap, one for each power of 2, the highest for free rows. Fewer choose
# rows of a working set less finely, or do not reach from the smallest gap to the largest; each costs 16 bytes a
# problem.
BINS = 128
# Columns, below which survivors are not brought together: lower exceeds the memory limit, as what is held of each
# row beside so few values is more than the plan counts for survivors; higher leaves more to sweeps over spilled
# rows.
NARROW = 100


class WorkingSets:
    """Working sets of the survivors of one pass after the other. Meanwhile ``run.start`` is on disk.

    done: (k,) the problem has so small a gap over the survivors that it waits for the next pass as it is: epochs
    leave it alone."""

    def __init__(self, run: Run, second_order: SecondOrder) -> None:
        self._run, self._second_order = run, second_order
        self._start_bytes = 0 if is_mapped(run.start) else run.start.nbytes
        self.done = np.zeros(len(run.sweeps.w), bool)
        self._without_room = set[int]()  # in this round
        # (k,) of the rows that a sweep has moved, so many need room: as many as were free when they had none
        self.rows_share = np.zeros(len(run.sweeps.w))

    def begin(self) -> None:
        """A round begins, all of whose problems are to be worked on."""
        self.done[:] = False
        self._without_room.clear()

    def fits(self, n_rows: int) -> bool:
        """Return whether so many rows of a problem have room, and second order over them."""
        run = self._run
        wide = run.stream.dataset.n_columns >= NARROW
        allowed = wide and run.threshold is None and run.tuning.doubt > 0
        min_bytes = self._second_order.work_bytes(n_rows, has_matrix=False)
        return allowed and self._held_bytes(n_rows) + min_bytes <= self._room_bytes()

    def worthwhile(self, problems: list[int], n_free: Counts) -> list[int]:
        """Return those of these problems that there is room for, if sweeps have cost more than working sets of all
        of them would. n_free: (k,) so many rows of each are free, or moved."""
        run = self._run
        moved = [c for c in problems if n_free[c] > 0 and c not in self._without_room]
        fitting = [c for c in moved if self.fits(int(self.rows_share[c] * n_free[c]))]
        read = len(fitting) * len(run.stream.survivors) * run.stream.dataset.held_bytes_per_row
        spent, price = 0.0, Work(store_bytes=int(read)).seconds
        for c in fitting:
            n = int(n_free[c])
            prices = self._prices(n)
            way = prices.best(n)
            is_swept = way is Way.PRODUCTS  # see SecondOrder
            price += prices.system(way, n) if is_swept else self._second_order.price_of(prices, n, n)
            spent += prices.updates(int(run.sweeps.work[c]))
        return fitting if run.tuning.doubt * spent > price else []

    def solve(self, problems: list[int], n_free: Counts, gap: float) -> bool:
        """Solve these problems over the survivors, to such a gap, a share of the objective, as far as they have
        room; return whether all of them had. ``run.start`` becomes weights for the next pass.

        n_free: see ``worthwhile``."""
        run, room = self._run, self._room_bytes()
        if self._start_bytes:
            run.put_start_on_disk()
        run.measure_weights_next()
        with Gathered(run.stream, WEIGHTS, self._start_bytes) as gathered:
            n_rows = len(run.stream.survivors)
            held = gathered.survivor_bytes + self._row_bytes * n_rows
            if held + self._second_order.work_bytes(n_rows, has_matrix=n_rows <= MOST_ORDER) <= room:
                self._gather(gathered, None, drop=True)
                self._solve_together(gathered, problems, gap)
            else:
                self._in_rounds(gathered, problems, n_free, gap)
        if self._start_bytes:
            run.take_start_into_memory()
        return self._without_room.isdisjoint(problems)

    # -- room ----------------------------------------------------------------------------------------------

    def _prices(self, n_rows: int) -> NewtonPrices:
        """Return the prices of second order over so many rows that are brought together."""
        dataset, room = self._run.stream.dataset, self._room_bytes() - self._held_bytes(n_rows)
        return self._second_order.prices(dataset.nnz / max(dataset.n_rows, 1), n_rows, room)

    @property
    def _row_bytes(self) -> int:
        """Bytes of work on a row, beside the row."""
        plan = self._run.stream.plan
        return -(-plan.work_bytes // (plan.survivor_rows + plan.block_rows))

    def _room_bytes(self) -> int:
        """Return the bytes for rows and work on them, if those in memory make room."""
        plan = self._run.stream.plan
        return plan.two_blocks_bytes + plan.survivor_bytes + plan.work_bytes + self._start_bytes

    def _held_bytes(self, n_rows: int) -> int:
        return int(n_rows * (self._run.stream.dataset.held_bytes_per_row + self._row_bytes))

    # -- rows ----------------------------------------------------------------------------------------------

    def _in_rounds(self, gathered: Gathered, problems: list[int], n_free: Counts, gap: float) -> None:
        """Solve as many problems at a time as have room together, until none is left that has a gap over the
        survivors."""
        run = self._run
        room, drop = self._room_bytes(), len(run.sweeps.w) == 1
        if not drop:  # else nobody wants them again
            room -= run.stream.plan.survivor_bytes
        for _ in range(1 if drop else run.tuning.max_working_set_rounds):
            if run.stream.progress.out_of_time:
                return
            histograms = self._survey(gathered, problems, gap)
            groups = self._groups(histograms, room)
            for c in histograms.keys() - {c for group in groups for c in group}:
                self._without_room.add(c)
                self.rows_share[c] = histograms[c][0, -1] / n_free[c]
            for group in groups:
                self._gather(gathered, group, drop)
                self._solve_together(gathered, list(group), gap)
            problems = [c for group in groups for c in group]
            if not problems:
                return

    def _survey(self, gathered: Gathered, problems: list[int], gap: float) -> dict[int, Counts]:
        """Return what each of the problems that have a larger gap over the survivors wants of these, (2, BINS) by
        powers of 2 of what rows add to its gap: how many, and bytes of these and of work on them. The others are
        done."""
        run, loss, gaps = self._run, self._run.sweeps.loss, np.zeros(len(problems))
        histograms = {c: np.zeros((2, BINS), np.int64) for c in problems}
        for part in self._measured(gathered, problems):
            sizes = row_sizes(part.block, gathered.rows) + self._row_bytes
            for j, c in enumerate(problems):
                at, alpha, margin = part.of(c)
                gaps[j] += float(row_gaps(loss, alpha, margin, part.cost(c)[at], part.target(at)).sum())
                rows, bins = self._bins(part, c)
                histograms[c] += [
                    np.bincount(bins, minlength=BINS),
                    np.bincount(bins, sizes[rows], BINS).astype(np.int64),
                ]
        for j, c in enumerate(problems):
            self.done[c] = gaps[j] <= gap * float(run.sizes[c])
        return {c: histogram for c, histogram in histograms.items() if not self.done[c]}

    def _bins(self, part: BlockState, c: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The rows that are free or violate in problem ``c``, and the powers of 2 of what they add to its gap: of
        free ones that of all."""
        loss = self._run.sweeps.loss
        rows, alpha, margin = part.of(c, part.violating(c, self._run.sweeps.negligible))
        cost = part.cost(c)[rows]
        gap = row_gaps(loss, alpha, margin, cost, part.target(rows))
        bins = np.clip(np.frexp(np.maximum(gap, 0.0))[1] + BINS // 2, 0, BINS - 2)
        bins[loss.free(alpha, cost)] = BINS - 1
        return rows, bins

    def _groups(self, histograms: dict[int, Counts], room: int) -> list[dict[int, int]]:
        """The problems, as many together as have room, but for those that have none alone; and of each the least
        power of 2 of its rows."""
        groups, used = list[dict[int, int]](), 0
        for c, histogram in histograms.items():
            rows, held = np.cumsum(histogram[:, ::-1], axis=1)
            work = self._second_order.work_bytes
            has_matrix = held[0] + work(int(rows[0]), has_matrix=True) <= room
            needed = held + [work(int(n), has_matrix) for n in rows]
            n_bins = int(np.searchsorted(needed > room, True))
            if n_bins == 0:
                continue
            if not groups or used + int(needed[n_bins - 1]) > room:
                groups.append({})
                used = 0
            groups[-1][c] = BINS - n_bins
            used += int(held[n_bins - 1])
        return groups

    def _measured(self, gathered: Gathered, problems: list[int]) -> Iterator[BlockState]:
        """The survivors with their margins in these problems."""
        duals, sweeps = self._run.duals, self._run.sweeps
        for block in gathered.survivors():
            part = duals.of(block)
            sweeps.measure(part, sweeps.w, problems)
            yield part

    def _gather(self, gathered: Gathered, problems: dict[int, int] | None, drop: bool) -> None:
        """Fill the buffer with the survivors that one of these problems wants, from such a power of 2 on; None:
        all. drop: those in memory are forgotten."""
        rows = gathered.begin(drop)
        if problems is None:
            for block in gathered.survivors():
                rows.append(block)
        else:
            for part in self._measured(gathered, list(problems)):
                selected = []
                for c, min_bin in problems.items():
                    at, bins = self._bins(part, c)
                    selected.append(at[bins >= min_bin])
                rows.append_rows(part.block, np.unique(np.concatenate(selected)))

    def _solve_together(self, gathered: Gathered, problems: list[int], gap: float) -> None:
        """Second order over the rows in the buffer."""
        run, rows = self._run, gathered.rows
        part = run.duals.of(rows.block())
        lent_bytes = gathered.room_bytes - rows.used_bytes
        members = [part.members(c) for c in problems]
        self._second_order.solve(part, problems, members, gap, lent_bytes=lent_bytes)
        run.duals.store(part)
        self.done[problems] = True
