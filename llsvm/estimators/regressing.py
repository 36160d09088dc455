"""What the estimators of numbers share: the score of rows."""

from __future__ import annotations

from typing import Any

from sklearn.base import RegressorMixin

from llsvm.estimators.base import LLSVMEstimator
from llsvm.features.array_labels import refuse_times
from llsvm.settings.objective import REGRESSION


class Regressing(RegressorMixin, LLSVMEstimator):
    """An estimator whose labels are numbers."""

    _label_kind = REGRESSION

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of what is predicted for rows of X, against the numbers y, (n,); by sample_weight (n,)."""
        refuse_times(y)
        return float(super().score(X, y, sample_weight))
