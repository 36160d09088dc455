"""The sequential dual method for direct multi-class SVMs (Keerthi et al., KDD 2008), out of core.

Primal:  P(W) = ½ Σ_m ‖w_m‖² + Σ_i C_i loss_i(W), the constant feature ``bias`` part of x, with
    Crammer-Singer  loss_i = max_m (w_m·x_i + e_im) − w_{y_i}·x_i              (eq. 1)
    Weston-Watkins  loss_i = Σ_{m≠y_i} max(0, 1 + w_m·x_i − w_{y_i}·x_i)       (eq. 14)
Dual:    D(a), in the shares of shares.py; −D is the paper's f of (4) and (16).
One problem, whatever the number of classes. Stop when P − D ≤ tol · P, both over all rows.

A visit of a row solves its sub-problem (10) or (21) exactly (Algorithms 2.1 and 3.1). The paper alternates a
loop over all rows with shrunk loops, over the rows that have a share inside its bounds and only their classes
that have one, for at most five loops' worth of effort, to an accuracy that cools by tens. So it is here (loops.py),
with a share of the full loop's gap as the accuracy, and with blocks. A full pass takes each block in turn and
(1) measures it at W₀, the weights that the pass began with, which sums up to P(W₀); (2) trains it together with
the survivors in memory (selective block minimisation, Chang & Roth 2011); (3) selects from it: its rows of least
slack survive. Then come epochs over the survivors. P(W₀) − D(a) is a rigorous gap whatever a became meanwhile,
and W₀ are the weights handed back.

Where the rows are long (C_i ‖x_i‖² far above 1) shares creep to their bounds in hundreds of tiny steps, the
same way each time. So after a shrunk loop they move on along the way that they came (extrapolation.py), as long
as that pays. Where all rows are in memory, W is measured, trained, measured, and handed back as it was measured.
Once loops have cost what Newton's method would, that takes over (multipliers.py), if it has room: it needs some
dozens of steps, however long the rows are, for each of which, out of core, all rows are read (all_rows.py). Where
there are many columns, work on the few worst rows follows each loop instead (many_columns.py); out of core, in
place of epochs, after a pass that only measures and finds them. Weights whose margins are all a little short are
handed back longer, by the factor of the least objective (scale.py), and by what rounding may hide where costs dwarf
that (best_weights.py). Costs larger than any dual variable becomes are taken for smaller ones (needed_costs.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.costs import RowCosts
from llsvm.objective.joint_loss import joint_loss
from llsvm.settings.settings import Settings
from llsvm.solvers.report import ROUNDED, STALLED, Report
from llsvm.solvers.sequential_dual.all_rows import AllRows, has_room
from llsvm.solvers.sequential_dual.best_weights import BestWeights
from llsvm.solvers.sequential_dual.duals import joint_dual
from llsvm.solvers.sequential_dual.layout import Layout, layout
from llsvm.solvers.sequential_dual.loops import Loops
from llsvm.solvers.sequential_dual.many_columns import ManyColumns
from llsvm.solvers.sequential_dual.multipliers import Multipliers
from llsvm.solvers.sequential_dual.needed_costs import lower_costs, measured_losses, needed_cost, with_costs
from llsvm.solvers.sequential_dual.prices import Due, WhatIsDue, what_is_due, work_so_far, worst_rows_are_due
from llsvm.solvers.sequential_dual.resum import resum_where_due, terms
from llsvm.solvers.sequential_dual.rounds import Rounds
from llsvm.solvers.sequential_dual.scale import Multiple
from llsvm.solvers.sequential_dual.shares import BlockShares, KeptShares, SharesAtHand, coef_of, squared_norm
from llsvm.solvers.sequential_dual.stages import Stages
from llsvm.solvers.sequential_dual.start import begin_at, sums_of
from llsvm.solvers.sequential_dual.tuning import DEFAULT, SequentialDualTuning
from llsvm.solvers.sequential_dual.worst_rows import WorstRows
from llsvm.solvers.stall import Stall
from llsvm.solvers.state import RowShares, Shares, SolverState, Sums, Value, copy_rows, data_of, objective_of
from llsvm.stream.stream import Stream


class SequentialDual:
    """See the file's head. ``solve`` yields a Report after each full pass and each run of epochs."""

    def __init__(
        self,
        settings: Settings,
        class_weight: NDArray[np.float64],
        threads: int = 1,
        tuning: SequentialDualTuning = DEFAULT,
        on_loop: Callable[[float], None] | None = None,
    ) -> None:
        """class_weight: (n_classes,) factors of C. on_loop: called with D after each loop over rows."""
        self.settings, self.class_weight = settings, class_weight
        self.threads, self.tuning = threads, tuning
        self._on_loop = on_loop
        self._costs = RowCosts.of_classes(settings.C, class_weight)
        self._stall = Stall(settings.tol, settings.max_passes)
        self._passes = 0
        self._restored: SolverState | None = None
        self._begins_at: tuple[Shares, Sums | None] | None = None
        self._runs, self._has_start = 0, False  # that began at sums, see Sums; there are weights to measure
        self._stages = Stages(tuning)
        # while ``solve`` is at it, and after
        self._stream: Stream | None = None
        self._loops: Loops | None = None
        self._rounds: Rounds | None = None  # where not all rows are at hand
        self._share = SharesAtHand(np.zeros((0, len(class_weight))))  # where they are
        self._newton: Multipliers | None = None  # where it has room
        self._all_rows: AllRows | None = None  # where it has, but these do not fit
        self._many_columns: ManyColumns | None = None
        self._terms: float | None = None  # of all rows, see resum.py
        self._newton_due = False  # since loops hardly get on any more
        self._survey_due = False  # out of core, after a pass: see many_columns.py
        self._best: BestWeights | None = None
        self._most = np.inf  # the largest cost that the dual takes, see needed_costs.py

    def layout(self, memory: MemoryLeft) -> Layout:
        """What it would do with the memory there is."""
        return layout(self.settings, self.class_weight, self.threads, memory, self.tuning)

    def needs(self, memory: MemoryLeft) -> Needs:
        return self.layout(memory).needs

    def solve(self, stream: Stream) -> Iterator[Report]:
        settings, dataset, state = self.settings, stream.dataset, self._restored
        self._restored = None
        if state is not None:
            state.require("sequential-dual", data_of(dataset))
        k = len(dataset.classes)
        loss = joint_loss(settings.multiclass, k)
        plan, shape = self.layout(stream.memory_left), (dataset.n_columns + 1, k)
        stream.prepare(plan.needs)
        self._stream = stream
        kept = np.zeros(shape) if plan.keeps else None
        numbers = (settings.constant, settings.tol, self.threads, settings.seed)
        bound = stream.rounding_bound(loss, self._costs.by_class, settings.constant)
        much = self.tuning.exact * settings.tol
        self._best = BestWeights(kept, bound, settings.multiclass == "weston-watkins", much)
        given = self.tuning, stream.progress, self._on_loop, stream.in_one_block
        with Loops(shape, loss, plan, *numbers, *given) as loops:
            self._loops, dual = loops, joint_dual(settings.multiclass)
            if plan.worst is not None:
                of_worst = (self.tuning.worst_rows, loops.threads, plan.worst, loops.grid)
                self._many_columns = ManyColumns(WorstRows(dual, settings.constant, *of_worst), self.tuning)
            if plan.matrix_numbers is not None and (stream.in_one_block or has_room(stream)):
                tail = (loops.threads, plan.matrix_numbers, loops.grid)
                self._newton = Multipliers(dual, settings.constant, *tail)
            if stream.in_one_block:
                self._share = SharesAtHand(np.zeros((dataset.n_rows, k), plan.dtype))
                reports = self._in_memory(stream, loops, self._best, state is not None)
            else:
                make = stream.sparse_state if plan.sparse else stream.row_state
                self._rounds = Rounds(stream, loops, make(k, plan.dtype), self._costs, self.tuning)
                if self._newton is not None:
                    self._all_rows = AllRows(self._newton, self._rounds, stream, self.tuning)
                reports = self._out_of_core(stream, self._rounds, self._best)
            if state is not None:
                self._go_on_from(state, stream, loops)
                del state
            elif self._begins_at is not None:
                self._begin(stream, loops, *self._begins_at)
                self._begins_at = None
            yield from reports

    def _in_memory(self, stream: Stream, loops: Loops, best: BestWeights, again: bool) -> Iterator[Report]:
        """All rows are one block: measure at W, or Newton's weights once that is at work, report, train, and so on.
        again: W was measured and reported before the run was stopped: find again which rows to train."""
        while True:
            before = self._passes - again
            for block in stream.all():
                whole = BlockShares(block, self._costs.of(block), self._share.array)
            part = with_costs(whole, self._most)
            if self._terms is None:
                self._terms = terms(part, loops.bias, loops.w.shape)
            w = loops.w if self._newton is None or self._newton.W is None else self._newton.W
            has_start, self._has_start = before > 0 or self._has_start, True
            losses = measured_losses(whole, part, loops, w) if has_start else loops.loss_at_zero(whole)
            if not again:
                self._passes += 1
                n_active = int(np.count_nonzero(part.slack <= 0))
                multiple = self._multiple(whole, w, losses, best)
                if self._resum([part], loops, multiple, w) and w is loops.w:
                    multiple = self._multiple(whole, w, measured_losses(whole, part, loops, w), best)
                report = self._report(multiple, w, n_active, best)
                report.resumable = not (report.converged or report.cause)
                yield report
                if report.converged or report.cause:
                    return
            again = False
            if self._is_last_pass:
                return
            part = self._with_needed_costs(part, loops, best.best.primal)
            due = partial(what_is_due, self._newton, loops, part, stream.dataset, self.tuning)
            if not self._second_order_stage(stream, loops, part, due):
                self._stages.train(part, loops, self._passes, 0.5 * squared_norm(w) + losses, due)

    def _multiple(
        self, whole: BlockShares, w: NDArray[np.float64], losses: float, best: BestWeights
    ) -> Multiple:
        """Which multiple of w is certified; losses: those of w."""
        loops, many = self._loops, self._many_columns
        assert loops is not None
        primal, always = 0.5 * squared_norm(w) + losses, many is not None and many.begun
        return best.multiple(whole, w, loops.bias, primal, loops.dual, always)

    def _with_needed_costs(self, part: BlockShares, loops: Loops, least: float) -> BlockShares:
        """The part, with smaller costs once these are known to do. least: P so far."""
        assert self._terms is not None
        longest = float(part.cost.max(initial=0.0))
        squares = self._terms / longest**2 if longest > 0.0 else 0.0
        most = needed_cost(part, squares, least)
        if not most < np.inf:
            return part
        dual = joint_dual(self.settings.multiclass)
        loops.dual = lower_costs(part, most, dual, loops.bias, loops.w, loops.grid)
        self._most, self._terms = most, squares * most**2
        return with_costs(part, most)

    def _resum(
        self, parts: Iterable[BlockShares], loops: Loops, multiple: Multiple, w: NDArray[np.float64]
    ) -> bool:
        """See ``resum_where_due``. multiple: of w, as measured."""
        assert self._best is not None
        dual, given = joint_dual(self.settings.multiclass), (self._terms or 0.0, self.settings.tol)
        return resum_where_due(parts, dual, loops, multiple, w, self._best, *given)

    def _second_order_stage(self, stream: Stream, loops: Loops, part: BlockShares, due: WhatIsDue) -> bool:
        """Steps of Newton's method, or for many columns, if due; after some without gain, loops come first."""
        newton, many, now = self._newton, self._many_columns, self._due(part, due)
        if now is Due.MANY_COLUMNS:
            assert many is not None
            many.step(part, loops, self._stall.last_share, stream.progress)
        elif now is Due.NEWTON:
            assert newton is not None
            if newton.W is None:
                self._stall = Stall(self.settings.tol, self.settings.max_passes)
            enough = self.tuning.newton_until * self.settings.tol
            loops.dual += newton.solve(part, loops.w, enough, self.tuning.newton_stage, stream.progress)
        return now is not Due.NOTHING

    def _due(self, part: BlockShares, due: WhatIsDue) -> Due:
        newton, many = self._newton, self._many_columns
        if many is not None and (
            many.begun or (newton is None and self._worst_rows_are_due(len(part.active)))
        ):
            return Due.MANY_COLUMNS
        if newton is None or not newton.goes_on():
            return Due.NOTHING
        return Due.NEWTON if newton.W is not None or self._newton_due else due()

    def _worst_rows_are_due(self, n_active: int) -> bool:
        """So many rows are free or violate."""
        assert self._loops is not None
        assert self._stream is not None
        given = self._loops, n_active, self._stream.dataset, self.tuning
        return self._newton_due or worst_rows_are_due(*given)

    def _out_of_core(self, stream: Stream, rounds: Rounds, best: BestWeights) -> Iterator[Report]:
        many, all_rows = self._many_columns, self._all_rows
        while True:
            if not self._survey_due:
                each = rounds if all_rows is None else all_rows
                primal = each.full_pass(self._has_start, epochs=many is None or not many.begun)
                self._has_start, self._passes = True, self._passes + 1
                self._terms = rounds.terms
                multiple = Multiple(1.0, primal)
                self._resum(rounds.parts(), rounds.loops, multiple, rounds.start)
                report = self._report(multiple, rounds.start, rounds.n_active, best)
                ends = report.converged or bool(report.cause) or self._is_last_pass
                is_due = many is not None and (many.begun or self._worst_rows_are_due(rounds.n_active))
                report.resumable = self._survey_due = is_due and not ends
                yield report
                if ends:
                    return
            if many is not None and self._survey_due:
                primal, worst = many.survey(rounds)
                self._passes += 1
                report = self._report(Multiple(1.0, primal), rounds.start, rounds.n_active, best)
                yield report
                if report.converged or report.cause or self._is_last_pass:
                    return
                kept = many.step_out_of_core(worst, rounds, self._stall.last_share, stream.progress)
                self._survey_due = False
            elif all_rows is not None and (self._newton_due or all_rows.is_due):
                if not all_rows.begun:
                    self._stall = Stall(self.settings.tol, self.settings.max_passes)
                kept = all_rows.solve(self.tuning.newton_until * self.settings.tol)
            else:
                kept = rounds.epochs(primal, self._passes)
            coef, dual = report.coef, rounds.loops.dual
            yield Report("epoch", self._passes, coef, report.certificate, dual, kept, resumable=True)

    def _report(self, multiple: Multiple, w: NDArray[np.float64], n_active: int, best: BestWeights) -> Report:
        """multiple: of w, as measured."""
        assert self._loops is not None
        assert self._stream is not None
        dual = self._loops.dual
        w, certificate = best.certificate(multiple, w, dual, self._passes)
        converged = certificate.relative_gap <= self.settings.tol
        report = Report("pass", self._passes, coef_of(w), certificate, dual, n_active, converged)
        report.extra |= work_so_far(self._loops, self._stream.dataset)
        measured = certificate.relative_gap - certificate.rounding_gap
        if not converged and measured <= self.tuning.exact * self.settings.tol:
            report.cause = ROUNDED
        elif self._stall.note(self._passes, certificate.primal[0], dual) and not converged:
            if self._may_begin_more:
                self._newton_due = True
            else:
                report.cause = STALLED
        return report

    @property
    def _may_begin_more(self) -> bool:
        """Than loops."""
        newton, many = self._newton, self._many_columns
        if many is not None and many.begun:
            return False
        return newton.W is None if newton is not None else many is not None

    @property
    def _is_last_pass(self) -> bool:
        most = self.settings.max_passes or 0
        return most > 0 and self._passes >= max(most, 2)

    # -- stopping and going on --------------------------------------------------------------------------

    def begin_at(self, shares: Shares, sums: Sums | None = None) -> bool:
        """See llsvm.solvers.base."""
        self._begins_at = shares, sums
        return True

    def _begin(self, stream: Stream, loops: Loops, given: Shares, sums: Sums | None) -> None:
        of_rows = self._costs, self._kept, loops, joint_dual(self.settings.multiclass)
        self._passes = begin_at(given, sums, stream, *of_rows)
        self._runs, self._has_start = (sums.runs + 1 if sums and not self._passes else 0), True
        self._stages = self._stages.begun(self._passes, sums, self._costs)

    @property
    def _kept(self) -> KeptShares:
        """The shares of all rows."""
        return self._share if self._rounds is None else self._rounds.shares

    def state(self) -> SolverState:
        """As of a pass, where all rows are in memory; else as of the end of its epochs, with the survivors in
        memory, which the next pass goes on training."""
        stream, loops, rounds = self._stream, self._loops, self._rounds
        assert stream is not None
        assert loops is not None
        numbers: dict[str, Value] = {**loops.numbers, "stream generator": stream.random_state}
        numbers |= {"runs": self._runs, **self._stages.numbers}
        arrays: dict[str, NDArray[Any]] = {"w": loops.w, **self._stall.arrays}
        if self._best is not None:
            arrays |= self._best.arrays
            numbers |= self._best.numbers
        if self._most < np.inf:
            numbers["largest cost"] = self._most
        if self._newton is not None:
            arrays |= self._newton.arrays
            numbers |= self._newton.numbers
        if self._many_columns is not None:
            numbers |= self._many_columns.numbers | {"newton due": self._newton_due}
        if rounds is not None:
            arrays |= rounds.arrays
            numbers |= {"n active": rounds.n_active, "survey due": self._survey_due}
        return SolverState(
            "sequential-dual",
            self._passes,
            {**objective_of(self.settings, self.class_weight), **data_of(stream.dataset)},
            arrays,
            {"share": self._kept},
            numbers,
        )

    def dual_point(self) -> RowShares | None:
        assert self._loops is not None
        assert self._stream is not None
        of_rows = self._costs, self._kept, self._runs, self._stream
        return RowShares(self._kept, sums_of(self._loops, *of_rows), self._most)

    def restore(self, state: SolverState) -> None:
        """See llsvm.solvers.base. The data are looked at when ``solve`` has them."""
        state.require("sequential-dual", objective_of(self.settings, self.class_weight))
        self._restored = state

    def _go_on_from(self, state: SolverState, stream: Stream, loops: Loops) -> None:
        state.require_shapes({"w": loops.w.shape, "share": (stream.dataset.n_rows, loops.w.shape[1])})
        self._passes, self._has_start = state.passes, state.passes > 0
        self._runs, self._stages = state.numbers["runs"], self._stages.restored(state.numbers)
        self._stall.restore(state.arrays)
        loops.restore(state.arrays["w"], state.numbers)
        if self._best is not None:
            self._best.restore(state.arrays, state.numbers)
        self._most = state.numbers.get("largest cost", np.inf)
        if self._many_columns is not None:
            self._newton_due = state.numbers.get("newton due", False)
            self._many_columns.restore(state.numbers)
        if self._newton is not None:
            self._newton = self._newton if self._newton.restore(state.arrays, state.numbers) else None
        state.require_type("share", self._kept.dtype)
        copy_rows(state.rows["share"], self._kept)
        if self._rounds is not None:
            self._rounds.restore(state.arrays, state.numbers["n active"])
            self._survey_due = state.numbers.get("survey due", False) and self._many_columns is not None
        stream.random_state = state.numbers["stream generator"]
