"""Newton systems of sums over rows: (I + Σ_{i in J} h_i x_i x_iᵀ) s = −g, J being the rows of a curvature h_i > 0.

They are solved by Cholesky's decomposition of the matrix of columns; or, where J is small, of a |J| × |J| one,

    (I + XᵀhX)⁻¹ = I − Xᵀ (h⁻¹ + XXᵀ)⁻¹ X                                      (Sherman, Morrison, Woodbury)

or by conjugate gradients, preconditioned by the diagonal. ``NewtonPrices`` says which way is the cheapest. It
depends on counts and on memory alone, so that runs repeat.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from llsvm.block import FLOAT64_BYTES
from llsvm.objective.problems import Positions
from llsvm.process.work import Work
from llsvm.solvers.optim.conjugate_gradients import UNTIL, Way, conjugate_gradients
from llsvm.solvers.optim.lapack import factor_with_ridge
from llsvm.stream.progress import Progress

Vector = NDArray[np.float64]

# Products of the matrix with a vector in the conjugate gradients of one step, at most, also of smsvm and softmax;
# the price of conjugate gradients is that of as many. Lower leaves larger residuals, so that Newton's method makes
# more steps; higher spends more on each, and prefers a matrix where the residual would have fallen long before.
MOST_PRODUCTS = 100
# Steps that Newton's method is expected to take where it follows another method, or passes of smsvm, with the work
# between them: 8 to 15 on most data. Lower changes to it sooner, higher later.
NEWTON_STEPS = 12
# Order of a matrix that is decomposed, at most: half a second of work, and 72 MB. Lower leaves more systems to
# conjugate gradients, higher lets a step take seconds: its work grows with the third power of the order.
MOST_ORDER = 3000
MATRICES = (Way.COLUMNS, Way.ROWS)
DENSE_COPIES = 3
"""Matrices, and pieces of rows, that dense rows need in memory at a time: BLAS and the decomposition copy them.
Fewer exceed the memory limit, more turn matrices down that have room."""


class SystemRows(Protocol):
    """Rows x_i of a Newton system, chosen by their positions J, (r,) int64, as RowOperator has them."""

    progress: Progress

    def dots(self, rows: Positions, w: Vector) -> Vector:
        """Return x_i·w, (r,)."""

    def add(self, rows: Positions, factor: Vector, out: Vector) -> None:
        """Add Σ factor_i x_i to out."""

    def add_squares(self, rows: Positions, factor: Vector, out: Vector) -> None:
        """Add Σ factor_i x_i², of each column, to out."""

    def outer(self, rows: Positions, factor: Vector, out: Vector) -> None:
        """Add the lower triangle of Σ factor_i x_i x_iᵀ to out (d + 1, d + 1)."""

    def inner(self, rows: Positions, out: Vector) -> None:
        """Set the lower triangle of out (r, r) to x_i·x_j."""


@dataclass(frozen=True, slots=True)
class NewtonPrices:
    """Seconds of work, at the prices at which it is counted (llsvm/process/work.py), on rows of one shape.

    dense: rows are stored dense. columns: unknowns of a system. values: of a row, on average. room_bytes: for the
    matrices of a step. width: of the blocks that a matrix is made of, which need no copy of it; 0: it is made
    as a whole."""

    dense: bool
    columns: int
    values: float
    room_bytes: float
    width: int = 0

    def updates(self, n_rows: float) -> float:
        """Return the price of so many steps of coordinate descent."""
        return self._of_rows("updated", n_rows)

    def products(self, n_rows: float) -> float:
        """Return the price of so many products of a row with a vector, or of adding so many rows to one."""
        return self._of_rows("multiplied", n_rows)

    def _of_rows(self, what: str, n_rows: float) -> float:
        values = {f"{what}_{self._kind}_values": int(n_rows * self.values)}
        return Work(**{f"{what}_rows": int(n_rows)}, **values).seconds

    @property
    def _kind(self) -> str:
        return "dense" if self.dense else "sparse"

    def has_room(self, order: int) -> bool:
        """Return whether a matrix of that order may be made and decomposed."""
        return order <= MOST_ORDER and matrix_bytes(order, self.dense and not self.width) <= self.room_bytes

    def system(self, way: Way, n_rows: int) -> float:
        """Return the price of solving a system with so many rows in J in this way; infinite without room."""
        if way is Way.PRODUCTS:
            return self.products(2 * MOST_PRODUCTS * n_rows)
        order = self.columns if way is Way.COLUMNS else n_rows
        if not self.has_room(order):
            return math.inf
        across = (self.width or self.columns) if self.dense else self.values
        terms = n_rows * across**2 if way is Way.COLUMNS else n_rows**2 * self.values
        made = {f"{self._kind}_matrix_terms": int(terms) // 2}
        return Work(factorizations=1, factor_terms=order**3 // 3, solved_terms=order**2, **made).seconds

    def best(self, n_rows: int, ways: Iterable[Way] = Way) -> Way:
        """Return the cheapest of these ways to solve a system with so many rows in J; PRODUCTS where none has
        room."""
        best = min(ways, key=lambda way: self.system(way, n_rows))
        return best if math.isfinite(self.system(best, n_rows)) else Way.PRODUCTS


def matrix_bytes(order: int, dense: bool) -> int:
    """Return what matrices of that order take, of which one is decomposed."""
    return (DENSE_COPIES if dense else 1) * FLOAT64_BYTES * order * order


class NewtonSystem:
    """The system of one point.

    way: in which it is solved."""

    def __init__(
        self,
        rows: SystemRows,
        J: Positions,
        curvature: Vector,
        prices: NewtonPrices,
        ways: Iterable[Way] = Way,
    ) -> None:
        """J: (r,) positions of rows. curvature: (r,) float64 h_i > 0. ways: those that are taken while they have
        room."""
        self._rows, self._J, self._h = rows, J, curvature
        self.way, self._has_room = prices.best(len(J), ways), prices.has_room(prices.columns)

    def solve(self, g: Vector, accuracy: float = UNTIL) -> Vector:
        """Return s, of the shape of g. Raises OutOfTime.

        accuracy: share of ‖g‖ that the residual may keep."""
        if self.way is Way.COLUMNS:
            return self._by_columns(g)
        if self.way is Way.PRODUCTS:
            return self._by_products(g, accuracy)
        s = self._by_rows(g)
        if self._has_room and not np.linalg.norm(g + self._times(s)) <= accuracy * np.linalg.norm(g):
            # rows are nearly parallel: of their products rounding leaves too little
            return self._by_columns(g)
        return s

    def _by_columns(self, g: Vector) -> Vector:
        return solve_by_columns(lambda H: self._rows.outer(self._J, self._h, H), g)

    def _by_rows(self, g: Vector) -> Vector:
        r, s = len(self._J), -g
        K = np.zeros((r, r))
        self._rows.inner(self._J, K)
        K.flat[:: r + 1] += 1.0 / self._h
        self._rows.add(self._J, _solve(K, self._rows.dots(self._J, g)), s)
        return s

    def _by_products(self, g: Vector, accuracy: float) -> Vector:
        diagonal, progress = np.ones_like(g), self._rows.progress
        self._rows.add_squares(self._J, self._h, diagonal)
        return conjugate_gradients(self._times, -g, lambda r: r / diagonal, accuracy, MOST_PRODUCTS, progress)

    def _times(self, s: Vector) -> Vector:
        """Return s + Σ h_i x_i (x_i·s)."""
        self._rows.progress.check()
        product = s.copy()
        self._rows.add(self._J, self._h * self._rows.dots(self._J, s), product)
        return product


def solve_by_columns(add: Callable[[Vector], None], g: Vector) -> Vector:
    """Return s of the shape of g with (I + H) s = −g; add: adds the lower triangle of H to a matrix."""
    H = np.zeros((g.size, g.size))
    add(H)
    H.flat[:: g.size + 1] += 1.0
    return -_solve(H, g.ravel()).reshape(g.shape)


def _solve(H: Vector, right: Vector) -> Vector:
    """Return H⁻¹ right for a symmetric positive definite H (n, n), of its lower triangle; H is overwritten."""
    diagonal = H.diagonal().copy()
    factor = factor_with_ridge(H)
    return right / diagonal if factor is None else factor.solve(right)
