"""Scores that rank rows: areas under the ROC curve and under that of precision and recall, to the last digit. Rows
of equal scores count together, and all by their weights, as in scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from llsvm.calibration.ordered import Pieces, descending, group_ends


class Follower(Protocol):
    """What takes in the same ranking."""

    def add(self, scores: NDArray[np.float64], true: NDArray[np.float64], false: NDArray[np.float64]) -> None:
        """See ``Curve.add``."""
        ...


class Ranked:
    """What a ranking comes to, as scores from the highest down are added."""

    def __init__(self, followers: Sequence[Follower] = ()) -> None:
        self._followers = followers
        self._positives = self._others = 0.0
        self._area = 0.0  # Σ over other rows of the positive ones above them, equals half
        self._precisions = 0.0  # Σ over positive rows of the precision where they are found

    def add(self, scores: NDArray[np.float64], signed: NDArray[np.floating]) -> None:
        """Sorted rows that are below those added before; equal scores come together. signed: (n,) the weight of a
        positive row, and of another its negative; none is 0."""
        ends = group_ends(scores)
        above = self._positives + np.cumsum(np.maximum(signed, 0), dtype=np.float64)[ends]
        below = self._others + np.cumsum(np.maximum(-signed, 0), dtype=np.float64)[ends]
        new = np.diff(above, prepend=self._positives)
        others = np.diff(below, prepend=self._others)
        self._area += float(np.sum(others * (above - 0.5 * new)))
        self._precisions += float(np.sum(new * (above / (above + below))))
        self._positives, self._others = float(above[-1]), float(below[-1])
        for follower in self._followers:
            follower.add(scores[ends], above, below)

    @property
    def roc_auc(self) -> float:
        pairs = self._positives * self._others
        return self._area / pairs if pairs else float("nan")

    @property
    def average_precision(self) -> float:
        return self._precisions / self._positives if self._positives else float("nan")


def ranked(pieces: Pieces, max_rows: int, followers: Sequence[Follower] = ()) -> Ranked:
    """The ranking of all rows, of which at most ``max_rows`` are held, but for those of one score. pieces: with
    each row, see Ranked.add."""
    found = Ranked(followers)
    for scores, signed in descending(pieces, max_rows):
        found.add(scores, signed)
    return found
