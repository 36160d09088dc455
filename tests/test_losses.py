"""Losses against their definitions: derivative, conjugate, bounds, proximal points, what they add to a gap."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from llsvm.objective.losses import LogisticLoss, PLQLoss, joint_loss, logistic, loss_of, new_loss
from llsvm.settings.objective import CLASSIFICATION, KINDS, KINKED, LOSSES, REGRESSION
from llsvm.settings.settings import Settings
from llsvm.verification.losses import conjugate_of

NUMBERS = st.floats(-50, 50)
PARAMETERS = {  # that are not the defaults, of losses that have some
    "epsilon_insensitive": {"epsilon": 0.75},
    "squared_epsilon_insensitive": {"epsilon": 0.75},
    "quantile": {"quantile": 0.2},
    "huber": {"delta": 2.5},
}
# φ of z = t − m, as textbooks have it
DEFINITIONS = {
    "hinge": lambda z: max(0.0, z),
    "squared_hinge": lambda z: max(0.0, z) ** 2,
    "least-squares": lambda z: z * z,
    "epsilon_insensitive": lambda z: max(0.0, abs(z) - 0.75),
    "squared_epsilon_insensitive": lambda z: max(0.0, abs(z) - 0.75) ** 2,
    "quantile": lambda z: 0.2 * z if z > 0 else -0.8 * z,
    "huber": lambda z: 0.5 * z * z if abs(z) <= 2.5 else 2.5 * abs(z) - 0.5 * 2.5**2,
}


@pytest.fixture(params=sorted(KINDS), scope="module")
def loss(request):
    return new_loss(request.param, **PARAMETERS.get(request.param, {}))


@pytest.fixture(params=sorted(DEFINITIONS), scope="module")
def plq(request):
    return new_loss(request.param, **PARAMETERS.get(request.param, {}))


def test_every_loss_of_four_numbers_has_its_definition_here():
    of_numbers = {name for name in LOSSES if isinstance(new_loss(name), PLQLoss)}
    assert of_numbers == {*DEFINITIONS, "one_class"}


def one(*numbers):
    return [np.array([number]) for number in numbers]


def of_kind(loss, target):
    """The target, where the loss takes one."""
    return target if loss.kind == REGRESSION else 1.0


def inside(loss, share):
    """An a between the bounds, strictly where ``share`` is."""
    low, high = max(loss.lower, -100.0), min(loss.upper, 100.0)
    return low + share * (high - low)


def test_names_and_kinds_are_those_of_the_settings(loss):
    assert new_loss(loss.name).name == loss.name
    assert loss.kind == KINDS[loss.name]
    with pytest.raises(KeyError):
        new_loss("no such loss")


def test_settings_make_the_loss():
    assert loss_of(Settings(loss="squared_hinge")) == PLQLoss(
        "squared_hinge", CLASSIFICATION, 0.0, math.inf, 0.5
    )
    assert new_loss("quantile", quantile=0.25).lower == -0.75


@given(z=NUMBERS, target=NUMBERS)
def test_values_are_those_of_the_definition(plq, z, target):
    target = of_kind(plq, target)
    margin = target - z
    value = plq.value(*one(margin), target)[0]
    assert value == pytest.approx(DEFINITIONS[plq.name](target - margin), rel=1e-12, abs=1e-12)


@given(m=st.floats(-600, 600))
def test_the_logistic_loss_neither_overflows_nor_cancels(m):
    expected = math.log1p(math.exp(-m)) if m > 0 else -m + math.log1p(math.exp(m))
    assert LogisticLoss().value(*one(m))[0] == pytest.approx(expected, rel=1e-14)
    assert logistic(*one(m))[0] + logistic(*one(-m))[0] == pytest.approx(1.0)


@given(m=NUMBERS, target=NUMBERS)
def test_the_derivative_is_that_of_the_value(loss, m, target):
    target, step = of_kind(loss, target), 1e-6
    at = np.array([m - step, m, m + step])
    low, _, high = loss.value(at, target)
    steepest, flattest = loss.derivative(at[[0, 2]], target)  # there may be a kink between them
    assert steepest - 1e-4 <= (high - low) / (2 * step) <= flattest + 1e-4
    assert steepest <= loss.derivative(at, target)[1] <= flattest


@given(m=NUMBERS, error=st.floats(0, 10), share=st.floats(-1, 1), target=NUMBERS)
def test_the_largest_value_is_that_of_the_worst_margin_within_the_error(loss, m, error, share, target):
    (at, off), target = one(m, error), of_kind(loss, target)
    largest = loss.largest_value(at, off, target)[0]
    ends = [loss.value(at - off, target)[0], loss.value(at + off, target)[0]]
    assert largest == pytest.approx(max(ends), rel=1e-12, abs=1e-12)
    assert loss.value(at + share * off, target)[0] <= largest + 1e-11 * (1 + largest)


@given(m=NUMBERS, other=NUMBERS, target=NUMBERS)
def test_slope_and_smoothness_bound_the_loss(loss, m, other, target):
    first, second = loss.derivative(np.array([m, other]), of_kind(loss, target))
    assert abs(first) <= loss.slope
    assert abs(first - second) <= loss.smoothness * abs(m - other) + 1e-12 or np.isinf(loss.smoothness)


@given(m=NUMBERS, share=st.floats(0, 1), target=NUMBERS)
def test_no_row_adds_less_than_nothing_to_the_gap(loss, m, share, target):
    a, at = one(inside(loss, share), m)
    target = of_kind(loss, target)
    gap = loss.value(at, target) + a * at - loss.dual_value(a, target)
    assert gap[0] >= -1e-9 * (1 + a[0] ** 2 + m * m + target * target)


@given(m=NUMBERS, target=NUMBERS)
def test_the_derivative_gives_the_dual_variable_that_closes_the_gap(loss, m, target):
    """Fenchel and Young: equality at a = −φ'(m), which is within the bounds and needs no step."""
    at, target = np.array([m]), of_kind(loss, target)
    a = -loss.derivative(at, target)
    assert loss.lower <= a[0] <= loss.upper
    gap = loss.value(at, target) + a * at - loss.dual_value(a, target)
    assert gap[0] == pytest.approx(0.0, abs=1e-9 * (1 + m * m + target * target))
    if isinstance(loss, LogisticLoss) and abs(m) > 20:
        return  # 1 − a is 0 in floats, or nearly
    gradient = loss.dual_gradient(a, at, target)[0]
    at_lower, at_upper = a[0] <= loss.lower, a[0] >= loss.upper
    assert gradient >= -1e-4 or at_upper
    assert gradient <= 1e-4 or at_lower


