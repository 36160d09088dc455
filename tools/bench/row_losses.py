"""What rows cost, from their scores: every loss as its paper has it, in float64, shared with no contestant.

An objective is P(w) = penalty(w) + C Σ cost, a row's cost being φ(y w·x) of labels, φ(t − w·x) of numbers, or a
joint loss of all classes' scores; summed over problems where there are several (one against the rest, pairs).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
ONE_CLASS = "one_class"


@dataclass(frozen=True)
class Objective:
    """C: of the loss. loss: a name of OF_MARGINS, OF_RESIDUALS or "one_class". multiclass: "ovr", "ovo" or a name
    of JOINT. penalty: "l2" ½‖w‖², "l1" ‖w‖₁, "elasticnet" with the share l1_ratio of the latter. epsilon: width of
    the insensitive zone. quantile: of the quantile loss, between 0 and 1. delta: where Huber's loss turns straight.
    nu: of the one-class machine."""

    C: float
    loss: str = "hinge"
    multiclass: str = "ovr"
    penalty: str = "l2"
    l1_ratio: float = 0.5
    epsilon: float = 0.1
    quantile: float = 0.5
    delta: float = 1.0
    nu: float = 0.5

    def penalty_of(self, weights: Vector) -> float:
        """Of all weights there are, a penalised intercept among them."""
        share = {"l2": 0.0, "l1": 1.0, "elasticnet": self.l1_ratio}[self.penalty]
        return float((1 - share) * 0.5 * (weights**2).sum() + share * np.abs(weights).sum())

    def constant_term(self, coef: Vector, intercept: Vector, n_rows: int) -> float:
        """What the weights cost beside the rows: the penalty; of the one-class machine C nu n b, too, for its rows'
        scores w·x + b, b = −ρ of Schölkopf et al. 2001, is not penalised."""
        if self.loss == ONE_CLASS:
            return self.penalty_of(coef) + self.C * self.nu * n_rows * float(intercept[0])
        return self.penalty_of(np.hstack([coef, intercept[:, None]]))

    def costs(self, scores: Vector, labels: Vector, classes: Vector) -> float:
        """Σ cost of some rows. scores: (n, problems). labels: (n,). classes: ascending; of labels."""
        if self.loss == ONE_CLASS:
            return float(np.maximum(0.0, -scores[:, 0]).sum())
        if self.loss in OF_RESIDUALS:
            return float(OF_RESIDUALS[self.loss](labels - scores[:, 0], self).sum())
        if self.multiclass in JOINT:
            return float(JOINT[self.multiclass](scores, np.searchsorted(classes, labels)).sum())
        phi = OF_MARGINS[self.loss]
        return sum(float(phi(margins).sum()) for margins in self._margins(scores, labels, classes))

    def _margins(self, scores: Vector, labels: Vector, classes: Vector) -> list[Vector]:
        """Of each binary problem's rows."""
        if scores.shape[1] == 1:  # positive: the larger label
            return [np.where(labels == classes[1], 1.0, -1.0) * scores[:, 0]]
        if self.multiclass == "ovo":  # positive: the smaller one of a pair
            pairs = enumerate(combinations(classes, 2))
            return [
                np.where(labels == a, 1.0, -1.0)[mine] * scores[mine, p]
                for p, (a, b) in pairs
                for mine in [(labels == a) | (labels == b)]
            ]
        return [np.where(labels == label, 1.0, -1.0) * scores[:, c] for c, label in enumerate(classes)]


OF_MARGINS: dict[str, Callable[[Vector], Vector]] = {
    "hinge": lambda m: np.maximum(0.0, 1.0 - m),
    "squared_hinge": lambda m: np.maximum(0.0, 1.0 - m) ** 2,
    "least-squares": lambda m: (1.0 - m) ** 2,
    "logistic": lambda m: np.logaddexp(0.0, -m),
}

OF_RESIDUALS: dict[str, Callable[[Vector, Objective], Vector]] = {
    "epsilon_insensitive": lambda r, o: np.maximum(0.0, np.abs(r) - o.epsilon),
    "squared_epsilon_insensitive": lambda r, o: np.maximum(0.0, np.abs(r) - o.epsilon) ** 2,
    "quantile": lambda r, o: np.maximum(o.quantile * r, (o.quantile - 1.0) * r),
    "huber": lambda r, o: np.where(np.abs(r) <= o.delta, 0.5 * r**2, o.delta * np.abs(r) - 0.5 * o.delta**2),
}


def _excess(scores: Vector, own: NDArray[np.int64]) -> Vector:
    """1 + s_c − s_y of every class c but the row's own, whose place holds 0."""
    at = np.arange(len(own))
    excess = 1.0 + scores - scores[at, own][:, None]
    excess[at, own] = 0.0
    return excess


JOINT: dict[str, Callable[[Vector, NDArray[np.int64]], Vector]] = {
    "crammer-singer": lambda s, own: np.maximum(0.0, _excess(s, own).max(axis=1)),
    "weston-watkins": lambda s, own: np.maximum(0.0, _excess(s, own)).sum(axis=1),
    "softmax": lambda s, own: np.logaddexp.reduce(s, axis=1) - s[np.arange(len(own)), own],
}

KNOWN = (*OF_MARGINS, *OF_RESIDUALS, ONE_CLASS)
"""All losses that the referee can tell the cost of."""
