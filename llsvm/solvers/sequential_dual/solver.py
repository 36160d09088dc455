"""The sequential dual method for direct multi-class SVMs (Keerthi et al., KDD 2008), out of core.

Primal:  P(W) = ½ Σ_m ‖w_m‖² + Σ_i C_i loss_i(W), the constant feature ``bias`` part of x, with
    Crammer-Singer  loss_i = max_m (w_m·x_i + e_im) − w_{y_i}·x_i              (eq. 1)
    Weston-Watkins  loss_i = Σ_{m≠y_i} max(0, 1 + w_m·x_i − w_{y_i}·x_i)       (eq. 14)
Dual:    D(a), in the shares of solvers/sequential_dual/kernels.py; −D is the paper's f of (4) and (16).
One problem, whatever the number of classes. Stop when P − D ≤ tol · P, both over all rows.

A visit of a row solves its sub-problem (10) or (21) exactly (Algorithms 2.1 and 3.1). The paper alternates a
loop over all rows with shrunk loops, over the rows that have a share inside its bounds and only their classes
that have one, for at most five loops' worth of effort, to an accuracy that cools by tens. So it is here, with
the duality gap of the rows visited as the accuracy, and with blocks. A full pass takes each block in turn and
(1) measures it at W₀, the weights that the pass began with, which sums up to P(W₀); (2) trains it together with
the survivors in memory (selective block minimisation, Chang & Roth 2011); (3) sifts it: its rows nearest to
moving survive. Then come epochs over the survivors. P(W₀) − D(a) is a rigorous gap whatever a became meanwhile,
and W₀ are the weights handed back.

Where the rows are long (C_i ‖x_i‖² far above 1) shares creep to their bounds in hundreds of tiny steps, the
same way each time. So after a shrunk loop they jump on along the way that they came (jumps.py), as long
as that pays. Where all rows are in memory, W is measured, trained, measured, and handed back as it was measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.costs import RowCosts
from llsvm.objective.losses import joint_loss
from llsvm.settings.settings import Settings
from llsvm.solvers.report import STALLED, Report
from llsvm.solvers.sequential_dual.jumps import VARIABLE_BYTES, Conjugate, Inside
from llsvm.solvers.sequential_dual.kernels import ALL, ECONOMICAL, SHRUNK, sweep
from llsvm.solvers.sequential_dual.layout import Layout, layout
from llsvm.solvers.stall import Stall
from llsvm.stream.stream import Stream

ECONOMICAL_FROM = (
    512  # classes: from here on a visit adds one class at most (the paper's economical variant);
)
FIRST_JUMPS = 4  # are made in any case; a later one pays if it gains so much more than the loop before,
JUMP_PAYS = 1.5  # since it costs two loops; else the next runs of shrunk loops do without,
MAX_RESTS = 7  # 1, 3, or so many
MAX_LOOPS = 50  # full loops over all the survivors in memory between two passes
MAX_BLOCK_LOOPS = 4  # full loops over a block at hand and the survivors
MAX_LOOPS_IN_MEMORY = 20  # ... or over all rows
MAX_SPILL_EPOCHS = 5
SHRUNK_EFFORT = 5.0  # shrunk loops after a full one end after this many loops' worth of scores ...
# ... or when their gap fell to this share of the full loop's. (The paper's 0.1 leaves the classes without a share
# out of sight for too long: a full loop costs little more than a shrunk one where rows are long and sparse.)
COOLING = 0.3
BLOCK_UNTIL = 0.1  # loops over a block end when its gap fell to this share,
BLOCK_UNTIL_IN_MEMORY = 0.3  # or this one, where measuring all rows anew costs little
SURVIVORS_UNTIL = 0.05  # epochs over survivors end when their gap fell to this share of the whole gap,
TOL_SHARE = 0.3  # or to this share of the gap that is asked for,
TOL_SHARE_FALLS = 0.5  # times this after each pass that did not do
TOL_SHARE_IN_MEMORY = (
    2.4  # where it costs little to measure what loops left, which is less than what they met
)
IGNORE_SHARE = 0.1  # rows whose gaps add up to this share of it at most are left alone
SPILL_SHARE = (
    0.9  # moving rows beyond memory are spilled if they are at most this share: it saves most passes
)


class SequentialDual:
    """See the file's head. ``solve`` yields a Report after each full pass and each run of epochs."""

    def __init__(self, settings: Settings, class_weight: NDArray[np.float64], threads: int = 1) -> None:
        """class_weight: (n_classes,) factors of C."""
        self.settings = settings
        self.class_weight = class_weight
        self.threads = threads
        self.weston = settings.multiclass == "weston-watkins"
        self.shrinking = True  # without it, every loop is a full one
        self.cooling = True  # without it, shrunk loops go on to the accuracy that is asked for in the end
        self.jumps = True  # without them, loops only
        self.rng = np.random.default_rng(settings.seed)

    def layout(self, memory: MemoryLeft) -> Layout:
        """What it would do with the memory there is."""
        return layout(self.settings, self.class_weight, self.jumps, memory)

    def needs(self, memory: MemoryLeft) -> Needs:
        return self.layout(memory).needs

    def solve(self, stream: Stream) -> Iterator[Report]:
        dataset, settings = stream.dataset, self.settings
        k = len(dataset.classes)
        self.goal_share = TOL_SHARE
        self.progress = stream.progress
        self.costs = RowCosts.of_classes(settings.C, self.class_weight)
        loss = joint_loss(settings.multiclass, k)
        self.bound = stream.rounding_bound(loss, self.costs.by_class, settings.constant)
        self._prepare(stream, k)
        self.grid = 2.0 ** (24 if self.dtype == np.float32 else 50)
        self.stall = Stall(settings.tol, settings.max_passes)
        self.full_mode = ECONOMICAL if k >= ECONOMICAL_FROM else ALL
        self.w = np.zeros((dataset.n_columns + 1, k))
        self.dual = 0.0
        self.rests = self.resting = 0  # runs of shrunk loops without jumps, since these did not pay
        self.ignore = 0.0
        with ThreadPoolExecutor(self.threads) as self.pool:
            yield from self._in_memory(stream) if stream.in_one_block else self._rounds(stream)

    def _prepare(self, stream: Stream, k: int) -> None:
        """Spend the memory limit, and make what it has room for."""
        plan, width = self.layout(stream.memory_left), stream.dataset.n_columns + 1
        stream.prepare(plan.needs)
        self.climb_bytes, self.dtype = plan.climb_bytes, plan.dtype
        self.kept = np.zeros((width, k)) if plan.keeps else None  # the weights as last certified
        self.climb_room = np.zeros((2, width, k) if plan.climbs else (2, 0, 0))
        if not stream.in_one_block:
            make = stream.sparse_state if plan.sparse else stream.row_state
            self.state = make(k, plan.dtype)

    def _in_memory(self, stream: Stream) -> Iterator[Report]:
        """All rows are one block: measure at W, report, train, and so on. The reports' weights are W itself."""
        self.goal_share = TOL_SHARE_IN_MEMORY
        share, passes = np.zeros((stream.dataset.n_rows, self.w.shape[1]), self.dtype), 0
        while True:
            for block in stream.all():
                part = _Part(block, self.costs.of(block), share)
            losses = self._measure(part, self.w) if passes else self._at_zero(part)
            primal = 0.5 * _squared(self.w) + losses
            passes += 1
            moving = int(np.count_nonzero(part.distance <= 0))
            self.ignore = self._ignorable(float(part.cost.sum()))
            report = self._report(passes, primal, self.w, moving)
            yield report
            if report.converged or report.cause or self._spent(passes):
                return
            self._train([part], BLOCK_UNTIL_IN_MEMORY, MAX_LOOPS_IN_MEMORY)

    def _rounds(self, stream: Stream) -> Iterator[Report]:
        passes, moving = 0, stream.dataset.n_rows
        start = np.empty_like(self.w)
        while True:
            start[...] = self.w
            spill = moving < SPILL_SHARE * stream.dataset.n_rows
            primal, moving, cost = self._full_pass(stream, start, measure=passes > 0, spill=spill)
            passes += 1
            self.ignore = self._ignorable(cost)
            report = self._report(passes, primal, start, moving)
            yield report
            if report.converged or report.cause or self._spent(passes):
                return
            if passes > 1:
                self.goal_share *= TOL_SHARE_FALLS
            self._survivor_epochs(stream, primal)
            kept = len(stream.survivors)
            yield Report("epoch", passes, report.coef, report.certificate, self.dual, kept)

    def _report(self, passes: int, primal: float, w: NDArray[np.float64], moving: int) -> Report:
        coef = _coef(w)
        certificate = self.bound.certificate(coef, [primal], [self.dual], passes)
        converged = certificate.relative_gap <= self.settings.tol
        if self.kept is not None:
            self.kept[...] = w
            coef = _coef(self.kept)
        report = Report("pass", passes, coef, certificate, self.dual, moving, converged)
        if self.stall.note(passes, primal, self.dual) and not converged:
            report.cause = STALLED
        return report

    def _spent(self, passes: int) -> bool:
        most = self.settings.max_passes or 0
        return most > 0 and passes >= max(most, 2)

    def _ignorable(self, cost: float) -> float:
        """The gap, per C_i, below which rows are left alone; cost: Σ C_i."""
        return IGNORE_SHARE * self.settings.tol * self.dual / cost if cost > 0 else 0.0

    def _full_pass(
        self, stream: Stream, start: NDArray[np.float64], measure: bool, spill: bool
    ) -> tuple[float, int, float]:
        """Measure the primal at ``start`` and update; returns it, how many rows are moving, and Σ C_i."""
        primal, moving, cost = 0.5 * _squared(start), 0, 0.0
        survivors = stream.survivors
        for block in stream.all():
            part = self._part(block)
            cost += float(part.cost.sum())
            primal += self._measure(part, start) if measure else self._at_zero(part)
            newer = np.isin(survivors.resident.rows, part.rows)  # a copy of these rows is at hand
            survivors.retain(~newer)
            resident = self._part(survivors.resident)
            self._train([part, resident])
            self._put_back(resident, stream)
            self.state.set(part.rows, part.share)
            survivors.add(block, part.distance, 0.0 if spill else None)
            moving += int(np.count_nonzero(part.distance <= 0))
            stream.progress.survivors = moving
        survivors.turn()
        return primal, moving, cost

    def _at_zero(self, part: _Part) -> float:
        """Σ C_i loss_i where all weights are 0."""
        return float(part.cost.sum()) * (self.w.shape[1] - 1 if self.weston else 1)

    # -- loops ------------------------------------------------------------------------------------------

    def _settle(self, part: _Part, enough: float) -> None:
        """Loops until the part's gap, as a loop over all of its rows meets it, is at most ``enough``, or the
        share of the dual objective that ``tol`` allows."""
        for _ in range(MAX_LOOPS):
            part.active = np.arange(part.n_rows)
            gap = self._sweep(part, self.full_mode)
            if gap <= max(enough, self._goal) or self.progress.out_of_time:
                return
            self._shrunk_loops([part], gap)
            self._train([part])

    @property
    def _goal(self) -> float:
        """The gap, as met by a loop, at which to be content."""
        return self.goal_share * self.settings.tol * self.dual

    def _train(
        self, parts: list[_Part], until: float = BLOCK_UNTIL, most_loops: int = MAX_BLOCK_LOOPS
    ) -> float:
        """Loops over the active rows of the parts until their gap has fallen to the share ``until``; returns that
        of the first part as met."""
        met = first = 0.0
        for loop in range(most_loops):
            gaps = [self._sweep(part, self.full_mode) for part in parts]
            if loop == 0:
                met, first = gaps[0], sum(gaps)
            elif sum(gaps) <= max(until * first, 0.5 * self._goal) or self.progress.out_of_time:
                break
            self._shrunk_loops(parts, sum(gaps))
        return met

    def _shrunk_loops(self, parts: list[_Part], gap: float) -> None:
        """The paper's shrunk loops after a full one that met ``gap``. They leave ``active`` as they found it."""
        if not self.shrinking:
            return
        full = [part.active for part in parts]
        effort = SHRUNK_EFFORT * self.w.shape[1] * sum(len(active) for active in full)
        self.scores = 0.0
        enough = max(COOLING * gap if self.cooling else 0.0, 0.5 * self._goal)
        climb, jumps, by_loops, by_jumps, dual = self._climb(parts), 0, 0.0, 0.0, self.dual
        while self.scores < effort and self._shrunk_loop(parts) > enough:
            if climb is not None:
                by_loops += self.dual - dual
                dual = self.dual
                self.dual += climb.jump()
                self._shrunk_loop(parts)
                self.dual += climb.land(self.dual - dual)
                by_jumps += self.dual - dual
                jumps += 1
                if jumps >= FIRST_JUMPS:
                    self.rests = 0 if by_jumps > JUMP_PAYS * by_loops else min(2 * self.rests + 1, MAX_RESTS)
                    if self.rests:
                        climb, self.resting = None, self.rests
            dual = self.dual
        for part, active in zip(parts, full, strict=True):
            part.active = active

    def _shrunk_loop(self, parts: list[_Part]) -> float:
        return sum(self._sweep(part, SHRUNK) for part in parts)

    def _climb(self, parts: list[_Part]) -> Conjugate | None:
        """What moves the active rows' shares on along the ways that they come; None where there is no room."""
        if self.resting or not self.climb_bytes:
            self.resting = max(0, self.resting - 1)
            return None
        lists = [Inside(part.share, part.active, self.weston) for part in parts]
        room = sum(part.n_rows for part in parts) * self.climb_bytes
        if sum(map(len, lists)) * VARIABLE_BYTES > room:
            return None
        rows = [
            (_matrix(part), part.block.y, part.cost, part.share, each)
            for part, each in zip(parts, lists, strict=True)
        ]
        start, way = self.climb_room
        return Conjugate(rows, self.w, start, way, self.settings.constant, self.weston, self.grid)

    def _sweep(self, part: _Part, mode: int) -> float:
        """Visit the active rows in random order, and drop those that are settled; returns the gap as met."""
        order = self.rng.permutation(part.active if self.shrinking else part.n_rows)
        totals = np.zeros(4)
        n = self._call(part, part.distance, order, self.w, mode, self.ignore, totals)
        part.active = order[:n]
        self.dual += totals[0]
        self.scores += totals[3]
        return float(totals[1])

    scores = 0.0  # scores computed, as the paper counts effort

    def _measure(self, part: _Part, w: NDArray[np.float64]) -> float:
        """Σ C_i loss_i at ``w``; sets the rows that would move, or are free, active. A range of rows a thread."""
        bounds = np.linspace(0, part.n_rows, self.threads + 1).astype(int)
        totals = np.zeros((self.threads, 4))

        def measure(t: int) -> NDArray[np.int64]:
            order = np.arange(bounds[t], bounds[t + 1])
            n = self._call(part, part.distance, order, w, ALL, np.inf, totals[t])
            return order[:n]

        part.active = np.concatenate(list(self.pool.map(measure, range(self.threads))))
        return float(totals[:, 2].sum())

    def _call(
        self,
        part: _Part,
        distance: NDArray[np.float32],
        order: NDArray[np.int64],
        w: NDArray[np.float64],
        mode: int,
        ignore: float,
        totals: NDArray[np.float64],
    ) -> int:
        tail = (w, self.settings.constant, self.weston, mode, self.grid, ignore, totals)
        return int(sweep(*_matrix(part), part.block.y, part.cost, part.share, distance, order, *tail))

    # -- survivors --------------------------------------------------------------------------------------

    def _survivor_epochs(self, stream: Stream, primal: float) -> None:
        """Epochs over the survivors, in memory and spilled, until their part of the gap is small."""
        survivors = stream.survivors
        stream.progress.begin("survivors", len(survivors))
        enough = SURVIVORS_UNTIL * (primal - self.dual)
        for _ in range(MAX_SPILL_EPOCHS):
            resident = self._part(survivors.resident)
            self._settle(resident, enough)
            self._put_back(resident, stream)
            if survivors.spilled is None or self._spilled_epoch(stream) <= enough:
                return

    def _spilled_epoch(self, stream: Stream) -> float:
        """Train each spilled block with the survivors in memory; returns the blocks' gap as met."""
        survivors = stream.survivors
        met = 0.0
        for block in stream.active():
            part, resident = self._part(block), self._part(survivors.resident)
            met += self._train([part, resident])
            self._put_back(resident, stream)
            self.state.set(part.rows, part.share)
            survivors.add(block, part.distance, 0.0)
        survivors.turn()
        return met

    def _put_back(self, resident: _Part, stream: Stream) -> None:
        self.state.set(resident.rows, resident.share)
        stream.survivors.renew(resident.distance)

    def _part(self, block: Block) -> _Part:
        return _Part(block, self.costs.of(block), self.state.get(block.rows))


