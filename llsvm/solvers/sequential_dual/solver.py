"""The sequential dual method for direct multi-class SVMs (Keerthi et al., KDD 2008), out of core.

Primal:  P(W) = ½ Σ_m ‖w_m‖² + Σ_i C_i loss_i(W), the constant feature ``bias`` part of x, with
    Crammer-Singer  loss_i = max_m (w_m·x_i + e_im) − w_{y_i}·x_i              (eq. 1)
    Weston-Watkins  loss_i = Σ_{m≠y_i} max(0, 1 + w_m·x_i − w_{y_i}·x_i)       (eq. 14)
Dual:    D(a), in the shares of problem.py; −D is the paper's f of (4) and (16).
One problem, whatever the number of classes. Stop when P − D ≤ tol · P, both over all rows.

A visit of a row solves its sub-problem (10) or (21) exactly (Algorithms 2.1 and 3.1). The paper alternates a
loop over all rows with shrunk loops, over the rows that have a share inside its bounds and only their classes
that have one, for at most five loops' worth of effort, to an accuracy that cools by tens. So it is here (loops.py),
but for ten loops' worth, with a share of the full loop's gap as the accuracy, and with blocks. A full pass takes
each block in turn and
(1) measures it at W₀, the weights that the pass began with, which sums up to P(W₀); (2) trains it together with
the survivors in memory (selective block minimisation, Chang & Roth 2011); (3) selects from it: its rows of least
slack survive. Then come epochs over the survivors. P(W₀) − D(a) is a rigorous gap whatever a became meanwhile,
and W₀ are the weights handed back.

Where the rows are long (C_i ‖x_i‖² far above 1) shares creep to their bounds in hundreds of tiny steps, the
same way each time. So after a shrunk loop they move on along the way that they came (loops.py), as long
as that pays. Where all rows are in memory, W is measured, trained, measured, and handed back as it was measured.
Once loops have cost what Newton's method would, that takes over (multipliers.py), if it has room: it
needs some dozens of steps, however long the rows are; out of core all rows are read for each of them (rounds.py).
Where its matrices have no room, and loops crawl, it takes the few worst rows after them (rounds.py). Weights
whose margins are all a little short are handed back longer, by the factor of the least objective, and by
what rounding may hide where costs dwarf that (best_weights.py). Costs larger than any dual variable becomes are
taken for smaller ones (problem.py).

A run may start at shares found elsewhere: those of another C, or of fewer rows. See llsvm/solvers/llsvm/start.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import FLOAT64_BYTES
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.losses import joint_loss
from llsvm.objective.problems import RowCosts
from llsvm.process.threads import Threads
from llsvm.process.work import Work
from llsvm.settings.settings import Settings
from llsvm.solvers.base import SECONDS, STALLED, UPDATES, Report, RunSolver
from llsvm.solvers.optim.lapack import dot, one_blas_thread
from llsvm.solvers.optim.newton_system import MOST_ORDER
from llsvm.solvers.optim.row_operator import coef_of
from llsvm.solvers.sequential_dual.best_weights import BestWeights, Multiple
from llsvm.solvers.sequential_dual.layout import Layout, layout
from llsvm.solvers.sequential_dual.loops import Loops
from llsvm.solvers.sequential_dual.multipliers import JointMultipliers, newton_prices
from llsvm.solvers.sequential_dual.problem import (
    BlockShares,
    JointProblem,
    StoredShares,
    joint_dual,
    lower_costs,
    needed_cost,
    with_costs,
)
from llsvm.solvers.sequential_dual.rounds import JointRounds, settle_worst_rows
from llsvm.solvers.state import (
    ArrayRows,
    ColumnScales,
    RowShares,
    SettableRowValues,
    Shares,
    ShareSums,
    SolverState,
    Value,
    are_same,
    copy_rows,
    data_of,
)
from llsvm.solvers.stopping import EXACT, StoppingRule
from llsvm.stream.stream import Stream

Array = NDArray[np.float64]
Positions = NDArray[np.int64]

# Bytes of rows' shares as float64 that are worked on at a time, with some five arrays as large: fewer take more
# calls, and more take more memory.
SHARES_BYTES = 1 << 22
# A pass was slow that left more than this share of the gap: where there are many columns, work on the worst rows
# then follows a loop. With a smaller share that begins while loops get on; with a larger one passes gain little.
# Without that work, the one hard problem of so many columns that was measured is not solved.
SLOW = 0.8
# Weights of all classes, above which work on the worst rows may follow a loop: Newton's method cannot decompose a
# matrix of so many weights, and loops cost much. Lower works on the worst
# rows where loops cost little, higher leaves hard problems to loops that gain little.
MANY_COLUMNS = MOST_ORDER


def begin_at(
    given: Shares,
    sums: ShareSums | None,
    stream: Stream,
    costs: RowCosts,
    stored: SettableRowValues,
    loops: Loops,
) -> int:
    """Let the shares be those that are given, or the nearest that are feasible, and w and D what they make; returns
    how many passes that took. sums: of them, if they were kept. stored: where shares are."""
    step = max(1, SHARES_BYTES // (FLOAT64_BYTES * stored.width))
    if sums is not None and are_same(sums.scales, ColumnScales.of(stream.scaling)):
        factor = sums.factor(costs.by_class, stored.dtype)
        if factor is not None and sums.dtype == stored.dtype:  # no row is read
            loops.begin_at(sums, factor)
            for start in range(0, stream.dataset.n_rows, step):
                rows = np.arange(start, min(start + step, stream.dataset.n_rows))
                stored.set(rows, given(rows).astype(stored.dtype))
            return 0
    problem = loops.problem

    def parts() -> Iterator[BlockShares]:
        for whole in stream.all():
            for start in range(0, whole.n_rows, step):
                block = whole.slice(start, min(start + step, whole.n_rows))
                y, cost = block.class_ids, costs.of(block)
                share = problem.dual.nearest(given(block.rows).astype(np.float64), y)
                p = problem.dual.of_shares(share, y, cost)
                share = problem.dual.shares(p, y, cost, problem.grid)
                stored.set(block.rows, share.astype(stored.dtype))
                yield BlockShares(block, cost, share)

    loops.resum(parts())
    return 1


def sums_of(loops: Loops, costs: RowCosts, stored: SettableRowValues, runs: int, stream: Stream) -> ShareSums:
    """Return the sums of the stored shares, see ShareSums."""
    linear = np.array([loops.D + 0.5 * dot(loops.w, loops.w)])
    scales = ColumnScales.of(stream.scaling)
    return ShareSums(ArrayRows(loops.w.reshape(-1, 1)), 1, linear, costs.by_class, stored.dtype, runs, scales)


class JointRun:
    """passes: so many were made. shares: of all rows."""

    def __init__(
        self, settings: Settings, costs: RowCosts, plan: Layout, stream: Stream, loops: Loops
    ) -> None:
        """plan: what there is memory for. loops: at w = 0."""
        self.passes, self._is_restored = 0, False  # the pass it begins with has been reported
        self._costs, self._stream, self._loops = costs, stream, loops
        # the second pass measures what the first has learned
        self._rule = StoppingRule(settings.tol, settings.max_passes, least_passes=2)
        self._runs = 0  # that began at sums, see ShareSums
        self._newton_due = False  # since loops hardly get on any more
        self._largest_cost = np.inf  # that the dual takes, see problem.py
        problem, n_rows = loops.problem, stream.dataset.n_rows
        k = problem.shape[1]
        bound = stream.rounding_bound(joint_loss(settings.multiclass, k), costs.by_class, settings.constant)
        best_w = np.zeros_like(loops.w) if stream.in_one_block else None
        self._best = BestWeights(best_w, bound, problem, EXACT * settings.tol)
        dataset, room = stream.dataset, plan.newton
        values = dataset.nnz / max(dataset.n_rows, 1)
        room_bytes = 0 if room is None else room.matrix_bytes
        self._prices = newton_prices(dataset.is_dense, problem.shape, values, room_bytes)
        self._newton = None if room is None else JointMultipliers(room, self._prices, stream.in_one_block)
        self._rounds: JointRounds | None = None  # where not all rows are at hand
        self._reading = 0.0  # seconds of work that a reading of all rows for a step of Newton's method takes
        self.shares: StoredShares
        if stream.in_one_block:
            self.shares = ArrayRows(np.zeros((n_rows, k), plan.dtype))
        else:
            make = stream.sparse_state if plan.sparse else stream.row_state
            self._reading = Work(store_bytes=int(n_rows * dataset.held_bytes_per_row)).seconds
            self._rounds = JointRounds(stream, loops, make(k, plan.dtype), costs)
            self.shares = self._rounds.shares
            if not self._rounds.can_read_every_row():
                self._newton = None

    def reports(self) -> Iterator[Report]:
        """Go on to the end; a report after each full pass and each run of epochs."""
        if self._rounds is not None:
            return self._out_of_core(self._rounds)
        assert isinstance(self.shares, ArrayRows)
        return self._in_memory(self.shares)

    # -- all rows in memory -----------------------------------------------------------------------------

    def _in_memory(self, shares: ArrayRows) -> Iterator[Report]:
        """All rows are one block: measure at W, or Newton's weights once that is at work, report, train, and so
        on. Where W was measured and reported before the run was stopped, find again which rows to train."""
        loops, best = self._loops, self._best
        while True:
            for block in self._stream.all():
                whole = BlockShares(block, self._costs.of(block), shares.array)
            part = with_costs(whole, self._largest_cost)
            w = loops.w if self._newton is None or self._newton.W is None else self._newton.W
            losses, rows = self._measured(whole, part, w)
            terms = loops.problem.terms(part)
            if not self._is_restored:
                self.passes += 1
                multiple = best.multiple(whole, w, losses, loops.D)
                drifted = loops.resum_if_drifted([part], terms, multiple.primal, multiple.rounding_gap)
                if drifted and w is loops.w:
                    losses, rows = self._measured(whole, part, w)
                    multiple = best.multiple(whole, w, losses, loops.D)
                report = self._report(multiple, w, len(rows))
                report.resumable = not (report.converged or report.cause)
                yield report
                if report.converged or report.cause:
                    return
            self._is_restored = False
            if self._rule.is_last(self.passes):
                return
            largest_cost = needed_cost(part, terms, best.best.primal)
            if largest_cost < np.inf:
                self._largest_cost, part = largest_cost, lower_costs(loops.problem, part, largest_cost)
                loops.resum([part])
            self._improve(part, rows)

    def _measured(self, whole: BlockShares, part: BlockShares, w: Array) -> tuple[float, Positions]:
        """Σ C_i loss_i at the weights w (d + 1, k), and the rows that are free or violate. whole: all rows, with
        the costs as they are; part: as they are taken."""
        losses, rows = self._loops.measure(part, w)
        return losses if part is whole else self._loops.measure(whole, w)[0], rows

    def _improve(self, part: BlockShares, rows: Positions) -> None:
        """Steps of Newton's method, if due, or loops over rows, until they have got on; where there is no room for
        it over all rows, a loop over them, and work on the worst ones. rows: those that are free or violate."""
        newton, loops = self._newton, self._loops
        if self.passes > 1:
            loops.tighten()
        if newton is not None and self._newton_is_next(part.n_active):
            with one_blas_thread():
                D = newton.solve(loops.problem, lambda: [part], lambda _: None, loops.w, loops.accuracy)
            loops.solved(D)
        elif self._takes_worst_rows():
            loops.train([part], [rows], most_loops=1)
            settle_worst_rows(part, loops, None if newton is None else newton.room)
        elif self._runs:
            # The weights that the run began at are nearly right. What loops over the violating rows alone make of
            # them for a while is not: so many others violate soon.
            loops.train([part], [np.arange(part.n_rows)])
        else:
            loops.train([part], [rows], stop=lambda: self._newton_is_due(part.n_active))

    def _takes_worst_rows(self) -> bool:
        """Return whether work on the worst rows follows a loop: where a pass leaves most of the gap, and there are
        many weights, so that loops cost much, too."""
        newton, is_slow = self._newton, self.passes > 1 and self._rule.last_share > SLOW
        return is_slow and (newton is None or newton.W is None) and self._prices.columns > MANY_COLUMNS

    # -- out of core ------------------------------------------------------------------------------------

    def _out_of_core(self, rounds: JointRounds) -> Iterator[Report]:
        newton, loops = self._newton, self._loops
        while True:
            if newton is not None and newton.W is not None:
                primal = rounds.measure(newton.W)
            else:
                primal = rounds.full_pass(lambda: self._newton_is_due(rounds.n_active))
            self.passes += 1
            multiple = self._best.rounded(Multiple(1.0, primal), rounds.start, loops.D)
            loops.resum_if_drifted(rounds.parts(), rounds.terms, multiple.primal, multiple.rounding_gap)
            report = self._report(multiple, rounds.start, rounds.n_active)
            yield report
            if report.converged or report.cause or self._rule.is_last(self.passes):
                return
            if self.passes > 1:
                loops.tighten()
            if newton is not None and self._newton_is_next(rounds.n_active):
                rows = rounds.newton_stage(newton, loops.accuracy)
            else:
                rows = rounds.epochs(primal)
            yield Report("epoch", self.passes, report.coef, report.certificate, loops.D, rows, resumable=True)

    # -- both -------------------------------------------------------------------------------------------

    def _newton_is_due(self, n_active: int) -> bool:
        """Return whether loops have cost as much as Newton's method over all rows would, or have stalled. n_active:
        rows that are free or violate."""
        newton = self._newton
        if newton is None or newton.W is not None or not newton.room.of_all_rows:
            return False
        price = newton.price(self._stream.dataset.n_rows, n_active, self._reading)
        return self._newton_due or self._prices.updates(self._loops.scores) > price

    def _newton_is_next(self, n_active: int) -> bool:
        """Return whether steps of Newton's method come next, not loops."""
        begins = self._newton_is_due(n_active)
        if begins:
            self._rule.forget()
        return begins or (self._newton is not None and self._newton.W is not None)

    def _report(self, multiple: Multiple, w: Array, n_active: int) -> Report:
        """multiple: of w, as measured."""
        loops, newton = self._loops, self._newton
        w, certificate = self._best.certificate(multiple, w, loops.D, self.passes)
        verdict = self._rule.judge(certificate)
        converged, cause = verdict.converged, verdict.cause
        if cause == STALLED and newton is not None and newton.W is None and newton.room.of_all_rows:
            self._newton_due, cause = True, ""
        report = Report(
            "pass", self.passes, coef_of(w), certificate, loops.D, n_active, converged, cause=cause
        )
        of_a_loop = max(self._stream.dataset.n_rows, 1) * w.shape[1]
        report.extra |= {UPDATES: loops.scores / of_a_loop, SECONDS: self._prices.updates(loops.scores)}
        return report

    # -- stopping and going on --------------------------------------------------------------------------

    def begin_at(self, given: Shares, sums: ShareSums | None) -> None:
        self.passes = begin_at(given, sums, self._stream, self._costs, self.shares, self._loops)
        self._runs = sums.runs + 1 if sums and not self.passes else 0

    def dual_point(self) -> RowShares:
        sums = sums_of(self._loops, self._costs, self.shares, self._runs, self._stream)
        return RowShares(self.shares, sums, self._largest_cost)

    def state(self, objective: dict[str, Any]) -> SolverState:
        """Return the state at the end of a pass, where all rows are in memory; else at the end of its epochs, with
        the survivors in memory, which the next pass goes on training."""
        numbers: dict[str, Value] = {**self._loops.numbers, **self._best.numbers, "runs": self._runs}
        numbers |= {"stream generator": self._stream.random_state, "newton due": self._newton_due}
        arrays: dict[str, NDArray[Any]] = {"w": self._loops.w, **self._rule.arrays, **self._best.arrays}
        if self._largest_cost < np.inf:
            numbers["largest cost"] = self._largest_cost
        if self._newton is not None:
            arrays, numbers = arrays | self._newton.arrays, numbers | self._newton.numbers
        if self._rounds is not None:
            arrays |= self._rounds.arrays
            numbers |= {"n active": self._rounds.n_active, "terms": self._rounds.terms}
        about = objective | data_of(self._stream.dataset)
        return SolverState("sequential-dual", self.passes, about, arrays, {"share": self.shares}, numbers)

    def restore(self, state: SolverState) -> None:
        stream, loops, numbers = self._stream, self._loops, state.numbers
        state.require_shapes({"w": loops.w.shape, "share": (stream.dataset.n_rows, loops.w.shape[1])})
        self.passes, self._is_restored = state.passes, True
        self._runs, self._newton_due = numbers["runs"], numbers["newton due"]
        self._largest_cost = numbers.get("largest cost", np.inf)
        self._rule.restore(state.arrays)
        loops.restore(state.arrays["w"], numbers)
        self._best.restore(state.arrays, numbers)
        if self._newton is not None:
            self._newton.restore(state.arrays, numbers)
        state.require_share_type(self.shares.dtype)
        copy_rows(state.rows["share"], self.shares)
        if self._rounds is not None:
            self._rounds.restore(state.arrays, numbers["n active"], numbers["terms"])
        stream.restore_random_state(numbers["stream generator"])


