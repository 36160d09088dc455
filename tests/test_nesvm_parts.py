"""Parts of NESVM: feasible dual points under an unpenalised intercept, the regulariser, tuning from Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from state_suite import Case

from llsvm.errors import UsageError
from llsvm.objective.losses import new_loss
from llsvm.solvers.kernel_machine.objective import KernelObjective
from llsvm.solvers.nesvm import kernels as kernel
from llsvm.solvers.nesvm.dual import feasible_point
from llsvm.solvers.nesvm.kernel_solver import KernelNESVM
from llsvm.solvers.nesvm.metric import Metric
from llsvm.solvers.nesvm.nesterov import SearchedSteps
from llsvm.solvers.nesvm.regulariser import Regulariser
from llsvm.solvers.nesvm.solver import NESVM
from llsvm.solvers.nesvm.tuning import KernelTuning, NESVMTuning
from llsvm.solvers.saved_numbers import SavedNumbers
from llsvm.solvers.state_arrays import ProblemArrays, StateArrays

LOSSES = ("hinge", "squared_hinge", "least-squares")


def passes(X, sign, cost, name, *points):
    """Sums and gradients of passes at ``points``, and the α of the last, row by row."""
    for w in points:
        grad, sums = np.zeros((1, 2, len(w))), np.zeros((1, kernel.N_SUMS))
        ids, signs = (sign > 0).astype(np.int32), np.array([[-1.0, 1.0]])
        tail = (np.arange(1), w[None], w[None], 1.0, np.ones(1), kernel.LOSS_NUMBERS[name], True, grad, sums)
        kernel.gradient(None, None, X, ids, cost, signs, *tail)
        yield sums[0], grad[0]


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(LOSSES), st.integers(0, 2**32 - 1))
def test_points_restore_the_sum_and_keep_the_bounds(name, seed):
    """s and v of a pass are those of an α with Σ α y = 0 within its bounds, which is made here row by row."""
    rng, loss = np.random.default_rng(seed), new_loss(name)
    X, sign, cost = rng.normal(size=(20, 3)), np.repeat([1.0, -1.0], [8, 12]), rng.uniform(0.1, 2, 20)
    X1, w = np.c_[X, np.ones(20)], rng.normal(size=4)
    s, v = feasible_point(*next(passes(X, sign, cost, name, w)))
    margin = sign * (X1 @ w)
    size = np.maximum(np.abs(X).max(axis=1), 1.0)
    alpha = cost * np.clip((1 - margin) / size, 0, 1) if name == "hinge" else -cost * loss.derivative(margin)
    plus, minus = alpha[sign > 0].sum(), alpha[sign < 0].sum()
    both = max(min(plus, minus), 0.0)  # of least squares α may be below 0
    alpha *= np.where(sign > 0, both / plus if plus > 0 else 0.0, both / minus if minus > 0 else 0.0)
    assert alpha @ sign == pytest.approx(0, abs=1e-9)
    assert ((loss.lower * cost <= alpha) & (alpha <= loss.upper * cost * (1 + 1e-12))).all()
    assert s == pytest.approx((cost * loss.dual_value(alpha / cost)).sum(), abs=1e-9)
    np.testing.assert_allclose(v, np.append(X.T @ (alpha * sign), 0.0), atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(LOSSES), st.booleans(), st.integers(0, 2**32 - 1))
def test_kernel_machines_bound_primal_and_dual(name, intercept, seed):
    """What rounding may add to the primal is little, the smallest dual of a feasible α no more than it, and no
    larger than any primal."""
    rng, loss = np.random.default_rng(seed), new_loss(name)
    X, sign, cost = rng.normal(size=(15, 3)), np.repeat([1.0, -1.0], [7, 8]), rng.uniform(0.1, 2, 15)
    K = X @ X.T
    norms = np.sqrt(np.diag(K))
    objective = KernelObjective(loss, intercept, sign, cost, np.stack([norms, np.zeros(15)]))
    alpha = objective.feasible(rng.normal(size=15))
    assert ((loss.lower * cost <= alpha) & (alpha <= loss.upper * cost * (1 + 1e-12))).all()
    assert not intercept or alpha @ sign == pytest.approx(0, abs=1e-9)
    beta, b = rng.normal(size=15), float(intercept) * rng.normal()
    primal, more = objective.measured_primal(beta, K @ beta, b)
    assert primal == objective.primal(beta, K @ beta, b)
    assert 0 < more <= primal * 1e-9
    v = alpha * sign
    dual = (cost * loss.dual_value(alpha / cost)).sum() - 0.5 * v @ K @ v
    smallest, less = objective.measured_dual(v, K @ v, b)
    assert dual - 1e-9 * (1 + abs(dual)) <= smallest <= dual
    assert smallest + less == pytest.approx(dual, abs=1e-14 * (1 + abs(dual)))
    assert objective.linear_part(alpha) == pytest.approx(dual + 0.5 * v @ K @ v, abs=1e-9)
    assert smallest <= primal + more


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("l1", [False, True])
def test_the_gradient_of_the_regulariser_is_that_of_its_value(l1, free):
    regulariser, mu = Regulariser(l1, free), 0.3
    w = np.array([0.1, -0.2, 2.0, -3.0, 5.0])
    at, step = regulariser.at(w, mu), 1e-6
    for j, e in enumerate(step * np.eye(5)):
        slope = (regulariser.at(w + e, mu).value - regulariser.at(w - e, mu).value) / (2 * step)
        assert at.gradient[j] == pytest.approx(slope, abs=1e-6)
    assert at.gradient[-1] == 0 or not free
    penalised = w[:-1] if free else w
    exact = regulariser.exact(w)
    assert exact == pytest.approx(np.abs(penalised).sum() if l1 else 0.5 * penalised @ penalised)
    assert at.smoothing_gap == pytest.approx(exact - at.gradient @ w if l1 else 0.0)
    size = np.abs(penalised)
    lost = np.where(size > mu, mu / 2, size - size**2 / (2 * mu)).sum() if l1 else 0.0
    assert exact - at.value == pytest.approx(lost)


def accelerated(curvatures, x0, n):
    """The slow twin: objectives of y of Nesterov's method, whose momentum starts anew where it points uphill."""
    w, y, t, found = np.zeros_like(x0), np.zeros_like(x0), 1.0, []
    direction = np.zeros_like(x0)
    for _ in range(n):
        gradient = curvatures * (w - x0)
        t = 1.0 if gradient @ direction > 0 else t
        after = (1.0 + np.sqrt(1.0 + 4.0 * t * t)) / 2.0
        before, y = y, w - gradient
        direction = y - before
        w, t = y + (t - 1.0) / after * direction, after
        found.append(0.5 * curvatures @ (y - x0) ** 2)
    return found


