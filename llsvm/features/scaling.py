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

A column that does not vary (for maxabs: that is all zero) has scale 1. One that varies by less than 1e-301, or by
more than 64-bit floats tell, is refused: its scale is no number. Columns from ``first_indicator`` on are indicators
of categories and stay 0 and 1. ``fill`` replaces missing values (NaN): the column's mean. Rows count by their
sample weights: one of weight 2 is that row twice, one of weight 0 is no row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix

ROW_SCALE = "unit-row"
MAX_SPREADS = 1 << 20  # of more columns no spread is kept
MAX_UNSCALED = 1e140  # of a value that is not scaled: products of larger ones are no 64-bit floats
UNSCALED_ABOVE = 100.0  # where values are larger than this, coordinate descent hardly converges
_CHUNK = 1 << 16
FAR_OFF = 2.0**20  # of |shift · scale|: beyond, sums of raw values lose too many digits


@dataclass(slots=True)
class Scaling:
    """x' = (x − shift) · scale with missing x replaced by ``fill``; then unit rows, if that is the kind.

    kind: "maxabs", "minmax", "standard", "none" or ROW_SCALE.
    shift, scale, fill: (d,) float64; columns from d on, indicators of categories, stay as they are.
    spread: (d,) float32 (float64 where these cannot hold them), the columns' standard deviations, unscaled; (0,) of
        more than MAX_SPREADS columns.
    left_out: how many columns' shift is left to the bias.
    far, rest: (m,) columns of which a 64-bit float tells the mean less well than they vary, and what their means
        have beyond ``fill``.
    """

    kind: str
    shift: NDArray[np.float64]
    scale: NDArray[np.float64]
    fill: NDArray[np.float64]
    spread: NDArray[np.floating]
    left_out: int = 0
    far: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))
    rest: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    @staticmethod
    def bytes_for(n_columns: int) -> int:
        """Return ``nbytes`` of so many columns."""
        return (28 if n_columns <= MAX_SPREADS else 24) * n_columns

    @property
    def nbytes(self) -> int:
        arrays = (self.shift, self.scale, self.fill, self.spread, self.far, self.rest)
        return sum(array.nbytes for array in arrays)

    @property
    def shift_rest(self) -> NDArray[np.float64]:
        """(m,) what is subtracted of the columns ``far`` beyond ``shift``."""
        is_mean = (self.kind == "standard") & (self.shift[self.far] != 0)
        return np.where(is_mean, self.rest, 0.0)

    def _scaled_far(self, values: NDArray[Any], at: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the values of columns ``far[at]``, scaled; both of one shape."""
        wide, columns, rest = values.astype(np.float64), self.far[at], self.shift_rest[at]
        gone = np.isnan(wide)
        wide -= self.shift[columns]
        wide -= rest
        filled = (self.fill - self.shift)[columns] + (self.rest[at] - rest)
        return np.where(gone, filled, wide) * self.scale[columns]

    def apply(self, X: Matrix) -> None:
        """Scale rows in place."""
        from llsvm.kernels.columns import scale_csr

        if isinstance(X, CSR):
            begin, end = int(X.indptr[0]), int(X.indptr[-1])
            places = (
                begin + np.flatnonzero(np.isin(X.indices[begin:end], self.far)) if len(self.far) else self.far
            )
            far = self._scaled_far(X.data[places], np.searchsorted(self.far, X.indices[places]))
            if len(self.scale):
                scale_csr(begin, end, X.indices, X.data, self.shift, self.scale, self.fill)
            X.data[places] = far
        else:
            d = min(X.shape[1], len(self.scale))
            known = np.flatnonzero(self.far < d)
            for part in _pieces(X[:, :d]):
                far = self._scaled_far(part[:, self.far[known]], known)
                wide = part.astype(np.float64)
                np.copyto(wide, self.fill[:d], where=np.isnan(wide))
                wide -= self.shift[:d]
                wide *= self.scale[:d]
                wide[:, self.far[known]] = far
                part[...] = wide
        if self.kind == ROW_SCALE:
            to_unit_rows(X)

    def raw_weights(self, coef: NDArray[np.float64], intercept: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn weights (k, d), in place, into those for x − ``center`` that score as they do for x'; returns the
        intercept (k,) that goes with them."""
        d = len(self.scale)
        with np.errstate(over="ignore", invalid="ignore"):  # what is no number any more is refused
            coef[:, :d] *= self.scale
            intercept = intercept - coef[:, self.far] @ self.shift_rest
            return intercept - coef[:, :d] @ (self.shift - self.center)

    @property
    def center(self) -> NDArray[np.float64]:
        """(d,) what scores of raw rows must take off the values first, since these differ in their last digits
        only: the shift of such columns, 0 of the others."""
        return np.where(np.abs(self.shift * self.scale) > FAR_OFF, self.shift, 0.0)


def to_unit_rows(X: Matrix) -> None:
    """Divide every row by its Euclidean norm, in place; rows of zeros stay."""
    from llsvm.kernels.columns import unit_csr

    if isinstance(X, CSR):
        unit_csr(X.indptr, X.data)
        return
    for part in _pieces(X):
        wide = part.astype(np.float64)
        if wide.size and part.dtype == np.float64:  # no square leaves the range of a float64
            wide *= np.ldexp(1.0, -np.clip(np.frexp(np.abs(wide).max(axis=1))[1], -1000, 1000))[:, None]
        norms = np.sqrt(np.einsum("ij,ij->i", wide, wide))
        norms[norms == 0] = 1.0
        part[...] = wide / norms[:, None]


def filled(X: Matrix, fill: NDArray[np.float64] | None, base: int) -> Matrix:
    """Return the rows with what is missing (NaN) in column ``base + j`` replaced by ``fill[j]``, by 0 beyond its
    end or where it is None; a copy where any is."""
    gone = np.isnan(X.data if isinstance(X, CSR) else X)
    if not gone.any():
        return X
    fill = np.append(np.zeros(0) if fill is None else fill, 0.0)
    if isinstance(X, CSR):
        data = X.data.copy()
        data[gone] = fill.take(X.indices[gone] - base, mode="clip")
        return CSR(X.indptr, X.indices, data)
    X = X.copy()
    row, column = np.nonzero(gone)
    X[row, column] = fill.take(column - base, mode="clip")
    return X


def unit_rows(X: Matrix) -> Matrix:
    """Return a copy of the rows, each of unit length."""
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
