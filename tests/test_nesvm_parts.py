"""Parts of NESVM: feasible dual points under an unpenalised intercept, the regulariser, tuning from Python."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llsvm.errors import UsageError
from llsvm.objective.losses import new_loss
from llsvm.solvers.kernel_machine.problem import KernelObjective
from llsvm.solvers.nesvm import kernels as kernel
from llsvm.solvers.nesvm import nesterov
from llsvm.solvers.nesvm.nesterov import Metric, Regulariser, SearchedSteps
from llsvm.solvers.nesvm.problem import feasible_point
from llsvm.solvers.state import SolverState, restored, saved_values

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


def test_momentum_starts_anew_where_it_points_uphill(monkeypatch):
    """On a quadratic whose curvatures are a thousandth to 1: without that it takes five times the steps, and the
    objective rises in a third of them."""
    curvatures, x0 = np.logspace(-3, 0, 30), np.ones(30)

    def value(x):
        return 0.5 * float(curvatures @ (x - x0) ** 2)

    monkeypatch.setattr(nesterov, "EASE", 1.0)
    vectors, found = np.zeros((5, 30)), []
    last_F = value(np.zeros(30))
    steps = SearchedSteps(*vectors, last_F=last_F, L=1.0, curvature=1.0)  # the search is over
    for _ in range(500):
        steps = steps.advance(
            value(steps.w), curvatures * (steps.w - x0), value(steps.y), 0.0, True, Metric.identity()
        )
        found.append(value(steps.y))
    np.testing.assert_allclose(found, accelerated(curvatures, x0, 500), rtol=1e-6, atol=1e-14)
    assert found == sorted(found, reverse=True)
    assert found[-1] < 1e-10


@dataclass(frozen=True)
class Inner:
    flag: bool = False
    whole: int = 0


@dataclass(frozen=True)
class Outer:
    vector: np.ndarray
    inner: Inner
    real: float = 0.5


def test_what_is_saved_of_a_dataclass_has_its_types_and_shapes():
    value = Outer(np.arange(3.0), Inner(True, 7), 1.5)
    arrays, numbers = saved_values("it", value)
    state = SolverState("nesvm", 1, arrays=arrays, numbers=numbers)
    assert numbers == json.loads(json.dumps(numbers))
    anew = Outer(np.zeros(3), Inner())
    again = restored("it", state, anew)
    assert (again.inner, again.real) == (value.inner, value.real)
    np.testing.assert_array_equal(again.vector, value.vector)
    assert not np.shares_memory(again.vector, value.vector)
    with pytest.raises(UsageError, match=r"^this state has it vector of shape \(3,\), not \(4,\)"):
        restored("it", state, replace(anew, vector=np.zeros(4)))
    with pytest.raises(UsageError, match="other vector"):
        restored("other", state, anew)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"it real": "1"}, "'it real' is '1'"),
        ({"it real": True}, "'it real' is True"),
        ({"it inner whole": True}, "'it inner whole' is True"),
        ({"it inner flag": 0}, "'it inner flag' is 0"),
        ({"it inner flag": None}, "'it inner flag' is None"),
    ],
)
def test_numbers_of_other_types_are_refused(changed, said):
    numbers = {"it inner flag": False, "it inner whole": 1, "it real": 1}
    state = SolverState("nesvm", 1, arrays={"it vector": np.zeros(3)}, numbers=numbers | changed)
    with pytest.raises(UsageError, match=said):
        restored("it", state, Outer(np.zeros(3), Inner()))
    assert restored("it", replace(state, numbers=numbers), Outer(np.zeros(3), Inner())).real == 1.0
