"""Estimators that choose C: scikit-learn's checks, its pipelines, and ``llsvm.tune``'s answers."""

import inspect
import re

import numpy as np
import pandas as pd
import pytest
import sklearn
from cells import in_turn
from oracle import rows
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import llsvm
from llsvm import LLSVMClassifier, LLSVMClassifierCV, LLSVMRegressor, LLSVMRegressorCV
from llsvm.errors import DataError, UsageError

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


def test_without_a_random_state_each_fit_has_the_folds_of_tune():
    X, y = rows(n=300, d=4, noise=0.6)
    given = {**FEW, "cv": 3, "random_state": None}
    first, second = (LLSVMClassifierCV(**given).fit(X, y) for _ in range(2))
    assert np.array_equal(first.scores_, second.scores_)
    assert np.array_equal(first.coef_, second.coef_)
    costs = list(FEW["Cs"])
    tuned = llsvm.tune(X, y, C=costs, folds=3, bias=1.0, memory_limit="2GB", threads=1)
    assert [row["scores"] for row in tuned.table] == first.scores_.T.tolist()


@pytest.mark.parametrize("cv", [2, 3])
def test_a_class_too_small_for_the_folds_is_named_with_what_the_estimator_has(cv):
    X, y = rows(n=40, d=4, noise=0.6)
    y = np.where(np.arange(len(y)) == 7, 9, y)
    with pytest.raises(DataError, match="has 1 row in all, so that a fold would have none of it") as refused:
        LLSVMClassifierCV(**{**FEW, "cv": cv}).fit(X, y)
    assert "holdout" not in str(refused.value)
    assert ("ask for fewer cv" in str(refused.value)) == (cv > 2)


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
        *(({"scoring": each}, "scoring must be one of accuracy") for each in (["f1"], {"f1": "f1"})),
        *(({"threshold": each}, f"threshold {each}: write precision=0.9") for each in (0.5, True, ["f1"])),
        *(
            (
                {"l1_ratios": each},
                f"l1_ratios must be a list of shares from 0 to 1, such as [0.1, 0.9], not {each}",
            )
            for each in (0.5, [])
        ),
    ],
)
def test_what_makes_no_sense_is_a_sentence(options, message):
    X, y = rows(n=40)
    with pytest.raises(UsageError) as caught:
        LLSVMClassifierCV(**FEW | options).fit(X, y)
    assert message in str(caught.value)


SPLITTERS = {
    "stratified": StratifiedKFold(3, shuffle=True, random_state=1),
    "plain": KFold(3, shuffle=True, random_state=1),
    "groups": GroupKFold(3),
    "time": TimeSeriesSplit(3),
    "one": PredefinedSplit(np.where(np.arange(120) % 4 == 0, 0, -1)),
    "repeated": RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=1),
    "random": ShuffleSplit(3, test_size=0.3, random_state=1),
    "pairs": [(np.arange(120) % 3 != i, np.flatnonzero(np.arange(120) % 3 == i)) for i in range(3)],
}


@pytest.mark.parametrize(("name", "kind"), in_turn(SPLITTERS, ["array", "frame", "weights of 0"], 1))
def test_splitters_of_scikit_learn_make_the_folds(name, kind):
    X, y = rows(n=120, d=3, noise=0.8)
    groups, weight, cv = np.arange(120) // 5, np.ones(120), SPLITTERS[name]
    given = X
    if kind != "array":
        given = pd.DataFrame(X, columns=list("abc")).assign(town="Rome")
    if kind == "weights of 0":
        weight[::7] = 0
    exact = FEW | {"tol": 1e-6, "max_iter": 2000, "cv": cv}
    made = LLSVMClassifierCV(**exact).fit(given, y, sample_weight=weight, groups=groups)
    pairs = cv if name == "pairs" else list(cv.split(X, y, groups))

    def taken(rows):
        return given[rows] if kind == "array" else given.iloc[np.arange(120)[rows]]

    assert made.scores_.shape == (len(pairs), 2)
    for f, (train, test) in enumerate(pairs):
        for c, C in enumerate((0.01, 1.0)):
            alone = LLSVMClassifier(C=C, tol=1e-6, max_iter=2000, memory_limit="2GB", random_state=0)
            wanted = alone.fit(taken(train), y[train], weight[train])
            wanted = wanted.score(taken(test), y[test], weight[test])
            assert made.scores_[f, c] == pytest.approx(wanted, abs=0.03)


