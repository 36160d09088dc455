"""Sweeps over sparse rows for several problems at once, side by side in the lanes of vector registers.

Problems that have rows in common, the folds of a C, say, share what a visit to a row costs most: reading its
values, and fetching the weights of its columns, which stand next to each other for all of them. The step of each
problem is that of kernels.py, in whose notation this is; of losses whose dual is linear but for w, ridge = epsilon
= 0.
Weights: w[j L + l] is that of column j in lane l, of L = 4 or 8; the last column is the constant feature's.

A row's dual variables are kept as shares α_i / C_i, by its number in the data set; C_i is the row's cost times a
factor of the lane, which differs between the row's signs where classes are weighted, and 0 where the lane leaves
the row out.
"""

# mypy: ignore-errors
# Numba infers the types here, and mypy cannot follow it.

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from llsvm.kernels.intrinsics import fetch
from llsvm.kernels.options import ANY_ORDER, njit
from llsvm.kernels.vectors import differ, load, maximum, minimum, spread, store, without
from llsvm.solvers.optim.rows import NEXT, SOON, fetch_row

# 1 / ‖x‖² of a row without features: its α belongs at a bound, or stays. Far from overflow, whatever it is times.
STEEP = 1.0 / np.sqrt(np.finfo(np.float64).tiny)


class RowArguments(NamedTuple):
    """The first arguments of ``sweep_lanes`` and ``add_lanes``, in their order: rows."""

    indptr: Any
    indices: Any
    data: Any
    y: Any
    cost: Any
    rows: Any
    targets: bool


class ProblemArguments(NamedTuple):
    """The arguments after those, in their order: the problems in the lanes."""

    bias: float
    lanes: tuple[int, ...]
    lower: float
    upper: float
    factors: Any
    left_out: Any


@njit(**ANY_ORDER)
def sweep_lanes(
    indptr,
    indices,
    data,
    y,
    cost,
    rows,
    targets,
    bias,
    lanes,
    lower,
    upper,
    factors,
    left_out,
    order,
    w,
    share,
    active,
    totals,
):
    """One sweep over the rows ``order``: the exact maximiser of D in α_i (Hsieh et al. 2008, Algorithm 1), in each
    lane.

    indptr: (n + 1,) int64, indices: (nnz,) int32, data: (nnz,) float32 or float64: CSR rows.
    y: (n,) float64: classes, -1 or +1, or targets. cost: (n,) float64. rows: (n,) int64, their numbers.
    targets: bool, what y is.
    bias: float64, the constant feature's value. lanes: a tuple of L numbers. lower, upper: float64, of the loss.
    factors: (4, L) float64: of cost, for y < 0 and y > 0, of targets the second; and what 1/C_i is times.
    left_out: (n_rows,) uint8, bit l: lane l leaves the row out.
    order: (v,) int64 positions. w: ((d + 1) L,) float64, updated.
    share: (n_rows L,) float32 or float64, updated. active: (n_rows,) uint8, set: some lane's α_i has changed, or is
        between its bounds.
    totals: (2, L) float64, added to: D's gain; the gap of the rows as met.
    """
    L = len(lanes)
    last = w.shape[0] - L
    low, high, zero, half = spread(lower, lanes), spread(upper, lanes), spread(0.0, lanes), spread(0.5, lanes)
    flat_factors, flat_totals, constant = factors.reshape(-1), totals.reshape(-1), spread(bias, lanes)
    gain, gap = load(flat_totals, 0, lanes), load(flat_totals, L, lanes)
    for t in range(order.shape[0]):
        if t + SOON < order.shape[0]:
            soon = order[t + SOON]
            fetch(indptr, soon)
            fetch(cost, soon)
            fetch(y, soon)
            fetch(share, rows[soon] * L)
            fetch_row(indptr, indices, data, order[t + NEXT])
            # weights are one visit ahead, which saves an eighth of the time where other threads are at work too
            next_one = order[t + 1]
            for k in range(indptr[next_one], indptr[next_one + 1]):
                fetch(w, np.int64(indices[np.uint64(k)]) * L)
        i = order[t]
        row = rows[i]
        at = row * L
        c, out = cost[i], np.int64(left_out[np.uint64(row)])
        if c <= 0.0:
            active[np.uint64(row)] = 0
            continue
        sign, target = (1.0, y[i]) if targets else (y[i], 1.0)
        side = 1 if sign > 0.0 else 0
        begin, end = indptr[i], indptr[i + 1]
        a, b = load(w, last, lanes) * constant, zero  # two sums, so that additions wait less for each other
        q = bias * bias
        k = begin
        while k + 1 < end:
            u, v = np.float64(data[np.uint64(k)]), np.float64(data[np.uint64(k + 1)])
            a = a + load(w, np.int64(indices[np.uint64(k)]) * L, lanes) * spread(u, lanes)
            b = b + load(w, np.int64(indices[np.uint64(k + 1)]) * L, lanes) * spread(v, lanes)
            q += u * u + v * v
            k += 2
        if k < end:
            u = np.float64(data[np.uint64(k)])
            a = a + load(w, np.int64(indices[np.uint64(k)]) * L, lanes) * spread(u, lanes)
            q += u * u
        lane_cost = without(load(flat_factors, side * L, lanes) * spread(c, lanes), out)
        one = 1.0 / (q * c) if q > 0.0 else STEEP
        inverse = without(load(flat_factors, (2 + side) * L, lanes) * spread(one, lanes), out)
        z = spread(target, lanes) - (a + b) * spread(sign, lanes)
        old = load(share, at, lanes)
        store(share, at, minimum(maximum(old + z * inverse, low), high))
        new = load(share, at, lanes)  # as it is kept
        delta = (new - old) * lane_cost
        gap = (
            gap + lane_cost * (high * maximum(z, zero) - low * maximum(zero - z, zero)) - old * lane_cost * z
        )
        gain = gain + z * delta - half * spread(q, lanes) * delta * delta
        moved = differ(delta, zero)
        between = differ((new - low) * (high - new) * lane_cost, zero)
        active[np.uint64(row)] = np.uint8(1 if moved or between else 0)
        if moved:
            step = delta * spread(sign, lanes)
            store(w, last, load(w, last, lanes) + step * constant)
            for k in range(begin, end):
                j = np.int64(indices[np.uint64(k)]) * L
                store(w, j, load(w, j, lanes) + step * spread(np.float64(data[np.uint64(k)]), lanes))
    store(flat_totals, 0, gain)
    store(flat_totals, L, gap)


