"""The scikit-learn estimator."""

import pickle

import numpy as np
import pytest
from oracle import rows, write_svmlight
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC, LinearSVR
from sklearn.utils.estimator_checks import parametrize_with_checks

import llsvm.estimators.base
import llsvm.memory.process
from llsvm import LLSVMClassifier, LLSVMOutlierDetector, LLSVMRegressor
from llsvm.errors import UsageError


def test_a_remedy_is_one_that_the_estimator_has():
    X, y = rows(n=60, d=3)
    with pytest.warns(ConvergenceWarning, match="put a StandardScaler.*before the estimator"):
        LLSVMClassifier(solver="nesvm", max_iter=12, tol=1e-9, C=10).fit(1e4 * X, y)


@parametrize_with_checks([LLSVMClassifier()])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        *(LLSVMClassifier(loss=loss) for loss in ("squared_hinge", "least-squares")),
        LLSVMRegressor(loss="quantile"),
    ]
)
def test_scikit_learns_checks_of_other_losses(estimator, check):
    check(estimator)


@pytest.mark.parametrize("classes", [2, 3])
def test_fit_agrees_with_linear_svc(classes):
    X, y = rows(classes=classes)
    ours = LLSVMClassifier(tol=1e-6).fit(X, y)
    theirs = LinearSVC(loss="hinge", tol=1e-9, max_iter=1_000_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=0.01 * np.abs(theirs.coef_).max())
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=0.01)
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=0.01)
    assert ours.certificate_.relative_gap <= 1e-6
    assert ours.n_iter_ >= 1


@pytest.mark.parametrize(("n_jobs", "threads"), [(None, None), (2, 2), (-1, 8), (-2, 7), (-99, 1)])
def test_n_jobs_counts_down_from_all_processors(monkeypatch, n_jobs, threads):
    monkeypatch.setattr(llsvm.estimators.base, "default_threads", lambda: 8)
    assert LLSVMClassifier(n_jobs=n_jobs)._settings().threads == threads


def test_n_jobs_is_obeyed():
    X, y = rows()
    assert LLSVMClassifier(n_jobs=-1).fit(X, y).certificate_.relative_gap <= 1e-3


@pytest.mark.parametrize(
    ("name", "value"),
    [("C", "1"), ("n_jobs", 0), ("n_jobs", "all"), ("max_iter", 2.5), ("fit_intercept", "no"), ("tol", None)],
)
def test_values_of_the_wrong_type_are_refused_by_their_name(name, value):
    X, y = rows()
    with pytest.raises(UsageError, match=f"^{name} must"):
        LLSVMClassifier(**{name: value}).fit(X, y)


def test_fit_file_reads_tables(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,b,kind\n" + "".join(f"{i % 7},{1000 * i},{'uv'[i % 7 > 3]}\n" for i in range(99)))
    model = LLSVMClassifier().fit_file(path, label="kind", exclude=("b",), scale="standard")
    assert model.classes_.tolist() == ["u", "v"]
    assert model.predict([[0.0], [6.0]]).tolist() == ["u", "v"]
    with pytest.raises(UsageError, match="unknown option 'colour'; there are format, label"):
        model.fit_file(path, colour="red")


def test_fit_file_is_fit(tmp_path):
    X, y = rows(density=0.6)
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    from_file = LLSVMClassifier(random_state=0).fit_file(path)
    from_arrays = LLSVMClassifier(random_state=0).fit(X, y)
    np.testing.assert_allclose(from_file.coef_, from_arrays.coef_, rtol=1e-8, atol=1e-9)
    assert from_file.n_features_in_ == X.shape[1]
    np.testing.assert_array_equal(from_file.predict(X), from_arrays.predict(X))


def test_no_limit_given_never_refuses_small_arrays_in_a_large_process(monkeypatch):
    monkeypatch.setattr(llsvm.memory.process, "resident_bytes", lambda: 60_000_000_000)
    monkeypatch.setattr(llsvm.memory.process, "available_bytes", lambda: 60_000_001_000)
    X, y = rows()
    assert LLSVMClassifier().fit(X, y).certificate_.relative_gap <= 1e-3


def test_read_only_arrays():
    X, y = rows()
    weight = np.ones(len(y))
    for array in (X, y, weight):
        array.flags.writeable = False
    assert LLSVMClassifier().fit(X, y, sample_weight=weight).score(X, y) > 0.7


def test_not_converged_warns():
    X, y = rows(n=4000, noise=2.0)
    with pytest.warns(ConvergenceWarning, match="not converged: relative gap"):
        LLSVMClassifier(solver="nesvm", max_iter=2, tol=1e-12, C=100.0).fit(X, y)


def test_wrong_parameters_are_value_errors():
    X, y = rows()
    for wrong in (
        {"C": -1},
        {"loss": "log"},
        {"tol": 0},
        {"memory_limit": "many"},
        {"class_weight": {7: 1.0}},
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            LLSVMClassifier(**wrong).fit(X, y)


@parametrize_with_checks(
    [
        LLSVMRegressor(),
        LLSVMRegressor(loss="huber", penalize_intercept=False, tol=1e-9),
    ]
)
def test_scikit_learns_checks_of_a_regressor(estimator, check):
    check(estimator)


@parametrize_with_checks([LLSVMOutlierDetector()])
def test_scikit_learns_checks_of_an_outlier_detector(estimator, check):
    check(estimator)


def regression_rows(n=300, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d) + 0.5 + 0.3 * rng.normal(size=n)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_the_regressor_agrees_with_linear_svr(loss):
    X, y = regression_rows()
    ours = LLSVMRegressor(loss=loss, epsilon=0.05, tol=1e-6).fit(X, y)
    theirs = LinearSVR(loss=loss, epsilon=0.05, tol=1e-9, max_iter=1_000_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_[0], theirs.coef_, atol=0.01)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=0.01)
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-3)


