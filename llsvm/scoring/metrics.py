"""Metrics of predictions by weights of rows, of classes, of probabilities and of numbers; and histograms of scores,
which a report draws beside them.

The range of a histogram's numbers is not known before: bins are a power of two wide, at multiples of that, and are
joined where the range outgrows them, so that the counts depend neither on the order of the rows nor on blocks.

An evaluation's ``shapes`` are plain values: of two classes ``scores`` (a histogram of either class) and, where rows
have both, ``curve``, see Curve; of more ``leads`` (of the rows that are predicted rightly, and of those that are
not, by how much the predicted class's score leads); of a regression ``errors`` and ``predictions`` (against the
true numbers); of outliers ``scores``. See Histogram.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.errors import DataError
from llsvm.features.targets import as_targets

Numbers = NDArray[np.float64]
RELIABILITY_BINS = 10


def weights_of(block: Block) -> Numbers:
    """Return (n,) what the rows of a block count for."""
    return np.ones(block.n_rows) if block.weight is None else block.weight.astype(np.float64, copy=False)


def targets_of(block: Block, place: str = "") -> Numbers:
    """Return (n,) the labels of a block as numbers. Raises DataError for one that is none; ``place`` begins it."""
    try:
        return as_targets(block.y)
    except ValueError as error:
        at, reason = error.args
        raise DataError(f"{place}row {block.rows[at] + 1}: {reason}") from error


def share(part: float, whole: float) -> float:
    """Return ``part / whole``, or NaN if no row has a weight."""
    return float(part / whole) if whole else math.nan


def ratio(part: Numbers, whole: Numbers | float) -> Numbers:
    """Return ``part / whole`` (m,), 0 where ``whole`` is 0."""
    return np.divide(part, whole, out=np.zeros(len(part)), where=np.asarray(whole) > 0)


@dataclass(frozen=True, slots=True)
class PrecisionRecall:
    """Precision, recall and F1 of several classes, or of one class at several thresholds; each is 0 without cases.

    hits: (m,) the weight of rows predicted rightly as the class. support: (m,), or a number, that of rows of the
    class. predicted: (m,) that of rows predicted as it."""

    hits: Numbers
    support: Numbers | float
    predicted: Numbers

    @property
    def precision(self) -> Numbers:
        return ratio(self.hits, self.predicted)

    @property
    def recall(self) -> Numbers:
        return ratio(self.hits, self.support)

    @property
    def f1(self) -> Numbers:
        return ratio(2 * self.hits, self.predicted + self.support)

    @property
    def balanced_accuracy(self) -> float:
        """Return the mean recall of the classes that rows have, NaN if there are none."""
        occurs = np.asarray(self.support) > 0
        return float(self.recall[occurs].mean()) if occurs.any() else math.nan


def matthews_corrcoef(counts: Numbers) -> float:
    """Return the correlation of true classes (rows of ``counts``) and predicted ones, 0 if either does not vary."""
    n, hits = float(counts.sum()), float(np.trace(counts))
    true, predicted = counts.sum(axis=1), counts.sum(axis=0)
    spread = (n * n - true @ true) * (n * n - predicted @ predicted)
    return float((n * hits - true @ predicted) / np.sqrt(spread)) if spread > 0 else 0.0


def log_losses(of_true: Numbers) -> Numbers:
    """Return −log p of each row. of_true: (n,) the probability of its true class."""
    return -np.log(np.maximum(of_true, np.finfo(np.float64).eps))


class Bin(TypedDict):
    """Rows whose probability is in a tenth of [0, 1] with this upper end. probability: their mean, share: of them
    for which it came true, both by their weights."""

    below: float
    rows: int
    probability: float
    share: float


class ProbabilityErrors:
    """Log loss, Brier score and reliability of probabilities, summed up over blocks of rows.

    Reliability is how often the rows of a bin have the class: of two classes the second, of more the most probable
    one (Guo et al. 2017)."""

    def __init__(self) -> None:
        self._log_loss = self._squares = 0.0  # sums by weight
        self._bins = np.zeros((4, RELIABILITY_BINS))  # rows, Σ weight, Σ of probability, Σ of came true

    def add(self, p: Numbers, true: NDArray[np.intp], weight: Numbers) -> None:
        """Add rows. p: (n, n_classes) probabilities. true: (n,) class ids. weight: (n,)."""
        rows = np.arange(len(p))
        of_true = p[rows, true]
        self._log_loss += float((weight * log_losses(of_true)).sum())
        squares = (1.0 - of_true) ** 2
        if p.shape[1] > 2:
            squares += (p * p).sum(axis=1) - of_true * of_true
        self._squares += float((weight * squares).sum())
        shown = np.ones(len(p), np.intp) if p.shape[1] == 2 else np.argmax(p, axis=1)
        probability = p[rows, shown]
        at = np.minimum((probability * RELIABILITY_BINS).astype(np.intp), RELIABILITY_BINS - 1)
        values = (None, weight, weight * probability, weight * (shown == true))
        for sums, of_rows in zip(self._bins, values, strict=True):
            sums += np.bincount(at, of_rows, RELIABILITY_BINS)

    def answer(self, weight: float) -> dict[str, Any]:
        """Return the figures of an evaluation; reliability has the bins that have rows. weight: of all rows."""
        reliability: list[Bin] = [
            {
                "below": (b + 1) / RELIABILITY_BINS,
                "rows": int(n),
                "probability": float(p / w),
                "share": float(came / w),
            }
            for b, (n, w, p, came) in enumerate(self._bins.T)
            if w > 0
        ]
        return {
            "log_loss": self._log_loss / weight,
            "brier_score": self._squares / weight,
            "reliability": reliability,
        }


class Moments:
    """Weighted mean of numbers, and the sum of their squared distances from it, by the updates of Chan, Golub and
    LeVeque (1979)."""

    def __init__(self) -> None:
        self._weight = self._mean = self.squares = 0.0

    def add(self, values: Numbers, weight: Numbers) -> None:
        """Add (n,) values."""
        new = float(weight.sum())
        if new == 0:
            return
        mean, whole = float(weight @ values) / new, self._weight + new
        moved = mean - self._mean
        self.squares += float(weight @ np.square(values - mean)) + moved * moved * self._weight * new / whole
        self._mean += moved * new / whole
        self._weight = whole


class NumberErrors:
    """Errors e = y − p of predicted numbers, summed up by weight over blocks of rows; figures are NaN where no row
    has a weight.

    weighted_sum: sums values (n,) by weights (n,): ``np.dot`` takes no memory, ``pairwise_sum`` rounds less."""

    def __init__(self, weighted_sum: Callable[[Numbers, Numbers], float]) -> None:
        self._sum = weighted_sum
        self.weight = self._absolute = self._squares = self._above = 0.0

    def add(self, errors: Numbers, weight: Numbers) -> None:
        """Add (n,) errors."""
        self.weight += float(weight.sum())
        self._absolute += float(self._sum(weight, np.abs(errors)))
        self._squares += float(self._sum(weight, np.square(errors)))
        self._above += float(self._sum(weight, np.maximum(errors, 0.0)))

    @property
    def mean_absolute_error(self) -> float:
        return share(self._absolute, self.weight)

    @property
    def mean_squared_error(self) -> float:
        return share(self._squares, self.weight)

    def pinball_loss(self, quantile: float) -> float:
        """Return the mean of q e above, and (q − 1) e below the prediction."""
        below = self._absolute - self._above
        return share(quantile * self._above + (1.0 - quantile) * below, self.weight)

    def r2(self, squares: float) -> float:
        """Return 1 − Σ e² / ``squares``, the sum of the targets' squared distances from their mean; of targets that
        are all the same 1 without an error, else 0."""
        return 1.0 - self._squares / squares if squares > 0 else float(self._squares == 0)


def pairwise_sum(weight: Numbers, values: NDArray[Any]) -> float:
    """Return Σ weight · value, summed as NumPy sums arrays."""
    return float((weight * values).sum())


# -- histograms ----------------------------------------------------------------------------------------------------

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
