"""A piece of a block's rows as sums see it: sparse by kernels, dense by the machine's matrix product in float64.
The constant feature is the last column of both."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block, Matrix
from llsvm.dataset import DatasetInfo
from llsvm.process.work import count_matrix, count_products
from llsvm.solvers.optim.lapack import add_outer
from llsvm.solvers.smsvm.kernels import add_products_csr, add_rows_csr, add_squares_csr, margins_csr
from llsvm.solvers.smsvm.sums import Point
from llsvm.solvers.smsvm.tuning import SmSVMTuning

Vector = NDArray[np.float64]


class Rows(Protocol):
    """n rows of d + 1 columns. factor: (n,) float64, for each row; out: float64, added to."""

    def margins(self, weights: Vector) -> Vector:
        """(m, n) of each row with each of the m weights, (m, d + 1)."""
        ...

    def add_rows(self, factor: Vector, out: Vector) -> None:
        """out (d + 1,) += Σ factor_i x_i."""
        ...

    def add_squares(self, factor: Vector, out: Vector) -> None:
        """out (d + 1,) += Σ factor_i x_i², the Hessian's diagonal."""
        ...

    def add_products(self, factor: Vector, point: Point, out: Vector) -> None:
        """Lower triangle of out (A, A) += Σ factor_i x_i x_iᵀ over the point's active columns; factor ≥ 0."""
        ...


def as_rows(X: Matrix, bias: float) -> Rows:
    """bias: value of the constant feature."""
    return _Sparse(X, bias) if isinstance(X, CSR) else _Dense(X, bias)


class _Sparse:
    def __init__(self, X: CSR, bias: float) -> None:
        self.X = X
        self.bias = bias

    def margins(self, weights: Vector) -> Vector:
        self._count(len(weights))
        out = np.empty((len(weights), len(self.X.indptr) - 1))
        margins_csr(*self.X, weights, self.bias, out)
        return out

    def add_rows(self, factor: Vector, out: Vector) -> None:
        self._count()
        add_rows_csr(*self.X, factor, self.bias, out)

    def add_squares(self, factor: Vector, out: Vector) -> None:
        self._count()
        add_squares_csr(*self.X, factor, self.bias, out)

    def add_products(self, factor: Vector, point: Point, out: Vector) -> None:
        n, bent = self.X.indptr[-1] - self.X.indptr[0], int(np.count_nonzero(factor))
        # values of a row in active columns
        active = int(n) * len(out) / max(len(factor) * len(point.target), 1)
        count_matrix(int(bent * active * (active + 1)) // 2, False)
        columns, values = np.empty(len(out), np.int64), np.empty(len(out))
        add_products_csr(*self.X, factor, self.bias, point.place, columns, values, out)

    def _count(self, times: int = 1) -> None:
        n_rows, values = len(self.X.indptr) - 1, int(self.X.indptr[-1] - self.X.indptr[0])
        count_products(times * n_rows, times * values, False)


class _Dense:
    def __init__(self, X: NDArray[np.floating], bias: float) -> None:
        n, d = X.shape
        self.X = np.empty((n, d + 1))
        self.X[:, :d] = X
        self.X[:, d] = bias

    def margins(self, weights: Vector) -> Vector:
        count_products(len(weights) * len(self.X), len(weights) * self.X.size, True)
        return np.asarray(weights @ self.X.T)

    def add_rows(self, factor: Vector, out: Vector) -> None:
        count_products(len(self.X), self.X.size, True)
        out += factor @ self.X

    def add_squares(self, factor: Vector, out: Vector) -> None:
        count_products(len(self.X), self.X.size, True)
        out += factor @ (self.X * self.X)

    def add_products(self, factor: Vector, point: Point, out: Vector) -> None:
        rows = np.flatnonzero(factor > 0)
        count_matrix(len(rows) * len(out) * (len(out) + 1) // 2, True)
        if len(out) < self.X.shape[1]:
            part = self.X[np.ix_(rows, np.asarray(point.active))]
        else:
            part = self.X[rows]
        part *= np.sqrt(factor[rows])[:, None]
        add_outer(out, part)


def pieces(block: Block, tuning: SmSVMTuning) -> Iterator[Block]:
    """The block in pieces, so that what is worked with does not grow with it."""
    rows = piece_rows(block, tuning)
    for start in range(0, block.n_rows, rows):
        yield block.slice(start, min(start + rows, block.n_rows))


def piece_rows(block: Block, tuning: SmSVMTuning) -> int:
    """How many rows of the block make a piece."""
    return tuning.piece_rows if isinstance(block.X, CSR) else _dense_rows(block.X.shape[1], tuning)


def work_bytes(n_columns: int, is_dense: bool, tuning: SmSVMTuning) -> int:
    """Bytes that one thread needs for the piece it works on."""
    if not is_dense:
        return tuning.piece_rows * 10 * 8
    return 3 * rows_bytes(_dense_rows(n_columns, tuning), n_columns)


def copy_bytes(n_columns: int, dataset: DatasetInfo, tuning: SmSVMTuning) -> int:
    """Bytes of a copy of that piece, and of what making it takes."""
    if dataset.is_dense:
        return rows_bytes(_dense_rows(n_columns, tuning), n_columns)
    return math.ceil(4 * tuning.piece_rows * dataset.bytes_per_row)


def rows_bytes(n_rows: int, n_columns: int) -> int:
    """Of so many dense rows as float64, with the constant feature."""
    return n_rows * (n_columns + 1) * 8


def _dense_rows(n_columns: int, tuning: SmSVMTuning) -> int:
    return max(1, tuning.piece_bytes // rows_bytes(1, n_columns))
