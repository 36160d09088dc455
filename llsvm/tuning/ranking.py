"""Scores that rank rows: areas under the ROC curve and under that of precision and recall, to the last digit.

Rows are looked at from the highest score down, as many at a time as memory has room for: where one such piece ends
follows from counts, made in readings of all scores. Rows of equal scores count together, as in scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

# Pieces of what is ranked: (scores (n,) float64, positive (n,) bool), in any order, the same each time
Pieces = Callable[[], Iterator[tuple[NDArray[np.float64], NDArray[np.bool_]]]]
SORT_BYTES = 48  # of a row while it is sorted
_BINS = 1 << 12


class Ranked:
    """What a ranking comes to, as scores from the highest down are added."""

    def __init__(self) -> None:
        self._positives = self._others = 0
        self._area = 0.0  # Σ over other rows of the positive ones above them, equals half
        self._precisions = 0.0  # Σ over positive rows of the precision where they are found

    def add(self, scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> None:
        """Rows that are below those added before; equal scores come together."""
        if not len(scores):
            return
        order = np.argsort(-scores, kind="stable")
        scores, found = scores[order], positive[order]
        ends = np.append(np.flatnonzero(np.diff(scores)), len(scores) - 1)
        above = self._positives + np.cumsum(found)[ends]
        seen = self._positives + self._others + ends + 1
        new = np.diff(above, prepend=self._positives)
        others = np.diff(seen, prepend=self._positives + self._others) - new
        self._area += float(np.sum(others * (above - 0.5 * new)))
        self._precisions += float(np.sum(new * (above / seen)))
        self._positives, self._others = int(above[-1]), int(seen[-1] - above[-1])

    @property
    def roc_auc(self) -> float:
        pairs = self._positives * self._others
        return self._area / pairs if pairs else float("nan")

    @property
    def average_precision(self) -> float:
        return self._precisions / self._positives if self._positives else float("nan")


def ranked(pieces: Pieces, max_rows: int) -> Ranked:
    """The ranking of all rows, of which at most ``max_rows`` are held, but for those of one score."""
    found = Ranked()
    for low, high in _ranges(pieces, 0, 1 << 64, max_rows):
        parts = []
        for scores, positive in pieces():
            keys = _keys(scores)
            some = (keys >= np.uint64(low)) & (keys <= np.uint64(high - 1))
            parts.append((scores[some], positive[some]))
        found.add(np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]))
    return found


def _ranges(pieces: Pieces, low: int, high: int, max_rows: int) -> Iterator[tuple[int, int]]:
    """Ranges of keys, from the highest down, that have at most ``max_rows`` rows, or one key alone."""
    width = max(1, (high - low) // _BINS)
    counts = np.zeros(-(-(high - low) // width), np.int64)
    for scores, _ in pieces():
        keys = _keys(scores)
        keys = keys[(keys >= np.uint64(low)) & (keys <= np.uint64(high - 1))]
        np.add.at(counts, ((keys - np.uint64(low)) // np.uint64(width)).astype(np.int64), 1)
    end, held = len(counts), 0
    for at in range(len(counts) - 1, -1, -1):
        if held + counts[at] > max_rows:
            if held:
                yield low + (at + 1) * width, min(low + end * width, high)
            end, held = at + 1, 0
            if counts[at] > max_rows:
                if width > 1:
                    yield from _ranges(pieces, low + at * width, min(low + end * width, high), max_rows)
                else:
                    yield low + at, low + end
                end = at
                continue
        held += int(counts[at])
    if held:
        yield low, min(low + end * width, high)


def _keys(scores: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Whole numbers in the order of the scores; 0.0 and −0.0 are the same."""
    bits = (scores + 0.0).view(np.uint64)
    sign = np.uint64(1 << 63)
    return np.where(bits & sign, ~bits, bits | sign)
