"""A run of the sequential dual method (solver.py): its passes, and what it does between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.costs import RowCosts
from llsvm.objective.joint_loss import joint_loss
from llsvm.settings.settings import Settings
from llsvm.solvers.report import ROUNDED, STALLED, Report
from llsvm.solvers.sequential_dual.all_rows import NewtonOverAllRows, has_room
from llsvm.solvers.sequential_dual.best_weights import BestWeights
from llsvm.solvers.sequential_dual.duals import joint_dual
from llsvm.solvers.sequential_dual.layout import Layout
from llsvm.solvers.sequential_dual.loops import Loops
from llsvm.solvers.sequential_dual.multipliers import JointMultipliers
from llsvm.solvers.sequential_dual.needed_costs import lower_costs, measured_losses, needed_cost, with_costs
from llsvm.solvers.sequential_dual.prices import Due, Prices
from llsvm.solvers.sequential_dual.resum import drift_matters, resum, terms
from llsvm.solvers.sequential_dual.rounds import JointRounds
from llsvm.solvers.sequential_dual.scale import Multiple
from llsvm.solvers.sequential_dual.shares import BlockShares, KeptShares, SharesAtHand, coef_of, squared_norm
from llsvm.solvers.sequential_dual.start import begin_at, sums_of
from llsvm.solvers.sequential_dual.worst_rows import WorstRows
from llsvm.solvers.stall import Stall
from llsvm.solvers.state import (
    RowShares,
    Shares,
    ShareSums,
    SolverState,
    Value,
    copy_rows,
    data_of,
    much_the_same,
)
from llsvm.stream.stream import Stream


class JointRun:
    """passes: so many were made. shares: of all rows."""

    def __init__(
        self, settings: Settings, costs: RowCosts, plan: Layout, stream: Stream, loops: Loops, prices: Prices
    ) -> None:
        self.passes, self._again = 0, False  # it goes on after a pass that was reported
        self._settings, self._costs, self._stream, self._loops = settings, costs, stream, loops
        self._prices, self._tuning, self._dual = prices, prices.tuning, joint_dual(settings.multiclass)
        self._stall = Stall(settings.tol, settings.max_passes)
        self._runs, self._has_start = 0, False  # that began at sums, see Sums; there are weights to measure
        # passes that have summed the weights of most rows to begin at; None: it begins with none, or others' costs
        self._begun_after: int | None = None
        self._terms: float | None = None  # of all rows, see resum.py
        self._newton_due = False  # since loops hardly get on any more
        self._survey_due = False  # out of core, after a pass: see worst_rows.py
        self._most = np.inf  # the largest cost that the dual takes, see needed_costs.py
        loss = joint_loss(settings.multiclass, loops.w.shape[1])
        bound = stream.rounding_bound(loss, costs.by_class, settings.constant)
        kept = np.zeros_like(loops.w) if plan.keeps else None
        much = self._tuning.exact * settings.tol
        self._best = BestWeights(kept, bound, settings.multiclass == "weston-watkins", much)
        self._worst_rows: WorstRows | None = None
        if plan.worst is not None:
            tail = (loops.threads, plan.worst, loops.grid, self._tuning)
            self._worst_rows = WorstRows(self._dual, settings.constant, *tail)
        self._newton: JointMultipliers | None = None  # where it has room
        if plan.matrix_numbers is not None and (stream.in_one_block or has_room(stream)):
            of_newton = (loops.threads, plan.matrix_numbers, loops.grid)
            self._newton = JointMultipliers(self._dual, settings.constant, *of_newton)
        self._rounds: JointRounds | None = None  # where not all rows are at hand
        self.shares: KeptShares
        n_rows, k = stream.dataset.n_rows, loops.w.shape[1]
        if stream.in_one_block:
            self.shares = SharesAtHand(np.zeros((n_rows, k), plan.dtype))
        else:
            make = stream.sparse_state if plan.sparse else stream.row_state
            self._rounds = JointRounds(stream, loops, make(k, plan.dtype), costs, self._tuning)
            self.shares = self._rounds.shares

    def reports(self) -> Iterator[Report]:
        """Go on to the end; a report after each full pass and each run of epochs."""
        if self._rounds is not None:
            return self._out_of_core(self._rounds)
        assert isinstance(self.shares, SharesAtHand)
        return self._in_memory(self.shares, self._again)

    def _in_memory(self, shares: SharesAtHand, again: bool) -> Iterator[Report]:
        """All rows are one block: measure at W, or Newton's weights once that is at work, report, train, and so on.
        again: W was measured and reported before the run was stopped: find again which rows to train."""
        stream, loops, best = self._stream, self._loops, self._best
        while True:
            before = self.passes - again
            for block in stream.all():
                whole = BlockShares(block, self._costs.of(block), shares.array)
            part = with_costs(whole, self._most)
            if self._terms is None:
                self._terms = terms(part, loops.bias, loops.w.shape)
            w = loops.w if self._newton is None or self._newton.W is None else self._newton.W
            has_start, self._has_start = before > 0 or self._has_start, True
            losses = measured_losses(whole, part, loops, w) if has_start else loops.loss_at_zero(whole)
            if not again:
                self.passes += 1
                n_active = int(np.count_nonzero(part.slack <= 0))
                always = self._worst_rows is not None and self._worst_rows.begun
                multiple = best.multiple(whole, w, losses, loops, always)
                if self._resum([part], multiple, w) and w is loops.w:
                    losses = measured_losses(whole, part, loops, w)
                    multiple = best.multiple(whole, w, losses, loops, always)
                report = self._report(multiple, w, n_active)
                report.resumable = not (report.converged or report.cause)
                yield report
                if report.converged or report.cause:
                    return
            again = False
            if self._is_last_pass:
                return
            part = self._with_needed_costs(part, best.best.primal)
            if not self._second_order_stage(part):
                self._train(part, 0.5 * squared_norm(w) + losses)

    def _train(self, part: BlockShares, primal: float) -> None:
        """From nothing, train the rows that were free or violating, until these have got on. A run that begins at
        the shares of most rows begins with weights that are nearly right, and what such loops make of them for a
        while is not: so many rows that nearly violate soon do. So its loops are over both, and go on to the end.

        part: all rows, as measured. primal: P."""
        loops, tuning = self._loops, self._tuning
        if self._begun_after is None:

            def newton_is_due() -> bool:
                return self._prices.due(self._newton, part) is Due.NEWTON

            loops.train([part], tuning.until, tuning.max_loops, newton_is_due)
            return
        stage = self.passes - self._begun_after
        near = np.flatnonzero(part.slack < tuning.warm_slack / stage)
        if stage > 2:
            loops.tighten()
        loops.settle(part, near, tuning.until * (primal - loops.dual) if stage == 1 else 0.0)

    def _with_needed_costs(self, part: BlockShares, least: float) -> BlockShares:
        """The part, with smaller costs once these are known to do. least: P so far."""
        assert self._terms is not None
        loops = self._loops
        longest = float(part.cost.max(initial=0.0))
        squares = self._terms / longest**2 if longest > 0.0 else 0.0
        most = needed_cost(part, squares, least)
        if not most < np.inf:
            return part
        loops.dual = lower_costs(part, most, self._dual, loops.bias, loops.w, loops.grid)
        self._most, self._terms = most, squares * most**2
        return with_costs(part, most)

    def _resum(self, parts: Iterable[BlockShares], multiple: Multiple, w: NDArray[np.float64]) -> bool:
        """Where D would prove much, and rounding may have spoilt it by more than certificates allow for, sum the
        weights and D anew, and return True. parts: all rows. multiple: of w, as measured."""
        loops, tol = self._loops, self._settings.tol
        if not drift_matters(self._terms or 0.0, loops, multiple.primal, tol):
            return False
        if self._best.rounding_gap(multiple, w, loops.dual) > tol:
            return False
        loops.dual = resum(parts, self._dual, loops.bias, loops.w)
        return True

    def _second_order_stage(self, part: BlockShares) -> bool:
        """Steps of Newton's method, or on the worst rows, if due; after some without gain, loops come first."""
        newton, loops, progress = self._newton, self._loops, self._stream.progress
        if self._worst_rows is not None and self._worst_rows_are_due(len(part.active), newton is None):
            self._worst_rows.step(part, loops, self._stall.last_share, progress)
            return True
        if newton is None or not newton.goes_on():
            return False
        due = Due.NEWTON if newton.W is not None or self._newton_due else self._prices.due(newton, part)
        if due is Due.WORST_ROWS:
            assert self._worst_rows is not None
            self._worst_rows.step(part, loops, self._stall.last_share, progress)
        elif due is Due.NEWTON:
            if newton.W is None:
                self._stall = Stall(self._settings.tol, self._settings.max_passes)
            enough = self._tuning.newton_until * self._settings.tol
            loops.dual += newton.solve(part, loops.w, enough, self._tuning.newton_stage, progress)
        return due is not Due.NOTHING

    def _worst_rows_are_due(self, n_active: int, alone: bool) -> bool:
        """n_active: so many rows are free or violate. alone: no other second order has room."""
        if self._worst_rows is None or self._worst_rows.begun:
            return self._worst_rows is not None
        return alone and (self._newton_due or self._prices.worst_rows_are_due(n_active))

    def _out_of_core(self, rounds: JointRounds) -> Iterator[Report]:
        worst_rows, all_rows = self._worst_rows, None
        if self._newton is not None:  # has room, where these have not
            all_rows = NewtonOverAllRows(self._newton, rounds, self._stream, self._prices)
        while True:
            if not self._survey_due:
                each = rounds if all_rows is None else all_rows
                primal = each.full_pass(self._has_start, epochs=worst_rows is None or not worst_rows.begun)
                self._has_start, self.passes = True, self.passes + 1
                self._terms = rounds.terms
                multiple = Multiple(1.0, primal)
                self._resum(rounds.parts(), multiple, rounds.start)
                report = self._report(multiple, rounds.start, rounds.n_active)
                ends = report.converged or bool(report.cause) or self._is_last_pass
                is_due = self._worst_rows_are_due(rounds.n_active, alone=True)
                report.resumable = self._survey_due = is_due and not ends
                yield report
                if ends:
                    return
            if worst_rows is not None and self._survey_due:
                primal, worst = worst_rows.survey(rounds)
                self.passes += 1
                report = self._report(Multiple(1.0, primal), rounds.start, rounds.n_active)
                yield report
                if report.converged or report.cause or self._is_last_pass:
                    return
                kept = worst_rows.step_out_of_core(
                    worst, rounds, self._stall.last_share, self._stream.progress
                )
                self._survey_due = False
            elif all_rows is not None and (self._newton_due or all_rows.is_due):
                if not all_rows.begun:
                    self._stall = Stall(self._settings.tol, self._settings.max_passes)
                kept = all_rows.solve(self._tuning.newton_until * self._settings.tol)
            else:
                kept = rounds.epochs(primal, self.passes)
            coef, dual = report.coef, rounds.loops.dual
            yield Report("epoch", self.passes, coef, report.certificate, dual, kept, resumable=True)

    def _report(self, multiple: Multiple, w: NDArray[np.float64], n_active: int) -> Report:
        """multiple: of w, as measured."""
        dual = self._loops.dual
        w, certificate = self._best.certificate(multiple, w, dual, self.passes)
        converged = certificate.proves(self._settings.tol)
        report = Report("pass", self.passes, coef_of(w), certificate, dual, n_active, converged)
        report.extra |= self._prices.so_far
        measured = certificate.relative_gap - certificate.rounding_gap
        if not converged and measured <= self._tuning.exact * self._settings.tol:
            report.cause = ROUNDED
        elif self._stall.note(self.passes, certificate.primal[0], dual) and not converged:
            if self._may_begin_more:
                self._newton_due = True
            else:
                report.cause = STALLED
        return report

    @property
    def _may_begin_more(self) -> bool:
        """Than loops."""
        newton, worst_rows = self._newton, self._worst_rows
        if worst_rows is not None and worst_rows.begun:
            return False
        return newton.W is None if newton is not None else worst_rows is not None

    @property
    def _is_last_pass(self) -> bool:
        most = self._settings.max_passes or 0
        return most > 0 and self.passes >= max(most, 2)

    # -- stopping and going on --------------------------------------------------------------------------

    def begin_at(self, given: Shares, sums: ShareSums | None) -> None:
        self.passes = begin_at(given, sums, self._stream, self._costs, self.shares, self._loops, self._dual)
        self._runs, self._has_start = (sums.runs + 1 if sums and not self.passes else 0), True
        same = sums is not None and much_the_same(self._costs.by_class, sums.by_class)
        self._begun_after = self.passes if same else None

    def dual_point(self) -> RowShares:
        sums = sums_of(self._loops, self._costs, self.shares, self._runs, self._stream)
        return RowShares(self.shares, sums, self._most)

    def state(self, objective: dict[str, Any]) -> SolverState:
        """As of a pass, where all rows are in memory; else as of the end of its epochs, with the survivors in
        memory, which the next pass goes on training."""
        numbers: dict[str, Value] = {**self._loops.numbers, "stream generator": self._stream.random_state}
        numbers |= {"runs": self._runs}
        if self._begun_after is not None:
            numbers["begun after"] = self._begun_after
        arrays: dict[str, NDArray[Any]] = {"w": self._loops.w, **self._stall.arrays}
        arrays, numbers = arrays | self._best.arrays, numbers | self._best.numbers
        if self._most < np.inf:
            numbers["largest cost"] = self._most
        if self._newton is not None:
            arrays, numbers = arrays | self._newton.arrays, numbers | self._newton.numbers
        if self._worst_rows is not None:
            numbers |= self._worst_rows.numbers | {"newton due": self._newton_due}
        if self._rounds is not None:
            arrays |= self._rounds.arrays
            numbers |= {"n active": self._rounds.n_active, "survey due": self._survey_due}
        about = objective | data_of(self._stream.dataset)
        return SolverState("sequential-dual", self.passes, about, arrays, {"share": self.shares}, numbers)

    def restore(self, state: SolverState) -> None:
        stream, loops = self._stream, self._loops
        state.require_shapes({"w": loops.w.shape, "share": (stream.dataset.n_rows, loops.w.shape[1])})
        self.passes, self._has_start, self._again = state.passes, state.passes > 0, True
        self._runs, self._begun_after = state.numbers["runs"], state.numbers.get("begun after")
        self._stall.restore(state.arrays)
        loops.restore(state.arrays["w"], state.numbers)
        self._best.restore(state.arrays, state.numbers)
        self._most = state.numbers.get("largest cost", np.inf)
        if self._worst_rows is not None:
            self._newton_due = state.numbers.get("newton due", False)
            self._worst_rows.restore(state.numbers)
        if self._newton is not None:
            self._newton = self._newton if self._newton.restore(state.arrays, state.numbers) else None
        state.require_type("share", self.shares.dtype)
        copy_rows(state.rows["share"], self.shares)
        if self._rounds is not None:
            self._rounds.restore(state.arrays, state.numbers["n active"])
            self._survey_due = state.numbers.get("survey due", False) and self._worst_rows is not None
        stream.restore_random_state(state.numbers["stream generator"])
