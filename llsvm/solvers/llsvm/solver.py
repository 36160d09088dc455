"""LLSVM: dual coordinate descent over blocks, with survivors (Alrajeh, Takeda, Niranjan, ICMV 2014).

Primal:  P(w) = ½‖w‖² + Σ_i C_i max(0, 1 − y_i w·x_i)^p, p = 1 (hinge) or 2 (squared hinge); the constant feature
``bias`` is part of x. Dual: D(α) = Σ α_i − ½‖w(α)‖² − Σ ½ D_i α_i² over 0 ≤ α_i ≤ U_i, see kernels.py.
More than two classes make one problem per class (against the rest) or per pair, all in the same passes; a problem
whose own gap is small enough is left alone from then on.

Exact mode runs rounds. A round is a full pass and epochs over its survivors. In the full pass each block is
(1) measured at w₀, the weights that the pass began with: Σ of the losses gives P(w₀) at the end of the pass;
(2) trained: a sweep or two over the rows that w₀ would move; (3) sifted: rows that move, and rows so near to
moving that the last pass's drift of the margins would set them moving, survive, in memory or spilled.
P(w₀) − D(α) is a rigorous gap whatever α became meanwhile, and w₀ are the weights handed back.
Stop when gap ≤ tol · P, or where the passes that are left cannot bring it there (llsvm/solvers/stall.py).

Paper mode is the slides' algorithm: update each row once as it is read, keep those with 0 < α < U, re-read and
update these until α settles; nothing that was dropped is seen again. One more full pass measures its gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.best import BestPrimal
from llsvm.objective.costs import RowCosts
from llsvm.objective.losses import loss_of
from llsvm.objective.problems import Problems
from llsvm.settings.settings import Settings
from llsvm.solvers.llsvm.block_state import BlockState
from llsvm.solvers.llsvm.layout import Layout, layout
from llsvm.solvers.llsvm.sweeps import Sweeps
from llsvm.solvers.report import STALLED, Report
from llsvm.solvers.stall import Stall
from llsvm.stream.stream import Stream

MAX_SWEEPS = 3  # of a block at hand,
SWEEPS_ALONE = 30  # or this many where fewer than this share of the moving rows may be kept for epochs
LIMITED_BELOW = 0.5
SWEEP_UNTIL = 0.2  # sweeps of a block end when its part of the gap fell to this share
PROBE_ROWS = 2000  # rows that are looked at to find how far margins have drifted
PROBE_BYTES = 200_000  # ... and copied, at most
MAX_EPOCHS = 50  # over all the survivors in memory between two full passes
MAX_SPILL_EPOCHS = 8  # over the spilled ones
REWRITE_BELOW = 0.5  # the spill is written anew when this share of its rows is still within reach
SURVIVORS_UNTIL = 0.1  # epochs end when the survivors' part of the gap fell to this share of what it was,
TOL_SHARE = 0.3  # or to this share of the gap that is asked for
REACH = 1.0  # rows that this much of the last pass's drift would set moving are spilled with the moving ones,
SPILL_MAX = 4.0  # but of each block at most so many times as many as move
EPOCH_REACH = 2.0  # the same of the drift of the epochs so far, once their rows are spilled anew
MAX_PAPER_EPOCHS = 1000
SMALL_VALUES = 20_000  # data with at most so many rows and values is solved until nothing moves any more,
SMALL_SWEEPS, SMALL_VISITS = 20, 50_000_000  # in runs of so many sweeps, of so many visits to values a round
SMALL_ROUNDS = 8  # and in so many rounds at most, those in which the gap hardly falls, and the last
STILL = 1e-13  # nothing moves: no weight changed by more than this share of the largest


class LLSVM:
    """See the file's head. ``solve`` yields a Report after each full pass and each run of epochs."""

    def __init__(self, settings: Settings, class_weight: NDArray[np.float64], threads: int = 1) -> None:
        """class_weight: (n_classes,) factors of C."""
        self.settings = settings
        self.class_weight = class_weight
        self.threads = threads
        self.allowance = math.inf  # epochs end early once a round has taken so many updates

    def layout(self, memory: MemoryLeft) -> Layout:
        """What it would do with the memory there is."""
        return layout(self.settings, self.class_weight, self.threads, memory)

    def needs(self, memory: MemoryLeft) -> Needs:
        return self.layout(memory).needs

    def solve(self, stream: Stream) -> Iterator[Report]:
        dataset, settings = stream.dataset, self.settings
        self.problems = Problems(len(dataset.classes), settings.multiclass == "ovo")
        self.costs = RowCosts.of_classes(settings.C, self.class_weight)
        self.loss = loss_of(settings.loss)
        self.bound = stream.rounding_bound(
            self.loss, self.costs.by_class, settings.constant, self.problems.pairs
        )
        plan = self.layout(stream.memory_left)
        stream.prepare(plan.needs)
        k, width, at_hand, single = len(self.problems), self.problems.width, plan.at_hand, plan.single
        self.small = at_hand and dataset.n_rows + dataset.nnz <= SMALL_VALUES
        self.state = None if at_hand else stream.row_state(width, plan.state_dtype)
        self.progress = stream.progress
        self.whole: BlockState | None = None  # all rows, where they are one block
        self.most_sweeps = MAX_SWEEPS
        self.limited = settings.survivors < LIMITED_BELOW  # few rows may be kept for epochs
        self.reach = 0.0  # rows this near to moving are spilled too
        self.work_before = np.zeros(k, np.int64)  # ``Sweeps.work``, when the round began
        with closing(Sweeps(self.problems, dataset.n_columns, settings, self.threads, single)) as self.sweeps:
            self.start = np.zeros_like(self.sweeps.w)
            yield from self._paper(stream) if settings.paper else self._exact(stream)

    @property
    def dual(self) -> NDArray[np.float64]:
        """(k,) D(α) of each problem."""
        return self.sweeps.dual

    @property
    def updates(self) -> int:
        """Rows visited by sweeps so far, all problems together."""
        return int(self.sweeps.visits.sum())

    @property
    def work(self) -> int:
        """What sweeps came to so far, in updates of rows."""
        return int(self.sweeps.work.sum())

    def _is_spent(self, c: int) -> bool:
        """Has the problem had its share of what a round may take, or the run its time?"""
        work = int(self.sweeps.work[c] - self.work_before[c])
        return work * len(self.sweeps.open) >= self.allowance or self.progress.out_of_time

    # -- exact: rounds ----------------------------------------------------------------------------------

    def _exact(self, stream: Stream) -> Iterator[Report]:
        settings, passes = self.settings, 0
        most = settings.max_passes or 0
        best, stall = BestPrimal(len(self.sweeps.w)), Stall(settings.tol, settings.max_passes)
        still, rounds = False, 0  # small data: until they stand still; in so many rounds so far
        while True:
            self.start[...] = self.sweeps.w
            self.sweeps.begin()
            (primal, close_squares), moving = self._full_pass(stream, measure=passes > 0)
            passes += 1
            best.offer(primal, close_squares, self.start)
            certificate = best.certificate(self.dual, passes, self.bound)
            converged = certificate.relative_gap <= settings.tol
            self.sweeps.open = certificate.open(settings.tol)
            report = Report("pass", passes, best.coef, certificate, float(self.dual.sum()), moving, converged)
            report.extra["updates_per_row"] = self.updates / stream.dataset.n_rows
            stalled = stall.note(passes, best.primal, self.dual) and not converged
            still |= stalled
            at_end = converged or still or (most and passes >= max(most, 2) - 1)
            if stalled and not self.small:
                report.cause = STALLED
            self.work_before = self.sweeps.work
            yield report
            if report.cause or (most and passes >= max(most, 2)) or (converged and not self.small):
                return
            if self.small and at_end:
                kept, rounds = self._stand_still(converged), rounds + 1
                self.small = not converged and rounds < SMALL_ROUNDS
            else:
                kept = self._epochs_in_block() if self.whole else self._survivor_epochs(stream, moving)
            dual = float(self.dual.sum())
            yield Report("epoch", passes, best.coef, certificate, dual, kept, converged)

    def _full_pass(self, stream: Stream, measure: bool) -> tuple[NDArray[np.float64], int]:
        """Measure the primal at the weights it begins with, and update; returns it with what BestPrimal wants,
        (2, k), and how many rows are moving."""
        start = self.start
        measured = np.full((2, len(start)), np.inf)
        for c in self.sweeps.open:
            measured[:, c] = 0.5 * float(np.einsum("i,i", start[c], start[c])), 0.0
        moving, drift = 0, 0.0
        if not stream.in_one_block:
            stream.survivors.clear()  # every row is about to be seen again
        for block in stream.all():
            part = self.whole or self._part(block)
            self.sweeps.measure(part, start if measure else None)

            def train(c: int, part: BlockState = part) -> None:
                measured[:, c] += self.sweeps.loss(part, c)
                part.active[c] = part.near(c, self.sweeps.squared) if measure else part.members(c)
                self._train(part, c)

            self.sweeps.each(train)
            if self.limited and not stream.in_one_block:
                self._train_together(part, stream)
            self._store(part)
            distance = part.distance(self.sweeps.squared)
            moving += int(np.count_nonzero(distance <= 0))
            stream.progress.survivors = moving
            drift = self._drift(block)
            if stream.in_one_block:
                self.whole = part
            else:
                stream.survivors.add(block, distance, self._reach(distance))
        if not stream.in_one_block:
            stream.survivors.turn()
            alone = len(stream.survivors) < LIMITED_BELOW * moving
            self.most_sweeps = SWEEPS_ALONE if alone else MAX_SWEEPS
            self.limited |= alone
        self.reach = REACH * drift
        return measured, moving

    def _reach(self, distance: NDArray[np.float32]) -> float:
        """How near to moving the rows of a block must be to be spilled: at most some times as many as move."""
        most = int(SPILL_MAX * np.count_nonzero(distance <= 0)) + 1
        if most >= len(distance):
            return self.reach
        return min(self.reach, float(np.partition(distance, most)[most]))

    def _train(self, part: BlockState, c: int) -> None:
        """Sweep over a block until its part of the gap has fallen enough."""
        first = self.sweeps.sweep(part, c)
        # Fewer rows than weights do not tell what the weights should be: more sweeps would only fit them.
        most = self.most_sweeps if part.n_rows > self.sweeps.w.shape[1] else 1
        for _ in range(most - 1):
            if self.sweeps.sweep(part, c) <= SWEEP_UNTIL * first:
                return

    def _train_together(self, part: BlockState, stream: Stream) -> None:
        """Sweep over a block and, in turn with it, the rows of the blocks before it that were kept in memory.

        Most rows of this block are not seen again before the next pass, and neither are most of those before:
        what it makes of the weights must suit them as well (Chang & Roth 2011, selective block minimisation)."""
        resident = self._part(stream.survivors.resident)

        def train(c: int) -> None:
            part.active[c] = part.near(c, self.sweeps.squared)
            for _ in range(MAX_SWEEPS + 1):
                self.sweeps.sweep(resident, c)
                self.sweeps.sweep(part, c)

        self.sweeps.each(train)
        self._put_back(resident, stream)

    def _drift(self, block: Block) -> float:
        """How far margins have moved since the pass, or its epochs, began: root mean square over some rows, the
        largest of the problems."""
        share = min(1.0, PROBE_BYTES / max(block.nbytes, 1))
        n_rows = min(block.n_rows, PROBE_ROWS, max(1, int(share * block.n_rows)))
        some = block.take(np.linspace(0, block.n_rows - 1, n_rows).astype(np.int64))
        parts = [
            BlockState(self.problems, some, np.ones(n_rows), np.zeros((self.problems.width, n_rows)))
            for _ in "12"
        ]
        for part, w in zip(parts, (self.sweeps.w, self.start), strict=True):
            self.sweeps.measure(part, w)
        moved = parts[0].margin - parts[1].margin
        return float(np.sqrt(np.nanmax(np.mean(moved * moved, axis=1))))

    def _epochs_in_block(self) -> int:
        """Epochs over the survivors where all rows are one block; returns how many there are."""
        part = self.whole
        assert part is not None
        kept = np.zeros(len(self.sweeps.w), np.int64)

        def settle(c: int) -> None:
            near = part.near(c, self.sweeps.squared, self.reach)
            kept[c] = len(near)
            self._settle(part, c, near)

        self.sweeps.each(settle)
        self._store(part)
        return int(kept.sum())

    def _survivor_epochs(self, stream: Stream, moving: int) -> int:
        """Epochs over the survivors, in memory and spilled, until their part of the gap is small; returns how
        many there are. moving: how many of them were moving when they were kept."""
        survivors = stream.survivors
        stream.progress.begin("survivors", len(survivors))
        first = np.zeros(len(self.sweeps.w))
        self.start[...] = self.sweeps.w
        reach, rewrite = self.reach, moving < REWRITE_BELOW * len(survivors)
        for epoch in range(MAX_SPILL_EPOCHS):
            resident = self._part(survivors.resident)
            near = (survivors.distance < np.inf) if self.limited else (survivors.distance <= reach)

            def settle(c: int, resident: BlockState = resident, near: NDArray[np.bool_] = near) -> None:
                members = resident.members(c)
                self._settle(resident, c, members[near[members]])

            self.sweeps.each(settle)
            self._put_back(resident, stream)
            if survivors.spilled is None:
                break
            n_spilled = survivors.spilled.n_rows
            met, reach, within = self._spilled_epoch(stream, reach, rewrite)
            if epoch == 0:
                first = met
            if np.all(met <= self._enough(first)) or all(map(self._is_spent, self.sweeps.open)):
                break
            rewrite = within < REWRITE_BELOW * n_spilled
        return len(survivors)

    def _enough(self, first: NDArray[np.float64]) -> NDArray[np.float64]:
        """The gap, (k,), at which epochs over survivors end that began with a gap of ``first``."""
        return np.maximum(SURVIVORS_UNTIL * first, TOL_SHARE * self.settings.tol * self.dual)

    def _spilled_epoch(
        self, stream: Stream, reach: float, rewrite: bool
    ) -> tuple[NDArray[np.float64], float, int]:
        """Sweep over each spilled block; returns the gap as met, (k,), the reach, and how many rows are within it.

        rewrite: these become the next generation, and the nearest of all move to memory. The reach is then no
        more than margins have drifted since the epochs began."""
        survivors = stream.survivors
        met, within, drift = np.zeros(len(self.sweeps.w)), 0, 0.0
        for block in stream.active():
            part = self._part(block)

            def sweep(c: int, part: BlockState = part) -> None:
                met[c] += self.sweeps.sweep(part, c)
                self.sweeps.sweep(part, c)

            self.sweeps.each(sweep)
            self._store(part)
            distance = part.distance(self.sweeps.squared)
            if rewrite:
                drift = max(drift, EPOCH_REACH * self._drift(block))
                survivors.add(block, distance, min(reach, drift))
            within += int(np.count_nonzero(distance <= reach))
        if rewrite:
            survivors.turn()
            reach = min(reach, drift)
        return met, reach, within

    def _settle(self, part: BlockState, c: int, positions: NDArray[np.intp]) -> None:
        """Epochs over rows of the part, until their gap, as met by a sweep over all of them, is small."""
        first = 0.0
        for epoch in range(MAX_EPOCHS):
            part.active[c] = positions
            gap = self.sweeps.sweep(part, c)
            first = gap if epoch == 0 else first
            if gap <= max(SURVIVORS_UNTIL * first, TOL_SHARE * self.settings.tol * self.dual[c]):
                return
            if self._is_spent(c):
                return
            if epoch == 0:
                # the others survived on account of other problems
                positions = part.near(c, self.sweeps.squared, self.reach, positions)
            for _ in range(MAX_SWEEPS):
                if self.sweeps.sweep(part, c) <= SWEEP_UNTIL * gap:
                    break

    def _stand_still(self, all_problems: bool) -> int:
        """Sweep over small data until w stands still; returns how many rows that are.
        Where it costs next to nothing it makes the answer the same to the last digits, whatever the order of the
        rows, and whether a row is written twice or weighs 2."""
        part, k = self.whole, len(self.sweeps.w)
        assert part is not None
        if all_problems:
            self.sweeps.open = list(range(k))
        runs = SMALL_VISITS // (k * SMALL_SWEEPS * (part.n_rows + part.block.nnz))
        for c in self.sweeps.open:
            w, rows = self.sweeps.w[c], np.tile(part.members(c), SMALL_SWEEPS)
            for _ in range(runs):
                before = w.copy()
                self.sweeps.visit(part, c, self.sweeps.shuffled(c, rows))
                if np.max(np.abs(w - before)) <= STILL * np.max(np.abs(before)) or self.progress.out_of_time:
                    break
        return part.n_rows

    def _put_back(self, resident: BlockState, stream: Stream) -> None:
        self._store(resident)
        distance = resident.distance(self.sweeps.squared)
        seen = ~np.isnan(resident.margin).all(axis=0)
        stream.survivors.renew(np.where(seen, distance, stream.survivors.distance))

    # -- paper: survivors only --------------------------------------------------------------------------

    def _paper(self, stream: Stream) -> Iterator[Report]:
        survivors = stream.survivors
        survivors.all_or_nothing = True
        for block in stream.all():
            part = self._part(block)
            self._update_once(part)
            survivors.add(block, part.outside(self.sweeps.squared), 0.0)
        survivors.turn()
        yield Report("pass", 1, dual=float(self.dual.sum()), survivors=len(survivors))
        settled, epochs = False, 0
        while not settled and len(survivors) and epochs < MAX_PAPER_EPOCHS:
            settled = self._paper_epoch(stream)
            epochs += 1
            yield Report("epoch", 1, dual=float(self.dual.sum()), survivors=len(survivors))
        best = BestPrimal(len(self.sweeps.w))
        primal, close_squares = self._measure(stream)
        best.offer(primal, close_squares, self.sweeps.w)
        note = "" if settled or not len(survivors) else f"α had not settled after {epochs} epochs"
        certificate = best.certificate(self.dual, 2, self.bound)
        yield Report(
            "pass",
            2,
            best.coef,
            certificate,
            float(self.dual.sum()),
            len(survivors),
            converged=certificate.relative_gap <= self.settings.tol,
            note=note or "α has settled",
        )

    def _paper_epoch(self, stream: Stream) -> bool:
        """Update every survivor once and keep those still inside the bounds; has α settled?"""
        survivors = stream.survivors
        stream.progress.begin("survivors", len(survivors))
        resident = self._part(survivors.resident)
        changes = [self._update_once(resident)]
        survivors.retain(np.isfinite(resident.outside(self.sweeps.squared)))
        for block in stream.active():
            part = self._part(block)
            changes.append(self._update_once(part))
            survivors.add(block, part.outside(self.sweeps.squared), 0.0)
        survivors.turn()
        changed, total = np.sum(changes, axis=0)
        return bool(changed <= self.settings.tol * total)

    def _update_once(self, part: BlockState) -> tuple[float, float]:
        """Update every row of the part once; returns Σ|Δα| and Σα over it."""
        before = part.alpha.copy()
        for c in range(len(self.sweeps.w)):
            self.sweeps.visit(part, c, self.sweeps.shuffled(c, part.members(c)))
        self._store(part)
        return float(np.abs(part.alpha - before).sum()), float(part.alpha.sum())

    def _measure(self, stream: Stream) -> NDArray[np.float64]:
        """The primal at ``w`` and what BestPrimal wants beside it, (2, k), in a full pass."""
        measured = np.zeros((2, len(self.sweeps.w)))
        measured[0] = 0.5 * np.einsum("ij,ij->i", self.sweeps.w, self.sweeps.w)
        for block in stream.all():
            part = self._part(block)
            self.sweeps.measure(part, self.sweeps.w)
            for c in range(len(self.sweeps.w)):
                measured[:, c] += self.sweeps.loss(part, c)
        return measured

    # -- parts ------------------------------------------------------------------------------------------

    def _part(self, block: Block) -> BlockState:
        cost = self.costs.of(block)
        alpha = np.zeros((self.problems.width, block.n_rows))
        if self.state is not None:
            alpha += self.state.get(block.rows).reshape(block.n_rows, self.problems.width).T * cost
        return BlockState(self.problems, block, cost, alpha)

    def _store(self, part: BlockState) -> None:
        if self.state is not None:
            self.state.set(part.rows, part.stored())
