"""Dual coordinate descent sweeps, one kernel for CSR rows and one for dense rows, and the margins of rows.

The dual of ½‖w‖² + Σ_i C_i max(0, 1 − y_i w·x_i)^p, p = 1 or 2, is, with w = Σ α_i y_i x_i,

    D(α) = Σ α_i − ½‖w‖² − Σ ½ D_i α_i²,   0 ≤ α_i ≤ U_i

with U_i = C_i, D_i = 0 for p = 1 and U_i = ∞, D_i = 1/(2 C_i) for p = 2 (Hsieh et al. 2008, eqs. 3-4).
A step on row i is the exact maximiser of D in α_i (their Algorithm 1; the slides' update rule with η_i = 1/Q_ii).
"""

# mypy: ignore-errors
# Numba infers the types here, and mypy cannot follow it.

from __future__ import annotations

import numpy as np

from llsvm.kernels.intrinsics import fetch
from llsvm.kernels.options import JIT, njit

# Rows are visited in random order, so the processor cannot guess which are next: it is told this many visits
# ahead to fetch where a row begins and its dual variable, and then the row itself.
SOON, NEXT = 12, 6
LINE = 16  # values of 4 bytes in a cache line

GAIN, GAP = 0, 1  # places in ``totals``


@njit(**JIT)
def sweep_csr(
    indptr, indices, data, sign, cost, alpha, margin, order, w, bias, squared, round_to_float32, totals
):
    """One sweep over the rows ``order``; returns how many of them (now in front) are free or were violating.

    indptr: (n + 1,) int64, indices: (nnz,) int32, data: (nnz,) float32 or float64: CSR rows.
    sign: (n,) float64 labels, -1 or +1.
    cost: (n,) float64 C_i; rows that cost 0 are passed over.
    alpha: (n,) float64, updated.
    margin: (n,) float64, set to y_i w·x_i as it was when row i was visited.
    order: (v,) int64 positions, reordered: the rows that changed, or are between their bounds, come first.
    w: (d + 1,) float64, updated; the last entry is the weight of the constant feature.
    bias: float64, the constant feature's value.
    squared: bool, p = 2.
    round_to_float32: bool, α_i / C_i is rounded, so that a float32 store of it agrees with w to the last bit.
    totals: (2,) float64, added to: [GAIN] in D; [GAP] the duality gap of the visited rows as met,
    Σ C_i max(0, 1 − m_i)^p + α_i (m_i − 1) + ½ D_i α_i².
    """
    last = w.shape[0] - 1
    active = 0
    gain = 0.0
    gap = 0.0
    for t in range(order.shape[0]):
        if t + SOON < order.shape[0]:
            soon = order[t + SOON]
            fetch(indptr, soon)
            fetch(alpha, soon)
            fetch(cost, soon)
            fetch(sign, soon)
            fetch(margin, soon)
            following = order[t + NEXT]
            for k in range(indptr[following], indptr[following + 1], LINE):
                fetch(indices, k)
                fetch(data, k)
        i = order[t]
        c = cost[i]
        if c <= 0.0:
            continue
        dot = w[last] * bias
        norm = bias * bias
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            v = np.float64(data[k])
            dot += w[np.uint32(indices[k])] * v
            norm += v * v
        old = alpha[i]
        m = sign[i] * dot
        margin[i] = m
        loss = max(0.0, 1.0 - m)
        if squared:
            ridge = 0.5 / c
            upper = np.inf
            gap += c * loss * loss + old * (m - 1.0) + 0.5 * ridge * old * old
        else:
            ridge = 0.0
            upper = c
            gap += c * loss + old * (m - 1.0)
        g = m - 1.0 + ridge * old
        q = norm + ridge
        # A row without features (q = 0) has the constant gradient -1: its α belongs at the upper bound.
        new = min(max(old - g / q, 0.0), upper) if q > 0.0 else upper
        if round_to_float32:
            new = c * np.float64(np.float32(new / c))
        delta = new - old
        if delta != 0.0:
            gain -= g * delta + 0.5 * q * delta * delta
            alpha[i] = new
            step = delta * sign[i]
            w[last] += step * bias
            for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                w[np.uint32(indices[k])] += step * data[k]
            order[t] = order[active]
            order[active] = i
            active += 1
        elif 0.0 < new < upper:
            order[t] = order[active]
            order[active] = i
            active += 1
    totals[GAIN] += gain
    totals[GAP] += gap
    return active


