"""--prune: small weights become zero, and the certificate is that of what is left."""

import itertools
import json
import lzma
import math

import numpy as np
import pytest
import scipy.sparse as sp
from oracle import rows, run, small_pages, write_svmlight
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.errors import BudgetError, UsageError
from llsvm.estimators.classifier import LLSVMClassifier
from llsvm.estimators.outlier_detector import LLSVMOutlierDetector
from llsvm.estimators.regressor import LLSVMRegressor


def threshold(*data, share=0.3, **options):
    """Below which a share of the weights is that training comes to, those that are not zero."""
    size = np.abs(llsvm.train(*data, **options).coef_)
    return float(np.quantile(size[size > 0], share))


def trained(*data, share=0.3, **options):
    return llsvm.train(*data, prune=threshold(*data, share=share, **options), **options)


def hinge(m):
    return np.maximum(0.0, 1.0 - m)


def one_against(coef, X, y, pairs, loss):
    """(p,) objectives of problems of two sides; X has the constant feature."""
    k = int(y.max()) + 1
    if k == 2:
        sides = [(np.where(y == 1, 1.0, -1.0))]
    elif pairs:
        sides = [1.0 * (y == i) - (y == j) for i, j in itertools.combinations(range(k), 2)]
    else:
        sides = [np.where(y == c, 1.0, -1.0) for c in range(k)]
    return [
        0.5 * w @ w + (np.abs(side) * loss(side * (X @ w))).sum() for w, side in zip(coef, sides, strict=True)
    ]


def joint(coef, X, y, name):
    W = np.vstack([-coef / 2, coef / 2]) if len(coef) == 1 else coef
    s = X @ W.T
    own = s[np.arange(len(y)), y]
    others = np.arange(s.shape[1]) != y[:, None]
    each = {
        "crammer-singer": lambda: (s + others).max(axis=1) - own,
        "weston-watkins": lambda: (others * np.maximum(0, 1 + s - own[:, None])).sum(axis=1),
        "softmax": lambda: np.log(np.exp(s - own[:, None]).sum(axis=1)),
    }[name]()
    return [0.5 * (W**2).sum() + each.sum()]


def check(model, primal, tight=True):
    """The certificate is of the pruned weights, and those that are left are large."""
    certificate, told = model.certificate, model.extra["pruned"]
    np.testing.assert_allclose(certificate.primal, primal, rtol=1e-6)
    np.testing.assert_allclose(told["primal"], sum(primal), rtol=1e-6)
    assert told["primal_before"] == model.history[-1]["primal"]
    assert 0 < told["dropped"] < told["weights"]
    assert np.count_nonzero(model.coef_) == told["weights"] - told["dropped"]
    assert certificate.total_dual == pytest.approx(sum(certificate.dual))
    if tight:
        assert told["relative_cost"] > 0
        assert certificate.relative_gap > told["relative_gap_before"]
        assert model.converged


