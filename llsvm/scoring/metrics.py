"""Metrics of predictions by weights of rows: of classes, of probabilities, and of numbers."""

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
