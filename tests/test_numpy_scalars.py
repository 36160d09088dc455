"""NumPy's scalars are as good as Python's, in every parameter of estimators, functions and settings."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict
from enum import Enum
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import llsvm
from llsvm.errors import UsageError
from llsvm.settings.settings import OPTIONS, Settings

ESTIMATORS = (
    llsvm.LLSVMClassifier,
    llsvm.LLSVMRegressor,
    llsvm.LLSVMOutlierDetector,
    llsvm.LLSVMClassifierCV,
    llsvm.LLSVMRegressorCV,
)
FUNCTIONS = (
    *(
        llsvm.train,
        llsvm.tune,
        llsvm.predict,
        llsvm.write_predictions,
        llsvm.evaluate,
        llsvm.explain,
        llsvm.verify,
    ),
    *(llsvm.report, llsvm.export),
)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = (X[:, 0] + 0.3 * RNG.normal(size=60) > 0).astype(int)

# Parameters that need another one beside them, or that have no number as their default.
BESIDE = {
    **{
        key: {"kernel": "poly", "feature_map": "nystroem"}
        for key in ("gamma", "coef0", "degree", "components")
    },
    "mu_end": {"solver": "nesvm", "stop": "change"},
    **{key: {"solver": "nesvm"} for key in ("mu", "homotopy")},
    "lambda1": {"penalty": "l1"},
    "lambda2": {"penalty": "l2"},
    "l1_ratio": {"penalty": "elasticnet"},
    "epsilon": {"loss": "epsilon_insensitive"},
    "quantile": {"loss": "quantile"},
    "delta": {"loss": "huber"},
    "nu": {"loss": "one_class"},
    **{key: {"text": ["t"]} for key in ("min_df", "max_df", "max_features")},
    "penalize_intercept": {"fit_intercept": True},
}
VALUES = {
    **{"max_seconds": 60, "threads": 1, "n_jobs": 1, "prune": 1, "hash_bits": 10, "min_df": 1, "max_df": 1},
    **{"max_features": 10, "gamma": 1, "lambda1": 1, "lambda2": 1, "mu": 1, "memory_limit": 10**9},
    **{"disk_limit": 10**9, "random_state": 3, "label": 1, "weight": 1, "positive": 1, "max_passes": 50},
    **{
        "max_iter": 50,
        "bias": 1,
        "Cs": 4,
        "cv": 3,
        "components": 10,
        "mu_end": 1,
        "survivors": 1,
        "quantile": 0.5,
        "nu": 0.5,
    },
}
SCALARS = (np.int64, np.int8, np.uint16, np.float32, np.float64, np.float16, np.longdouble)


def scalars_of(name, default):
    """The value of a parameter as NumPy has it, in each type that can hold it; none of a parameter of text."""
    value = VALUES.get(name, default)
    if isinstance(value, bool):
        return [np.bool_(value)]
    if not isinstance(value, int | float):
        return []
    holding = [kind(value) for kind in SCALARS if abs(value) < np.iinfo(np.int8).max or kind is np.int64]
    whole = isinstance(default, int) or (name in VALUES and default is None)
    return [each for each in holding if each == value and (not whole or isinstance(each, np.integer))]


def a_scalar_of_each_kind(name, default):
    """The first truth value, integer and number of ``scalars_of``: ``test_settings_are_plain_python`` looks at all
    types of NumPy's."""
    of_kinds = {np.dtype(type(each)).kind.replace("u", "i"): each for each in scalars_of(name, default)[::-1]}
    return of_kinds.values()


def is_plain(value):
    if isinstance(value, Mapping):
        return all(map(is_plain, [*value, *value.values()]))
    if isinstance(value, tuple | list):
        return all(map(is_plain, value))
    return type(value).__module__ == "builtins"


@pytest.mark.parametrize("name", [name for name, each in OPTIONS.items() if scalars_of(name, each.default)])
def test_settings_are_plain_python(name):
    for scalar in scalars_of(name, OPTIONS[name].default):
        try:
            settings = Settings(**{name: scalar}, **BESIDE.get(name, {}))
        except UsageError:  # as of Python's own number
            with pytest.raises(UsageError):
                Settings(**{name: scalar.item()}, **BESIDE.get(name, {}))
            continue
        assert all(map(is_plain, asdict(settings).values()))
        assert settings == Settings(**{name: scalar.item()}, **BESIDE.get(name, {}))


def parameters(functions):
    for function in functions:
        for name, each in inspect.signature(function).parameters.items():
            if scalars_of(name, each.default):
                yield function, name, each.default


def of_two_estimators(cases):
    """Each parameter of two of the estimators that have it, in turn: all of them pass it on in the same way."""
    by_name = {}
    for case in cases:
        by_name.setdefault(case[1], []).append(case)
    for i, found in enumerate(by_name.values()):
        yield from (found[k] for k in sorted({i % len(found), (i + 2) % len(found)}))


