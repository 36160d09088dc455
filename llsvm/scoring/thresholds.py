"""Thresholds: what it comes to, to predict the second of two classes from a score on."""

from __future__ import annotations

from typing import TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import UsageError

MAX_THRESHOLDS = 1000


class ThresholdFigures(TypedDict):
    """Of the rule that rows with this score or a higher one are of the second class. predicted_positive: the share
    of all rows that it takes for such, false_positive_rate: of those of the first class. Rows count by their
    weights."""

    threshold: float
    precision: float
    recall: float
    f1: float
    predicted_positive: float
    false_positive_rate: float


class Thresholds:
    """The highest score for each of ``steps`` equal steps of recall, and that with the largest F1.

    positives, others: the weight of the rows of the second class, and of the first, which both have some."""

    def __init__(self, steps: int, positives: float, others: float) -> None:
        self._steps, self._positives, self._others = steps, positives, others
        self._level = 0
        self._points: list[NDArray[np.float64]] = []
        self._best, self._best_point = -1.0, np.empty((0, 3))

    def add(self, scores: NDArray[np.float64], true: NDArray[np.float64], false: NDArray[np.float64]) -> None:
        """As ``Curve.add``."""
        near = 1 + 1e-12  # sums of weights are rounded
        levels = np.floor(near * self._steps * true / self._positives).astype(np.int64)
        points = np.stack([scores, true, false], axis=1)
        self._points.append(points[np.diff(levels, prepend=self._level) > 0])
        self._level = int(levels[-1])
        f1 = self._f1(true, false)
        best = int(np.argmax(f1))
        if f1[best] > self._best:
            self._best, self._best_point = float(f1[best]), points[best : best + 1]

    def answer(self) -> list[ThresholdFigures]:
        """From the highest score down."""
        points = np.unique(np.concatenate([*self._points, self._best_point]), axis=0)[::-1]
        score, true, false = points.T
        columns = (
            score,
            true / (true + false),
            true / self._positives,
            self._f1(true, false),
            (true + false) / (self._positives + self._others),
            false / self._others,
        )
        rows = np.stack(columns, axis=1).tolist()
        return [
            cast(ThresholdFigures, dict(zip(ThresholdFigures.__annotations__, row, strict=True)))
            for row in rows
        ]

    def _f1(self, true: NDArray[np.float64], false: NDArray[np.float64]) -> NDArray[np.float64]:
        return 2 * true / (true + false + self._positives)


def check_thresholds(steps: int, n_classes: int) -> None:
    """Raise UsageError unless a model of that many classes can have a table of so many thresholds; 0: none."""
    if steps and n_classes != 2:
        raise UsageError("--thresholds is for models of two classes: leave it out")
    if not 0 <= steps <= MAX_THRESHOLDS:
        raise UsageError(f"--thresholds must be from 1 to {MAX_THRESHOLDS:,}, not {steps}")
