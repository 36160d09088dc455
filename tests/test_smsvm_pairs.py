"""Pairs of classes by the smoothed Newton method: each is the problem of its two classes' rows."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from oracle import liblinear, rows, run, write_svmlight
from scipy import sparse
from sklearn.svm import LinearSVC
from state_suite import Case, check_resumes

import llsvm
from llsvm.block import CSR, Block
from llsvm.objective.losses import new_loss
from llsvm.objective.problems import RowCosts
from llsvm.process.threads import Threads
from llsvm.solvers.smsvm.solver import SmSVM
from llsvm.solvers.smsvm.sums import Point, Summing
from llsvm.solvers.smsvm.tuning import SmSVMTuning
from llsvm.stream.progress import Progress

K = 4
PAIRS = list(combinations(range(K), 2))
SMALL = SmSVMTuning(piece_bytes=4000)


def summed(points, block, pairs, slack=False):
    costs = RowCosts(np.linspace(0.5, 2.0, K))
    with Threads(2) as pool:
        given = (points, new_loss("hinge"), costs, 1.0, pool, Progress())
        summing = Summing(*given, by_sides=True, pairs=pairs, tuning=SMALL)
        summing.add(block)
        return summing.slack if slack else summing.finish()


@pytest.mark.parametrize("dense", [False, True])
def test_a_pass_sums_of_each_pair_what_its_rows_alone_come_to(dense):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(300, 5)) * (rng.random((300, 5)) < 0.6)).astype(np.float32)
    y, weight = rng.integers(0, K, 300).astype(np.int32), rng.random(300).astype(np.float32)
    S = sparse.csr_matrix(X)
    matrix = X if dense else CSR(S.indptr.astype(np.int64), S.indices, S.data)
    block, points, slack = Block(matrix, y, np.arange(300), weight), [], np.full(300, np.inf)
    for i, j in PAIRS:
        points.append(Point(rng.normal(size=6), rng.normal(size=6), 0.3, 0.6, i, diagonal=True, negative=j))
        points[-1].activate(np.array([0, 2, 5]))
    for (i, j), point, found in zip(PAIRS, points, summed(points, block, True), strict=True):
        own = (y == i) | (y == j)
        point.negative = None  # there are no others
        alone = summed([point], block.take(own), False)[0]
        for name in ("losses", "totals", "sides", "hessian", "diagonal"):
            np.testing.assert_allclose(getattr(found, name), getattr(alone, name), rtol=1e-10, atol=1e-10)
        point.negative = j
        slack[own] = np.minimum(slack[own], summed([point], block, True, slack=True)[own])
    np.testing.assert_allclose(summed(points, block, True, slack=True), slack, rtol=1e-6)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_each_pair_has_liblinears_optimum(loss):
    X, y = rows(n=900, classes=K, seed=1)
    certificate = run(X, y, multiclass="ovo", solver="smsvm", loss=loss, tol=1e-6, bias=1.0).model.certificate
    for c, (i, j) in enumerate(PAIRS):
        some = (y == i) | (y == j)
        optimum, _ = liblinear(X[some], np.where(y[some] == i, 1, 0), loss=loss, bias=1.0)
        assert certificate.primal[c] == pytest.approx(optimum, rel=1e-5)
        assert certificate.dual[c] <= optimum * (1 + 1e-9)


@pytest.mark.parametrize("wide", [False, True])
def test_each_pair_has_liblinears_optimum_with_an_l1_penalty(wide):
    X, y = rows(n=120 if wide else 600, d=700 if wide else 12, classes=K, seed=2)
    options = {"loss": "squared_hinge", "penalty": "l1", "C": 0.1, "tol": 1e-7, "bias": 0.0}
    training = run(X, y, multiclass="ovo", **options)
    for c, (i, j) in enumerate(PAIRS):
        some = (y == i) | (y == j)
        sign = np.where(y[some] == i, 1.0, -1.0)
        oracle = LinearSVC(
            penalty="l1", dual=False, C=0.1, tol=1e-9, max_iter=100_000, fit_intercept=False
        ).fit(X[some], sign)
        w = oracle.coef_[0]
        optimum = np.abs(w).sum() + 0.1 * (np.maximum(0, 1 - sign * (X[some] @ w)) ** 2).sum()
        assert training.model.certificate.primal[c] == pytest.approx(optimum, rel=1e-5)


def test_out_of_core_and_auto_find_the_same_optimum(tmp_path):
    X, y = rows(n=30_000, d=12, classes=K, seed=2)
    order = np.argsort(y, kind="stable")  # sorted by class
    path = write_svmlight(tmp_path / "a.svm", X[order], y[order])
    options = {"multiclass": "ovo", "spill_dir": str(tmp_path), "tol": 1e-4, "C": 100.0}
    within = run(str(path), solver="llsvm", **options).model.certificate
    for solver in ("smsvm", "auto"):
        outside = run(str(path), solver=solver, ledger=5_000_000, **options)
        assert not outside.stream.in_one_block
        assert outside.reports[-1].converged
        certificate = outside.model.certificate
        np.testing.assert_allclose(certificate.primal, within.primal, rtol=2e-4)
        assert np.all(np.array(certificate.dual) <= np.array(within.primal) * (1 + 1e-9))


def test_with_an_intercept_pairs_are_as_nesvms():
    X, y = rows(n=500, classes=3, seed=3)
    options = {"multiclass": "ovo", "intercept": True, "tol": 1e-4}
    by_default = run(X, y, **options)
    assert by_default.reports[-1].converged
    other = run(X, y, solver="nesvm", **options).model.certificate
    np.testing.assert_allclose(by_default.model.certificate.primal, other.primal, rtol=3e-4)


@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_a_stopped_run_goes_on_as_if_it_had_not(penalty, tmp_path):
    settings = {"solver": "smsvm", "multiclass": "ovo", "penalty": penalty}
    case = Case(settings, make=lambda *given: SmSVM(*given, tuning=SMALL), classes=3, threads=2)
    check_resumes(case, tmp_path)


def test_a_certificate_is_worked_out_again(tmp_path):
    X, y = rows(n=400, classes=3, seed=4)
    model = llsvm.train(X, y, multiclass="ovo", solver="smsvm", loss="squared_hinge", state=tmp_path)
    found = llsvm.verify(model, X, y, state=tmp_path)
    assert found["holds"], found["differences"]
    assert found["dual"] is not None
