"""The losses of ``verify``, number by number: what a row costs, its slope, and what its dual has of it."""

from math import exp, hypot, log, log1p

import numpy as np
import pytest
from kept_duals import BOUNDS, of_row

from llsvm.settings.settings import Settings
from llsvm.verification.problems import conjugate_of, joint_losses, margin_losses

EPSILON, DELTA = 0.4, 10.1
OPTIONS = {
    "epsilon_insensitive": {"epsilon": EPSILON},
    "squared_epsilon_insensitive": {"epsilon": EPSILON},
    "quantile": {"quantile": 0.3},
    "huber": {"delta": DELTA},
}
OF_CLASSES = ("hinge", "squared_hinge", "least-squares", "logistic")
MARGINS = np.array(
    [-1e3, -37.5, -11.0, -10.0, -2.0, -0.6, -0.4, -1e-3, 0.0, 0.2, 0.6, 0.9, 1.0, 1.3, 1.4, 3.0, 40.0]
)
SMOOTHINGS = np.array([1e-9, 0.05, 3.0])


def settings_of(loss):
    return Settings(loss=loss, **OPTIONS.get(loss, {}))


def loss_by_hand(loss, margin, target):
    off = target - margin
    if loss == "logistic":
        return log1p(exp(-margin)) if margin > 0 else log1p(exp(margin)) - margin
    if loss == "huber":
        return 0.5 * off * off if abs(off) <= DELTA else DELTA * (abs(off) - 0.5 * DELTA)
    if loss == "quantile":
        return 0.3 * off if off > 0 else -0.7 * off
    if loss == "one_class":
        return max(0.0, -margin)
    size = max(0.0, off) if "hinge" in loss else max(0.0, abs(off) - EPSILON) if "epsilon" in loss else off
    return size * size if "squared" in loss or loss == "least-squares" else size


def slope_by_hand(loss, margin, target, smoothing):
    """Minus the slope in the margin, max(0, z) being ½ (z + √(z² + smoothing²)) where it has a kink."""
    off = target - margin

    def step(z):
        return 0.5 * (1.0 + z / hypot(z, smoothing))

    if loss == "logistic":
        return 1.0 / (1.0 + exp(margin)) if margin < 700 else 0.0
    if loss == "hinge":
        return step(off)
    if loss == "epsilon_insensitive":
        return step(off - EPSILON) - step(-off - EPSILON)
    if loss == "quantile":
        return 0.3 * step(off) - 0.7 * step(-off)
    if loss == "huber":
        return min(max(off, -DELTA), DELTA)
    if loss == "squared_hinge":
        return 2.0 * max(0.0, off)
    if loss == "least-squares":
        return 2.0 * off
    return 2.0 * (max(0.0, off - EPSILON) - max(0.0, -off - EPSILON))


def targets_of(loss):
    return (1.0,) if loss in OF_CLASSES else (1.0, -7.25)


@pytest.mark.parametrize("loss", [*BOUNDS, "one_class"])
def test_what_rows_cost(loss):
    for target in targets_of(loss):
        found = margin_losses(settings_of(loss), MARGINS[:, None], np.full((len(MARGINS), 1), target))
        for margin, value in zip(MARGINS.tolist(), found[:, 0].tolist(), strict=True):
            assert value == pytest.approx(loss_by_hand(loss, margin, target), rel=1e-14, abs=1e-300)


@pytest.mark.parametrize("loss", BOUNDS)
def test_what_their_slopes_are(loss):
    conjugate = conjugate_of(settings_of(loss))
    lower, upper, ridge = BOUNDS[loss]
    assert (conjugate.lower, conjugate.upper) == (lower, upper)
    assert conjugate.ridge == (ridge or 0.0)
    assert conjugate.entropy == (loss == "logistic")
    for target in targets_of(loss):
        found = conjugate.at(
            np.repeat(MARGINS[:, None], len(SMOOTHINGS), axis=1),
            np.full((len(MARGINS), 1), target),
            SMOOTHINGS,
        )
        assert found.shape == (len(MARGINS), len(SMOOTHINGS))
        for margin, row in zip(MARGINS.tolist(), found.tolist(), strict=True):
            for smoothing, a in zip(SMOOTHINGS.tolist(), row, strict=True):
                assert a == pytest.approx(slope_by_hand(loss, margin, target, smoothing), rel=1e-9, abs=1e-12)
                assert lower <= a <= upper


@pytest.mark.parametrize("loss", BOUNDS)
def test_what_their_duals_have_of_them(loss):
    conjugate = conjugate_of(settings_of(loss))
    lower, upper, _ = BOUNDS[loss]
    inner = np.array([1e-300, 1e-5, 0.1, 0.25, 0.3, 1.0 - 1e-9])
    shares = np.unique(
        np.clip(np.r_[lower, upper, 0.0, inner, -inner, 7.0, -7.0], max(lower, -50.0), min(upper, 50.0))
    )
    for target in (1.0, -7.25):
        found = conjugate.value(shares[:, None], np.full((len(shares), 1), target))[:, 0]
        for a, value in zip(shares.tolist(), found.tolist(), strict=True):
            assert value == pytest.approx(of_row(loss, a, target, EPSILON), rel=1e-13, abs=1e-14)


@pytest.mark.parametrize("form", ["crammer-singer", "weston-watkins", "softmax"])
def test_what_rows_cost_of_all_classes(form):
    scores = np.random.default_rng(0).normal(size=(200, 4)) * 2.0
    scores[:5], own = scores[:5] + np.array([800.0, 0.0, -800.0, 0.0]), np.arange(200) % 4
    for i, found in enumerate(joint_losses(form, scores, own).tolist()):
        ahead = [scores[i, m] - scores[i, own[i]] for m in range(4)]
        if form == "softmax":
            top = max(ahead)
            value = top + log(sum(exp(each - top) for each in ahead))
        else:
            over = [max(0.0, 1.0 + each) for m, each in enumerate(ahead) if m != own[i]]
            value = max(over) if form == "crammer-singer" else sum(over)
        assert found == pytest.approx(value, rel=1e-12, abs=1e-14)
