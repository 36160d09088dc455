"""LLSVMClassifier: classification under a memory limit, in scikit-learn's style."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from llsvm.estimators.classifying import Classifying
from llsvm.estimators.docstrings import explained
from llsvm.estimators.incremental import Incremental


@explained
class LLSVMClassifier(Classifying, Incremental):
    """Linear SVM, trained under a limit on the memory of this process, with a proof of how good it is.

    Minimises ½‖w‖² + C Σ_i c_i loss(y_i w·x_i), c_i the class weight times the sample weight (or another penalty in
    the place of ½‖w‖², see below); one problem per class (one against the rest) where there are more than two. See
    ``llsvm.train`` for what is not explained here.

    loss: "hinge", "squared_hinge", "logistic" (which alone gives ``predict_proba``) or "least-squares".
    multi_class: "ovr", "ovo" (a problem for each pair of classes, which vote), or one joint problem:
    "crammer_singer" (as scikit-learn has it; "crammer-singer" is the same), "weston_watkins", or "softmax" (of loss
    "logistic").
    class_weight: None, "balanced" or label -> factor; "ovr" of three or more classes takes it for the positive rows
    of a class's problem, as LinearSVC, all others by row, as SVC and LogisticRegression.
    kernel, gamma, degree, coef0, feature_map, components, step, mu, mu_end, homotopy, stop: as in ``llsvm.train``.
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
        text: bool | str | Sequence[str] = (),
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
