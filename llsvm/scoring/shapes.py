"""Histograms that a report draws beside the figures of an evaluation, gathered in the same pass: how scores spread.

The range of the numbers is not known before: bins are a power of two wide, at multiples of that, and are joined
where the range outgrows them, so that the counts depend neither on the order of the rows nor on blocks.

An evaluation's ``shapes`` are plain values: of two classes ``scores`` (a histogram of either class) and, where rows
have both, ``curve``, see Curve; of more ``leads`` (of the rows that are predicted rightly, and of those that are
not, by how much the predicted class's score leads); of a regression ``errors`` and ``predictions`` (against the
true numbers); of outliers ``scores``. See Histogram.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FINEST_BITS = 40  # bins are not narrower than 2^-40 of the largest value
_LEFT_OUT = 0.0005  # of the rows at either end may share the outermost bin that is shown
SCORE_BINS, _PLANE_BINS = 40, 32  # shown
_FINE_PLANE_BINS = 256
SHAPES_BYTES = 8 * (2 * 1024 + _FINE_PLANE_BINS**2) * 3  # a histogram is copied where its range grows


class _Bins:
    """Bins of one axis. exponent, first: bin i is [(first + i) 2^exponent, (first + i + 1) 2^exponent)."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._low, self._high = math.inf, -math.inf
        self.exponent, self.first = 0, 0

    def cover(self, values: NDArray[np.float64]) -> NDArray[np.int64] | None:
        """Widen the range to these values, of which there are some. Returns where each bin went, or None: where it
        was."""
        fresh = self._high < self._low
        self._low, self._high = min(self._low, float(values.min())), max(self._high, float(values.max()))
        largest = max(abs(self._low), abs(self._high), np.finfo(float).tiny)
        exponent = math.frexp(largest)[1] - _FINEST_BITS
        while self._at(self._high, exponent) - self._at(self._low, exponent) >= self._number:
            exponent += 1
        first = self._at(self._low, exponent)
        if fresh or (exponent, first) == (self.exponent, self.first):
            self.exponent, self.first = exponent, first
            return None
        gone = ((np.arange(self._number) + self.first) >> (exponent - self.exponent)) - first
        self.exponent, self.first = exponent, first
        return np.clip(gone, 0, self._number - 1)  # bins out of the range are empty

    def places(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.floor(np.ldexp(values, -self.exponent)).astype(np.int64) - self.first

    def edge(self, place: int) -> float:
        return math.ldexp(self.first + place, self.exponent)

    @staticmethod
    def _at(value: float, exponent: int) -> int:
        return math.floor(math.ldexp(value, -exponent))


class Histogram:
    """Counts of rows by one number or by two; of several series of rows, over the same bins."""

    def __init__(self, axes: int = 1, bins: int = 1024, series: int = 1) -> None:
        self._counts = np.zeros((series, *[bins] * axes), np.int64)
        self._bins = [_Bins(bins) for _ in range(axes)]

    def add(self, *values: NDArray[np.float64], series: NDArray[np.integer] | int = 0) -> None:
        """Count rows. values: (n,) of each axis, finite. series: (n,), which each row belongs to, or that of
        all."""
        if not len(values[0]):
            return
        for axis, (bins, each) in enumerate(zip(self._bins, values, strict=True), 1):
            if (gone := bins.cover(each)) is not None:
                self._counts = _joined(self._counts, axis, gone, len(gone))
        places = [bins.places(each) for bins, each in zip(self._bins, values, strict=True)]
        np.add.at(self._counts, (np.broadcast_to(series, places[0].shape), *places), 1)

    def answer(self, shown: int) -> dict[str, Any]:
        """Return at most ``shown`` bins of each axis, plain values. edges: of each axis, one more than bins; the
        outermost bins hold what little there is beyond them, too. counts: of each series, by the bins of each
        axis."""
        counts, edges = self._counts, []
        for axis, bins in enumerate(self._bins, 1):
            rows = counts.sum(axis=tuple(i for i in range(counts.ndim) if i != axis))
            low, high = _middle(rows)
            step = 1 << max(0, math.ceil(math.log2((high - low) / shown)))
            low -= (low + bins.first) % step  # joined bins begin at multiples of their width
            number = -(-(high - low) // step)
            gone = np.clip((np.arange(len(rows)) - low) // step, 0, number - 1)
            counts = _joined(counts, axis, gone, number)
            edges.append([bins.edge(low + i * step) for i in range(number + 1)])
        return {"edges": edges, "counts": counts.tolist()}


def _joined(counts: NDArray[np.int64], axis: int, gone: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """Return counts of ``number`` bins on one axis: the old bins are added to those where they have ``gone``."""
    joined = np.zeros((number, *np.delete(counts.shape, axis)), np.int64)
    np.add.at(joined, gone, np.moveaxis(counts, axis, 0))
    return np.moveaxis(joined, 0, axis)


def _middle(rows: NDArray[np.int64]) -> tuple[int, int]:
    """Return the bins, from the first to behind the last, without those at either end that have few rows
    together."""
    total = int(rows.sum())
    few = int(_LEFT_OUT * total)
    low = int(np.searchsorted(np.cumsum(rows), few, side="right"))
    high = len(rows) - int(np.searchsorted(np.cumsum(rows[::-1]), few, side="right"))
    return low, max(high, low + 1)


class ClassShapes:
    """Shapes of the scores of two classes or more."""

    def __init__(self, n_classes: int) -> None:
        self._name = "scores" if n_classes == 2 else "leads"
        self._histogram = Histogram(series=2)

    def add(self, scores: NDArray[np.float64], true: NDArray[np.intp], predicted: NDArray[np.intp]) -> None:
        """Count rows. scores: (n,) of the second of two classes, or (n, n_classes). true, predicted: (n,) class
        ids."""
        if scores.ndim == 1:
            self._histogram.add(scores, series=true)
        else:
            best = np.partition(scores, -2, axis=1)[:, -2:]
            self._histogram.add(best[:, 1] - best[:, 0], series=(true != predicted).astype(np.intp))

    def answer(self) -> dict[str, Any]:
        return {self._name: self._histogram.answer(SCORE_BINS)}


class NumberShapes:
    """Shapes of a regression."""

    def __init__(self) -> None:
        self._errors = Histogram()
        self._plane = Histogram(axes=2, bins=_FINE_PLANE_BINS)

    def add(self, predicted: NDArray[np.float64], true: NDArray[np.float64]) -> None:
        """Count rows by (n,) numbers."""
        self._errors.add(true - predicted)
        self._plane.add(predicted, true)

    def answer(self) -> dict[str, Any]:
        return {"errors": self._errors.answer(SCORE_BINS), "predictions": self._plane.answer(_PLANE_BINS)}
