"""Estimators that go on: fits that begin where the last one has come to, and rows that come call by call."""

import gc
import os
import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from oracle import rows
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from llsvm import (
    DataError,
    DiskError,
    LLSVMClassifier,
    LLSVMOutlierDetector,
    LLSVMRegressor,
    LLSVMWarning,
    UsageError,
)
from llsvm.solvers.base import UPDATES
from llsvm.training.training import Training

SAME = {"random_state": 0, "n_jobs": 1}


@pytest.fixture(scope="module")
def data():
    return make_classification(1500, 20, n_informative=10, flip_y=0.2, random_state=0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_a_warm_fit_begins_where_the_last_one_ended(data):
    X, y = data
    warm = LLSVMClassifier(warm_start=True, tol=1e-4, **SAME).fit(X, y)
    cold = warm.n_iter_
    assert warm.fit(X, y).n_iter_ <= 2 < cold
    # a smaller tolerance costs what is missing to it, another C less than from 0
    assert warm.set_params(tol=1e-5).fit(X, y).n_iter_ < LLSVMClassifier(tol=1e-5, **SAME).fit(X, y).n_iter_
    again = LLSVMClassifier(C=1.2, tol=1e-5, **SAME).fit(X, y)
    warm.set_params(C=1.2).fit(X, y)
    assert warm.n_iter_ < again.n_iter_
    assert warm.certificate_.relative_gap <= 1e-5
    np.testing.assert_allclose(warm.certificate_.total_primal, again.certificate_.total_primal, rtol=2e-5)


def test_passes_that_ran_out_are_gone_on_with(data):
    X, y = data
    warm = LLSVMClassifier(warm_start=True, loss="logistic", tol=1e-9, max_iter=1, **SAME)
    gaps = []
    for _ in range(4):
        with pytest.warns(ConvergenceWarning):
            gaps.append(warm.fit(X, y).certificate_.relative_gap)
    assert gaps[3] < gaps[0] / 2


def test_what_has_nothing_in_common_begins_anew(data):
    X, y = data
    warm = LLSVMClassifier(warm_start=True, **SAME).fit(X, y)
    for rows_, labels, more in ((X[:700], y[:700], {}), (X, 1 - y, {}), (X, y, {"loss": "squared_hinge"})):
        warm.set_params(**more).fit(rows_, labels)
        cold = LLSVMClassifier(**SAME, **more).fit(rows_, labels)
        assert warm.coef_.tobytes() == cold.coef_.tobytes()
        assert warm.n_iter_ == cold.n_iter_


def test_a_file_that_has_grown_keeps_what_is_known_of_its_rows(data, tmp_path):
    X, y = data
    path = tmp_path / "rows.csv"
    text = ["y," + ",".join(f"x{j}" for j in range(20))]
    text += [f"{label}," + ",".join(f"{value:.6g}" for value in row) for row, label in zip(X, y, strict=True)]
    path.write_text("\n".join(text[:1401]) + "\n")
    warm = LLSVMClassifier(warm_start=True, tol=1e-5, **SAME).fit_file(path, label="y", scale="none")
    path.write_text("\n".join(text) + "\n")
    warm.fit_file(path, label="y", scale="none")
    cold = LLSVMClassifier(tol=1e-5, **SAME).fit_file(path, label="y", scale="none")
    first, then = (model.model_.history[:2] for model in (warm, cold))
    assert first[0]["relative_gap"] < then[1]["relative_gap"]
    assert warm.model_.n_rows == cold.model_.n_rows == 1500


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("labels", ["numbers", "text", "booleans"])
def test_rows_that_come_in_calls_are_trained_on_as_at_once(sparse, labels):
    X, y = rows(n=600, d=6, classes=2 if labels == "booleans" else 3)
    made = {"numbers": lambda y: y, "text": lambda y: np.char.add("c", y.astype(int).astype(str))}
    y = made.get(labels, lambda y: y == y[0])(y)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    X = sp.csr_matrix(X) if sparse else X
    order = np.argsort(y, kind="stable")  # the first calls have one class each
    classes = np.unique(y)
    calls = LLSVMClassifier(tol=1e-6, class_weight={classes[0]: 2.0}, **SAME)
    for part in np.array_split(order, 4):
        calls.partial_fit(X[part], y[part], classes=classes, sample_weight=weight[part])
        assert calls.certificate_.relative_gap <= 1e-6
        assert calls.coef_.shape[0] == (1 if len(classes) == 2 else 3)
        assert (calls.classes_ == classes).all()
    once = LLSVMClassifier(tol=1e-6, class_weight={classes[0]: 2.0}, **SAME).fit(X, y, weight)
    np.testing.assert_allclose(calls.certificate_.primal, once.certificate_.primal, rtol=3e-6)
    assert calls.model_.n_rows == 600
    assert (calls.predict(X) == once.predict(X)).mean() > 0.99
    assert calls.predict(X).dtype.kind == y.dtype.kind
    assert "trained_on" not in calls.model_.extra


def test_a_call_costs_less_than_to_begin_anew(data, monkeypatch):
    """Passes over rows in memory are cheap: it is updates of dual variables that count."""
    X, y = data
    calls, once = LLSVMClassifier(tol=1e-4, **SAME), LLSVMClassifier(tol=1e-4, **SAME)
    calls.partial_fit(X[:1490], y[:1490], classes=[0, 1])
    updates, note = {}, Training.note

    def noted(training, report):
        updates[training] = max(updates.get(training, 0.0), report.extra.get(UPDATES, 0.0))
        note(training, report)

    monkeypatch.setattr(Training, "note", noted)
    calls.partial_fit(X[1490:], y[1490:])
    once.fit(X, y)
    of_call, of_once = updates.values()
    assert of_call < of_once / 2
    assert calls.n_iter_ <= once.n_iter_


@pytest.mark.parametrize("estimator", [LLSVMRegressor(tol=1e-6), LLSVMOutlierDetector(nu=0.2, tol=1e-6)])
def test_numbers_and_outliers_come_in_calls_too(estimator):
    X, _ = rows(n=300, d=5)
    X = np.abs(X)
    y = X @ np.arange(5.0)
    once = clone(estimator).set_params(**SAME).fit(X, y)
    calls = clone(estimator).set_params(**SAME)
    for part in np.array_split(np.arange(300), 3):
        calls.partial_fit(X[part], y[part])
    assert calls.certificate_.total_primal == pytest.approx(
        once.certificate_.total_primal, rel=1e-4, abs=1e-6
    )
    np.testing.assert_allclose(calls.coef_, once.coef_, rtol=0.02, atol=0.01)


@pytest.mark.parametrize("multi_class", ["ovo", "crammer_singer", "softmax"])
def test_other_problems_of_several_classes_in_calls(multi_class):
    X, y = rows(n=300, d=5, classes=3)
    loss = "logistic" if multi_class == "softmax" else "hinge"
    made = LLSVMClassifier(multi_class=multi_class, loss=loss, tol=1e-5, **SAME)
    once, calls = clone(made).fit(X, y), clone(made)
    for part in np.array_split(np.argsort(y), 3):
        calls.partial_fit(X[part], y[part], classes=np.unique(y))
    assert calls.certificate_.total_primal == pytest.approx(once.certificate_.total_primal, rel=1e-4)


def test_a_call_that_is_refused_leaves_the_others_as_they_were(data, folder):
    X, y = data
    calls = LLSVMClassifier(tol=1e-4, **SAME).partial_fit(X[:500], y[:500], classes=[0, 1])
    with pytest.raises(
        DataError, match="the label 7, which is not among the classes of the first call: 0, 1"
    ):
        calls.partial_fit(X[500:], np.full(1000, 7))
    calls.set_params(C=-1)
    with pytest.raises(UsageError):
        calls.partial_fit(X[500:], y[500:])
    calls.set_params(C=1, disk_limit="100KB")
    with pytest.raises(
        DiskError, match=r"those so far take 8\d\.\d kB, these 17\d\.\d kB, and disk_limit is 100KB"
    ):
        calls.partial_fit(X[500:], y[500:])
    assert calls.set_params(disk_limit=None).partial_fit(X[500:], y[500:]).model_.n_rows == 1500


def test_nothing_is_left_of_what_is_kept(data, folder):
    X, y = data
    calls = LLSVMClassifier(**SAME).partial_fit(X, y, classes=[0, 1])
    warm = LLSVMClassifier(warm_start=True, **SAME).fit(X, y)
    assert len(os.listdir(folder)) == 2
    copy = pickle.loads(pickle.dumps(calls))
    assert (copy.predict(X) == calls.predict(X)).all()
    with pytest.warns(LLSVMWarning, match="trains on the rows that it was given itself"):
        assert copy.partial_fit(X[:900], y[:900]).model_.n_rows == 900
    assert pickle.loads(pickle.dumps(warm)).fit(X, y).n_iter_ > 2
    del calls, warm, copy
    gc.collect()
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"class_weight": "balanced"}, "cannot balance classes"),
        ({"lambda2": 0.1}, "are for a mean over rows"),
        ({"text": True}, "with a HashingVectorizer"),
    ],
)
def test_what_follows_from_all_rows_is_refused(data, options, message):
    with pytest.raises(UsageError, match=message):
        LLSVMClassifier(**options).partial_fit(*data, classes=[0, 1])


