"""Estimators that choose C by cross-validation, all candidates in the same passes, as ``llsvm.tune`` does."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.model_selection import check_cv
from sklearn.utils.validation import _num_samples

from llsvm.data import names_files
from llsvm.errors import UsageError
from llsvm.estimators.base import REMEDIES, LLSVMEstimator
from llsvm.estimators.classifier import Classifying
from llsvm.estimators.inputs import explained
from llsvm.estimators.regressor import Regressing
from llsvm.models.model import Model
from llsvm.settings.objective import CLASSIFICATION
from llsvm.settings.option import ESTIMATOR_NAMES, plain
from llsvm.settings.settings import OPTIONS, Settings
from llsvm.tune import tune_with
from llsvm.tuning.folds import Splits, splits_of
from llsvm.tuning.scores import SCORES

# scikit-learn's names of scores that are ours
_SCORING = {
    "neg_log_loss": "log_loss",
    "neg_mean_absolute_error": "mae",
    "neg_mean_squared_error": "mse",
}
_SEARCH_NAMES = {**ESTIMATOR_NAMES, "C": "Cs", "folds": "cv", "score": "scoring"}
_FIRST, _LAST = 1e-4, 1e4  # of a number of Cs, as in LogisticRegressionCV


def _score_of(scoring: str | Callable[..., float] | None) -> str | Callable[..., float] | None:
    """Return the name of the score in ``llsvm.tune``; other names are scikit-learn's."""
    if not isinstance(scoring, str):
        return scoring
    name = _SCORING.get(scoring, scoring)
    return get_scorer(name) if name not in SCORES and name in get_scorer_names() else name


