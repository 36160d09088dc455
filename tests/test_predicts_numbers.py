"""Models that predict numbers, tell outliers, or give probabilities: predictions, figures, files, commands."""

import io
import json
import zipfile

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn import metrics
from test_predict import Rows
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.errors import DataError, ModelError, UsageError
from llsvm.models.model import Model
from llsvm.scoring import FIGURES
from llsvm.scoring.measure import measure
from llsvm.scoring.predictions import predict_file
from llsvm.settings.objective import REGRESSION, UNLABELLED

N, D = 60, 4


def rows(seed=0):
    rng = np.random.default_rng(seed)
    return np.round(rng.normal(size=(N, D)), 3).astype(np.float32), rng


def regression():
    extra = {"label_kind": REGRESSION, "double": True}
    settings = {"loss": "epsilon_insensitive"}
    return Model(
        [[1.0, -2.0, 0.5, 3.0]],
        [0.25],
        np.empty(0),
        settings=settings,
        extra=extra,
        requires=("label_kind", "double"),
    )


def one_class():
    extra = {"label_kind": UNLABELLED}
    return Model([[1.0, 0.0, 0.0, 1.0]], [0.5], np.array([-1.0, 1.0]), extra=extra, requires=("label_kind",))


def logistic(k, multiclass="ovr", seed=1):
    rng = np.random.default_rng(seed)
    rows_of_weights = {2: 1}.get(k, k * (k - 1) // 2 if multiclass == "ovo" else k)
    extra = {"multi_class": "ovo"} if multiclass == "ovo" else {}
    settings = {"loss": "logistic", "multiclass": multiclass}
    shape = (rows_of_weights, D)
    return Model(
        rng.normal(size=shape), rng.normal(size=rows_of_weights), np.arange(k), settings=settings, extra=extra
    )


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def written(model, X, **options):
    out = io.StringIO()
    predict_file(model, Rows(X, np.zeros(len(X))), out, **options)
    return out.getvalue().splitlines()


# -- numbers -------------------------------------------------------------------------------------------------


def test_a_regression_predicts_its_scores(tmp_path):
    model, (X, _) = regression(), rows()
    expected = X.astype(float) @ model.coef_[0] + 0.25
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-6)
    np.testing.assert_array_equal(model.decision_function(X), model.predict(X))
    np.testing.assert_allclose(np.array(written(model, X), float), expected, rtol=1e-6)
    np.testing.assert_array_equal(llsvm.predict(model, X), model.predict(X))
    with pytest.raises(UsageError, match="the score of a regression is the number"):
        written(model, X, more="scores")


def test_its_file(tmp_path):
    model, path = regression(), tmp_path / "new.model"
    model.save(path)
    loaded = llsvm.load(path)
    assert loaded.is_regression
    assert len(loaded.classes_) == 0
    X, _ = rows()
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("header.json"))
    assert (
        "label_kind" in header["requires"]
    )  # older packages refuse it, instead of taking it for a classifier
    assert header["format_version"] == 1


def test_a_regression_has_no_classes_and_a_classifier_has():
    with pytest.raises(ModelError, match="classes"):
        Model([[1.0]], [0.0], np.array([1.0, 2.0]), extra={"label_kind": REGRESSION})
    with pytest.raises(ModelError, match="classes"):
        Model([[1.0]], [0.0], np.empty(0))


@pytest.mark.parametrize("q", [0.05, 0.5, 0.9])
def test_the_figures_of_a_quantile(q):
    X, rng = rows()
    y = X[:, 0] + rng.normal(size=N)
    w = rng.integers(0, 4, N) / 2
    model = llsvm.train(X, y, loss="quantile", quantile=q)
    p = model.predict(X)
    answer = llsvm.evaluate(model, X, y, w)
    expected = metrics.mean_pinball_loss(y, p, sample_weight=w, alpha=q)
    assert answer["pinball_loss"] == pytest.approx(expected, rel=1e-6)
    assert answer["coverage"] == pytest.approx(np.average(y <= p, weights=w), abs=0.01)
    assert next(name for name in FIGURES if name in answer) == "pinball_loss"
    assert "coverage" not in measure(regression(), Rows(X, y))


def test_the_figures_of_a_regression():
    model, (X, rng) = regression(), rows()
    p = model.predict(X)
    y = p + rng.normal(size=N) + 1e6
    answer = measure(model, Rows(X, y))
    assert answer["rows"] == N
    assert answer["r2"] == pytest.approx(metrics.r2_score(y, p), rel=1e-9)
    assert answer["mean_absolute_error"] == pytest.approx(metrics.mean_absolute_error(y, p), rel=1e-12)
    assert answer["mean_squared_error"] == pytest.approx(metrics.mean_squared_error(y, p), rel=1e-12)
    assert answer["root_mean_squared_error"] == pytest.approx(
        metrics.root_mean_squared_error(y, p), rel=1e-12
    )
    assert next(name for name in FIGURES if name in answer) == "r2"
    assert np.isnan(measure(model, Rows(X[:1], y[:1]))["r2"])  # as scikit-learn's of one row
    assert measure(model, Rows(X, np.full(N, 3.0)))["r2"] == 0.0


