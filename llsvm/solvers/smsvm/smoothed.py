"""Sums over rows of the smoothed hinge: losses, gradient, Hessian, certificate, all in one pass over a block.

Rows are worked on in small pieces, so nothing here grows with a block: sparse pieces by kernels, dense ones by the
machine's matrix product in float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block
from llsvm.objective.costs import RowCosts
from llsvm.solvers.smsvm.kernels import add_products_csr, add_rows_csr, add_squares_csr, margins_csr, smooth

Vector = NDArray[np.float64]

STEPS = np.array([0, 1 / 64, 1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1, 1.25, 1.5, 2])
"""(T,) the steps t at which losses are summed; 0 and 1 are among them."""
_PIECE_ROWS = 4096  # of a sparse block
_PIECE_BYTES = 1_000_000  # of a dense one, as float64


@dataclass(slots=True)
class Point:
    """Where a problem is to be summed: at w + t change for the losses, at t = 1 for all else.

    w, change: (d + 1,). a: smoothing parameter. previous: the one that the change was computed with, 0 where
    it is not one Newton step.
    positive: the class whose rows have sign +1. active: columns of the Hessian, ascending, see ``choose``;
    place: (d + 1,) each column's position in it, or −1. direction: (d + 1,) v, if the product of the Hessian
    with v is wanted and nothing else. curvature: (n,) to be filled with that of each row, for sums over one block.
    """

    w: Vector
    change: Vector
    a: float
    previous: float
    positive: int
    active: NDArray[np.int64] | None = None
    diagonal: bool = False
    direction: Vector | None = None
    curvature: Vector | None = None
    place: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))

    def choose(self, active: NDArray[np.int64]) -> None:
        """Ask for the Hessian over these columns."""
        self.active = active
        self.place = np.full(len(self.w), -1, np.int32)
        self.place[active] = np.arange(len(active), dtype=np.int32)


@dataclass(slots=True)
class Sums:
    """losses (T,): Σ c_i ψ_a at each of STEPS. The rest at t = 1: hinge Σ c_i max(0, z_i); alpha Σ α_i;
    excess Σ c_i max(0, z_i) − α_i z_i; v (d + 1,) Σ α_i y_i x_i; hessian (A, A) over the active columns, its
    lower triangle only; diagonal (d + 1,) of the whole Hessian; product (d + 1,) of the whole Hessian with
    the direction."""

    losses: Vector
    totals: Vector
    v: Vector
    hessian: Vector
    diagonal: Vector
    product: Vector

    @classmethod
    def empty(cls, point: Point) -> Sums:
        n_columns = len(point.w)
        n_active = 0 if point.active is None or point.curvature is not None else len(point.active)
        whole = point.direction is None
        return cls(
            np.zeros(len(STEPS)),
            np.zeros(3),
            np.zeros(n_columns if whole else 0),
            np.zeros((n_active, n_active)),
            np.zeros(n_columns if point.diagonal else 0),
            np.zeros(0 if whole else n_columns),
        )

    def add(self, other: Sums) -> None:
        for name in ("losses", "totals", "v", "hessian", "diagonal", "product"):
            mine = getattr(self, name)
            mine += getattr(other, name)

    @property
    def hinge(self) -> float:
        return float(self.totals[0])

    @property
    def alpha(self) -> float:
        return float(self.totals[1])

    @property
    def excess(self) -> float:
        return float(self.totals[2])


@dataclass(slots=True)
class Far:
    """The rows that are not at hand, after a pass over all: they stay on their side of the margin, so their losses
    go on linearly from the point (n,) of that pass. sums: theirs, there. a: the smoothing parameter there. What the
    smoothing costs of them goes with its square: next to nothing of a row, but they are many."""

    at: Vector
    sums: Sums
    a: float

    @classmethod
    def between(cls, all_rows: Sums, at_hand: Sums, point: Point) -> Far:
        """all_rows, at_hand: what each sums to at the point."""
        at, none = point.w + point.change, np.zeros(0)
        totals, v = all_rows.totals - at_hand.totals, all_rows.v - at_hand.v
        totals[1] = totals[0] + float(v @ at)  # Σ α_i of the straight lines
        return cls(at, Sums(all_rows.losses - at_hand.losses, totals, v, none, none, none), point.a)

    def add_to(self, sums: Sums, point: Point) -> None:
        """Add what the far rows come to at the point, but for their curvature: it is next to nothing."""
        far, moved = self.sums, point.w - self.at
        excess = far.excess * (point.a / self.a) ** 2
        before, step = float(far.v @ moved), float(far.v @ point.change)
        sums.losses += far.losses[STEPS == 1] - before - STEPS * step
        sums.totals += np.array([far.hinge - before - step, far.alpha - excess, excess])
        sums.v += far.v


@dataclass(slots=True)
class Summing:
    """One pass for several points: give it every block, then ``finish``. Results repeat for the same number
    of threads.

    bias: value of the constant feature. costs: of the rows. pool: of ``threads`` threads.
    """

    points: list[Point]
    costs: RowCosts
    bias: float
    pool: ThreadPoolExecutor
    threads: int
    one_sided: bool = False
    parts: list[list[Sums]] = field(init=False)
    distance: NDArray[np.float32] = field(init=False)
    """Of the rows of the last block, (n,): the least |z_i| at any of the points."""

    def __post_init__(self) -> None:
        self.parts = [[Sums.empty(point) for point in self.points] for _ in range(self.threads)]

    def add(self, block: Block) -> None:
        bounds = np.linspace(0, block.n_rows, self.threads + 1).astype(int)
        self.distance = np.full(block.n_rows, np.inf, np.float32)

        def add_range(sums: list[Sums], start: int, stop: int) -> None:
            self._add_range(sums, block, start, stop)

        list(self.pool.map(add_range, self.parts, bounds[:-1], bounds[1:]))

    def finish(self) -> list[Sums]:
        """The sums at each point; threads' parts are added in a fixed order."""
        first, *others = self.parts
        for part in others:
            for mine, more in zip(first, part, strict=True):
                mine.add(more)
        self.parts = []
        return first

    def _add_range(self, sums: list[Sums], block: Block, start: int, stop: int) -> None:
        for rows in _pieces(block.slice(start, stop)):
            piece = slice(start, start + rows.n_rows)
            start = piece.stop
            cost = self.costs.of(rows)
            matrix = _Sparse(rows.X, self.bias) if isinstance(rows.X, CSR) else _Dense(rows.X, self.bias)
            for point, into in zip(self.points, sums, strict=True):
                self._add_piece(matrix, rows.y, cost, point, into, piece)

    def _add_piece(
        self,
        X: _Sparse | _Dense,
        y: NDArray[np.int32],
        cost: Vector,
        point: Point,
        into: Sums,
        piece: slice,
    ) -> None:
        vectors = [point.w, point.change] + ([] if point.direction is None else [point.direction])
        margins = X.margins(np.array(vectors))
        sign = np.where(y == point.positive, 1.0, -1.0)
        slope, curvature = np.empty(len(y)), np.empty(len(y))
        steps = STEPS if point.direction is None else STEPS[:0]
        smooth(
            margins[0],
            margins[1],
            sign,
            cost,
            point.a,
            point.previous,
            steps,
            slope,
            curvature,
            into.losses,
            into.totals,
        )
        if point.direction is not None:
            X.add_rows(curvature * margins[2], into.product)
            return
        z = 1.0 - sign * (margins[0] + margins[1])
        z = np.maximum(0.0, -z) if self.one_sided else np.abs(z, out=z)
        distance = self.distance[piece]
        np.minimum(distance, z, out=distance, casting="same_kind")
        X.add_rows(slope * sign, into.v)
        if point.curvature is not None:
            point.curvature[piece] = curvature
        elif point.active is not None:
            X.add_products(curvature, point, into.hessian)
        if point.diagonal:
            X.add_squares(curvature, into.diagonal)


