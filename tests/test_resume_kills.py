"""SIGKILL at random times: the same command goes on, and ends with the model of a run that was not disturbed."""

import pytest
from oracle import small_pages
from resume import Case, survives

JOINT = {"multiclass": "crammer-singer", "tol": 1e-6}
CASES = {
    "memory": Case({"solver": "llsvm", "tol": 1e-7}, n=3000),
    "cache": Case({"solver": "llsvm", "tol": 1e-5}, ledger=120_000, n=3000, place="cache"),
    "source": Case(
        {"solver": "llsvm", "tol": 1e-5, "cache": "never"}, ledger=120_000, n=3000, place="source"
    ),
    "auto": Case({"tol": 1e-7, "C": 10.0}, n=2000, d=20),
    "auto, classes": Case({"tol": 1e-6}, n=1000, classes=4),
    "sequential dual": Case(JOINT, n=1000, classes=3),
    "sequential dual, cache": Case(JOINT, ledger=120_000, n=2000, classes=3, place="cache"),
    "smsvm": Case({"solver": "smsvm", "tol": 1e-6}, n=1000),
    "smsvm, l1": Case({"solver": "smsvm", "penalty": "l1", "tol": 1e-6}, n=1000),
    "nesvm": Case({"solver": "nesvm", "tol": 1e-4}, n=1000),
    "softmax": Case({"loss": "logistic", "multiclass": "softmax", "tol": 1e-8}, n=1000, classes=3),
    "kernel, smo": Case({"solver": "smo", "kernel": "rbf", "intercept": True, "tol": 1e-5}, n=300),
    "kernel, nesvm": Case({"solver": "nesvm", "kernel": "rbf", "tol": 1e-3}, n=300),
}


@pytest.mark.parametrize("name", ["memory", "cache", "sequential dual"])
def test_a_run_that_is_killed_goes_on(name, tmp_path, monkeypatch):
    small_pages(monkeypatch, 2000, 8000)
    survives(CASES[name], tmp_path, kills=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_a_run_that_is_killed_again_and_again_goes_on(name, seed, tmp_path, monkeypatch):
    small_pages(monkeypatch, 2000, 8000)
    assert survives(CASES[name], tmp_path, kills=12, seed=seed) > 2
