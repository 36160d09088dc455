"""Board: what candidates have scored so far, and which of them can no longer be the best."""

from __future__ import annotations

import math
from collections.abc import Iterable

from llsvm.tuning.scores import Score, worse
from llsvm.tuning.table import Row

Key = tuple[int, float]  # a candidate but for its fold: the number of its objective, and C
_ROUNDING = 1e-12  # of a mean


class Board:
    """By candidate and fold: scores, objectives and gaps."""

    def __init__(self, score: Score, n_folds: int) -> None:
        self._score, self._n_folds = score, n_folds
        self._scores: dict[Key, dict[int, float]] = {}
        self._proofs: dict[Key, dict[int, tuple[float, float]]] = {}
        self._best = math.inf  # what the best mean of all folds is worth

    def add(self, key: Key, fold: int, score: float, primal: float, gap: float) -> None:
        self._scores.setdefault(key, {})[fold] = score
        self._proofs.setdefault(key, {})[fold] = primal, gap
        if self.finished(key):
            self._best = min(self._best, self.worth(key))

    def has(self, key: Key, fold: int) -> bool:
        return fold in self._scores.get(key, {})

    def finished(self, key: Key) -> bool:
        return len(self._scores.get(key, {})) == self._n_folds

    def worth(self, key: Key) -> float:
        """A number that is larger, the worse the mean of the folds scored so far is; infinite where none is."""
        scores = self._scores.get(key, {})
        return worse(self._score, sum(scores.values()) / len(scores)) if scores else math.inf

    def lost(self, key: Key) -> bool:
        """Would it have a worse mean than the best that is finished, even if the folds to come were predicted
        without an error?"""
        scores = self._scores.get(key, {})
        to_come = (self._n_folds - len(scores)) * self._score.perfect
        return worse(self._score, (sum(scores.values()) + to_come) / self._n_folds) > self._best + _ROUNDING

    def row(self, key: Key, tol: float) -> Row:
        """Its row of the table, of the folds that it has been scored on."""
        folds = sorted(self._scores[key])
        scores = tuple(self._scores[key][f] for f in folds)
        primals, gaps = zip(*(self._proofs[key][f] for f in folds), strict=True)
        return Row(key[1], scores, primals, gaps, max(gaps) <= tol, key[0], dropped=not self.finished(key))

    def leader(self, keys: Iterable[Key]) -> Key:
        return min(keys, key=self.worth)
