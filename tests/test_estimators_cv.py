"""Estimators that choose C: scikit-learn's checks, its pipelines, and ``llsvm.tune``'s answers."""

import inspect
import re

import numpy as np
import pytest
from oracle import rows
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import llsvm
from llsvm import LLSVMClassifier, LLSVMClassifierCV, LLSVMRegressor, LLSVMRegressorCV
from llsvm.errors import UsageError

FEW = {"Cs": (0.01, 1.0), "cv": 2, "random_state": 0, "n_jobs": 1, "memory_limit": "2GB"}
_FOLDS = "which fold a row is in follows from its number: repeated rows are in others"
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": _FOLDS,
    "check_sample_weight_equivalence_on_sparse_data": _FOLDS,
}


@pytest.mark.slow
@parametrize_with_checks(
    [LLSVMClassifierCV(**FEW), LLSVMRegressorCV(**FEW)],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("search", "alone"), [(LLSVMClassifierCV, LLSVMClassifier), (LLSVMRegressorCV, LLSVMRegressor)]
)
def test_parameters_are_explained_and_have_the_defaults_of_one_c(search, alone):
    ours, theirs = (inspect.signature(each).parameters for each in (search, alone))
    shared = set(ours) & set(theirs)
    assert {"loss", "tol", "max_iter", "fit_intercept", "random_state", "memory_limit"} <= shared
    assert [name for name in shared if ours[name].default != theirs[name].default] == []
    assert [name for name in ours if not re.search(rf"\b{name}\b", search.__doc__)] == []


def test_it_is_tune_and_has_what_logistic_regression_has():
    X, y = rows(n=400, d=4, noise=0.6)
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    ours = LLSVMClassifierCV(**FEW | {"cv": 3}, probabilities="platt", threshold="recall=0.9").fit(X, y)
    theirs = llsvm.tune(
        *(X, y), C=(0.01, 1.0), folds=3, probabilities="platt", threshold="recall=0.9", seed=seed, bias=1.0
    )
    assert theirs.best_C == ours.C_
    np.testing.assert_array_equal(ours.Cs_, [0.01, 1.0])
    np.testing.assert_allclose(ours.scores_.T, [row["scores"] for row in theirs.table], atol=0.01)
    assert (
        ours.scores_.shape
        == LogisticRegressionCV(Cs=[0.01, 1.0], cv=3, l1_ratios=(0.0,), use_legacy_attributes=True)
        .fit(X, y)
        .scores_[1]
        .shape[:2]
    )
    np.testing.assert_allclose(ours.predict_proba(X), theirs.model.predict_proba(X), atol=0.01)
    np.testing.assert_array_equal(ours.predict(X), ours.decision_function(X) > ours.model_.threshold)
    assert ours.predict(X)[y == 1].mean() > 0.85
    assert not hasattr(LLSVMClassifierCV(**FEW), "predict_proba")


def test_in_a_pipeline():
    X, y = load_breast_cancer(return_X_y=True)
    made = make_pipeline(StandardScaler(), LLSVMClassifierCV(**FEW, probabilities="isotonic"))
    assert made.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95
    assert made.predict_proba(X[300:]).sum(axis=1) == pytest.approx(np.ones(len(X) - 300))
    target = X[:, 0] + 0.1 * X[:, 1]
    regression = make_pipeline(StandardScaler(), LLSVMRegressorCV(**FEW, scoring="neg_mean_absolute_error"))
    assert regression.fit(X[:300], target[:300]).score(X[300:], target[300:]) > 0.9
    assert regression[-1].best_score_ == regression[-1].scores_.mean(axis=0).min()


def test_a_file_is_searched_too(tmp_path):
    X, y = rows(n=200, d=3)
    np.savetxt(tmp_path / "rows.csv", np.c_[X, y], delimiter=",", header="a,b,c,label", comments="")
    made = LLSVMClassifierCV(**FEW).fit_file(tmp_path / "rows.csv")
    assert made.score(X, y) > 0.8
    assert list(made.feature_names_in_) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"Cs": 1}, "Cs must be 2 or more"),
        ({"Cs": (1.0,)}, "nothing to choose from one C"),
        ({"cv": 1}, "cv must be a whole number, 2 or more"),
        ({"scoring": "best"}, "scoring must be one of accuracy"),
        ({"loss": "huber"}, "is for LLSVMRegressor"),
        ({"probabilities": "best"}, "probabilities must be one of platt"),
    ],
)
def test_what_makes_no_sense_is_a_sentence(options, message):
    X, y = rows(n=40)
    with pytest.raises(UsageError) as caught:
        LLSVMClassifierCV(**FEW | options).fit(X, y)
    assert message in str(caught.value)