class _Search(LLSVMEstimator):
    """Base of both searches; scores_ and the like come with the model."""

    kernel: ClassVar[None] = None  # type: ignore[misc]
    _not_options: ClassVar[tuple[str, ...]] = ("Cs", "cv", "scoring", "rule", "race", "l1_ratios", "verbose")
    _names = _SEARCH_NAMES

    Cs: int | Sequence[float]
    cv: Any
    scoring: str | Callable[..., float] | None
    rule: str
    race: bool
    l1_ratios: Sequence[float] | None
    random_state: int | np.random.RandomState | None

    def _trained(
        self, settings: Settings, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> Model:
        folds, splits = plain(self.cv), None
        if not isinstance(folds, int | float | str | None):
            folds, splits = None, self._splits(X, y, sample_weight, groups)
        elif groups is not None:
            raise UsageError(
                f"groups are for a splitter that keeps them together, such as cv=GroupKFold(), and cv is {folds!r}"
            )
        ratios = [settings.l1_ratio] if self.l1_ratios is None else self._ratios()
        tuned = tune_with(
            [replace(settings, l1_ratio=ratio) for ratio in ratios],
            X,
            y,
            sample_weight,
            names=self._names,
            warn_at=5,
            remedies=REMEDIES,
            C=self._costs(),
            folds=folds,
            splits=splits,
            validation=None,
            holdout=None,
            score=_score_of(self.scoring),
            rule=self.rule,
            race=plain(self.race),
            verbose=plain(self.verbose),
            **self._learned(),
        )
        self.C_: float = tuned.best_C
        self.best_score_: float = tuned.best_score
        self.l1_ratio_: float | None = tuned.best["l1_ratio"]
        n_costs = len(tuned.table) // len(ratios)
        self.Cs_: NDArray[np.float64] = np.array([row["C"] for row in tuned.table[:n_costs]])
        n_folds = max(
            len(row["scores"]) for row in tuned.table
        )  # a race drops candidates, but not all of them
        scores = [row["scores"] + [np.nan] * (n_folds - len(row["scores"])) for row in tuned.table]
        shape = (n_folds, n_costs) if self.l1_ratios is None else (n_folds, len(ratios), n_costs)
        self.scores_: NDArray[np.float64] = np.array(scores).T.reshape(shape)
        return tuned.model

    def _settings(self, **reading: Any) -> Settings:
        settings = super()._settings(**reading)
        return settings if self.random_state is not None else replace(settings, seed=OPTIONS["seed"].default)

    def _splits(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Splits:
        """Return the folds of a splitter, or an iterable, of scikit-learn's. Raises UsageError."""
        if names_files(X) and y is None:
            raise UsageError(
                "cv of a file is a number of folds: its rows are not in memory, to be split there"
            )
        cv = check_cv(self.cv, y, classifier=self._label_kind == CLASSIFICATION)
        return splits_of(cv.split(X, y, groups), _num_samples(X), sample_weight)

    def _learned(self) -> dict[str, Any]:
        return {}

    def _ratios(self) -> list[float]:
        given = plain(self.l1_ratios)
        if isinstance(given, str) or not isinstance(given, Iterable) or not (ratios := list(given)):
            raise UsageError(
                f"l1_ratios must be a list of shares from 0 to 1, such as [0.1, 0.9], not {given!r}"
            )
        return ratios

    def _costs(self) -> Sequence[float]:
        given: int | Sequence[float] = plain(self.Cs)
        if not isinstance(given, int):
            return given
        if given < 2:
            raise UsageError(f"Cs must be 2 or more, or the values of C, not {given}")
        costs: list[float] = np.geomspace(_FIRST, _LAST, given).tolist()
        return costs


@explained
class LLSVMClassifierCV(Classifying, _Search):
    """Linear SVM whose C is chosen by cross-validation, under a limit on the memory of this process.

    As ``LLSVMClassifier``, for several C at once: each with each fold is trained in the same passes, and has a
    certificate of its own; then the model of the chosen C on all rows (see ``llsvm.tune``).

    Cs: values of C, or how many of them, evenly on a log scale from 1e-4 to 1e4. cv: how many folds, stratified, of
    rows as ``random_state`` has it (None: 5), where None stands for the same folds in each ``fit``, those of
    ``llsvm.tune``; or of data in memory a splitter, or pairs of rows to train on
    and rows to score, as scikit-learn takes them; ``fit`` takes ``groups`` for splitters such as GroupKFold.
    scoring: "accuracy" (None), "balanced_accuracy", "roc_auc", "average_precision", "f1" or "log_loss",
    another name or a scorer of scikit-learn's, or a function of labels and
    predictions, larger the better. rule: "best", or "1se": the smallest C within a standard error of it.
    race: drop candidates that could not be the best even without an error on the folds to come.
    penalty: "l2", "l1" or "elasticnet"; l1_ratios: shares of l1 in elasticnet, each of which is tried with each C.
    probabilities: None, "platt", "isotonic" or "temperature": learn what scores stand for from those of held-out
    rows; then there is ``predict_proba`` (there is with loss "logistic" anyway). threshold: None, or what the score
    above which a row is of the second class is chosen by: "precision=0.9", "recall=0.9", "f1" or "cost=FP:FN".
    loss: "hinge", "squared_hinge", "logistic" or "least-squares". multi_class: "ovr" or "ovo". class_weight: None,
    "balanced" or label -> factor.
    classes_, Cs_ (m,), C_ and l1_ratio_ (the chosen ones), scores_ (cv, m), with l1_ratios (cv, r, m), NaN where a
    race dropped the candidate, and best_score_ (the mean of the chosen) come with ``fit``. coef_ has k = 1 row for
    two classes, else one per class, or pair of classes.
    """

    _not_options = (*_Search._not_options, "probabilities", "threshold")

    def __init__(
        self,
        Cs: int | Sequence[float] = 10,
        *,
        cv: Any = 5,
        scoring: str | Callable[..., float] | None = None,
        rule: str = "best",
        race: bool = False,
        probabilities: str | None = None,
        threshold: str | None = None,
        loss: str = "hinge",
        penalty: str = "l2",
        l1_ratios: Sequence[float] | None = None,
        multi_class: str = "ovr",
        tol: float = 1e-3,
        max_iter: int | None = 200,
        class_weight: str | Mapping[Any, float] | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,  # where there is an intercept
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
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.race = race
        self.probabilities = probabilities
        self.threshold = threshold
        self.loss = loss
        self.penalty = penalty
        self.l1_ratios = l1_ratios
        self.multi_class = multi_class
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
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
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> LLSVMClassifierCV:
        """Choose C, and train with it on X, an (n, d) array or SciPy sparse matrix, and labels y (n,). Rows count
        by sample_weight (n,) in training, in scores and where probabilities are learned. groups: (n,) for the
        splitter ``cv``. Warns and raises as ``LLSVMClassifier.fit``."""
        return self._fit(X, y, sample_weight, groups)

    @property
    def _gives_probabilities(self) -> bool:
        return self.probabilities is not None or super()._gives_probabilities

    def _learned(self) -> dict[str, Any]:
        return {"probabilities": self.probabilities, "threshold": self.threshold}


@explained
class LLSVMRegressorCV(Regressing, _Search):
    """Linear regression whose C is chosen by cross-validation, under a limit on the memory of this process.

    As ``LLSVMRegressor``, for several C at once; see ``LLSVMClassifierCV``.

    Cs: values of C, or how many of them, evenly on a log scale from 1e-4 to 1e4. cv, groups: see
    ``LLSVMClassifierCV``. scoring: "r2",
    "mae", "mse" or "pinball"; None: what goes with the loss, see ``llsvm.tune``. rule: "best", or "1se": the
    smallest C within a standard error of it. race, penalty, l1_ratios: see ``LLSVMClassifierCV``.
    loss: "epsilon_insensitive", "squared_epsilon_insensitive", "huber" or "quantile"; epsilon, quantile, delta:
    theirs.
    Cs_ (m,), C_ and l1_ratio_ (the chosen ones), scores_ (cv, m), with l1_ratios (cv, r, m), and best_score_ (the
    mean of the chosen) come with ``fit``.
    """

    def __init__(
        self,
        Cs: int | Sequence[float] = 10,
        *,
        cv: Any = 5,
        scoring: str | Callable[..., float] | None = None,
        rule: str = "best",
        race: bool = False,
        loss: str = "epsilon_insensitive",  # of regression
        epsilon: float = 0.1,
        quantile: float = 0.5,
        delta: float = 1.0,
        penalty: str = "l2",
        l1_ratios: Sequence[float] | None = None,
        tol: float = 1e-3,
        max_iter: int | None = 200,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,  # where there is an intercept
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
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.race = race
        self.loss = loss
        self.epsilon = epsilon
        self.quantile = quantile
        self.delta = delta
        self.penalty = penalty
        self.l1_ratios = l1_ratios
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
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
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> LLSVMRegressorCV:
        """Choose C, and train with it on X, an (n, d) array or SciPy sparse matrix, and numbers y (n,); rows count
        by sample_weight (n,) in training and in scores. groups: (n,) for the splitter ``cv``. Warns and
        raises as ``LLSVMRegressor.fit``."""
        return self._fit(X, y, sample_weight, groups)
