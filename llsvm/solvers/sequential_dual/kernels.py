"""The sequential dual method's kernels: sweeps over, and measurements of, the direct multi-class SVMs; and what the
scores of rows make of their dual variables in the method of multipliers (multipliers.py).

Keerthi, Sundararajan, Chang, Hsieh, Lin (KDD 2008); problem.py has the problems and their duals. Shares are
multiples of 1/grid (grid 2^24 fits float32, 2^50 float64), so that their sums are exact, the constraints hold
exactly, and a store of the shares agrees with w. Weights are laid out (d + 1, k): a value of a row meets its k
weights side by side.
"""

# mypy: ignore-errors
# Numba infers the types here, and mypy cannot follow it.

from __future__ import annotations

import numpy as np

from llsvm.kernels.intrinsics import fetch
from llsvm.kernels.options import ANY_ORDER, INLINED, JIT, njit
from llsvm.solvers.optim.rows import NEXT, SOON, fetch_row, values

ALL, SHRUNK, MEASURE = 0, 1, 2
GAIN, GAP, LOSS, SCORES = 0, 1, 2, 3  # places in ``sums``
LINEAR, COUPLING, MOVED, LOSSES = range(4)  # places in ``totals``
N_TOTALS = LOSSES + 1


@njit(**ANY_ORDER)
def sweep(indptr, indices, data, y, cost, share, slack, order, w, bias, weston_watkins, mode, grid, sums):
    """Visit the rows ``order``; returns how many of them (now in front) are to be seen again.

    indptr, indices, data: rows, sparse or dense: see llsvm/solvers/optim/rows.py.
    y: (n,) int32 class ids. cost: (n,) float64 C_i.
    share: (n, k) float32 or float64 a_im, updated; share[i, y_i] is 0.
    slack: (n,) float32, set by visits of all classes: how far the scores would have to move before the row is free
        or violates its optimality conditions; 0 where it changed, is free, or does.
    order: (v,) int64 positions, reordered. w: (d + 1, k) float64, updated. bias: of the constant feature.
    weston_watkins: bool, that loss, else Crammer and Singer's. grid: float64.
    mode: ALL solves the sub-problem exactly. SHRUNK looks only at classes with a_im > 0, and < 1 (Weston-Watkins).
        MEASURE changes nothing.
    sums: (4,) float64, added to: [GAIN] in D; [GAP] as met, of what was looked at, C_i (loss_i + Σ_m a_im
        (s_y − s_m − 1)); [LOSS] C_i loss_i; [SCORES] computed.
    """
    k = w.shape[1]
    row_index, row_value = np.empty(w.shape[0], np.int32), np.empty(w.shape[0], data.dtype)
    # classes looked at, and places in it or classes
    seen, live = np.empty(k, np.int64), np.empty(k, np.int64)
    g, old, new = np.empty(k), np.empty(k), np.empty(k)  # their s_m + e_m, the gradient (5), and their shares
    work = np.empty(k)
    again = 0
    for t in range(order.shape[0]):
        if t + SOON < order.shape[0]:
            fetch(indptr, order[t + SOON])
            fetch_row(indptr, indices, data, order[t + NEXT])
        i = order[t]
        c = cost[i]
        if c <= 0.0:
            continue
        yi = np.int64(y[i])
        index, value = values(indptr, indices, data, i, row_index, row_value)
        norm = _square(value, bias)
        if mode == SHRUNK:
            m, target = _shrink(share[i], yi, weston_watkins, seen, old)
            _some_scores(index, value, w, bias, seen, m, g)
        else:
            m, target = k, yi
            for q in range(k):
                seen[q] = q
                old[q] = share[i, q]
            _all_scores(index, value, w, bias, g)
        sums[SCORES] += m

        # the row's gap, its most violating class and its slack
        slope, loss, worst = 0.0, 0.0, target
        far, upper_at, highest, free = np.inf, -1, -np.inf, False
        for q in range(m):
            if q == target:
                continue
            g[q] += 1.0
            over = g[q] - g[target]
            slope += old[q] * over
            free |= 0.0 < old[q] < 1.0
            if weston_watkins:
                loss += max(0.0, over)
                far = min(far, over if old[q] >= 1.0 else -over)
            else:
                loss = max(loss, over)
            if over > highest and old[q] < 1.0:
                highest, worst = over, q
            if old[q] >= 1.0:
                upper_at = q
        if not weston_watkins:  # not free: either every share is 0, or one is 1
            far = -highest if upper_at < 0 else g[upper_at] - g[target] - max(highest, 0.0)
        gap = c * (loss - slope)
        sums[GAP] += gap
        sums[LOSS] += c * loss

        changed = False
        if mode != MEASURE and gap > 0.0:
            if norm > 0.0:
                if weston_watkins:
                    _solve_weston(norm * c, target, g, old, new, m, grid, work, live)
                else:
                    _solve_crammer(norm * c, target, g, old, new, m, grid, work)
            else:  # no features: a constant loss, and the shares belong at their bounds
                for q in range(m):
                    new[q] = 1.0 if q != target and (weston_watkins or q == worst) else 0.0
            gain, free, changed = _gain(norm, c, target, g, old, new, m)
            if changed:
                sums[GAIN] += gain
                for q in range(m):
                    share[i, seen[q]] = new[q]
                _step(index, value, w, bias, c, seen, target, old, new, m, live, work)
        satisfied = not changed and not free and (mode == SHRUNK or far > 0.0)
        if mode != SHRUNK:
            slack[i] = far if satisfied else 0.0
        elif changed:
            slack[i] = 0.0
        if not satisfied:
            order[t], order[again] = order[again], i
            again += 1
    return again


