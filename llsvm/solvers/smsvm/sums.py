"""What a pass sums at a point, for each problem: losses smoothed by SmSVM eq. 1.5, gradient, Hessian, certificate.

``Summing`` is one pass over rows for several problems, each at a point of its own. Rows are worked on in small
pieces, so nothing here grows with a block. ``RowsLeftOut`` is what rows come to that are not looked at again before
the next pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, FLOAT64_BYTES, Block
from llsvm.objective.losses import LogisticLoss, Loss, PLQLoss
from llsvm.objective.problems import RowCosts
from llsvm.process.threads import Threads
from llsvm.settings.objective import CLASSIFICATION
from llsvm.solvers.optim.row_operator import RowOperator
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
    logistic,
    quadratic,
    smooth,
)
from llsvm.solvers.smsvm.tuning import DEFAULT, SmSVMTuning
from llsvm.stream.progress import OutOfTime, Progress

Vector = NDArray[np.float64]
Slack = NDArray[np.float32]

_NUMBERS_PER_ROW = 10
"""The 64-bit numbers that sums take for each row of a piece. With fewer here, a run takes more memory than it was
given; with more, pieces are smaller than they need to be."""
STEPS = np.array([0, 1 / 64, 1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1, 1.25, 1.5, 2])
"""(T,) the steps t at which losses are summed; 0 and 1 are among them. With more of them each pass takes longer;
with fewer, a step that led too far is cut to a length farther from the best, which takes more passes."""


class Labels(NamedTuple):
    """Signs y_i, targets t_i and factors C_i of rows in one binary problem, (n,) float64 each."""

    sign: Vector
    target: Vector
    cost: Vector

    @classmethod
    def of(cls, y: NDArray[Any], loss: Loss, costs: RowCosts, cost: Vector, positive: int) -> Labels:
        """Return those of rows with labels y, (n,). cost: of the rows, see ``RowCosts.of``. positive: the class
        whose rows have y_i = 1, where labels are classes."""
        n = len(y)
        if loss.kind != CLASSIFICATION:
            return cls(np.ones(n), np.asarray(y, np.float64), cost)
        is_plus = y == positive
        return cls(np.where(is_plus, 1.0, -1.0), np.ones(n), costs.in_problem(cost, positive, is_plus))

    def take(self, rows: NDArray[np.bool_]) -> Labels:
        """Return those of some rows, which a mask of all says."""
        return Labels(self.sign[rows], self.target[rows], self.cost[rows])


def pieces(block: Block, piece_bytes: int) -> Iterator[Block]:
    """Yield the block in pieces, so that what is worked with does not grow with it."""
    rows = piece_rows(block, piece_bytes)
    for start in range(0, block.n_rows, rows):
        yield block.slice(start, min(start + rows, block.n_rows))


def piece_rows(block: Block, piece_bytes: int) -> int:
    """Return how many rows of the block make a piece of so many bytes."""
    return max(1, piece_bytes // row_bytes(0 if isinstance(block.X, CSR) else block.X.shape[1]))


def row_bytes(dense_columns: int) -> int:
    """Return the bytes of a row of a piece: of a dense one as float64 with the constant feature, else of its
    numbers. dense_columns: of dense rows, 0 of sparse ones."""
    return FLOAT64_BYTES * (dense_columns + 1 if dense_columns else _NUMBERS_PER_ROW)


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


@dataclass(slots=True)
class Summing:
    """One pass for several points: give it every block, then ``finish``. Results repeat for the same number
    of threads.

    loss: of the rows, and costs: its factors. bias: value of the constant feature. progress: of the run; Hessians
    are given up where time is over. one_sided: rows with a loss have no slack, however large it is. by_sides: what
    rows with α_i y_i > 0, and those with α_i y_i < 0, come to is wanted. pairs: points are of problems of two
    classes each, and few of them are those of a row.
    """

    points: list[Point]
    loss: Loss
    costs: RowCosts
    bias: float
    threads: Threads
    progress: Progress
    one_sided: bool = False
    by_sides: bool = False
    pairs: bool = False
    tuning: SmSVMTuning = DEFAULT
    parts: list[list[Sums]] = field(init=False)
    slack: Slack = field(init=False)
    """Of the rows of the last block, (n,): how far from where the loss bends, at the nearest of the points."""

    def __post_init__(self) -> None:
        self.parts = [
            [Sums.empty(point, self.by_sides) for point in self.points] for _ in range(self.threads.number)
        ]

    def add(self, block: Block) -> None:
        self.slack = np.full(block.n_rows, np.inf, np.float32)
        self.threads.over_rows(block.n_rows, lambda t, start, stop: self._add_range(t, block, start, stop))

    def finish(self) -> list[Sums]:
        """The sums at each point; threads' parts are added in a fixed order."""
        first, *others = self.parts
        for part in others:
            for mine, more in zip(first, part, strict=True):
                mine.add(more)
        self.parts = []
        return first

    def _add_range(self, thread: int, block: Block, start: int, stop: int) -> None:
        points = list(zip(self.points, self.parts[thread], strict=True))
        if self.pairs:
            self._add_by_class(points, block, start, stop)
            return
        for piece in pieces(block.slice(start, stop), self.tuning.piece_bytes):
            self._add_rows(piece, points, self.slack[start : start + piece.n_rows])
            start += piece.n_rows

    def _add_by_class(self, points: list[tuple[Point, Sums]], block: Block, start: int, stop: int) -> None:
        class_ids, max_rows = block.class_ids[start:stop], piece_rows(block, self.tuning.piece_bytes)
        for class_id in np.unique(class_ids).tolist():
            mine = [(point, into) for point, into in points if point.has(class_id)]
            rows = start + np.flatnonzero(class_ids == class_id)
            for numbers in np.array_split(rows, -(-len(rows) // max_rows)) if mine else ():
                slack = self.slack[numbers]
                self._add_rows(block.take(numbers), mine, slack)
                self.slack[numbers] = slack

    def _add_rows(self, piece: Block, points: list[tuple[Point, Sums]], slack: Slack) -> None:
        cost, n_columns = self.costs.of(piece), len(self.points[0].target) - 1
        rows = RowOperator(piece.X, n_columns, self.bias, self.tuning.piece_bytes, self.progress)
        for point, into in points:
            self._add_point(rows, piece.y, cost, point, into, slack)

    def _add_point(
        self, rows: RowOperator, y: NDArray[Any], cost: Vector, point: Point, into: Sums, slack: Slack
    ) -> None:
        """Add to ``into`` what the rows come to at the point, and lower ``slack`` to what it is there.

        y, cost, slack: (n,) labels, factors C_i and slacks of the rows."""
        vectors = [point.target, point.change] + ([] if point.direction is None else [point.direction])
        margins = np.stack([rows.dots(rows.all, vector) for vector in vectors])
        labels = Labels.of(y, self.loss, self.costs, cost, point.positive)
        slope, curvature = self._losses(margins, labels, point, into)
        if point.direction is not None:
            rows.add(rows.all, curvature * margins[2], into.product)
            return
        z = self._slack(labels.target - labels.sign * margins[0])
        with np.errstate(over="ignore"):  # so far off is as good as infinitely far
            np.minimum(slack, z, out=slack, casting="same_kind")
        if self.by_sides:
            self._add_sides(rows, slope, labels, into)
        else:
            rows.add(rows.all, slope * labels.sign, into.sides[0])
        if point.active is not None:
            bent = np.flatnonzero(curvature)
            with suppress(OutOfTime):
                rows.outer(bent, curvature[bent], into.hessian, point.place)
        if point.diagonal:
            rows.add_squares(rows.all, curvature, into.diagonal)

    def _add_sides(self, rows: RowOperator, alpha: Vector, labels: Labels, into: Sums) -> None:
        """Add what rows with α_i y_i > 0 come to, and those below: one side may be so much larger that nothing is
        left of the other where it is the difference to the sum of both."""
        signed = alpha * labels.sign
        linear, squared = (ALPHA_PLUS, ALPHA_MINUS), (SQUARES_PLUS, SQUARES_MINUS)
        for side, is_of_side in enumerate((signed > 0, signed < 0)):
            rows.add(np.flatnonzero(is_of_side), signed[is_of_side], into.sides[side])
            total, squares = dual_value(self.loss, alpha[is_of_side], labels.take(is_of_side))
            into.totals[linear[side]] += total
            into.totals[squared[side]] += squares

    def _slack(self, z: Vector) -> Vector:
        """How far residuals z = t − m are from where the loss bends; one_sided: in the direction of no loss."""
        if not isinstance(self.loss, PLQLoss):
            return np.zeros(len(z))
        if self.one_sided and self.loss.lower == 0:
            return np.maximum(0.0, -z)
        np.abs(z, out=z)
        if self.loss.epsilon:
            z -= self.loss.epsilon
            return np.maximum(0.0, -z) if self.one_sided else np.abs(z, out=z)
        return np.zeros(len(z)) if self.one_sided else z

    def _losses(self, margins: Vector, labels: Labels, point: Point, into: Sums) -> tuple[Vector, Vector]:
        """Add the rows' losses; returns their α_i and curvatures, (n,) each."""
        loss, (sign, target, cost) = self.loss, labels
        slope, curvature = np.empty(len(sign)), np.empty(len(sign))
        steps = STEPS if point.direction is None else STEPS[:0]
        out = (steps, slope, curvature, into.losses, into.totals)
        if isinstance(loss, LogisticLoss):
            logistic(margins[0], margins[1], sign, cost, *out)
            return slope, curvature
        assert isinstance(loss, PLQLoss)
        if loss.ridge > 0:
            numbers = (float(loss.lower), float(loss.upper), loss.ridge, float(loss.epsilon))
            quadratic(margins[0], margins[1], sign, target, cost, numbers, point.straight, *out)
        elif loss.kind == CLASSIFICATION:
            smooth(margins[0], margins[1], sign, target, cost, point.a, point.previous, *out)
        else:
            return self._two_hinges(loss, margins, labels, steps, point, into)
        return slope, curvature

    def _two_hinges(
        self, loss: PLQLoss, m: Vector, labels: Labels, steps: Vector, point: Point, into: Sums
    ) -> tuple[Vector, Vector]:
        """A loss that is straight on both sides is upper times the hinge of t − ε − w·x, and −lower times that of
        w·x − t − ε; each of them is smoothed."""
        n, totals = len(labels.target), np.zeros(N_TOTALS)
        slope, curvature, alpha, bent = np.empty(n), np.empty(n), np.zeros(n), np.zeros(n)
        out = steps, slope, curvature, into.losses, totals
        for side, bound in ((1.0, loss.upper), (-1.0, -loss.lower)):
            sign, target, cost = np.full(n, side), side * labels.target - loss.epsilon, bound * labels.cost
            smooth(m[0], m[1], sign, target, cost, point.a, point.previous, *out)
            alpha += side * slope
            bent += curvature
        gained = dual_value(loss, alpha, labels)[0]
        into.totals[LOSS] += totals[LOSS]
        into.totals[ALPHA] += gained
        into.totals[SMOOTHING_GAP] += totals[LOSS] + float(alpha @ m[0]) - gained
        return alpha, bent
