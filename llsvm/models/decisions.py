"""Decisions from scores: votes of pairs, classes, and probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]
_COUPLED_BYTES = 1 << 20  # of the equations of rows that are solved together


def class_scores(scores: Scores, k: int, pairs: bool) -> Scores:
    """Return the scores of k classes, (n, 1) of two, for those of problems. pairs: of pairs of classes."""
    return votes(scores, k) if pairs else scores


def class_ids(scores: Scores, k: int, pairs: bool, threshold: float = 0.0) -> NDArray[np.intp]:
    """Return ids of classes, (n,), that scores of problems stand for; a tie goes to the first class. threshold: the
    score above which a row is of the second of two classes."""
    if scores.shape[1] == 1:
        return (scores[:, 0] > threshold).astype(np.intp)
    return np.argmax(class_scores(scores, k, pairs), axis=1)


def probabilities(scores: Scores, k: int, pairs: bool, joint: bool = False) -> Scores:
    """Return the probabilities (n, k) of classes for scores of problems. joint: they are of one joint problem."""
    if scores.shape[1] == 1:
        return of_two(scores)
    if pairs:
        return of_pairs(scores, k)
    return of_joint(scores) if joint else of_each_against_the_rest(scores)


def votes(scores: Scores, k: int) -> Scores:
    """Return (n, k) votes of the pairs, scores (n, k(k − 1)/2), and less than ½ for the sum of the scores for a
    class."""
    count, sums = np.zeros((len(scores), k)), np.zeros((len(scores), k))
    for (i, j), column in zip(_pairs(k), scores.T, strict=True):
        count[:, i] += column > 0
        count[:, j] += column <= 0
        sums[:, i] += column
        sums[:, j] -= column
    return count + sums / (2.0 * np.abs(sums) + 3.0)


def of_two(scores: Scores) -> Scores:
    """Return (n, 2) probabilities of the two classes; scores: (n, 1), for the second."""
    return np.column_stack([sigmoid(-scores[:, 0]), sigmoid(scores[:, 0])])


def of_each_against_the_rest(scores: Scores) -> Scores:
    """Return (n, k) probabilities for scores (n, k) of problems of their own: their sigmoids, divided by their
    sum, as LIBLINEAR's ``-b 1`` has them."""
    return of_joint(-np.logaddexp(0.0, -scores))  # logarithms of sigmoids: a sum of them may be 0 in floats


def of_joint(scores: Scores) -> Scores:
    """Return (n, k) probabilities for scores (n, k) of one joint problem: e^score, divided by their sum
    (softmax)."""
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def of_pairs(scores: Scores, k: int) -> Scores:
    """Return (n, k) probabilities for scores (n, k(k − 1)/2) of pairs, by their sigmoids: ``coupled``."""
    return coupled(sigmoid(scores), sigmoid(-scores), k)


def coupled(wins: Scores, losses: Scores, k: int) -> Scores:
    """Return (n, k) probabilities p where of pairs i < j, (n, k(k − 1)/2), ``wins`` are r_ij, taken for p_i /
    (p_i + p_j), and ``losses`` r_ji: those that minimise Σ_ij (r_ji p_i − r_ij p_j)² (Wu, Lin & Weng 2004, eq.
    21), by its linear equations."""
    step = max(1, _COUPLED_BYTES // (8 * (k + 1) ** 2))
    starts = range(0, len(wins), step)
    parts = [_coupled(wins[start : start + step], losses[start : start + step], k) for start in starts]
    return np.concatenate(parts) if parts else np.empty((0, k))


def _coupled(wins: Scores, losses: Scores, k: int) -> Scores:
    n = len(wins)
    r = np.zeros((n, k, k))
    for (i, j), won, lost in zip(_pairs(k), wins.T, losses.T, strict=True):
        r[:, i, j], r[:, j, i] = won, lost
    equations = np.ones((n, k + 1, k + 1))  # Q p + b = 0, Σ p = 1; eq. 16 and 22
    equations[:, :k, :k] = -r * r.transpose(0, 2, 1)
    equations[:, range(k), range(k)] = (r * r).sum(axis=1)
    equations[:, k, k] = 0.0
    right = np.zeros((n, k + 1, 1))
    right[:, k] = 1.0
    p = np.maximum(np.linalg.solve(equations, right)[:, :k, 0], 0.0)  # they are not negative but for rounding
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def sigmoid(scores: Scores) -> Scores:
    """1 / (1 + e^−score) of each."""
    small = np.exp(-np.abs(scores))
    return np.asarray(np.where(scores >= 0, 1.0, small) / (1.0 + small))


def _pairs(k: int) -> list[tuple[int, int]]:
    """Return the pairs i < j, in the order of their problems."""
    return [(i, j) for i in range(k) for j in range(i + 1, k)]
