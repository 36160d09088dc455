"""Kernels of SmSVM: losses and curvatures of rows, and coordinate descent on the quadratic model of a Newton step.

The smoothed hinge (SmSVM eq. 1.5) is ψ_a(z) = ½ (z + √(z² + a²)) of z = 1 − y w·x, so that 0 ≤ ψ_a(z) −
max(0, z) ≤ a/2, with ψ'_a(z) = ½ (1 + z/r), ψ''_a(z) = ½ a²/r³, r = √(z² + a²).
Losses of squares (squared hinge, least squares, squared ε-insensitive, Huber) are smooth: their curvature is that
of the square where it is in force (the generalised Hessian of Keerthi & DeCoste 2005, section 3), else 0. The
logistic loss has the curvature p (1 − p), p = 1/(1 + e^m).

Coordinate descent works by the model's Hessian, or by columns of the rows, Σ_i h_i (x_i·p)² without its Hessian.
"""

from __future__ import annotations

import numpy as np

from llsvm.kernels.options import ANY_ORDER, JIT, njit
from llsvm.solvers.optim.rows import values

# Of ``totals``: Σ c_i φ(m_i), not smoothed; Σ c_i b(α_i/c_i) but for its squares (Σ α_i of the hinge); what the
# smoothing adds to the duality gap; those squares, ½ ridge Σ α_i²/c_i, and Σ c_i, both of smooth losses only; and
# what of ALPHA and SQUARES is of rows with α_i y_i > 0, and of those with α_i y_i < 0, where an intercept is not
# penalised (sums.py).
LOSS, ALPHA, SMOOTHING_GAP, SQUARES, COST = range(5)
ALPHA_PLUS, ALPHA_MINUS, SQUARES_PLUS, SQUARES_MINUS, N_TOTALS = range(5, 10)


# Sums over rows in any order, so that the loops become vector instructions.
@njit(**ANY_ORDER)
def smooth(at, change, sign, target, cost, a, previous, steps, slope, curvature, losses, totals):  # type: ignore[no-untyped-def]
    """Losses at w + t s for many steps t; slopes and curvatures at w + s.

    at, change: (n,) float64 (w + s)·x_i and s·x_i: of the sum itself, so that what rows come to there depends on
    no digit of w. sign, target, cost: (n,) float64; z_i = target_i − sign_i w·x_i.
    a: the smoothing parameter; previous: the one for which the step s was computed, or 0 for h_i = ψ''_a(z_i).
    steps: (T,) the t.
    Set: slope (n,) c_i ψ'_a(z_i); curvature (n,) c_i h_i. Added to: losses (T,) Σ c_i ψ_a at each step;
    totals (N_TOTALS,), at w + s: LOSS Σ c_i max(0, z_i), ALPHA Σ c_i ψ'_a(z_i), SMOOTHING_GAP Σ c_i (max(0, z_i) −
    ψ'_a(z_i) z_i).

    h_i is the curvature of the primal-dual Newton step (Chan, Golub & Mulet 1999, eq. 4.4): with the dual variable
    q_i = q(z before) + its linear change, cut off at ±1, h_i = ½ (1 − q_i z_i/r_i)/r_i. It is ψ''_a(z_i) where q_i
    = z_i/r_i, and more where the row has just moved far: Newton's step then overshoots no kink.
    """
    for t in range(steps.shape[0]):
        total = 0.0
        for i in range(at.shape[0]):
            z = target[i] - sign[i] * (at[i] + (steps[t] - 1.0) * change[i])
            total += cost[i] * 0.5 * (z + np.sqrt(z * z + a * a))
        losses[t] += total
    hinge = 0.0
    alpha = 0.0
    gap = 0.0
    for i in range(at.shape[0]):
        z = target[i] - sign[i] * at[i]
        move = -sign[i] * change[i]
        before = z - move
        if previous > 0.0:
            r = np.sqrt(before * before + previous * previous)
            q = before / r
            q = min(1.0, max(-1.0, q + (1.0 - q * q) * move / r))
            r = np.sqrt(z * z + a * a)
        else:
            r = np.sqrt(z * z + a * a)
            q = z / r
        u = 0.5 * (1.0 + z / r)
        slope[i] = cost[i] * u
        curvature[i] = cost[i] * 0.5 * (1.0 - q * z / r) / r
        loss = max(0.0, z)
        hinge += cost[i] * loss
        alpha += cost[i] * u
        gap += cost[i] * (loss - u * z)
    totals[LOSS] += hinge
    totals[ALPHA] += alpha
    totals[SMOOTHING_GAP] += gap


