"""LLSVMClassifier: classification under a memory limit, in scikit-learn's style."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from llsvm.estimators.base import LLSVMEstimator
from llsvm.estimators.incremental import Incremental
from llsvm.estimators.inputs import class_labels, explained, spans_as_numbers, type_of_times
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
        """Return the logarithms of ``predict_proba``."""
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


@explained
class LLSVMClassifier(Classifying, Incremental):
    """Linear SVM, trained under a limit on the memory of this process, with a proof of how good it is.

    Minimises ½‖w‖² + C Σ_i c_i loss(y_i w·x_i), c_i the class weight times the sample weight (or another penalty in
    the place of ½‖w‖², see below); one problem per class (one against the rest) where there are more than two.

    loss: "hinge", "squared_hinge", "logistic" (which alone gives ``predict_proba``) or "least-squares".
    multi_class: "ovr", "ovo" (a problem for each pair of classes, which vote), or one joint problem:
    "crammer_singer" (as scikit-learn has it; "crammer-singer" is the same), "weston_watkins", or "softmax" (of loss
    "logistic").
    class_weight: None, "balanced" or label -> factor; "ovr" of three or more classes takes it for the positive rows
    of a class's problem, as LinearSVC, all others by row, as SVC and LogisticRegression.
    classes_ (after ``fit``): (n_classes,). coef_ has k = 1 row for two classes, else one per class ("ovo": per pair
    of classes i < j, positive for i), one column per mapped feature where there is a map; a kernel has
    dual_coef_, one column per support vector.
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str = "hinge",
        solver: str = "auto",
        penalty: str = "l2",
        l1_ratio: float = 0.5,
        lambda1: float | None = None,
        lambda2: float | None = None,
        multi_class: str = "ovr",
        tol: float = 1e-3,
        max_iter: int | None = 200,
        max_seconds: float | None = None,
        prune: float | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        class_weight: str | Mapping[Any, float] | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,  # where there is an intercept
        penalize_intercept: bool = True,  # the opposite of the option
        kernel: str | None = None,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 0.0,
        feature_map: str | None = None,
        components: int = 500,
        step: str = "auto",
        mu: float | None = None,
        mu_end: float = 0.01,
        homotopy: bool = True,
        stop: str = "gap",
        text: bool | str | Sequence[str] = (),  # or True for documents
        analyzer: str = "word",
        ngrams: str | int | tuple[int, int] = "1",
        strip_accents: str | None = None,
        stop_words: str | os.PathLike[str] | Collection[str] | None = None,
        min_df: float | None = None,
        max_df: float | None = None,
        max_features: int | None = None,
        term_weight: str = "auto",
        vocabulary: str = "auto",
        hash_bits: int | None = None,
        cross: Sequence[str] = (),
        categorical: Sequence[str] = (),
        missing: str = "refuse",
        scale: str = "auto",
        random_state: int | np.random.RandomState | None = None,  # scikit-learn's
        n_jobs: int | None = None,
        memory_limit: str | int | None = None,
        disk_limit: str | int | None = None,
        spill_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self.C = C
        self.loss = loss
        self.solver = solver
        self.penalty = penalty
        self.l1_ratio = l1_ratio
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.multi_class = multi_class
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.prune = prune
        self.warm_start = warm_start
        self.verbose = verbose
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.penalize_intercept = penalize_intercept
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.feature_map = feature_map
        self.components = components
        self.step = step
        self.mu = mu
        self.mu_end = mu_end
        self.homotopy = homotopy
        self.stop = stop
        self.text = text
        self.analyzer = analyzer
        self.ngrams = ngrams
        self.strip_accents = strip_accents
        self.stop_words = stop_words
        self.min_df = min_df
        self.max_df = max_df
        self.max_features = max_features
        self.term_weight = term_weight
        self.vocabulary = vocabulary
        self.hash_bits = hash_bits
        self.cross = cross
        self.categorical = categorical
        self.missing = missing
        self.scale = scale
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.disk_limit = disk_limit
        self.spill_dir = spill_dir

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LLSVMClassifier:
        """Train on X, an (n, d) array or SciPy sparse matrix, and labels y (n,). With ``text`` on documents: a
        list, array or Series of them, or a data frame.

        sample_weight: (n,) factors of C, not negative. X is not copied where it is float32 or float64, and
        C-ordered or CSR. Warns (ConvergenceWarning) if passes or time ran out. Raises LLSVMError's subclasses
        (DataError and UsageError are ValueErrors, BudgetError is a MemoryError).
        """
        return self._fit(X, y, sample_weight)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> LLSVMClassifier:
        """Train on these rows and those of all calls before, beginning at what the last call has come to.

        X, y, sample_weight: as for ``fit``; never text. classes: all that y may ever hold, to be passed in the
        first call. The rows of each call are kept in ``spill_dir``, under ``disk_limit``, so that ``certificate_``
        is of all of them: each call makes a few passes over them, and large batches get on sooner than small ones.
        Rows of ``fit`` are not kept, which LLSVMWarning says. Warns and raises as ``fit``.
        """
        return self._partial_fit(X, y, classes, sample_weight)
