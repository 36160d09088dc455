"""SIGKILL and SIGTERM at random times: the same command goes on, and ends with the model of a run that was not
disturbed."""

import itertools
import os
import re
import signal
import time

import numpy as np
import pytest
from oracle import small_pages
from resume import Case, command, copied, go, killed, survives

from llsvm.state import container
from llsvm.state.checkpoints import checkpoints_in

JOINT = {"multiclass": "crammer-singer", "tol": 1e-6}
WEIGHTS = {"class_weight": {"0": 0.4, "1": 3.0}}
CASES = {
    "memory": Case({"solver": "llsvm", "tol": 1e-7}, n=3000),
    "cache": Case({"solver": "llsvm", "tol": 1e-5}, ledger=120_000, n=3000, place="cache"),
    "source": Case(
        {"solver": "llsvm", "tol": 1e-5, "cache": "never"}, ledger=120_000, n=3000, place="source"
    ),
    "auto": Case({"tol": 1e-7, "C": 10.0}, n=2000, d=20),
    "auto, classes": Case({"tol": 1e-6}, n=1000, classes=4),
    "class weights": Case({**WEIGHTS, "tol": 1e-6}, n=1000, classes=4),
    "class weights, cache": Case(
        {**WEIGHTS, "solver": "llsvm", "tol": 1e-5}, ledger=120_000, n=2000, classes=3, place="cache"
    ),
    "class weights, nesvm": Case({**WEIGHTS, "solver": "nesvm", "tol": 1e-4}, n=1000, classes=3),
    "sequential dual": Case(JOINT, n=1000, classes=3),
    "sequential dual, cache": Case(JOINT, ledger=120_000, n=2000, classes=3, place="cache"),
    "smsvm": Case({"solver": "smsvm", "tol": 1e-6}, n=1000),
    "smsvm, l1": Case({"solver": "smsvm", "penalty": "l1", "tol": 1e-6}, n=1000),
    "nesvm": Case({"solver": "nesvm", "tol": 1e-4}, n=1000),
    "softmax": Case({"loss": "logistic", "multiclass": "softmax", "tol": 1e-8}, n=1000, classes=3),
    "kernel, smo": Case({"solver": "smo", "kernel": "rbf", "intercept": True, "tol": 1e-5}, n=300),
    "kernel, nesvm": Case({"solver": "nesvm", "kernel": "rbf", "tol": 1e-3}, n=300),
    # begun at the dual variables of a run with another C, or of fewer rows
    "warm, rows": Case({"solver": "llsvm", "tol": 1e-7}, n=3000, before={}, new=150),
    "warm, rows, cache": Case(
        {"solver": "llsvm", "tol": 1e-5}, ledger=120_000, n=3000, place="cache", before={}, new=150
    ),
    "warm, C, source": Case(
        {"solver": "llsvm", "tol": 1e-5, "cache": "never"},
        ledger=120_000,
        n=3000,
        place="source",
        before={"C": 0.3},
    ),
    "warm, C, pairs": Case(
        {"solver": "llsvm", "tol": 1e-6, "multiclass": "ovo"}, n=1000, classes=4, before={"C": 0.3}
    ),
    "warm, rows, sequential dual": Case(JOINT, n=1000, classes=3, before={}, new=50),
    "warm, C, sequential dual, cache": Case(
        JOINT, ledger=120_000, n=2000, classes=3, place="cache", before={"C": 0.3}
    ),
    "warm, rows, weston-watkins": Case(
        {**JOINT, "multiclass": "weston-watkins"}, n=1000, classes=3, before={"C": 0.3}, new=50
    ),
}


@pytest.mark.parametrize("name", ["memory", "cache", "sequential dual", "warm, rows, cache"])
def test_a_run_that_is_killed_goes_on(name, tmp_path, monkeypatch):
    small_pages(monkeypatch, 2000, 8000)
    survives(CASES[name], tmp_path, kills=3)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_run_that_is_killed_again_and_again_goes_on(name, tmp_path, monkeypatch):
    small_pages(monkeypatch, 2000, 8000)
    assert survives(CASES[name], tmp_path, kills=8, seed=1) > 2


@pytest.mark.slow
def test_a_run_that_is_terminated_again_and_again_goes_on(tmp_path):
    """25 times: each says which state there is to go on from, the newest."""
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
    while hit < 25:
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
                newest = 0 if found.earlier.saved is None else found.earlier.saved.passes
            if told is None:  # it had not come to look at the state, or was done with it
                assert newest == before or (tmp_path / "S" / "result").exists()
            else:
                assert newest == int(told[1]) >= before
            before, kept = newest, kept + (told is not None)
    assert kept > 5
    assert train("m", "S") == 0
    assert (tmp_path / "m").read_bytes() == (tmp_path / "undisturbed").read_bytes()
    assert {each.name for each in (tmp_path / "S").iterdir()} <= {"lock", "state", "result"}
    assert not list(tmp_path.glob(".llsvm-*")) + list(tmp_path.glob("llsvm-*"))


def dies_at(at, run):
    """``run`` in a process that ends, as by SIGKILL, before its call number ``at`` of those that change files; of
    writes half is written first. Returns how many calls it made, at least ``at`` where it died."""
    counter, done = itertools.count(1), os.pipe()

    def dying(call):
        def counted(*given, **more):
            if next(counter) == at:
                os._exit(9)
            return call(*given, **more)

        return counted

    class Dying(container.FileIO):
        def write(self, data):
            if next(counter) == at:
                super().write(memoryview(data)[: len(data) // 2])
                os._exit(9)
            return super().write(data)

    def child():
        for name in ("open", "close", "rename", "fsync", "unlink", "ftruncate"):
            setattr(os, name, dying(getattr(os, name)))
        container.FileIO = Dying
        run()
        os.write(done[1], str(next(counter)).encode())

    status = killed(child, 60.0)
    os.close(done[1])
    said = os.read(done[0], 20)
    os.close(done[0])
    assert status == (9 if not said else 0)
    return int(said or at)


def dies_everywhere(folder, every, **begun_with):
    """A training, ended at every ``every``-th of its calls in turn, each followed by the same command.
    begun_with: of its Case."""
    settings = {"solver": "llsvm", "loss": "logistic", "tol": 1e-3}  # ten passes
    case = Case(settings, n=120, d=10, **begun_with)
    data, model, state, begun = (folder / name for name in ("rows.svm", "model", "S", "begun"))
    case.begin(data, begun)
    go(case, data, folder / "undisturbed", copied(begun, state) if begun_with else None)
    want = (folder / "undisturbed").read_bytes()
    copied(begun, state)
    calls = dies_at(-1, lambda: go(case, data, model, state))
    assert calls > 40
    died = 0
    for at in range(1, calls, every):
        copied(begun, state)
        died += dies_at(at, lambda: go(case, data, model, state)) == at
        training = go(case, data, model, state)
        assert model.read_bytes() == want, at
        assert training is not None
        assert {file.name for file in state.iterdir()} <= {"lock", "state", "result"}
    assert died == len(range(1, calls, every))


WARM = [{"before": {"C": 0.3}}, {"before": {}, "new": 10}]


@pytest.mark.parametrize("begun_with", [{}, *WARM])
def test_a_run_that_ends_between_two_calls_goes_on(begun_with, tmp_path):
    dies_everywhere(tmp_path, every=37, **begun_with)


@pytest.mark.slow
@pytest.mark.parametrize(("every", "begun_with"), [(1, {}), *((3, each) for each in WARM)])
def test_a_run_that_ends_between_any_two_calls_goes_on(every, begun_with, tmp_path):
    dies_everywhere(tmp_path, every, **begun_with)
