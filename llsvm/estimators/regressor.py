"""LLSVMRegressor: regression under a memory limit, in scikit-learn's style."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from llsvm.estimators.base import LLSVMEstimator
from llsvm.estimators.incremental import Incremental
from llsvm.estimators.inputs import explained
from llsvm.features.array_labels import refuse_times
from llsvm.settings.objective import REGRESSION


class Regressing(RegressorMixin, LLSVMEstimator):
    """An estimator whose labels are numbers."""

    _label_kind = REGRESSION

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the number predicted for each row of X: (n,)."""
        rows = self._rows(X)
        return np.asarray(self.model_.predict(rows))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of what is predicted for rows of X, against the numbers y, (n,); by sample_weight (n,)."""
        refuse_times(y)
        return float(super().score(X, y, sample_weight))


@explained
class LLSVMRegressor(Regressing, Incremental):
    """Linear regression, trained under a limit on the memory of this process, with a proof of how good it is.

    Minimises ½‖w‖² + C Σ_i c_i loss(y_i − w·x_i), c_i the sample weight (or another penalty in the place of ½‖w‖²,
    see below). The intercept is penalised like the weights unless ``penalize_intercept`` is False, as targets far
    from 0 ask for.

    loss: "epsilon_insensitive" (max(0, |z| − epsilon), support vector regression), "squared_epsilon_insensitive"
    (its square), "huber" (½ z² up to ``delta``, beyond that linear) or "quantile" (the ``quantile`` of the targets,
    0.5 their median). epsilon, delta: in the unit of the targets.
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str = "epsilon_insensitive",  # of regression
        epsilon: float = 0.1,
        quantile: float = 0.5,
        delta: float = 1.0,
        solver: str = "auto",
        penalty: str = "l2",
        l1_ratio: float = 0.5,
        lambda1: float | None = None,
        lambda2: float | None = None,
        tol: float = 1e-3,
        max_iter: int | None = 200,
        max_seconds: float | None = None,
        prune: float | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,  # where there is an intercept
        penalize_intercept: bool = True,  # the opposite of the option
        kernel: str | None = None,
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 0.0,
        feature_map: str | None = None,
        components: int = 500,
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
        target_scale: str = "auto",
        random_state: int | np.random.RandomState | None = None,  # scikit-learn's
        n_jobs: int | None = None,
        memory_limit: str | int | None = None,
        disk_limit: str | int | None = None,
        spill_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self.C = C
        self.loss = loss
        self.epsilon = epsilon
        self.quantile = quantile
        self.delta = delta
        self.solver = solver
        self.penalty = penalty
        self.l1_ratio = l1_ratio
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.prune = prune
        self.warm_start = warm_start
        self.verbose = verbose
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.penalize_intercept = penalize_intercept
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.feature_map = feature_map
        self.components = components
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
        self.target_scale = target_scale
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.disk_limit = disk_limit
        self.spill_dir = spill_dir

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LLSVMRegressor:
        """Train on X, an (n, d) array or SciPy sparse matrix, and numbers y (n,). With ``text`` on documents: a
        list, array or Series of them, or a data frame.

        sample_weight: (n,) factors of C, not negative. X is not copied where it is float32 or float64, and
        C-ordered or CSR. Warns (ConvergenceWarning) if passes or time ran out. Raises LLSVMError's subclasses
        (DataError and UsageError are ValueErrors, BudgetError is a MemoryError).
        """
        return self._fit(X, y, sample_weight)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> LLSVMRegressor:
        """Train on these rows and those of all calls before, see ``LLSVMClassifier.partial_fit``."""
        return self._partial_fit(X, y, None, sample_weight)
