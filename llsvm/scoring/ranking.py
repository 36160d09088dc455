"""Scores that rank rows: areas under the ROC curve and under that of precision and recall, to the last digit. Rows
of equal scores count together, as in scikit-learn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.calibration.ordered import Pieces, descending, group_ends
from llsvm.scoring.curve import Curve


class Ranked:
    """What a ranking comes to, as scores from the highest down are added."""

    def __init__(self, curve: Curve | None = None) -> None:
        """curve: that takes in the same rows."""
        self._curve = curve
        self._positives = self._others = 0
        self._area = 0.0  # Σ over other rows of the positive ones above them, equals half
        self._precisions = 0.0  # Σ over positive rows of the precision where they are found

    def add(self, scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> None:
        """Sorted rows that are below those added before; equal scores come together."""
        ends = group_ends(scores)
        above = self._positives + np.cumsum(positive)[ends]
        seen = self._positives + self._others + ends + 1
        new = np.diff(above, prepend=self._positives)
        others = np.diff(seen, prepend=self._positives + self._others) - new
        self._area += float(np.sum(others * (above - 0.5 * new)))
        self._precisions += float(np.sum(new * (above / seen)))
        self._positives, self._others = int(above[-1]), int(seen[-1] - above[-1])
        if self._curve is not None:
            self._curve.add(scores[ends], above, seen - above)

    @property
    def roc_auc(self) -> float:
        pairs = self._positives * self._others
        return self._area / pairs if pairs else float("nan")

    @property
    def average_precision(self) -> float:
        return self._precisions / self._positives if self._positives else float("nan")


def ranked(pieces: Pieces, max_rows: int, curve: Curve | None = None) -> Ranked:
    """The ranking of all rows, of which at most ``max_rows`` are held, but for those of one score. pieces: with
    each row, is it positive? curve: see Ranked."""
    found = Ranked(curve)
    for scores, positive in descending(pieces, max_rows):
        found.add(scores, positive)
    return found
