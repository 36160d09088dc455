"""Summing: one pass over rows for several problems, each at a point of its own.

Rows are worked on in small pieces, so nothing here grows with a block.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.objective.costs import RowCosts
from llsvm.objective.losses import LogisticLoss, Loss, PLQLoss
from llsvm.process.threads import Threads
from llsvm.settings.objective import CLASSIFICATION
from llsvm.solvers.optim.row_operator import RowOperator
from llsvm.solvers.smsvm.kernels import (
    ALPHA,
    ALPHA_MINUS,
    ALPHA_PLUS,
    LOSS,
    N_TOTALS,
    SMOOTHING_GAP,
    SQUARES_MINUS,
    SQUARES_PLUS,
    logistic,
    quadratic,
    smooth,
)
from llsvm.solvers.smsvm.rows import Labels, piece_rows, pieces
from llsvm.solvers.smsvm.sums import STEPS, Point, Sums, dual_value
from llsvm.solvers.smsvm.tuning import DEFAULT, SmSVMTuning
from llsvm.stream.progress import OutOfTime, Progress

Vector = NDArray[np.float64]
Slack = NDArray[np.float32]


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
