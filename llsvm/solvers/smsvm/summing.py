"""Summing: one pass over rows for several problems, each at a point of its own.

Rows are worked on in small pieces, so nothing here grows with a block.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.objective.costs import RowCosts
from llsvm.objective.losses import Loss
from llsvm.process.threads import Threads
from llsvm.solvers.smsvm.kernels import smooth, square
from llsvm.solvers.smsvm.rows import Rows, as_rows, pieces
from llsvm.solvers.smsvm.sums import STEPS, Point, Sums
from llsvm.solvers.smsvm.tuning import DEFAULT, SmSVMTuning

Vector = NDArray[np.float64]


@dataclass(slots=True)
class Summing:
    """One pass for several points: give it every block, then ``finish``. Results repeat for the same number
    of threads.

    loss: of the rows, and costs: its factors. bias: value of the constant feature. one_sided: rows with a loss have
    no slack, however large it is.
    """

    points: list[Point]
    loss: Loss
    costs: RowCosts
    bias: float
    threads: Threads
    one_sided: bool = False
    tuning: SmSVMTuning = DEFAULT
    parts: list[list[Sums]] = field(init=False)
    slack: NDArray[np.float32] = field(init=False)
    """Of the rows of the last block, (n,): |1 − margin|, the least of it at any of the points."""

    def __post_init__(self) -> None:
        self.parts = [[Sums.empty(point) for point in self.points] for _ in range(self.threads.number)]

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
        for some in pieces(block.slice(start, stop), self.tuning):
            piece = slice(start, start + some.n_rows)
            start = piece.stop
            cost = self.costs.of(some)
            rows = as_rows(some.X, self.bias)
            for point, into in zip(self.points, self.parts[thread], strict=True):
                self._add_piece(rows, some.y, cost, point, into, piece)

    def _add_piece(
        self, rows: Rows, y: NDArray[np.int32], cost: Vector, point: Point, into: Sums, piece: slice
    ) -> None:
        vectors = [point.w, point.change] + ([] if point.direction is None else [point.direction])
        margins = rows.margins(np.array(vectors))
        sign = np.where(y == point.positive, 1.0, -1.0)
        slope, curvature = self._losses(margins, sign, cost, point, into)
        if point.direction is not None:
            rows.add_rows(curvature * margins[2], into.product)
            return
        z = 1.0 - sign * (margins[0] + margins[1])
        z = np.maximum(0.0, -z) if self.one_sided else np.abs(z, out=z)
        slack = self.slack[piece]
        np.minimum(slack, z, out=slack, casting="same_kind")
        rows.add_rows(slope * sign, into.v)
        if point.curvature is not None:
            point.curvature[piece] = curvature
        elif point.active is not None:
            rows.add_products(curvature, point, into.hessian)
        if point.diagonal:
            rows.add_squares(curvature, into.diagonal)

    def _losses(
        self, margins: Vector, sign: Vector, cost: Vector, point: Point, into: Sums
    ) -> tuple[Vector, Vector]:
        """Add the rows' losses; returns their α_i and curvatures, (n,) each."""
        slope, curvature = np.empty(len(sign)), np.empty(len(sign))
        steps = STEPS if point.direction is None else STEPS[:0]
        out = (steps, slope, curvature, into.losses, into.totals)
        if self.loss.name == "squared_hinge":
            square(margins[0], margins[1], sign, cost, *out)
        else:
            smooth(margins[0], margins[1], sign, cost, point.a, point.previous, *out)
        return slope, curvature
