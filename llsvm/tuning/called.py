"""Scores that a function of the caller's gives: of labels and predictions, or of an estimator, as scikit-learn's
scorers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.dataset import DatasetInfo
from llsvm.errors import UsageError
from llsvm.scoring.metrics import Numbers
from llsvm.settings.objective import CLASSIFICATION
from llsvm.settings.settings import Settings
from llsvm.tuning.scores import ClassSums, Score

_ERRORS = ("_error", "_loss")  # how scikit-learn names functions of which the smallest value is the best


def called_score(function: Callable[..., Any], kind: str) -> Score:
    """The score that is a function, larger the better. kind: of labels. Raises UsageError for an error."""
    own = getattr(function, "_score_func", function)
    name = getattr(own, "__name__", type(own).__name__)
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
    """Of held-out rows. true: (n,) class ids, or targets as the solver has them; weight: (n,), of samples, which
    count where the function takes them; scores: (n, k), of a candidate. Raises UsageError where it is no number."""
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
        found = call(candidate, rows, y, **weighed)
    else:
        found = call(y, candidate.predict(rows), **weighed)
    try:
        return float(found)
    except (TypeError, ValueError):
        raise UsageError(f"--score {score.name} gave {found!r}; it must give a number") from None


def _is_scorer(function: Callable[..., Any]) -> bool:
    """Does it take an estimator, X and y?"""
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
    """A candidate as scorers want it; X (n, 1) are the numbers of rows."""
    from sklearn.base import BaseEstimator, ClassifierMixin

    pairs = settings.multiclass == "ovo" and dataset.n_classes > 2
    of_rows = ClassSums(dataset.n_classes, pairs, probable=False)

    class ClassifierCandidate(ClassifierMixin, BaseEstimator):
        classes_ = dataset.classes

        def __sklearn_is_fitted__(self) -> bool:
            return True

        def predict(self, X: NDArray[np.int64]) -> NDArray[Any]:
            return dataset.classes[of_rows.classes(scores[X[:, 0]])]

        def decision_function(self, X: NDArray[np.int64]) -> Numbers:
            found = of_rows.decisions(scores[X[:, 0]])
            return found[:, 0] if found.shape[1] == 1 else found

        def predict_proba(self, X: NDArray[np.int64]) -> Numbers:
            if settings.loss != "logistic":
                raise UsageError(
                    f"--score needs probabilities, and --loss {settings.loss} gives none: pass --loss logistic"
                )
            return of_rows.probabilities(scores[X[:, 0]])

    return ClassifierCandidate()


def _regressor(numbers: Numbers) -> Any:
    """As ``_classifier``."""
    from sklearn.base import BaseEstimator, RegressorMixin

    class RegressorCandidate(RegressorMixin, BaseEstimator):
        def __sklearn_is_fitted__(self) -> bool:
            return True

        def predict(self, X: NDArray[np.int64]) -> Numbers:
            return numbers[X[:, 0]]

    return RegressorCandidate()