@given(m=NUMBERS, a=NUMBERS, negligible=st.sampled_from([0.0, 1e-3, 1.0]))
def test_slack_of_least_squares_tells_how_much_a_row_may_add_to_the_gap(m, a, negligible):
    loss = new_loss("least-squares")
    slack = loss.slack(*one(3.0 * a, m), np.array([3.0]), negligible=negligible)[0]
    ends = [m, m + slack, m - slack]
    gaps = [(loss.value(*one(at)) + a * at - loss.dual_value(*one(a)))[0] for at in ends]
    assert (slack > 0) == (gaps[0] < negligible * (1 - 1e-9)) or gaps[0] == pytest.approx(negligible)
    assert slack == 0 or max(gaps) == pytest.approx(negligible)


@given(m=NUMBERS, place=st.sampled_from(["lower", "zero", "upper", "inside"]), target=NUMBERS)
def test_slack_is_zero_where_a_row_is_free_or_violates(plq, m, place, target):
    a = {"lower": plq.lower, "zero": 0.0, "upper": plq.upper, "inside": inside(plq, 0.625)}[place]
    if not math.isfinite(a):
        return
    target = of_kind(plq, target)
    slack = plq.slack(*one(a, m), target=target)[0]
    # of b'(a) − m at both sides of a: outward where both point back to it
    step = 1e-3
    beyond = [math.inf if a <= plq.lower else None, -math.inf if a >= plq.upper else None]
    for side, sign in ((0, -1.0), (1, 1.0)):
        if beyond[side] is None:
            rise = plq.dual_value(*one(a + sign * step), target)[0] - plq.dual_value(*one(a), target)[0]
            beyond[side] = sign * rise / step - m
    expected = max(0.0, min(beyond[0], -beyond[1]))
    assert slack == pytest.approx(expected, abs=2e-3)
    if place == "inside":
        assert plq.free(*one(a))[0]
        assert slack == 0


@given(m=st.floats(-20, 20), share=st.floats(0, 1), negligible=st.sampled_from([0.0, 1e-6, 1e-3]))
def test_slack_of_the_logistic_loss_tells_how_much_a_row_may_add_to_the_gap(m, share, negligible):
    loss, cost = LogisticLoss(), 4.0
    (a, at), alpha = one(share, m), np.array([share * cost])
    gap = (loss.value(at) + a * at - loss.dual_value(a))[0]
    slack = loss.slack(alpha, at, np.array([cost]), negligible=negligible)[0]
    assert (slack > 0) == (gap < negligible)
    if not 0.05 < share < 0.95 or slack == 0:
        return
    off = [np.log(share / (1 - share)) + m + sign * slack for sign in (-1, 1)]  # of the best margin
    worst = max(off, key=abs) - np.log(share / (1 - share))
    moved = (loss.value(np.array([worst])) + share * worst - loss.dual_value(a))[0]
    assert moved == pytest.approx(negligible, rel=0.35)
    assert np.isnan(loss.slack(alpha, np.array([np.nan]), cost, negligible=negligible)[0])


def test_joint_losses_of_two_classes_have_the_slopes_of_their_margins():
    assert joint_loss("crammer-singer", 5).bounded == 1.0
    assert joint_loss("weston-watkins", 5).slope == 4.0 + 2.0
    with pytest.raises(KeyError):
        joint_loss("hinge", 5)


