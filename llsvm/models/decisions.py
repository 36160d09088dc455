"""Decisions from scores: votes of pairs, classes, probabilities, and how these are calibrated.

Calibration maps scores to probabilities as was learned on held-out rows, and a threshold of scores was chosen on
them; both are fields of a model's ``extra``. Two classes: the map gives the probability of the second. Several, one
against the rest: a map for each class, whose values are divided by their sum (Zadrozny & Elkan 2002); pairs: a map
for each, coupled as those of logistic regression are; temperature: one number for all, see ``Calibration``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import ModelError
from llsvm.files.json_checks import Test, check, is_number, is_text, is_whole, list_of, one_of

Scores = NDArray[np.float64]
_COUPLED_BYTES = 1 << 20  # of the equations of rows that are solved together


def class_scores(scores: Scores, k: int, pairs: bool) -> Scores:
    """Return the scores of k classes, (n, 1) of two, for those of problems. pairs: of pairs of classes."""
    return votes(scores, k) if pairs else scores


def class_ids(scores: Scores, k: int, pairs: bool, threshold: float = 0.0) -> NDArray[np.intp]:
    """Return ids of classes, (n,), that scores of problems stand for; a tie goes to the first class. threshold: the
    score above which a row is of the second of two classes."""
    if scores.shape[1] == 1:
        return (scores[:, 0] > threshold).astype(np.intp)
    return np.argmax(class_scores(scores, k, pairs), axis=1)


def probabilities(scores: Scores, k: int, pairs: bool, joint: bool = False) -> Scores:
    """Return the probabilities (n, k) of classes for scores of problems. joint: they are of one joint problem."""
    if scores.shape[1] == 1:
        return of_two(scores)
    if pairs:
        return coupled(sigmoid(scores), sigmoid(-scores), k)
    if joint:
        return of_joint(scores)
    # one against the rest: sigmoids, divided by their sum, as LIBLINEAR's ``-b 1`` has them; by the logarithms of
    # sigmoids, for a sum of these may be 0 in floats
    return of_joint(-np.logaddexp(0.0, -scores))


def votes(scores: Scores, k: int) -> Scores:
    """Return (n, k) votes of the pairs, scores (n, k(k − 1)/2), and less than ½ for the sum of the scores for a
    class."""
    count, sums = np.zeros((len(scores), k)), np.zeros((len(scores), k))
    for (i, j), column in zip(_pairs(k), scores.T, strict=True):
        count[:, i] += column > 0
        count[:, j] += column <= 0
        sums[:, i] += column
        sums[:, j] -= column
    return count + sums / (2.0 * np.abs(sums) + 3.0)


def of_two(scores: Scores) -> Scores:
    """Return (n, 2) probabilities of the two classes; scores: (n, 1), for the second."""
    return np.column_stack([sigmoid(-scores[:, 0]), sigmoid(scores[:, 0])])


def of_joint(scores: Scores) -> Scores:
    """Return (n, k) probabilities for scores (n, k) of one joint problem: e^score, divided by their sum
    (softmax)."""
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def coupled(wins: Scores, losses: Scores, k: int) -> Scores:
    """Return (n, k) probabilities p where of pairs i < j, (n, k(k − 1)/2), ``wins`` are r_ij, taken for p_i /
    (p_i + p_j), and ``losses`` r_ji: those that minimise Σ_ij (r_ji p_i − r_ij p_j)² (Wu, Lin & Weng 2004, eq.
    21), by its linear equations."""
    step = max(1, _COUPLED_BYTES // (8 * (k + 1) ** 2))
    starts = range(0, len(wins), step)
    parts = [_coupled(wins[start : start + step], losses[start : start + step], k) for start in starts]
    return np.concatenate(parts) if parts else np.empty((0, k))


def _coupled(wins: Scores, losses: Scores, k: int) -> Scores:
    n = len(wins)
    r = np.zeros((n, k, k))
    for (i, j), won, lost in zip(_pairs(k), wins.T, losses.T, strict=True):
        r[:, i, j], r[:, j, i] = won, lost
    equations = np.ones((n, k + 1, k + 1))  # Q p + b = 0, Σ p = 1; eq. 16 and 22
    equations[:, :k, :k] = -r * r.transpose(0, 2, 1)
    equations[:, range(k), range(k)] = (r * r).sum(axis=1)
    equations[:, k, k] = 0.0
    right = np.zeros((n, k + 1, 1))
    right[:, k] = 1.0
    p = np.maximum(np.linalg.solve(equations, right)[:, :k, 0], 0.0)  # they are not negative but for rounding
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def sigmoid(scores: Scores) -> Scores:
    """Return 1 / (1 + e^−score) of each score."""
    small = np.exp(-np.abs(scores))
    return np.asarray(np.where(scores >= 0, 1.0, small) / (1.0 + small))


def _pairs(k: int) -> list[tuple[int, int]]:
    """Return the pairs i < j, in the order of their problems."""
    return [(i, j) for i in range(k) for j in range(i + 1, k)]


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
    knots: Scores | None = None
    ends: tuple[int, ...] = ()

    def probabilities(self, scores: Scores, n_classes: int, pairs: bool) -> Scores:
        """Return (n, n_classes) probabilities for scores (n, k) of problems. pairs: they are those of pairs of
        classes."""
        if self.method == "temperature":
            scores = scores * self.slopes[0]
            return of_two(scores) if scores.shape[1] == 1 else of_joint(scores)
        wins, losses = self._each(scores)
        if scores.shape[1] == 1:
            return np.column_stack([losses[:, 0], wins[:, 0]])
        if pairs:
            return coupled(wins, losses, n_classes)
        sums = wins.sum(axis=1, keepdims=True)
        return np.divide(wins, sums, out=np.full_like(wins, 1 / n_classes), where=sums > 0)

    def _each(self, scores: Scores) -> tuple[Scores, Scores]:
        """Return the probabilities (n, k) that each problem's positive class is the one, and that it is not."""
        if self.method == "platt":
            z = scores * np.array(self.slopes) + np.array(self.offsets)
            return sigmoid(z), sigmoid(-z)
        assert self.knots is not None
        wins = np.empty_like(scores)
        for c, (first, end) in enumerate(zip((0, *self.ends), self.ends, strict=False)):
            wins[:, c] = np.interp(scores[:, c], *self.knots[first:end].T)
        return wins, 1.0 - wins

    def as_extra(self) -> dict[str, Any]:
        """Return the fields of a model's ``extra``."""
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