def test_text_is_no_target():
    with pytest.raises(DataError, match="row 3: the label 'ask'"):
        llsvm.evaluate(regression(), rows()[0][:3], np.array(["1", "2", "ask"]))


def test_evaluate_prints_the_figures_of_a_regression(tmp_path):
    model, path, data = regression(), tmp_path / "new.model", tmp_path / "rows.csv"
    model.save(path)
    X, _ = rows()
    p = model.predict(X)
    np.savetxt(data, np.c_[X, p + 1], delimiter=",", header="a,b,c,d,label", comments="")
    done = run("evaluate", path, data)
    assert done.exit_code == 0, done.output
    assert "R²" in done.stdout
    assert "mean absolute error 1\n" in done.stdout
    answer = json.loads(run("evaluate", path, data, "--json").stdout)
    assert answer["mean_squared_error"] == pytest.approx(1.0, abs=1e-6)
    done = run("evaluate", path, data, "--plot", tmp_path / "x.png")
    assert done.exit_code == 2
    assert "--plot" in done.stderr
    done = run("inspect", path)
    assert "that predicts numbers" in done.stdout
    assert "classes" not in done.stdout.split("setting")[0]
    done = run("inspect", data, "--loss", "huber")
    assert "labels scaled to mean 0" in done.stdout
    assert "scaled " not in done.stdout.split("column")[0]  # no "scaled 0" beside the target as it is


# -- outliers ------------------------------------------------------------------------------------------------


def test_outliers_are_the_class_of_negative_scores(tmp_path):
    model, (X, _) = one_class(), rows()
    path = tmp_path / "new.model"
    model.save(path)
    score = X[:, 0] + X[:, 3] + 0.5
    expected = np.where(score > 0, 1, -1)
    np.testing.assert_array_equal(llsvm.load(path).predict(X), expected)
    assert written(model, X) == [str(label) for label in expected]


