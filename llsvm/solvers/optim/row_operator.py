"""Rows of a block as linear algebra sees them. The constant feature is the last column.

``RowOperator`` works for one vector of weights: by kernels, and matrices of dense rows by the machine's matrix
products in float64, a piece at a time. ``RowProducts`` works for the weights of all classes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, FLOAT64_BYTES, Block, Matrix, parts_of
from llsvm.kernels.products import add_rows, matrix_scores
from llsvm.objective.certificate import squared_norms
from llsvm.objective.problems import Positions
from llsvm.process.work import count_matrix, count_products
from llsvm.solvers.base import LOOK_VALUES
from llsvm.solvers.optim.kernels import add_at, dots_at, inner_at, outer_at
from llsvm.solvers.optim.lapack import add_outer
from llsvm.stream.progress import Progress

Array = NDArray[np.float64]

# Rows, at least, of a product of dense rows with rows, of some columns each where a piece does not hold them whole:
# with single rows 200 of 20,000 columns take nine times as long. More rows leave fewer columns to a piece, so that
# partial sums are added to the result more often.
PRODUCT_ROWS = 64
# Rows are worked on in pieces of so many bytes, as float64, which stay in the processor's cache: larger ones would
# not, and take more memory; smaller ones take more calls.
PIECE_BYTES = 1 << 18
# What C_i of a row takes in the work on it, with its class id and the factors that it is made of: with fewer bytes
# the memory limit would not be kept; with more, a run would ask for a larger limit than it needs.
COST_BYTES = 24
# What a step of Newton's method takes beside its matrices: with fewer the memory limit would not be kept; with
# more, a run would ask for a larger limit than it needs, or do without matrices that have room.
PIECES = 8  # pieces of rows for each thread: scores, probabilities or dual variables, and their changes
WEIGHT_ARRAYS = 14  # arrays as large as the weights: points, a step, gradients, conjugate gradients, the best
THREAD_ARRAYS = 2  # more of these arrays for each thread: its sums and curvatures


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

    def dots(self, rows: Positions, w: Array) -> Array:
        """Return x_i·w, (r,); w: (d + 1,)."""
        self.count(len(rows))
        out = np.empty(len(rows))
        dots_at(*self._parts, rows, w, self._bias, out)
        return out

    def add(self, rows: Positions, factor: Array, out: Array) -> None:
        """Add Σ factor_i x_i to out (d + 1,)."""
        self.count(len(rows))
        add_at(*self._parts, rows, factor, self._bias, False, out)

    def add_squares(self, rows: Positions, factor: Array, out: Array) -> None:
        """Add Σ factor_i x_i², of each column, to out (d + 1,)."""
        self.count(len(rows))
        add_at(*self._parts, rows, factor, self._bias, True, out)

    def squares(self, rows: Positions) -> Array:
        """Return ‖x_i‖², (r,)."""
        self.count(len(rows))
        return squared_norms(self.X, rows) + self._bias**2

    def outer(
        self, rows: Positions, factor: Array, out: Array, place: NDArray[np.int32] | None = None
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

    def inner(self, rows: Positions, out: Array) -> None:
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

    def _piece(self, X: NDArray[np.floating], rows: Positions, first: int, last: int) -> Array:
        """Return the columns from first to last of dense rows, (p, last - first) float64."""
        part = np.zeros((len(rows), last - first))
        stored = min(last, X.shape[1])
        part[:, : max(stored - first, 0)] = X[rows, first:stored]
        if last == self._width:
            part[:, -1] = self._bias
        return part

    def _columns(self, X: NDArray[np.floating], rows: Positions, columns: Positions) -> Array:
        """Return some columns, in ascending order, of dense rows, (p, columns) float64."""
        part = np.zeros((len(rows), len(columns)))
        stored = columns[columns < X.shape[1]]
        part[:, : len(stored)] = X[np.ix_(rows, stored)]
        if columns[-1] == self._width - 1:
            part[:, -1] = self._bias
        return part


def piece_bytes(width: int) -> int:
    """Return what a piece of rows of so many features takes, at most: it has a row at least."""
    return max(PIECE_BYTES, FLOAT64_BYTES * width)


def pieces_bytes(width: int, threads: int) -> int:
    """Return what pieces of rows of so many features take in a step of Newton's method, at most."""
    return PIECES * threads * piece_bytes(width)


