"""The kernel that moves many shares of the multi-class duals at once, and the weights with them."""

# mypy: ignore-errors
# Numba infers the types here, and mypy cannot follow it.

from __future__ import annotations

import numpy as np

from llsvm.kernels.options import ANY_ORDER, njit
from llsvm.kernels.rows import values


@njit(**ANY_ORDER)
def move_shares(
    indptr, indices, data, y, cost, share, rows, first, class_ids, step, w, bias, weston_watkins, grid
):
    """Move the listed shares by ``step``, cut at their bounds, and the weights with them.

    rows: (r,) int64 positions. first: (r + 1,) int64: row rows[t] has the places first[t] ≤ v < first[t + 1] of the
    list, v of class class_ids[v], (v,) int32; all its shares that are not on the list are 0 or, with
    Weston-Watkins, at a bound. step: (v,) float64. The rest as for ``sweep`` of kernels.py.
    Returns what Σ C_i a_im gains; D gains that less what ½ Σ ‖w_m‖² gains.
    """
    last, k = w.shape[0] - 1, w.shape[1]
    row_index, row_value = np.empty(last + 1, np.int32), np.empty(last + 1, data.dtype)
    old, new = np.empty(k + 1), np.empty(k + 1)
    moved, steps = (
        np.empty(k + 1, np.int64),
        np.empty(k + 1),
    )  # classes, and how far their weights move along x
    gain = 0.0
    for t in range(rows.shape[0]):
        i, begin = rows[t], first[t]
        m = first[t + 1] - begin
        total = 0.0
        for q in range(m):
            old[q] = share[i, class_ids[begin + q]]
            new[q] = max(0.0, old[q] + step[begin + q])
            total += new[q]
        n, own = 0, 0.0
        for q in range(m):
            if weston_watkins:
                new[q] = min(1.0, new[q])
            elif total > 1.0:
                new[q] /= total
            new[q] = np.floor(new[q] * grid) / grid
            gain += cost[i] * (new[q] - old[q])
            share[i, class_ids[begin + q]] = new[q]
            if new[q] != old[q]:
                moved[n], steps[n] = class_ids[begin + q], cost[i] * (old[q] - new[q])
                own -= steps[n]
                n += 1
        if n == 0:
            continue
        moved[n], steps[n] = y[i], own
        n += 1
        for q in range(n):
            w[last, moved[q]] += steps[q] * bias
        index, value = values(indptr, indices, data, i, row_index, row_value)
        for p in range(index.shape[0]):
            v, row = np.float64(value[p]), w[np.uint32(index[p])]
            for q in range(n):
                row[np.uint32(moved[q])] += v * steps[q]
    return gain
