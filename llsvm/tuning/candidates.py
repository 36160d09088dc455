"""Training of candidates, batched or in sequence.

Those of solver llsvm are batched: as many C's, class weights and folds of a loss as the memory limit has room for
are problems of the same passes. Those of solver smsvm, for penalties with ‖w‖₁, are trained in sequence: of each
fold, C after C, each of which begins at the weights of the one before, in passes of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from llsvm.data.source import BlockSource
from llsvm.dataset import DatasetInfo
from llsvm.errors import BudgetError
from llsvm.memory.budget import MemoryBudget
from llsvm.memory.plan import ALL_ROWS, MemoryPlan
from llsvm.memory.process import return_dropped_memory
from llsvm.objective.certificate import Certificate
from llsvm.objective.penalty import Penalty
from llsvm.objective.problems import Fold, Problems, Variant, count_problems
from llsvm.process.trace import trace
from llsvm.settings.settings import Settings
from llsvm.solvers.base import Report
from llsvm.solvers.llsvm import side_by_side
from llsvm.solvers.llsvm.side_by_side import SideBySide
from llsvm.solvers.llsvm.solver import LLSVM
from llsvm.solvers.smsvm.solver import SmSVM
from llsvm.spill.row_state import RowState
from llsvm.training.training import Training
from llsvm.tuning.batches import Batch, Weights, batch_size, batches
from llsvm.tuning.held_out import LeftOut, by_column
from llsvm.tuning.starts import STARTS, Start, start_of_first_folds, start_of_largest
from llsvm.tuning.trained import WEIGHTS, PassCounts, Trained, TrainingWork

MIN_SIDE_BY_SIDE = 3  # candidates: fewer are as quick one by one
MAX_PASSES = 30  # over rows that are not in one block: candidates that need more are trained alone


Solver = TypeVar("Solver", LLSVM, SideBySide)


class BatchedCandidates:
    """Training of many candidates in the same passes. objectives: numbers of those that differ in their class
    weights alone."""

    def __init__(self, work: TrainingWork, objectives: Sequence[int]) -> None:
        self._work, self._objectives = work, objectives
        self.counts = PassCounts("llsvm", objectives)
        first = work.objectives[objectives[0]]
        self._settings = replace(first, C=1.0, solver="llsvm", class_weight=None)
        self._weights: list[Weights] = [self._weights_of(number) for number in objectives]
        self._side_by_side = False  # the current candidates
        self._neighbours: Start | None = None
        self._n_starts = 0

    def train(
        self, objectives: Sequence[int], costs: Sequence[float], folds: Sequence[int]
    ) -> Iterator[Trained]:
        """Train each of the objectives with each C, ascending, and fold; batch by batch. Raises BudgetError,
        DiskError, Float64Restart."""
        work = self._work
        numbers = [self._objectives.index(each) for each in objectives]
        parts = [work.folds[f] for f in folds]
        if 0 in folds and len(work.folds) > 1:
            # all rows with them: what they come to is where the model begins, and folds before it
            parts = [None, *parts]

        plan = self._plan(costs, parts, numbers)
        size = batch_size(len(costs), len(numbers), len(parts), plan)
        self.counts.trained_at_once(size)
        made = list(batches(costs, len(numbers), parts, size))
        if self._side_by_side:
            made.reverse()  # the largest C's first: of these rounding hides most, and all begins again then
        for batch in made:
            if batch.first or self._side_by_side:
                self._forget_neighbours()
            yield self._trained(replace(batch, weights=tuple(numbers[w] for w in batch.weights)))
            self.counts.batch_ended()
        self._forget_neighbours()

    def _plan(
        self, costs: Sequence[float], parts: Sequence[Fold | None], numbers: Sequence[int]
    ) -> Callable[[int], MemoryPlan | None]:
        """Return how so many candidates of the last C, the largest, would use the memory limit: side by side where
        those of one C have room so."""
        stream = self._work.stream

        def plan(kind: type[Solver], n: int) -> MemoryPlan | None:
            left, largest = stream.memory_left, Variant(costs[-1], parts[-1], self._weights[numbers[-1]])
            return left.plan(self._made(kind, [largest] * n).needs(left))

        of_a_cost = len(parts) * len(numbers)
        suits = side_by_side.suits(self._settings, stream.dataset)
        suits &= of_a_cost * len(costs) >= MIN_SIDE_BY_SIDE
        self._side_by_side = suits and plan(SideBySide, min(of_a_cost, side_by_side.MOST)) is not None
        return partial(plan, SideBySide) if self._side_by_side else partial(plan, LLSVM)

    def _weights_of(self, objective: int) -> Weights:
        factors = self._work.class_weight(objective)
        return None if (factors == 1.0).all() else tuple(factors.tolist())

    def _made(self, kind: type[Solver], variants: list[Variant]) -> Solver:
        dataset = self._work.stream.dataset
        problems = Problems(dataset.n_classes, self._settings.multiclass == "ovo", variants)
        return kind(self._settings, np.ones(dataset.n_classes), self._work.threads, problems)

    # -- a batch ----------------------------------------------------------------------------------------

    def _trained(self, batch: Batch) -> Trained:
        """Return its candidates but those of all rows, unless there is but one way to hold rows out."""
        work, tol = self._work, self._settings.tol
        variants = batch.variants(self._weights)
        trace("candidates.began", costs=batch.costs, problems=len(variants), side_by_side=self._side_by_side)
        coef, certificate, start = self._solved(batch, variants)
        shape = len(variants), len(coef) // len(variants)
        primals = np.array(certificate.primal).reshape(shape).sum(axis=1)
        gaps = np.array(certificate.gaps).reshape(shape).max(axis=1)
        coef = coef.reshape(*shape, -1)
        scored = [number for number, variant in enumerate(variants) if variant.leaves_out in work.folds]
        held = self._held(coef, start)
        keys = [(self._objectives[w], C) for C in batch.costs for w in batch.weights]
        for number in scored:
            if gaps[number] > tol:
                key = keys[number // len(batch.folds)]
                trace("candidate.alone", C=key[1], relative_gap=gaps[number], asked=tol)
                alone = self._alone(*key, variants[number].leaves_out, held)
                if alone is not None and alone[1].relative_gap < gaps[number]:
                    coef[number], better = alone
                    primals[number], gaps[number] = better.total_primal, better.relative_gap
        folds = [work.folds.index(fold) for fold in batch.folds if fold in work.folds]
        table = len(keys), len(folds)
        of_scored = primals[scored].reshape(table), gaps[scored].reshape(table)
        return Trained(keys, folds, coef[scored].reshape(*table, *coef.shape[1:]), *of_scored, start)

    def _solved(
        self, batch: Batch, variants: list[Variant]
    ) -> tuple[NDArray[np.float64], Certificate, Start | None]:
        """Return the best certified weights of all candidates, (m · k, d + 1), their certificate, and where the
        model of each key may begin, if the batch knows."""
        stream, start = self._work.stream, None
        solver: LLSVM | SideBySide
        if self._side_by_side:
            solver = self._made(SideBySide, variants)
        else:
            solver = self._made(LLSVM, variants)
            if self._neighbours is not None:
                solver.begin_at(self._neighbours.shares(0, len(batch.costs)))
            solver.in_turn(batch.parents)
        last = self._last(solver)
        if batch.folds[0] is None or len(self._work.folds) == 1:
            start = start_of_first_folds(solver, batch, lambda width: self._row_values(width, batch))
        before = self._neighbours
        begins = stream.in_one_block and not self._side_by_side  # elsewhere that costs more than it saves
        if begins and not batch.last:
            self._neighbours = start_of_largest(solver, batch, lambda width: self._row_values(width, batch))
            if before is not None:
                before.values.close()
        assert last.coef is not None
        assert last.certificate is not None
        coef, certificate = last.coef, last.certificate
        solver.close()
        del solver, last
        stream.reset()
        return_dropped_memory()
        return coef, certificate, start

    def _last(self, solver: LLSVM | SideBySide) -> Report:
        """Return the last report with a certificate."""
        work, last = self._work, None
        with closing(solver.solve(work.stream)) as reports:  # type: ignore[type-var]
            for report in reports:
                work.take(report)
                if report.certificate is None:
                    continue
                last = report
                if report.passes >= MAX_PASSES and not work.stream.in_one_block:
                    break
        assert last is not None
        self.counts.add_passes(last.passes)
        return last

    def _held(self, coef: NDArray[np.float64], start: Start | None) -> dict[str, int]:
        """Return bytes by name of what is held between two batches. coef, start: of the batch before."""
        stream = self._work.stream
        left, held = stream.memory_left, {WEIGHTS: coef.nbytes}
        if left.rows_bytes is not None and not stream.dataset.reading.views:
            held[ALL_ROWS] = left.rows_bytes
        if start is not None and start.values.in_memory:
            held[STARTS] = start.values.nbytes
        return held

    def _alone(
        self, objective: int, C: float, fold: Fold | None, held: Mapping[str, int]
    ) -> tuple[NDArray[np.float64], Certificate] | None:
        """Train a candidate as ``train`` would; its weights, (k, d + 1), and their certificate, None where there is
        no room for that, or the data could be read once only. held: beside it, in bytes, by line of the budget."""
        work, budget = self._work, self._work.stream.budget
        if work.again is None:
            return None
        try:
            with budget.scope():
                for what, nbytes in held.items():
                    budget.reserve(what, nbytes)
                candidate = replace(work.objectives[objective], C=C)
                last, passes = _trained_alone(work, work.again(), candidate, fold)
        except BudgetError:
            last = None
        return_dropped_memory()
        if last is None:
            return None
        self.counts.trained_alone(passes)
        return last

    # -- starts -----------------------------------------------------------------------------------------

    def _row_values(self, width: int, batch: Batch) -> RowState:
        """Return room for values of every row: in memory where the work on rows, which is over, has taken more."""
        self._n_starts += 1
        stream, n_rows = self._work.stream, self._work.stream.dataset.n_rows
        only = batch.first and batch.last and stream.in_one_block
        workspace = None if only else stream.open_workspace()
        name = f"start{self._objectives[0]}-{self._n_starts}"
        return RowState(n_rows, width, np.float32, workspace, name)

    def _forget_neighbours(self) -> None:
        if self._neighbours is not None:
            self._neighbours.values.close()
            self._neighbours = None


def _trained_alone(
    work: TrainingWork, source: BlockSource, settings: Settings, fold: Fold | None
) -> tuple[tuple[NDArray[np.float64], Certificate] | None, int]:
    """Return the weights of a run of its own and their certificate, and the passes that it took. Its lines have the
    names of those here, so they are in a budget of their own."""
    budget = MemoryBudget(work.stream.budget.limit_bytes, work.stream.budget.reserved_bytes)
    if fold is not None:
        source = LeftOut(source, fold, work.stream.dataset)
    last, passes = None, 0
    with Training(source, settings, budget=budget) as alone:
        for report in alone:
            passes = report.passes
            if report.coef is not None and report.certificate is not None:
                last = report.coef, report.certificate
    return last, passes


class SequentialCandidates:
    """Training of candidates one after the other. objectives: their numbers."""

    def __init__(self, work: TrainingWork, objectives: Sequence[int]) -> None:
        self._work = work
        self.counts = PassCounts("smsvm", objectives)

    def train(
        self, objectives: Sequence[int], costs: Sequence[float], folds: Sequence[int]
    ) -> Iterator[Trained]:
        """Train each of the objectives with each C, ascending, and fold. Raises BudgetError, DiskError,
        Float64Restart."""
        for fold in folds:
            for objective in objectives:
                yield self._trained(objective, costs, fold)
                self.counts.batch_ended()

    def _trained(self, objective: int, costs: Sequence[float], fold: int) -> Trained:
        work, stream = self._work, self._work.stream
        settings = replace(work.objectives[objective], solver="smsvm")
        weight, out, dataset = work.class_weight(objective), work.folds[fold], stream.dataset
        solver = SmSVM(settings, weight, work.threads, leaves_out=out)
        k = count_problems(dataset.n_classes, settings.multiclass == "ovo")
        with stream.budget.reserve(WEIGHTS, weights_bytes(dataset, settings, len(costs))):
            coef = by_column(len(costs), 1, k, dataset.n_columns + 1)
            primals, gaps = np.zeros((2, len(costs), 1))
            solver.prepare(stream)
            for c, C in enumerate(costs):
                last = None
                for report in solver.optimise(Penalty.of(replace(settings, C=C), dataset.weight_sum)):
                    work.take(report)
                    last = report if report.certificate is not None else last
                assert last is not None
                assert last.certificate is not None
                coef[c, 0] = last.coef
                primals[c], gaps[c] = last.certificate.total_primal, last.certificate.relative_gap
            self.counts.add_passes(solver.passes)
            del solver, last
            stream.reset()
        return Trained([(objective, C) for C in costs], [fold], coef, primals, gaps)


def weights_bytes(dataset: DatasetInfo, settings: Settings, n_costs: int) -> int:
    """Return the bytes of the weights of a fold's candidates."""
    k = count_problems(dataset.n_classes, settings.multiclass == "ovo")
    return 8 * n_costs * k * (dataset.n_columns + 1)