def weights_bytes(shape: tuple[int, int], threads: int, more: int = 0) -> int:
    """Return what arrays as large as the weights, of this shape, take in a step of Newton's method. more: so many
    arrays more than any of these methods needs."""
    return FLOAT64_BYTES * shape[0] * shape[1] * (WEIGHT_ARRAYS + THREAD_ARRAYS * threads + more)


class RowProducts:
    """x_i is row i with the constant feature ``bias`` as its last; W and sums are (d + 1, k) float64.

    operator: makes matrices of the rows. dense_piece_rows: so many dense rows at a time, as float64."""

    def __init__(
        self, block: Block, bias: float, width: int, n_classes: int, progress: Progress | None = None
    ) -> None:
        """progress: of the run, where matrices are wanted."""
        self.operator = RowOperator(block.X, width - 1, bias, PIECE_BYTES, progress or Progress())
        self._block, self._bias, self._width = block, bias, width
        self.dense_piece_rows = max(1, PIECE_BYTES // (FLOAT64_BYTES * width))
        # with eight arrays of a value for each class: scores, dual variables and the like
        self.piece_rows = max(1, PIECE_BYTES // (FLOAT64_BYTES * (width * block.is_dense + 8 * n_classes)))

    def pieces(self, start: int, stop: int) -> Iterator[slice]:
        """Yield the rows start..stop, ``piece_rows`` at a time."""
        for at in range(start, stop, self.piece_rows):
            yield slice(at, min(at + self.piece_rows, stop))

    def matrix(self, rows: slice | NDArray[np.int64]) -> Matrix:
        """Return some rows; a slice copies nothing."""
        if isinstance(rows, slice):
            return self._block.slice(rows.start, rows.stop).X
        return self._block.take(rows).X

    def scores(self, X: Matrix, W: Array) -> Array:
        """Return X W of rows from ``matrix``."""
        scores = matrix_scores(X, W[:-1], self._bias * W[-1])
        self.operator.count(scores.size)
        return scores

    def add(self, X: Matrix, coefficients: Array, out: Array) -> None:
        """Add Xᵀ V to out; coefficients: V."""
        self.operator.count(coefficients.size)
        if isinstance(X, CSR):
            add_rows(*X, coefficients, out)
        else:
            out[:-1] += X.T.astype(np.float64, copy=False) @ coefficients
        out[-1] += self._bias * coefficients.sum(axis=0)

    def add_squares(self, X: Matrix, coefficients: Array, out: Array) -> None:
        """``add`` of the squares of all values."""
        self.operator.count(coefficients.size)
        if isinstance(X, CSR):
            start, stop = int(X.indptr[0]), int(X.indptr[-1])
            values = X.data[start:stop].astype(np.float64)
            values *= values
            add_rows(X.indptr - start, X.indices[start:stop], values, coefficients, out)
        else:
            wide = X.T.astype(np.float64)
            wide *= wide
            out[:-1] += wide @ coefficients
        out[-1] += self._bias**2 * coefficients.sum(axis=0)

    def dense(self, rows: NDArray[np.int64]) -> Array:
        """Return some rows as (len(rows), d + 1) float64."""
        X = self._block.take(rows).X
        out = np.zeros((len(rows), self._width))
        if isinstance(X, CSR):
            out[np.repeat(np.arange(len(rows)), np.diff(X.indptr)), X.indices] = X.data
        else:
            out[:, :-1] = X
        out[:, -1] = self._bias
        return out


def coef_of(W: Array) -> Array:
    """(k, d + 1), a view of weights (d + 1, k); for two classes the difference (1, d + 1), which decides between
    them."""
    return W.T if W.shape[1] > 2 else (W[:, 1:] - W[:, :1]).T