def test_momentum_starts_anew_where_it_points_uphill():
    """On a quadratic whose curvatures are a thousandth to 1: without that it takes five times the steps, and the
    objective rises in a third of them."""
    curvatures, x0 = np.logspace(-3, 0, 30), np.ones(30)

    def value(x):
        return 0.5 * float(curvatures @ (x - x0) ** 2)

    steps, found = SearchedSteps(ProblemArrays.alone(30), NESVMTuning(ease=1.0), Metric.identity()), []
    steps.restore(
        SavedNumbers(
            {
                "curvature": 1.0,
                "ridge": 0.0,
                "L": 1.0,
                "t": 1.0,
                "momentum": False,
                "last F": value(np.zeros(30)),
            }
        )
    )  # the search is over
    for _ in range(500):
        steps.advance(value(steps.w), curvatures * (steps.w - x0), value(steps.y), 0.0, True)
        found.append(value(steps.y))
    np.testing.assert_allclose(found, accelerated(curvatures, x0, 500), rtol=1e-6, atol=1e-14)
    assert found == sorted(found, reverse=True)
    assert found[-1] < 1e-10


def test_tuning_is_set_from_python(tmp_path):
    settings = {"solver": "nesvm", "tol": 1e-2, "C": 0.1}

    def linear(settings, class_weight, threads):
        return NESVM(settings, class_weight, threads, NESVMTuning(mu=7.0, smoothing_share=1e9))

    def kernels(settings, class_weight, threads):
        return KernelNESVM(settings, class_weight, threads, KernelTuning(mu=7.0, smoothing_share=1e9))

    for case, said in (
        (Case({**settings, "max_passes": 3}, make=linear), "searched"),
        (Case({**settings, "kernel": "rbf", "max_passes": 1}, make=kernels), "mu = 7"),
    ):
        with case.stream(tmp_path) as stream:
            first = next(iter(case.solver().solve(stream)))
        assert said in first.note
        assert first.extra["mu"] == 7.0


def test_arrays_of_problems_are_views_of_one_array_each():
    arrays = StateArrays([2, 3])
    first, second = arrays.of(0), arrays.of(1)
    second.vector("w")[:] = 5.0
    second.vectors("v", 2)[1] = 7.0
    first.table("t", 2)[:] = 1.0
    assert arrays.by_name["w"].tolist() == [0, 0, 5, 5, 5]
    assert arrays.by_name["v"].tolist() == [0] * 7 + [7] * 3
    assert arrays.by_name["t"].tolist() == [[1, 1], [0, 0]]
    again = StateArrays([2, 3], arrays.by_name)
    np.testing.assert_array_equal(again.of(1).vectors("v", 2), [[0, 0, 0], [7, 7, 7]])
    assert not np.shares_memory(again.by_name["v"], arrays.by_name["v"])
    for wrong in (StateArrays([2, 4], arrays.by_name), StateArrays([2, 3], {})):
        with pytest.raises(UsageError, match=r"^this state has w of shape"):
            wrong.of(0).vector("w")
    again.forget_saved()
    assert not again.of(0).vector("new").any()


@pytest.mark.parametrize("value", [None, "1", True, [1]])
def test_saved_numbers_have_their_types(value):
    saved = SavedNumbers({"it": value, "whole": 1, "real": 0.5, "flag": False, "parts": [{"x": 1}]})
    with pytest.raises(UsageError, match="'it' is"):
        saved.real("it")
    with pytest.raises(UsageError, match="'it' is"):
        saved.whole("it")
    with pytest.raises(UsageError, match=r"'real' is 0\.5"):
        saved.flag("real")
    with pytest.raises(UsageError, match="'parts' is"):
        saved.parts("parts", 2)
    assert (saved.real("whole"), saved.whole("whole"), saved.flag("flag")) == (1.0, 1, False)
    assert saved.parts("parts", 1)[0].whole("x") == 1
