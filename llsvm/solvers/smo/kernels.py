"""The steps of sequential minimal optimisation, on rows of the kernel matrix, and sums of such rows.

Extreme values are found by loops without branches, which the compiler makes wide, and their place afterwards. What
is allowed beyond IEEE arithmetic (there is no NaN, the sign of a zero does not matter) changes no value, so that
results repeat bit for bit. A curvature of a pair counts as rounding's share of its own at least (Fan, Chen,
Lin 2005, section 3); one that is negative beyond rounding says that K is not definite.
"""

from __future__ import annotations

import numpy as np

from llsvm.kernels.options import JIT, njit
from llsvm.solvers.optim.line_search import BEYOND_ROUNDING, ROUNDING

INDEFINITE = -1  # as the number of steps made


@njit(**JIT, fastmath={"nnan", "nsz"})
def pair_steps(K, diagonal, lower, upper, beta, gradient, up, down, score, steps, tolerance):  # type: ignore[no-untyped-def]
    """Steps that keep Σ β: row i has the steepest ascent, j with it the largest gain to second order (Fan, Chen,
    Lin 2005, WSS 2). Returns how many were made; INDEFINITE where a curvature was negative.

    K: (n, n) float64, C order. diagonal: (n,) that of K + D > 0, D the ridge on it.
    lower, upper: (n,) bounds of β. beta: (n,), changed in place.
    gradient: (n,) of the dual objective, t − (K + D) β, changed with it.
    up, down, score: (n,) for work.
    steps: int, at most. tolerance: float, the steps end where ascents along no pair are larger.
    """
    n = len(beta)
    steepest, lowest = -np.inf, np.inf
    for t in range(n):
        up[t] = 0.0 if beta[t] < upper[t] else -np.inf
        down[t] = 0.0 if beta[t] > lower[t] else np.inf
        steepest = max(steepest, gradient[t] + up[t])
        lowest = min(lowest, gradient[t] + down[t])
    for step in range(steps):
        if steepest - lowest <= tolerance:
            return step
        i = 0
        while gradient[i] + up[i] != steepest:
            i += 1
        row, diagonal_i, best = K[i], diagonal[i], -1.0
        for t in range(n):
            ascent = max(steepest - (gradient[t] + down[t]), 0.0)
            diagonals = diagonal_i + diagonal[t]
            gain = ascent * ascent / max(diagonals - 2.0 * row[t], ROUNDING * diagonals)
            score[t] = gain
            best = max(best, gain)
        j = 0
        while score[j] != best:
            j += 1
        other, diagonals = K[j], diagonal_i + diagonal[j]
        curvature = diagonals - 2.0 * row[j]
        if curvature < -BEYOND_ROUNDING * diagonals:
            return INDEFINITE
        room, room_j = upper[i] - beta[i], beta[j] - lower[j]
        change = (steepest - gradient[j]) / max(curvature, ROUNDING * diagonals)
        if change < room and change < room_j:
            beta[i] += change
            beta[j] -= change
        elif room <= room_j:
            change = room
            beta[i] = upper[i]
            beta[j] = lower[j] if room == room_j else beta[j] - change
        else:
            change = room_j
            beta[j] = lower[j]
            beta[i] += change
        for t in (i, j):
            up[t] = 0.0 if beta[t] < upper[t] else -np.inf
            down[t] = 0.0 if beta[t] > lower[t] else np.inf
        gradient[i] -= change * (diagonal_i - row[i])  # the ridge
        gradient[j] += change * (diagonal[j] - other[j])
        steepest, lowest = -np.inf, np.inf
        for t in range(n):
            value = gradient[t] - change * (row[t] - other[t])
            gradient[t] = value
            steepest = max(steepest, value + up[t])
            lowest = min(lowest, value + down[t])
    return steps


@njit(**JIT, fastmath={"nnan", "nsz"})
def single_steps(K, diagonal, lower, upper, beta, gradient, up, down, score, steps, tolerance):  # type: ignore[no-untyped-def]
    """Make steps as ``pair_steps`` does, where nothing ties Σ β: each step is along the row with the largest
    gain."""
    n = len(beta)
    best = steepest = -1.0
    for t in range(n):
        up[t] = 0.0 if beta[t] < upper[t] else -np.inf
        down[t] = 0.0 if beta[t] > lower[t] else np.inf
        ascent = max(gradient[t] + up[t], 0.0) - min(gradient[t] + down[t], 0.0)
        gain = ascent * ascent / diagonal[t]
        score[t] = gain
        best = max(best, gain)
        steepest = max(steepest, ascent)
    for step in range(steps):
        if steepest <= tolerance:
            return step
        i = 0
        while score[i] != best:
            i += 1
        row, before = K[i], beta[i]
        if row[i] < -BEYOND_ROUNDING * diagonal[i]:
            return INDEFINITE
        beta[i] = min(max(before + gradient[i] / diagonal[i], lower[i]), upper[i])
        change = beta[i] - before
        up[i] = 0.0 if beta[i] < upper[i] else -np.inf
        down[i] = 0.0 if beta[i] > lower[i] else np.inf
        gradient[i] -= change * (diagonal[i] - row[i])
        best = steepest = -1.0
        for t in range(n):
            value = gradient[t] - change * row[t]
            gradient[t] = value
            ascent = max(value + up[t], 0.0) - min(value + down[t], 0.0)
            gain = ascent * ascent / diagonal[t]
            score[t] = gain
            best = max(best, gain)
            steepest = max(steepest, ascent)
    return steps


@njit(**JIT)
def add_rows(K, rows, factors, out):  # type: ignore[no-untyped-def]
    """out += Σ factors_k K[rows_k].

    K: (n, m) float64, C order. rows: (r,) int64. factors: (r,) float64. out: (m,) float64.
    """
    for k in range(len(rows)):
        row, factor = K[np.uint64(rows[k])], factors[k]
        for t in range(len(out)):
            out[t] += factor * row[t]
