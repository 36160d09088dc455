"""LLSVM: dual coordinate descent over blocks, with survivors (Alrajeh, Takeda, Niranjan, ICMV 2014).

Primal:  P(w) = ½‖w‖² + Σ_i C_i max(0, 1 − y_i w·x_i)^p, p = 1 (hinge) or 2 (squared hinge); the constant feature
``bias`` is part of x. Dual: D(α) = Σ α_i − ½‖w(α)‖² − Σ ½ D_i α_i² over 0 ≤ α_i ≤ U_i, see kernels/dcd.py.
More than two classes make one problem per class (against the rest) or per pair, all in the same passes; a problem
whose own gap is small enough is left alone from then on.

Exact mode runs rounds. A round is a full pass and epochs over its survivors. In the full pass each block is
(1) measured at w₀, the weights that the pass began with: Σ of the losses gives P(w₀) at the end of the pass;
(2) trained: a sweep or two over the rows that w₀ would move; (3) sifted: rows that move, and rows so near to
moving that the last pass's drift of the margins would set them moving, survive, in memory or spilled.
P(w₀) − D(α) is a rigorous gap whatever α became meanwhile, and w₀ are the weights handed back.
Stop when gap ≤ tol · P.

Paper mode is the slides' algorithm: update each row once as it is read, keep those with 0 < α < U, re-read and
update these until α settles; nothing that was dropped is seen again. One more full pass measures its gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block
from llsvm.kernels.dcd import dots_csr, dots_dense, merge, sweep_csr, sweep_dense
from llsvm.problems import Best, Part, Problems
from llsvm.report import Report
from llsvm.settings import Settings
from llsvm.stream import Stream

# Bytes that working on a row takes beside the row itself: row number, cost, sign, order, distance and what is
# computed from them; per problem: α, margin, position in the active set.
ROW_WORK_BYTES, ROW_PROBLEM_BYTES = 96, 32
PAIR_BYTES = 40  # more where pairs of classes are the problems: order by class, the pair's α and margins
MOST_SWEEPS = 3  # of a block at hand,
SWEEPS_ALONE = 30  # or this many where fewer than this share of the moving rows may be kept for epochs
LIMITED_BELOW = 0.5
SWEEP_UNTIL = 0.2  # sweeps of a block end when its part of the gap fell to this share
PROBE_ROWS = 2000  # rows that are looked at to find how far margins have drifted
PROBE_BYTES = 200_000  # ... and copied, at most
MOST_EPOCHS = 50  # over all the survivors in memory between two full passes
MOST_SPILL_EPOCHS = 6  # over the spilled ones
REWRITE_BELOW = 0.5  # the spill is written anew when this share of its rows is still within reach
SURVIVORS_UNTIL = 0.1  # epochs end when the survivors' part of the gap fell to this share of what it was,
TOL_SHARE = 0.3  # or to this share of the gap that is asked for
REACH = 1.0  # rows that this much of the last pass's drift would set moving are spilled with the moving ones,
SPILL_MOST = 4.0  # but of each block at most so many times as many as move
EPOCH_REACH = 2.0  # the same of the drift of the epochs so far, once their rows are spilled anew
MOST_PAPER_EPOCHS = 1000
PARALLEL_ABOVE = 500  # columns: below, rows share so many of them that threads undo each other's steps
PARALLEL_ROWS = 1024  # each thread's rows between two sums of the threads' weights, at least,
PARALLEL_WORK = 3  # and as many as have so many values for each weight
CONFLICT = 0.3  # threads stop sharing a sweep when this much of their gain is lost to each other
DOUBLE_BELOW_TOL = 1e-5  # dual variables are stored as float32 down to this tolerance
SMALL_VALUES = 20_000  # data with at most so many rows and values is solved until nothing moves any more,
SMALL_SWEEPS, SMALL_VISITS = 20, 50_000_000  # in runs of so many sweeps, of so many visits to values in all
_NO_ROWS = CSR(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))  # where rows are dense
STILL = 1e-13  # nothing moves: no weight changed by more than this share of the largest


class LLSVM:
    """See the file's head. ``solve`` yields a Report after each full pass and each run of epochs."""

    def __init__(self, settings: Settings, class_weight: NDArray[np.float64], threads: int = 1) -> None:
        """class_weight: (n_classes,) factors of C."""
        self.settings = settings
        self.class_weight = class_weight
        self.threads = threads
        self.rng = np.random.default_rng(settings.seed)
        self.allowance = math.inf  # epochs end early once ``updates`` has come to this

    def solve(self, stream: Stream) -> Iterator[Report]:
        facts, settings = stream.facts, self.settings
        self.problems = Problems(len(facts.classes), settings.multi_class == "ovo")
        k, width = len(self.problems), self.problems.width
        weights_bytes = 8 * k * (facts.n_columns + 1)
        # w, w as a pass begins (once more while it is copied) and the best so far; each thread's own of a problem
        copies = self.threads if self.threads > 1 and facts.n_columns > PARALLEL_ABOVE else 0
        needs = {"weights": 4 * weights_bytes + copies * weights_bytes // k}
        small = facts.n_rows + facts.nnz <= SMALL_VALUES
        self.single = settings.tol >= DOUBLE_BELOW_TOL and not small
        state_dtype = np.dtype(np.float32 if self.single else np.float64)
        row_work_bytes = ROW_WORK_BYTES + PAIR_BYTES * self.problems.pairs + ROW_PROBLEM_BYTES * width
        stream.prepare(needs, row_work_bytes, settings.paper, width * state_dtype.itemsize)
        self.small = small and stream.in_one_block
        self.state = stream.row_state(width, state_dtype)
        self.w = np.zeros((k, facts.n_columns + 1))
        self.dual = np.zeros(k)
        self.copies = np.zeros((copies, facts.n_columns + 1))
        self.parallel = np.zeros(k, bool)
        self.open = list(range(k))  # problems that have not converged
        self.whole: Part | None = None  # all rows, where they are one block
        self.sweeps = MOST_SWEEPS
        self.limited = settings.survivors < LIMITED_BELOW  # few rows may be kept for epochs
        self.reach = 0.0  # rows this near to moving are spilled too
        self.updates = 0  # rows visited by sweeps, all problems together
        with ThreadPoolExecutor(self.threads) as self.pool:
            yield from self._paper(stream) if settings.paper else self._exact(stream)

    # -- exact: rounds ----------------------------------------------------------------------------------

    def _exact(self, stream: Stream) -> Iterator[Report]:
        settings, passes = self.settings, 0
        most = settings.max_passes or 0
        best = Best(len(self.w))
        while True:
            start = self.w.copy()
            self.parallel[:] = len(self.copies) > 0
            primal, moving = self._full_pass(stream, start, measure=passes > 0)
            passes += 1
            best.offer(primal, start)
            certificate = best.certificate(self.dual, passes)
            converged = certificate.relative_gap <= settings.tol
            if not self.small:
                self.open = best.open(self.dual, settings.tol)
            report = Report("pass", passes, best.coef, certificate, float(self.dual.sum()), moving, converged)
            report.extra["updates_per_row"] = self.updates / stream.facts.n_rows
            yield report
            if converged or (most and passes >= max(most, 2)):
                return
            kept = self._epochs_in_block() if self.whole else self._survivor_epochs(stream, moving)
            yield Report("epoch", passes, best.coef, certificate, float(self.dual.sum()), kept)

    def _full_pass(
        self, stream: Stream, start: NDArray[np.float64], measure: bool
    ) -> tuple[NDArray[np.float64], int]:
        """Measure the primal at ``start`` and update; returns it, (k,), and how many rows are moving."""
        primal = np.full(len(start), np.inf)
        for c in self.open:
            primal[c] = 0.5 * float(np.einsum("i,i", start[c], start[c]))
        moving, drift = 0, 0.0
        if not stream.in_one_block:
            stream.survivors.clear()  # every row is about to be seen again
        for block in stream.all():
            part = self.whole or self._part(block)
            self._measure_part(part, start if measure else None)
            for c in self.open:
                primal[c] += self._loss(part, c)
                part.active[c] = part.near(c, self.squared) if measure else part.members(c)
                self._train(part, c)
            if self.limited and not stream.in_one_block:
                self._train_together(part, stream)
            self.state.set(part.rows, part.stored())
            distance = part.distance(self.squared)
            moving += int(np.count_nonzero(distance <= 0))
            stream.progress.survivors = moving
            drift = self._drift(block, start)
            if stream.in_one_block:
                self.whole = part
            else:
                stream.survivors.add(block, distance, self._reach(distance))
        if not stream.in_one_block:
            stream.survivors.turn()
            alone = len(stream.survivors) < LIMITED_BELOW * moving
            self.sweeps = SWEEPS_ALONE if alone else MOST_SWEEPS
            self.limited |= alone
        self.reach = REACH * drift
        return primal, moving

    def _reach(self, distance: NDArray[np.float32]) -> float:
        """How near to moving the rows of a block must be to be spilled: at most some times as many as move."""
        most = int(SPILL_MOST * np.count_nonzero(distance <= 0)) + 1
        if most >= len(distance):
            return self.reach
        return min(self.reach, float(np.partition(distance, most)[most]))

    def _train(self, part: Part, c: int) -> None:
        """Sweep over a block until its part of the gap has fallen enough."""
        first = self._sweep(part, c)
        # Fewer rows than weights do not tell what the weights should be: more sweeps would only fit them.
        most = self.sweeps if part.n_rows > self.w.shape[1] else 1
        for _ in range(most - 1):
            if self._sweep(part, c) <= SWEEP_UNTIL * first:
                return

    def _train_together(self, part: Part, stream: Stream) -> None:
        """Sweep over a block and, in turn with it, the rows of the blocks before it that were kept in memory.

        Most rows of this block are not seen again before the next pass, and neither are most of those before:
        what it makes of the weights must suit them as well (Chang & Roth 2011, selective block minimisation)."""
        resident = self._part(stream.survivors.resident)
        for c in self.open:
            part.active[c] = part.near(c, self.squared)
            for _ in range(MOST_SWEEPS + 1):
                self._sweep(resident, c)
                self._sweep(part, c)
        self._put_back(resident, stream)

    def _drift(self, block: Block, start: NDArray[np.float64]) -> float:
        """How far margins have moved since the pass began: root mean square over some rows, the largest of the
        problems."""
        share = min(1.0, PROBE_BYTES / max(block.nbytes, 1))
        n_rows = min(block.n_rows, PROBE_ROWS, max(1, int(share * block.n_rows)))
        some = block.take(np.linspace(0, block.n_rows - 1, n_rows).astype(np.int64))
        parts = [
            Part(self.problems, some, np.ones(n_rows), np.zeros((self.problems.width, n_rows))) for _ in "12"
        ]
        for part, w in zip(parts, (self.w, start), strict=True):
            self._measure_part(part, w)
        moved = parts[0].margin - parts[1].margin
        return float(np.sqrt(np.nanmax(np.mean(moved * moved, axis=1))))

    def _sweep(self, part: Part, c: int) -> float:
        """One sweep over the rows of problem ``c`` that are active, in random order; those still moving stay
        active. Returns their duality gap as met."""
        order = self.rng.permutation(part.active[c])
        self.updates += len(order)
        step = self.threads * self._rows_per_thread(part)
        if not self.parallel[c] or len(order) < step:
            moving, gain, gap = self._visit(part, c, order, self.w[c])
            part.active[c] = order[:moving]
            self.dual[c] += gain
            return gap
        self.copies[:] = self.w[c]
        total, kept = 0.0, []
        for piece in np.array_split(order, len(order) // step):
            gap, active = self._visit_in_threads(part, c, piece)
            total += gap
            kept += active
        part.active[c] = np.concatenate(kept)
        return total

    def _rows_per_thread(self, part: Part) -> int:
        """Rows that a thread visits between two sums of the threads' steps: work that is worth a sum."""
        values_per_row = max(part.block.nnz / max(part.n_rows, 1), 1.0)
        return int(max(PARALLEL_ROWS, PARALLEL_WORK * self.w.shape[1] / values_per_row))

    def _visit_in_threads(
        self, part: Part, c: int, order: NDArray[np.int64]
    ) -> tuple[float, list[NDArray[np.int64]]]:
        """Each thread visits its share of the rows with its own copy of w; then w takes the sum of the steps.

        D after the sum is known exactly: the threads' gains less the products of their steps. The order and
        the shares do not depend on timing, so the same threads give the same result.
        """
        pieces = np.array_split(order, self.threads)
        visits = list(
            self.pool.map(lambda t: self._visit(part, c, pieces[t], self.copies[t]), range(len(pieces)))
        )
        lost = merge(self.w[c], self.copies)
        gain = sum(visit[1] for visit in visits)
        self.dual[c] += gain - lost
        if lost > CONFLICT * gain:
            self.parallel[c] = (
                False  # these rows share too many columns: one thread for the rest of the round
            )
        return sum(visit[2] for visit in visits), [o[: v[0]] for o, v in zip(pieces, visits, strict=True)]

    def _visit(
        self, part: Part, c: int, order: NDArray[np.int64], w: NDArray[np.float64]
    ) -> tuple[int, float, float]:
        """Update the rows ``order`` and w; returns how many are still moving (now in front), the gain in the
        dual, and the rows' gap as met."""
        totals = np.zeros(2)
        bias = self.settings.bias
        tail = (part.signs(c), part.cost, *part.load(c, order), order, w, bias)
        end = (self.squared, self.single, totals)
        X = part.block.X
        if isinstance(X, CSR):
            moving = sweep_csr(X.indptr, X.indices, X.data, *tail, *end)
        else:
            moving = sweep_dense(X, *tail, *end)
        part.store(c, order)
        return moving, float(totals[0]), float(totals[1])

    def _epochs_in_block(self) -> int:
        """Epochs over the survivors where all rows are one block; returns how many there are."""
        part = self.whole
        assert part is not None
        kept = 0
        for c in self.open:
            near = part.near(c, self.squared, self.reach)
            kept += len(near)
            self._settle(part, c, near)
        if self.small:
            self._stand_still(part)
        self.state.set(part.rows, part.stored())
        return kept

    def _survivor_epochs(self, stream: Stream, moving: int) -> int:
        """Epochs over the survivors, in memory and spilled, until their part of the gap is small; returns how
        many there are. moving: how many of them were moving when they were kept."""
        survivors = stream.survivors
        stream.progress.begin("survivors", len(survivors))
        first = np.zeros(len(self.w))
        start, reach, rewrite = self.w.copy(), self.reach, moving < REWRITE_BELOW * len(survivors)
        for epoch in range(MOST_SPILL_EPOCHS):
            resident = self._part(survivors.resident)
            near = (survivors.distance < np.inf) if self.limited else (survivors.distance <= reach)
            for c in self.open:
                members = resident.members(c)
                self._settle(resident, c, members[near[members]])
            self._put_back(resident, stream)
            if survivors.spilled is None:
                break
            n_spilled = survivors.spilled.n_rows
            met, reach, within = self._spilled_epoch(stream, start, reach, rewrite)
            if epoch == 0:
                first = met
            if np.all(met <= self._enough(first)) or self.updates >= self.allowance:
                break
            rewrite = within < REWRITE_BELOW * n_spilled
        return len(survivors)

    def _enough(self, first: NDArray[np.float64]) -> NDArray[np.float64]:
        """The gap, (k,), at which epochs over survivors end that began with a gap of ``first``."""
        return np.maximum(SURVIVORS_UNTIL * first, TOL_SHARE * self.settings.tol * self.dual)

    def _spilled_epoch(
        self, stream: Stream, start: NDArray[np.float64], reach: float, rewrite: bool
    ) -> tuple[NDArray[np.float64], float, int]:
        """Sweep over each spilled block; returns the gap as met, (k,), the reach, and how many rows are within it.

        rewrite: these become the next generation, and the nearest of all move to memory. The reach is then no
        more than margins have drifted since the epochs began, with the weights ``start``."""
        survivors = stream.survivors
        met, within, drift = np.zeros(len(self.w)), 0, 0.0
        for block in stream.active():
            part = self._part(block)
            for c in self.open:
                met[c] += self._sweep(part, c)
                self._sweep(part, c)
            self.state.set(part.rows, part.stored())
            distance = part.distance(self.squared)
            if rewrite:
                drift = max(drift, EPOCH_REACH * self._drift(block, start))
                survivors.add(block, distance, min(reach, drift))
            within += int(np.count_nonzero(distance <= reach))
        if rewrite:
            survivors.turn()
            reach = min(reach, drift)
        return met, reach, within

    def _settle(self, part: Part, c: int, positions: NDArray[np.intp]) -> None:
        """Epochs over rows of the part, until their gap, as met by a sweep over all of them, is small."""
        first = 0.0
        for epoch in range(MOST_EPOCHS):
            part.active[c] = positions
            gap = self._sweep(part, c)
            first = gap if epoch == 0 else first
            if gap <= max(SURVIVORS_UNTIL * first, TOL_SHARE * self.settings.tol * self.dual[c]):
                return
            if self.updates >= self.allowance:
                return
            if epoch == 0:
                # the others survived on account of other problems
                positions = part.near(c, self.squared, self.reach, positions)
            for _ in range(MOST_SWEEPS):
                if self._sweep(part, c) <= SWEEP_UNTIL * gap:
                    break

    def _stand_still(self, part: Part) -> None:
        """Sweep over small data until w stands still. It costs next to nothing, and makes the answer the same
        to the last digits, whatever the order of the rows, and whether a row is written twice or weighs 2."""
        for c in range(len(self.w)):
            rows = np.tile(part.members(c), SMALL_SWEEPS)
            for _ in range(SMALL_VISITS // (SMALL_SWEEPS * (part.n_rows + part.block.nnz))):
                before = self.w[c].copy()
                _, gain, _ = self._visit(part, c, self.rng.permutation(rows), self.w[c])
                self.dual[c] += gain
                if np.max(np.abs(self.w[c] - before)) <= STILL * np.max(np.abs(before)):
                    break

    def _put_back(self, resident: Part, stream: Stream) -> None:
        self.state.set(resident.rows, resident.stored())
        distance = resident.distance(self.squared)
        seen = ~np.isnan(resident.margin).all(axis=0)
        stream.survivors.renew(np.where(seen, distance, stream.survivors.distance))

    # -- paper: survivors only --------------------------------------------------------------------------

    def _paper(self, stream: Stream) -> Iterator[Report]:
        survivors = stream.survivors
        survivors.all_or_nothing = True
        for block in stream.all():
            part = self._part(block)
            self._update_once(part)
            survivors.add(block, part.outside(self.squared), 0.0)
        survivors.turn()
        yield Report("pass", 1, dual=float(self.dual.sum()), survivors=len(survivors))
        settled, epochs = False, 0
        while not settled and len(survivors) and epochs < MOST_PAPER_EPOCHS:
            settled = self._paper_epoch(stream)
            epochs += 1
            yield Report("epoch", 1, dual=float(self.dual.sum()), survivors=len(survivors))
        best = Best(len(self.w))
        best.offer(self._measure(stream), self.w)
        note = "" if settled or not len(survivors) else f"α had not settled after {epochs} epochs"
        yield Report(
            "pass",
            2,
            best.coef,
            best.certificate(self.dual, 2),
            float(self.dual.sum()),
            len(survivors),
            converged=not note,
            note=note,
        )

    def _paper_epoch(self, stream: Stream) -> bool:
        """Update every survivor once and keep those still inside the bounds; has α settled?"""
        survivors = stream.survivors
        stream.progress.begin("survivors", len(survivors))
        resident = self._part(survivors.resident)
        changes = [self._update_once(resident)]
        survivors.retain(np.isfinite(resident.outside(self.squared)))
        for block in stream.active():
            part = self._part(block)
            changes.append(self._update_once(part))
            survivors.add(block, part.outside(self.squared), 0.0)
        survivors.turn()
        changed, total = np.sum(changes, axis=0)
        return bool(changed <= self.settings.tol * total)

    def _update_once(self, part: Part) -> tuple[float, float]:
        """Update every row of the part once; returns Σ|Δα| and Σα over it."""
        before = part.alpha.copy()
        for c in range(len(self.w)):
            _, gain, _ = self._visit(part, c, self.rng.permutation(part.members(c)), self.w[c])
            self.dual[c] += gain
        self.state.set(part.rows, part.stored())
        return float(np.abs(part.alpha - before).sum()), float(part.alpha.sum())

    def _measure(self, stream: Stream) -> NDArray[np.float64]:
        """The primal at ``w``, (k,), in a full pass."""
        primal = 0.5 * np.einsum("ij,ij->i", self.w, self.w)
        for block in stream.all():
            part = self._part(block)
            self._measure_part(part, self.w)
            for c in range(len(self.w)):
                primal[c] += self._loss(part, c)
        return primal

    # -- parts ------------------------------------------------------------------------------------------

    @property
    def squared(self) -> bool:
        return self.settings.loss == "squared_hinge"

    def _part(self, block: Block) -> Part:
        cost = self.settings.C * self.class_weight[block.y]
        if block.weight is not None:
            cost = cost * block.weight
        alpha = self.state.get(block.rows).reshape(block.n_rows, self.problems.width).T * cost
        return Part(self.problems, block, cost, np.ascontiguousarray(alpha))

    def _loss(self, part: Part, c: int) -> float:
        rows, _, margin = part.of(c)
        loss = np.maximum(0.0, 1.0 - margin)
        return float(np.einsum("i,i", part.cost[rows], loss * loss if self.squared else loss))

    def _measure_part(self, part: Part, w: NDArray[np.float64] | None) -> None:
        """Set the part's margins of the open problems to those at ``w`` (problems, d + 1); None is zero."""
        if w is None:
            part.margin[...] = 0.0
        elif self.problems.pairs:
            self._pair_margins(part.block, w, part.margin)
        else:
            for c in self.open:
                part.margin[c] = self._margins(part.block, w[c], part.signs(c))

    def _pair_margins(self, block: Block, w: NDArray[np.float64], out: NDArray[np.float64]) -> None:
        """Margins of the rows in the pairs of their classes, out (k − 1, n), each thread a range of rows."""
        from llsvm.kernels.pairs import pair_margins

        bounds = np.linspace(0, block.n_rows, self.threads + 1).astype(int)

        def measure(start: int, stop: int) -> None:
            some = block.slice(start, stop)
            X = some.X
            rows = (*X, np.empty((0, 0), X.data.dtype)) if isinstance(X, CSR) else (*_NO_ROWS, X)
            pair_margins(*rows, some.y, w, self.settings.bias, out[:, start:stop])

        list(self.pool.map(measure, bounds[:-1], bounds[1:]))

    def _margins(
        self, block: Block, w: NDArray[np.float64], signs: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """y_i w·x_i, (n,), each thread a range of rows."""
        out = np.empty(block.n_rows)
        bounds = np.linspace(0, block.n_rows, self.threads + 1).astype(int)

        def dots(start: int, stop: int) -> None:
            X = block.slice(start, stop).X
            if isinstance(X, CSR):
                dots_csr(X.indptr, X.indices, X.data, w, self.settings.bias, out[start:stop])
            else:
                dots_dense(X, w, self.settings.bias, out[start:stop])

        list(self.pool.map(dots, bounds[:-1], bounds[1:]))
        out *= signs
        return out
