"""Losses against their definitions: derivative, conjugate, bounds, and what they add to a duality gap."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from llsvm.objective.losses import LOSSES, joint_loss

MARGINS = st.floats(-50, 50)


@pytest.fixture(params=sorted(LOSSES), scope="module")
def loss(request):
    return LOSSES[request.param]


def test_numbers_and_names_are_unique():
    assert len({loss.number for loss in LOSSES.values()}) == len(LOSSES)
    assert all(LOSSES[name].name == name for name in LOSSES)


@given(m=MARGINS)
def test_the_derivative_is_that_of_the_value(loss, m):
    step = 1e-6
    if abs(m - 1) <= 2 * step:
        return
    at = np.array([m - step, m, m + step])
    low, _, high = loss.value(at)
    assert loss.derivative(at)[1] == pytest.approx((high - low) / (2 * step), abs=1e-4)


@given(m=MARGINS, error=st.floats(0, 10), share=st.floats(-1, 1))
def test_the_largest_value_is_that_of_the_worst_margin_within_the_error(loss, m, error, share):
    at, off = np.array([m]), np.array([error])
    largest = loss.largest_value(at, off)[0]
    ends = [loss.value(at - off)[0], loss.value(at + off)[0]]
    assert largest == pytest.approx(max(ends), rel=1e-12)
    assert loss.value(at + share * off)[0] <= largest * (1 + 1e-12)


@given(m=MARGINS, other=MARGINS)
def test_slope_and_smoothness_bound_the_loss(loss, m, other):
    first, second = loss.derivative(np.array([m, other]))
    assert abs(first) <= loss.slope
    assert abs(first - second) <= loss.smoothness * abs(m - other) + 1e-12 or np.isinf(loss.smoothness)


@given(m=MARGINS, share=st.floats(0, 1))
def test_no_row_adds_less_than_nothing_to_the_gap(loss, m, share):
    low, high = max(loss.lower, -100.0), min(loss.upper, 100.0)
    a, at = np.array([low + share * (high - low)]), np.array([m])
    assert (loss.value(at) + a * at - loss.dual_value(a))[0] >= -1e-9 * (1 + a[0] ** 2 + m * m)


@given(m=MARGINS)
def test_the_derivative_gives_the_dual_variable_that_closes_the_gap(loss, m):
    """Fenchel and Young: equality at a = −φ'(m), which is within the bounds and needs no step."""
    at = np.array([m])
    a = -loss.derivative(at)
    assert loss.lower <= a[0] <= loss.upper
    gap = loss.value(at) + a * at - loss.dual_value(a)
    assert gap[0] == pytest.approx(0.0, abs=1e-9 * (1 + m * m))
    gradient = loss.dual_gradient(a, at)[0]
    at_lower, at_upper = a[0] <= loss.lower, a[0] >= loss.upper
    assert gradient >= -1e-9 or at_upper
    assert gradient <= 1e-9 or at_lower


@given(m=MARGINS, a=st.floats(0, 1))
def test_slack_is_zero_where_a_row_is_free_or_violates(loss, m, a):
    gradient = loss.dual_gradient(np.array([a]), np.array([m]))[0]
    slack = loss.slack(np.array([a]), np.array([m]))[0]
    if loss.lower < a < loss.upper:
        assert slack == 0
    elif a <= loss.lower:
        assert slack == max(gradient, 0.0)
    else:
        assert slack == max(-gradient, 0.0)


def test_joint_losses_of_two_classes_have_the_slopes_of_their_margins():
    assert joint_loss("crammer-singer", 5).bounded == 1.0
    assert joint_loss("weston-watkins", 5).slope == 4.0 + 2.0
    with pytest.raises(KeyError):
        joint_loss("hinge", 5)


@given(m=MARGINS, a=st.sampled_from([0.0, 1e-3, 0.3, 1.0]), cost=st.sampled_from([0.25, 1.0, 8.0]))
def test_slack_and_freedom_do_not_depend_on_the_unit(loss, m, a, cost):
    alpha, margin, costs = np.array([a, 0.0, 1.0]), np.full(3, m), np.full(3, cost)
    np.testing.assert_array_equal(loss.slack(alpha * cost, margin, costs), loss.slack(alpha, margin))
    np.testing.assert_array_equal(loss.free(alpha * cost, costs), loss.free(alpha))
    assert loss.free(alpha)[0] == (loss.lower < a < loss.upper)


def test_slack_of_what_was_not_measured_is_none(loss):
    assert loss.slack(np.array([0.0, 0.5]), np.full(2, np.nan))[1] == 0 or not np.isfinite(loss.upper)
    if np.isfinite(loss.lower):
        assert np.isnan(loss.slack(np.array([0.0]), np.array([np.nan]))[0])
