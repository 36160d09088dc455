"""The table of a search: what each candidate came to, and which is chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llsvm.errors import DataError
from llsvm.tuning.scores import Score, worse

RULES = ("best", "1se")


@dataclass(frozen=True, slots=True)
class Row:
    """Of one C with one objective, given by its number. scores, primals, gaps: of each fold, the score of its rows,
    and objective and relative gap of the weights that were trained without them. converged: are all gaps as small
    as was asked for? dropped: it could not be the best any more, and has not been trained for all folds."""

    C: float
    scores: tuple[float, ...]
    primals: tuple[float, ...]
    gaps: tuple[float, ...]
    converged: bool
    objective: int = 0
    dropped: bool = False

    @property
    def key(self) -> tuple[int, float]:
        """See ``llsvm.tuning.board.Key``."""
        return self.objective, self.C

    @property
    def mean(self) -> float:
        return sum(self.scores) / len(self.scores)

    @property
    def spread(self) -> float | None:
        """The standard deviation of the folds' scores (over n − 1); None where there is one."""
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


def chosen(rows: Sequence[Row], score: Score, rule: str) -> Row:
    """The row to take; rows: by objective, within each by C, ascending. rule: "best": the best mean, of equals the
    first; "1se": of the same objective, the smallest C whose mean is at most a standard error of the best one's
    worse than that (Breiman et al. 1984, section 3.4.3). Raises DataError where there is no score."""
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
