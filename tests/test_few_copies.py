"""Weights of many columns in little memory: one copy, half of another, and the best of them on disk."""

import itertools
import json
import math
import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import psutil
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from llsvm.data.arrays import ArraySource
from llsvm.errors import BudgetError
from llsvm.files.growing import is_mapped, let_go
from llsvm.memory.budget import MemoryBudget
from llsvm.memory.plan import STATE
from llsvm.settings.settings import Settings
from llsvm.solvers.llsvm import tuning as tuning_module
from llsvm.solvers.llsvm.layout import WEIGHTS
from llsvm.solvers.llsvm.working_sets import WorkingSets
from llsvm.training.training import Training

MB = 1_000_000
COLUMNS = 1_500_000


def rows(n_classes, n=3000, values=30, d=COLUMNS):
    """Sparse rows whose class some of their columns tell."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, n_classes, n)
    columns = np.sort(rng.integers(1000, d, (n, values)), axis=1)
    columns[:, 0] = rng.integers(0, 20, n) * n_classes + y
    columns[::7, 0] = rng.integers(0, 20 * n_classes, len(y[::7]))
    columns[0, -1] = d - 1
    data = rng.random((n, values)).astype(np.float32)
    X = sp.csr_matrix((data.ravel(), columns.ravel(), np.arange(0, n * values + 1, values)), (n, d))
    X.sum_duplicates()
    return X, y


def trained(X, y, tmp_path, megabytes, more=None, threads=1, **options):
    """A run that is over, and its last report."""
    settings = Settings(solver="llsvm", threads=threads, spill_dir=str(tmp_path), **options)
    with Training(ArraySource(X, y), settings, budget=MemoryBudget(megabytes * MB, 0, more)) as run:
        *_, last = run
        return run, run.model, last


LOSSES = {
    "hinge": lambda margin: np.maximum(0, 1 - margin),
    "squared_hinge": lambda margin: np.maximum(0, 1 - margin) ** 2,
    "logistic": lambda margin: np.logaddexp(0, -margin),
}


def problems(y, n_classes, multiclass):
    """Of each problem which rows it has, and on which side they are."""
    if n_classes == 2:
        return [(np.ones(len(y), bool), np.where(y == 1, 1.0, -1.0))]
    if multiclass == "ovr":
        return [(np.ones(len(y), bool), np.where(y == c, 1.0, -1.0)) for c in range(n_classes)]
    pairs = itertools.combinations(range(n_classes), 2)
    return [((y == i) | (y == j), np.where(y == i, 1.0, -1.0)) for i, j in pairs]


@pytest.mark.parametrize(
    ("loss", "n_classes", "multiclass"),
    [("hinge", 2, "ovr"), ("logistic", 2, "ovr"), ("squared_hinge", 3, "ovr"), ("hinge", 3, "ovo")],
)
def test_weights_of_few_copies_are_as_good_and_certified_as_they_are_handed_back(
    tmp_path, loss, n_classes, multiclass
):
    X, y = rows(n_classes)
    solved = problems(y, n_classes, multiclass)
    k, copy = len(solved), 8 * COLUMNS // MB
    options = {"loss": loss, "multiclass": multiclass}
    _, best, _ = trained(X, y, tmp_path, 100 + 3 * k * copy, tol=1e-4, **options)
    run, model, last = trained(X, y, tmp_path, 10 + 3 * k * copy // 2, **options)
    assert run.stream.plan.lines[WEIGHTS] == 12 * k * (COLUMNS + 1)
    assert is_mapped(last.coef)
    assert not is_mapped(model.coef_)
    assert model.converged
    primal, dual = model.certificate.total_primal, model.certificate.total_dual
    assert dual <= best.certificate.total_primal
    assert best.certificate.total_dual <= primal <= 1.001 / 0.999 * best.certificate.total_primal
    measured = 0.0
    for w, b, (there, sign) in zip(model.coef_, model.intercept_, solved, strict=True):
        margin = sign * (X.astype(np.float64) @ w + b)
        measured += 0.5 * w @ w + 0.5 * b**2 + LOSSES[loss](margin)[there].sum()
    assert measured == pytest.approx(primal, rel=1e-12)


def test_the_copy_on_disk_is_not_in_memory_beside_the_model(tmp_path):
    X, y = rows(2)
    run, model, last = trained(X, y, tmp_path, 28)
    assert is_mapped(last.coef)
    n_nonzero = np.count_nonzero(model.coef_) + np.count_nonzero(last.coef[:, -1])
    assert np.count_nonzero(last.coef) == n_nonzero
    assert mapped_bytes(last.coef) > 8 * MB
    let_go(last.coef)
    assert run.model is not None
    assert run.summary()["nonzero_weights"] == n_nonzero
    assert mapped_bytes(last.coef) < MB


def mapped_bytes(array):
    """Of the file that the array lies in, in memory."""
    address = array.__array_interface__["data"][0]
    for each in psutil.Process().memory_maps(grouped=False):
        start, end = (int(part, 16) for part in each.addr.split("-"))
        if start <= address < end:
            return each.rss
    raise AssertionError("it is not mapped")


def test_few_copies_where_there_is_no_room_for_more(tmp_path):
    X, y = rows(2)
    roomy, _, whole = trained(X, y, tmp_path, 60)
    assert roomy.stream.plan.lines[WEIGHTS] == 24 * (COLUMNS + 1)
    assert not is_mapped(whole.coef)
    assert roomy.stream.workspace is None or roomy.stream.workspace.peak_bytes < 8 * COLUMNS
    run, _, _ = trained(X, y, tmp_path, 28)
    assert run.stream.workspace.peak_bytes >= 8 * COLUMNS  # signed in the account of the disk


def test_a_run_that_keeps_a_state_has_its_weights_in_memory(tmp_path):
    X, y = rows(2)
    with pytest.raises(BudgetError) as refused:
        trained(X, y, tmp_path, 32, more={STATE: 4 * MB})
    assert refused.value.smallest_bytes > 24 * COLUMNS
    assert "state being written" in str(refused.value)


@pytest.mark.parametrize("megabytes", [30, 22])  # all rows in one block, and not
def test_margins_that_rounding_weights_leaves_short_are_made_good(tmp_path, megabytes):
    """Where C is large, free rows whose margin is a ten-millionth below 1 cost more than the gap asked for."""
    X, y = rows(2, n=40_000, values=10)
    options = {"C": 1e4, "tol": 1e-4}
    _, best, _ = trained(X, y, tmp_path, 100, **options)
    run, model, last = trained(X, y, tmp_path, megabytes, **options)
    assert run.stream.in_one_block == (megabytes == 30)
    assert is_mapped(last.coef)
    assert model.converged
    assert len(model.history) <= len(best.history) + 4
    assert best.certificate.total_dual <= model.certificate.total_primal
    sign = np.where(y == 1, 1.0, -1.0)
    margin = sign * (X.astype(np.float64) @ model.coef_[0] + model.intercept_[0])
    measured = 0.5 * model.coef_[0] @ model.coef_[0] + 1e4 * np.maximum(0, 1 - margin).sum()
    assert measured == pytest.approx(model.certificate.total_primal, rel=1e-12)


@pytest.mark.parametrize(("loss", "C", "threads"), [("hinge", 100.0, 1), ("squared_hinge", 1.0, 2)])
def test_pairs_keep_all_rows_in_memory_where_the_weights_to_measure_can_lie_on_disk(
    tmp_path, loss, C, threads
):
    X, y = rows(10, n=4000, values=10, d=50_000)
    weights = 8 * 45 * (50_000 + 1)
    options = {"C": C, "loss": loss, "multiclass": "ovo", "tol": 1e-3}
    _, best, _ = trained(X, y, tmp_path, 200, **options)
    run, model, last = trained(X, y, tmp_path, 28, **options, threads=threads)
    assert run.stream.in_one_block
    assert run.stream.plan.lines[WEIGHTS] < 1.3 * weights
    assert run.stream.workspace.peak_bytes >= 1.5 * weights  # signed in the account of the disk
    assert not run.stream.bytes_spilled
    assert is_mapped(last.coef)
    assert model.converged
    assert best.certificate.total_dual <= model.certificate.total_primal
    assert model.certificate.total_dual <= best.certificate.total_primal
    measured = 0.0
    for w, b, (there, sign) in zip(model.coef_, model.intercept_, problems(y, 10, "ovo"), strict=True):
        margin = sign * (X.astype(np.float64) @ w + b)
        measured += 0.5 * w @ w + 0.5 * b**2 + C * LOSSES[loss](margin)[there].sum()
    assert measured == pytest.approx(model.certificate.total_primal, rel=1e-12)
    assert list(tmp_path.iterdir()) == []


def test_weights_on_disk_end_where_those_in_memory_do(tmp_path):
    """They are measured pair by pair, to the last digit as all together; and of those that are solved no more."""
    X, y = rows(5, n=2000, values=10, d=130_000)
    kept = []
    for megabytes in (22, 15):
        run, model, _ = trained(X, y, tmp_path, megabytes, C=10.0, multiclass="ovo", tol=1e-4)
        assert run.stream.in_one_block
        kept.append((run.stream.plan.lines[WEIGHTS], model))
    (in_memory, one), (on_disk, other) = kept
    assert on_disk < in_memory == 12 * 10 * (130_000 + 1)
    assert model.converged
    np.testing.assert_allclose(one.certificate.primal, other.certificate.primal, rtol=1e-4)
    assert one.history[1]["primal"] == other.history[1]["primal"]


def test_all_of_it_stays_below_the_limit(tmp_path):
    """Peak memory, with the model's file, whose weights are mostly zeros; in a process of its own."""
    X, y = rows(25, n=1000, values=20, d=60_000)
    dump_svmlight_file(X, y, str(tmp_path / "some.svm"))
    base = [sys.executable, "-m", "llsvm", "train", "some.svm", "--multiclass", "ovo", "--threads", "1"]
    options = {"cwd": tmp_path, "capture_output": True, "text": True}
    refused = subprocess.run([*base, "--memory-limit", "320MB", "--model", "m"], **options)
    least = int(re.search(r"--memory-limit (\d+)MB or more", refused.stderr)[1])
    weights = 8 * 300 * 60_001 // MB
    assert weights + 264 < least < 1.5 * weights + 264
    done = subprocess.run([*base, "--memory-limit", f"{least}MB", "--model", "m", "--json"], **options)
    outcome = json.loads(done.stdout)
    assert outcome["converged"]
    assert outcome["peak_rss_bytes"] <= least * MB
    assert os.path.getsize(tmp_path / "m") < weights * MB / 2


@pytest.mark.slow
def test_working_sets_do_with_few_copies(tmp_path, monkeypatch):
    """Pairs at a large C, whose survivors are spilled: they come together in the room of the weights that a pass
    measures, which are 32-bit floats again after."""
    solved, together = [], WorkingSets._solve_together

    def solve(sets, gathered, problems, gap):
        solved.extend(problems)
        together(sets, gathered, problems, gap)

    monkeypatch.setattr(WorkingSets, "_solve_together", solve)
    soon = replace(tuning_module.DEFAULT, doubt=math.inf)
    monkeypatch.setattr("llsvm.solvers.llsvm.solver.DEFAULT", soon)
    X, y = rows(10, n=40_000, values=10, d=50_000)
    options = {"C": 1e4, "multiclass": "ovo", "tol": 1e-3}
    _, best, _ = trained(X, y, tmp_path, 200, **options)
    run, model, last = trained(X, y, tmp_path, 34, **options)
    assert not run.stream.in_one_block
    assert run.stream.bytes_spilled
    assert is_mapped(last.coef)
    assert solved
    assert model.converged
    assert best.certificate.total_dual <= model.certificate.total_primal
    assert model.certificate.total_dual <= best.certificate.total_primal
