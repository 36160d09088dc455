"""Scores: how good a candidate's predictions of held-out rows are, from sums over blocks of rows, or by a function
of the caller's: of labels and predictions, or of an estimator, as scikit-learn's scorers.

Rows count by their sample weights, as in ``llsvm evaluate``. The table of a search has the scores of all candidates
so far, its rows in the end, and which is chosen.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.dataset import DatasetInfo, TargetFacts
from llsvm.errors import DataError, UsageError
from llsvm.models import decisions
from llsvm.scoring.metrics import NumberErrors, Numbers, PrecisionRecall, log_losses, share
from llsvm.settings.objective import CLASSIFICATION, KINDS, REGRESSION
from llsvm.settings.settings import Settings

_ERRORS = ("_error", "_loss")  # how scikit-learn names functions of which the smallest value is the best


class ClassSums:
    """Sums over rows of n_classes classes, from which scores of their predictions follow. pairs: scores are those
    of pairs of classes. probable: the log loss is summed up, too."""

    def __init__(self, n_classes: int, pairs: bool, probable: bool) -> None:
        self._hits, self._support, self._predicted = np.zeros((3, n_classes))
        self._log_loss = 0.0
        self._pairs, self._probable = pairs, probable

    def add(self, true: NDArray[np.int32], scores: Numbers, weight: Numbers) -> None:
        """Add rows. true: (n,) class ids. scores: (n, k) as problems have them. weight: (n,) sample weights."""
        k = len(self._hits)
        predicted = decisions.class_ids(scores, k, self._pairs)
        right = predicted == true
        self._hits += np.bincount(true[right], weight[right], k)
        self._support += np.bincount(true, weight, k)
        self._predicted += np.bincount(predicted, weight, k)
        if self._probable:
            p = decisions.probabilities(scores, k, self._pairs)
            self._log_loss += float(weight @ log_losses(p[np.arange(len(true)), true]))

    @property
    def counts(self) -> PrecisionRecall:
        return PrecisionRecall(self._hits, self._support, self._predicted)

    @property
    def accuracy(self) -> float:
        return share(self._hits.sum(), self._support.sum())

    @property
    def f1(self) -> float:
        """Return F1 of the second of two classes; of more classes the mean (macro)."""
        f1 = self.counts.f1
        return float(f1[1] if len(f1) == 2 else f1.mean())

    @property
    def log_loss(self) -> float:
        return share(self._log_loss, self._support.sum())


class NumberSums:
    """Sums over rows of which numbers are predicted, from which scores follow. target: of the training data's
    targets, whose mean and unit sums are taken in. quantile: that the pinball loss is of."""

    def __init__(self, target: TargetFacts, quantile: float) -> None:
        self._target, self._quantile = target, quantile
        self._errors = NumberErrors(np.dot)
        self._sum = self._squares = 0.0  # of targets less their level

    def add(self, true: Numbers, scores: Numbers, weight: Numbers) -> None:
        """Add rows. true: (n,) targets and scores: (n, 1) as the solver has them. weight: (n,) sample weights."""
        around = true - self._target.level
        self._sum += float(weight @ around)
        self._squares += float(weight @ np.square(around))
        self._errors.add(true - scores[:, 0], weight)

    @property
    def r2(self) -> float:
        weight = self._errors.weight
        return self._errors.r2(self._squares - self._sum**2 / weight) if weight else math.nan

    @property
    def mean_absolute_error(self) -> float:
        return self._target.unit * self._errors.mean_absolute_error

    @property
    def mean_squared_error(self) -> float:
        return self._target.unit**2 * self._errors.mean_squared_error

    @property
    def pinball_loss(self) -> float:
        return self._target.unit * self._errors.pinball_loss(self._quantile)


@dataclass(frozen=True, slots=True)
class Score:
    """A score that candidates are compared by.

    name: as ``--score`` has it. kind: of labels. larger: better is larger. of: the value, of the sums; None where
    rows have to be ranked, see ``llsvm.scoring.ranking``, or it is a function of the caller's, ``call``."""

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
        """Return the score of predictions without an error."""
        return 1.0 if self.larger else 0.0


