"""SIGKILL and SIGTERM at random times: the same command goes on, and ends with the model of a run that was not
disturbed."""

import re
import signal
import time

import numpy as np
import pytest
from oracle import small_pages
from resume import Case, command, killed, survives

from llsvm.state.checkpoints import checkpoints_in

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


@pytest.mark.slow
def test_a_run_that_is_terminated_again_and_again_goes_on(tmp_path):
    """50 times: each says which state there is to go on from, the newest."""
    data = Case(n=20_000, d=20).write(tmp_path / "rows.svm")
    words = ("--memory", "2GB", "--threads", 1, "--tol", 1e-5, "--solver", "nesvm", "--quiet")

    def train(model, state, seconds=1e9):
        options = (*words, "--state", tmp_path / state, "--checkpoint-every", "1h")
        run = ("train", data, "--model", tmp_path / model, *options)
        return killed(lambda: command(*run), seconds, signal.SIGTERM, tmp_path / "said")

    assert train("first", "one") == 0  # which may have to compile
    began = time.monotonic()
    assert train("undisturbed", "another") == 0
    longest, rng = time.monotonic() - began, np.random.default_rng(5)
    hit = kept = before = 0
    while hit < 50:
        status = train("m", "S", rng.uniform(0.05, longest))
        if status == 0:
            assert (tmp_path / "m").read_bytes() == (tmp_path / "undisturbed").read_bytes()
            for file in (tmp_path / "S").iterdir():
                file.unlink()
            before = 0
        elif status != -signal.SIGTERM:  # which came before the program's first line
            assert status == 128 + signal.SIGTERM
            hit += 1
            told = re.search(r"the state after (\d+) pass", (tmp_path / "said").read_text())
            with checkpoints_in(tmp_path / "S") as found:
                newest = 0 if found.saved is None else found.saved.passes
            if told is None:  # it had not come to look at the state, or was done with it
                assert newest == before or (tmp_path / "S" / "result").exists()
            else:
                assert newest == int(told[1]) >= before
            before, kept = newest, kept + (told is not None)
    assert kept > 10
    assert train("m", "S") == 0
    assert (tmp_path / "m").read_bytes() == (tmp_path / "undisturbed").read_bytes()
    assert {each.name for each in (tmp_path / "S").iterdir()} <= {"lock", "state", "result"}
    assert not list(tmp_path.glob(".llsvm-*")) + list(tmp_path.glob("llsvm-*"))
