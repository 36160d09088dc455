"""Line searches that look at derivatives alone, since near the optimum rounding leaves too little of the
function; and what counts as rounding of 64-bit floats where steps are chosen. Certificates have bounds instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable

# Share of the terms of a sum up to which a change is nothing but rounding; also the least ridge of an indefinite
# matrix (lapack.py). Lower takes rounding for progress, higher ends before the last digits are right.
ROUNDING = 1e-13
# Share of the terms of a sum from which an error is more than rounding: a kernel matrix is then not symmetric, or
# not positive semidefinite, and an error. smo/subproblem.py also takes it for the ridge of such a matrix. Lower
# refuses matrices of rounded values, higher takes some that are not of a kernel.
BEYOND_ROUNDING = 1e-6
# Tolerance below which dual variables are stored as 64-bit floats, whatever C is, and llsvm keeps all copies of the
# weights. Lower leaves gaps that 32-bit floats cannot close; higher doubles the stored bytes of runs without need.
DOUBLE_BELOW_TOL = 1e-5


# Share of the first slope at which a search ends. Lower looks at more points, for as many steps of Newton's method;
# higher makes more steps.
SLOPE_SHARE = 0.1
# Points that a search looks at within (0, 1), at most. Only a cap, far more than any search needs: it ends those
# that rounding keeps from their end.
MOST_POINTS = 100


def step_length(derivative: Callable[[float], float], at_zero: float) -> float:
    """Return the step t in [0, 1] along a direction at which a convex function falls little any more.

    derivative: of the function along the direction, at t; increasing. It has been called at the t that is returned,
        unless that is 0.
    at_zero: its value at t = 0; where that is not below 0, rounding is all that is left of the direction, and t
        is 0.

    t is 1 where the derivative is at most ``SLOPE_SHARE`` of −at_zero there, else one where it is as near to 0.
    """
    accuracy, at_one = -SLOPE_SHARE * at_zero, derivative(1.0)
    if not at_zero < 0.0:
        return 0.0
    return regula_falsi(derivative, at_zero, at_one, accuracy, MOST_POINTS) if at_one > accuracy else 1.0


def regula_falsi(
    function: Callable[[float], float], at_low: float, at_high: float, accuracy: float, max_points: int
) -> float:
    """Return a t in [0, 1] at which |function(t)| is at most ``accuracy``, by regula falsi with the Illinois rule:
    an end that stays twice in a row counts half (Dowell & Jarratt 1971). It ends, too, where no number is left
    between the ends: rounding may keep the function from so small a value.

    at_low, at_high: function(0) < 0 and function(1) > 0. max_points: points that are looked at, at least one."""
    low, high, t, before = 0.0, 1.0, 1.0, 0.0
    for _ in range(max_points):
        t = (low * at_high - high * at_low) / (at_high - at_low)
        value = function(t)
        if abs(value) <= accuracy or math.nextafter(low, high) == high:
            break
        if value > 0:
            at_low *= 0.5 if before > 0 else 1.0
            high, at_high = t, value
        else:
            at_high *= 0.5 if before < 0 else 1.0
            low, at_low = t, value
        before = value
    return t
