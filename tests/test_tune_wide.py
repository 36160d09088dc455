"""Tune over wide sparse rows: the optimum of each candidate, in memory and out of core, certified."""

import json
import sys

import numpy as np
import pytest
from oracle import liblinear, small_pages, write_svmlight
from test_tune import fold_numbers, tuned

import llsvm
from llsvm.training.training import Training
from tools.bench import measure
from tools.bench.generate import generate

COSTS = (0.1, 1.0, 10.0)


def wide(n=800, d=3500, seed=0, integers=True):
    """Sparse rows of many columns, two classes. integers: their values are 32-bit floats."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.01 + 0.3 * (np.arange(d) < 20))
    X = np.round(4 * X) if integers else 0.3 * X
    y = (X[:, :40] @ rng.normal(size=40) + rng.normal(size=n) > 0) ^ (rng.random(n) < 0.15)
    return X, y.astype(int)


def sparse(X):
    from scipy.sparse import csr_matrix

    return csr_matrix(X)


def test_each_candidate_has_its_optimum():
    X, y = wide()
    found, model = tuned(sparse(X), y, costs=COSTS, tol=1e-4)
    assert found["at_once"] == 18
    numbers = fold_numbers(sparse(X), y)
    for row in found["table"]:
        assert row["converged"]
        for fold in range(5):
            some = numbers != fold
            optimum, w = liblinear(X[some], y[some], row["C"])
            assert row["primals"][fold] == pytest.approx(optimum, rel=1.2e-4)
            accuracy = np.mean((X[~some] @ w > 0) == (y[~some] > 0))
            assert row["scores"][fold] == pytest.approx(accuracy, abs=0.035)  # a row or two of 60
    optimum, _ = liblinear(X, y, found["best_C"])
    assert model.certificate.total_primal == pytest.approx(optimum, rel=1.2e-4)


def test_values_that_rounding_changes_begin_again_as_they_are(monkeypatch, tmp_path):
    """At a large C, before much work is done."""
    X, y = wide(integers=False)
    write_svmlight(tmp_path / "rows.svm", sparse(X), y)
    kinds, before = [], Training.keep_double
    monkeypatch.setattr(Training, "keep_double", lambda self: (kinds.append(64), before(self)))
    given = {"C": (1.0, 1e3), "threads": 1, "memory_limit": "2GB"}
    found = llsvm.tune(tmp_path / "rows.svm", **given)
    assert kinds == [64]
    assert all(row["converged"] for row in found.table)


def test_batches_that_a_small_limit_forces_give_the_same_table(monkeypatch):
    small_pages(monkeypatch, 2000, 8000)
    X, y = wide()
    large, _ = tuned(sparse(X), y, costs=COSTS, tol=1e-4)
    small, _ = tuned(sparse(X), y, 1_500_000, costs=COSTS, tol=1e-4)
    assert small["batches"] > large["batches"] == 1
    for one, two in zip(large["table"], small["table"], strict=True):
        np.testing.assert_allclose(two["primals"], one["primals"], rtol=2e-4)
        assert two["mean"] == pytest.approx(one["mean"], abs=0.01)


@pytest.mark.slow
def test_the_limit_holds_in_a_cgroup(tmp_path):
    data = tmp_path / "rows.svm"
    generate("text", data, 150_000)
    words = ["tune", str(data), "--model", str(tmp_path / "m"), "--C", "0.1,1,100", "--json", "-q"]
    words += ["--folds", "3", "--tol", "0.01"]
    for limit in (360, 600):  # MB
        command = [sys.executable, "-m", "llsvm", *words, "--memory-limit", f"{limit}MB"]
        try:
            with measure.memory_cgroup(limit * 1_000_000) as group:
                done = measure.run(command, cgroup=group)
        except OSError as error:
            pytest.skip(f"no memory cgroup to be had here: {error}")
        assert done.exit_code == 0, done.stderr
        assert done.peak_rss_bytes <= limit * 1_000_000
        assert all(row["converged"] for row in json.loads(done.stdout)["table"])
