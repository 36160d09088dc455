"""Problems: folds that are always the same, and a grid of C's and folds solved in the passes of one training."""

from dataclasses import replace

import numpy as np
import pytest
from cells import pairwise
from oracle import liblinear, objective, rows, small_pages, with_bias

from llsvm.data import open_source
from llsvm.memory.budget import MemoryBudget
from llsvm.objective.problems import Fold, Problems, Variant
from llsvm.settings.settings import Settings
from llsvm.solvers.llsvm.solver import LLSVM
from llsvm.solvers.llsvm.tuning import DEFAULT
from llsvm.stream.stream import Stream

COSTS = (0.1, 1.0, 5.0)


def test_folds_are_a_partition_and_about_even():
    numbers = np.arange(100_000)
    inside = np.array([Fold(number, 5, seed=3).contains(numbers) for number in range(5)])
    assert (inside.sum(axis=0) == 1).all()
    assert (np.abs(inside.sum(axis=1) - 20_000) < 600).all()
    # as good as independent of what came before, of the parity, and of another seed
    assert abs(np.corrcoef(inside[0][1:], inside[0][:-1])[0, 1]) < 0.02
    assert abs(inside[0][::2].mean() - 0.2) < 0.01
    assert abs(np.corrcoef(inside[0], Fold(0, 5, seed=4).contains(numbers))[0, 1]) < 0.02


def test_folds_are_the_same_wherever_rows_are_read():
    """These rows are written down: another version of the program must leave out the same ones."""
    fold = Fold(1, 3, seed=7)
    assert np.flatnonzero(fold.contains(np.arange(20))).tolist() == WRITTEN
    order = np.random.default_rng(0).permutation(20)
    np.testing.assert_array_equal(fold.contains(order), fold.contains(np.arange(20))[order])
    assert fold.contains(np.array([2**40 + 5, 5]))[1] == (5 in WRITTEN)


WRITTEN = [3, 7, 11, 16, 19]


