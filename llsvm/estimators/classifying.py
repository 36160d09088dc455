"""What the estimators of classes share: predictions, scores and probabilities of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from llsvm.estimators.base import LLSVMEstimator
from llsvm.estimators.labels import class_labels, spans_as_numbers, type_of_times
from llsvm.features.value_texts import nanoseconds_of
from llsvm.models.header import TIME_TYPE
from llsvm.models.model import Model
from llsvm.settings.objective import CLASSIFICATION
from llsvm.settings.settings import Settings


def _has_probabilities(estimator: Classifying) -> bool:
    return estimator._gives_probabilities


class Classifying(ClassifierMixin, LLSVMEstimator):
    """An estimator whose labels are classes."""

    _label_kind = CLASSIFICATION
    _time_type: np.dtype[Any] | None = None
    """Of labels that are dates or times."""
    loss: str

    @property
    def _gives_probabilities(self) -> bool:
        return self.loss == "logistic"

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores of the rows of X: (n,) for two classes (above 0, or a threshold that was chosen:
        ``classes_[1]``), else (n, n_classes)."""
        rows = self._rows(X)
        return self.model_.decision_function(rows)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row of X: (n,)."""
        rows = self._rows(X)
        return self.model_.predict(rows)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows of X whose class is predicted as y, (n,), has it; by sample_weight (n,)."""
        return float(super().score(X, class_labels(y), sample_weight))

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """(n, n_classes) probabilities, in the order of ``classes_``; of loss "logistic", or where
        they were learned."""
        rows = self._rows(X)
        return self.model_.predict_proba(rows)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Logarithms of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def __getattr__(self, name: str) -> Any:
        if name in ("predict_proba", "predict_log_proba"):
            raise AttributeError(
                f"{name} is of loss='logistic', and of LLSVMClassifierCV(probabilities='platt'): pass one of these"
            )
        return super().__getattr__(name)

    def _taken(self, y: Any) -> Any:
        y = class_labels(y)
        self._time_type = type_of_times(y)
        return spans_as_numbers(y)

    def _settings(self, **reading: Any) -> Settings:
        settings = super()._settings(**reading)
        factors = settings.class_weight
        if self._time_type is None or self._time_type.kind != "m" or not isinstance(factors, Mapping):
            return settings
        spans = {label: nanoseconds_of(label) if isinstance(label, str) else label for label in factors}
        named = {label if span is None else span: factors[label] for label, span in spans.items()}
        return replace(settings, class_weight=named)

    def _keep(self, model: Model, by_name: bool = False) -> Self:
        if self._time_type is not None:
            model = replace(model, extra=model.extra | {TIME_TYPE: self._time_type.name})
        self.classes_: NDArray[Any] = model.as_given(model.classes_)
        return super()._keep(model, by_name)