@njit(**ANY_ORDER)
def move_shares(
    indptr, indices, data, y, cost, share, rows, first, class_ids, step, w, bias, weston_watkins, grid
):
    """Move the listed shares by ``step``, cut at their bounds, and the weights with them.

    rows: (r,) int64 positions. first: (r + 1,) int64: row rows[t] has the places first[t] ≤ v < first[t + 1] of the
    list, v of class class_ids[v], (v,) int32; all its shares that are not on the list are 0 or, with
    Weston-Watkins, at a bound. step: (v,) float64. The rest as for ``sweep``.
    Returns what Σ C_i a_im gains; D gains that less what ½ Σ ‖w_m‖² gains.
    """
    k = w.shape[1]
    row_index, row_value = np.empty(w.shape[0], np.int32), np.empty(w.shape[0], data.dtype)
    seen, live = np.empty(k + 1, np.int64), np.empty(k + 1, np.int64)
    old, new, work = np.empty(k + 1), np.empty(k + 1), np.empty(k + 1)
    gain = 0.0
    for t in range(rows.shape[0]):
        i, begin = rows[t], first[t]
        m = first[t + 1] - begin
        total = 0.0
        for q in range(m):
            seen[q] = class_ids[begin + q]
            old[q] = share[i, seen[q]]
            new[q] = max(0.0, old[q] + step[begin + q])
            total += new[q]
        moved = 0.0
        for q in range(m):
            if weston_watkins:
                new[q] = min(1.0, new[q])
            elif total > 1.0:
                new[q] /= total
            new[q] = np.floor(new[q] * grid) / grid
            share[i, seen[q]] = new[q]
            gain += cost[i] * (new[q] - old[q])
            moved += abs(new[q] - old[q])
        if moved > 0.0:
            seen[m], old[m], new[m] = y[i], 0.0, 0.0
            index, value = values(indptr, indices, data, i, row_index, row_value)
            _step(index, value, w, bias, cost[i], seen, m, old, new, m + 1, live, work)
    return gain


@njit(**JIT, **INLINED)
def _shrink(row, yi, weston_watkins, seen, old):
    """Fill ``seen`` and ``old`` with the row's own class and those whose shares are off their bounds; return how
    many they are, and the position of the row's own."""
    m = target = 0
    for q in range(row.shape[0]):
        a = np.float64(row[q])
        if q == yi or (a > 0.0 and (a < 1.0 or not weston_watkins)):
            target = m if q == yi else target
            seen[m], old[m] = q, a
            m += 1
    return m, target


@njit(**ANY_ORDER, **INLINED)
def _square(value, bias):
    """‖x‖², the constant feature included."""
    norm = bias * bias
    for p in range(value.shape[0]):
        v = np.float64(value[p])
        norm += v * v
    return norm


# Sums stay in order here, lest the loops over values become vector instructions that gather: those are slow.
@njit(**JIT, **INLINED, fastmath={"contract"})
def _some_scores(index, value, w, bias, seen, m, g):
    """g[q] = w·x for the class seen[q]."""
    last = w.shape[0] - 1
    for q in range(0, m, 2):  # two classes at a time, their sums in registers; the last of them may be one
        r = min(q + 1, m - 1)
        a, b = np.uint32(seen[q]), np.uint32(seen[r])
        sum_a, sum_b = w[last, a] * bias, w[last, b] * bias
        for p in range(index.shape[0]):
            v, row = np.float64(value[p]), w[np.uint32(index[p])]
            sum_a += v * row[a]
            sum_b += v * row[b]
        g[q], g[r] = sum_a, sum_b


