"""Kernels of the method of multipliers (multipliers.py) for the direct multi-class duals, of duals.py: what scores
make of the dual variables of rows, and what these add up to."""

# mypy: ignore-errors
# Numba infers the types here, and mypy cannot follow it.

from __future__ import annotations

import numpy as np

from llsvm.kernels.options import INLINED, JIT, njit

LINEAR, COUPLING, MOVED, LOSS = range(4)  # places in ``totals``
N_TOTALS = LOSS + 1


@njit(**JIT)
def prox_rows(base, scores, sigma, y, cost, weston_watkins, p, v, totals):
    """Set p to the prox at the scores, and v to its coefficients.

    Crammer-Singer: p_m = max(0, z_m − θ), z = base + σ (s + e). With t_m = z_m − σ s_y for m ≠ y and B = Σ_{m≠y}
    base_m, z_y is C − B on that scale. Where p_y > 0, θ depends on t and B alone: Σ (t_m − θ)⁺ = B + θ. So a small
    p_m is exact however large C is. θ is found by leaving out the t_m that it has passed (Michelot 1986).

    base, scores: (n, k) float64. sigma: float64. y: (n,) int32. cost: (n,) float64 C_i.
    weston_watkins: bool, that dual, else Crammer and Singer's. p, v: (n, k) float64, set.
    totals: (4,) float64, added to: [LINEAR] Σ p_m e_m; [COUPLING] Σ v_m s_m; [MOVED] ‖p − base‖²; [LOSS] Σ C_i
        loss_i.
    """
    n, k = base.shape
    for i in range(n):
        own, c, s = np.int64(y[i]), cost[i], scores[i]
        before = most = total = 0.0
        for m in range(k):
            if m != own:
                over = 1.0 + s[m] - s[own]
                most = max(most, over)
                total += max(over, 0.0)
                before += base[i, m]
                p[i, m] = base[i, m] + sigma * over
        if weston_watkins:
            p[i, own] = 0.0
            for m in range(k):
                if m != own:
                    p[i, m] = min(max(p[i, m], 0.0), c)
        else:
            total = most
            theta = _theta(p[i], own, before, 1.0, -before)
            full = theta >= c - before  # then p_y = 0, and Σ (t_m − θ)⁺ = C
            if full:
                theta = _theta(p[i], own, c, 0.0, 0.0)
            for m in range(k):
                p[i, m] = max(p[i, m] - theta, 0.0)
            p[i, own] = 0.0 if full else c - before - theta
        linear = coupling = 0.0
        moved = (p[i, own] - base[i, own]) ** 2
        for m in range(k):
            if m != own:
                share = p[i, m]
                v[i, m] = -share
                linear += share
                coupling += share * (s[own] - s[m])
                moved += (share - base[i, m]) ** 2
        v[i, own] = linear
        totals[MOVED] += moved
        totals[LINEAR] += linear
        totals[COUPLING] += coupling
        totals[LOSS] += c * total


@njit(**JIT, **INLINED)
def _theta(t, own, total, more, none):
    """θ with Σ_{m≠own} (t_m − θ)⁺ = total + more · θ; ``none`` where no t_m is above it, the largest counting if
    ``more`` is 0."""
    theta, count = -np.inf, t.shape[0]
    while True:
        kept, sum_kept, largest = 0, 0.0, -np.inf
        for m in range(t.shape[0]):
            if m != own:
                largest = max(largest, t[m])
                if t[m] > theta:
                    kept += 1
                    sum_kept += t[m]
        if kept == 0:
            return none if more > 0.0 else largest - total
        if kept >= count:  # more only where rounding has lowered θ, which would go on for ever
            return theta
        theta, count = (sum_kept - total) / (kept + more), kept
