"""LLSVMClassifier: training under a memory limit as a scikit-learn estimator."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from llsvm.errors import DataError, LLSVMError, UsageError
from llsvm.features.frames import column_names, require_order
from llsvm.features.table_options import listed
from llsvm.memory.process import default_threads
from llsvm.models.model import Model
from llsvm.objective.certificate import Certificate
from llsvm.settings.kinds import require_kind
from llsvm.settings.names import ESTIMATOR_NAMES
from llsvm.settings.python import takes_options
from llsvm.settings.settings import OPTIONS, Settings
from llsvm.train import train_with

_JOINT = {"crammer_singer": "crammer-singer", "weston_watkins": "weston-watkins"}  # as scikit-learn writes it
_REMEDIES = {  # fit scales nothing
    "scale": "the columns are not scaled, and then few methods get on: put a StandardScaler, or a MaxAbsScaler for "
    "sparse rows, before the estimator"
}
_KINDS: dict[str, tuple[type, ...]] = {  # of what Settings knows by another name, or not at all
    "max_iter": (int, type(None)),
    "fit_intercept": (bool,),
    "intercept_scaling": (float,),
    "penalize_intercept": (bool,),
    "n_jobs": (int, type(None)),
}


class LLSVMClassifier(ClassifierMixin, BaseEstimator):
    """Linear SVM, trained under a limit on the memory of this process, with a proof of how good it is.

    Minimises ½‖w‖² + C Σ_i c_i loss(y_i w·x_i), c_i the class weight times the sample weight (or another penalty in
    the place of ½‖w‖², see below); one problem per
    class (one against the rest) where there are more than two. The intercept is the weight of a constant
    feature, penalised like the others (as in LIBLINEAR), or not (as in LIBSVM; solvers nesvm and smo only) where
    ``penalize_intercept`` is False. See ``llsvm.train`` for what is not explained here.

    multi_class: "ovr", "ovo" (a problem for each pair of classes, which vote), or one joint problem:
    "crammer_singer" (as scikit-learn has it; "crammer-singer" is the same) or "weston_watkins".
    solver: "auto" (the only one that does what is asked for, else by shape and a trial; ``model_.extra`` says which
    and why), "llsvm", "smsvm", "nesvm" or "smo"; all reach the same certified optimum.
    penalty: "l2", "l1" (‖w‖₁) or "elasticnet" ((1 − l1_ratio)/2 ‖w‖² + l1_ratio ‖w‖₁): sparse weights.
    lambda1, lambda2: instead of C (and l1_ratio), the factors in (1/N) Σ c_i loss + (λ₂/2)‖w‖² + λ₁‖w‖₁.
    kernel, gamma, degree, coef0, feature_map, components, step, mu, mu_end, homotopy, stop: as in ``llsvm.train``.
    C: penalty, > 0. loss: "hinge", "squared_hinge" or "least-squares". tol: relative duality gap at which to stop.
    max_iter: full passes over the data at most, None for no limit. max_seconds: stop after the pass in which
    this time runs out, None for no limit. class_weight: None, "balanced" or label -> factor.
    fit_intercept: append the constant feature ``intercept_scaling``. random_state: of every random choice.
    n_jobs: threads; None or -1 for all processors that the process may use, -2 for all but one, and so on.
    memory_limit: of the whole process, such as "2GB" or "25%"; None for half of what is free beyond what the
    process holds already. disk_limit, spill_dir: for what does not fit into memory.

    Attributes after ``fit``: coef_ (k, n_features) float64 and intercept_ (k,), k = 1 for two classes, else
    one row per class ("ovo": per pair of classes i < j, positive for i), one column per support vector or mapped
    feature where there is a kernel or a map; classes_ (n_classes,);
    n_iter_ (full passes); certificate_ (``Certificate``);
    model_ (``Model``); n_features_in_ and, where columns have names, feature_names_in_.
    """

    feature_names_in_: NDArray[Any]

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
        class_weight: str | Mapping[Any, float] | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        penalize_intercept: bool = True,
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
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        memory_limit: str | int | None = None,
        disk_limit: str | int | None = None,
        spill_dir: str | None = None,
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
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.disk_limit = disk_limit
        self.spill_dir = spill_dir

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LLSVMClassifier:
        """Train on X, an (n, d) array or SciPy sparse matrix, and labels y (n,).

        sample_weight: (n,) factors of C, not negative. X is not copied where it is float32 or float64, and
        C-ordered or CSR. Warns (ConvergenceWarning) if passes or time ran out. Raises LLSVMError's subclasses
        (DataError and UsageError are ValueErrors, BudgetError is a MemoryError).
        """
        names = column_names(X)
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype="numeric")
        check_classification_targets(y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        with _own_names():
            model = train_with(
                self._settings(), X, y, sample_weight, names=ESTIMATOR_NAMES, remedies=_REMEDIES
            )
        return self._keep(replace(model, feature_names=names))

    @takes_options
    def fit_file(
        self,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        format: str | None = None,
        label: str | int | None = None,
        positive: str | float | None = None,
        features: Sequence[str] = (),
        exclude: Sequence[str] = (),
        weight: str | int | None = None,
        categorical: Sequence[str] = (),
        header: str = "auto",
        missing: str = "refuse",
        hash_bits: int | None = None,
        zero_based: str = "auto",
        scale: str = "auto",
    ) -> LLSVMClassifier:
        """Train on a file, or several, which may be larger than memory. Warns and raises as ``fit`` does.

        How the file is read is said by the options of ``llsvm.train`` that are parameters here: columns of tables
        are scaled to mean 0 and variance 1 unless ``scale`` is "none"; svmlight, and arrays in ``fit``, stay as
        they are. Afterwards ``predict`` takes rows of numbers, or data frames whose columns have the names that the
        file's have, in any order, those of text too.
        """
        given = locals()
        reading = {name: given[name] for name in OPTIONS if name in given}
        with _own_names():
            model = train_with(self._settings(**reading), path, names=ESTIMATOR_NAMES, warn_at=4)
        self.n_features_in_ = model.n_features_in_
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_  # of an earlier fit
        if model.named_columns and model.feature_names is not None:
            self.feature_names_in_ = np.array(model.feature_names, object)
        return self._keep(model, from_file=True)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores of the rows of X: (n,) for two classes (positive: ``classes_[1]``), else (n, n_classes)."""
        rows = self._rows(X)
        return self.model_.decision_function(rows)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row of X: (n,)."""
        rows = self._rows(X)
        return self.model_.predict(rows)

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        names = None
        if self.model_.named_columns:
            names = column_names(X)
        else:
            require_order(X)
        if self._from_file and names is not None:
            return X  # the model finds them by name, and refuses what it lacks
        if "feature_names_in_" not in vars(self) and names not in (None, self.model_.feature_names):
            raise DataError(  # of frames that scikit-learn does not know; it refuses those that it does
                f"X has the columns {listed(names or ())}, but was fitted on "
                f"{listed(self.model_.feature_names or ())}; give it these, in this order"
            )
        return validate_data(self, X, accept_sparse="csr", dtype="numeric", reset=False)

    def _settings(self, **reading: Any) -> Settings:
        for name, kinds in _KINDS.items():
            require_kind(name, getattr(self, name), kinds)
        return Settings(
            C=self.C,
            loss=self.loss,
            solver=self.solver,
            penalty=self.penalty,
            l1_ratio=self.l1_ratio,
            lambda1=self.lambda1,
            lambda2=self.lambda2,
            multiclass=_JOINT.get(self.multi_class, self.multi_class),
            tol=self.tol,
            max_passes=self.max_iter,
            max_seconds=self.max_seconds,
            class_weight=self.class_weight,
            bias=self.intercept_scaling if self.fit_intercept and self.penalize_intercept else 0.0,
            intercept=self.fit_intercept and not self.penalize_intercept,
            kernel=self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            feature_map=self.feature_map,
            components=self.components,
            step=self.step,
            mu=self.mu,
            mu_end=self.mu_end,
            homotopy=self.homotopy,
            stop=self.stop,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            threads=_threads(self.n_jobs),
            memory_limit=self.memory_limit,
            disk_limit=self.disk_limit,
            spill_dir=self.spill_dir,
            **reading,
        )

    def _keep(self, model: Model, from_file: bool = False) -> LLSVMClassifier:
        self.model_, self._from_file = model, from_file
        self.coef_: NDArray[np.float64] = model.coef_
        self.intercept_: NDArray[np.float64] = model.intercept_
        self.classes_: NDArray[Any] = model.classes_
        self.certificate_: Certificate | None = model.certificate
        self.n_iter_ = 0 if model.certificate is None else model.certificate.passes
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


@contextmanager
def _own_names() -> Iterator[None]:
    """Errors name options as the estimator does."""
    try:
        yield
    except LLSVMError as error:
        error.names = ESTIMATOR_NAMES
        raise


def _threads(n_jobs: int | None) -> int | None:
    """Threads that scikit-learn's ``n_jobs`` means; negative numbers count down from all + 1."""
    if n_jobs == 0:
        raise UsageError("n_jobs must not be 0: pass 1 or more, or -1 or None for all processors")
    return n_jobs if n_jobs is None or n_jobs > 0 else max(1, default_threads() + 1 + n_jobs)
