"""Reliability: how often what a probability is given to comes true, summed up as blocks of rows go by."""

from __future__ import annotations

from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

BINS = 10


class Bin(TypedDict):
    """Rows whose probability is in a tenth of [0, 1] with this upper end. probability: their mean, share: of them
    for which it came true, both by their weights."""

    below: float
    rows: int
    probability: float
    share: float


class Reliability:
    """Of two classes, the probability of the second; of more, that of the most probable class (Guo et al. 2017)."""

    def __init__(self) -> None:
        self._sums = np.zeros((4, BINS))  # rows, Σ weight, Σ of probability, Σ of came true

    def add(self, p: NDArray[np.float64], true: NDArray[np.intp], weight: NDArray[np.float64]) -> None:
        """p: (n, n_classes) probabilities. true: (n,) class ids. weight: (n,)."""
        told = np.ones(len(p), np.intp) if p.shape[1] == 2 else np.argmax(p, axis=1)
        probability = p[np.arange(len(p)), told]
        at = np.minimum((probability * BINS).astype(np.intp), BINS - 1)
        each = (None, weight, weight * probability, weight * (told == true))
        for row, values in zip(self._sums, each, strict=True):
            row += np.bincount(at, values, BINS)

    def answer(self) -> list[Bin]:
        """The bins that have rows."""
        return [
            {"below": (b + 1) / BINS, "rows": int(n), "probability": float(p / w), "share": float(came / w)}
            for b, (n, w, p, came) in enumerate(self._sums.T)
            if w > 0
        ]
