"""Curve: how many rows of either of two classes are above each score, thinned to what can be seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_STEPS = 200  # of recall, and of the share of other rows, between two points
_STEPS_PER_DOUBLING = 25  # of other rows over positive ones, on which the precision depends


class Curve:
    """positives, others: the weight of the rows of the second class, and of the first, which both have some."""

    def __init__(self, positives: float, others: float) -> None:
        self._totals = positives, others
        self._points: list[NDArray[np.float64]] = []
        self._last = np.full((1, 3), -1)
        self._end = np.empty((0, 3))

    def add(self, scores: NDArray[np.float64], true: NDArray[np.float64], false: NDArray[np.float64]) -> None:
        """scores: (m,) descending, each once. true, false: (m,) the weight of the rows of the second class, and
        of the first, with at least that score."""
        positives, others = self._totals
        doublings = _STEPS_PER_DOUBLING * np.log2(1 + false / positives)
        steps = np.stack([_STEPS * true / positives, _STEPS * false / others, doublings], axis=1).astype(
            np.int64
        )
        new: NDArray[np.bool_] = np.any(np.diff(steps, axis=0, prepend=self._last) > 0, axis=1)
        self._last = steps[-1:]
        points = np.stack([scores, true, false], axis=1)
        self._points.append(points[new])
        self._end = points[:0] if new[-1] else points[-1:]

    def answer(self) -> dict[str, Any]:
        """Plain values, a list each from the highest score down: threshold (the score, which counts as above it),
        true_positives, false_positives; and of all rows positives and others. Rows count by their weights."""
        scores, true, false = np.concatenate([*self._points, self._end]).T
        return {
            "threshold": scores.tolist(),
            "true_positives": true.tolist(),
            "false_positives": false.tolist(),
            "positives": self._totals[0],
            "others": self._totals[1],
        }