@njit(**ANY_ORDER)
def rows_of_runs(runs, length, rows, active, everyone, order):
    """The rows that a sweep is to visit: all, or the active ones, run by run.

    runs: (r,) int64, in which order; each is of ``length`` neighbours, the last may be of fewer.
    rows: (n,) int64, numbers. active: (n_rows,) uint8. everyone: bool.
    order: (n,) int64, filled from the front with positions. Returns how many there are.
    """
    n = 0
    for run in runs:
        for i in range(run * length, min((run + 1) * length, rows.shape[0])):
            if everyone or active[rows[i]]:
                order[n] = i
                n += 1
    return n


@njit(**ANY_ORDER)
def dots_lanes(indptr, indices, data, w, bias, lanes, out):
    """out[i, l] = w_l·x_i; the arguments as of ``sweep_lanes``; out: (n, L) float64."""
    L = len(lanes)
    last = w.shape[0] - L
    flat, constant = out.reshape(-1), load(w, last, lanes) * spread(bias, lanes)
    for i in range(out.shape[0]):
        dot = constant
        for k in range(indptr[i], indptr[i + 1]):
            j = np.int64(indices[np.uint64(k)]) * L
            dot = dot + load(w, j, lanes) * spread(np.float64(data[np.uint64(k)]), lanes)
        store(flat, i * L, dot)


@njit(**ANY_ORDER)
def add_lanes(
    indptr,
    indices,
    data,
    y,
    cost,
    rows,
    targets,
    bias,
    lanes,
    lower,
    upper,
    factors,
    left_out,
    w,
    share,
    last,
    step,
    move_factors,
    moves,
    linear,
):
    """Add Σ_i α_i y_i x_i to ``w``, and Σ_i t_i α_i to ``linear``, (L,); or, where it ``moves``, the same of the
    change of α that ``advance`` makes with a length of 1. Shares stay as they are.

    The arguments are as of ``sweep_lanes`` and ``advance``."""
    L = len(lanes)
    at_bias = w.shape[0] - L
    low, high, zero = spread(lower, lanes), spread(upper, lanes), spread(0.0, lanes)
    flat_factors, flat_moves = factors.reshape(-1), move_factors.reshape(-1)
    first, second = load(flat_moves, 0, lanes), load(flat_moves, L, lanes)
    total = load(linear, 0, lanes)
    for i in range(y.shape[0]):
        row = rows[i]
        sign, target = (1.0, y[i]) if targets else (y[i], 1.0)
        side = 1 if sign > 0.0 else 0
        a = load(share, row * L, lanes)
        if moves:
            b = load(last, row * L, lanes)
            change = first * (a - b) + second * load(step, row * L, lanes)
            a = minimum(maximum(a + change, low), high) - a
        lane_cost = without(
            load(flat_factors, side * L, lanes) * spread(cost[i], lanes), np.int64(left_out[np.uint64(row)])
        )
        delta = a * lane_cost
        if differ(delta, zero):
            total = total + delta * spread(target, lanes)
            delta = delta * spread(sign, lanes)
            store(w, at_bias, load(w, at_bias, lanes) + delta * spread(bias, lanes))
            for k in range(indptr[i], indptr[i + 1]):
                j = np.int64(indices[np.uint64(k)]) * L
                store(w, j, load(w, j, lanes) + delta * spread(np.float64(data[np.uint64(k)]), lanes))
    store(linear, 0, total)


@njit(**ANY_ORDER)
def advance(share, last, step, move_factors, length, lower, upper, lanes):
    """Move all shares a ``length`` of the way to where the last two moves lead, and remember them as a point.

    share, last: (n_rows L,), now and at the last point. step: (n_rows L,) uint16, the move from the point before to
    that one, as bfloat16: it only says where to. move_factors: (2, L) float64, how much of the move since the last
    point, and of that before it. length: (L,) float64, of the way to what clipping makes of it.
    lower, upper, lanes: as of ``sweep_lanes``.
    """
    L = len(lanes)
    low, high = spread(lower, lanes), spread(upper, lanes)
    flat = move_factors.reshape(-1)
    first, second, share_of_way = load(flat, 0, lanes), load(flat, L, lanes), load(length, 0, lanes)
    for at in range(0, share.shape[0], L):
        a, b = load(share, at, lanes), load(last, at, lanes)
        change = first * (a - b) + second * load(step, at, lanes)
        a = a + share_of_way * (minimum(maximum(a + change, low), high) - a)
        store(share, at, a)
        a = load(share, at, lanes)  # as it is kept
        store(step, at, a - b)
        store(last, at, a)
