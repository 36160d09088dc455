"""KeptWeights: the weights of all candidates, until one C is chosen and its held-out rows are scored once more."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.stream.signed_state import SignedState
from llsvm.stream.stream import Stream


class KeptWeights:
    """In memory, or in a file beside the spill. folds: so many of each C; k: problems of a candidate."""

    def __init__(self, stream: Stream, costs: tuple[float, ...], n_folds: int, k: int, width: int) -> None:
        """width: d + 1. Raises DiskError."""
        self._costs, self._n_folds, self._k = costs, n_folds, k
        n_rows = len(costs) * n_folds * k
        self._values = SignedState(stream, n_rows, width, "weights of all candidates", "weights")

    def keep(self, C: float, fold: int, coef: NDArray[np.float64]) -> None:
        """coef: (k, d + 1)."""
        self._values.set(self._rows(C, fold), coef)

    def of(self, C: float, fold: int) -> NDArray[np.float64]:
        """(k, d + 1)"""
        return self._values.get(self._rows(C, fold)).reshape(self._k, -1)

    def close(self) -> None:
        """Let memory and disk go; again does nothing."""
        self._values.close()

    def _rows(self, C: float, fold: int) -> NDArray[np.int64]:
        return np.arange(self._k) + self._k * (self._costs.index(C) * self._n_folds + fold)
