"""Logistic regression by dual coordinate descent, in memory and out of core, against LIBLINEAR's optimum."""

import numpy as np
import pytest
import scipy.sparse as sp
from cells import pairwise
from oracle import rows, run, small_pages, with_bias
from sklearn.linear_model import LogisticRegression

import llsvm

LEDGER = 40_000  # bytes: with small_pages, a few blocks, survivors in memory and spilled


def primal(coef, X, y, cost, bias):
    margin = np.where(y == np.unique(y)[1], 1.0, -1.0) * (with_bias(X, bias) @ coef)
    return float(0.5 * coef @ coef + np.sum(cost * np.logaddexp(0.0, -margin)))


def optimum(X, y, C=1.0, weight=None, bias=0.0):
    """Solved tightly by LIBLINEAR's Newton method."""
    model = LogisticRegression(C=C, solver="liblinear", tol=1e-10, fit_intercept=False, max_iter=1000)
    model.fit(with_bias(X, bias), y, sample_weight=weight)
    return primal(model.coef_[0], X, y, C if weight is None else C * weight, bias)


@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("density", [1.0, 0.3])
def test_liblinear_is_inside_the_certificate(C, density):
    X, y = rows(n=300, density=density)
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    best = optimum(X, y, C, weight, bias=1.0)
    X = X if density == 1 else sp.csr_matrix(X)
    training = run(X, y, weight, loss="logistic", C=C, bias=1.0, tol=1e-5, solver="llsvm")
    certificate = training.reports[-1].certificate
    assert training.reports[-1].converged
    assert certificate.relative_gap <= 1e-5
    assert certificate.dual[0] <= best * (1 + 1e-9)
    assert best <= certificate.primal[0] * (1 + 1e-9)


@pytest.mark.parametrize(("survivors", "threads", "multiclass"), pairwise([1.0, 0.1], [1, 2], ["ovr", "ovo"]))
def test_out_of_core_is_as_in_memory(monkeypatch, survivors, threads, multiclass):
    X, y = rows(n=900, classes=3)
    options = {"loss": "logistic", "bias": 1.0, "multiclass": multiclass, "solver": "llsvm"}
    whole = run(X, y, tol=1e-7, **options).reports[-1].certificate
    small_pages(monkeypatch)
    training = run(X, y, ledger=2 * LEDGER, tol=1e-4, survivors=survivors, threads=threads, **options)
    certificate = training.reports[-1].certificate
    assert not training.stream.in_one_block
    assert training.reports[-1].converged
    for ours, theirs, dual in zip(certificate.primal, whole.primal, certificate.dual, strict=True):
        assert dual <= theirs
        assert theirs * (1 - 1e-6) <= ours <= theirs * (1 + 1.01e-4)


def test_the_order_of_rows_does_not_matter_in_small_data():
    X, y = rows(n=120)
    options = {"loss": "logistic", "tol": 1e-3, "solver": "llsvm"}
    coefs = [run(X[order], y[order], **options).coef for order in (np.arange(120), np.arange(120)[::-1])]
    np.testing.assert_allclose(coefs[0], coefs[1], rtol=1e-7)


def test_separable_rows_and_rows_without_features():
    X, y = rows(n=80, noise=0.0)
    X[y == 1] += 8.0
    X[3] = 0.0
    training = run(X, y, loss="logistic", C=10.0, tol=1e-4, solver="llsvm")
    assert training.reports[-1].converged
    assert training.reports[-1].certificate.primal[0] <= optimum(X, y, 10.0) * (1 + 1.01e-4)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_a_row_that_weighs_two_is_a_row_written_twice(form):
    """To the last digits, though a gain of less than rounding says nothing about half of them."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(60, 4)), rng.integers(0, 2, 60)
    times = rng.integers(1, 4, 60)
    weighted = llsvm.train(form(X), y, sample_weight=times.astype(float), loss="logistic", seed=1)
    repeated = llsvm.train(form(np.repeat(X, times, axis=0)), np.repeat(y, times), loss="logistic", seed=1)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-12)
