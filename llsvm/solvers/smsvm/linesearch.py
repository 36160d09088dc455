"""Exact line search for a quadratic plus an L1 norm (SmSVM section 2.2, Algorithm 4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def search(
    slope: float, curvature: float, w: NDArray[np.float64], d: NDArray[np.float64], l1: NDArray[np.float64]
) -> tuple[float, NDArray[np.bool_]]:
    """The step s ≥ 0 that minimises φ(s) = slope s + ½ curvature s² + Σ l1_i |w_i + s d_i| (eq. 2.1), and
    what it makes zero.

    w, d, l1: (n,) float64. curvature ≥ 0, l1 ≥ 0. φ' jumps upwards at the breakpoints −w_i/d_i > 0 and is linear
    between them, so its zero is found by bisection over the sorted breakpoints (eq. 2.3).
    Returns the step (∞ where φ falls for ever) and an (n,) mask of the w_i + s d_i of some l1_i that the step makes
    exactly zero.
    """
    moves = (d != 0) & (l1 > 0)
    breaks = np.full(len(w), -1.0)
    np.divide(-w, d, out=breaks, where=moves & (w != 0))
    crossing = np.flatnonzero(breaks > 0)
    crossing = crossing[np.argsort(breaks[crossing], kind="stable")]
    at = breaks[crossing]
    # φ'(s) just after breakpoint number j is start + curvature s + jumps[j]: those crossed change their sign
    signs = np.where(w != 0, np.sign(w), np.sign(d))
    start = slope + float((l1 * signs) @ d)
    jumps = np.concatenate([[0.0], 2 * np.cumsum(l1[crossing] * np.abs(d[crossing]))])
    none = np.zeros(len(w), bool)
    if start >= 0:
        return 0.0, none
    low, high = 0, len(at)  # the zero of φ' is after breakpoint number low - 1 and not after number high
    while low < high:
        middle = (low + high) // 2
        if start + curvature * at[middle] + jumps[middle + 1] >= 0:
            high = middle
        else:
            low = middle + 1
    before = start + jumps[low]  # φ' between breakpoints low - 1 and low is before + curvature s
    if low < len(at) and before + curvature * at[low] < 0:  # φ' jumps over zero at the breakpoint
        none[crossing[at == at[low]]] = True
        return float(at[low]), none
    if curvature <= 0:
        return (float("inf"), none) if before < 0 else (float(at[low - 1]) if low else 0.0, none)
    return -before / curvature, none
