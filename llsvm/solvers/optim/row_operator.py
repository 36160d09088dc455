"""Rows of a block as linear algebra sees them: by kernels, and matrices of dense ones by the machine's matrix
products in float64, a piece at a time. The constant feature is the last column."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, FLOAT64_BYTES, Matrix, parts_of
from llsvm.objective.leave_one_out import squared_norms
from llsvm.objective.problems import Positions
from llsvm.process.work import count_matrix, count_products
from llsvm.solvers.base import LOOK_VALUES
from llsvm.solvers.optim.lapack import add_outer
from llsvm.solvers.optim.row_kernels import add_at, dots_at, inner_at, outer_at
from llsvm.stream.progress import Progress

# Rows, at least, of a product of dense rows with rows, of some columns each where a piece does not hold them whole:
# with single rows 200 of 20,000 columns take nine times as long. More rows leave fewer columns to a piece, so that
# partial sums are added to the result more often.
PRODUCT_ROWS = 64

Vector = NDArray[np.float64]


class RowOperator:
    """n rows x_i of d + 1 columns. rows: (r,) int64 positions of some. factor: (r,) float64, for each of them.

    X: as given. progress: of the run; matrices raise OutOfTime. all: (n,) the positions of all rows."""

    def __init__(self, X: Matrix, n_columns: int, bias: float, piece_bytes: int, progress: Progress) -> None:
        """X: dense rows may have fewer columns than there are features. n_columns: d. bias: value of the constant
        feature. piece_bytes: of dense rows as float64, at a time."""
        self.progress = progress
        self.X, self._parts, self._bias, self._width = X, parts_of(X), bias, n_columns + 1
        if isinstance(X, CSR):
            self._n_rows = len(X.indptr) - 1
            self._values = float(X.indptr[-1] - X.indptr[0]) / max(self._n_rows, 1)  # of a row, on average
        else:
            self._n_rows, self._values = len(X), float(X.shape[1])
        self._piece_values = piece_bytes // FLOAT64_BYTES

    @property
    def all(self) -> Positions:
        return np.arange(self._n_rows)

    def dots(self, rows: Positions, w: Vector) -> Vector:
        """Return x_i·w, (r,); w: (d + 1,)."""
        self.count(len(rows))
        out = np.empty(len(rows))
        dots_at(*self._parts, rows, w, self._bias, out)
        return out

    def add(self, rows: Positions, factor: Vector, out: Vector) -> None:
        """Add Σ factor_i x_i to out (d + 1,)."""
        self.count(len(rows))
        add_at(*self._parts, rows, factor, self._bias, False, out)

    def add_squares(self, rows: Positions, factor: Vector, out: Vector) -> None:
        """Add Σ factor_i x_i², of each column, to out (d + 1,)."""
        self.count(len(rows))
        add_at(*self._parts, rows, factor, self._bias, True, out)

    def squares(self, rows: Positions) -> Vector:
        """Return ‖x_i‖², (r,)."""
        self.count(len(rows))
        return squared_norms(self.X, rows) + self._bias**2

    def outer(
        self, rows: Positions, factor: Vector, out: Vector, place: NDArray[np.int32] | None = None
    ) -> None:
        """Add the lower triangle of Σ factor_i x_i x_iᵀ to out (A, A).

        place: (d + 1,) each column's position in out, ascending, or −1; None: A = d + 1, all are in it."""
        X, order = self.X, len(out)
        if order == 0:
            return
        if isinstance(X, CSR):
            values = self._values * order / self._width  # of a row that are in it
            count_matrix(int(len(rows) * values * (values + 1)) // 2, False)
            place = np.arange(order, dtype=np.int32) if place is None else place
            step = max(1, int(LOOK_VALUES / max(values, 1.0) ** 2))
            row_places, row_values = np.empty(order, np.int64), np.empty(order)
            for at in range(0, len(rows), step):
                self.progress.check()
                piece = slice(at, at + step)
                outer_at(*X, rows[piece], factor[piece], self._bias, place, row_places, row_values, out)
            return
        count_matrix(len(rows) * order * (order + 1) // 2, True)
        columns = None if place is None or order >= self._width else np.flatnonzero(place >= 0)
        step = max(1, self._piece_values // order)
        for sign, those in ((1.0, np.flatnonzero(factor > 0)), (-1.0, np.flatnonzero(factor < 0))):
            for at in range(0, len(those), step):
                self.progress.check()
                taken = those[at : at + step]
                if columns is None:
                    part = self._piece(X, rows[taken], 0, self._width)
                else:
                    part = self._columns(X, rows[taken], columns)
                part *= np.sqrt(np.abs(factor[taken]))[:, None]
                add_outer(out, part, sign)

    def inner(self, rows: Positions, out: Vector) -> None:
        """Set the lower triangle of out (r, r) to x_i·x_j."""
        X, r = self.X, len(rows)
        count_matrix(int(r * (r + 1) * self._values) // 2, not isinstance(X, CSR))
        if isinstance(X, CSR):
            scratch = np.zeros(self._width)
            step = max(1, int(LOOK_VALUES / max(self._values * r, 1.0)))
            for at in range(0, r, step):
                self.progress.check()
                inner_at(*X, rows[: at + step], at, self._bias, scratch, out)
            return
        row_step = max(PRODUCT_ROWS, self._piece_values // self._width)
        column_step = max(1, self._piece_values // row_step)
        out[:] = 0.0
        for first in range(0, self._width, column_step):
            last = min(first + column_step, self._width)
            for start in range(0, r, row_step):
                piece = slice(start, start + row_step)
                part = self._piece(X, rows[piece], first, last)
                for at in range(0, start + 1, row_step):
                    self.progress.check()
                    other = slice(at, at + row_step)
                    out[piece, other] += part @ self._piece(X, rows[other], first, last).T

    def count(self, n_products: int) -> None:
        """Count so many products of a row with a vector."""
        count_products(n_products, round(n_products * self._values), not isinstance(self.X, CSR))

    def _piece(self, X: NDArray[np.floating], rows: Positions, first: int, last: int) -> Vector:
        """Return the columns from first to last of dense rows, (p, last - first) float64."""
        part = np.zeros((len(rows), last - first))
        stored = min(last, X.shape[1])
        part[:, : max(stored - first, 0)] = X[rows, first:stored]
        if last == self._width:
            part[:, -1] = self._bias
        return part

    def _columns(self, X: NDArray[np.floating], rows: Positions, columns: Positions) -> Vector:
        """Return some columns, in ascending order, of dense rows, (p, columns) float64."""
        part = np.zeros((len(rows), len(columns)))
        stored = columns[columns < X.shape[1]]
        part[:, : len(stored)] = X[np.ix_(rows, stored)]
        if columns[-1] == self._width - 1:
            part[:, -1] = self._bias
        return part
