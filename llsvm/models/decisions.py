"""What scores stand for: votes of pairs, classes, and of the logistic loss probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]
_COUPLED_BYTES = 1 << 20  # of the equations of rows that are solved together


def votes(scores: Scores, k: int) -> Scores:
    """(n, k) votes of the pairs, scores (n, k(k − 1)/2), and less than ½ for the sum of the scores for a class."""
    count, sums = np.zeros((len(scores), k)), np.zeros((len(scores), k))
    for (i, j), column in zip(_pairs(k), scores.T, strict=True):
        count[:, i] += column > 0
        count[:, j] += column <= 0
        sums[:, i] += column
        sums[:, j] -= column
    return count + sums / (2.0 * np.abs(sums) + 3.0)


def of_two(scores: Scores) -> Scores:
    """(n, 2) probabilities of the two classes; scores: (n, 1), for the second."""
    return np.column_stack([_sigmoid(-scores[:, 0]), _sigmoid(scores[:, 0])])


def of_each_against_the_rest(scores: Scores) -> Scores:
    """(n, k) probabilities for scores (n, k) of problems of their own: their sigmoids, divided by their sum, as
    LIBLINEAR's ``-b 1`` has them."""
    return of_joint(-np.logaddexp(0.0, -scores))  # logarithms of sigmoids: a sum of them may be 0 in floats


def of_joint(scores: Scores) -> Scores:
    """(n, k) probabilities for scores (n, k) of one joint problem: e^score, divided by their sum (softmax)."""
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def of_pairs(scores: Scores, k: int) -> Scores:
    """(n, k) probabilities p for scores (n, k(k − 1)/2) of pairs, whose sigmoids r_ij are taken for p_i / (p_i +
    p_j): those that minimise Σ_ij (r_ji p_i − r_ij p_j)² (Wu, Lin & Weng 2004, eq. 21), by its linear equations."""
    step = max(1, _COUPLED_BYTES // (8 * (k + 1) ** 2))
    parts = [_coupled(scores[start : start + step], k) for start in range(0, len(scores), step)]
    return np.concatenate(parts) if parts else np.empty((0, k))


def _coupled(scores: Scores, k: int) -> Scores:
    n = len(scores)
    r = np.zeros((n, k, k))
    for (i, j), column in zip(_pairs(k), scores.T, strict=True):
        r[:, i, j], r[:, j, i] = _sigmoid(column), _sigmoid(-column)
    equations = np.ones((n, k + 1, k + 1))  # Q p + b = 0, Σ p = 1; eq. 16 and 22
    equations[:, :k, :k] = -r * r.transpose(0, 2, 1)
    equations[:, range(k), range(k)] = (r * r).sum(axis=1)
    equations[:, k, k] = 0.0
    right = np.zeros((n, k + 1, 1))
    right[:, k] = 1.0
    p = np.maximum(np.linalg.solve(equations, right)[:, :k, 0], 0.0)  # they are not negative but for rounding
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def _sigmoid(scores: Scores) -> Scores:
    small = np.exp(-np.abs(scores))
    return np.asarray(np.where(scores >= 0, 1.0, small) / (1.0 + small))


def _pairs(k: int) -> list[tuple[int, int]]:
    """i < j, in the order of their problems."""
    return [(i, j) for i in range(k) for j in range(i + 1, k)]
