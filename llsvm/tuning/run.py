"""A run of ``tune``: the search, the choice, and the model of the chosen C, trained on all rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from llsvm.calibration.learning import Learned
from llsvm.errors import BudgetError
from llsvm.models.model import Model
from llsvm.training.training import Training
from llsvm.tuning.search import Found, MustBeginAgain, Question, Search, Show
from llsvm.tuning.table import Row, chosen


class Tuning:
    """One run over the data of ``training``, which has the model in the end."""

    def __init__(self, training: Training, question: Question) -> None:
        self._training, self._question = training, question
        self._settings = training.settings
        self._found = Found()
        self._learned = Learned()
        self._chosen: Row | None = None

    def run(self, show: Show = lambda report: None) -> None:
        """show: is told of each pass. Raises LLSVMError's subclasses."""
        training = self._training
        while True:
            search = Search(training, self._question, show)
            try:
                self._found = search.run()
                self._chosen = chosen(self._found.rows, self._question.score, self._question.rule)
                self._learned = search.learn(self._chosen.C)
                break
            except MustBeginAgain:
                del search  # and all that it holds
                training.keep_double()
            except BudgetError as error:
                raise training.with_smallest(error) from error
        start, number = self._found.starts.get(self._chosen.C, (None, 0))
        shares = None if start is None else start.shares(number)
        for report in training.go_on(replace(self._settings, C=self._chosen.C), shares):
            show(report)

    @property
    def model(self) -> Model:
        """Of the chosen C, with what was learned from held-out rows."""
        return self._learned.give(self._training.model)

    @property
    def chosen(self) -> Row:
        assert self._chosen is not None, "run() comes first"
        return self._chosen

    @property
    def rows(self) -> list[Row]:
        """Of each C, ascending."""
        return self._found.rows

    @property
    def converged(self) -> bool:
        """Are all candidates certified to the tolerance, and the model?"""
        return bool(self._training.summary()["converged"]) and all(row.converged for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        """Plain values: best_C, best_score, score, rule; table: see ``Row.as_dict``, of each C; candidates;
        at_once: problems in the same passes, those of all rows among them, in so many batches; search_passes over
        the training data; trained_alone: candidates that took more passes than the others, and were trained by
        themselves; probabilities: the method that they were learned by; threshold: see ``choose`` in
        llsvm/calibration/threshold.py, both None where they were not asked for; and of the model what ``llsvm train
        --json`` has."""
        found, learned = self._found, self._learned
        return {
            "best_C": self.chosen.C,
            "best_score": self.chosen.mean,
            "score": self._question.score.name,
            "rule": self._question.rule,
            "table": [row.as_dict() for row in found.rows],
            "candidates": sum(len(row.scores) for row in found.rows),
            "at_once": found.at_once,
            "batches": found.batches,
            "search_passes": found.passes,
            "trained_alone": found.alone,
            "probabilities": None if learned.calibration is None else learned.calibration.method,
            "threshold": learned.threshold,
            **self._training.summary(),
        }