SCORES = {
    score.name: score
    for score in (
        Score("accuracy", CLASSIFICATION, of=lambda sums: sums.accuracy),
        Score("balanced_accuracy", CLASSIFICATION, of=lambda sums: sums.counts.balanced_accuracy),
        Score("roc_auc", CLASSIFICATION),
        Score("average_precision", CLASSIFICATION),
        Score("f1", CLASSIFICATION, of=lambda sums: sums.f1),
        Score("log_loss", CLASSIFICATION, larger=False, of=lambda sums: sums.log_loss),
        Score("r2", REGRESSION, of=lambda sums: sums.r2),
        Score("mae", REGRESSION, larger=False, of=lambda sums: sums.mean_absolute_error),
        Score("mse", REGRESSION, larger=False, of=lambda sums: sums.mean_squared_error),
        Score("pinball", REGRESSION, larger=False, of=lambda sums: sums.pinball_loss),
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
    """Return the score of that name, or that of the losses, which is "mae" where they have several. Raises
    UsageError for one that a loss cannot give."""
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
    """Return a number that is larger, the worse the score is; NaN, which no rows have given, is worst."""
    if math.isnan(value):
        return math.inf
    return -value if score.larger else value


def called_score(function: Callable[..., Any], kind: str) -> Score:
    """Return the score that is a function, larger the better. kind: of labels. Raises UsageError for an error."""
    metric = getattr(function, "_score_func", function)
    name = getattr(metric, "__name__", type(metric).__name__)
    if not _is_scorer(function) and name.endswith(_ERRORS):
        raise UsageError(
            f"--score {name}: a score is larger, the better predictions are, and this seems to be an error: pass "
            f"make_scorer({name}, greater_is_better=False) of sklearn.metrics, or a function of less than 0"
        )
    return Score(name, kind, call=function)


def value(
    score: Score,
    settings: Settings,
    dataset: DatasetInfo,
    true: NDArray[Any],
    weight: Numbers,
    scores: Numbers,
) -> float:
    """Return the score of held-out rows. true: (n,) class ids, or targets as the solver has them; weight: (n,), of
    samples, which count where the function takes them; scores: (n, k), of a candidate. Raises UsageError where it
    is no number."""
    call, rows = score.call, np.arange(len(true))[:, None]
    assert call is not None
    if score.kind == CLASSIFICATION:
        candidate: Any = _classifier(settings, dataset, scores)
        y = dataset.classes[true.astype(np.int64)]
    else:
        assert dataset.target is not None
        numbers = np.column_stack([true, scores[:, 0]]) * dataset.target.unit + dataset.target.shift
        candidate, y = _regressor(numbers[:, 1]), numbers[:, 0]
    weighed = {"sample_weight": weight} if np.any(weight != 1.0) and _takes_weights(call) else {}
    if _is_scorer(call):
        result = call(candidate, rows, y, **weighed)
    else:
        result = call(y, candidate.predict(rows), **weighed)
    try:
        return float(result)
    except (TypeError, ValueError):
        raise UsageError(f"--score {score.name} gave {result!r}; it must give a number") from None


def _is_scorer(function: Callable[..., Any]) -> bool:
    """Return whether it takes an estimator, X and y."""
    if hasattr(function, "_score_func"):
        return True
    try:
        given = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    ordered = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return (
        len([each for each in given if each.kind in ordered and each.default is inspect.Parameter.empty]) > 2
    )


def _takes_weights(function: Callable[..., Any]) -> bool:
    try:
        return "sample_weight" in inspect.signature(getattr(function, "_score_func", function)).parameters
    except (TypeError, ValueError):
        return False


def _classifier(settings: Settings, dataset: DatasetInfo, scores: Numbers) -> Any:
    """Return a candidate as scorers need it; X (n, 1) are the numbers of rows."""
    from sklearn.base import BaseEstimator, ClassifierMixin

    classes = dataset.n_classes, settings.multiclass == "ovo" and dataset.n_classes > 2

    class ClassifierCandidate(ClassifierMixin, BaseEstimator):
        classes_ = dataset.classes

        def __sklearn_is_fitted__(self) -> bool:
            return True

        def predict(self, X: NDArray[np.int64]) -> NDArray[Any]:
            return dataset.classes[decisions.class_ids(scores[X[:, 0]], *classes)]

        def decision_function(self, X: NDArray[np.int64]) -> Numbers:
            values = decisions.class_scores(scores[X[:, 0]], *classes)
            return values[:, 0] if values.shape[1] == 1 else values

        def predict_proba(self, X: NDArray[np.int64]) -> Numbers:
            if settings.loss != "logistic":
                raise UsageError(
                    f"--score needs probabilities, and --loss {settings.loss} gives none: pass --loss logistic"
                )
            return decisions.probabilities(scores[X[:, 0]], *classes)

    return ClassifierCandidate()


def _regressor(numbers: Numbers) -> Any:
    """Return a candidate as scorers need it; X (n, 1) are the numbers of rows."""
    from sklearn.base import BaseEstimator, RegressorMixin

    class RegressorCandidate(RegressorMixin, BaseEstimator):
        def __sklearn_is_fitted__(self) -> bool:
            return True

        def predict(self, X: NDArray[np.int64]) -> Numbers:
            return numbers[X[:, 0]]

    return RegressorCandidate()


RULES = ("best", "1se")
Key = tuple[int, float]  # a candidate but for its fold: the number of its objective, and C
_ROUNDING = 1e-12  # of a mean


@dataclass(frozen=True, slots=True)
class Row:
    """The row of one C with one objective, given by its number. scores, primals, gaps: of each fold, the score of
    its rows, and objective and relative gap of the weights that were trained without them. converged: are all gaps
    as small as was asked for? dropped: it could not be the best any more, and has not been trained for all
    folds."""

    C: float
    scores: tuple[float, ...]
    primals: tuple[float, ...]
    gaps: tuple[float, ...]
    converged: bool
    objective: int = 0
    dropped: bool = False

    @property
    def key(self) -> Key:
        return self.objective, self.C

    @property
    def mean(self) -> float:
        return sum(self.scores) / len(self.scores)

    @property
    def spread(self) -> float | None:
        """Return the standard deviation of the folds' scores (over n − 1); None where there is one."""
        n = len(self.scores)
        if n < 2:
            return None
        return math.sqrt(sum((score - self.mean) ** 2 for score in self.scores) / (n - 1))

    def as_dict(self) -> dict[str, Any]:
        return {
            "C": self.C,
            "mean": self.mean,
            "spread": self.spread,
            "relative_gap": max(self.gaps),
            "converged": self.converged,
            "dropped": self.dropped,
            "scores": list(self.scores),
            "primals": list(self.primals),
            "gaps": list(self.gaps),
        }


class Board:
    """Scores, objectives and gaps so far by candidate and fold, and which candidates can no longer be the best."""

    def __init__(self, score: Score, n_folds: int) -> None:
        self._score, self._n_folds = score, n_folds
        self._scores: dict[Key, dict[int, float]] = {}
        self._proofs: dict[Key, dict[int, tuple[float, float]]] = {}
        self._best = math.inf  # what the best mean of all folds is worth

    def add(self, key: Key, fold: int, score: float, primal: float, gap: float) -> None:
        self._scores.setdefault(key, {})[fold] = score
        self._proofs.setdefault(key, {})[fold] = primal, gap
        if self.finished(key):
            self._best = min(self._best, self.worth(key))

    def has(self, key: Key, fold: int) -> bool:
        return fold in self._scores.get(key, {})

    def finished(self, key: Key) -> bool:
        return len(self._scores.get(key, {})) == self._n_folds

    def worth(self, key: Key) -> float:
        """Return a number that is larger, the worse the mean of the folds scored so far is; infinite where none
        is."""
        scores = self._scores.get(key, {})
        return worse(self._score, sum(scores.values()) / len(scores)) if scores else math.inf

    def lost(self, key: Key) -> bool:
        """Return whether it would have a worse mean than the best that is finished, even if the folds to come were
        predicted without an error."""
        scores = self._scores.get(key, {})
        to_come = (self._n_folds - len(scores)) * self._score.perfect
        return worse(self._score, (sum(scores.values()) + to_come) / self._n_folds) > self._best + _ROUNDING

    def row(self, key: Key, tol: float) -> Row:
        """Return its row of the table, of the folds that it has been scored on."""
        folds = sorted(self._scores[key])
        scores = tuple(self._scores[key][f] for f in folds)
        primals, gaps = zip(*(self._proofs[key][f] for f in folds), strict=True)
        return Row(key[1], scores, primals, gaps, max(gaps) <= tol, key[0], dropped=not self.finished(key))

    def leader(self, keys: Iterable[Key]) -> Key:
        return min(keys, key=self.worth)


def choose_row(rows: Sequence[Row], score: Score, rule: str) -> Row:
    """Return the row to take; rows: by objective, within each by C, ascending. rule: "best": the best mean, of
    equals the first; "1se": of the same objective, the smallest C whose mean is at most a standard error of the
    best one's worse than that (Breiman et al. 1984, section 3.4.3). Raises DataError where there is no score."""
    rows = [row for row in rows if not row.dropped]
    best = min(rows, key=lambda row: worse(score, row.mean))
    if math.isnan(best.mean):
        raise DataError(
            f"no C has a score: --score {score.name} is not defined for these held-out rows, maybe of one class"
        )
    if rule == "best":
        return best
    allowed = worse(score, best.mean) + (best.spread or 0.0) / math.sqrt(len(best.scores))
    near = (row for row in rows if row.objective == best.objective and worse(score, row.mean) <= allowed)
    return next(near)
