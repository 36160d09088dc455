"""What the estimators of classes share: predictions, scores and probabilities of rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from llsvm.estimators.base import LLSVMEstimator
from llsvm.models.model import Model
from llsvm.models.tables import named_classes
from llsvm.settings.objective import CLASSIFICATION


def _has_probabilities(estimator: Classifying) -> bool:
    return estimator._gives_probabilities


class Classifying(ClassifierMixin, LLSVMEstimator):
    """An estimator whose labels are classes."""

    _label_kind = CLASSIFICATION
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

    def _keep(self, model: Model, by_name: bool = False) -> Self:
        self.classes_: NDArray[Any] = named_classes(model)
        return super()._keep(model, by_name)
