"""Search: all candidates, an objective, a C and a fold each, trained and scored on held-out rows.

    folds ─▶ candidates of solver llsvm, many at a time, ──┬▶ held-out scores ─▶ board ─▶ the table
             those of smsvm, one after the other ──────────┘
                         └─ dual variables ─▶ the next batch, and the model of the candidate that is chosen

Columns are scaled, categories and vocabularies learned, on all rows, held-out ones too; their labels are in none of
that. In a race folds follow each other: the best candidate on the first is trained for all of them next, and what
can no longer be better than that is dropped after whatever fold shows it.

A run of ``tune`` is a search, the choice, and the training of the chosen candidate's model on all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from llsvm.calibration.learning import LINE, NOTHING, HeldScores, Learned, LearningRequest, learn
from llsvm.data.source import BlockSource
from llsvm.dataset import DatasetInfo
from llsvm.errors import BudgetError, DataError
from llsvm.memory.process import default_threads, return_dropped_memory
from llsvm.models.model import Model
from llsvm.objective.problems import Fold, count_problems
from llsvm.settings.settings import Settings
from llsvm.stream.stream import Stream
from llsvm.training.persistence import save_snapshot
from llsvm.training.training import Training
from llsvm.tuning.batches import CandidateStarts
from llsvm.tuning.candidates import BatchedCandidates, SequentialCandidates, weights_bytes
from llsvm.tuning.folds import holdout, needs_of_folds, stratified
from llsvm.tuning.grid import described, solver_of
from llsvm.tuning.held_out import Tally, count_rows, score_file, score_folds
from llsvm.tuning.scores import Board, Key, Row, Score, choose_row
from llsvm.tuning.trained import (
    WEIGHTS,
    CandidateWeights,
    Float64Restart,
    PassCounts,
    Show,
    Trained,
    TrainingWork,
)


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a search: its candidates, and the rows that they are scored on.

    objectives: settings that have all but C. costs: C's, ascending. rule: see ``llsvm.tuning.scores.choose_row``.
    race: drop candidates that can no longer be the best. folds: how many, 0 for none; holdout: or the share of rows
    that is held out; validation: or opens the data to score on, for a Model. again: opens the training data anew,
    None where they can be read once only. learning: to be learned from held-out rows' scores. by_column: finds so
    many folds by a column.
    """

    objectives: tuple[Settings, ...]
    costs: tuple[float, ...]
    score: Score
    rule: str = "best"
    race: bool = False
    folds: int = 0
    holdout: float | None = None
    validation: Callable[[Model], BlockSource] | None = None
    again: Callable[[], BlockSource] | None = None
    learning: LearningRequest = NOTHING
    by_column: Callable[[Stream, int], list[Fold]] | None = None

    @property
    def keys(self) -> list[Key]:
        """Return the keys of all candidates, in the order of the table."""
        return [(number, C) for number in range(len(self.objectives)) for C in self.costs]


@dataclass(slots=True)
class SearchResult:
    """Result of a search. parts: of the candidates that share passes. passes: over the training data, those that
    found folds and scored held-out rows with them."""

    rows: list[Row] = field(default_factory=list)
    parts: list[PassCounts] = field(default_factory=list)
    other_passes: int = 0

    def add_passes(self, passes: int) -> None:
        """Count passes that trained no candidate."""
        self.other_passes += passes

    @property
    def passes(self) -> int:
        return self.other_passes + sum(part.passes for part in self.parts)

    @property
    def concurrent(self) -> int:
        return max(part.concurrent for part in self.parts)


