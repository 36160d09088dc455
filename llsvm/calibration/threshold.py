"""Thresholds: the score above which a row is of the second of two classes, chosen on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.calibration.ordered import Pieces, descending, group_ends
from llsvm.errors import DataError, UsageError

FORMS = "precision=0.9|recall=0.9|f1|cost=FP:FN"
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ScoreCounts:
    """Weights of rows above thresholds: of the second class (true), and of the first (false). positives: of all
    rows of the second class."""

    true: Numbers
    false: Numbers
    positives: float

    @property
    def precision(self) -> Numbers:
        found = self.true + self.false
        return np.divide(self.true, found, out=np.zeros_like(found), where=found > 0)

    @property
    def recall(self) -> Numbers:
        return self.true / self.positives

    @property
    def f1(self) -> Numbers:
        return 2 * self.true / (self.true + self.false + self.positives)


@dataclass(frozen=True, slots=True)
class ThresholdRule:
    """What a threshold is chosen by. asked: as it was written. goodness: of thresholds, larger is better, −∞ where
    one is not allowed; of equals the highest is taken. wanted: what is to be reached, named."""

    asked: str
    goodness: Callable[[ScoreCounts], Numbers]
    wanted: str = ""


def rule_of(asked: str) -> ThresholdRule:
    """Of "precision=0.9" (of the thresholds with so much on held-out rows that with the largest recall),
    "recall=0.9" (with the largest precision), "f1", or "cost=FP:FN" (the smallest Σ of FP for each false positive
    and FN for each false negative). Raises UsageError."""
    name, _, value = str(asked).partition("=")  # a number, which Python may pass, is no rule
    if name in ("precision", "recall") and 0 < (share := _number(value)) <= 1:
        other = "recall" if name == "precision" else "precision"
        return ThresholdRule(asked, lambda counts: _best_of(counts, name, share, other), name)
    if asked == "f1":
        return ThresholdRule(asked, lambda counts: counts.f1)
    costs = [_number(each) for each in value.split(":")]
    if name == "cost" and len(costs) == 2 and all(0 <= cost < math.inf for cost in costs) and any(costs):
        return ThresholdRule(
            asked, lambda counts: -costs[0] * counts.false - costs[1] * (counts.positives - counts.true)
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


def _best_of(counts: ScoreCounts, name: str, share: float, other: str) -> Numbers:
    return np.where(getattr(counts, name) >= share, getattr(counts, other), -np.inf)


def choose(pieces: Pieces, rule: ThresholdRule, max_rows: int, name: str) -> dict[str, Any]:
    """The threshold's value, and what it comes to on these rows: precision, recall and f1 of the second class.

    pieces: scores, and (n, 2) weights of rows where they are of the second class, and where not. name: of the data.
    Raises DataError where no threshold does what is asked."""
    sums = sum((sides.sum(axis=0) for _, sides in pieces()), np.zeros(2))
    if not sums[0] > 0:
        raise DataError(f"{name}: no held-out row with a weight is of the second class: nothing to choose by")
    above, best, after = np.zeros(2), _Best(rule, float(sums[0])), math.inf
    for scores, sides in descending(pieces, max_rows):
        ends = group_ends(scores)
        groups, found = scores[ends], above + np.cumsum(sides, axis=0)[ends]
        before = np.concatenate([above[None], found[:-1]])
        # above a group's score are the groups before it; the value is half way to the last of these
        best.look(_half_way(np.append(after, groups[:-1]), groups), before)
        above, after = found[-1], float(groups[-1])
    best.look(np.array([np.nextafter(after, -math.inf)]), above[None])
    return best.answer(name)


def _half_way(higher: Numbers, lower: Numbers) -> Numbers:
    """Between scores; of what is above all of them, the highest."""
    return np.where(np.isinf(higher), lower, lower + (np.where(np.isinf(higher), lower, higher) - lower) / 2)


class _Best:
    """The best threshold so far, as they are looked at from the highest down."""

    def __init__(self, rule: ThresholdRule, positives: float) -> None:
        self._rule, self._positives = rule, positives
        self._goodness, self._value = -math.inf, math.nan
        self._counts = np.zeros(2)
        self._reached = 0.0  # the most there was of what is wanted

    def look(self, values: Numbers, above: Numbers) -> None:
        """values: (m,) thresholds, descending. above: (m, 2) weights of rows of either side above them."""
        counts = ScoreCounts(above[:, 0], above[:, 1], self._positives)
        goodness = self._rule.goodness(counts)
        at = int(np.argmax(goodness))
        if self._rule.wanted:
            self._reached = max(self._reached, float(getattr(counts, self._rule.wanted).max()))
        if goodness[at] > self._goodness:
            self._goodness, self._value, self._counts = float(goodness[at]), float(values[at]), above[at]

    def answer(self, name: str) -> dict[str, Any]:
        rule = self._rule
        if math.isnan(self._value):
            raise DataError(
                f"{name}: --threshold {rule.asked}: no threshold has that on held-out rows; the highest "
                f"{rule.wanted} is {self._reached:.4g}: ask for that or less, or for f1"
            )
        true, false = (float(each) for each in self._counts)
        counts = ScoreCounts(np.array([true]), np.array([false]), self._positives)
        figures = {each: float(getattr(counts, each)[0]) for each in ("precision", "recall", "f1")}
        return {"value": self._value, "rule": rule.asked, **figures}


def describe(threshold: Mapping[str, Any]) -> str:
    """What a chosen threshold is, to go on a sentence with."""
    return (
        f"{threshold['value']:.6g}, chosen for {threshold['rule']}: precision {threshold['precision']:.4f}, recall "
        f"{threshold['recall']:.4f}, f1 {threshold['f1']:.4f} on {threshold['n_rows']:,} held-out rows"
    )
