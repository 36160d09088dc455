"""A run of ``tune``: the search, the choice, and the model of the chosen candidate, trained on all rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from llsvm.calibration.learning import Learned
from llsvm.dataset import DatasetInfo
from llsvm.errors import BudgetError
from llsvm.memory.process import return_dropped_memory
from llsvm.models.model import Model
from llsvm.training.persistence import save_snapshot
from llsvm.training.training import Training
from llsvm.tuning.candidates import weights_bytes
from llsvm.tuning.folds import needs_of_folds
from llsvm.tuning.grid import described, solver_of
from llsvm.tuning.search import Question, Search, SearchResult
from llsvm.tuning.table import Row, chosen
from llsvm.tuning.trained import WEIGHTS, Float64Restart, Show


class Tuning:
    """One run over the data of ``training``, which has the model in the end."""

    def __init__(self, training: Training, question: Question) -> None:
        self._training, self._question = training, question
        self._search_result = SearchResult()
        self._learned = Learned()
        self._chosen_row: Row | None = None

    def run(self, show: Show = lambda report: None) -> None:
        """Search, and train the model. show: called with each pass. Raises LLSVMError's subclasses."""
        training, question = self._training, self._question
        while True:
            try:
                search = Search(training, question, show)
                self._search_result = search.run()
                best = self._chosen_row = chosen(self._search_result.rows, question.score, question.rule)
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
    def chosen(self) -> Row:
        assert self._chosen_row is not None, "run() comes first"
        return self._chosen_row

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
        they were learned by; threshold: see ``choose`` in llsvm/calibration/threshold.py, both None where they were
        not asked for; and of the model what ``llsvm train --json`` has."""
        result, learned = self._search_result, self._learned
        objectives = [described(each) for each in self._question.objectives]
        return {
            "best_C": self.chosen.C,
            "best_score": self.chosen.mean,
            "best": {"C": self.chosen.C, **objectives[self.chosen.objective]},
            "score": self._question.score.name,
            "rule": self._question.rule,
            "race": self._question.race,
            "table": [{**objectives[row.objective], **row.as_dict()} for row in result.rows],
            "candidates": sum(len(row.scores) for row in result.rows),
            "at_once": result.at_once,
            "batches": sum(part.batches for part in result.parts),
            "search_passes": result.passes,
            "trained_alone": sum(part.alone for part in result.parts),
            "searches": [
                {
                    **{name: objectives[part.objectives[0]][name] for name in ("loss", "penalty")},
                    "solver": part.solver,
                    "candidates": sum(len(r.scores) for r in result.rows if r.objective in part.objectives),
                    "at_once": part.at_once,
                    "batches": part.batches,
                    "passes": part.passes,
                }
                for part in result.parts
            ],
            "probabilities": None if learned.calibration is None else learned.calibration.method,
            "threshold": learned.threshold,
            **self._training.summary(),
        }