class Search:
    """One search, over the stream of ``training``, which is held by no solver afterwards."""

    def __init__(self, training: Training, question: Question, show: Show = lambda report: None) -> None:
        """Read the data, make the folds. show: called with each pass. Raises DataError, BudgetError, DiskError."""
        self._training, self._question = training, question
        self.result = SearchResult()
        dataset = training.read()
        self._settings = training.settings
        if question.score.ranks and dataset.n_classes != 2:
            raise DataError(
                f"{dataset.name}: --score {question.score.name} is for two classes, and there are "
                f"{dataset.n_classes}: pass --score balanced_accuracy, or --positive with the label of one of them"
            )
        question.learning.require(dataset, self._stream.budget)
        self._validation: BlockSource | None = None
        self._validation_rows = 0
        self._open_validation()
        folds = self._made_folds()
        self._board = Board(question.score, len(folds))
        self.starts = CandidateStarts(self._stream.budget)
        resolved = [each.resolved(training.stream.source.info().is_table) for each in question.objectives]
        threads = training.settings.threads or default_threads()
        given = (training, resolved, question.again, show, threads, self._board, self.starts, folds)
        self._work = TrainingWork(*given)
        self._weights: CandidateWeights | None = None

    def run(self) -> SearchResult:
        """Train and score all candidates. Raises BudgetError, DiskError, Float64Restart."""
        n_folds = len(self._work.folds)
        for training in self._trainings():
            self.result.parts.append(training.counts)
            for objectives, costs, folds in self._rounds(training.counts.objectives, n_folds):
                for trained in training.train(objectives, costs, folds):
                    self._score(trained)
                    del trained  # its weights would stand beside those of the next batch
        tol = self._settings.tol
        self.result.rows.extend(self._board.row(key, tol) for key in self._question.keys)
        return self.result

    @property
    def _stream(self) -> Stream:
        return self._training.stream

    # -- the order of it --------------------------------------------------------------------------------

    def _trainings(self) -> Iterator[BatchedCandidates | SequentialCandidates]:
        """Yield the training of the candidates of each loss and penalty."""
        groups = dict[tuple[str, str], list[int]]()
        for number, each in enumerate(self._work.objectives):
            groups.setdefault((each.loss, each.penalty), []).append(number)
        for numbers in groups.values():
            batched = solver_of(self._work.objectives[numbers[0]]) == "llsvm"
            yield (BatchedCandidates if batched else SequentialCandidates)(self._work, numbers)

    def _rounds(
        self, objectives: Sequence[int], n_folds: int
    ) -> Iterator[tuple[Sequence[int], Sequence[float], Sequence[int]]]:
        """Yield what is trained next, when what was before has been scored: objectives, C's, folds."""
        costs, board = self._question.costs, self._board
        if not self._question.race:
            yield objectives, costs, range(n_folds)
            return
        yield objectives, costs, [0]
        leader = board.leader((number, C) for number in objectives for C in costs)
        if not board.lost(leader):
            yield [leader[0]], [leader[1]], range(1, n_folds)
        for fold in range(1, n_folds):
            for number in objectives:
                open_ = [C for C in costs if not (board.has((number, C), fold) or board.lost((number, C)))]
                if open_:
                    yield [number], open_, [fold]

    def _made_folds(self) -> list[Fold | None]:
        question, stream, seed = self._question, self._stream, self._training.settings.seed
        if question.validation is not None:
            return [None]
        if question.by_column is not None:
            folds = question.by_column(stream, question.folds)
        else:
            stream.prepare(needs_of_folds(stream.dataset))
            if question.holdout is None:
                folds = stratified(stream, question.folds, seed)
            else:
                folds = [holdout(stream, question.holdout, seed)]
            stream.reset()
        self.result.add_passes(1)
        return list(folds)

    # -- scores -----------------------------------------------------------------------------------------

    def _score(self, trained: Trained) -> None:
        """Take in candidates: what held-out rows say of them, their weights, where they are wanted, and starts."""
        if trained.start is not None:
            self.starts.add(trained.keys, trained.start)
        if len(trained.folds):
            values = self._scored(trained)
            for number, key in enumerate(trained.keys):
                for at, fold in enumerate(trained.folds):
                    proof = float(trained.primals[number, at]), float(trained.gaps[number, at])
                    self._board.add(key, fold, values[number][at], *proof)
                    self._keep_weights(key, fold, trained.coef[number, at])
        self.starts.drop(self._board)

    def _scored(self, trained: Trained) -> list[list[float]]:
        """Return the score of each key, by fold."""
        question, stream, settings = self._question, self._stream, self._settings
        n_rows = self._validation_rows or stream.dataset.n_rows
        n_keys, n_folds = trained.primals.shape
        with Tally(question.score, settings, stream, n_keys, n_folds, n_rows) as tally:
            if self._validation is None:
                held = [cast(Fold, self._work.folds[f]) for f in trained.folds]
                score_folds(stream, held, trained.coef, settings.constant, tally)
                self.result.add_passes(1)
            else:
                models = [self._training.model_of(each[0]) for each in trained.coef]
                dataset, limit = stream.dataset, settings.memory_limit
                score_file(self._validation, models, dataset, tally, limit)
            return tally.values()

    def _open_validation(self) -> None:
        """Open the validation data before anything is trained: its columns may be others."""
        question, dataset = self._question, self._stream.dataset
        if question.validation is None:
            return
        k = count_problems(dataset.n_classes, self._settings.multiclass == "ovo")
        nothing = np.zeros((k, dataset.n_columns + 1))
        self._validation = question.validation(self._training.model_of(nothing))
        if question.score.of is None or question.learning:
            self._validation_rows = sum(count_rows(self._validation, self._stream.budget))

    # -- what is learned from scores --------------------------------------------------------------------

    def _keep_weights(self, key: Key, fold: int, coef: NDArray[np.float64]) -> None:
        """Keep the weights of a candidate, (k, d + 1), if something is to be learned with them."""
        question = self._question
        if not question.learning:
            return
        if self._weights is None:
            n_folds = len(self._work.folds)
            self._weights = CandidateWeights(self._stream, question.keys, n_folds, *coef.shape)
        self._weights.set(key, fold, coef)

    def learn(self, key: Key) -> Learned:
        """Return what is learned from the scores of held-out rows by the candidates of the key, after ``run``, in a
        pass more. Raises DataError, BudgetError, DiskError."""
        question, stream, settings, weights = self._question, self._stream, self._settings, self._weights
        if weights is None:
            return Learned()
        dataset, n_rows = stream.dataset, self._validation_rows or stream.dataset.n_rows
        with HeldScores(stream, n_rows, len(weights.get(key, 0)), LINE, reserve_work=True) as held:
            if self._validation is None:
                folds, size = cast(list[Fold], self._work.folds), self.result.concurrent
                for start in range(0, len(folds), size):
                    batch = range(start, min(start + size, len(folds)))
                    coef = np.stack([weights.get(key, fold) for fold in batch])[None]
                    score_folds(stream, [folds[fold] for fold in batch], coef, settings.constant, held)
                    self.result.add_passes(1)
                remedy = "give its rows a weight, or ask for other --folds"
                remedy = remedy if question.holdout is None else "ask for a larger --holdout"
            else:
                model = self._training.model_of(weights.get(key, 0))
                score_file(self._validation, [model], dataset, held, settings.memory_limit)
                remedy = "give other --validation data"
            one_vs_one = settings.multiclass == "ovo"
            learned = learn(held, question.learning, dataset, one_vs_one, stream.budget, remedy)
        weights.close()
        return learned


