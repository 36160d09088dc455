"""Conjugate gradients and line searches that methods share, against linear algebra and functions that are known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llsvm.errors import UsageError
from llsvm.solvers.optim.conjugate_gradients import ConjugateGradients, conjugate_gradients
from llsvm.solvers.optim.line_search import regula_falsi, step_length
from llsvm.solvers.state import SolverState
from llsvm.stream.progress import Progress


def system(seed, shape=(6, 4)):
    """A symmetric positive definite matrix over arrays of a shape, as a function, its diagonal, and b."""
    rng = np.random.default_rng(seed)
    n = int(np.prod(shape))
    A = rng.normal(size=(n, 2 * n))
    A = A @ A.T + np.diag(10.0 ** rng.uniform(-1, 2, n))
    return A, lambda x: (A @ x.ravel()).reshape(shape), A.diagonal().reshape(shape), rng.normal(size=shape)


@given(st.integers(0, 10_000))
def test_conjugate_gradients_solve_what_linear_algebra_does(seed):
    A, times, diagonal, right = system(seed)
    before = right.copy()
    found = conjugate_gradients(times, right, lambda r: r / diagonal, 1e-12, 500, Progress())
    np.testing.assert_allclose(found.ravel(), np.linalg.solve(A, right.ravel()), rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(right, before)


@given(st.integers(0, 10_000))
def test_a_preconditioner_may_change_from_one_product_to_the_next(seed):
    """As an inner iteration does: within a few per cent of the diagonal, at random."""
    A, times, diagonal, right = system(seed)
    rng = np.random.default_rng(seed)
    nearly = lambda r: r / (diagonal * rng.uniform(0.95, 1.05, diagonal.shape))  # noqa: E731
    found = conjugate_gradients(times, right, nearly, 1e-10, 1000, Progress())
    np.testing.assert_allclose(found.ravel(), np.linalg.solve(A, right.ravel()), rtol=1e-5, atol=1e-8)


def test_they_end_at_the_residual_that_is_asked_for_and_after_so_many_products():
    _, times, diagonal, right = system(1)
    made = []

    def counted(x):
        made.append(1)
        return times(x)

    solve = lambda until, most: conjugate_gradients(  # noqa: E731
        counted, right, lambda r: r / diagonal, until, most, Progress()
    )
    roughly = solve(0.1, 100)
    of_rough = len(made)
    assert 0 < of_rough < 20
    norm = lambda r: float(np.sum(r * r / diagonal))  # noqa: E731
    assert norm(right - times(roughly)) <= 0.1**2 * norm(right) * (1 + 1e-9)
    solve(0.0, 3)
    assert len(made) == of_rough + 3


@pytest.mark.parametrize("factor", [0.0, -1.0])
def test_where_there_is_no_curvature_there_is_no_step(factor):
    found = conjugate_gradients(lambda x: factor * x, np.ones(3), np.copy, 1e-3, 10, Progress())
    assert not found.any()
    assert not conjugate_gradients(np.copy, np.zeros(3), np.copy, 1e-3, 10, Progress()).any()


def test_a_run_that_was_stopped_goes_on_to_the_same_bytes():
    _, times, diagonal, right = system(2)
    run = ConjugateGradients(right, lambda r: r / diagonal)
    for _ in range(3):
        run.advance(times(run.direction))
    arrays = {name: array.copy() for name, array in run.arrays("it").items()}
    other = ConjugateGradients(right, lambda r: r / diagonal)
    other.restore("it", SolverState("test", 1, {}, arrays))
    for each in (run, other):
        for _ in range(3):
            each.advance(times(each.direction))
    np.testing.assert_array_equal(run.solution, other.solution)
    assert run.size == other.size
    del arrays["it residual"]
    with pytest.raises(UsageError):
        other.restore("it", SolverState("test", 1, {}, arrays))


@given(
    st.floats(-10, -1e-3),
    st.floats(1e-3, 100),
    st.lists(st.tuples(st.floats(0, 1.5), st.floats(0, 1000)), max_size=5),
)
def test_a_step_is_where_the_derivative_of_a_convex_function_is_small(at_zero, slope, kinks):
    def derivative(t):
        return at_zero + slope * t + sum(rise * max(t - at, 0.0) for at, rise in kinks)

    t = step_length(derivative, derivative(0.0))
    assert 0.0 < t <= 1.0
    assert derivative(t) <= 0.1 * -at_zero + 1e-9
    assert t == 1.0 or derivative(t) >= 0.1 * at_zero - 1e-9


@given(st.floats(1e-3, 0.999), st.floats(0.1, 10.0))
def test_the_zero_of_a_smooth_function_is_found_in_a_few_points(zero, bend):
    looked_at = []

    def function(t):
        looked_at.append(t)
        return np.expm1(bend * (t - zero))

    t = regula_falsi(function, function(0.0), function(1.0), 1e-12, 100)
    assert t == pytest.approx(zero, abs=1e-10)
    assert len(looked_at) <= 25


def test_a_search_ends_where_rounding_leaves_no_point_between_its_ends():
    looked_at = []

    def function(t):
        looked_at.append(t)
        return math.copysign(1e-3, t - 0.3)  # its values are nothing but rounding

    assert regula_falsi(function, -1.0, 1.0, 1e-12, 1000) == pytest.approx(0.3, abs=1e-15)
    assert len(looked_at) < 100


@pytest.mark.parametrize("at_zero", [0.0, 1e-9, float("nan")])
def test_where_rounding_is_all_that_is_left_there_is_no_step(at_zero):
    assert step_length(lambda t: at_zero, at_zero) == 0.0
