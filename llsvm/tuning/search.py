"""Search: all candidates, a C and a fold each, trained many at a time in the same passes and scored on held-out
rows.

    folds ─▶ batches ─▶ LLSVM over a batch's problems ─▶ held-out scores ─▶ rows of the table
                             ▲          └─ dual variables ─▶ the next batch, and the model of the chosen C

Columns are scaled, categories and vocabularies learned, on all rows, held-out ones too; their labels are in none of
that.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from llsvm.calibration.learning import NOTHING, Learned, Wanted
from llsvm.data.source import BlockSource
from llsvm.errors import BudgetError, DataError
from llsvm.memory.plan import MemoryPlan
from llsvm.memory.process import default_threads
from llsvm.models.model import Model
from llsvm.objective.certificate import Certificate
from llsvm.objective.problems import Fold, Problems, Variant
from llsvm.solvers.llsvm.solver import LLSVM
from llsvm.solvers.report import Report
from llsvm.spill.row_state import RowState
from llsvm.stream.stream import Stream
from llsvm.training.class_weights import class_weights
from llsvm.training.training import Training
from llsvm.tuning.batches import Batch, at_once, batches
from llsvm.tuning.folds import holdout, needs_of_folds, stratified
from llsvm.tuning.held_out import count_rows, score_file, score_folds
from llsvm.tuning.kept_weights import KeptWeights
from llsvm.tuning.learning import learned_from_file, learned_from_folds
from llsvm.tuning.left_out import LeftOut
from llsvm.tuning.scores import Score, worse
from llsvm.tuning.starts import Start, kept_of_first, kept_of_largest
from llsvm.tuning.table import Row
from llsvm.tuning.tally import Tally

MAX_PASSES = 30  # over rows that are not in one block: candidates that need more are trained alone
STARTS = "dual variables to begin at"
Show = Callable[[Report], None]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked.

    costs: C's, ascending. rule: see ``llsvm.tuning.table.chosen``. folds: how many, 0 for none; holdout: or the
    share of rows that is held out; validation: or opens the data to score on, for a Model. again: opens the
    training data anew, None where they can be read once only. wanted: to be learned from held-out rows' scores.
    by_column: finds so many folds by a column.
    """

    costs: tuple[float, ...]
    score: Score
    rule: str = "best"
    folds: int = 0
    holdout: float | None = None
    validation: Callable[[Model], BlockSource] | None = None
    again: Callable[[], BlockSource] | None = None
    wanted: Wanted = NOTHING
    by_column: Callable[[Stream, int], list[Fold]] | None = None


@dataclass(slots=True)
class Found:
    """What came of it, as far as it went.

    at_once: candidates of the same passes; batches, passes: so many, over the training data. alone: candidates that
    were trained alone in the end. starts: by C, where its dual variables are."""

    rows: list[Row] = field(default_factory=list)
    at_once: int = 0
    batches: int = 0
    passes: int = 0
    alone: int = 0
    starts: dict[float, tuple[Start, int]] = field(default_factory=dict)


class MustBeginAgain(Exception):
    """Rounding values to 32-bit floats hides an optimum: all is to be done again with 64-bit floats."""