@pytest.mark.parametrize(
    ("estimator", "name", "default"),
    list(of_two_estimators(parameters(ESTIMATORS))),
    ids=lambda each: each if isinstance(each, str) else each.__name__ if inspect.isclass(each) else "",
)
def test_estimators(estimator, name, default):
    beside = {k: v for k, v in BESIDE.get(name, {}).items() if k in inspect.signature(estimator).parameters}
    if name == "l1_ratio" and estimator is llsvm.LLSVMRegressor:
        beside["penalty"] = "elasticnet"
    beside |= {} if name == "random_state" else {"random_state": 0}
    if "kernel" in beside and name != "components":
        beside["components"] = 10
    target = X[:, 0] if "Regressor" in estimator.__name__ else Y
    if "text" in beside:
        pytest.skip("columns of text are given as a frame")
    if estimator in (llsvm.LLSVMClassifierCV, llsvm.LLSVMRegressorCV):
        beside = {"Cs": [0.1, 1.0], "cv": 2} | beside
        beside.pop(name, None)
    plain = None
    for scalar in a_scalar_of_each_kind(name, default):
        with_scalar = estimator(**{name: scalar}, **beside)
        clone(with_scalar)
        found = with_scalar.fit(X, target).predict(X)
        if plain is None:
            plain = estimator(**{name: scalar.item()}, **beside).fit(X, target).predict(X)
        np.testing.assert_array_equal(found, plain)


Choice = Enum("Choice", {"LOSS": "squared_hinge"}, type=str)  # whose str() is "Choice.LOSS"


class Pair(NamedTuple):
    first: object
    second: object


def test_kinds_that_others_derive():
    """Members of enumerations are their values, and named tuples are tuples."""
    settings = Settings(loss=Choice.LOSS, features=Pair(np.str_("a"), "b"))
    assert (settings.loss, settings.features) == ("squared_hinge", ("a", "b"))
    assert type(settings.loss) is str


def test_lists_and_mappings():
    grid = GridSearchCV(
        llsvm.LLSVMClassifier(), {"C": np.arange(1, 4), "tol": np.array([0.1, 0.01], np.float32)}, cv=3
    )
    assert np.isfinite(grid.fit(X, Y).cv_results_["mean_test_score"]).all()
    weights = {np.int64(0): np.float32(2), np.int64(1): np.int8(1)}
    ours = llsvm.LLSVMClassifier(class_weight=weights, random_state=0).fit(X, Y)
    plain = llsvm.LLSVMClassifier(class_weight={0: 2, 1: 1}, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(ours.coef_, plain.coef_)
    search = llsvm.LLSVMClassifierCV(Cs=np.array([0.1, 1], np.float32), cv=np.int64(3), race=np.bool_(False))
    assert search.fit(X, Y).C_ in (np.float32(0.1), 1.0)
    assert llsvm.tune(X, Y, C=np.array([0.1, 1]), folds=np.int64(3), holdout=None).best_C in (0.1, 1.0)


@pytest.fixture(scope="module")
def model():
    return llsvm.train(X, Y)


@pytest.mark.parametrize(
    ("function", "name", "default"),
    list(parameters(FUNCTIONS)),
    ids=lambda each: each if isinstance(each, str) else each.__name__ if callable(each) else "",
)
def test_functions(tmp_path, model, function, name, default):
    beside = dict(BESIDE.get(name, {}))
    given = {
        "train": (X, Y),
        "tune": (X, Y),
        "export": (model, tmp_path / "exported"),
        "report": (model,),
        "write_predictions": (model, X, tmp_path / "predictions.csv"),
        "evaluate": (model, X, Y),
        "explain": (model, X),
        "predict": (model, X),
        "verify": (model, X, Y),
    }[function.__name__.rpartition(".")[2]]
    if function is llsvm.tune:
        beside |= {"C": [0.1, 1]} | ({"folds": None} if name == "holdout" else {})
    for scalar in a_scalar_of_each_kind(name, default):
        results = []
        for value in (scalar, scalar.item()):
            try:
                function(*given, **{name: value}, **beside)
                results.append("taken")
            except llsvm.LLSVMError as error:
                results.append(str(error))
        assert results[0] == results[1]


@pytest.mark.parametrize("made", [np.array, "Series", "Index"])
def test_lists_may_be_arrays_series_and_indexes(made):
    pandas = pytest.importorskip("pandas")
    made = getattr(pandas, made) if isinstance(made, str) else made
    documents = ["the cat", "a dog"] * 10
    classifier = llsvm.LLSVMClassifier(text=np.bool_(True), stop_words=made(["cat"]))
    assert classifier.fit(documents, ["x", "y"] * 10).get_feature_names_out().tolist() == [
        "text:the",
        "text:dog",
    ]
    np.testing.assert_array_equal(llsvm.LLSVMClassifierCV(Cs=made([0.1, 1])).fit(X, Y).Cs_, [0.1, 1])
    frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y})
    assert llsvm.train(frame, label="y", exclude=made(["b"])).feature_names == ("a",)
    classifier = llsvm.LLSVMClassifier(categorical=made(["c"])).fit(frame[["a"]].assign(c=[1, 2] * 30), Y)
    assert classifier.model_.feature_names == ("a", "c=1", "c=2")
    weights = {0: 1.0, 1: 2.0}
    by_label = [
        llsvm.LLSVMClassifier(class_weight=each).fit(X, Y).coef_ for each in (weights, pandas.Series(weights))
    ]
    np.testing.assert_allclose(*by_label, rtol=1e-9)


@pytest.mark.parametrize("text", [1, 2.5, [1], {"a": 1}])
def test_text_is_true_or_names(text):
    with pytest.raises(UsageError, match="text must be True, or names of columns"):
        llsvm.LLSVMClassifier(text=text).fit(["a b", "c d"] * 10, Y[:20])


def test_a_list_of_documents_is_not_taken_for_files_without_a_word():
    documents, y = ["the cat", "a dog"] * 10, ["x", "y"] * 10
    for call in (
        lambda: llsvm.train(documents, y),
        lambda: llsvm.LLSVMClassifier(text=["review"]).fit(documents, y),
    ):
        with pytest.raises(UsageError, match="give documents as a column of a data frame"):
            call()
