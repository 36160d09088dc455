"""What a pass sums at a point, for one problem: losses, gradient, Hessian, certificate; and what rows come to
that are not looked at again before the next pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import Loss, PLQLoss
from llsvm.solvers.smsvm.kernels import (
    ALPHA,
    ALPHA_MINUS,
    ALPHA_PLUS,
    COST,
    LOSS,
    N_TOTALS,
    SMOOTHING_GAP,
    SQUARES,
    SQUARES_MINUS,
    SQUARES_PLUS,
)
from llsvm.solvers.smsvm.rows import Labels

Vector = NDArray[np.float64]

STEPS = np.array([0, 1 / 64, 1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1, 1.25, 1.5, 2])
"""(T,) the steps t at which losses are summed; 0 and 1 are among them. With more of them each pass takes longer;
with fewer, a step that led too far is cut to a length farther from the best, which takes more passes."""


@dataclass(slots=True)
class Point:
    """Point at which a problem is to be summed: at w + t change for the losses, at t = 1 for all else.

    target, change: (d + 1,) w + change, and change. a: smoothing parameter. previous: the one that the change was
    computed with, 0 where it is not one Newton step.
    positive: the class whose rows have sign +1; negative: the class whose rows have −1, None: all others.
    active: columns of the Hessian, ascending, see ``activate``;
    place: (d + 1,) each column's position in it, or −1. direction: (d + 1,) v, if the product of the Hessian
    with v is wanted and nothing else.
    straight: rows have a curvature where the loss goes on straight, see the kernel ``quadratic``.
    """

    target: Vector
    change: Vector
    a: float
    previous: float
    positive: int
    active: NDArray[np.int64] | None = None
    diagonal: bool = False
    direction: Vector | None = None
    straight: bool = False
    negative: int | None = None
    place: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))

    def has(self, class_id: int) -> bool:
        """Return whether rows of the class take part."""
        return self.negative is None or class_id in (self.positive, self.negative)

    def activate(self, active: NDArray[np.int64]) -> None:
        """Ask for the Hessian over these columns."""
        self.active, self.place = active, place_of(active, len(self.target))


def place_of(active: NDArray[np.int64], n: int) -> NDArray[np.int32]:
    """Return the position of each of n columns among the active ones, or −1, (n,)."""
    place = np.full(n, -1, np.int32)
    place[active] = np.arange(len(active), dtype=np.int32)
    return place


class Sums(NamedTuple):
    """A pass and ``RowsLeftOut`` add to these arrays in place.

    losses (T,): Σ c_i φ_a at each of STEPS. The rest at t = 1: totals (N_TOTALS,), whose positions kernels.py
    names; sides (S, d + 1) Σ α_i y_i x_i, where an intercept is not penalised of the rows with α_i y_i > 0 and of
    those with α_i y_i < 0, else of all; hessian (A, A) over the active columns, its lower triangle only; diagonal
    (d + 1,) of the whole Hessian; product (d + 1,) of the whole Hessian with the direction."""

    losses: Vector
    totals: Vector
    sides: Vector
    hessian: Vector
    diagonal: Vector
    product: Vector

    @classmethod
    def empty(cls, point: Point, by_sides: bool) -> Sums:
        """Zeros for what the point asks for. by_sides: the sides are wanted, each for itself."""
        n_columns = len(point.target)
        n_active = 0 if point.active is None else len(point.active)
        whole = point.direction is None
        return cls(
            np.zeros(len(STEPS)),
            np.zeros(N_TOTALS),
            np.zeros((1 + by_sides, n_columns if whole else 0)),
            np.zeros((n_active, n_active)),
            np.zeros(n_columns if point.diagonal else 0),
            np.zeros(0 if whole else n_columns),
        )

    def add(self, other: Sums) -> None:
        for mine, more in zip(self, other, strict=True):
            mine += more

    @property
    def v(self) -> Vector:
        """Σ α_i y_i x_i, (d + 1,)."""
        return np.asarray(self.sides.sum(axis=0))

    @property
    def loss(self) -> float:
        """Σ c_i φ(m_i), not smoothed."""
        return float(self.totals[LOSS])

    @property
    def alpha(self) -> float:
        """Σ c_i b(α_i/c_i) without the squares; of the hinge, Σ α_i."""
        return float(self.totals[ALPHA])

    @property
    def squares(self) -> float:
        """½ ridge Σ α_i²/c_i, which the dual loses (losses.py)."""
        return float(self.totals[SQUARES])

    @property
    def dual_point(self) -> tuple[float, Vector, float]:
        """alpha, v and squares, as ``Penalty.dual`` takes them."""
        return self.alpha, self.v, self.squares

    def balanced(self) -> tuple[float, Vector, float]:
        """The same of a point with Σ α_i y_i = 0, which the dual of a free intercept asks for, and which holds at
        the optimum: of the rows with α_i y_i > 0 and those below 0, those whose sum is larger are scaled down to
        the others. That is within the bounds, as 0 is. (Of the logistic loss, b(s a) ≥ s b(a) is made use of.)"""
        plus, minus = self.sides
        above, below = float(plus[-1]), -float(minus[-1])
        smaller = min(above, below)
        up, down = (smaller / side if side > 0 else 0.0 for side in (above, below))
        totals = self.totals
        v = up * plus + down * minus
        v[-1] = 0.0
        alpha = up * totals[ALPHA_PLUS] + down * totals[ALPHA_MINUS]
        squares = up * up * totals[SQUARES_PLUS] + down * down * totals[SQUARES_MINUS]
        return float(alpha), v, float(squares)

    @property
    def smoothing_gap(self) -> float:
        """Σ c_i φ(m_i) + α_i m_i − c_i b(α_i/c_i): what of the duality gap is due to the smoothing."""
        return float(self.totals[SMOOTHING_GAP])

    @property
    def cost(self) -> float:
        """Σ c_i; of smooth losses only."""
        return float(self.totals[COST])


@dataclass(slots=True)
class RowsLeftOut:
    """The rows that are not at hand, after a pass over all: they stay on their side of the margin, so their losses
    go on linearly from the point (n,) of that pass. sums: theirs, there. a: the smoothing parameter there. What the
    smoothing costs of them goes with its square: next to nothing of a row, but they are many. one_sided: all are
    beyond the margin, where the smoothing is all that they have of loss and slope."""

    at: Vector
    sums: Sums
    a: float
    one_sided: bool

    @classmethod
    def between(cls, all_rows: Sums, near_rows: Sums, point: Point, one_sided: bool = False) -> RowsLeftOut:
        """all_rows, near_rows: what each sums to at the point."""
        none = np.zeros(0)
        losses, totals, sides = (a - b for a, b in zip(all_rows[:3], near_rows[:3], strict=True))
        sums = Sums(losses, totals, sides, none, none, none)
        totals[ALPHA] = totals[LOSS] + float(sums.v @ point.target)  # Σ α_i of the straight lines
        totals[ALPHA_PLUS] = totals[ALPHA] - totals[ALPHA_MINUS]
        return cls(point.target, sums, point.a, one_sided)

    def add_to(self, sums: Sums, point: Point) -> None:
        """Add what they come to at the point, but for their curvature: it is next to nothing."""
        mine, moved = self.sums, point.target - self.at
        less = (point.a / self.a) ** 2
        gap, share = mine.smoothing_gap * less, less if self.one_sided else 1.0
        fell, step = share * float(mine.v @ moved), share * float(mine.v @ point.change)
        sums.losses[:] += share * mine.losses[STEPS == 1] - fell - (STEPS - 1.0) * step
        sums.totals[LOSS] += mine.loss - fell
        sums.totals[ALPHA] += share * mine.alpha - gap
        sums.totals[SMOOTHING_GAP] += gap
        sums.totals[ALPHA_PLUS] += share * mine.totals[ALPHA_PLUS] - gap
        sums.totals[ALPHA_MINUS] += share * mine.totals[ALPHA_MINUS]
        sums.sides[:] += share * mine.sides


def dual_value(loss: Loss, alpha: Vector, labels: Labels) -> tuple[float, float]:
    """Σ c_i b(α_i/c_i) of rows but for its squares, and these: they may be so much larger that nothing is left of
    the rest."""
    target, cost = labels.target, labels.cost
    if not isinstance(loss, PLQLoss):
        return float(cost @ loss.dual_value(alpha / cost, target)), 0.0
    squares = 0.5 * loss.ridge * float(np.sum(alpha * alpha / cost)) if loss.ridge else 0.0
    return float(alpha @ target - loss.epsilon * np.abs(alpha).sum()), squares
