"""Scores: how good a candidate's predictions of held-out rows are, summed up as blocks of them go by.

Rows count by their sample weights, as in ``llsvm evaluate``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.dataset import TargetFacts
from llsvm.errors import UsageError
from llsvm.models import decisions
from llsvm.settings.objective import CLASSIFICATION, KINDS, REGRESSION
from llsvm.settings.settings import Settings

Values = NDArray[np.float64]


def _ratio(part: float, whole: float) -> float:
    """NaN where no row has a weight."""
    return float(part / whole) if whole else math.nan


class ClassSums:
    """Of the predicted classes of rows, n_classes of them. pairs: scores are those of pairs of classes.

    hits, support, predicted: (n_classes,) the weight of rows predicted rightly, of a class, and predicted as it.
    log_loss: Σ −log p of the true class by weights, where ``probable``. Sums of candidates add up."""

    def __init__(self, n_classes: int, pairs: bool, probable: bool) -> None:
        self.hits, self.support, self.predicted = np.zeros((3, n_classes))
        self.log_loss = 0.0
        self._pairs, self._probable = pairs, probable

    def add(self, true: NDArray[np.int32], scores: Values, weight: Values) -> None:
        """true: (n,) class ids. scores: (n, k) as problems have them. weight: (n,) sample weights."""
        k = len(self.hits)
        found = self.classes(scores)
        right = found == true
        self.hits += np.bincount(true[right], weight[right], k)
        self.support += np.bincount(true, weight, k)
        self.predicted += np.bincount(found, weight, k)
        if self._probable:
            of_true = self.probabilities(scores)[np.arange(len(true)), true]
            self.log_loss -= float(weight @ np.log(np.maximum(of_true, np.finfo(np.float64).eps)))

    def classes(self, scores: Values) -> NDArray[np.intp]:
        """(n,) ids of the predicted ones."""
        if scores.shape[1] == 1:
            return (scores[:, 0] > 0).astype(np.intp)
        return np.argmax(self.decisions(scores), axis=1)

    def decisions(self, scores: Values) -> Values:
        """Scores of classes: (n, 1) of two, else (n, n_classes)."""
        return decisions.votes(scores, len(self.hits)) if self._pairs else scores

    def probabilities(self, scores: Values) -> Values:
        """(n, n_classes) of classes."""
        if scores.shape[1] == 1:
            return decisions.of_two(scores)
        return (
            decisions.of_pairs(scores, len(self.hits))
            if self._pairs
            else decisions.of_each_against_the_rest(scores)
        )

    @property
    def accuracy(self) -> float:
        return _ratio(self.hits.sum(), self.support.sum())

    @property
    def balanced_accuracy(self) -> float:
        """The mean recall of the classes that there are rows of."""
        there = self.support > 0
        return float(np.mean(self.hits[there] / self.support[there])) if there.any() else math.nan

    @property
    def f1(self) -> float:
        """Of the second of two classes; of more classes their mean (macro). 0 where a class is nowhere."""
        both = self.support + self.predicted
        each = 2 * self.hits / np.where(both > 0, both, 1.0)
        return float(each[1] if len(each) == 2 else each.mean())

    @property
    def mean_log_loss(self) -> float:
        return _ratio(self.log_loss, self.support.sum())


class NumberSums:
    """Of predicted numbers. target: of the training data's targets, whose mean and unit sums are taken in.
    quantile: that the pinball loss is of."""

    def __init__(self, target: TargetFacts, quantile: float) -> None:
        self._target, self._quantile = target, quantile
        self._n = 0.0  # the sum of weights
        self._sum = self._squares = self._absolute = self._squared = self._above = 0.0

    def add(self, true: Values, scores: Values, weight: Values) -> None:
        """true: (n,) targets and scores: (n, 1) as the solver has them. weight: (n,) sample weights."""
        around = true - self._target.level
        error = true - scores[:, 0]
        self._n += float(weight.sum())
        self._sum += float(weight @ around)
        self._squares += float(weight @ np.square(around))
        self._absolute += float(weight @ np.abs(error))
        self._squared += float(weight @ np.square(error))
        self._above += float(weight @ np.maximum(error, 0.0))

    @property
    def r2(self) -> float:
        total = self._squares - _ratio(self._sum**2, self._n)
        if not total <= 0:
            return 1.0 - self._squared / total
        return float(self._squared == 0)

    @property
    def mean_absolute_error(self) -> float:
        return self._target.unit * _ratio(self._absolute, self._n)

    @property
    def mean_squared_error(self) -> float:
        return self._target.unit**2 * _ratio(self._squared, self._n)

    @property
    def mean_pinball_loss(self) -> float:
        """Of errors e = y − p: q e above, (q − 1) e below the prediction."""
        below = self._absolute - self._above
        loss = self._quantile * self._above + (1.0 - self._quantile) * below
        return self._target.unit * _ratio(loss, self._n)


@dataclass(frozen=True, slots=True)
class Score:
    """name: as ``--score`` has it. kind: of labels. larger: better is larger. of: the value, of the sums; None
    where rows have to be ranked, see ranking.py, or it is a function of the caller's, ``call``, see called.py."""

    name: str
    kind: str
    larger: bool = True
    of: Callable[[ClassSums], float] | Callable[[NumberSums], float] | None = None
    call: Callable[..., Any] | None = None

    @property
    def ranks(self) -> bool:
        return self.of is None and self.call is None

    @property
    def perfect(self) -> float:
        """Of predictions without an error."""
        return 1.0 if self.larger else 0.0