@pytest.mark.parametrize(("k", "pairs"), [(2, False), (4, False), (4, True)])
def test_problems_of_a_grid_are_listed_in_order(k, pairs):
    of_classes = Problems(k, pairs)
    grid = Problems.grid(k, pairs, COSTS, folds=3, seed=2)
    assert len(grid) == 9 * len(of_classes)
    assert grid.width == 9 * of_classes.width
    y, numbers = np.arange(60, dtype=np.int32) % k, np.arange(60)
    for c in range(len(grid)):
        problem, variant = grid[c], c // len(of_classes)
        np.testing.assert_array_equal(problem.signs, of_classes[c % len(of_classes)].signs)
        assert (problem.cost, problem.leaves_out) == (COSTS[variant // 3], Fold(variant % 3, 3, 2))
        expected = (problem.signs[y] != 0) & ~Fold(variant % 3, 3, 2).contains(numbers)
        np.testing.assert_array_equal(problem.members(y, numbers), np.flatnonzero(expected))
    without_folds = Problems.grid(k, pairs, COSTS)
    assert [each.leaves_out for each in without_folds.variants] == [None] * 3


def test_a_batch_takes_no_more_than_there_is_room_for():
    grid = Problems.grid(3, False, COSTS, folds=3)
    for room, at_once in ((0, 1), (899, 2), (900, 3), (10_000, 9)):
        batches = list(grid.batches(room, problem_bytes=100))
        assert [variant for batch in batches for variant in batch.variants] == list(grid.variants)
        assert max(len(batch.variants) for batch in batches) == at_once


def solved(X, y, weight, problems, folder, ledger=None, threads=1, tuning=DEFAULT, **options):
    """The last report of LLSVM on these problems, and whether all rows were at hand."""
    settings = Settings(**{"solver": "llsvm", "tol": 1e-5, "bias": 1.0, "max_passes": None, **options})
    solver = LLSVM(settings, np.ones(problems.n_classes), threads, problems, tuning)
    with Stream(open_source(X, y, weight), MemoryBudget(ledger or 100_000_000, 0), folder) as stream:
        stream.read()
        *_, report = solver.solve(stream)
        return report, stream.in_one_block


@pytest.mark.parametrize(
    ("k", "multiclass", "ledger", "loss", "out_of_core", "threads"),
    [
        (*first, second, *third)
        for first, second, third in pairwise(
            [(3, "ovr", 300_000), (3, "ovo", 300_000), (2, "ovr", 80_000)],
            ["hinge", "squared_hinge"],
            [(False, 1), (True, 2)],
        )
    ],
)
def test_a_grid_in_the_same_passes_has_the_optima_of_its_rows(
    tmp_path, monkeypatch, k, multiclass, ledger, loss, out_of_core, threads
):
    """Per problem, the optimum that LIBLINEAR finds for those rows alone with that C."""
    small_pages(monkeypatch)
    X, y = rows(n=300, classes=k, seed=4)
    grid = Problems.grid(k, multiclass == "ovo", COSTS, folds=3, seed=1)
    # In many blocks the squared hinge takes hundreds of passes where C is large.
    base = 0.01 if out_of_core and loss == "squared_hinge" else 0.5
    options = {"multiclass": multiclass, "loss": loss, "C": base}
    report, in_one_block = solved(
        X, y, None, grid, tmp_path, ledger if out_of_core else None, threads, **options
    )
    assert report.converged
    assert in_one_block != out_of_core
    assert report.coef.shape == (len(grid), X.shape[1] + 1)
    for c in range(len(grid)):
        problem = grid[c]
        some = problem.members(y.astype(np.int32), np.arange(len(y)))
        assert 0 < len(some) < len(y)
        C, sign = base * problem.cost, problem.signs[y[some]]
        optimum, _ = liblinear(X[some], (sign > 0).astype(int), C, loss, bias=1.0)
        primal, dual = report.certificate.primal[c], report.certificate.dual[c]
        assert dual <= optimum * (1 + 1e-9)
        assert primal <= optimum / (1 - 1e-5) * (1 + 1e-9)
        wide, cost = with_bias(X[some], 1.0), np.full(len(some), C)
        ours = objective(report.coef[c], wide, sign, cost, loss == "squared_hinge")
        assert primal == pytest.approx(ours, rel=1e-9)


def test_a_variant_that_changes_nothing_is_the_plain_problem(tmp_path):
    X, y = rows(n=200, classes=3)
    weight = np.random.default_rng(0).integers(0, 3, 200).astype(float)
    plain, _ = solved(X, y, weight, Problems(3), tmp_path)
    listed, _ = solved(X, y, weight, Problems(3, variants=[Variant(1.0, None)]), tmp_path)
    np.testing.assert_array_equal(plain.coef, listed.coef)
    doubled, _ = solved(X, y, weight, Problems(3, variants=[Variant(2.0)]), tmp_path, C=0.5)
    np.testing.assert_allclose(doubled.coef, plain.coef, rtol=1e-9)
    assert doubled.certificate.total_primal == pytest.approx(plain.certificate.total_primal)


@pytest.mark.parametrize(
    "changes",
    [
        {"small_values": 0, "block_sweeps": 1},
        {"small_values": 0, "max_epochs": 1, "spill_most": 1.0},
        {"small_values": 0, "parallel_above": 4, "parallel_work": 0.1},
    ],
)
def test_tuning_changes_the_work_and_not_the_optimum(tmp_path, changes):
    X, y = rows(n=400)
    tuning = replace(DEFAULT, **changes)
    usual, _ = solved(X, y, None, Problems(2), tmp_path)
    tuned, _ = solved(X, y, None, Problems(2), tmp_path, threads=2, tuning=tuning)
    assert tuned.converged
    assert tuned.certificate.total_dual <= usual.certificate.total_primal
    assert usual.certificate.total_dual <= tuned.certificate.total_primal
    assert tuned.certificate.total_primal != usual.certificate.total_primal
