"""Rows that are long and wide, and the best multiple of weights."""

import numpy as np
import pytest
import scipy.sparse as sp
from oracle import run

from llsvm.block import CSR
from llsvm.objective.best import Folded, best_factor, scaled_primal
from llsvm.solvers.llsvm.multipliers import Subproblem
from llsvm.solvers.optim.row_operator import RowOperator
from llsvm.stream.progress import Progress

LOSSES = ["hinge", "squared_hinge", "least-squares", "epsilon_insensitive", "squared_epsilon_insensitive"]
LOSSES += ["quantile", "huber"]


# -- the best multiple ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_no_multiple_is_better(seed):
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 30)
    margin, square = rng.normal(0.5, 0.5, n), rng.uniform(0.01, 10)
    cost = rng.uniform(0, 10, n) * 10.0 ** rng.uniform(-2, 4)
    t, primal = scaled_primal(square, margin, cost)
    tried = np.linspace(1, 60, 20_001)
    losses = np.maximum(1 - tried[:, None] * margin, 0) @ cost
    assert t >= 1
    assert primal == pytest.approx(0.5 * t * t * square + cost @ np.maximum(1 - t * margin, 0))
    assert primal <= (0.5 * tried**2 * square + losses).min() * (1 + 1e-12)


def test_nothing_to_scale():
    assert best_factor(0.0, np.zeros(3), np.ones(3)) == 1.0
    assert best_factor(1.0, np.full(3, 2.0), np.ones(3)) == 1.0
    assert best_factor(1.0, np.full(3, 0.5), np.ones(3)) == 1.5
    assert best_factor(1.0, np.full(3, 0.5), np.full(3, 9.0)) == 2.0


@pytest.mark.parametrize("cost", [0.01, 1.0, 1e6])
def test_margins_that_are_folded_give_nearly_the_best_multiple(cost):
    rng = np.random.default_rng(int(cost))
    margin, costs, square = rng.normal(0.7, 0.5, 500), cost * rng.random(500), 40.0
    margin, costs = margin[margin < 1.0], costs[margin < 1.0]
    folded = Folded()
    for piece in np.array_split(np.arange(len(margin)), 7):
        folded.add(margin[piece], costs[piece])
    t, primal = folded.best(square)
    # what it says of P at that multiple is so, and no other one is better by more than the steps are apart
    assert primal == pytest.approx(0.5 * t * t * square + costs @ np.maximum(1 - t * margin, 0), rel=1e-9)
    assert primal == pytest.approx(scaled_primal(square, margin, costs)[1], rel=1e-4)


# -- rows that others try -------------------------------------------------------------------------------------


def subproblem(layout, loss, cost, n=40, d=60):
    rng = np.random.default_rng(3)
    X = np.where(rng.random((n, d)) < 0.3, rng.normal(size=(n, d)), 0.0)
    X[5] = 0
    sign = np.sign(rng.normal(size=n))
    made = sp.csr_matrix(X)
    rows = CSR(made.indptr.astype(np.int64), made.indices, made.data) if layout == "csr" else X
    target = 1.0 if loss.kind == "classification" else rng.normal(size=n)
    sign = sign if loss.kind == "classification" else np.ones(n)
    at = np.arange(n)
    problem = Subproblem(
        RowOperator(rows, d, 1.0, 1 << 20, Progress()), at, sign, target, cost, loss, np.zeros(d + 1)
    )
    return problem, rng


# -- whole runs -----------------------------------------------------------------------------------------------


def texts(n=2500, d=3600, contradict=10, classes=2):
    """Rows of few of many columns, some of them common; a few rows are there once more, of another class."""
    rng = np.random.default_rng(0)
    columns = np.minimum((d ** rng.random((n, 30))).astype(int), d - 1)
    X = sp.csr_matrix((rng.random(n * 30) + 0.1, columns.ravel(), np.arange(0, 30 * n + 1, 30)), shape=(n, d))
    X.sum_duplicates()
    y = np.argmax(X @ rng.normal(size=(d, classes)) + 2.0 * rng.normal(size=(n, classes)), axis=1)
    X = sp.vstack([X, X[:contradict]]).tocsr()
    return X, np.concatenate([y, (y[:contradict] + 1) % classes])


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_wide_rows_at_a_large_cost(loss, multiclass):
    X, y = texts(classes=2 if multiclass == "ovr" else 3)
    training = run(X, y, C=1e4, loss=loss, multiclass=multiclass)
    last = training.reports[-1]
    assert last.converged
    assert last.passes <= 12
    assert last.extra["updates_per_row"] <= 1500


def test_runs_repeat():
    X, y = texts(classes=3)
    runs = [run(X, y, C=1e4, threads=2).coef for _ in range(2)]
    assert np.array_equal(*runs)
