"""Crammer-Singer and Weston-Watkins where C ‖x‖² is huge: columns of all scales, costs that dwarf the objective."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import run

from llsvm.block import Block
from llsvm.objective.losses import joint_loss
from llsvm.objective.rounding import NOISE, RoundingBound
from llsvm.process.threads import Threads
from llsvm.solvers.optim.conjugate_gradients import Way
from llsvm.solvers.optim.newton_system import NewtonSystem, matrix_bytes
from llsvm.solvers.optim.row_operator import coef_of
from llsvm.solvers.sequential_dual.best_weights import BestWeights
from llsvm.solvers.sequential_dual.multipliers import FaceRows, newton_prices
from llsvm.solvers.sequential_dual.problem import (
    BlockShares,
    JointProblem,
    joint_dual,
    lower_costs,
    needed_cost,
    with_costs,
)
from llsvm.stream.progress import Progress

METHODS = ["crammer-singer", "weston-watkins"]
GRID = 2.0**50


def of_all_scales(seed, n=24, d=80, k=3):
    """Rows that classes can be told apart by, of columns that are multiplied by 1e-6 to 1e6."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-6, 6, d), rng.integers(0, k, n)


def exact_primal(W, X, y, cost, method):
    """W: (d, k), in long double."""
    W, X = W.astype(np.longdouble), X.astype(np.longdouble)
    over = X @ W
    over += 1 - over[np.arange(len(y)), y][:, None]
    over[np.arange(len(y)), y] = 0
    loss = np.maximum(over, 0)
    return float((W * W).sum() / 2 + cost @ (loss.max(axis=1) if method == METHODS[0] else loss.sum(axis=1)))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("seed", "C"), [(0, 1e4), (1, 1e8), (2, 1e12)])
def test_columns_of_all_scales_end_certified(method, seed, C):
    """C ‖x‖² is 1e17 to 1e25, the objective 1e-12 or so."""
    X, y = of_all_scales(seed)
    training = run(X, y, C=C, multiclass=method, bias=0.0)
    last = training.reports[-1]
    assert last.converged, (last.certificate, last.cause)
    assert last.passes <= 60
    true = exact_primal(training.coef.T[: X.shape[1]], X, y, np.full(len(y), C), method)
    most = last.certificate.primal[0] + sum(last.certificate.rounding)
    assert true <= most * (1 + 1e-12)
    assert last.certificate.dual[0] <= true


