"""Grids and folds whose problems begin at each other: the same optima, for a fraction of the work."""

from dataclasses import replace

import numpy as np
import pytest
from oracle import rows

from llsvm.data import open_source
from llsvm.memory.budget import MemoryBudget
from llsvm.objective.problems import Fold, Problems, Variant
from llsvm.settings.settings import Settings
from llsvm.solvers.llsvm import second_order
from llsvm.solvers.llsvm.solver import LLSVM
from llsvm.solvers.llsvm.start import NO_PARENT, InTurn
from llsvm.training.training import Training

COSTS = (0.01, 0.1, 1.0, 10.0)
FOLDS = [None, *(Fold(number, 4) for number in range(4))]
PARENTS = [NO_PARENT, 0, 0, 0, 0, *range(5 * (len(COSTS) - 1))]


def solved(X, y, parents, **options):
    """The certificate, and the updates and passes it took."""
    settings = Settings(**{"threads": 1, "tol": 1e-4, "scale": "none", **options})
    with Training(open_source(X, y), settings, budget=MemoryBudget(100_000_000, 0)) as training:
        dataset = training.read()
        variants = [Variant(C, fold) for C in COSTS for fold in FOLDS]
        problems = Problems(dataset.n_classes, settings.multiclass == "ovo", variants)
        solver = LLSVM(training.settings, np.ones(dataset.n_classes), settings.threads, problems)
        if parents is not None:
            solver.in_turn(parents)
        last = None
        for report in solver.solve(training.stream):
            last = report if report.certificate is not None else last
        return last, solver.updates


@pytest.mark.parametrize(
    ("classes", "options"),
    [
        (2, {}),
        (2, {"threads": 2, "loss": "squared_hinge"}),
        (2, {"loss": "logistic"}),
        (3, {"multiclass": "ovo"}),
        (3, {"threads": 2}),
    ],
)
def test_problems_that_begin_at_each_other_have_the_same_optima_for_less(classes, options):
    X, y = rows(n=3000, d=6, classes=classes, seed=1, noise=0.6)
    alone, many = solved(X, y, None, **options)
    chained, few = solved(X, y, PARENTS, **options)
    assert chained.certificate.relative_gap <= 1e-4
    assert chained.passes <= alone.passes
    np.testing.assert_allclose(chained.certificate.primal, alone.certificate.primal, rtol=2e-4)
    assert few <= 0.6 * many


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_weights_that_a_problem_begins_at_are_those_of_its_dual_variables(monkeypatch, loss):
    X, y = rows(n=400, d=6, seed=1, noise=0.6)
    begin, summed = InTurn._begin, []

    def checked(self, c, parent):
        begin(self, c, parent)
        sweeps = self._run.sweeps
        w, dual = sweeps.w[c].copy(), float(sweeps.dual[c])
        sweeps.sum_weights(self._run.duals.whole, c)
        np.testing.assert_allclose(w, sweeps.w[c], rtol=1e-9, atol=1e-9)
        assert dual == pytest.approx(sweeps.dual[c], rel=1e-9)
        summed.append(dual)

    monkeypatch.setattr(InTurn, "_begin", checked)
    solved(X, y, PARENTS, loss=loss)
    assert np.count_nonzero(summed) == len(PARENTS) - 1  # all but the root


def test_where_second_order_has_finished_a_problem_it_is_all_that_those_after_it_see(monkeypatch):
    X, y = rows(n=3000, d=6, seed=1, noise=0.6)
    X = X * np.array([1, 30, 1, 1, 1000, 1])
    solving, solve = [], second_order.solve_subproblem

    def noted(*given):
        found = solve(*given)
        solving.append(found.steps)
        return found

    monkeypatch.setattr(second_order, "solve_subproblem", noted)
    last, few = solved(X, y, PARENTS)
    assert last.certificate.relative_gap <= 1e-4
    assert last.passes == 2  # the first of which has settled them, and the second measured
    assert len(solving) == 5 * len(COSTS)
    assert few <= 100 * len(y)  # of the five problems of the smallest C, until it took over


def test_weights_that_second_order_finds_count_where_the_dual_variables_before_were_better(monkeypatch):
    X, y = rows(n=3000, d=6, seed=1, noise=0.6)
    X = X * np.array([1, 30, 1, 1, 1000, 1])
    found, solve, of_problem = [], second_order.solve_subproblem, second_order.SecondOrder._solve

    def worse(*given):
        found.append(replace(solve(*given), dual=-np.inf))
        return found[-1]

    def checked(self, part, c, *given):
        before = part.alpha[c].copy()
        of_problem(self, part, c, *given)
        if given[-2] is not None:  # in turn
            np.testing.assert_array_equal(self._run.start[c], found[-1].w)
            np.testing.assert_array_equal(part.alpha[c], before)

    monkeypatch.setattr(second_order, "solve_subproblem", worse)
    monkeypatch.setattr(second_order.SecondOrder, "_solve", checked)
    solved(X, y, PARENTS, max_passes=2)
    assert found
