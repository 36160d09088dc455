"""A piece of a block's rows as sums see it; the Hessian of dense ones by the machine's matrix product in float64.
The constant feature is the last column."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block, Matrix, parts_of
from llsvm.dataset import DatasetInfo
from llsvm.process.work import count_matrix, count_products
from llsvm.solvers.optim.lapack import add_outer
from llsvm.solvers.smsvm.kernels import add_products_csr, add_rows, margins
from llsvm.solvers.smsvm.sums import Point
from llsvm.solvers.smsvm.tuning import SmSVMTuning

Vector = NDArray[np.float64]


class Rows:
    """n rows of d + 1 columns. factor: (n,) float64, for each row; out: float64, added to."""

    def __init__(self, X: Matrix, bias: float) -> None:
        """bias: value of the constant feature."""
        self._X, self._bias, self._parts = X, bias, parts_of(X)
        if isinstance(X, CSR):
            self._n_rows, self._values = len(X.indptr) - 1, int(X.indptr[-1] - X.indptr[0])
        else:
            self._n_rows, self._values = len(X), X.size

    def margins(self, weights: Vector) -> Vector:
        """(m, n) of each row with each of the m weights, (m, d + 1)."""
        self._count(len(weights))
        out = np.empty((len(weights), self._n_rows))
        margins(*self._parts, weights, self._bias, out)
        return out

    def add_rows(self, factor: Vector, out: Vector) -> None:
        """out (d + 1,) += Σ factor_i x_i."""
        self._count()
        add_rows(*self._parts, factor, self._bias, False, out)

    def add_squares(self, factor: Vector, out: Vector) -> None:
        """out (d + 1,) += Σ factor_i x_i², the Hessian's diagonal."""
        self._count()
        add_rows(*self._parts, factor, self._bias, True, out)

    def add_products(self, factor: Vector, point: Point, out: Vector) -> None:
        """Lower triangle of out (A, A) += Σ factor_i x_i x_iᵀ over the point's active columns; factor ≥ 0."""
        rows, X, order = np.flatnonzero(factor > 0), self._X, len(out)
        if isinstance(X, CSR):
            active = (
                self._values * order / max(self._n_rows * len(point.target), 1)
            )  # values of a row that count
            count_matrix(int(len(rows) * active * (active + 1)) // 2, False)
            columns, values = np.empty(order, np.int64), np.empty(order)
            add_products_csr(*X, factor, self._bias, point.place, columns, values, out)
            return
        count_matrix(len(rows) * order * (order + 1) // 2, True)
        wide = np.full((len(rows), X.shape[1] + 1), self._bias)
        wide[:, :-1] = X[rows]
        part = wide if order == wide.shape[1] else np.take(wide, np.asarray(point.active), axis=1)
        part *= np.sqrt(factor[rows])[:, None]
        add_outer(out, part)

    def _count(self, times: int = 1) -> None:
        count_products(times * self._n_rows, times * self._values, not isinstance(self._X, CSR))


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