class Tuning:
    """One run over the data of ``training``, which has the model in the end."""

    def __init__(self, training: Training, question: Question) -> None:
        self._training, self._question = training, question
        self._search_result = SearchResult()
        self._learned = Learned()
        self._best: Row | None = None

    def run(self, show: Show = lambda report: None) -> None:
        """Search, and train the model. show: called with each pass. Raises LLSVMError's subclasses."""
        training, question = self._training, self._question
        while True:
            try:
                search = Search(training, question, show)
                self._search_result = search.run()
                best = self._best = choose_row(self._search_result.rows, question.score, question.rule)
                self._learned = search.learn(best.key)
                break
            except Float64Restart:
                pass  # until here its frames hold on to the search
            except BudgetError as error:
                before = needs_of_folds if question.validation is None else None
                raise training.with_smallest(error, self._bytes_beside_solver, before) from error
            del search  # and all that it holds
            training.keep_double()
        settings = replace(question.objectives[best.objective], C=best.C)
        settings = settings.resolved(training.stream.source.info().is_table)
        return_dropped_memory()  # weights of candidates, and what scored them
        for report in training.go_on(settings, search.starts.shares(best.key)):
            show(report)

    def _bytes_beside_solver(self, dataset: DatasetInfo) -> dict[str, int]:
        """Return bytes by name of what a search holds beside a solver: libraries, weights of candidates in
        sequence."""
        question = self._question
        nbytes = (
            weights_bytes(dataset, each, len(question.costs))
            for each in question.objectives
            if solver_of(each) != "llsvm"
        )
        held = {WEIGHTS: max(nbytes, default=0), **question.learning.library}
        return {what: nbytes for what, nbytes in held.items() if nbytes}

    @property
    def model(self) -> Model:
        """Return the model of the chosen candidate, with what was learned from held-out rows."""
        return self._learned.give(self._training.model)

    def save_so_far(self, path: str) -> str:
        """Save the model so far, see ``Training.save_so_far``: while that of the chosen candidate is trained there
        is one, with what was learned from held-out rows."""
        model = self._training.model_so_far()
        return save_snapshot(None if model is None else self._learned.give(model), path)

    @property
    def best(self) -> Row:
        assert self._best is not None, "run() comes first"
        return self._best

    @property
    def rows(self) -> list[Row]:
        """Return the row of each objective and C, ascending."""
        return self._search_result.rows

    @property
    def converged(self) -> bool:
        """Return whether all candidates are certified to the tolerance, and the model."""
        return bool(self._training.summary()["converged"]) and all(row.converged for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values: best_C, best_score, score, rule, race; best: the chosen objective (see
        ``described``) with its C; table: of each objective and C, both, and what ``Row.as_dict`` has; candidates;
        at_once: problems in the same passes at most, those of all rows among them, in so many batches;
        search_passes over the training data; trained_alone: candidates that took more passes than the others, and
        were trained by themselves; searches: by loss and penalty, the same of these; probabilities: the method that
        they were learned by; threshold: see ``llsvm.calibration.calibrators.choose``, both None where they were not
        asked for; and of the model what ``llsvm train --json`` has."""
        result, learned = self._search_result, self._learned
        objectives = [described(each) for each in self._question.objectives]
        return {
            "best_C": self.best.C,
            "best_score": self.best.mean,
            "best": {"C": self.best.C, **objectives[self.best.objective]},
            "score": self._question.score.name,
            "rule": self._question.rule,
            "race": self._question.race,
            "table": [{**objectives[row.objective], **row.as_dict()} for row in result.rows],
            "candidates": sum(len(row.scores) for row in result.rows),
            "at_once": result.concurrent,
            "batches": sum(part.batches for part in result.parts),
            "search_passes": result.passes,
            "trained_alone": sum(part.alone for part in result.parts),
            "searches": [
                {
                    **{name: objectives[part.objectives[0]][name] for name in ("loss", "penalty")},
                    "solver": part.solver,
                    "candidates": sum(len(r.scores) for r in result.rows if r.objective in part.objectives),
                    "at_once": part.concurrent,
                    "batches": part.batches,
                    "passes": part.passes,
                }
                for part in result.parts
            ],
            "probabilities": None if learned.calibration is None else learned.calibration.method,
            "threshold": learned.threshold,
            **self._training.summary(),
        }