def a_part(method, cost, n=60, d=5, k=4):
    """Dense rows with shares of 2^-20, but for some at their bounds."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, d)), rng.integers(0, k, n).astype(np.int32)
    share = rng.choice([0.0, 1.0, 0.5], (n, k)) * 2.0**-20
    share[:7] = 1.0 if method == "weston-watkins" else np.eye(k)[(y[:7] + 1) % k]
    share[np.arange(n), y] = 0.0
    return BlockShares(Block(X, y, np.arange(n), None), np.asarray(cost * np.ones(n)), share)


def of_rows(method, d=5, k=4, bias=1.0):
    with Threads(1) as threads:  # nothing that is done with it takes any
        return JointProblem(joint_dual(method), (d + 1, k), bias, GRID, threads, Progress())


@pytest.mark.parametrize("method", METHODS)
def test_smaller_costs_of_the_same_dual_variables(method):
    rng = np.random.default_rng(1)
    part = a_part(method, np.where(rng.random(60) < 0.5, 2.0**10, 2.0**-9))
    part.cost[:7] = 2.0**-9  # rows at their bounds stay there
    problem, w, same = of_rows(method), np.zeros((6, 4)), np.zeros((6, 4))
    dual, D = problem.dual, problem.sum_of([part], same)
    before = dual.of_shares(part.share, part.block.y, part.cost)
    lowered = lower_costs(problem, part, 2.0**-8)
    assert problem.sum_of([lowered], w) == pytest.approx(D, rel=1e-12)
    assert lowered.cost.max() == 2.0**-8
    i, y = np.arange(60), part.block.y
    after = dual.of_shares(part.share, y, lowered.cost)
    before[i, y] = after[i, y] = 0.0  # what is left of the cost is less
    np.testing.assert_allclose(after, before, atol=1e-15)
    np.testing.assert_allclose(w, same, atol=1e-13)


@pytest.mark.parametrize("method", METHODS)
def test_dual_variables_above_the_smaller_costs_become_feasible(method):
    part = a_part(method, 1.0)
    lowered = lower_costs(of_rows(method), part, 1e-4)
    assert (part.share >= 0).all()
    assert (part.share.sum(axis=1) if method == "crammer-singer" else part.share).max() == pytest.approx(1.0)
    assert (part.share.sum(axis=1) if method == "crammer-singer" else part.share).max() <= 1.0
    assert lowered.cost.max() == 1e-4
    assert lowered.share is part.share


def test_costs_stay_where_that_is_not_worth_a_change():
    part = a_part("crammer-singer", 1e6)
    assert with_costs(part, np.inf) is part
    assert with_costs(part, 1e6) is part
    long, short = 60 * 1e6 * 1e12, 60.0 * 1e12
    assert needed_cost(part, long, 10.0) == 20.0
    assert needed_cost(part, long, 4e5) == np.inf  # hardly smaller
    assert needed_cost(part, short, 10.0) == np.inf  # the grid is fine enough


@pytest.mark.parametrize("method", METHODS)
def test_what_rounding_may_hide_of_margins_that_are_beyond_it(method):
    """Weights a little longer are certified to where rows move by as much as rounding may move them."""
    rng, k = np.random.default_rng(0), 3
    y = rng.integers(0, k, 40).astype(np.int32)
    X = np.eye(k)[y] * 3.0 + 0.1 * rng.normal(size=(40, k))
    part = BlockShares(Block(X, y, np.arange(40), None), np.full(40, 1e9), np.zeros((40, k)))
    W = np.vstack([np.eye(k), np.zeros((1, k))])
    scores = X @ W[:k]
    margins = scores[np.arange(40), y][:, None] - scores
    W /= np.sort(margins, axis=1)[:, 1].min()  # the least margin is 1
    lost = 1e-7
    bound = RoundingBound(
        lost, np.full(k, 40 * 1e18 / k), np.full(k, 1e9), joint_loss(method, k), noise=NOISE
    )
    best = BestWeights(np.zeros_like(W), bound, of_rows(method, k, k, bias=0.0), 1e-4)
    multiple = best.multiple(part, W, 0.0, 0.0)
    assert 1.0 < multiple.factor < 1.0 + 1e-4
    assert multiple.close == 0.0
    w, certificate = best.certificate(multiple, W, 0.0, 1)
    most = certificate.primal[0] + sum(certificate.rounding)
    assert most <= 0.5 * (W * W).sum() * (1 + 1e-4)
    as_they_are = bound.certificate(coef_of(W), [0.5 * (W * W).sum()], [0.0], 1)
    assert sum(as_they_are.rounding) > 100 * most
    for i in range(40):  # each row in turn takes all that may be lost, in the worst direction
        other = margins[i].argsort()[1]
        way = w[:k, other] - w[:k, y[i]]
        moved = X.copy()
        moved[i] += lost * way / np.linalg.norm(way)
        assert exact_primal(w[:k], moved, y, part.cost, method) <= most


def test_a_step_over_many_columns_of_nearly_parallel_rows():
    """Of such rows' products rounding leaves too little, so that the whole system is solved."""
    rng = np.random.default_rng(0)
    n, d, k = 14, 150, 3
    X, y = 4e3 + 0.2 * rng.normal(size=(n, d)), rng.integers(0, k, n).astype(np.int32)
    face = np.ones((n, k), bool)
    face[np.arange(n), y] = False
    part = BlockShares(Block(X, y, np.arange(n), None), np.ones(n), np.zeros((n, k)))
    prices = newton_prices(True, (d + 1, k), d, matrix_bytes((d + 1) * k, False))
    with Threads(1) as threads:
        problem = JointProblem(joint_dual("weston-watkins"), (d + 1, k), 0.0, GRID, threads, Progress())
        rows = FaceRows(problem, part, face)
        for sigma in (1e5, 1e6, 1e7, 1e8, 1e9):
            g = np.vstack([X.T @ rng.normal(size=(n, k)) + rng.normal(size=(d, k)), np.zeros((1, k))])
            system = NewtonSystem(rows, rows.all, np.full(len(rows.all), sigma), prices)
            assert system.way is Way.ROWS
            s = system.solve(g)
            left = g + s
            rows.add(rows.all, sigma * rows.dots(rows.all, s), left)
            assert np.linalg.norm(left) <= np.linalg.norm(g)  # 1e2 to 1e11 times that by rank