@pytest.mark.parametrize(
    ("column", "options"),
    [
        (["u", "v"], {}),
        (pd.Categorical([1, 2]), {}),
        (pd.to_datetime(["2024-01-05", "2024-01-06"]), {}),
        ([1, 2], {"categorical": ["b"]}),
    ],
    ids=["text", "categories", "dates", "codes"],
)
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_that_are_more_than_numbers_are_no_batches(column, options, library):
    frame = pd.DataFrame({"a": [0.5, 1.5], "b": column})
    if library == "polars":
        if options == {} and column is not None and getattr(column, "dtype", None) == "category":
            pytest.skip("Polars has no categories of numbers")
        frame = pl.from_pandas(frame)
    which = r" \(column b, say\)" if options == {} else ""
    with pytest.raises(
        UsageError, match=f"partial_fit is for numbers: .*from all rows{which}; make numbers of"
    ):
        LLSVMClassifier(**options).partial_fit(frame, [0, 1], classes=[0, 1])


@pytest.mark.parametrize("X", [["a b", "c"], np.array(["a", "b"], object), pd.Series(["a", "b"])])
def test_documents_are_no_batches(X):
    with pytest.raises(UsageError, match=r"partial_fit is for numbers: .*with a HashingVectorizer"):
        LLSVMClassifier().partial_fit(X, [0, 1], classes=[0, 1])


