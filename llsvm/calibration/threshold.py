"""Thresholds: the score above which a row is of the second of two classes, chosen on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from llsvm.errors import DataError, UsageError
from llsvm.scoring.metrics import Numbers, PrecisionRecall
from llsvm.scoring.ranking import Pieces, rank, sides

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