@njit(**ANY_ORDER)
def quadratic(at, change, sign, target, cost, loss, straight, steps, slope, curvature, losses, totals):  # type: ignore[no-untyped-def]
    """``smooth`` for losses that need no smoothing: squares of z_i = t_i − sign_i w·x_i beyond ±epsilon, straight
    from where their slope is a bound (objective/losses.py; ridge > 0).

    at, change, sign, target, cost: (n,) float64; loss: its lower, upper, ridge, epsilon; straight: a bool.
    steps: (T,). Set: slope (n,) float64 α_i; curvature (n,) float64 c_i/ridge where α_i is inside its bounds and at
    no kink, 0 where there is no loss, and where it is straight, if ``straight``, |α_i/z_i|: the quadratic is then
    nowhere below the loss (epsilon = 0; reweighted least squares, Huber & Ronchetti 2009, sec. 7.8).
    Added to: losses (T,) Σ c_i φ at each step; totals (N_TOTALS,), at w + s: LOSS, ALPHA, SQUARES and COST.
    """
    lower, upper, ridge, epsilon = loss
    high, low = upper * ridge, -lower * ridge
    bent_at_zero = epsilon == 0.0 and high > 0.0 and low > 0.0
    for t in range(steps.shape[0]):
        total = 0.0
        for i in range(at.shape[0]):
            z = target[i] - sign[i] * (at[i] + (steps[t] - 1.0) * change[i])
            above, below = max(0.0, z - epsilon), max(0.0, -z - epsilon)
            q, p = min(above, high), min(below, low)
            total += cost[i] * (q * (above - 0.5 * q) + p * (below - 0.5 * p)) / ridge
        losses[t] += total
    total = 0.0
    alpha = 0.0
    squares = 0.0
    costs = 0.0
    for i in range(at.shape[0]):
        z = target[i] - sign[i] * at[i]
        above, below = max(0.0, z - epsilon), max(0.0, -z - epsilon)
        q, p = min(above, high), min(below, low)
        slope[i] = cost[i] * (q - p) / ridge
        inside = (
            (above > 0.0 and above < high) or (below > 0.0 and below < low) or (bent_at_zero and z == 0.0)
        )
        if inside:
            curvature[i] = cost[i] / ridge
        else:
            beyond = above + below
            curvature[i] = abs(slope[i]) / beyond if straight and beyond > 0.0 else 0.0
        total += cost[i] * (q * (above - 0.5 * q) + p * (below - 0.5 * p)) / ridge
        alpha += slope[i] * target[i] - epsilon * abs(slope[i])
        squares += 0.5 * slope[i] * (q - p)
        costs += cost[i]
    totals[LOSS] += total
    totals[ALPHA] += alpha
    totals[SQUARES] += squares
    totals[COST] += costs


@njit(**ANY_ORDER)
def logistic(at, change, sign, cost, steps, slope, curvature, losses, totals):  # type: ignore[no-untyped-def]
    """``smooth`` for the logistic loss log(1 + e^−m), m_i = sign_i w·x_i.

    at, change, sign, cost: (n,) float64; steps: (T,), all as there. Set: slope (n,) float64 α_i = c_i p_i,
    p_i = 1/(1 + e^m_i); curvature (n,) float64 c_i p_i (1 − p_i). Added to: losses (T,) Σ c_i φ at each step;
    totals (N_TOTALS,), at w + s: LOSS; ALPHA Σ c_i b(p_i), the entropy b(p) = −p log p − (1 − p) log(1 − p) =
    log(1 + e^−m) + p m; COST.
    """
    for t in range(steps.shape[0]):
        total = 0.0
        for i in range(at.shape[0]):
            m = sign[i] * (at[i] + (steps[t] - 1.0) * change[i])
            total += cost[i] * (np.log1p(np.exp(-abs(m))) + max(0.0, -m))
        losses[t] += total
    loss = 0.0
    entropy = 0.0
    costs = 0.0
    for i in range(at.shape[0]):
        m = sign[i] * at[i]
        small = np.exp(-abs(m))
        p = (small if m >= 0.0 else 1.0) / (1.0 + small)
        slope[i] = cost[i] * p
        curvature[i] = cost[i] * small / ((1.0 + small) * (1.0 + small))
        # φ + p m without the difference of large numbers that it is where m < 0: p − 1 = −small / (1 + small) there
        short = np.log1p(small)
        loss += cost[i] * (short + max(0.0, -m))
        entropy += cost[i] * (short + abs(m) * small / (1.0 + small))
        costs += cost[i]
    totals[LOSS] += loss
    totals[ALPHA] += entropy
    totals[COST] += costs


@njit(**JIT)
def sweep_dense(H, columns, l1, v, slope):  # type: ignore[no-untyped-def]
    """One sweep of coordinate descent over v for a quadratic with Hessian H (A, A) plus Σ_j l1_j |v_j|.

    columns: (S,) int64, those to visit. l1, v, slope: (A,) float64, the last the quadratic's gradient at v.
    Changes v and slope. Returns how much the model fell.
    """
    fall = 0.0
    for j in columns:
        bend = H[j, j]
        if bend <= 0.0:
            continue
        to = v[j] - slope[j] / bend
        to = max(to - l1[j] / bend, 0.0) + min(to + l1[j] / bend, 0.0)
        change = to - v[j]
        if change != 0.0:
            fall -= slope[j] * change + 0.5 * bend * change * change + l1[j] * (abs(to) - abs(v[j]))
            v[j] = to
            row = H[j]
            for k in range(slope.shape[0]):
                slope[k] += change * row[k]
    return fall