def test_the_figures_of_outliers():
    model, (X, rng) = one_class(), rows()
    p = model.predict(X)
    unlabelled = llsvm.evaluate(model, X)
    assert unlabelled == {"rows": N, "outliers": (p < 0).sum(), "outlier_share": (p < 0).mean()}
    y = np.where(rng.random(N) < 0.3, -p, p)
    answer = llsvm.evaluate(model, X, y)
    outlier, inlier = answer["labelled"]["classes"]
    assert (outlier["label"], inlier["label"]) == ("-1", "1")
    assert outlier["precision"] == pytest.approx(metrics.precision_score(y, p, pos_label=-1))
    assert outlier["recall"] == pytest.approx(metrics.recall_score(y, p, pos_label=-1))
    some = np.where(np.arange(N) < 20, y, 0)  # 0: not known
    assert llsvm.evaluate(model, X, some)["labelled"]["rows"] == 20
    assert "labelled" not in llsvm.evaluate(model, X, np.array(["a", "b"] * (N // 2)))


def test_evaluate_needs_no_labels_of_outliers(tmp_path):
    model, path, data = one_class(), tmp_path / "new.model", tmp_path / "rows.csv"
    model.save(path)
    X, _ = rows()
    np.savetxt(data, X, delimiter=",", header="a,b,c,d", comments="")
    done = run("evaluate", path, data)
    assert done.exit_code == 0, done.output
    assert "rows are outliers" in done.stdout
    assert "precision" not in done.stdout
    np.savetxt(data, np.c_[X, model.predict(X)], delimiter=",", header="a,b,c,d,label", comments="")
    assert "accuracy 100" in run("evaluate", path, data).stdout
    assert "that tells outliers" in run("inspect", path).stdout


# -- probabilities -------------------------------------------------------------------------------------------


def test_two_classes_are_the_sigmoid():
    model, (X, _) = logistic(2), rows()
    p = model.predict_proba(1e3 * X)
    z = model.decision_function(1e3 * X)
    np.testing.assert_allclose(p, np.c_[expit(-z), expit(z)], rtol=1e-12)
    assert (p >= 0).all()


@pytest.mark.parametrize("size", [1.0, 1e4])
def test_one_against_the_rest_is_as_liblinear_has_it(size):
    model, (X, _) = logistic(4), rows()
    z = model.decision_function(size * X)
    p = model.predict_proba(size * X)
    assert np.isfinite(p).all()  # where all sigmoids are 0 in floats too
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    if size == 1.0:
        sigmoids = expit(z)
        np.testing.assert_allclose(p, sigmoids / sigmoids.sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(p[np.arange(N), z.argmax(axis=1)], p.max(axis=1))


def test_a_joint_problem_is_softmax():
    model, (X, _) = logistic(3, "softmax"), rows()
    np.testing.assert_allclose(
        model.predict_proba(X), softmax(model.decision_function(X), axis=1), rtol=1e-12
    )


def test_pairs_are_coupled():
    """Against scipy's minimiser of Wu, Lin and Weng's second problem; and consistent pairs give back their p."""
    from scipy.optimize import minimize

    k, rng = 4, np.random.default_rng(0)
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    scores = 2 * rng.normal(size=(5, len(pairs)))
    model = logistic(k, "ovo")
    found = model.probabilities(scores)
    for row, p in zip(scores, found, strict=True):
        r = np.zeros((k, k))
        for (i, j), z in zip(pairs, row, strict=True):
            r[i, j], r[j, i] = expit(z), expit(-z)

        def objective(q, r=r):
            return sum((r[j, i] * q[i] - r[i, j] * q[j]) ** 2 for i in range(k) for j in range(k) if i != j)

        best = minimize(
            objective,
            np.full(k, 1 / k),
            bounds=[(0, 1)] * k,
            constraints={"type": "eq", "fun": lambda q: q.sum() - 1},
        )
        assert objective(p) <= best.fun + 1e-8
        assert p.sum() == pytest.approx(1.0)
    p = np.array([0.1, 0.2, 0.3, 0.4])
    consistent = np.array([[np.log(p[i] / p[j]) for i, j in pairs]])
    np.testing.assert_allclose(model.probabilities(consistent)[0], p, rtol=1e-9)


@pytest.mark.parametrize("k", [2, 3])
def test_log_loss_and_brier(k):
    model, (X, rng) = logistic(k), rows()
    y = rng.integers(0, k, N)
    p = model.predict_proba(X)
    answer = measure(model, Rows(X, y, step=7))
    assert answer["log_loss"] == pytest.approx(metrics.log_loss(y, p), rel=1e-9)
    squares = ((p - np.eye(k)[y]) ** 2).sum(axis=1).mean()
    assert answer["brier_score"] == pytest.approx(squares / 2 if k == 2 else squares, rel=1e-9)
    if k == 2:
        assert answer["brier_score"] == pytest.approx(metrics.brier_score_loss(y, p[:, 1]), rel=1e-9)
    some = y.copy()
    some[:5] = 77  # of labels that the model does not know, nothing is said
    answer = measure(model, Rows(X, some))
    assert answer["log_loss"] == pytest.approx(metrics.log_loss(y[5:], p[5:]), rel=1e-9)


def test_probabilities_in_a_file(tmp_path):
    model, path, data = logistic(3), tmp_path / "new.model", tmp_path / "rows.csv"
    model.save(path)
    X, _ = rows()
    np.savetxt(data, X, delimiter=",", header="a,b,c,d", comments="", fmt="%.3f")
    done = run("predict", path, data, "--probabilities")
    assert done.exit_code == 0, done.output
    table = [line.split("\t") for line in done.stdout.splitlines()]
    expected = model.predict_proba(X)
    np.testing.assert_allclose(np.array([row[1:] for row in table], float), expected, rtol=1e-9)
    assert [int(row[0]) for row in table] == expected.argmax(axis=1).tolist()
    np.testing.assert_array_equal(llsvm.predict(path, str(data), probabilities=True), expected)
    assert "log loss" in run("evaluate", path, _labelled(data, X)).stdout
    done = run("predict", path, data, "--probabilities", "--scores")
    assert (done.exit_code, "choose one" in done.stderr) == (2, True)


def _labelled(data, X):
    path = data.with_name("labelled.csv")
    y = np.arange(len(X)) % 3
    np.savetxt(path, np.c_[X, y], delimiter=",", header="a,b,c,d,label", comments="", fmt="%.3f")
    return path


def test_other_losses_have_none(tmp_path):
    model, path, data = (
        Model([[1.0] * D], [0.0], [0, 1], settings={"loss": "hinge"}),
        tmp_path / "m",
        tmp_path / "d",
    )
    model.save(path)
    data.write_text("1 1:2\n")
    output = tmp_path / "labels.txt"
    done = run("predict", path, data, "--probabilities", "--output", output)
    assert done.exit_code == 3
    assert "the hinge loss gives scores, but no probabilities" in done.stderr
    assert "llsvm tune --probabilities platt" in done.stderr
    assert not output.exists()
    for ask in (
        lambda: model.predict_proba(np.eye(D)),
        lambda: llsvm.predict(model, np.eye(D), probabilities=True),
    ):
        with pytest.raises(ModelError, match="no probabilities"):
            ask()
    assert "log_loss" not in measure(model, Rows(np.eye(D, dtype=np.float32), [0, 1, 0, 1]))
