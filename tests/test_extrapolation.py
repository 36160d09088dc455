"""Sweeps over rows at hand that go on along their last moves."""

import math

import numpy as np
import pytest
from oracle import run
from test_face import LOSSES, subproblem, texts

from llsvm.block import CSR, Block
from llsvm.objective.losses import new_loss
from llsvm.objective.problems import Problems
from llsvm.solvers.llsvm.duals import BlockState
from llsvm.solvers.llsvm.extrapolation import Extrapolation, best_combination
from llsvm.solvers.llsvm.multipliers import Subproblem
from llsvm.solvers.llsvm.second_order import SecondOrder
from llsvm.solvers.llsvm.sweeps import Sweeps


def test_the_best_combination_of_moves():
    rng = np.random.default_rng(0)
    moves, w, linear = rng.normal(size=(2, 9)), rng.normal(size=9), rng.normal(size=2)
    best = best_combination(linear - moves @ w, moves @ moves.T)

    def gain(factors):
        return factors @ linear - 0.5 * np.sum((w + factors @ moves) ** 2)

    for other in best + 0.01 * rng.normal(size=(100, 2)):
        assert gain(other) < gain(best)


def test_moves_that_are_the_same_have_a_combination():
    one = best_combination([2.0], [[4.0]])
    two = best_combination([2.0, 2.0], [[4.0, 4.0], [4.0, 4.0]])
    assert two == pytest.approx(np.repeat(one / 2, 2))
    assert best_combination([0.0, 0.0], np.zeros((2, 2))).tolist() == [0.0, 0.0]


# -- rows at hand ---------------------------------------------------------------------------------------------


def sweeps_at_hand(layout, name, rounded=False, C=50.0, n=120, d=80):
    """Sweeps over wide rows, a part of these, and the rows as a subproblem."""
    loss = new_loss(name)
    problem, _ = subproblem(layout, loss, np.full(n, C), n, d)
    X = problem.rows.X
    X = CSR(X.indptr, X.indices, X.data) if layout == "csr" else X
    numbers = name in ("epsilon_insensitive", "squared_epsilon_insensitive", "quantile", "huber")
    y = problem.target if numbers else (problem.sign > 0).astype(np.int32)
    problems = Problems(1 if numbers else 2, False)
    part = BlockState(problems, Block(X, y, np.arange(n), None), problem.cost, np.zeros((1, n)), loss)
    sweeps = Sweeps(problems, d, loss, 1.0, 1, rounded)
    target, at = part.target(np.arange(n)), np.arange(n)
    problem = Subproblem(problem.rows, at, part.signs(0), target, part.cost(0), loss, np.zeros(d + 1))
    return sweeps, part, problem


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("layout", ["csr", "dense"])
@pytest.mark.parametrize("name", LOSSES)
def test_d_never_falls_and_weights_are_those_of_alpha(name, layout, rounded):
    sweeps, part, problem = sweeps_at_hand(layout, name, rounded)
    extrapolation, moved = Extrapolation(sweeps, part, 0, problem), 0
    loss, cost = problem.loss, problem.cost
    for _ in range(12):
        part.active[0] = part.members(0)
        for _ in range(2):
            sweeps.sweep(part, 0)
        before, alpha = float(sweeps.dual[0]), part.alpha[0].copy()
        extrapolation.step()
        assert sweeps.dual[0] >= before
        moved += not np.array_equal(part.alpha[0], alpha)
        assert (part.alpha[0] >= loss.lower * cost).all()
        assert (part.alpha[0] <= loss.upper * cost).all()
        w = problem.weights(part.alpha[0])
        np.testing.assert_allclose(sweeps.w[0], w, atol=1e-9 * np.abs(w).max())
        assert sweeps.dual[0] == pytest.approx(problem.dual(part.alpha[0], w), rel=1e-9)
        if rounded:
            np.testing.assert_array_equal(part.alpha[0], sweeps.rounded(part.alpha[0], cost))
    assert moved > 5


def test_fewer_sweeps_are_needed():
    """At a large C, where most rows are free."""

    def rounds(extrapolates):
        sweeps, part, problem = sweeps_at_hand("csr", "hinge", C=1e4, n=200, d=210)
        extrapolation = Extrapolation(sweeps, part, 0, problem)
        for number in range(3000):
            part.active[0] = part.members(0)
            if sweeps.sweep(part, 0) <= 1e-6 * sweeps.dual[0]:
                return number
            sweeps.sweep(part, 0)
            if extrapolates:
                extrapolation.step()
        return math.inf

    assert rounds(True) < 0.4 * rounds(False)


def counted(monkeypatch, cls, name):
    """How often a method has been called, as it goes on."""
    calls, method = [], getattr(cls, name)
    monkeypatch.setattr(cls, name, lambda self, *given: (calls.append(1), method(self, *given))[1])
    return calls


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_whole_runs_in_memory(monkeypatch, loss, multiclass):
    calls = counted(monkeypatch, Extrapolation, "step")
    X, y = texts(classes=3)
    last = run(X, y, loss=loss, C=100.0, multiclass=multiclass, tol=1e-4, max_passes=200).reports[-1]
    assert last.converged
    assert calls


def test_without_room_sweeps_do_without(monkeypatch):
    X, y = texts()
    with_room = run(X, y, C=100.0, tol=1e-3, max_passes=200).reports[-1]
    monkeypatch.setattr(SecondOrder, "extrapolation", lambda *given: None)
    without = run(X, y, C=100.0, tol=1e-3, max_passes=200).reports[-1]
    assert with_room.converged
    assert without.converged
    for one, other in ((with_room, without), (without, with_room)):
        assert sum(one.certificate.primal) >= sum(other.certificate.dual)
