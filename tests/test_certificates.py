"""Certificates: a proof or none, whatever the solver; settled is not converged."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

import llsvm
import llsvm.solvers.llsvm.sweeps
from llsvm import LLSVMClassifier
from llsvm.cli import app
from llsvm.cli.train import outcome
from llsvm.errors import EXIT_INTERNAL, EXIT_NOT_CONVERGED, CertificateError, DataError, UsageError
from llsvm.models.model import Model
from llsvm.objective.certificate import Certificate
from llsvm.objective.losses import new_loss
from llsvm.objective.rounding import RoundingBound
from llsvm.settings.settings import Settings


def problem(n=60, d=3, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.integers(0, classes, n)


def write(path, X, y):
    with path.open("w") as file:
        for row, label in zip(X, y, strict=True):
            file.write(f"{label} " + " ".join(f"{j + 1}:{v:.17g}" for j, v in enumerate(row)) + "\n")
    return path


# -- the one place where certificates are made --------------------------------------------------------------


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_objectives_that_are_not_finite_certify_nothing(bad):
    good = (1.0, 2.0, 3.0)
    for place in range(3):  # wherever it stands
        values = tuple(bad if i == place else value for i, value in enumerate(good))
        for primal, dual in ((values, good), (good, values)):
            with pytest.raises(CertificateError, match=f"problem {place + 1} of 3 is not finite"):
                Certificate(primal, dual, 1)


def test_a_dual_above_the_primal_is_refused():
    with pytest.raises(CertificateError, match=r"above the primal \(1.12 > 1\)"):
        Certificate((2.0, 1.0), (1.0, 1.12), 1)
    rounded = Certificate((1.0,), (1.0 + 1e-9,), 1)
    assert rounded.relative_gap == pytest.approx(1e-9)  # what rounding amounts to, not "better than optimal"


def test_a_dual_above_the_primal_by_no_more_than_rounding_is_no_contradiction():
    """What sums of costs of 1e19 lose is far more than objectives that are nearly 0."""
    assert Certificate((1.0,), (1.1,), 1, (0.2,)).relative_gap == pytest.approx(0.3)
    with pytest.raises(CertificateError, match="above the primal"):
        Certificate((1.0,), (1.1,), 1, (0.05,))
    cost = np.array([1e19])
    bound = RoundingBound(0.0, cost**2, cost, new_loss("squared_hinge"), l1=1.0, l2=0.0, noise=1e-15)
    certificate = bound.certificate(np.array([[0.0, 1.0]]), [0.0], [1e-198], 1)
    assert certificate.rounding[0] > certificate.dual[0]
    with pytest.raises(CertificateError, match="above the primal"):
        bound.certificate(np.array([[0.0, 1.0]]), [0.0], [1.0], 1)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_class_that_weighs_nothing_is_certified_at_any_C(loss):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(12, 3)), np.r_[0, 1, 2, rng.integers(0, 3, 9)]
    weight = np.where(y == 2, 0.0, 1.0)
    options = {"penalty": "l1", "C": 3e19, "intercept": True, "scale": "maxabs", "max_passes": 30}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = llsvm.train(X, y, sample_weight=weight, loss=loss, threads=1, **options)
    assert model.certificate.primal[2] == 0.0
    assert llsvm.verify(model, X, y, weight)["holds"]


def test_outcome_knows_no_negative_gap():
    summary = {
        "converged": True, "passes": 3, "seconds": 1.0, "solver": "llsvm", "relative_gap": 0.0, "primal": 1.0,
        "dual": 1.0, "rows": 1, "features": 1, "classes": [0, 1], "target": None, "bytes_read": 1,
        "peak_rss_bytes": 1, "pruned": None, "leave_one_out": None,
    }  # fmt: skip
    summary["relative_gap"] = Certificate((1.0,), (1.0 + 1e-12,), 3).relative_gap
    assert "within 0.000% of the optimum" in outcome(summary, Settings())
    found = {
        **summary,
        "relative_gap": 3.2e-6,
        "converged": False,
    }  # what was asked for is told from what is there
    assert "within 0.00032% of the optimum (asked for 0.00010%)" in outcome(found, Settings(tol=1e-6))


@pytest.mark.filterwarnings("ignore:All-NaN")
@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_infinite_objectives_end_in_a_sentence(multi_class):
    X, y = problem(classes=3)
    classifier = LLSVMClassifier(multi_class=multi_class, class_weight={2: 1e308}, C=100.0, max_iter=5)
    with pytest.raises(UsageError, match="C times the weight of a class is inf"), np.errstate(all="ignore"):
        classifier.fit(X, y)


def test_a_dual_that_has_gone_wrong_ends_the_run_without_a_model(tmp_path, monkeypatch):
    X, y = problem(300)
    data, model = write(tmp_path / "rows.svm", X, y), tmp_path / "m"
    sweep, calls = llsvm.solvers.llsvm.sweeps.sweep, itertools.count()

    def forgets(*arguments):
        moving = sweep(*arguments)
        arguments[-1][0] += next(calls) * 1e4  # a gain that no step has made
        return moving

    monkeypatch.setattr(llsvm.solvers.llsvm.sweeps, "sweep", forgets)
    arguments = ["train", str(data), "--model", str(model), "--solver", "llsvm"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == EXIT_INTERNAL
    assert "above the primal" in result.output
    assert not model.exists()


def test_a_saved_certificate_that_proves_nothing_is_none(tmp_path, monkeypatch):
    X, y = problem()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LLSVMClassifier().fit(X, y).model_
    certificate = model.certificate
    monkeypatch.setattr(Certificate, "__post_init__", lambda self: None)
    model.certificate = Certificate(certificate.primal, (certificate.primal[0] * 1.12,), 3)
    model.save(tmp_path / "m")
    monkeypatch.undo()
    again = Model.load(tmp_path / "m")
    assert again.certificate is None
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


# -- settled is not converged -------------------------------------------------------------------------------


def test_paper_mode_does_not_call_settled_converged(tmp_path):
    X, y = problem(400, 5)
    data, model = write(tmp_path / "rows.svm", X, y), tmp_path / "m"
    arguments = ["train", str(data), "--model", str(model), "--paper", "-C", "10"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == EXIT_NOT_CONVERGED, result.output
    assert "not converged" in result.output
    assert "without --paper it goes on" in result.output
    loaded = Model.load(model)
    assert loaded.certificate.relative_gap > 1e-3
    assert not loaded.converged


# -- kernel machines: measured on what is saved -------------------------------------------------------------


def kernel_problem(n, offset, noise, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = (X[:, 0] + 0.3 * X[:, 1] + noise * rng.standard_normal(n) > 0.1).astype(int)
    return X + offset, y


def least_squares_optimum(K, s, C):
    n = len(s)
    A = np.block([[K + np.eye(n) / (2 * C), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    solution = np.linalg.solve(A, np.append(s, 0.0))
    beta, b = solution[:-1], solution[-1]
    return 0.5 * beta @ K @ beta + C * ((1 - s * (K @ beta + b)) ** 2).sum()


def saved_objective(model, X, s, loss):
    """Of a kernel machine, from its support vectors and weights alone."""
    machine, beta = model.feature_map, model.coef_[0]
    Z = np.asarray(machine.landmarks, float)
    C, f = model.settings["C"], machine.function.between(X, Z, X.shape[1]) @ beta + model.intercept_[0]
    z = 1 - s * f
    losses = (z**2).sum() if loss == "least-squares" else np.maximum(0, z).sum()
    return 0.5 * beta @ machine.function.between(Z, Z, X.shape[1]) @ beta + C * losses


@pytest.mark.parametrize(
    ("n", "offset", "C", "kernel"),
    [(60, 30, 1e2, "linear"), (300, 5, 1e2, "poly"), (200, 3, 1e1, "poly"), (150, 0, 1e3, "rbf")],
)
def test_kernel_least_squares_certify_the_model_that_is_saved(tmp_path, n, offset, C, kernel):
    X, y = kernel_problem(n, offset, 0.5)
    options = {"loss": "least-squares", "kernel": kernel, "penalize_intercept": False, "max_iter": 1000}
    options["solver"] = "nesvm"
    LLSVMClassifier(C=C, memory_limit="2GB", n_jobs=1, **options).fit(X, y).model_.save(tmp_path / "m")
    model, s = Model.load(tmp_path / "m"), 2.0 * y - 1
    function = model.feature_map.function
    optimum = least_squares_optimum(function.between(X, X, 2), s, C)
    objective, certificate = saved_objective(model, X, s, "least-squares"), model.certificate
    assert model.converged
    assert certificate.total_primal == pytest.approx(objective, rel=1e-6)
    assert certificate.total_dual <= optimum * (1 + 1e-9)
    assert optimum <= objective * (1 + 1e-9)
    assert objective - optimum <= certificate.relative_gap * objective


@pytest.mark.filterwarnings("ignore:not converged")
@pytest.mark.parametrize("C", [1.0, 1e4, 1e12])
@pytest.mark.parametrize("seed", [0, 1])
def test_kernel_hinge_certifies_at_any_C(C, seed):
    from sklearn.svm import SVC

    X, y = kernel_problem(40, 0.0, 0.0, seed)
    X[y == 1] += 0.3
    options = {"kernel": "linear", "penalize_intercept": False, "max_iter": 500}
    model = LLSVMClassifier(C=C, memory_limit="2GB", n_jobs=1, **options).fit(X, y).model_
    s, certificate = 2.0 * y - 1, model.certificate
    oracle = SVC(C=min(C, 1e6), kernel="linear", tol=1e-10).fit(X, y)  # separable: the same from 1e6 on
    w, b = oracle.coef_[0], oracle.intercept_[0]
    optimum = 0.5 * w @ w + min(C, 1e6) * np.maximum(0, 1 - s * (X @ w + b)).sum()
    objective = saved_objective(model, X, s, "hinge")
    assert certificate.total_dual <= optimum * (1 + 1e-6)
    assert objective <= certificate.total_primal * (1 + 1e-9)
    assert model.converged == (certificate.relative_gap <= 1e-3)


def test_an_asymmetric_kernel_matrix_is_refused():
    X, y = kernel_problem(60, 0.0, 0.5)
    K = np.exp(-((X[:, None] - X) ** 2).sum(-1))
    K[:30] *= 0.5
    with pytest.raises(DataError, match=r"symmetric|semi-definite"):
        LLSVMClassifier(kernel="precomputed", memory_limit="2GB", n_jobs=1, max_iter=50).fit(K, y)
