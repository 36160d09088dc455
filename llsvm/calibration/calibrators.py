"""Calibrators, learned on held-out rows: Platt's sigmoid, isotonic maps and temperature, which make probabilities
of scores, and thresholds, the score above which a row is of the second of two classes.

f_i: the score of a row, s_i: its sample weight. Each evaluation of an objective is one pass over the scores.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import DataError, UsageError
from llsvm.process.loading import loading_blas
from llsvm.scoring.metrics import Numbers, PrecisionRecall
from llsvm.scoring.ranking import Pieces, descending, group_ends, rank, sides

# (class ids or targets (n,), scores (n, k), sample weights (n,))
Held = tuple[NDArray[Any], Numbers, Numbers]
_MAX_PLATT_PASSES, _MAX_TEMPERATURE_PASSES = 200, 100
_SMALL_GRADIENT = 1e-9  # of the mean loss, scores divided by the largest
_RIDGE = 1e-12  # of the Hessian of the mean loss
_DECREASE = 1e-4  # of what the gradient promises
_SMALLEST_STEP = 1e-10
_LIBRARY = "scipy.optimize"
_LIBRARY_BYTES = 32_000_000  # of it, once it is loaded; measured
_FARTHEST = math.e**10  # factor between β and that of the largest score being 1, at most: 4.5e-5 to 22,026
_SMALL_STEP = 1e-10  # relative


# -- Platt's sigmoid -----------------------------------------------------------------------------------------------


def targets(positive: Numbers, negative: Numbers) -> tuple[Numbers, Numbers]:
    """Return t of positive rows and of the others, whose weights sum to so much (Platt 1999, section 2.2)."""
    return (positive + 1) / (positive + 2), 1 / (negative + 2)


def platt(pieces: Callable[[], Iterator[Held]], signs: Numbers) -> tuple[Numbers, Numbers]:
    """Return slopes and offsets, (k,), of the maps p = 1 / (1 + exp(−(slope · score + offset))) of all problems.

        minimise over slope a, offset b:  Σ_i s_i (log(1 + e^{z_i}) − t_i z_i),   z_i = a f_i + b

    t_i: (N₊ + 1)/(N₊ + 2) of a positive row and 1/(N₋ + 2) of others, N₊ and N₋ sums of their weights. Newton's
    method with backtracking: Lin, Lin & Weng (2007), "A note on Platt's probabilistic outputs for support vector
    machines", algorithm 1 and the stable form of the objective (eq. 5 to 8); their A and B are −a and −b.

    signs: (k, n_classes) the y of each class in each problem, or 0."""
    weights, largest = _sums(pieces, signs)
    fit = _PlattFit(pieces, signs, weights, np.where(largest > 0, largest, 1.0))
    x = np.zeros((len(signs), 2))
    x[:, 1] = np.log((weights[:, 0] + 1) / (weights[:, 1] + 1))
    return fit.minimise(x)


def _sums(pieces: Callable[[], Iterator[Held]], signs: Numbers) -> tuple[Numbers, Numbers]:
    """Return (k, 2) weights of positive rows and of others, (k,) the largest absolute score."""
    weights, largest = np.zeros((len(signs), 2)), np.zeros(len(signs))
    for true, scores, weight in pieces():
        sign = signs.T[true]
        weights[:, 0] += weight @ (sign > 0)
        weights[:, 1] += weight @ (sign < 0)
        largest = np.maximum(largest, np.abs(scores * (sign != 0)).max(axis=0, initial=0.0))
    return weights, largest


class _PlattFit:
    """Newton's method for the maps of all problems. unit: (k,) numbers that scores are divided by."""

    def __init__(
        self, pieces: Callable[[], Iterator[Held]], signs: Numbers, weights: Numbers, unit: Numbers
    ) -> None:
        self._pieces, self._signs, self._unit = pieces, signs, unit
        self._high, self._low = targets(weights[:, 0], weights[:, 1])
        self._total = np.maximum(weights.sum(axis=1), np.finfo(float).tiny)

    def minimise(self, x: Numbers) -> tuple[Numbers, Numbers]:
        """Return slopes and offsets, (k,). x: (k, 2) slopes, of divided scores, and offsets to begin at. A problem
        whose step is not a decrease waits with a step half as long, while others go on."""
        value, slope, hessian = self._measured(x)
        direction, step = _newton(slope, hessian), np.ones(len(x))
        for _ in range(_MAX_PLATT_PASSES):
            going = (np.abs(slope).max(axis=1) > _SMALL_GRADIENT) & (step > _SMALLEST_STEP)
            if not going.any():
                break
            trial = x + np.where(going, step, 0.0)[:, None] * direction
            trial_value, trial_slope, trial_hessian = self._measured(trial)
            promised = (slope * direction).sum(axis=1)
            taken = going & (trial_value <= value + _DECREASE * step * promised)
            x, value = np.where(taken[:, None], trial, x), np.where(taken, trial_value, value)
            slope = np.where(taken[:, None], trial_slope, slope)
            direction = np.where(taken[:, None], _newton(trial_slope, trial_hessian), direction)
            step = np.where(taken, 1.0, step / 2)
        return x[:, 0] / self._unit, x[:, 1]

    def _measured(self, x: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Return (k,) mean losses, (k, 2) their gradients, and (k, 3) Hessians: of slope, both, and offset."""
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
    """Return −H⁻¹g, (k, 2)."""
    a, b, c = hessian[:, 0] + _RIDGE, hessian[:, 1], hessian[:, 2] + _RIDGE
    g, h = slope.T
    return np.column_stack([b * h - c * g, b * g - a * h]) / (a * c - b * b)[:, None]


# -- isotonic maps -------------------------------------------------------------------------------------------------


def library_bytes() -> int:
    """Return the memory to reserve before ``isotonic`` loads its library."""
    return 0 if _LIBRARY in sys.modules else _LIBRARY_BYTES


def isotonic(pieces: Pieces, max_rows: int) -> Numbers:
    """Return knots (m, 2) of scores and probabilities, ascending, of one problem: probabilities that rise with the
    score, those that fit held-out rows best in least squares (Zadrozny & Elkan 2002), by SciPy's
    pool-adjacent-violators algorithm.

    Rows, at least one of which has a weight, come sorted, from the highest score down, some of them at a time.
    These are pooled, and the pools of all once more: pooling neighbours first changes nothing in the end
    (Robertson, Wright & Dykstra 1988, chapter 1).
    No probability is 0 or 1: that of a pool goes from 1/(N₋ + 2) to (N₊ + 1)/(N₊ + 2), as Platt's targets do, since
    a single row of the other class would else have an infinite loss."""
    parts = [_pooled(*_distinct(scores, sides(signed))) for scores, signed in descending(pieces, max_rows)]
    pools = _pooled(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    ranges, weights = (each[::-1] for each in pools)
    high, low = (float(each) for each in targets(*weights.sum(axis=0)))
    probability = low + (high - low) * weights[:, 0] / weights.sum(axis=1)
    knots = np.column_stack([ranges[:, ::-1].reshape(-1), np.repeat(probability, 2)])
    return knots[np.append(True, np.diff(knots[:, 0]) > 0)]


def _distinct(scores: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
    """Return rows of equal scores as one: its range, twice the score, and the sums of weights (n, 2)."""
    ends = group_ends(scores)
    starts = np.append(0, ends[:-1] + 1)
    return np.column_stack([scores[ends], scores[ends]]), np.add.reduceat(weights, starts, axis=0)


def _pooled(ranges: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
    """Return (m, 2) highest and lowest score of each pool, descending, and (m, 2) its weights."""
    with loading_blas():
        from scipy.optimize import isotonic_regression  # loads slowly

    totals = weights.sum(axis=1)
    starts = isotonic_regression(weights[:, 0] / totals, weights=totals, increasing=False).blocks[:-1]
    ends = np.append(starts[1:], len(ranges)) - 1
    return np.column_stack([ranges[starts, 0], ranges[ends, 1]]), np.add.reduceat(weights, starts, axis=0)


# -- temperature ---------------------------------------------------------------------------------------------------


def temperature(pieces: Callable[[], Iterator[Held]]) -> float:
    """Return β = 1/temperature, the number by which the scores of all classes are multiplied before a softmax.

        minimise over β > 0:  −Σ_i s_i log p_i(true class),   p_i = softmax(β f_i)

    (Guo, Pleiss, Sun & Weinberger 2017.) f_i: scores (n, k) of classes; of two classes those of the second, the
    other having 0. The loss is convex in β: its derivative is searched for a zero, by Newton's method within an
    interval that halves where that leaves it."""
    largest = max((float(np.abs(scores).max(initial=0.0)) for _, scores, _ in pieces()), default=0.0)
    unit = 1 / largest if largest > 0 else 1.0
    low, high, beta = unit / _FARTHEST, unit * _FARTHEST, unit
    for _ in range(_MAX_TEMPERATURE_PASSES):
        slope, curvature = _temperature_slope(pieces, beta)
        low, high = (beta, high) if slope < 0 else (low, beta)
        trial = beta - slope / curvature if curvature > 0 else math.nan
        if not low < trial < high:  # also where it is no number
            trial = math.sqrt(low * high)
        if abs(trial - beta) <= _SMALL_STEP * beta:
            return trial
        beta = trial
    return beta


def _temperature_slope(pieces: Callable[[], Iterator[Held]], beta: float) -> tuple[float, float]:
    """Return the first and second derivative of the loss."""
    slope = curvature = 0.0
    for true, scores, weight in pieces():
        f = np.column_stack([np.zeros(len(scores)), scores[:, 0]]) if scores.shape[1] == 1 else scores
        p = np.exp(beta * (f - f.max(axis=1, keepdims=True)))
        p /= p.sum(axis=1, keepdims=True)
        mean = (p * f).sum(axis=1)
        slope += float(weight @ (mean - f[np.arange(len(f)), true]))
        curvature += float(weight @ (p * (f - mean[:, None]) ** 2).sum(axis=1))
    return slope, curvature


# -- thresholds ----------------------------------------------------------------------------------------------------

FORMS = "precision=0.9|recall=0.9|f1|cost=FP:FN"


@dataclass(frozen=True, slots=True)
class ThresholdRule:
    """Rule by which a threshold is chosen.

    asked: as it was written. goodness: of thresholds, from the counts of the rows above them, and the weight of
    those of the first class among these; larger is better, −∞ where a threshold is not allowed; of equals the
    highest is taken. required: the figure that a threshold must reach; "" for none."""

    asked: str
    goodness: Callable[[PrecisionRecall, Numbers], Numbers]
    required: str = ""


def rule_of(asked: str) -> ThresholdRule:
    """Return the rule "precision=0.9" (of the thresholds with so much on held-out rows that with the largest
    recall), "recall=0.9" (with the largest precision), "f1", or "cost=FP:FN" (the smallest Σ of FP for each false
    positive and FN for each false negative). Raises UsageError."""
    name, _, value = str(asked).partition("=")  # a number, which Python may pass, is no rule
    if name in ("precision", "recall") and 0 < (minimum := _number(value)) <= 1:
        other = "recall" if name == "precision" else "precision"

        def other_if_reached(counts: PrecisionRecall, false: Numbers) -> Numbers:
            return np.where(getattr(counts, name) >= minimum, getattr(counts, other), -np.inf)

        return ThresholdRule(asked, other_if_reached, name)
    if asked == "f1":
        return ThresholdRule(asked, lambda counts, false: counts.f1)
    costs = [_number(each) for each in value.split(":")]
    if name == "cost" and len(costs) == 2 and all(0 <= cost < math.inf for cost in costs) and any(costs):
        return ThresholdRule(
            asked, lambda counts, false: -costs[0] * false - costs[1] * (counts.support - counts.hits)
        )
    raise UsageError(
        f"--threshold {asked}: write {FORMS.replace('|', ', ')}, with a share above 0 and at most 1, and what a "
        "false positive and a false negative cost"
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def choose(pieces: Pieces, rule: ThresholdRule, max_rows: int, name: str) -> dict[str, Any]:
    """Return the threshold's value, and precision, recall and f1 of the second class that it gives on these rows.

    pieces: of scores, positive rows are of the second class. name: of the data. Raises DataError where no threshold
    does what is asked."""
    positives = float(sum((sides(signed).sum(axis=0) for _, signed in pieces()), np.zeros(2))[0])
    if not positives > 0:
        raise DataError(f"{name}: no held-out row with a weight is of the second class: nothing to choose by")
    best = _BestThreshold(rule, positives)
    rank(pieces, max_rows, best)
    return best.answer(name)


def _half_way(higher: Numbers, lower: Numbers) -> Numbers:
    """Return scores between these; where ``higher`` is infinite, the lower ones."""
    return np.where(np.isinf(higher), lower, lower + (np.where(np.isinf(higher), lower, higher) - lower) / 2)


class _BestThreshold:
    """The best threshold so far, as rows are ranked; see RankingFigure."""

    def __init__(self, rule: ThresholdRule, positives: float) -> None:
        self._rule, self._positives = rule, positives
        self._goodness, self._value = -math.inf, math.nan
        self._best = self._counts(np.zeros(1), np.zeros(1))
        self._largest = 0.0  # of the figure that is required
        self._last = math.inf, 0.0, 0.0  # score, and weights of rows of either side with at least that

    def add(self, scores: Numbers, true: Numbers, false: Numbers) -> None:
        """Add thresholds, see RankingFigure. Above a score are the rows of those before it; the threshold is half
        way to the last of these."""
        higher, true_above, false_above = (
            np.append(last, values[:-1])
            for last, values in zip(self._last, (scores, true, false), strict=True)
        )
        self._compare(_half_way(higher, scores), true_above, false_above)
        self._last = float(scores[-1]), float(true[-1]), float(false[-1])

    def _counts(self, true: Numbers, false: Numbers) -> PrecisionRecall:
        return PrecisionRecall(true, self._positives, true + false)

    def _compare(self, values: Numbers, true: Numbers, false: Numbers) -> None:
        """Take the best of (m,) thresholds, descending, if it is better. true, false: (m,) weights above them."""
        counts = self._counts(true, false)
        goodness = self._rule.goodness(counts, false)
        at = int(np.argmax(goodness))
        if self._rule.required:
            self._largest = max(self._largest, float(getattr(counts, self._rule.required).max()))
        if goodness[at] > self._goodness:
            self._goodness, self._value = float(goodness[at]), float(values[at])
            self._best = self._counts(true[at : at + 1], false[at : at + 1])

    def answer(self, name: str) -> dict[str, Any]:
        """Return what ``choose`` does. Raises DataError."""
        rule, (lowest, true, false) = self._rule, self._last
        self._compare(np.array([np.nextafter(lowest, -math.inf)]), np.array([true]), np.array([false]))
        if math.isnan(self._value):
            raise DataError(
                f"{name}: --threshold {rule.asked}: no threshold has that on held-out rows; the highest "
                f"{rule.required} is {self._largest:.4g}: ask for that or less, or for f1"
            )
        figures = {each: float(getattr(self._best, each)[0]) for each in ("precision", "recall", "f1")}
        return {"value": self._value, "rule": rule.asked, **figures}


def describe(threshold: Mapping[str, Any]) -> str:
    """Return what a chosen threshold is, as the rest of a sentence."""
    return (
        f"{threshold['value']:.6g}, chosen for {threshold['rule']}: precision {threshold['precision']:.4f}, recall "
        f"{threshold['recall']:.4f}, f1 {threshold['f1']:.4f} on {threshold['n_rows']:,} held-out rows"
    )
