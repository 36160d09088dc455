"""Coordinate descent for regression, in memory and out of core, against optima from outside."""

import numpy as np
import pytest
from cells import pairwise
from oracle import run, small_pages, with_bias
from sklearn.svm import LinearSVR

from llsvm.objective.losses import new_loss

OWN = {  # what a loss is asked with
    "epsilon_insensitive": {"epsilon": 0.3},
    "squared_epsilon_insensitive": {"epsilon": 0.3},
    "quantile": {"quantile": 0.2},
    "huber": {"delta": 0.7},
}
LEDGER = 45_000  # bytes: with small_pages, a few blocks, survivors in memory and spilled


def rows(n=900, d=8, density=1.0, seed=0):
    """Rows and targets with heavy tails, float32 values held by float64 arrays."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    y = X @ rng.normal(size=d) + 0.5 * rng.standard_t(3, size=n) + 1.0
    return X.astype(np.float32).astype(float), y


def primal(loss, coef, X, y, C=1.0, weight=1.0):
    value = new_loss(loss, **OWN[loss]).value
    return float(0.5 * coef @ coef + C * np.sum(weight * value(with_bias(X, 1.0) @ coef, y)))


def optimum(loss, X, y, C, weight=None):
    """LIBLINEAR's, solved tightly."""
    svr = LinearSVR(
        C=C, loss=loss, tol=1e-8, max_iter=1_000_000, fit_intercept=False, random_state=0, dual=True
    )
    svr.set_params(epsilon=OWN[loss]["epsilon"]).fit(with_bias(X, 1.0), y, sample_weight=weight)
    return primal(loss, svr.coef_, X, y, C, 1.0 if weight is None else weight)


def test_threads_give_the_same_every_time(monkeypatch):
    X, y = rows()
    small_pages(monkeypatch)
    options = {"loss": "epsilon_insensitive", "epsilon": 0.1, "threads": 2, "ledger": LEDGER, "tol": 1e-4}
    first, second = (run(X, y, **options) for _ in range(2))
    assert first.stream.bytes_spilled > 0
    np.testing.assert_array_equal(first.coef, second.coef)
    assert first.reports[-1].certificate.dual == second.reports[-1].certificate.dual


@pytest.mark.parametrize(("loss", "density", "survivors"), pairwise(sorted(OWN), [1.0, 0.2], [1.0, 0.1]))
def test_out_of_core_is_as_in_memory(monkeypatch, loss, density, survivors):
    """Many blocks, survivors in memory and spilled, float32 dual variables: the same certified optimum."""
    X, y = rows(density=density)
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    options = {"loss": loss, "bias": 1.0, "C": 0.1, **OWN[loss]}
    whole = run(X, y, weight, tol=1e-7, **options).reports[-1].certificate
    small_pages(monkeypatch)
    training = run(X, y, weight, ledger=LEDGER, tol=1e-4, survivors=survivors, max_passes=100, **options)
    certificate = training.reports[-1].certificate
    assert not training.stream.in_one_block
    assert training.reports[-1].converged
    assert certificate.relative_gap <= 1e-4
    assert certificate.dual[0] <= whole.primal[0]
    assert certificate.primal[0] == pytest.approx(whole.primal[0], rel=1.01e-4)
    measured = primal(loss, training.coef[0], X, y, 0.1, weight)
    assert measured == pytest.approx(certificate.primal[0], rel=1e-6)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("C", [0.01, 0.3])
def test_liblinear_is_inside_the_certificate(loss, C):
    X, y = rows()
    weight = np.random.default_rng(1).uniform(0, 2, len(y))
    best = optimum(loss, X, y, C, weight)
    training = run(X, y, weight, loss=loss, bias=1.0, C=C, tol=1e-5, **OWN[loss])
    certificate = training.reports[-1].certificate
    assert training.reports[-1].converged
    assert certificate.dual[0] <= best * (1 + 1e-6)
    assert best <= certificate.primal[0] * (1 + 1e-6)


def test_quantiles_and_huber_are_met():
    """A constant alone: its best value is the quantile, or the Huber mean, up to the penalty on it."""
    _, y = rows(n=2000)
    X = np.zeros((len(y), 1))
    for share in (0.1, 0.5, 0.9):
        found = run(X, y, loss="quantile", quantile=share, bias=1.0, C=100.0, tol=1e-8).coef[0, -1]
        assert np.mean(y < found) == pytest.approx(share, abs=0.01)
    found = run(X, y, loss="huber", delta=0.5, bias=1.0, C=100.0, tol=1e-8).coef[0, -1]
    assert np.clip(y - found, -0.5, 0.5).mean() == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize("loss", sorted(OWN))
def test_a_row_without_features_costs_what_it_costs(loss):
    X, y = rows(n=60)
    X[5], y[5] = 0.0, -9.0
    training = run(X, y, loss=loss, C=0.5, tol=1e-6, **OWN[loss])
    certificate = training.reports[-1].certificate
    assert certificate.relative_gap <= 1e-6
    coef = training.coef[0]
    value = new_loss(loss, **OWN[loss]).value(X @ coef[:-1], y).sum()
    assert certificate.primal[0] == pytest.approx(0.5 * coef @ coef + 0.5 * value, rel=1e-9)
