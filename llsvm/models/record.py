"""ModelRecord: what a model is, its fields and what follows from them alone; ``Model`` adds what it does."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.features.feature_map import FeatureMap
from llsvm.models import sparse
from llsvm.models.decisions import Calibration
from llsvm.models.header import TIME_TYPE
from llsvm.objective.certificate import Certificate
from llsvm.process import VERSION
from llsvm.settings.objective import CLASSIFICATION, REGRESSION


@dataclass
class ModelRecord:
    """Fields of ``Model``, whose head says what each is."""

    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    classes_: NDArray[Any]
    certificate: Certificate | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    index_base: int = 1
    converged: bool = False
    version: str = VERSION
    n_rows: int = 0
    feature_names: tuple[str, ...] | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    log: dict[str, Any] = field(default_factory=dict)
    weights: sparse.Weights = field(init=False, repr=False, compare=False)
    calibration: Calibration | None = field(init=False, repr=False, compare=False)
    threshold: float = field(init=False, repr=False, compare=False)

    @property
    def label_kind(self) -> str:
        """Return what labels were in training, a name of llsvm.settings.objective."""
        return str(self.extra.get("label_kind", CLASSIFICATION))

    @property
    def is_regression(self) -> bool:
        """Return whether the model predicts numbers."""
        return self.label_kind == REGRESSION

    @property
    def n_problems(self) -> int:
        """Return the number of rows of weights: one for two classes and for a regression, else one per class, or
        per pair of classes (one-vs-one)."""
        k = len(self.classes_)
        if k == 2 or self.is_regression:
            return 1
        return k * (k - 1) // 2 if self.one_vs_one else k

    @property
    def one_vs_one(self) -> bool:
        """Return whether more than two classes vote in pairs i < j, in that order; a positive score is a vote for
        i."""
        return self.extra.get("multi_class") == "ovo" and len(self.classes_) > 2

    @property
    def problem_names(self) -> list[str]:
        """Return what positive scores of each row of ``coef_`` mean: a class, or "i, not j" of a pair."""
        labels = self.labels
        if self.is_regression:
            return ["larger numbers"]
        if self.one_vs_one:
            return [f"{a}, not {b}" for i, a in enumerate(labels) for b in labels[i + 1 :]]
        return labels[1:] if len(labels) == 2 else labels

    @cached_property
    def feature_map(self) -> FeatureMap | None:
        """Return the map that rows pass through before they meet ``coef_``: support vectors, or an
        approximation; or None."""
        return FeatureMap.from_extra(self.extra)

    @property
    def n_features_in_(self) -> int:
        return int(self.weights.shape[1]) if self.feature_map is None else self.feature_map.n_features

    @property
    def labels(self) -> list[str]:
        """Return the classes as they are written in files and tables."""
        if self._are_spans:
            from llsvm.settings.kinds import span_as_text

            return [span_as_text(int(nanoseconds)) for nanoseconds in self.classes_]
        return [label_text(label) for label in self.classes_]

    @property
    def _are_spans(self) -> bool:
        return str(self.extra.get(TIME_TYPE)).startswith("timedelta")

    def as_given(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Return (n,) labels of ``classes_``, as an estimator was given them where they are dates or times,
        which are text there, or spans of time, which are nanoseconds."""
        if TIME_TYPE not in self.extra:
            return labels
        return labels.astype("m8[ns]" if self._are_spans else "M8").astype(self.extra[TIME_TYPE])


def label_text(label: Any) -> str:
    """Return a label as text: ``1.0`` is "1", as LIBLINEAR has it, ``0.5`` is "0.5", True is "true", text is
    itself."""
    if isinstance(label, float | np.floating):
        number = float(label)
        return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
    return str(label).lower() if isinstance(label, bool | np.bool_) else str(label)