SCORES = {
    score.name: score
    for score in (
        Score("accuracy", CLASSIFICATION, of=lambda sums: sums.accuracy),
        Score("balanced_accuracy", CLASSIFICATION, of=lambda sums: sums.balanced_accuracy),
        Score("roc_auc", CLASSIFICATION),
        Score("average_precision", CLASSIFICATION),
        Score("f1", CLASSIFICATION, of=lambda sums: sums.f1),
        Score("log_loss", CLASSIFICATION, larger=False, of=lambda sums: sums.mean_log_loss),
        Score("r2", REGRESSION, of=lambda sums: sums.r2),
        Score("mae", REGRESSION, larger=False, of=lambda sums: sums.mean_absolute_error),
        Score("mse", REGRESSION, larger=False, of=lambda sums: sums.mean_squared_error),
        Score("pinball", REGRESSION, larger=False, of=lambda sums: sums.mean_pinball_loss),
    )
}
# What a loss asks of predictions; classes are told apart as well as can be, whatever the loss.
DEFAULT_SCORES = {
    "epsilon_insensitive": "mae",
    "squared_epsilon_insensitive": "r2",
    "huber": "mae",
    "quantile": "pinball",
}


def score_of(asked: str | None, objectives: Sequence[Settings]) -> Score:
    """The score of that name, or that of the losses, which is "mae" where they have several. Raises UsageError for
    one that a loss cannot give."""
    usual = {DEFAULT_SCORES.get(each.loss, "accuracy") for each in objectives}
    name = asked or (usual.pop() if len(usual) == 1 else "mae")
    for settings in objectives:
        score = _checked(name, settings)
    return score


def _checked(name: str, settings: Settings) -> Score:
    kind = KINDS[settings.loss]
    if not isinstance(name, str) or name not in SCORES:
        raise UsageError(f"--score must be one of {', '.join(SCORES)}, not {name!r}")
    score = SCORES[name]
    if score.kind != kind:
        others = ", ".join(each.name for each in SCORES.values() if each.kind == kind)
        labels = "classes" if kind == CLASSIFICATION else "numbers"
        raise UsageError(
            f"--loss {settings.loss} predicts {labels}, which --score {name} is not of: take {others}"
        )
    if name == "log_loss" and settings.loss != "logistic":
        raise UsageError(
            f"--score log_loss needs probabilities, and --loss {settings.loss} gives none: pass --loss logistic, "
            "or --score roc_auc"
        )
    if name == "pinball" and settings.loss != "quantile":
        raise UsageError(
            f"--score pinball is of a quantile, and --loss {settings.loss} has none: pass --loss quantile, or "
            "--score mae"
        )
    return score


def worse(score: Score, value: float) -> float:
    """A number that is larger, the worse the score is; NaN, which no rows have given, is worst."""
    if math.isnan(value):
        return math.inf
    return -value if score.larger else value
