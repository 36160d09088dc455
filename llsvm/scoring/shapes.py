"""What a report draws of scores beside the figures of an evaluation, gathered in the same pass: how they spread.

Plain values, in an evaluation's ``shapes``: of two classes ``scores`` (a histogram of either class) and, where rows
have both, ``curve``; of more ``leads`` (of the rows that are predicted rightly, and of those that are not, by how
much the predicted class's score leads); of a regression ``errors`` and ``predictions`` (against the true numbers);
of outliers ``scores``. See Histogram and Curve.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.scoring.histogram import Histogram

BINS, PLANE_BINS = 40, 32  # shown
_FINE_PLANE_BINS = 256
SHAPES_BYTES = 8 * (2 * 1024 + _FINE_PLANE_BINS**2) * 3  # a histogram is copied where its range grows


class ClassShapes:
    """Of two classes or more."""

    def __init__(self, n_classes: int) -> None:
        self._name = "scores" if n_classes == 2 else "leads"
        self._histogram = Histogram(series=2)

    def add(self, scores: NDArray[np.float64], true: NDArray[np.intp], predicted: NDArray[np.intp]) -> None:
        """scores: (n,) of the second of two classes, or (n, n_classes). true, predicted: (n,) class ids."""
        if scores.ndim == 1:
            self._histogram.add(scores, series=true)
        else:
            best = np.partition(scores, -2, axis=1)[:, -2:]
            self._histogram.add(best[:, 1] - best[:, 0], series=(true != predicted).astype(np.intp))

    def answer(self) -> dict[str, Any]:
        return {self._name: self._histogram.answer(BINS)}


class NumberShapes:
    """Of a regression."""

    def __init__(self) -> None:
        self._errors = Histogram()
        self._plane = Histogram(axes=2, bins=_FINE_PLANE_BINS)

    def add(self, predicted: NDArray[np.float64], true: NDArray[np.float64]) -> None:
        """(n,) numbers."""
        self._errors.add(true - predicted)
        self._plane.add(predicted, true)

    def answer(self) -> dict[str, Any]:
        return {"errors": self._errors.answer(BINS), "predictions": self._plane.answer(PLANE_BINS)}


class OutlierShapes:
    """Of a model that tells outliers."""

    def __init__(self) -> None:
        self._histogram = Histogram()

    def add(self, scores: NDArray[np.float64]) -> None:
        """(n,) scores."""
        self._histogram.add(scores)

    def answer(self) -> dict[str, Any]:
        return {"scores": self._histogram.answer(BINS)}