class SequentialDual(RunSolver):
    """Sequential dual method for direct multi-class SVMs, see the file's head. ``solve`` yields a Report after each
    full pass and each run of epochs."""

    name = "sequential-dual"

    def __init__(self, settings: Settings, class_weight: NDArray[np.float64], threads: int = 1) -> None:
        """Take the arguments of RunSolver."""
        super().__init__(settings, class_weight, threads)
        self._class_weight = class_weight
        self._begins_at: tuple[Shares, ShareSums | None] | None = None

    def layout(self, memory: MemoryLeft) -> Layout:
        """Return the layout that the solver would use with the memory left."""
        return layout(self.settings, self._class_weight, self.threads, memory)

    def needs(self, memory: MemoryLeft) -> Needs:
        return self.layout(memory).needs

    def begin_at(self, shares: Shares, sums: ShareSums | None = None) -> bool:
        """Let ``solve`` begin at these dual variables, as ``Solver.begin_at`` does."""
        self._begins_at = shares, sums
        return True

    def _begin(self, stream: Stream, saved: SolverState | None, threads: Threads) -> JointRun:
        settings, dataset = self.settings, stream.dataset
        plan, shape = self.layout(stream.memory_left), (dataset.n_columns + 1, len(dataset.classes))
        stream.prepare(plan.needs)
        dual = joint_dual(settings.multiclass)
        problem = JointProblem(dual, shape, settings.constant, plan.grid, threads, stream.progress)
        loops = Loops(problem, plan.extrapolates, settings.tol, settings.seed)
        run = JointRun(settings, self.costs, plan, stream, loops)
        if saved is not None:
            run.restore(saved)
        elif self._begins_at is not None:
            run.begin_at(*self._begins_at)
            self._begins_at = None
        return run
