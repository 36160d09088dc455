"""Base of the estimators of classes: labels as scikit-learn can take them, predictions, scores, probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import column_or_1d

from llsvm.errors import DataError
from llsvm.estimators.base import LLSVMEstimator
from llsvm.features.array_labels import label_array, labels_of
from llsvm.features.value_texts import nanoseconds_of
from llsvm.models.header import TIME_TYPE
from llsvm.models.model import Model
from llsvm.settings.objective import CLASSIFICATION
from llsvm.settings.settings import Settings

_OBJECTS = "OT"  # kinds of NumPy's types: objects, and StringDType
_REMEDY = "give text (pandas: y.astype(str))"


def class_labels(y: Any) -> Any:
    """Return y, as an array whose labels scikit-learn knows.

    Nullable types, and objects that are bools, whole numbers or text, become arrays of that type, numbers floats,
    dates and times without a zone datetime64. Raises DataError for labels that are missing, and objects of other
    types."""
    if y is None or (isinstance(y, np.ndarray) and y.dtype.kind not in _OBJECTS):
        return y
    given = label_array(y)
    if given.ndim == 0:
        return y  # sparse, or no column: scikit-learn says what is wrong with it
    if given.dtype.kind not in _OBJECTS or len(given) == 0:
        return given
    given = column_or_1d(given, warn=True)
    labels = labels_of(given, len(given))
    if labels.dtype.kind != "U" or isinstance(given[0], str):
        return labels
    import pyarrow as pa

    type_ = pa.array(given, from_pandas=True).type
    if pa.types.is_date(type_) or (pa.types.is_timestamp(type_) and type_.tz is None):
        return given.astype("datetime64[D]" if pa.types.is_date(type_) else "datetime64[us]")
    raise DataError(
        f"y[0] is {given[0]!r} ({type(given[0]).__name__}), which scikit-learn does not take for a label; {_REMEDY}"
    )


def spans_as_numbers(y: Any) -> Any:
    """Return spans of time as whole numbers of nanoseconds, whose order is theirs, as that of text is not; other
    labels as they are. Raises DataError for those that are missing."""
    if not isinstance(y, np.ndarray) or y.dtype.kind != "m":
        return y
    if (gone := np.isnat(y)).any():
        raise DataError(f"y[{int(np.argmax(gone))}]: it is missing; leave the row out")
    return y.astype("m8[ns]").astype(np.int64)


def type_of_times(y: Any) -> np.dtype[Any] | None:
    """Return the type of labels that are dates, times or spans of time, else None."""
    return y.dtype if isinstance(y, np.ndarray) and y.dtype.kind in "Mm" else None


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
        """Return the scores of the rows of X: (n,) for two classes (above 0, or a threshold that was chosen:
        ``classes_[1]``), else (n, n_classes)."""
        rows = self._rows(X)
        return self.model_.decision_function(rows)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row of X: (n,)."""
        rows = self._rows(X)
        return self.model_.predict(rows)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows of X whose class is predicted as y, (n,), has it; by sample_weight (n,)."""
        return float(super().score(X, class_labels(y), sample_weight))

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return (n, n_classes) probabilities, in the order of ``classes_``; of loss "logistic", or where
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