class Search:
    """One search, over the stream of ``training``, which is held by no solver afterwards."""

    def __init__(self, training: Training, question: Question, show: Show = lambda report: None) -> None:
        """show: is told of each pass."""
        self._training, self._question, self._show = training, question, show
        self.found = Found()
        self._scores: dict[tuple[float, int], float] = {}
        self._proofs: dict[tuple[float, int], tuple[float, float]] = {}  # objectives and gaps
        self._validation: BlockSource | None = None
        self._validation_rows = 0
        self._neighbours: Start | None = None
        self._n_kept = 0
        self._folds: list[Fold | None] = []
        self._kept: KeptWeights | None = None

    def run(self) -> Found:
        """Raises DataError, BudgetError, DiskError, MustBeginAgain."""
        question, training = self._question, self._training
        dataset = training.read()
        self._settings = replace(training.settings, C=1.0, solver="llsvm")
        self._threads = training.settings.threads or default_threads()
        self._weights = class_weights(training.settings.class_weight, dataset)
        if question.score.of is None and dataset.n_classes != 2:
            raise DataError(
                f"{dataset.name}: --score {question.score.name} is for two classes, and there are "
                f"{dataset.n_classes}: pass --score balanced_accuracy, or --positive with the label of one of them"
            )
        question.wanted.require(dataset, self._stream.budget)
        self._open_validation()
        folds = self._folds = self._made_folds()
        n_folds = len(folds)
        # all rows with them: what they come to is where the model begins, and folds before it
        parts = [None, *folds] if n_folds > 1 else folds
        self.found.at_once = at_once(len(question.costs), len(parts), lambda m: self._plan(m, parts))
        for batch in batches(question.costs, parts, self.found.at_once):
            if batch.first:
                self._forget_neighbours()
            self._one(batch, folds)
            self.found.batches += 1
        self._forget_neighbours()
        for C in question.costs:
            scores = tuple(self._scores[C, f] for f in range(n_folds))
            primals, gaps = zip(*(self._proofs[C, f] for f in range(n_folds)), strict=True)
            self.found.rows.append(Row(C, scores, primals, gaps, max(gaps) <= training.settings.tol))
        return self.found

    @property
    def _stream(self) -> Stream:
        return self._training.stream

    def _made_folds(self) -> list[Fold | None]:
        question, stream, seed = self._question, self._stream, self._training.settings.seed
        if question.validation is not None:
            return [None]
        if question.by_column is not None:
            found = question.by_column(stream, question.folds)
        else:
            stream.prepare(needs_of_folds(stream.dataset))
            if question.holdout is None:
                found = stratified(stream, question.folds, seed)
            else:
                found = [holdout(stream, question.holdout, seed)]
            stream.reset()
        self.found.passes += 1
        return list(found)

    # -- a batch ----------------------------------------------------------------------------------------

    def _problems(self, variants: list[Variant]) -> Problems:
        return Problems(self._stream.dataset.n_classes, self._settings.multiclass == "ovo", variants)

    def _solver(self, variants: list[Variant]) -> LLSVM:
        return LLSVM(self._settings, self._weights, self._threads, self._problems(variants))

    def _plan(self, n: int, folds: list[Fold | None]) -> MemoryPlan | None:
        """What the memory limit would be spent on with so many candidates."""
        left, largest = self._stream.memory_left, self._question.costs[-1]
        return left.plan(self._solver([Variant(largest, folds[-1])] * n).needs(left))

    def _one(self, batch: Batch, folds: list[Fold | None]) -> None:
        """Train and score a batch."""
        coef, certificate, starts = self._trained(batch)
        shape = len(batch.variants), len(coef) // len(batch.variants)
        primals = np.array(certificate.primal).reshape(shape).sum(axis=1).tolist()
        gaps = np.array(certificate.gaps).reshape(shape).max(axis=1).tolist()
        coef = coef.reshape(*shape, -1)
        scored = [number for number, variant in enumerate(batch.variants) if variant.leaves_out in folds]
        for number in scored:
            variant = batch.variants[number]
            if gaps[number] > self._settings.tol:
                found = self._alone(variant)
                if found is not None and found[1].relative_gap < gaps[number]:
                    coef[number], better = found
                    primals[number], gaps[number] = better.total_primal, better.relative_gap
        if scored:
            held = [fold for fold in batch.folds if fold in folds]
            values = self._scored(batch, held, coef[scored].reshape(-1, coef.shape[2]))
            for at, number in enumerate(scored):
                c, f = divmod(at, len(held))
                key = batch.costs[c], folds.index(held[f])
                self._scores[key], self._proofs[key] = values[c][f], (primals[number], gaps[number])
                self._keep_weights(*key, coef[number])
        self._keep_best(batch, starts, len(folds))

    def _trained(self, batch: Batch) -> tuple[NDArray[np.float64], Certificate, Start | None]:
        """The best certified weights of all candidates, (m · k, d + 1), their certificate, and where the model of
        each C may begin, if the batch knows."""
        stream, starts = self._stream, None
        solver = self._solver(batch.variants)
        if self._neighbours is not None:
            solver.begin_at(self._neighbours.shares(0, len(batch.costs)))
        solver.in_turn(batch.parents)
        last = self._solved(solver)
        if batch.folds[0] is None or len(self._folds) == 1:
            starts = kept_of_first(solver, batch, lambda width: self._row_values(width, batch))
        before = self._neighbours
        if not batch.last:
            self._neighbours = kept_of_largest(solver, batch, lambda width: self._row_values(width, batch))
        if before is not None and not batch.last:
            before.values.close()
        assert last.coef is not None
        assert last.certificate is not None
        coef, certificate = last.coef, last.certificate
        solver.close()
        del solver, last
        stream.reset()
        if starts is not None and starts.values.in_memory:
            stream.budget.reserve(STARTS, starts.values.nbytes)
        return coef, certificate, starts

    def _solved(self, solver: LLSVM) -> Report:
        """The last report with a certificate."""
        training, last = self._training, None
        with closing(solver.solve(self._stream)) as reports:  # type: ignore[type-var]
            for report in reports:
                self._show(report)
                training.progress.passes = report.passes
                if report.certificate is None:
                    continue
                if training.must_begin_again(report):
                    raise MustBeginAgain
                last = report
                if report.passes >= MAX_PASSES and not self._stream.in_one_block:
                    break
        assert last is not None
        self.found.passes += last.passes
        return last

    def _alone(self, variant: Variant) -> tuple[NDArray[np.float64], Certificate] | None:
        """Train a candidate as ``train`` would; its weights, (k, d + 1), and their certificate, None where there is
        no room for that, or the data could be read once only."""
        question, training = self._question, self._training
        if question.again is None:
            return None
        source: BlockSource = question.again()
        if variant.leaves_out is not None:
            source = LeftOut(source, variant.leaves_out, self._stream.dataset)
        last, passes, budget = None, 0, self._stream.budget
        before = budget.mark()
        try:
            settings = replace(training.settings, C=variant.cost)
            with Training(source, settings, budget=budget) as alone:
                for report in alone:
                    passes = report.passes
                    if report.coef is not None and report.certificate is not None:
                        last = report.coef, report.certificate
        except BudgetError:
            return None
        finally:
            budget.return_to(before)
        self.found.alone += 1
        self.found.passes += passes
        return last

    # -- scores -----------------------------------------------------------------------------------------

    def _scored(self, batch: Batch, held: list[Fold | None], coef: NDArray[np.float64]) -> list[list[float]]:
        """Of each C of the batch, by fold."""
        question, stream, settings = self._question, self._stream, self._settings
        n_rows = self._validation_rows or stream.dataset.n_rows
        with Tally(question.score, settings, stream, len(batch.costs), len(held), n_rows) as tally:
            if self._validation is None:
                score_folds(stream, cast(list[Fold], held), coef, settings.constant, tally)
                self.found.passes += 1
            else:
                each = np.split(coef, len(batch.costs))
                models = [self._training.model_of(some) for some in each]
                dataset, limit = stream.dataset, settings.memory_limit
                score_file(self._validation, models, dataset, tally, limit)
            return tally.values()

    def _open_validation(self) -> None:
        """Before anything is trained: its columns may be others."""
        question, dataset = self._question, self._stream.dataset
        if question.validation is None:
            return
        nothing = np.zeros((len(self._problems([Variant()])), dataset.n_columns + 1))
        self._validation = question.validation(self._training.model_of(nothing))
        if question.score.of is None or question.wanted:
            self._validation_rows = sum(count_rows(self._validation))

    # -- what is learned from scores --------------------------------------------------------------------

    def _keep_weights(self, C: float, fold: int, coef: NDArray[np.float64]) -> None:
        """coef: (k, d + 1) of a candidate."""
        question = self._question
        if not question.wanted:
            return
        if self._kept is None:
            self._kept = KeptWeights(self._stream, question.costs, len(self._folds), *coef.shape)
        self._kept.keep(C, fold, coef)

    def learn(self, C: float) -> Learned:
        """What is wanted, from the scores of held-out rows by the candidates of C, after ``run``. Raises DataError,
        BudgetError, DiskError."""
        question, stream, kept = self._question, self._stream, self._kept
        if kept is None:
            return Learned()
        if self._validation is None:
            folds = cast(list[Fold], self._folds)
            at_once = min(len(folds), self.found.at_once)
            learned, passes = learned_from_folds(
                stream, self._settings, question.wanted, folds, at_once, lambda fold: kept.of(C, fold)
            )
            self.found.passes += passes
        else:
            source, n_rows, model = (
                self._validation,
                self._validation_rows,
                self._training.model_of(kept.of(C, 0)),
            )
            learned = learned_from_file(stream, self._settings, question.wanted, source, n_rows, model)
        kept.close()
        return learned

    # -- starts -----------------------------------------------------------------------------------------

    def _row_values(self, width: int, batch: Batch) -> RowState:
        """Room for values of every row: in memory where the work on rows, which is over, has taken more."""
        self._n_kept += 1
        stream, n_rows = self._stream, self._stream.dataset.n_rows
        only = batch.first and batch.last and stream.in_one_block
        workspace = None if only else stream.open_workspace()
        return RowState(n_rows, width, np.float32, workspace, f"start{self._n_kept}")

    def _keep_best(self, batch: Batch, starts: Start | None, n_folds: int) -> None:
        """Of what the C's of the batch may begin at, keep what the best one so far, or one before it, could
        need."""
        if starts is None:
            return
        kept = self.found.starts
        kept |= {C: (starts, number) for number, C in enumerate(batch.costs)}
        if (batch.last and batch.first) or any(
            (C, f) not in self._scores for C in kept for f in range(n_folds)
        ):
            return
        mean = {C: np.mean([self._scores[C, f] for f in range(n_folds)]) for C in kept}
        best = min(kept, key=lambda C: worse(self._question.score, float(mean[C])))
        keep = kept[best][0]
        for start in {id(each): each for each, _ in kept.values()}.values():
            if start is not keep:
                start.values.close()
        self.found.starts = {C: each for C, each in kept.items() if each[0] is keep}

    def _forget_neighbours(self) -> None:
        if self._neighbours is not None:
            self._neighbours.values.close()
            self._neighbours = None