def test_frames_of_numbers_and_truth_values_come_in_calls():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": rng.normal(size=80), "b": rng.random(80) < 0.5, "c": pd.array(rng.integers(0, 5, 80), "Int64")}
    )
    y = frame["a"] > 0
    for given in (frame, pl.from_pandas(frame)):
        calls = LLSVMClassifier(tol=1e-6, **SAME).partial_fit(given[:40], y[:40], classes=[False, True])
        calls.partial_fit(given[40:], y[40:])
        whole = LLSVMClassifier(tol=1e-6, **SAME).fit(given, y)
        np.testing.assert_allclose(calls.coef_, whole.coef_, atol=1e-6)


@pytest.mark.parametrize("labels", [[1, 2, 3], [True, False], ["b", "a"], [Decimal(1), Decimal(2)]])
def test_labels_in_arrays_of_objects_are_those_of_fit(labels):
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.array(labels, object)[np.digitize(X[:, 0], np.linspace(-0.5, 0.5, len(labels) - 1))]
    calls = (
        LLSVMClassifier(**SAME).partial_fit(X[:30], y[:30], classes=np.unique(y)).partial_fit(X[30:], y[30:])
    )
    whole = LLSVMClassifier(**SAME).fit(X, y)
    assert calls.classes_.dtype == whole.classes_.dtype
    assert calls.predict(X).dtype == whole.predict(X).dtype
    assert calls.score(X, y) == pytest.approx(whole.score(X, y), abs=0.05)


def test_classes_are_told_once(data):
    X, y = data
    with pytest.raises(UsageError, match="classes must be passed on the first call to partial_fit"):
        LLSVMClassifier().partial_fit(X, y)
    calls = LLSVMClassifier(**SAME).partial_fit(X, y, classes=[1, 0])
    with pytest.raises(UsageError, match=r"classes are \[0, 1, 2\], but so far they were \[0, 1\]"):
        calls.partial_fit(X, y, classes=[0, 1, 2])
    fitted = LLSVMClassifier(**SAME).fit(X, y)
    with pytest.warns(LLSVMWarning, match="those of fit are not kept"):
        assert fitted.partial_fit(X[:900], y[:900]).model_.n_rows == 900
