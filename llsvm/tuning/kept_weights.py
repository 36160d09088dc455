"""KeptWeights: the weights of all candidates, until one is chosen and its held-out rows are scored once more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from llsvm.stream.stream import Stream
from llsvm.tuning.board import Key


class KeptWeights:
    """In memory, or in a file beside the spill. keys: of all candidates, which have so many folds each; k: problems
    of a candidate."""

    def __init__(self, stream: Stream, keys: Sequence[Key], n_folds: int, k: int, width: int) -> None:
        """width: d + 1. Raises DiskError."""
        self._number = {key: number for number, key in enumerate(keys)}
        self._n_folds, self._k = n_folds, k
        n_rows = len(keys) * n_folds * k
        self._values = stream.reserved_state(n_rows, width, "weights of all candidates", "weights")

    def keep(self, key: Key, fold: int, coef: NDArray[np.float64]) -> None:
        """coef: (k, d + 1)."""
        self._values.set(self._rows(key, fold), coef)

    def of(self, key: Key, fold: int) -> NDArray[np.float64]:
        """(k, d + 1)"""
        return self._values.get(self._rows(key, fold)).reshape(self._k, -1)

    def close(self) -> None:
        """Let memory and disk go; again does nothing."""
        self._values.close()

    def _rows(self, key: Key, fold: int) -> NDArray[np.int64]:
        return np.arange(self._k) + self._k * (self._number[key] * self._n_folds + fold)
