"""Scaling: columns brought to a like range, or rows to unit length, learned in the first reading.

A scaled value is x' = (x − shift) · scale, column by column. Training sees x'; the weights are handed back for x,
since w'·x' + b = (w'∘scale)·x + b − w'·(shift∘scale): raw data goes in at prediction and nothing more is stored.

A shift would turn the zeros that sparse data does not store into values. So where rows are kept sparse,
a column is shifted only if none of its values is 0; the shift of every other column is left to the bias,
which is what absorbs it. Where rows are dense, every column is shifted.

    kind        shift       scale
    maxabs      0           1 / max |x|
    minmax      min         1 / (max − min)
    standard    mean        1 / standard deviation
    unit-row    each row is divided by its Euclidean norm (at prediction too)

A column that does not vary (for maxabs: that is all zero), or by less than 2e-308, has scale 1. Columns from
``first_indicator`` on are indicators of categories and stay 0 and 1. ``fill`` replaces missing values (NaN): the
column's mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix
from llsvm.objective.rounding import HALF_ULP, MIN_FLOAT32

ROW_SCALE = "unit-row"
MAX_SPREADS = 1 << 20  # of more columns no spread is kept
UNSCALED_ABOVE = 100.0  # where values are larger than this, coordinate descent hardly converges
_FIELDS = 6  # of the table of statistics, see llsvm.kernels.columns
_CHUNK = 1 << 16
_MIN_SPAN = float(np.finfo(np.float64).tiny)  # one over less is no number
_COLUMN_BYTES = 260  # of a column, while the scale is computed: measured


class ColumnStatistics:
    """What is learned of every column, block by block.

    first_indicator: columns from this one on are indicators of categories, of which nothing is learned: they may be
        many. None: there are none.
    """

    def __init__(self, first_indicator: int | None = None) -> None:
        self._first_indicator = first_indicator
        self._table = np.empty((0, _FIELDS))
        self.n_columns = 0

    @staticmethod
    def work_bytes(n_columns: int) -> int:
        """What it holds of so many columns, the table's growth and what ``scaling`` works with included."""
        return _COLUMN_BYTES * n_columns

    def _learned(self, n_columns: int) -> int:
        return n_columns if self._first_indicator is None else min(n_columns, self._first_indicator)

    def add(self, X: Matrix) -> None:
        """Take some rows in."""
        from llsvm.kernels.columns import add_csr, add_dense

        if self._first_indicator == 0:
            return
        if isinstance(X, CSR):
            begin, end = int(X.indptr[0]), int(X.indptr[-1])
            self._grow(int(X.indices[begin:end].max(initial=-1)) + 1)
            add_csr(begin, end, X.indices, X.data, self._table)
        else:
            self._grow(X.shape[1])
            add_dense(X[:, : self._learned(X.shape[1])], self._table)

    def _grow(self, n_columns: int) -> None:
        n_columns = self._learned(n_columns)
        self.n_columns = max(self.n_columns, n_columns)
        have = len(self._table)
        if n_columns > have:
            room = n_columns if have == 0 else max(n_columns, have + have // 4)
            table = np.zeros((room, _FIELDS))
            table[:, 4], table[:, 5] = np.inf, -np.inf
            table[:have] = self._table
            self._table = table

    def lost_by_scaling(self, scaling: Scaling, lost: float, n_rows: int) -> float:
        """sqrt(Σ e²) over all values after scaling in 32-bit floats; lost: the same before.

        A scaled value is rounded once more, by 2^-24 of itself at most; what was lost before is scaled with its
        column, and of a column it is no more than all, and 2^-24 of its values.
        """
        count, missing, mean, squares, _, _ = self._table[: len(scaling.scale)].T
        if scaling.kind == ROW_SCALE:  # the values, and the norm that they are divided by
            return (1.0 + (2.0 if lost else 0.0)) * HALF_ULP * n_rows**0.5
        zeros = n_rows - count - missing
        before = 2.0 * HALF_ULP**2 * (squares + count * mean**2) + 2.0 * n_rows * MIN_FLOAT32**2
        before = np.minimum(before, lost * lost)
        after = squares + count * (mean - scaling.shift) ** 2
        after += (zeros + missing) * scaling.shift**2 + missing * (scaling.fill - scaling.shift) ** 2
        changed = (scaling.scale != 1.0) | (scaling.shift != 0.0) | (missing > 0)
        after = np.where(changed, HALF_ULP**2 * after, 0.0)
        return float(np.sqrt((scaling.scale**2 * before).sum())) + float(
            np.sqrt((scaling.scale**2 * after).sum())
        )

    def scaling(self, kind: str, n_rows: int, n_columns: int, is_dense: bool) -> Scaling:
        """What follows from ``n_rows`` rows of ``n_columns`` columns for the scale of that kind."""
        self._grow(n_columns)
        n_columns = self._learned(n_columns)
        count, missing, mean, squares, smallest, largest = self._table[:n_columns].T
        zeros = n_rows - count - missing
        present = np.maximum(n_rows - missing, 1.0)
        has_zeros = zeros > 0
        smallest = np.where(has_zeros, np.minimum(smallest, 0.0), smallest)
        largest = np.where(has_zeros, np.maximum(largest, 0.0), largest)
        empty = count + zeros <= 0
        smallest, largest = np.where(empty, 0.0, smallest), np.where(empty, 0.0, largest)
        fill = mean * (count / present)
        shift = np.zeros(n_columns)
        span = np.ones(n_columns)
        # the zeros join the other values: Chan's formula for two groups, one of them without spread
        total = squares + mean * mean * (count * zeros / present)
        # rounding leaves a trace of spread where all values are the same; what is missing becomes the mean
        deviation = np.where(smallest == largest, 0.0, np.sqrt(total / n_rows))
        if kind == "maxabs":
            span = np.maximum(np.abs(smallest), np.abs(largest))
        elif kind == "minmax":
            shift, span = smallest, largest - smallest
        elif kind == "standard":
            shift, span = fill, deviation
        scale = np.divide(1.0, span, out=np.ones(n_columns), where=span >= _MIN_SPAN)
        left_out = has_zeros & (shift != 0) if not is_dense else np.zeros(n_columns, bool)
        shift = np.where(left_out, 0.0, shift)
        spread = deviation.astype(np.float32) if n_columns <= MAX_SPREADS else np.zeros(0, np.float32)
        return Scaling(kind, shift, scale, fill, spread, int(np.count_nonzero(left_out)))


@dataclass(slots=True)
class Scaling:
    """x' = (x − shift) · scale with missing x replaced by ``fill``; then unit rows, if that is the kind.

    kind: "maxabs", "minmax", "standard", "none" or ROW_SCALE.
    shift, scale, fill: (d,) float64; columns from d on, indicators of categories, stay as they are.
    spread: (d,) float32, the columns' standard deviations, unscaled; (0,) of more than MAX_SPREADS columns.
    left_out: how many columns' shift is left to the bias.
    """

    kind: str
    shift: NDArray[np.float64]
    scale: NDArray[np.float64]
    fill: NDArray[np.float64]
    spread: NDArray[np.float32]
    left_out: int = 0

    @staticmethod
    def bytes_for(n_columns: int) -> int:
        """``nbytes`` of so many columns."""
        return (28 if n_columns <= MAX_SPREADS else 24) * n_columns

    @property
    def nbytes(self) -> int:
        return int(self.shift.nbytes + self.scale.nbytes + self.fill.nbytes + self.spread.nbytes)

    def apply(self, X: Matrix) -> None:
        """Scale rows in place."""
        from llsvm.kernels.columns import scale_csr

        if isinstance(X, CSR):
            begin, end = int(X.indptr[0]), int(X.indptr[-1])
            if len(self.scale):
                scale_csr(begin, end, X.indices, X.data, self.shift, self.scale, self.fill)
        else:
            d = min(X.shape[1], len(self.scale))
            for part in _pieces(X[:, :d]):
                wide = part.astype(np.float64)
                np.copyto(wide, self.fill[:d], where=np.isnan(wide))
                wide -= self.shift[:d]
                wide *= self.scale[:d]
                part[...] = wide
        if self.kind == ROW_SCALE:
            to_unit_rows(X)

    def raw_weights(self, coef: NDArray[np.float64], intercept: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn weights (k, d), in place, into those for x that score as they do for x'; returns the intercept (k,)
        that goes with them."""
        d = len(self.scale)
        coef[:, :d] *= self.scale
        return intercept - coef[:, :d] @ self.shift


def to_unit_rows(X: Matrix) -> None:
    """Divide every row by its Euclidean norm, in place; rows of zeros stay."""
    from llsvm.kernels.columns import unit_csr

    if isinstance(X, CSR):
        unit_csr(X.indptr, X.data)
        return
    for part in _pieces(X):
        wide = part.astype(np.float64)
        norms = np.sqrt(np.einsum("ij,ij->i", wide, wide))
        norms[norms == 0] = 1.0
        part[...] = wide / norms[:, None]


def filled(X: Matrix, fill: NDArray[np.float64], base: int) -> Matrix:
    """The rows with what is missing (NaN) in column ``base + j`` replaced by ``fill[j]``; a copy where any is."""
    gone = np.isnan(X.data if isinstance(X, CSR) else X)
    if not gone.any():
        return X
    if isinstance(X, CSR):
        data = X.data.copy()
        data[gone] = fill.take(X.indices[gone] - base, mode="clip")  # unknown columns are not scored
        return CSR(X.indptr, X.indices, data)
    X = X.copy()
    row, column = np.nonzero(gone)
    X[row, column] = fill[column - base]
    return X


def unit_rows(X: Matrix) -> Matrix:
    """A copy of the rows, each of unit length."""
    copied: Matrix
    if isinstance(X, CSR):
        begin, end = int(X.indptr[0]), int(X.indptr[-1])
        copied = CSR(X.indptr - begin, X.indices[begin:end], X.data[begin:end].copy())
    else:
        copied = X.astype(np.float64) if X.dtype.kind != "f" else X.copy()
    to_unit_rows(copied)
    return copied


def _pieces(X: NDArray[np.floating]) -> list[NDArray[np.floating]]:
    step = max(1, _CHUNK // max(X.shape[1], 1))
    return [X[start : start + step] for start in range(0, len(X), step)]
