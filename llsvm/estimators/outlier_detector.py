"""LLSVMOutlierDetector: outliers under a memory limit, in scikit-learn's style."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin

from llsvm.estimators.incremental import Incremental
from llsvm.estimators.inputs import explained
from llsvm.models.model import Model
from llsvm.settings.objective import UNLABELLED
from llsvm.settings.settings import Settings


@explained
class LLSVMOutlierDetector(OutlierMixin, Incremental):
    """One-class SVM, trained under a limit on the memory of this process, with a proof of how good it is.

    Minimises ½‖w‖² − ν ρ Σ_i c_i + Σ_i c_i max(0, ρ − w·x_i) over w and ρ, c_i the sample weight (LIBLINEAR's
    -s 21): at most a share ν of the rows are outliers, w·x < ρ. It is a half-space away from 0, and where 0 is
    amidst the rows there is none (w = 0): do not centre them, or map them first (``feature_map``), which tells
    what lies around them.

    offset_ (after ``fit``): ρ, so that ``decision_function`` is ``score_samples`` less it.
    """

    _label_kind = UNLABELLED

    def __init__(
        self,
        *,
        nu: float = 0.5,
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int | None = 200,
        max_seconds: float | None = None,
        prune: float | None = None,
        warm_start: bool = False,
        verbose: int = 0,
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
        random_state: int | np.random.RandomState | None = None,  # scikit-learn's
        n_jobs: int | None = None,
        memory_limit: str | int | None = None,
        disk_limit: str | int | None = None,
        spill_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self.nu = nu
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.prune = prune
        self.warm_start = warm_start
        self.verbose = verbose
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
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.disk_limit = disk_limit
        self.spill_dir = spill_dir

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LLSVMOutlierDetector:
        """Train on X, an (n, d) array or SciPy sparse matrix. With ``text`` on documents: a list, array or
        Series of them, or a data frame. y: not looked at.

        sample_weight: (n,) c_i, not negative. X is not copied where it is float32 or float64, and
        C-ordered or CSR. Warns (ConvergenceWarning) if passes or time ran out. Raises LLSVMError's subclasses
        (DataError and UsageError are ValueErrors, BudgetError is a MemoryError).
        """
        return self._fit(X, None, sample_weight)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LLSVMOutlierDetector:
        """Train on these rows and those of all calls before, see ``LLSVMClassifier.partial_fit``. y: not looked
        at."""
        return self._partial_fit(X, None, None, sample_weight)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return (n,) w·x − ρ of the rows of X: negative for outliers."""
        rows = self._rows(X)
        return self.model_.decision_function(rows)

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Return (n,) w·x of the rows of X."""
        return np.asarray(self.decision_function(X) + self.offset_)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return (n,) -1 for outliers, 1 for the other rows of X."""
        rows = self._rows(X)
        return np.asarray(self.model_.predict(rows), np.int64)

    def _settings(self, **reading: Any) -> Settings:
        return super()._settings(loss="one_class", **reading)

    def _keep(self, model: Model, by_name: bool = False) -> LLSVMOutlierDetector:
        self.offset_ = -float(model.intercept_[0])
        return super()._keep(model, by_name)
