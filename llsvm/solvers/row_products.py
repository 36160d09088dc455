"""Products of the rows at hand, the constant feature included, with weights and coefficients of all classes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, FLOAT64_BYTES, Block, Matrix
from llsvm.kernels.row_sums import add_rows
from llsvm.kernels.scores import matrix_scores
from llsvm.solvers.optim.row_operator import RowOperator
from llsvm.stream.progress import Progress

Array = NDArray[np.float64]
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
