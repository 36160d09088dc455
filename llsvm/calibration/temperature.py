"""Temperature: one number by which the scores of all classes are divided before they are a softmax.

    minimise over β = 1/temperature > 0:  −Σ_i s_i log p_i(true class),   p_i = softmax(β f_i)

(Guo, Pleiss, Sun & Weinberger 2017.) f_i: scores (n, k) of classes; of two classes those of the second, the other
having 0. s_i: the sample weight. The loss is convex in β: its derivative is looked for a zero, by Newton's method
within an interval that halves where that leaves it. Each evaluation is one reading of the scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from llsvm.calibration.held_scores import Held

_FARTHEST = math.e**10  # that β is from that of the largest score being 1, at most: 4.5e-5 to 22,026
_MAX_READINGS = 100
_SMALL_STEP = 1e-10  # relative


def temperature(pieces: Callable[[], Iterator[Held]]) -> float:
    """β."""
    largest = max((float(np.abs(scores).max(initial=0.0)) for _, scores, _ in pieces()), default=0.0)
    unit = 1 / largest if largest > 0 else 1.0
    low, high, beta = unit / _FARTHEST, unit * _FARTHEST, unit
    for _ in range(_MAX_READINGS):
        slope, curvature = _measured(pieces, beta)
        low, high = (beta, high) if slope < 0 else (low, beta)
        wanted = beta - slope / curvature if curvature > 0 else math.nan
        if not low < wanted < high:  # also where it is no number
            wanted = math.sqrt(low * high)
        if abs(wanted - beta) <= _SMALL_STEP * beta:
            return wanted
        beta = wanted
    return beta


def _measured(pieces: Callable[[], Iterator[Held]], beta: float) -> tuple[float, float]:
    """First and second derivative of the loss."""
    slope = curvature = 0.0
    for true, scores, weight in pieces():
        f = np.column_stack([np.zeros(len(scores)), scores[:, 0]]) if scores.shape[1] == 1 else scores
        p = np.exp(beta * (f - f.max(axis=1, keepdims=True)))
        p /= p.sum(axis=1, keepdims=True)
        mean = (p * f).sum(axis=1)
        slope += float(weight @ (mean - f[np.arange(len(f)), true]))
        curvature += float(weight @ (p * (f - mean[:, None]) ** 2).sum(axis=1))
    return slope, curvature