def test_a_regressor_reads_files_and_refuses_what_is_for_classes(tmp_path):
    X, y = regression_rows()
    path = tmp_path / "rows.csv"
    np.savetxt(path, np.c_[X, y], delimiter=",", header="a,b,c,d,e,f,price", comments="")
    model = LLSVMRegressor().fit_file(path, label="price")
    assert model.score(X, y) > 0.9
    with pytest.raises(
        UsageError, match=r"^positive is for classes, and loss epsilon_insensitive takes labels"
    ):
        LLSVMRegressor().fit_file(path, label="price", positive=1)
    with pytest.raises(UsageError, match="loss huber is for LLSVMRegressor, not for LLSVMClassifier"):
        LLSVMClassifier(loss="huber").fit(X, y > 0)
    with pytest.raises(UsageError, match="loss hinge is for LLSVMClassifier"):
        LLSVMRegressor(loss="hinge").fit(X, y)
    for estimator in (LLSVMClassifier, LLSVMRegressor):
        with pytest.raises(UsageError, match="loss one_class is for LLSVMOutlierDetector, not for"):
            estimator(loss="one_class").fit(X, y > 0)


def test_quantiles_of_the_targets():
    rng = np.random.default_rng(0)
    y = rng.normal(size=999)
    X = np.ones((999, 1))
    for tau in (0.1, 0.5, 0.9):
        model = LLSVMRegressor(loss="quantile", quantile=tau, C=100, fit_intercept=False, tol=1e-6).fit(X, y)
        assert (y <= model.predict(X)).mean() == pytest.approx(tau, abs=0.01)


# Two fits of the same problem are as alike as tol says; scikit-learn, whose own have 1e-12 here, asks for 1e-7.
@parametrize_with_checks(
    [
        LLSVMClassifier(loss="logistic", tol=1e-12),
        LLSVMClassifier(loss="logistic", penalize_intercept=False, tol=1e-12),
    ]
)
def test_scikit_learns_checks_of_a_logistic_classifier(estimator, check):
    check(estimator)


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_those_of_logistic_regression(classes):
    X, y = rows(classes=classes)
    ours = LLSVMClassifier(loss="logistic", tol=1e-8).fit(X, y)
    theirs = LogisticRegression(solver="liblinear", tol=1e-10, max_iter=10_000)
    theirs = (theirs if classes == 2 else OneVsRestClassifier(theirs)).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)
    np.testing.assert_allclose(ours.predict_log_proba(X), np.log(ours.predict_proba(X)))
    evaluated = llsvm.evaluate(ours.model_, X, y)
    assert evaluated["log_loss"] == pytest.approx(log_loss(y, ours.predict_proba(X)), rel=1e-9)


def test_probabilities_of_softmax():
    X, y = rows(classes=3)
    ours = LLSVMClassifier(loss="logistic", multi_class="softmax", fit_intercept=False, tol=1e-8).fit(X, y)
    theirs = LogisticRegression(fit_intercept=False, tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)
    np.testing.assert_array_equal(ours.classes_[ours.predict_proba(X).argmax(axis=1)], ours.predict(X))
    two = LLSVMClassifier(loss="logistic", multi_class="softmax", fit_intercept=False, tol=1e-8).fit(X, y > 0)
    theirs.fit(np.sqrt(2) * X, y > 0)  # of two classes' weights u and -u, ‖u‖² + ‖u‖² is ‖2u‖² / 2
    np.testing.assert_allclose(two.predict_proba(X), theirs.predict_proba(np.sqrt(2) * X), atol=1e-3)


def test_probabilities_of_pairs():
    X, y = rows(classes=3)
    ours = LLSVMClassifier(loss="logistic", multi_class="ovo").fit(X, y)
    p = ours.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert (ours.classes_[p.argmax(axis=1)] == ours.predict(X)).mean() > 0.97  # votes may differ


def test_probabilities_where_the_loss_has_them():
    assert not hasattr(LLSVMClassifier(), "predict_proba")
    assert hasattr(LLSVMClassifier(loss="logistic"), "predict_proba")


def test_a_kernel_has_no_coef_as_in_scikit_learn():
    X, y = np.random.default_rng(0).standard_normal((40, 3)), np.arange(40) % 2
    fitted = LLSVMClassifier(kernel="rbf", penalize_intercept=False).fit(X, y)
    assert not hasattr(fitted, "coef_")
    with pytest.raises(AttributeError, match="coef_ is of linear models"):
        _ = fitted.coef_
    assert fitted.dual_coef_.shape[0] == 1
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.dual_coef_, fitted.dual_coef_)
    linear = fitted.set_params(kernel=None).fit(X, y)
    assert linear.coef_.shape == (1, 3)
    assert not hasattr(linear, "dual_coef_")
    mapped = LLSVMClassifier(feature_map="rff", components=8).fit(X, y)
    assert mapped.coef_.shape == (1, 8)
    with pytest.raises(AttributeError, match="no attribute 'coef_'"):
        _ = LLSVMClassifier().coef_


@pytest.mark.parametrize("estimator", [LLSVMClassifier, LLSVMRegressor])
def test_labels_that_are_no_column_are_refused_as_by_scikit_learn(estimator):
    X, y = rows(60)
    for given, message in (
        (sparse.csr_matrix(y[:, None]), "Sparse data was passed"),
        ((label for label in y), "1d array"),
        (np.array(1, object), "1d array"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            estimator().fit(X, given)
