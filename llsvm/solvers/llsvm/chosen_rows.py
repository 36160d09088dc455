"""Rows of a block chosen by position, as linear algebra sees them: by kernels, and matrices of dense ones by the
machine's matrix products in float64, a piece at a time. The constant feature is the last column."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix, parts_of
from llsvm.objective.problems import Positions
from llsvm.process.work import count_matrix, count_products
from llsvm.solvers.llsvm.multiplier_kernels import add_at, dots_at, inner_at, outer_at
from llsvm.solvers.optim.lapack import add_outer
from llsvm.stream.progress import Progress

Vector = NDArray[np.float64]

_PRODUCTS = 5e7  # of two values, that a matrix takes between two looks at the clock


class ChosenRows(ABC):
    """n rows of d + 1 columns. rows: (r,) positions of some. factor: (r,) float64, for each of them.

    progress: of the run; matrices raise OutOfTime."""

    def __init__(self, X: Matrix, n_columns: int, bias: float, values: float, progress: Progress) -> None:
        """values: of a row, on average."""
        self.progress = progress
        self._bias, self._n_columns, self._values = bias, n_columns, values
        self._parts, self._is_dense = parts_of(X), not isinstance(X, CSR)

    def dots(self, rows: Positions, w: Vector) -> Vector:
        """(r,) x_i·w; w: (d + 1,)."""
        self._count(rows)
        out = np.empty(len(rows))
        dots_at(*self._parts, rows, w, self._bias, out)
        return out

    def add(self, rows: Positions, factor: Vector, out: Vector) -> None:
        """out (d + 1,) += Σ factor_i x_i."""
        self._count(rows)
        add_at(*self._parts, rows, factor, self._bias, False, out)

    def add_squares(self, rows: Positions, factor: Vector, out: Vector) -> None:
        """out (d + 1,) += Σ factor_i x_i², of each column."""
        self._count(rows)
        add_at(*self._parts, rows, factor, self._bias, True, out)

    def _count(self, rows: Positions) -> None:
        count_products(len(rows), int(len(rows) * self._values), self._is_dense)

    @abstractmethod
    def squares(self, rows: Positions) -> Vector:
        """(r,) ‖x_i‖²."""

    @abstractmethod
    def outer(self, rows: Positions, factor: Vector, out: Vector) -> None:
        """Lower triangle of out (d + 1, d + 1) += Σ factor_i x_i x_iᵀ."""

    @abstractmethod
    def inner(self, rows: Positions, out: Vector) -> None:
        """Lower triangle of out (r, r) = x_i·x_j."""


def chosen_rows(X: Matrix, n_columns: int, bias: float, piece_bytes: int, progress: Progress) -> ChosenRows:
    """n_columns: d. bias: value of the constant feature. piece_bytes: of dense rows as float64, at a time."""
    if isinstance(X, CSR):
        return _Sparse(X, n_columns, bias, progress)
    return _Dense(X, n_columns, bias, piece_bytes, progress)


class _Sparse(ChosenRows):
    def __init__(self, X: CSR, n_columns: int, bias: float, progress: Progress) -> None:
        super().__init__(X, n_columns, bias, max(len(X.data) / max(len(X.indptr) - 1, 1), 1.0), progress)
        self.X = X

    def squares(self, rows: Positions) -> Vector:
        count_products(len(rows), int(len(rows) * self._values), False)
        starts, ends = self.X.indptr[rows], self.X.indptr[rows + 1]
        each = (self.X.data[start:end] for start, end in zip(starts, ends, strict=True))
        found = [float(np.einsum("i,i", values, values, dtype=np.float64)) for values in each]
        return np.array(found) + self._bias**2

    def outer(self, rows: Positions, factor: Vector, out: Vector) -> None:
        count_matrix(int(len(rows) * self._values * (self._values + 1)) // 2, False)
        step = max(1, int(_PRODUCTS / self._values**2))
        for at in range(0, len(rows), step):
            self.progress.check()
            outer_at(*self.X, rows[at : at + step], factor[at : at + step], self._bias, out)

    def inner(self, rows: Positions, out: Vector) -> None:
        count_matrix(int(len(rows) * (len(rows) + 1) * self._values) // 2, False)
        scratch = np.zeros(self._n_columns + 1)
        step = max(1, int(_PRODUCTS / (self._values * max(len(rows), 1))))
        for at in range(0, len(rows), step):
            self.progress.check()
            inner_at(*self.X, rows[: at + step], at, self._bias, scratch, out)


class _Dense(ChosenRows):
    def __init__(
        self, X: NDArray[np.floating], n_columns: int, bias: float, piece_bytes: int, progress: Progress
    ) -> None:
        """X may have fewer columns than there are features."""
        super().__init__(X, n_columns, bias, X.shape[1], progress)
        self.X = X
        self._step = max(1, piece_bytes // (8 * (n_columns + 1)))

    def squares(self, rows: Positions) -> Vector:
        count_products(len(rows), len(rows) * self.X.shape[1], True)
        out = np.empty(len(rows))
        for piece, X in self._pieces(rows):
            np.einsum("ij,ij->i", X, X, out=out[piece])
        return out

    def outer(self, rows: Positions, factor: Vector, out: Vector) -> None:
        count_matrix(len(rows) * self.X.shape[1] * (self.X.shape[1] + 1) // 2, True)
        for sign, some in ((1.0, factor > 0), (-1.0, factor < 0)):
            root = np.sqrt(np.abs(factor[some]))
            for piece, X in self._pieces(rows[some]):
                self.progress.check()
                X *= root[piece][:, None]
                add_outer(out, X, sign)

    def inner(self, rows: Positions, out: Vector) -> None:
        count_matrix(len(rows) * (len(rows) + 1) * self.X.shape[1] // 2, True)
        for piece, X in self._pieces(rows):
            for start in range(0, piece.start, self._step):
                self.progress.check()
                other = slice(start, start + self._step)
                out[piece, other] = X @ self._piece(rows[other]).T
            out[piece, piece] = X @ X.T

    def _pieces(self, rows: Positions) -> Iterator[tuple[slice, Vector]]:
        """Some of the rows at a time, (p, d + 1) float64, and where among ``rows`` they are."""
        for start in range(0, len(rows), self._step):
            piece = slice(start, min(start + self._step, len(rows)))
            yield piece, self._piece(rows[piece])

    def _piece(self, rows: Positions) -> Vector:
        d = self.X.shape[1]
        X = np.zeros((len(rows), self._n_columns + 1))
        X[:, :d], X[:, -1] = self.X[rows], self._bias
        return X
