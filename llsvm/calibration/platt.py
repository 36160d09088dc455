"""Platt's maps of scores to probabilities, p = 1 / (1 + exp(−(slope · score + offset))), of all problems at once.

    minimise over slope a, offset b:  Σ_i s_i (log(1 + e^{z_i}) − t_i z_i),   z_i = a f_i + b

f_i: the score, s_i: the sample weight, t_i: (N₊ + 1)/(N₊ + 2) of a positive row and 1/(N₋ + 2) of others, N₊ and N₋
sums of their weights. Newton's method with backtracking: Lin, Lin & Weng (2007), "A note on Platt's probabilistic
outputs for support vector machines", algorithm 1 and the stable form of the objective (eq. 5 to 8); their A and B
are −a and −b. Each evaluation is one reading of the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from llsvm.calibration.held_scores import Held

Numbers = NDArray[np.float64]
_MAX_READINGS = 200
_SMALL_GRADIENT = 1e-9  # of the mean loss, scores divided by the largest
_RIDGE = 1e-12  # of the Hessian of the mean loss
_DECREASE = 1e-4  # of what the gradient promises
_SMALLEST_STEP = 1e-10


def targets(positive: Numbers, negative: Numbers) -> tuple[Numbers, Numbers]:
    """t of positive rows and of the others, where their weights sum to so much (Platt 1999, section 2.2)."""
    return (positive + 1) / (positive + 2), 1 / (negative + 2)


def platt(pieces: Callable[[], Iterator[Held]], signs: Numbers) -> tuple[Numbers, Numbers]:
    """Slopes and offsets, (k,). signs: (k, n_classes) the y of each class in each problem, or 0."""
    weights, largest = _sums(pieces, signs)
    fit = _Fit(pieces, signs, weights, np.where(largest > 0, largest, 1.0))
    x = np.zeros((len(signs), 2))
    x[:, 1] = np.log((weights[:, 0] + 1) / (weights[:, 1] + 1))
    return fit.minimise(x)


def _sums(pieces: Callable[[], Iterator[Held]], signs: Numbers) -> tuple[Numbers, Numbers]:
    """(k, 2) weights of positive rows and of others, (k,) the largest absolute score."""
    weights, largest = np.zeros((len(signs), 2)), np.zeros(len(signs))
    for true, scores, weight in pieces():
        sign = signs.T[true]
        weights[:, 0] += weight @ (sign > 0)
        weights[:, 1] += weight @ (sign < 0)
        largest = np.maximum(largest, np.abs(scores * (sign != 0)).max(axis=0, initial=0.0))
    return weights, largest


class _Fit:
    """unit: (k,) that scores are divided by."""

    def __init__(
        self, pieces: Callable[[], Iterator[Held]], signs: Numbers, weights: Numbers, unit: Numbers
    ) -> None:
        self._pieces, self._signs, self._unit = pieces, signs, unit
        self._high, self._low = targets(weights[:, 0], weights[:, 1])
        self._total = np.maximum(weights.sum(axis=1), np.finfo(float).tiny)

    def minimise(self, x: Numbers) -> tuple[Numbers, Numbers]:
        """x: (k, 2) slopes, of divided scores, and offsets to begin at. A problem whose step is not a decrease
        waits with a step half as long, while others go on."""
        value, slope, hessian = self._measured(x)
        direction, step = _newton(slope, hessian), np.ones(len(x))
        for _ in range(_MAX_READINGS):
            going = (np.abs(slope).max(axis=1) > _SMALL_GRADIENT) & (step > _SMALLEST_STEP)
            if not going.any():
                break
            trial = x + np.where(going, step, 0.0)[:, None] * direction
            found, its_slope, its_hessian = self._measured(trial)
            promised = (slope * direction).sum(axis=1)
            taken = going & (found <= value + _DECREASE * step * promised)
            x, value = np.where(taken[:, None], trial, x), np.where(taken, found, value)
            slope = np.where(taken[:, None], its_slope, slope)
            direction = np.where(taken[:, None], _newton(its_slope, its_hessian), direction)
            step = np.where(taken, 1.0, step / 2)
        return x[:, 0] / self._unit, x[:, 1]

    def _measured(self, x: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """(k,) mean losses, (k, 2) their gradients, and (k, 3) Hessians: of slope, both, and offset."""
        value, first, second = np.zeros(len(x)), np.zeros((len(x), 2)), np.zeros((len(x), 3))
        for true, scores, weight in self._pieces():
            sign, f = self._signs.T[true], scores / self._unit
            z = f * x[:, 0] + x[:, 1]
            t, s = np.where(sign > 0, self._high, self._low), weight[:, None] * (sign != 0)
            small = np.exp(-np.abs(z))
            # log(1 + e^z) − t z without a difference of large numbers
            value += (s * (np.where(z >= 0, 1 - t, -t) * z + np.log1p(small))).sum(axis=0)
            p = np.where(z >= 0, 1.0, small) / (1 + small)
            residual, curvature = s * (p - t), s * small / (1 + small) ** 2
            first += np.column_stack([(residual * f).sum(axis=0), residual.sum(axis=0)])
            bent = curvature * f
            second += np.column_stack([(bent * f).sum(axis=0), bent.sum(axis=0), curvature.sum(axis=0)])
        return value / self._total, first / self._total[:, None], second / self._total[:, None]


def _newton(slope: Numbers, hessian: Numbers) -> Numbers:
    """(k, 2) −H⁻¹g."""
    a, b, c = hessian[:, 0] + _RIDGE, hessian[:, 1], hessian[:, 2] + _RIDGE
    g, h = slope.T
    return np.column_stack([b * h - c * g, b * g - a * h]) / (a * c - b * b)[:, None]