@njit(**ANY_ORDER, **INLINED)
def _all_scores(index, value, w, bias, g):
    """``_some_scores`` for all classes."""
    k, n, last = g.shape[0], index.shape[0], w.shape[0] - 1
    for q in range(k):
        g[q] = w[last, q] * bias
    for p in range(0, n, 2):  # two values at a time, since the loop over the classes is short
        other = min(p + 1, n - 1)
        v, v1 = np.float64(value[p]), np.float64(value[other]) * (p < other)
        row, row1 = w[np.uint32(index[p])], w[np.uint32(index[other])]
        for q in range(k):
            g[q] += v * row[q] + v1 * row1[q]


@njit(**JIT, **INLINED)
def _solve_crammer(q_ii, target, g, old, new, m, grid, work):
    """Sub-problem (10), exactly: the parts r_m ≥ 0, Σ r = 1, of a row's cost are max(0, z_m − θ) with
    z_m = r_m + g_m / q_ii, where q_ii = A_i C_i and r_y = 1 − Σ_m a_m is what no class has.
    """
    total = 0.0
    for q in range(m):
        if q != target:
            total += old[q]
    highest = -np.inf
    for q in range(m):
        work[q] = (1.0 - total if q == target else old[q]) + g[q] / q_ii
        highest = max(highest, work[q])
    for q in range(m):
        work[q] -= highest  # z may be large, and its differences small
    theta = _theta(work[:m], -1, 1.0, 0.0, 0.0)
    # Rounded down to the grid; what the sum lacks to 1, exactly, goes to the largest.
    best, total = 0, 0.0
    for q in range(m):
        work[q] = np.floor(max(0.0, work[q] - theta) * grid) / grid
        total += work[q]
        if work[q] > work[best]:
            best = q
    work[best] += 1.0 - total
    for q in range(m):
        new[q] = 0.0 if q == target else work[q]


@njit(**JIT, **INLINED)
def _solve_weston(q_ii, target, g, old, new, m, grid, work, live):
    """Sub-problem (21), exactly: a_m = min(1, max(0, z_m − S)), S = Σ a over the classes looked at.

    z_m = a_m + Σ a + (g_m − g_y) / q_ii with the old shares. Where the set F of classes inside the bounds is
    known, the Hessian q_ii (I + 11ᵀ) inverts analytically: S = (Σ_F z_m + classes at 1) / (1 + |F|). Classes are
    fixed at a bound for good where the sign of the error that clipping makes in the sum proves that they belong
    there (Kiwiel 2008, variable fixing); at most one round per class.
    """
    total = 0.0
    for q in range(m):
        if q != target:
            total += old[q]
    n, new[target] = 0, 0.0
    for q in range(m):
        if q != target:
            live[n] = q
            work[n] = old[q] + total + (g[q] - g[target]) / q_ii
            n += 1
    ones = 0.0
    while n > 0:
        s = ones
        for t in range(n):
            s += work[t]
        s /= 1.0 + n
        below = above = 0.0
        for t in range(n):
            a = work[t] - s
            below += max(0.0, -a)
            above += max(0.0, a - 1.0)
        inside = below == 0.0 and above == 0.0
        # below > above: clipping raises the sum, so S is larger and what is below 0 stays there.
        at_zero = below >= above
        left = 0
        for t in range(n):
            a = work[t] - s
            if inside:
                new[live[t]] = np.rint(a * grid) / grid
            elif at_zero and a <= 0.0:
                new[live[t]] = 0.0
            elif not at_zero and a >= 1.0:
                new[live[t]] = 1.0
                ones += 1.0
            else:
                live[left], work[left] = live[t], work[t]
                left += 1
        n = left


@njit(**ANY_ORDER, **INLINED)
def _gain(norm, c, target, g, old, new, m):
    """Return what the new shares add to D, whether one of them is inside the bounds, and whether one has
    changed."""
    slope = squares = total = 0.0
    free = changed = False
    for q in range(m):
        delta = new[q] - old[q]
        slope += delta * (g[q] - g[target])
        squares += delta * delta
        total += delta
        free |= 0.0 < new[q] < 1.0
        changed |= delta != 0.0
    return c * slope - 0.5 * norm * c * c * (squares + total * total), free, changed


