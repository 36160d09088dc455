"""Slow twins of solvers/sequential_dual/kernels.py: the sub-problems by enumeration, a sweep in plain NumPy."""

from __future__ import annotations

from itertools import product

import numpy as np


def gradient(scores, yi):
    """s_m − s_y + e_m: what a share of class m gains, per unit, before it moves the weights."""
    e = np.ones(len(scores))
    e[yi] = 0.0
    return scores + e - scores[yi]


def value(delta, slope, q_ii):
    """What δ (own class 0) adds to D / C_i, as (10) and (21) have it."""
    return slope @ delta - 0.5 * q_ii * (delta @ delta + delta.sum() ** 2)


def solve(scores, yi, old, q_ii, weston):
    """The best feasible shares of a row, by trying every set of active bounds; old (k,), old[yi] = 0."""
    k = len(scores)
    slope = gradient(scores, yi)
    others = [m for m in range(k) if m != yi]
    best, best_value = old, 0.0
    for bounds in product((0, 1, 2) if weston else (0, 2), repeat=k - 1):  # at 0, at 1, inside
        for full in (False,) if weston else (False, True):  # Crammer-Singer: does Σ a = 1 hold?
            a = np.zeros(k)
            a[[m for m, b in zip(others, bounds, strict=True) if b == 1]] = 1.0
            inside = [m for m, b in zip(others, bounds, strict=True) if b == 2]
            n = len(inside)
            if full and not n:
                continue
            if n:
                # stationarity: q_ii ((a − old) + Σ (a − old)) = slope (− λ if Σ a = 1)
                matrix = np.zeros((n + full, n + full))
                matrix[:n, :n] = q_ii * (np.eye(n) + 1.0)
                right = slope[inside] + q_ii * (old[inside] + old.sum() - a.sum())
                if full:
                    matrix[:n, n] = matrix[n, :n] = 1.0
                    right = np.append(right, 1.0)
                a[inside] = np.linalg.solve(matrix, right)[:n]
            if a.min() < -1e-12 or a.max() > 1 + 1e-12 or (not weston and a.sum() > 1 + 1e-9):
                continue
            if (got := value(a - old, slope, q_ii)) > best_value:
                best, best_value = a, got
    return best


def loss(scores, yi, weston):
    slope = np.delete(gradient(scores, yi), yi)
    return np.maximum(slope, 0.0).sum() if weston else max(0.0, slope.max())


def sweep(X, y, cost, share, w, bias, weston):
    """Visit the rows in order, each sub-problem solved over all classes; X (n, d), shares and w are updated.

    Returns the gain in D, the gap as met, and Σ C_i loss_i as met.
    """
    gain = gap = losses = 0.0
    for i in range(len(X)):
        if cost[i] <= 0:
            continue
        x = np.append(X[i], bias)
        scores = w.T @ x
        slope = gradient(scores, y[i])
        losses += cost[i] * loss(scores, y[i], weston)
        gap += cost[i] * (loss(scores, y[i], weston) - slope @ share[i])
        norm = x @ x
        if norm > 0:
            new = solve(scores, y[i], share[i], norm * cost[i], weston)
        else:
            new = np.zeros_like(share[i])
            new[[m for m in range(len(new)) if m != y[i]][: None if weston else 1]] = 1.0
        delta = new - share[i]
        gain += cost[i] * value(delta, slope, norm * cost[i])
        share[i] = new
        step = -cost[i] * delta
        step[y[i]] = cost[i] * delta.sum()
        w += np.outer(x, step)
    return gain, gap, losses


def primal(X, y, cost, w, bias, weston):
    scores = np.column_stack([X, np.full(len(X), bias)]) @ w
    losses = [loss(s, yi, weston) for s, yi in zip(scores, y, strict=True)]
    return 0.5 * np.sum(w * w) + cost @ losses


def move_shares(share, rows, step, weston):
    """The shares after the listed ones (inside their bounds, in the order of ``rows``) moved by ``step``, cut."""
    share, at = share.copy(), 0
    for i in rows:
        new = share[i].copy()
        for m in range(share.shape[1]):
            if share[i, m] > 0 and (share[i, m] < 1 or not weston):
                new[m] = max(0.0, share[i, m] + step[at])
                at += 1
                if weston:
                    new[m] = min(1.0, new[m])
        share[i] = new if weston or new.sum() <= 1 else new / new.sum()
    assert at == len(step)
    return share