class _Sparse:
    """Sparse rows with the constant feature as their last column."""

    def __init__(self, X: CSR, bias: float) -> None:
        self.X = X
        self.bias = bias

    def margins(self, weights: Vector) -> Vector:
        out = np.empty((len(weights), len(self.X.indptr) - 1))
        margins_csr(*self.X, weights, self.bias, out)
        return out

    def add_rows(self, factor: Vector, out: Vector) -> None:
        add_rows_csr(*self.X, factor, self.bias, out)

    def add_squares(self, factor: Vector, out: Vector) -> None:
        add_squares_csr(*self.X, factor, self.bias, out)

    def add_products(self, factor: Vector, point: Point, out: Vector) -> None:
        columns, values = np.empty(len(out), np.int64), np.empty(len(out))
        add_products_csr(*self.X, factor, self.bias, point.place, columns, values, out)


class _Dense:
    """Dense rows with the constant feature as their last column, in float64."""

    def __init__(self, X: NDArray[np.floating], bias: float) -> None:
        n, d = X.shape
        self.X = np.empty((n, d + 1))
        self.X[:, :d] = X
        self.X[:, d] = bias

    def margins(self, weights: Vector) -> Vector:
        return np.asarray(weights @ self.X.T)

    def add_rows(self, factor: Vector, out: Vector) -> None:
        out += factor @ self.X

    def add_squares(self, factor: Vector, out: Vector) -> None:
        out += factor @ (self.X * self.X)

    def add_products(self, factor: Vector, point: Point, out: Vector) -> None:
        rows = np.flatnonzero(factor > 0)
        if len(out) < self.X.shape[1]:
            part = self.X[np.ix_(rows, np.asarray(point.active))]
        else:
            part = self.X[rows]
        part *= np.sqrt(factor[rows])[:, None]
        out += part.T @ part


def _pieces(block: Block) -> Iterator[Block]:
    rows = _PIECE_ROWS if isinstance(block.X, CSR) else max(1, _PIECE_BYTES // (8 * (block.X.shape[1] + 1)))
    for start in range(0, block.n_rows, rows):
        yield block.slice(start, min(start + rows, block.n_rows))


def work_bytes(n_columns: int, is_dense: bool) -> int:
    """Bytes that one thread needs for the piece it works on."""
    if not is_dense:
        return _PIECE_ROWS * 10 * 8
    rows = max(1, _PIECE_BYTES // (8 * (n_columns + 1)))
    return rows * (n_columns + 1) * 8 * 3