@njit(**ANY_ORDER, **INLINED)
def _step(index, value, w, bias, c, seen, target, old, new, m, live, work):
    """Move the weights: w_m −= c δ_m x, and those of the row's own class by as much the other way."""
    last = w.shape[0] - 1
    n, total = 0, 0.0
    for q in range(m):
        if q != target and new[q] != old[q]:
            live[n], work[n] = seen[q], c * (old[q] - new[q])
            total -= work[n]
            n += 1
    live[n], work[n] = seen[target], total
    n += 1
    for t in range(n):
        w[last, live[t]] += work[t] * bias
    for t in range(0, n, 2):  # two classes at a time, their steps in registers; the last of them may be one
        a, b = np.uint32(live[t]), np.uint32(live[min(t + 1, n - 1)])
        step_a, step_b = work[t], work[t + 1] if t + 1 < n else 0.0
        for p in range(index.shape[0]):
            v, row = np.float64(value[p]), w[np.uint32(index[p])]
            row[a] += v * step_a
            row[b] += v * step_b


@njit(**JIT)
def prox_rows(base, scores, sigma, y, cost, weston_watkins, p, v, totals):
    """Set p to the prox at the scores, and v to its coefficients.

    Crammer-Singer: p_m = max(0, z_m − θ), z = base + σ (s + e). With t_m = z_m − σ s_y for m ≠ y and B = Σ_{m≠y}
    base_m, z_y is C − B on that scale. Where p_y > 0, θ depends on t and B alone: Σ (t_m − θ)⁺ = B + θ. So a small
    p_m is exact however large C is. θ is found by leaving out the t_m that it has passed (Michelot 1986).

    base, scores: (n, k) float64. sigma: float64. y: (n,) int32. cost: (n,) float64 C_i.
    weston_watkins: bool, that dual, else Crammer and Singer's. p, v: (n, k) float64, set.
    totals: (4,) float64, added to: [LINEAR] Σ p_m e_m; [COUPLING] Σ v_m s_m; [MOVED] ‖p − base‖²; [LOSSES] Σ C_i
        loss_i.
    """
    n, k = base.shape
    for i in range(n):
        target, c, s = np.int64(y[i]), cost[i], scores[i]
        before = largest = total = 0.0
        for m in range(k):
            if m != target:
                over = 1.0 + s[m] - s[target]
                largest = max(largest, over)
                total += max(over, 0.0)
                before += base[i, m]
                p[i, m] = base[i, m] + sigma * over
        if weston_watkins:
            p[i, target] = 0.0
            for m in range(k):
                if m != target:
                    p[i, m] = min(max(p[i, m], 0.0), c)
        else:
            total = largest
            theta = _theta(p[i], target, before, 1.0, -before)
            full = theta >= c - before  # then p_y = 0, and Σ (t_m − θ)⁺ = C
            if full:
                theta = _theta(p[i], target, c, 0.0, 0.0)
            for m in range(k):
                p[i, m] = max(p[i, m] - theta, 0.0)
            p[i, target] = 0.0 if full else c - before - theta
        linear = coupling = 0.0
        moved = (p[i, target] - base[i, target]) ** 2
        for m in range(k):
            if m != target:
                share = p[i, m]
                v[i, m] = -share
                linear += share
                coupling += share * (s[target] - s[m])
                moved += (share - base[i, m]) ** 2
        v[i, target] = linear
        totals[MOVED] += moved
        totals[LINEAR] += linear
        totals[COUPLING] += coupling
        totals[LOSSES] += c * total


@njit(**JIT, **INLINED)
def _theta(t, target, total, more, none):
    """Return θ with Σ_{m≠target} (t_m − θ)⁺ = total + more · θ. target: -1 for the sum over all m. none: returned
    where no t_m is above θ, the largest counting if ``more`` is 0."""
    theta, count = -np.inf, t.shape[0] + 1
    while True:
        n_above, sum_kept, largest = 0, 0.0, -np.inf
        for m in range(t.shape[0]):
            if m != target:
                largest = max(largest, t[m])
                if t[m] > theta:
                    n_above += 1
                    sum_kept += t[m]
        if n_above == 0:
            return none if more > 0.0 else largest - total
        if n_above >= count:  # more only where rounding has lowered θ, which would go on for ever
            return theta
        theta, count = (sum_kept - total) / (n_above + more), n_above
