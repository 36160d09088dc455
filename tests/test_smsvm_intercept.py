"""An intercept that is not penalised, by Newton's method: scikit-learn's, and with a feasible dual point."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from oracle import rows, run, small_pages, write_svmlight
from sklearn.linear_model import HuberRegressor, LogisticRegression, QuantileRegressor, Ridge
from sklearn.svm import SVC, SVR
from state_suite import Case, check_resumes

from llsvm.block import Block
from llsvm.errors import UsageError
from llsvm.estimators.classifier import LLSVMClassifier
from llsvm.estimators.regressor import LLSVMRegressor
from llsvm.objective.losses import new_loss
from llsvm.objective.penalty import Penalty
from llsvm.objective.problems import RowCosts
from llsvm.process.threads import Threads
from llsvm.settings.methods import METHODS
from llsvm.settings.objective import CLASSIFICATION
from llsvm.settings.settings import Settings
from llsvm.solvers.smsvm.solver import SmSVM
from llsvm.solvers.smsvm.sums import Point, Summing
from llsvm.solvers.smsvm.tuning import SmSVMTuning
from llsvm.stream.progress import Progress

FREE = {"solver": "smsvm", "intercept": True}
LOSSES = tuple(METHODS["smsvm"].objectives)


@cache
def numbers(n=300, d=5, level=50.0):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d)).astype(np.float32).astype(float)
    return X, X @ rng.normal(size=d) + level + rng.standard_t(3, size=n)


def as_scikit_learn_has_it(model, theirs, atol):
    np.testing.assert_allclose(model.coef_, np.atleast_2d(theirs.coef_), atol=atol)
    np.testing.assert_allclose(model.intercept_, np.atleast_1d(theirs.intercept_), atol=atol)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_logistic_regression(C):
    X, y = rows(n=300, d=5, noise=0.4)
    weight = np.random.default_rng(0).random(len(X))
    model = run(X, y, weight, loss="logistic", C=C, tol=1e-10, **FREE).model
    theirs = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12).fit(X, y, weight)
    as_scikit_learn_has_it(model, theirs, 1e-4)


def test_support_vectors_of_classes_and_numbers():
    X, y = rows(n=200, d=4, noise=0.4)
    ours = LLSVMClassifier(solver="smsvm", penalize_intercept=False, tol=1e-6).fit(X, y)
    as_scikit_learn_has_it(ours, SVC(kernel="linear", tol=1e-6).fit(X, y), 2e-3)
    X, y = numbers()
    ours = LLSVMRegressor(penalize_intercept=False, tol=1e-6).fit(X, y)
    as_scikit_learn_has_it(ours, SVR(kernel="linear", tol=1e-6).fit(X, y), 2e-3)


def test_other_regressions():
    X, y = numbers()
    free = {"penalize_intercept": False, "tol": 1e-9}
    ridge = LLSVMRegressor(loss="squared_epsilon_insensitive", epsilon=0.0, C=2.0, **free).fit(X, y)
    as_scikit_learn_has_it(ridge, Ridge(alpha=1 / 4).fit(X, y), 1e-5)
    options = free | {"tol": 1e-5}
    median = LLSVMRegressor(loss="quantile", quantile=0.7, C=2.0, penalty="l1", **options).fit(X, y)
    theirs = QuantileRegressor(quantile=0.7, alpha=1 / 2 / len(y)).fit(X, y)
    as_scikit_learn_has_it(median, theirs, 3e-3)
    theirs = HuberRegressor(alpha=1e-9, epsilon=1.5, tol=1e-9).fit(X, y)  # δ in units of its own scale
    huber = LLSVMRegressor(loss="huber", delta=1.5 * theirs.scale_, C=1e7, **free).fit(X, y)
    as_scikit_learn_has_it(huber, theirs, 1e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_labels_may_be_anywhere(loss):
    """The level of a regression's targets is the intercept's alone; so is that of a column, whatever the loss."""
    kind = new_loss(loss).kind
    X, y = rows(n=200, d=4, noise=0.4) if kind == CLASSIFICATION else numbers()
    options = {"loss": loss, "C": 0.5, "tol": 1e-4, **FREE}
    here = run(X, y, **options).model.certificate
    for rows_, labels in ((X, y if kind == CLASSIFICATION else y + 1e5), (X + 100.0, y)):
        there = run(rows_, labels, **options).model.certificate
        assert there.relative_gap <= 1e-4
        assert there.total_dual <= here.total_primal * (1 + 1e-9)
        assert here.total_dual <= there.total_primal * (1 + 1e-9)


@pytest.mark.parametrize("positives", [1, 3, 30, 297])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "least-squares"])
def test_few_rows_of_a_class(loss, positives):
    X, _ = rows(n=300, d=4)
    y = (np.arange(300) < positives).astype(int)
    for C in (1e-4, 1.0, 1e4):
        report = run(X, y, loss=loss, C=C, **FREE).reports[-1]
        assert report.converged, (C, report.certificate)


def summed(loss, seed, dense=True):
    """Sums at some weights, and what the slow twin needs: X with the constant feature, β = α y, and the loss."""
    rng = np.random.default_rng(seed)
    n, d = 40, 3
    X = rng.normal(size=(n, d)).astype(np.float32)
    kind, cost = loss.kind, rng.random(n).astype(np.float32)
    y = rng.integers(0, 2, n).astype(np.int32) if kind == CLASSIFICATION else 10.0 * rng.normal(size=n)
    w, a = rng.normal(size=d + 1), 0.3
    with Threads(2) as threads:
        costs = RowCosts(np.full(2, 2.0))
        summing = Summing(
            [Point(w, np.zeros(d + 1), a, 0.0, 1)], loss, costs, 1.0, threads, Progress(), by_sides=True
        )
        for part in (slice(0, 25), slice(25, n)):
            summing.add(Block(X[part], y[part], np.arange(n)[part], cost[part]))
        return summing.finish()[0], X.astype(float), y, 2.0 * cost.astype(float), w


@given(st.sampled_from(LOSSES), st.integers(0, 10_000))
@hypothesis_settings(max_examples=50, deadline=None)
def test_the_balanced_point_is_feasible_and_worth_what_is_said(name, seed):
    """The slow twin scales α itself."""
    loss = new_loss(name, epsilon=0.2, quantile=0.8, delta=0.7)
    sums, X, y, cost, w = summed(loss, seed)
    sign = np.where(y == 1, 1.0, -1.0) if loss.kind == CLASSIFICATION else np.ones(len(y))
    target = 1.0 if loss.kind == CLASSIFICATION else y
    alpha, v, squares = sums.balanced()
    margin = sign * (X @ w[:-1] + w[-1])
    if np.isfinite(loss.smoothness):
        beta = -cost * loss.derivative(margin, target) * sign
    else:  # the derivatives of the smoothed sides

        def smooth(z):
            return 0.5 * (1 + z / np.hypot(z, 0.3))

        z = target - margin
        beta = cost * (loss.upper * smooth(z - loss.epsilon) + loss.lower * smooth(-z - loss.epsilon)) * sign
    above, below = beta[beta > 0].sum(), -beta[beta < 0].sum()
    np.testing.assert_allclose(sums.v[-1], above - below, atol=1e-9)
    beta = (
        np.where(
            beta > 0, min(above, below) / above if above else 0, min(above, below) / below if below else 0
        )
        * beta
    )
    assert abs(beta.sum()) <= 1e-9 * np.abs(beta).sum()
    np.testing.assert_allclose(v[:-1], X.T @ beta, rtol=1e-6, atol=1e-6 * np.abs(beta).sum())
    assert v[-1] == 0
    worth = float((cost * loss.dual_value(beta * sign / cost, target)).sum())
    said = alpha - squares
    assert said == pytest.approx(worth, rel=1e-6) or (name == "logistic" and said <= worth)


def test_the_penalty_leaves_the_intercept_out():
    penalty = Penalty(1.0, 0.5, 0.5, intercept=True)
    w = np.array([2.0, -1.0, 100.0])
    assert penalty.value(w) == 0.25 * 5 + 0.5 * 3
    assert penalty.l1_of(3).tolist() == penalty.l2_of(3).tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "epsilon_insensitive", "huber"])
@pytest.mark.parametrize("wide", [False, True])
def test_out_of_core_finds_the_same_optimum(loss, wide, tmp_path, monkeypatch):
    small_pages(monkeypatch, 20_000, 40_000)
    n, d = (3000, 700) if wide else (6000, 12)
    X, y = rows(n=n, d=d, density=0.05 if wide else 0.8, noise=0.3)
    if new_loss(loss).kind != CLASSIFICATION:
        y = X[:, :3].sum(axis=1) + 7.0 + np.random.default_rng(0).normal(size=n)
    path = str(write_svmlight(tmp_path / "a.svm", X, y))
    options = {"loss": loss, "C": 0.01, "tol": 1e-3, "spill_dir": str(tmp_path), **FREE}
    within = run(path, **options).model.certificate
    outside = run(path, ledger=700_000 + 300_000 * wide, threads=2, **options)
    assert not outside.stream.in_one_block
    assert outside.reports[-1].converged
    assert outside.model.certificate.total_primal == pytest.approx(within.total_primal, rel=2e-3)
    assert outside.model.certificate.total_dual <= within.total_primal


@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
def test_wide_rows_by_their_columns(penalty):
    X, y = rows(n=60, d=600, density=0.1, noise=0.3)
    y = X[:, :3].sum(axis=1) + 7.0
    options = {"loss": "huber", "penalty": penalty, "C": 0.5, "tol": 1e-4}
    sparse, dense = (run(made, y, **options, **FREE) for made in (sp.csr_matrix(X), X))
    assert "columns" in sparse.reports[1].note
    assert sparse.reports[-1].converged
    assert sparse.model.certificate.total_primal == pytest.approx(
        dense.model.certificate.total_primal, rel=2e-4
    )
    assert sparse.model.intercept_[0] == pytest.approx(7.0, abs=0.5)
    assert np.count_nonzero(sparse.model.coef_) < 60


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_it_can_be_stopped_and_gone_on_with(loss, tmp_path):
    tuning = SmSVMTuning(piece_bytes=4000)
    settings = {"solver": "smsvm", "C": 0.3, "loss": loss, "intercept": True, "bias": 0.0}
    case = Case(settings, make=lambda *given: SmSVM(*given, tuning=tuning), classes=3, weighted=True)
    check_resumes(case, tmp_path)


def test_why_a_solver_was_taken_is_a_sentence():
    assert Settings(intercept=True).only_solver == ("smsvm", "intercept is smsvm's")


def test_what_cannot_be_is_refused():
    with pytest.raises(UsageError, match="intercept is for solver smsvm or nesvm or smo, not for llsvm"):
        Settings(solver="llsvm", intercept=True)
    with pytest.raises(UsageError, match="crammer-singer is for the sequential dual method, intercept for"):
        Settings(multiclass="crammer-singer", intercept=True)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss", ["squared_hinge", "least-squares"])
@pytest.mark.parametrize("penalty", ["l2", "elasticnet"])
@pytest.mark.parametrize("factors", [(1e6, 1e-6), (1e-9, 1e9), (1.0, 1e-18)])
def test_classes_whose_costs_are_far_apart(loss, penalty, factors):
    """The α of one class are 1e12 times those of the other: what is left of a sum of both is not the smaller."""
    X, _ = rows(n=30, d=2)
    y = np.arange(30) % 2
    weight = np.where(y == 1, *factors)
    report = run(X, y, weight, loss=loss, penalty=penalty, C=1e-3, max_passes=30, **FREE).reports[-1]
    assert report.certificate.relative_gap <= 1e-2


def test_a_side_that_is_next_to_nothing_is_balanced_to_its_digits():
    X = np.array([[1.0], [-1.0], [0.5]])
    y = np.array([1, 0, 0], np.int32)
    weight = np.array([1e-17, 1.0, 1.0])
    loss = new_loss("squared_hinge")
    with Threads(1) as threads:
        point = Point(np.zeros(2), np.zeros(2), 0.0, 0.0, 1)
        summing = Summing([point], loss, RowCosts(np.ones(2)), 1.0, threads, Progress(), by_sides=True)
        summing.add(Block(X, y, np.arange(3), weight))
        alpha, v, squares = summing.finish()[0].balanced()
    # α = 2 C (1 − m): 2e-17 of the first row, and of the others, which are scaled down, half of it each
    assert alpha == pytest.approx(4e-17, rel=1e-14)
    assert squares == pytest.approx(1e-17, rel=1e-14)
    np.testing.assert_allclose(v, [2e-17 * (1.0 + 0.5 - 0.25), 0.0], rtol=1e-14)


def test_a_dual_whose_sum_is_0_but_for_rounding_is_no_larger_than_the_primal():
    """α of 1e23 that are to sum to 0 beside an intercept of 1e30."""
    X = np.array([[-1.05294346, 0.7157484, -2.20584868], [-0.1445465, 0.50874888, -1.36395654]])
    X = np.r_[X, [[-1.18191588, 1.56272811, -0.97911431]]]
    for seed in (0, 28, 38, 51):
        y = 1e30 * (1 + 1e-9 * np.random.default_rng(seed).normal(size=3))
        training = run(X, y, loss="huber", delta=1e21, C=478.0, scale="standard", **FREE)
        certificate = training.reports[-1].certificate
        assert certificate.dual[0] <= certificate.primal[0]