def test_groups_stay_together_whichever_way_they_are_given():
    X, y = rows(n=120, d=3, noise=0.8)
    groups = np.arange(120) // 5
    given = LLSVMRegressorCV(**FEW | {"cv": GroupKFold(3)}).fit(X, X[:, 0], groups=groups)
    pairs = list(GroupKFold(3).split(X, y, groups))
    np.testing.assert_allclose(given.scores_, LLSVMRegressorCV(**FEW | {"cv": pairs}).fit(X, X[:, 0]).scores_)
    with sklearn.config_context(enable_metadata_routing=True):
        search = LLSVMRegressorCV(**FEW | {"cv": GroupKFold(3)}).set_fit_request(groups=True)
        piped = make_pipeline(StandardScaler(), search).fit(X, X[:, 0], groups=groups)
    assert piped[-1].scores_.shape == (3, 2)
    with pytest.raises(UsageError, match=r"groups are for a splitter.* cv is 2"):
        LLSVMRegressorCV(**FEW).fit(X, X[:, 0], groups=groups)
    assert LLSVMRegressorCV(**FEW | {"cv": None}).fit(X, X[:, 0]).scores_.shape == (5, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cv": [([0, 1, 2], [2, 3])]}, "fold 1 has row 3 twice"),
        ({"cv": []}, "cv gives no fold"),
        (
            {"cv": [([0, 1], [2]), ([0], [40])]},
            "fold 2 names rows that X does not have: index 40 .* there are 40",
        ),
        ({"cv": [(np.arange(20), np.arange(20, 40))]}, r"cv: fold 1 of 1 has no row of class .* to train on"),
        ({"cv": RepeatedStratifiedKFold(n_splits=2), "scoring": "roc_auc"}, "rows out more than once"),
        ({"cv": ShuffleSplit(3, test_size=0.5), "probabilities": "platt"}, "rows out more than once"),
        ({"cv": ShuffleSplit(1), "rule": "1se"}, "rule 1se needs several folds"),
    ],
)
def test_splits_that_cannot_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LLSVMClassifierCV(**FEW | options).fit(rows(n=40)[0], np.arange(40) >= 20)


@pytest.mark.parametrize("score", ["roc_auc", "balanced_accuracy", make_scorer(f1_score)])
def test_a_splitter_goes_with_every_score_and_probabilities(score):
    X, y = rows(n=120, d=3, noise=0.8)
    cv = StratifiedKFold(3)
    made = LLSVMClassifierCV(
        **FEW | {"cv": cv}, scoring=score, probabilities="platt", race=score == "roc_auc"
    )
    assert made.fit(X, y).predict_proba(X).shape == (120, 2)


@pytest.mark.parametrize("text", [True, ["review"]])
def test_text_is_searched_as_one_c_takes_it(text):
    words = np.array([["good film", "lovely plot"], ["bad film", "awful plot"]])
    y = np.arange(60) % 2
    documents = words[y, np.arange(60) // 2 % 2].tolist()
    frame = pd.DataFrame({"review": documents, "age": np.arange(60.0), "town": ["Rome", "Oslo"] * 30})
    X = documents if text is True else frame
    options = {"text": text, "ngrams": (1, 2), "scale": "standard"}
    made = LLSVMClassifierCV(**FEW | options).fit(X, y)
    assert made.score(X, y) == 1
    assert any("good film" in name for name in made.get_feature_names_out())
    same = LLSVMClassifier(C=made.C_, random_state=0, memory_limit="2GB", **options).fit(X, y)
    assert made.n_features_in_ == same.n_features_in_
    np.testing.assert_allclose(made.coef_, same.coef_, atol=0.02)
    assert LLSVMRegressorCV(**FEW | options).fit(X, y * 1.0).score(X, y * 1.0) > 0.8