@njit(**JIT)
def gather_columns(indptr, indices, data, bias, rows, h, place, n_columns, max_values):  # type: ignore[no-untyped-def]
    """Copy what the rows have in some columns.

    indptr, indices, data: rows, see llsvm/solvers/optim/rows.py. rows: (r,) int64, ascending. h: (r,) float64.
    place: (d + 1,) int32, a column's number in the copy, or −1; the last is that of the constant feature ``bias``.
    n_columns: of the copy. max_values: values that the copy may have.

    Returns indptr (n_columns + 1,), indices and data of the columns (CSC), whose rows are numbered from 0 to r − 1,
    and diagonal (n_columns,) Σ h_i x_ij²; with more than ``max_values`` values nothing is copied, and indices and
    data are empty.
    """
    constant = place[place.shape[0] - 1] if bias != 0.0 else -1
    index, value = np.empty(place.shape[0], np.int32), np.empty(place.shape[0], data.dtype)
    ends, diagonal = np.zeros(n_columns + 1, np.int64), np.zeros(n_columns)
    for i in rows:
        for j in values(indptr, indices, data, i, index, value)[0]:
            k = place[np.uint32(j)]
            if k >= 0:
                ends[k + 1] += 1
    if constant >= 0:
        ends[constant + 1] = rows.shape[0]
    for k in range(n_columns):
        ends[k + 1] += ends[k]
    n = ends[n_columns] if ends[n_columns] <= max_values else 0
    to_indices, to_data = np.empty(n, np.int32), np.empty(n, data.dtype)
    if n == 0:
        return ends, to_indices, to_data, diagonal
    for number in range(rows.shape[0]):
        row_columns, row_values = values(indptr, indices, data, rows[number], index, value)
        for p in range(row_columns.shape[0]):
            k = place[np.uint32(row_columns[p])]
            if k >= 0:
                x = np.float64(row_values[p])
                to_indices[ends[k]] = number
                to_data[ends[k]] = x
                diagonal[k] += h[number] * x * x
                ends[k] += 1
        if constant >= 0:
            to_indices[ends[constant]] = number
            to_data[ends[constant]] = bias
            diagonal[constant] += h[number] * bias * bias
            ends[constant] += 1
    for k in range(n_columns, 0, -1):  # each is where the column ends now
        ends[k] = ends[k - 1]
    ends[0] = 0
    return ends, to_indices, to_data, diagonal


@njit(**JIT)
def descend_columns(indptr, indices, data, h, diagonal, ridge, l1, g, w, v, bent, goal, max_sweeps):  # type: ignore[no-untyped-def]
    """Sweeps of coordinate descent over v for g·p + ½ Σ_i h_i (x_i·p)² + ½ Σ_j ridge_j p_j² + Σ_j l1_j |v_j|,
    p = v − w, until the violations of the optimality conditions that a sweep over all columns meets sum up to at
    most ``goal``, or ``max_sweeps`` sweeps are made. Weights that stay zero are left out from one sweep to the
    next, until the violations of the others do (shrinking: Yuan, Ho & Lin 2012, section 4).

    Columns are CSC: column j has rows ``indices[indptr[j]:indptr[j+1]]`` with values ``data``. h: (n,) float64.
    diagonal: (A,) Σ_i h_i x_ij². ridge, l1, g, w, v: (A,) float64. bent: (n,) h_i x_i·p. Changes v and bent;
    returns how many sweeps were made.
    """
    n = v.shape[0]
    candidates = np.arange(n)
    n_candidates = n
    for sweep in range(max_sweeps):
        violations = 0.0
        n_kept = 0
        for q in range(n_candidates):
            k = candidates[q]
            bend = diagonal[k] + ridge[k]
            if bend <= 0.0:
                continue
            slope = g[k] + ridge[k] * (v[k] - w[k])
            for p in range(np.uint64(indptr[k]), np.uint64(indptr[k + 1])):
                slope += data[p] * bent[np.uint32(indices[p])]
            if v[k] > 0.0:
                violation = abs(slope + l1[k])
            elif v[k] < 0.0:
                violation = abs(slope - l1[k])
            else:
                violation = max(abs(slope) - l1[k], 0.0)
            violations += violation
            if v[k] != 0.0 or violation > 0.0:
                candidates[n_kept] = k
                n_kept += 1
            to = v[k] - slope / bend
            to = max(to - l1[k] / bend, 0.0) + min(to + l1[k] / bend, 0.0)
            change = to - v[k]
            if change != 0.0:
                v[k] = to
                for p in range(np.uint64(indptr[k]), np.uint64(indptr[k + 1])):
                    i = np.uint32(indices[p])
                    bent[i] += change * data[p] * h[i]
        if violations > goal:
            n_candidates = n_kept
        elif n_candidates == n:
            return sweep + 1
        else:
            for k in range(n):
                candidates[k] = k
            n_candidates = n
    return max_sweeps