@given(m=NUMBERS, a=st.sampled_from([0.0, 1e-3, 0.3, 1.0]), cost=st.sampled_from([0.25, 1.0, 8.0]))
def test_slack_and_freedom_do_not_depend_on_the_unit(plq, m, a, cost):
    alpha, margin, costs = np.array([a, 0.0, 1.0]), np.full(3, m), np.full(3, cost)
    np.testing.assert_array_equal(plq.slack(alpha * cost, margin, costs), plq.slack(alpha, margin))
    np.testing.assert_array_equal(plq.free(alpha * cost, costs), plq.free(alpha))
    assert plq.free(alpha)[0] == (plq.lower < a < plq.upper and (a != 0 or plq.epsilon == 0))


@pytest.mark.parametrize("name", ["least-squares", "squared_epsilon_insensitive"])
@given(m=NUMBERS, a=st.sampled_from([0.0, -0.7, 1e-3, 2.0]), negligible=st.sampled_from([0.0, 1e-3, 0.5]))
def test_where_no_dual_variable_rests_rows_of_slack_add_no_more_than_enough(name, m, a, negligible):
    loss = new_loss(name, epsilon=0.3)
    for moved in (m, loss.ridge * a - 0.3, loss.ridge * a - 0.29):  # far from its best margin, and near
        alpha, margin = np.array([8.0 * a]), np.array([1.0 - moved])
        adds = (loss.value(margin) + a * margin - loss.dual_value(np.array([a])))[0]
        slack = loss.slack(alpha, margin, 8.0, negligible=negligible)[0]
        assert slack == 0 or adds <= negligible + 1e-12
        nearer = loss.slack(
            alpha, np.array([1.0 - loss.ridge * a - loss.epsilon * np.sign(a)]), 8.0, negligible=0.5
        )
        assert nearer[0] > 0


def test_slack_of_what_was_not_measured_is_none(plq):
    if math.isfinite(plq.lower):  # else rows are told apart by what they add to the gap
        assert plq.slack(*one(0.1, np.nan))[0] == 0  # free, wherever its margin is
    for bound in filter(math.isfinite, (plq.lower, plq.upper)):
        assert np.isnan(plq.slack(*one(bound, np.nan))[0])


@given(m=NUMBERS, share=st.floats(0.01, 0.99), step=st.floats(1e-3, 1e3), target=NUMBERS)
def test_the_proximal_point_is_the_largest(loss, m, share, step, target):
    """Against every other a, near and far; and its slope against a difference."""
    target, a = of_kind(loss, target), inside(loss, share)
    found = loss.prox(*one(a, m), step, target)

    def rise(at):
        return loss.dual_value(at, target) - at * m - (at - a) ** 2 / (2 * step)

    assert loss.lower <= found[0] <= loss.upper
    low, high = max(loss.lower, found[0] - 60.0), min(loss.upper, found[0] + 60.0)
    others = np.concatenate(
        [np.linspace(low, high, 200), np.clip(found + np.array([-1e-4, 1e-4]), low, high)]
    )
    top = rise(found)[0]
    assert (rise(others) <= top + 1e-9 * (1 + abs(top) + a * a / step + m * m)).all()
    h = 1e-5
    below, above = loss.prox(np.full(2, a), np.array([m - h, m + h]), step, target)
    slopes = loss.prox_slope(np.array([below, above]), step)
    if abs(slopes[0] - slopes[1]) <= 1e-6 * slopes.max():  # no kink between
        assert (below - above) / (2 * h) == pytest.approx(slopes[0], rel=1e-3, abs=1e-5)


@example(m=-3.0, a=0.0, step=0.005)
@given(
    m=st.floats(-700, 700),
    a=st.sampled_from([0.0, 1e-300, 1e-9, 0.5, 1 - 1e-9, 1.0]),
    step=st.floats(1e-6, 1e9),
)
def test_logistic_proximal_points_are_found_wherever_they_are(m, a, step):
    found = LogisticLoss().prox(*one(a, m), step)[0]
    assert 0.0 <= found <= 1.0
    if 1e-12 < found < 1 - 1e-12:
        residual = math.log(found / (1 - found)) + m + (found - a) / step
        assert abs(residual) <= 1e-6 * (1 + abs(m) + 1e-9 / step)


def test_settings_know_which_losses_have_a_kink():
    assert set(KINKED) == {name for name in LOSSES if not np.isfinite(new_loss(name).smoothness)}


@given(st.floats(1e-300, 1e-12))
def test_the_entropy_of_a_small_share_keeps_its_digits(a):
    """−a log a − (1 − a) log(1 − a) is a − a log a: below 1e-16 the first term is lost where 1 − a is taken."""
    loss, conjugate = new_loss("logistic"), conjugate_of(Settings(loss="logistic"))
    expected = a - a * math.log(a) - 0.5 * a * a
    share = np.array([a])
    assert loss.dual_value(share)[0] == pytest.approx(expected, rel=1e-13, abs=0.0)
    assert conjugate.value(share, np.ones(1))[0] == pytest.approx(expected, rel=1e-13, abs=0.0)
    for certain in (np.zeros(1), np.ones(1)):
        assert loss.dual_value(certain)[0] == conjugate.value(certain, certain)[0] == 0.0
