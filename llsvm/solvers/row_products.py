"""Products of the rows at hand, the constant feature included, with weights and coefficients of all classes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block, Matrix
from llsvm.kernels.row_sums import add_rows
from llsvm.kernels.scores import matrix_scores
from llsvm.process.work import count_products
from llsvm.solvers.optim.row_operator import RowOperator
from llsvm.stream.progress import Progress

Array = NDArray[np.float64]
PIECE_BYTES = (
    1 << 18
)  # rows are worked on in pieces of so much, as float64: they stay in the processor's cache


def piece_bytes(width: int) -> int:
    """Of a piece of rows of so many features, at most: it has one row at least."""
    return max(PIECE_BYTES, 8 * width)


class RowProducts:
    """x_i is row i with the constant feature ``bias`` as its last; W and sums are (d + 1, k) float64."""

    def __init__(self, block: Block, bias: float, width: int, n_classes: int) -> None:
        self._block, self.bias = block, bias
        self.n_rows, self.width = block.n_rows, width
        self.row_numbers = block.nbytes / max(block.n_rows, 1) / 8  # of a row, in float64
        self.piece_rows = max(1, PIECE_BYTES // (8 * (self.width * block.is_dense + 8 * n_classes)))
        self.dense_piece_rows = max(1, PIECE_BYTES // (8 * self.width))

    def pieces(self, start: int, stop: int) -> Iterator[slice]:
        """Of the rows start..stop."""
        for at in range(start, stop, self.piece_rows):
            yield slice(at, min(at + self.piece_rows, stop))

    def matrix(self, rows: slice | NDArray[np.int64]) -> Matrix:
        """Some rows; a slice copies nothing."""
        if isinstance(rows, slice):
            return self._block.slice(rows.start, rows.stop).X
        return self._block.take(rows).X

    def scores(self, X: Matrix, W: Array) -> Array:
        """X W of rows from ``matrix``."""
        _count(X, W.shape[1])
        return matrix_scores(X, W[:-1], self.bias * W[-1])

    def squares(self, X: Matrix) -> float:
        """Σ ‖x_i‖² of rows from ``matrix``."""
        values = X.data[X.indptr[0] : X.indptr[-1]] if isinstance(X, CSR) else X
        values = values.reshape(-1)
        n_rows = len(X.indptr) - 1 if isinstance(X, CSR) else len(X)
        return float(np.einsum("i,i", values, values, dtype=np.float64)) + n_rows * self.bias**2

    def add(self, X: Matrix, coefficients: Array, out: Array) -> None:
        """out += Xᵀ V."""
        _count(X, out.shape[1])
        if isinstance(X, CSR):
            add_rows(*X, coefficients, out)
        else:
            out[:-1] += X.T.astype(np.float64, copy=False) @ coefficients
        out[-1] += self.bias * coefficients.sum(axis=0)

    def add_squares(self, X: Matrix, coefficients: Array, out: Array) -> None:
        """``add`` of the squares of all values."""
        _count(X, out.shape[1])
        if isinstance(X, CSR):
            start, stop = int(X.indptr[0]), int(X.indptr[-1])
            values = X.data[start:stop].astype(np.float64)
            values *= values
            add_rows(X.indptr - start, X.indices[start:stop], values, coefficients, out)
        else:
            wide = X.T.astype(np.float64)
            wide *= wide
            out[:-1] += wide @ coefficients
        out[-1] += self.bias**2 * coefficients.sum(axis=0)

    def dense(self, rows: NDArray[np.int64]) -> Array:
        """Some rows as (len(rows), d + 1) float64."""
        X = self._block.take(rows).X
        out = np.zeros((len(rows), self.width))
        if isinstance(X, CSR):
            out[np.repeat(np.arange(len(rows)), np.diff(X.indptr)), X.indices] = X.data
        else:
            out[:, :-1] = X
        out[:, -1] = self.bias
        return out

    def operator(self, progress: Progress) -> RowOperator:
        """Return what makes matrices of the rows. progress: of the run."""
        return RowOperator(self._block.X, self.width - 1, self.bias, PIECE_BYTES, progress)


def _count(X: Matrix, times: int) -> None:
    """Count products of the rows with so many vectors."""
    if isinstance(X, CSR):
        n_rows, values = len(X.indptr) - 1, int(X.indptr[-1] - X.indptr[0])
    else:
        n_rows, values = len(X), X.size
    count_products(times * n_rows, times * values, not isinstance(X, CSR))
