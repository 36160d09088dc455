"""Where a rising function is 0: the end of line searches that look at derivatives alone."""

from __future__ import annotations

from collections.abc import Callable


def regula_falsi(
    function: Callable[[float], float], at_low: float, at_high: float, enough: float, most: int
) -> float:
    """A t in [0, 1] at which |function(t)| is at most ``enough``, by regula falsi with the Illinois rule: the end
    that stays counts half (Dowell & Jarratt 1971).

    at_low, at_high: function(0) < 0 and function(1) > 0. most: points that are looked at, at least one."""
    low, high, t = 0.0, 1.0, 1.0
    for _ in range(most):
        t = (low * at_high - high * at_low) / (at_high - at_low)
        here = function(t)
        if abs(here) <= enough:
            break
        if here > 0:
            high, at_high, at_low = t, here, 0.5 * at_low
        else:
            low, at_low, at_high = t, here, 0.5 * at_high
    return t
