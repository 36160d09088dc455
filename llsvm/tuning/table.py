"""The table of a search: scores of candidates so far, the rows in the end, and which is chosen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from llsvm.errors import DataError
from llsvm.tuning.scores import Score, worse

RULES = ("best", "1se")
Key = tuple[int, float]  # a candidate but for its fold: the number of its objective, and C
_ROUNDING = 1e-12  # of a mean


@dataclass(frozen=True, slots=True)
class Row:
    """The row of one C with one objective, given by its number. scores, primals, gaps: of each fold, the score of
    its rows, and objective and relative gap of the weights that were trained without them. converged: are all gaps
    as small as was asked for? dropped: it could not be the best any more, and has not been trained for all
    folds."""

    C: float
    scores: tuple[float, ...]
    primals: tuple[float, ...]
    gaps: tuple[float, ...]
    converged: bool
    objective: int = 0
    dropped: bool = False

    @property
    def key(self) -> Key:
        return self.objective, self.C

    @property
    def mean(self) -> float:
        return sum(self.scores) / len(self.scores)

    @property
    def spread(self) -> float | None:
        """Return the standard deviation of the folds' scores (over n − 1); None where there is one."""
        n = len(self.scores)
        if n < 2:
            return None
        return math.sqrt(sum((score - self.mean) ** 2 for score in self.scores) / (n - 1))

    def as_dict(self) -> dict[str, Any]:
        return {
            "C": self.C,
            "mean": self.mean,
            "spread": self.spread,
            "relative_gap": max(self.gaps),
            "converged": self.converged,
            "dropped": self.dropped,
            "scores": list(self.scores),
            "primals": list(self.primals),
            "gaps": list(self.gaps),
        }


class Board:
    """Scores, objectives and gaps so far by candidate and fold, and which candidates can no longer be the best."""

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
        """Return a number that is larger, the worse the mean of the folds scored so far is; infinite where none
        is."""
        scores = self._scores.get(key, {})
        return worse(self._score, sum(scores.values()) / len(scores)) if scores else math.inf

    def lost(self, key: Key) -> bool:
        """Return whether it would have a worse mean than the best that is finished, even if the folds to come were
        predicted without an error."""
        scores = self._scores.get(key, {})
        to_come = (self._n_folds - len(scores)) * self._score.perfect
        return worse(self._score, (sum(scores.values()) + to_come) / self._n_folds) > self._best + _ROUNDING

    def row(self, key: Key, tol: float) -> Row:
        """Return its row of the table, of the folds that it has been scored on."""
        folds = sorted(self._scores[key])
        scores = tuple(self._scores[key][f] for f in folds)
        primals, gaps = zip(*(self._proofs[key][f] for f in folds), strict=True)
        return Row(key[1], scores, primals, gaps, max(gaps) <= tol, key[0], dropped=not self.finished(key))

    def leader(self, keys: Iterable[Key]) -> Key:
        return min(keys, key=self.worth)


def chosen(rows: Sequence[Row], score: Score, rule: str) -> Row:
    """Return the row to take; rows: by objective, within each by C, ascending. rule: "best": the best mean, of
    equals the first; "1se": of the same objective, the smallest C whose mean is at most a standard error of the
    best one's worse than that (Breiman et al. 1984, section 3.4.3). Raises DataError where there is no score."""
    rows = [row for row in rows if not row.dropped]
    best = min(rows, key=lambda row: worse(score, row.mean))
    if math.isnan(best.mean):
        raise DataError(
            f"no C has a score: --score {score.name} is not defined for these held-out rows, maybe of one class"
        )
    if rule == "best":
        return best
    allowed = worse(score, best.mean) + (best.spread or 0.0) / math.sqrt(len(best.scores))
    near = (row for row in rows if row.objective == best.objective and worse(score, row.mean) <= allowed)
    return next(near)
