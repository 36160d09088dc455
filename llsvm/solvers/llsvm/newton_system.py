"""Newton's step of the method of multipliers: (I + Σ_{i in J} h_i x_i x_iᵀ) s = −g, J the rows of a curvature h_i.

By Cholesky's decomposition of the d × d matrix; or, where J is small, of a |J| × |J| one,

    (I + XᵀhX)⁻¹ = I − Xᵀ (h⁻¹ + XXᵀ)⁻¹ X                                      (Sherman, Morrison, Woodbury)

or by conjugate gradients, preconditioned by the diagonal. Which is a matter of counts and of room alone, so that
runs repeat.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.problems import Positions
from llsvm.solvers.optim.conjugate_gradients import Way, conjugate_gradients
from llsvm.solvers.optim.lapack import factor_with_ridge
from llsvm.solvers.optim.row_operator import RowOperator

Vector = NDArray[np.float64]

MATRICES, DENSE_MATRICES = 1, 3  # as large as the one that is decomposed, in its place, at a time
READ_PRICE = 5.0  # ns: of a value, of a survivor, read from its spill
SMALL = (
    100  # columns: so few are solved for as they are, since of nearly parallel rows ROWS leaves only rounding
)


def matrix_bytes(order: int, dense: bool) -> int:
    """Return what matrices of that order take, of which one is decomposed."""
    return (DENSE_MATRICES if dense else MATRICES) * 8 * order * order


@dataclass(frozen=True, slots=True)
class Prices:
    """In ns of processor time; only their ratios matter. See tools/bench/README.md for the machine.

    dense: rows are. columns: d + 1. values: of a row, on average. room_bytes: for matrices. max_order: of one that
    is decomposed. max_products: of conjugate gradients with the matrix. face_bytes: room for those of face.py."""

    dense: bool
    columns: int
    values: float
    room_bytes: int
    max_order: int
    max_products: int
    face_bytes: int = 0

    def visit(self) -> float:
        """Of coordinate descent to a row."""
        return 100 + (0.45 if self.dense else 2.0) * self.values

    def product(self) -> float:
        """Of a row with a vector, or adding it to one."""
        return 10 + (0.13 if self.dense else 1.5) * self.values

    def worth(self) -> float:
        """The same in conjugate gradients, whose steps end early: of dense rows, that matrices are made of so fast,
        ten of them are not worth one of Cholesky's."""
        return 10 + 1.5 * self.values

    def has_room(self, order: int) -> bool:
        return order <= self.max_order and matrix_bytes(order, self.dense) <= self.room_bytes

    @property
    def _gram(self) -> float:
        """Of adding a row to the matrix of columns."""
        return 0.02 * self.columns**2 if self.dense else 0.4 * self.values**2

    def by(self, way: Way, n_rows: int) -> float:
        """Of a step with so many rows in J; infinite where there is no room."""
        if way is Way.PRODUCTS:
            return self.max_products * (2 * n_rows * self.worth() + 5 * self.columns)
        order = self.columns if way is Way.COLUMNS else n_rows
        if not self.has_room(order):
            return np.inf
        decompose = order**3 / 60 + 10 * order * order
        if way is Way.COLUMNS:
            return n_rows * (self.product() + self._gram) + decompose
        inner = 0.06 if self.dense else 0.7
        return n_rows * (0.5 * n_rows * (10 + inner * self.values) + 2 * self.product()) + decompose

    def best(self, n_rows: int) -> Way:
        if self.columns <= SMALL and self.has_room(self.columns):
            return Way.COLUMNS
        return min(Way, key=lambda way: self.by(way, n_rows))


class NewtonSystem:
    """Of one point. J: (r,) positions of rows, curvature: (r,) float64 h_i > 0; columns: d + 1."""

    def __init__(
        self,
        rows: RowOperator,
        J: Positions,
        curvature: Vector,
        columns: int,
        prices: Prices,
    ) -> None:
        self._rows, self._J, self._h, self._d = rows, J, curvature, columns
        self.way, self._has_room = prices.best(len(J)), prices.has_room(columns)
        self._max_products = prices.max_products

    def solve(self, g: Vector, until: float) -> Vector:
        """s, (d + 1,). until: conjugate gradients end where the residual fell to this share. Raises OutOfTime."""
        if not len(self._J):
            return -g
        if self.way is Way.COLUMNS:
            return self._by_columns(g)
        if self.way is Way.PRODUCTS:
            return self._by_products(g, until)
        s = self._by_rows(g)
        if self._has_room and not self._residual(s, g) <= until * float(np.linalg.norm(g)):
            # rows are nearly parallel: of their products rounding leaves too little
            return self._by_columns(g)
        return s

    def _by_columns(self, g: Vector) -> Vector:
        H = np.zeros((self._d, self._d))
        self._rows.outer(self._J, self._h, H)
        H.flat[:: self._d + 1] += 1.0
        return -_solve(H, g)

    def _by_rows(self, g: Vector) -> Vector:
        r = len(self._J)
        K = np.empty((r, r))
        self._rows.inner(self._J, K)
        K.flat[:: r + 1] += 1.0 / self._h
        s = -g
        self._rows.add(self._J, _solve(K, self._rows.dots(self._J, g)), s)
        return s

    def _residual(self, s: Vector, g: Vector) -> float:
        """‖g + s + Σ h_i x_i (x_i·s)‖."""
        left = g + s
        self._rows.add(self._J, self._h * self._rows.dots(self._J, s), left)
        return float(np.linalg.norm(left))

    def _by_products(self, g: Vector, until: float) -> Vector:
        diagonal = np.ones(self._d)
        self._rows.add_squares(self._J, self._h, diagonal)

        def times(direction: Vector) -> Vector:
            progress.check()
            product = direction.copy()
            self._rows.add(self._J, self._h * self._rows.dots(self._J, direction), product)
            return product

        progress = self._rows.progress
        return conjugate_gradients(times, -g, lambda r: r / diagonal, until, self._max_products, progress)


def _solve(H: Vector, right: Vector) -> Vector:
    """H⁻¹ right for a symmetric positive definite H (n, n), whose lower triangle is looked at; overwritten."""
    diagonal = H.diagonal().copy()
    factor = factor_with_ridge(H)
    return right / diagonal if factor is None else factor.solve(right)