# Dense rows are summed in any order, so that the loop becomes vector instructions.
@njit(**JIT, fastmath={"reassoc", "contract", "nsz"})
def sweep_dense(X, sign, cost, alpha, margin, order, w, bias, squared, round_to_float32, totals):
    """``sweep_csr`` for X dense, its columns as many as w has features, or fewer; the arguments mean the same."""
    d = X.shape[1]
    last = w.shape[0] - 1
    active = 0
    gain = 0.0
    gap = 0.0
    for t in range(order.shape[0]):
        i = order[t]
        c = cost[i]
        if c <= 0.0:
            continue
        row = X[i]
        dot = 0.0
        norm = 0.0
        for j in range(d):
            v = np.float64(row[j])
            dot += w[j] * v
            norm += v * v
        dot += w[last] * bias
        norm += bias * bias
        old = alpha[i]
        m = sign[i] * dot
        margin[i] = m
        loss = max(0.0, 1.0 - m)
        if squared:
            ridge = 0.5 / c
            upper = np.inf
            gap += c * loss * loss + old * (m - 1.0) + 0.5 * ridge * old * old
        else:
            ridge = 0.0
            upper = c
            gap += c * loss + old * (m - 1.0)
        g = m - 1.0 + ridge * old
        q = norm + ridge
        new = min(max(old - g / q, 0.0), upper) if q > 0.0 else upper
        if round_to_float32:
            new = c * np.float64(np.float32(new / c))
        delta = new - old
        if delta != 0.0:
            gain -= g * delta + 0.5 * q * delta * delta
            alpha[i] = new
            step = delta * sign[i]
            w[last] += step * bias
            for j in range(d):
                w[j] += step * row[j]
            order[t] = order[active]
            order[active] = i
            active += 1
        elif 0.0 < new < upper:
            order[t] = order[active]
            order[active] = i
            active += 1
    totals[GAIN] += gain
    totals[GAP] += gap
    return active


@njit(**JIT)
def dots_csr(indptr, indices, data, w, bias, out):
    """out[i] = w·x_i + w[-1] bias.

    indptr: (n + 1,) int64, indices: (nnz,) int32, data: (nnz,) float32 or float64: CSR rows.
    w: (d + 1,) float64. bias: float64, the constant feature's value. out: (n,) float64.
    """
    constant = w[w.shape[0] - 1] * bias
    for i in range(out.shape[0]):
        dot = constant
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            dot += w[np.uint32(indices[k])] * data[k]
        out[i] = dot


@njit(**JIT, fastmath={"reassoc", "contract", "nsz"})
def dots_dense(X, w, bias, out):
    """``dots_csr`` for X dense, its columns as many as w has features, or fewer."""
    d = X.shape[1]
    constant = w[w.shape[0] - 1] * bias
    for i in range(out.shape[0]):
        row = X[i]
        dot = 0.0
        for j in range(d):
            dot += w[j] * np.float64(row[j])
        out[i] = dot + constant


@njit(**JIT)
def merge(w, copies):
    """Add each thread's steps, copies[t] - w, to w, and set the copies to it.

    w: (d,) float64; copies: (threads, d) float64. Returns the sum of the products of different threads' steps.
    """
    lost = 0.0
    for j in range(w.shape[0]):
        before = w[j]
        total = 0.0
        squares = 0.0
        for t in range(copies.shape[0]):
            step = copies[t, j] - before
            total += step
            squares += step * step
        if squares != 0.0:
            lost += 0.5 * (total * total - squares)
            w[j] = before + total
            for t in range(copies.shape[0]):
                copies[t, j] = w[j]
    return lost