def data(classes, density=0.4, d=20):
    X, y = rows(n=500, d=d, seed=3, classes=classes, density=density)
    return X / 4, y


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("classes", "options"),
    [
        (2, {"solver": "llsvm"}),
        (2, {"solver": "smsvm"}),
        (2, {"solver": "nesvm"}),
        (2, {"solver": "llsvm", "loss": "squared_hinge"}),
        (2, {"loss": "logistic"}),
        (4, {"solver": "llsvm"}),
        (4, {"solver": "smsvm"}),
        (4, {"solver": "llsvm", "multiclass": "ovo"}),
        (4, {"solver": "nesvm", "multiclass": "ovo"}),
    ],
)
def test_the_objective_is_that_of_the_pruned_weights(sparse, classes, options):
    X, y = data(classes)
    model = trained(sp.csr_matrix(X) if sparse else X, y, bias=1.0, **options)
    loss = {
        "squared_hinge": lambda m: hinge(m) ** 2,
        "logistic": lambda m: np.log1p(np.exp(-m)),
    }.get(options.get("loss"), hinge)
    coef, wide = np.c_[model.coef_, model.intercept_], np.c_[X, np.ones(len(X))]
    check(model, one_against(coef, wide, y, options.get("multiclass") == "ovo", loss))
    assert np.abs(model.coef_[model.coef_ != 0]).min() >= model.settings["prune"]


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("name", ["crammer-singer", "weston-watkins", "softmax"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_objective_of_joint_problems_too(name, classes):
    X, y = data(classes)
    more = {"loss": "logistic"} if name == "softmax" else {}
    model = trained(sp.csr_matrix(X), y, bias=1.0, multiclass=name, **more)
    check(model, joint(np.c_[model.coef_, model.intercept_], np.c_[X, np.ones(len(X))], y, name))


@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
def test_penalties_weights_of_rows_and_classes_count(penalty):
    X, y = data(2)
    weight = np.random.default_rng(1).integers(1, 4, len(y)) / 2
    options = {"sample_weight": weight, "class_weight": {1: 2.0}, "penalty": penalty, "intercept": True}
    model = trained(X, y, C=0.5, **options)
    w, sign = model.coef_[0], np.where(y == 1, 1.0, -1.0)
    cost = 0.5 * weight * np.where(y == 1, 2.0, 1.0)
    l1 = {"l1": 1.0, "elasticnet": 0.5}[penalty]
    losses = cost @ hinge(sign * (X @ w + model.intercept_[0]))
    check(model, [0.5 * (1 - l1) * w @ w + l1 * np.abs(w).sum() + losses])


@pytest.mark.parametrize(
    ("loss", "of"),
    [
        ("epsilon_insensitive", lambda r: np.maximum(0, np.abs(r) - 0.1)),
        ("squared_epsilon_insensitive", lambda r: np.maximum(0, np.abs(r) - 0.1) ** 2),
        ("huber", lambda r: np.where(np.abs(r) <= 1, r**2 / 2, np.abs(r) - 0.5)),
        ("quantile", lambda r: np.maximum(0.5 * r, -0.5 * r)),
    ],
)
def test_the_objective_of_a_regression(loss, of):
    X, _ = data(2)
    y = X @ np.linspace(-0.3, 0.4, X.shape[1]) + np.random.default_rng(0).normal(size=len(X)) / 5
    model = trained(X, y, loss=loss, bias=1.0, target_scale="none")
    w = np.r_[model.coef_[0], model.intercept_]
    check(model, [0.5 * w @ w + of(y - np.c_[X, np.ones(len(X))] @ w).sum()])


def test_the_objective_of_one_class():
    X, _ = data(2)
    X = np.abs(X) + np.linspace(0, 0.3, X.shape[1])
    model = trained(X, loss="one_class", nu=0.3)
    w, rho = model.coef_[0], -model.intercept_[0]
    primal = 0.5 * w @ w - 0.3 * len(X) * rho + np.maximum(0, rho - X @ w).sum()
    check(model, [primal])


def test_weights_are_compared_as_of_scaled_columns(tmp_path):
    X, y = data(2)
    path = tmp_path / "rows.csv"
    names = ",".join(f"f{j}" for j in range(X.shape[1]))
    np.savetxt(
        path, np.c_[y, X * np.logspace(-4, 4, X.shape[1])], delimiter=",", header="y," + names, comments=""
    )
    model = llsvm.train(path, label="y", prune=0.3)
    raw = np.loadtxt(path, delimiter=",", skiprows=1)
    scaled = (raw[:, 1:] - raw[:, 1:].mean(axis=0)) / raw[:, 1:].std(axis=0)
    of_scaled = model.coef_[0] * raw[:, 1:].std(axis=0)
    bias = model.intercept_[0] + model.coef_[0] @ raw[:, 1:].mean(axis=0)
    assert np.abs(of_scaled[of_scaled != 0]).min() >= 0.3 * (1 - 1e-5)
    sign = np.where(y == 1, 1.0, -1.0)
    primal = 0.5 * (of_scaled @ of_scaled + bias**2) + hinge(sign * (scaled @ of_scaled + bias)).sum()
    np.testing.assert_allclose(model.certificate.total_primal, primal, rtol=1e-4)
    assert model.extra["pruned"]["dropped"] > 0


@pytest.mark.parametrize(
    ("classes", "options"),
    [
        (2, {"solver": "llsvm"}),
        (2, {"solver": "smsvm"}),
        (3, {"solver": "nesvm"}),
        (3, {"multiclass": "crammer-singer"}),
        (3, {"multiclass": "softmax", "loss": "logistic"}),
    ],
)
@pytest.mark.parametrize("cache", ["always", "never"])
def test_the_same_out_of_core(tmp_path, monkeypatch, classes, options, cache):
    small_pages(monkeypatch)
    X, y = data(classes)
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    ledger = 3_000_000
    training = run(path, ledger=ledger, prune=0.7, cache=cache, **options)
    assert training.stream.budget.limit_bytes == ledger
    assert sum(training.stream.budget.lines.values()) <= ledger
    model, summary = training.model, training.summary()
    wide = np.c_[model.coef_, model.intercept_], np.c_[X, np.ones(len(X))], y
    multiclass = options.get("multiclass")
    expected = joint(*wide, multiclass) if multiclass else one_against(*wide, False, hinge)
    np.testing.assert_allclose(model.certificate.primal, expected, rtol=1e-6)
    assert summary["pruned"] == model.extra["pruned"]
    assert summary["relative_gap"] == model.certificate.relative_gap


def test_the_command_says_what_it_cost_as_python_does(tmp_path):
    X, y = data(3)
    path, model = write_svmlight(tmp_path / "rows.svm", X, y), tmp_path / "m"
    words = ["train", str(path), "--model", str(model), "--prune", "0.7", "--seed", "0", "--threads", "1"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0
    held, there = llsvm.load(model), llsvm.train(path, prune=0.7, threads=1)
    np.testing.assert_array_equal(held.coef_, there.coef_)
    assert held.extra["pruned"] == there.extra["pruned"]
    told = held.extra["pruned"]
    assert held.certificate.relative_gap > 1e-3 >= told["relative_gap_before"]
    assert held.converged  # which pruning does not change
    assert f"pruned: {told['dropped']:,} of {told['weights']:,} weights were below 0.7" in done.stdout
    assert "whether it converged was judged before pruning" in done.stdout
    answer = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert answer["pruned"] == told
    assert answer["relative_gap"] == held.certificate.relative_gap
    assert answer["nonzero_weights"] == np.count_nonzero(held.coef_)
    shown = CliRunner().invoke(app, ["inspect", str(model), "--json"])
    assert json.loads(shown.stdout)["certificate"]["relative_gap"] == answer["relative_gap"]


def test_without_it_nothing_is_said():
    X, y = data(2)
    training = run(X, y)
    assert training.summary()["pruned"] is None
    assert "pruned" not in training.model.extra


def test_a_run_that_has_ended_says_it_again(tmp_path):
    X, y = data(2)
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    words = ["train", str(path), "--model", str(tmp_path / "m"), "--state", str(tmp_path / "state")]
    answers = [
        json.loads(CliRunner().invoke(app, [*words, "--prune", "0.1", "--json"]).stdout) for _ in range(2)
    ]
    assert answers[0]["pruned"] == answers[1]["pruned"] != None  # noqa: E711
    assert answers[0]["relative_gap"] == answers[1]["relative_gap"]
    other = json.loads(CliRunner().invoke(app, [*words, "--prune", "0.2", "--json"]).stdout)
    assert other["pruned"]["dropped"] > answers[0]["pruned"]["dropped"]  # it begins at the duals of the first


def test_a_threshold_above_every_weight_warns():
    X, y = data(2)
    with pytest.warns(UserWarning, match="every weight was below prune 100 and is gone"):
        model = llsvm.train(X, y, prune=100.0)
    assert not model.coef_.any()
    assert model.certificate.total_primal == pytest.approx(len(y))


@pytest.mark.parametrize("wrong", [-1.0, 0.0, math.nan, math.inf])
def test_thresholds_that_make_no_sense(wrong):
    with pytest.raises(UsageError, match=r"^prune must be a positive number"):
        llsvm.train(np.eye(4), [0, 1, 0, 1], prune=wrong)


@pytest.mark.parametrize("options", [{"kernel": "rbf"}, {"feature_map": "rff"}])
def test_weights_that_are_of_no_columns_are_not_pruned(options):
    with pytest.raises(UsageError, match=r"^prune is for linear models"):
        llsvm.train(np.eye(4), [0, 1, 0, 1], prune=0.1, **options)


def test_the_estimators_prune():
    X, y = data(3)
    for estimator, labels in ((LLSVMClassifier, y), (LLSVMRegressor, 1.0 * y)):
        fitted = estimator(prune=0.1, random_state=0).fit(X, labels)
        assert fitted.model_.extra["pruned"]["dropped"] == np.sum(fitted.coef_ == 0)
    outliers = LLSVMOutlierDetector(prune=0.1, random_state=0).fit(np.abs(X))
    assert outliers.model_.extra["pruned"]["dropped"] >= 0


def test_models_of_text_shrink(data_dir, tmp_path):
    path = tmp_path / "news.jsonl"
    with lzma.open(data_dir / "20news" / "20news_raw.train.jsonl.xz") as file:
        path.write_bytes(b"".join(itertools.islice(file, 250)))
    options = {"label": "newsgroup", "exclude": ["id"], "text": ["text"], "tol": 0.01, "vocabulary": "hashed"}
    sizes = []
    for prune in (None, 0.02):
        model = llsvm.train(path, prune=prune, output=tmp_path / "m", **options)
        sizes.append((tmp_path / "m").stat().st_size)
    told = model.extra["pruned"]
    assert told["dropped"] > 0.5 * told["weights"]
    assert sizes[1] < 0.5 * sizes[0]
    assert 0 < told["relative_cost"] < 0.1


@pytest.mark.parametrize(
    "options",
    [
        {"solver": "llsvm"},
        {"solver": "llsvm", "multiclass": "ovo"},
        {"solver": "smsvm"},
        {"solver": "smsvm", "penalty": "l1"},
        {"solver": "nesvm"},
        {"multiclass": "crammer-singer"},
        {"multiclass": "softmax", "loss": "logistic"},
        {"loss": "one_class"},
        {"loss": "huber", "solver": "llsvm"},
    ],
)
@pytest.mark.parametrize("wide", [False, True])
def test_the_smallest_limit_suffices(tmp_path, options, wide):
    X, y = data(3, 0.02, 3000) if wide else data(3)
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    with pytest.raises(BudgetError) as refused:
        run(path, ledger=1000, prune=1e-3, **options)
    training = run(path, ledger=refused.value.smallest_bytes, prune=1e-3, max_passes=3, **options)
    assert training.summary()["pruned"] is not None