class _Part:
    """Rows at hand with what the solver keeps for them.

    cost: (n,) C_i. share: (n, k) dual variables, see kernels.py. distance: (n,) from moving, ∞ for
    rows that cost nothing. active: positions of the rows that the next sweep visits.
    """

    def __init__(self, block: Block, cost: NDArray[np.float64], share: NDArray[np.floating]) -> None:
        self.block = block
        self.rows = block.rows.copy()  # the block's own may be a view of an arena that changes
        self.n_rows = block.n_rows
        self.cost = cost
        self.share = share
        self.distance = np.where(cost > 0, 0.0, np.inf).astype(np.float32)
        self.active = np.arange(self.n_rows)


def _matrix(part: _Part) -> tuple[NDArray[Any], ...]:
    """The part's rows as the kernels take them: indptr, indices, data, X, of which one kind is empty."""
    X = part.block.X
    if isinstance(X, CSR):
        return X.indptr, X.indices, X.data, np.empty((0, 0), X.data.dtype)
    return np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, X.dtype), X


def _squared(w: NDArray[np.float64]) -> float:
    """Σ ‖w_m‖²; not by BLAS, whose threads would spin between the loops."""
    return float(np.einsum("ij,ij", w, w))


def _coef(w: NDArray[np.float64]) -> NDArray[np.float64]:
    """(k, d + 1), a view; for two classes the difference (1, d + 1), which decides between them."""
    return w.T if w.shape[1] > 2 else (w[:, 1:] - w[:, :1]).T
