"""Calibration: probabilities of classes by a map of scores that was learned on held-out rows, and a threshold of
scores that was chosen on them; both are fields of a model's ``extra``.

Two classes: the map gives the probability of the second. Several, one against the rest: a map for each class, whose
values are divided by their sum (Zadrozny & Elkan 2002); pairs: a map for each, coupled as those of logistic
regression are; temperature: one number for all, see ``Calibration``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import ModelError
from llsvm.files.json_checks import Test, check, is_number, is_text, is_whole, list_of, one_of
from llsvm.models import decisions

Method = Literal["platt", "isotonic", "temperature"]
METHODS = get_args(Method)
CALIBRATION, KNOTS, THRESHOLD = "calibration", "calibration_knots", "threshold"  # of ``extra``

_PARTS: dict[str, Test] = {
    "method": one_of(*METHODS),
    "n_rows": is_whole(0),
    "slopes": list_of(is_number),
    "offsets": list_of(is_number),
    "ends": list_of(is_whole(1)),
}
_OF_THRESHOLD: dict[str, Test] = {
    "value": is_number,
    "rule": is_text,
    "n_rows": is_whole(0),
    "precision": is_number,
    "recall": is_number,
    "f1": is_number,
}

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Calibration:
    """Maps of the scores of k problems.

    n_rows: held-out rows that they were learned on. slopes, offsets: (k,) of Platt's, p = 1 / (1 + exp(−(slope ·
    score + offset))); of temperature one slope, 1 / temperature, and no offset: p is the softmax of slope · score.
    knots: (m, 2) of isotonic ones, scores and probabilities, ascending, straight lines between them, those of all
    problems one after the other; ends: (k,) where each problem's end.
    """

    method: Method
    n_rows: int
    slopes: tuple[float, ...] = ()
    offsets: tuple[float, ...] = ()
    knots: Numbers | None = None
    ends: tuple[int, ...] = ()

    def probabilities(self, scores: Numbers, n_classes: int, pairs: bool) -> Numbers:
        """Return (n, n_classes) probabilities for scores (n, k) of problems. pairs: they are those of pairs of
        classes."""
        if self.method == "temperature":
            scores = scores * self.slopes[0]
            return decisions.of_two(scores) if scores.shape[1] == 1 else decisions.of_joint(scores)
        wins, losses = self._each(scores)
        if scores.shape[1] == 1:
            return np.column_stack([losses[:, 0], wins[:, 0]])
        if pairs:
            return decisions.coupled(wins, losses, n_classes)
        sums = wins.sum(axis=1, keepdims=True)
        return np.divide(wins, sums, out=np.full_like(wins, 1 / n_classes), where=sums > 0)

    def _each(self, scores: Numbers) -> tuple[Numbers, Numbers]:
        """Probabilities (n, k) that each problem's positive class is the one, and that it is not."""
        if self.method == "platt":
            z = scores * np.array(self.slopes) + np.array(self.offsets)
            return decisions.sigmoid(z), decisions.sigmoid(-z)
        assert self.knots is not None
        wins = np.empty_like(scores)
        for c, (first, end) in enumerate(zip((0, *self.ends), self.ends, strict=False)):
            wins[:, c] = np.interp(scores[:, c], *self.knots[first:end].T)
        return wins, 1.0 - wins

    def as_extra(self) -> dict[str, Any]:
        """Fields of a model's ``extra``."""
        head = {name: getattr(self, name) for name in _PARTS}
        head |= {name: list(head[name]) for name in ("slopes", "offsets", "ends")}
        return {CALIBRATION: head} | ({} if self.knots is None else {KNOTS: self.knots})

    @classmethod
    def from_extra(cls, extra: dict[str, Any], n_problems: int) -> Calibration | None:
        """Return what ``extra`` holds, or None. Raises ModelError where it is damaged, or of other problems."""
        if CALIBRATION not in extra:
            return None
        head = extra[CALIBRATION]
        try:
            check(head, _PARTS, "calibration")
            lists = {name: tuple(head[name]) for name in ("slopes", "offsets", "ends")}
            made = cls(head["method"], head["n_rows"], **lists, knots=extra.get(KNOTS))
            made._check(n_problems)
        except ValueError as error:
            raise ModelError(f"its calibration is damaged: {error}") from error
        return made

    def _check(self, k: int) -> None:
        numbers = {"platt": (k, k, 0), "isotonic": (0, 0, k), "temperature": (1, 0, 0)}[self.method]
        if (len(self.slopes), len(self.offsets), len(self.ends)) != numbers:
            raise ValueError(f"it is not of {k} problems")
        if self.method != "isotonic":
            return
        knots = self.knots
        if knots is None or knots.ndim != 2 or knots.shape[1] != 2 or knots.dtype.kind != "f":
            raise ValueError("it has no knots")
        bounds = np.array([0, *self.ends])
        if (np.diff(bounds) < 1).any() or bounds[-1] != len(knots) or not np.isfinite(knots).all():
            raise ValueError(f"its {len(knots)} knots are not those of {k} problems")


def threshold_of(extra: dict[str, Any]) -> float:
    """Return the score above which a row is of the second class: that which was chosen, else 0. Raises
    ModelError."""
    if THRESHOLD not in extra:
        return 0.0
    try:
        check(extra[THRESHOLD], _OF_THRESHOLD, "threshold")
    except ValueError as error:
        raise ModelError(str(error)) from error
    return float(extra[THRESHOLD]["value"])
