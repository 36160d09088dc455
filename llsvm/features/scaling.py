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

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix, running_sum
from llsvm.objective.rounding import (
    HALF_ULP,
    HALF_ULP64,
    MIN_FLOAT32,
    Rounding,
    doubt_of_columns,
    lost_squares,
)

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


# Statistics of columns, learned block by block in the first reading: what their scales follow from.

_FIELDS = 8  # of the table of statistics, see llsvm.kernels.columns
_MAX_SCALE = 1e301  # weights of raw columns are those of scaled ones times the scale: they must be numbers
_BLURRED = 2.0**-6  # of what a column is divided by, that rounding its values may change
_COLUMN_BYTES = 300  # of a column, while the scale is computed: measured
_TABLE_BYTES = 100  # of a column of another table of statistics, what sums have lost, and their room to grow
_ALL_ONE = np.empty(0)  # weights of rows


class ColumnStatistics:
    """Statistics of every column, learned block by block.

    first_indicator: columns from this one on are indicators of categories, of which nothing is learned: they may be
        many. None: there are none.
    """

    def __init__(self, first_indicator: int | None = None) -> None:
        self._first_indicator = first_indicator
        self._table = np.empty((0, _FIELDS))
        # where rows have weights, those that have one, once each: what rounding has lost is summed over rows
        self._rows: ColumnStatistics | None = None
        self._total = 0.0  # of the rows' weights
        # what rounding has taken of it, and, once rows have weights, (d, 2) of the weights of rows with a value and
        # of the means: the zeros' weight is the difference of two sums, and may be far smaller than either
        self._total_lost, self._lost = 0.0, np.empty((0, 2))
        self.n_columns = 0

    @staticmethod
    def work_bytes(n_columns: int, weighted: bool = False) -> int:
        """Return the bytes that it holds of so many columns, the table's growth and what ``scaling`` works with
        included. weighted: rows have weights."""
        return (_COLUMN_BYTES + _TABLE_BYTES * weighted) * n_columns

    def _learned(self, n_columns: int) -> int:
        return n_columns if self._first_indicator is None else min(n_columns, self._first_indicator)

    def add(self, X: Matrix, weight: NDArray[np.float64] | None = None) -> None:
        """Take some rows in. weight: (n,) sample weights, None where all are 1."""
        if self._first_indicator == 0:
            return
        if weight is not None and self._rows is None:
            self._rows = self._copy()
            self._lost = np.zeros((len(self._table), 2))
        if self._rows is not None:
            self._rows._take_in(X, None if weight is None else (weight > 0).astype(np.float64))
        self._take_in(X, weight)

    def merge(self, other: ColumnStatistics) -> None:
        """Take in the statistics of other rows, by the formulas of Chan, Golub and LeVeque (1979)."""
        if other._rows is not None and self._rows is None:
            self._rows, self._lost = self._copy(), np.zeros((len(self._table), 2))
        if self._rows is not None:
            self._rows.merge(other._rows or other)
        self._grow(other.n_columns)
        self._total, lost = _two_sum(self._total, other._total)
        self._total_lost += other._total_lost + float(lost)
        n = min(len(other._table), len(self._table))
        count, missing, mean, squares, smallest, largest, first, unit = self._table[:n].T
        *theirs, first_there, unit_there = other._table[:n].T
        count_there, missing_there, mean_there, squares_there, smallest_there, largest_there = theirs
        lost_here, lost_there = np.zeros((2, n, 2))
        lost_here[: len(self._lost)], lost_there[: len(other._lost)] = self._lost[:n], other._lost[:n]
        new = count == 0  # columns whose first values are among the other rows
        first[new], unit[new] = first_there[new], unit_there[new]
        common = np.where(count_there > 0, np.minimum(unit, unit_there), unit)
        change = np.divide(common, unit, out=np.ones(n), where=unit > 0)
        change_there = np.divide(common, unit_there, out=np.ones(n), where=unit_there > 0)
        apart = first_there * common - first * common + lost_there[:, 1] * change_there
        away = (mean_there * change_there - mean * change) + (apart - lost_here[:, 1] * change)
        total, lost_of_count = _two_sum(count, count_there)
        missing[:], lost_of_missing = _two_sum(missing, missing_there)
        step = away * np.divide(count_there, total, out=np.zeros(n), where=total > 0)
        squares[:] = squares * change**2 + squares_there * change_there**2 + away * step * count
        mean[:], lost_of_mean = _two_sum(mean * change, step)
        count[:], unit[:] = total, common
        smallest[:], largest[:] = np.minimum(smallest, smallest_there), np.maximum(largest, largest_there)
        if len(self._lost):
            lost_of_sums = lost_here[:, 0] + lost_there[:, 0] + lost_of_count + lost_of_missing
            self._lost[:n] = np.stack([lost_of_sums, lost_here[:, 1] * change + lost_of_mean], axis=1)

    def _copy(self) -> ColumnStatistics:
        copied = copy(self)
        copied._table = self._table.copy()
        return copied

    def _take_in(self, X: Matrix, weight: NDArray[np.float64] | None) -> None:
        from llsvm.kernels.columns import add_csr, add_dense

        if weight is None:
            self._total += len(X.indptr) - 1 if isinstance(X, CSR) else len(X)
        else:
            sums = np.cumsum(np.concatenate([[self._total], weight]))
            _, lost = _two_sum(sums[:-1], weight)
            self._total = float(sums[-1])
            self._total_lost = running_sum(self._total_lost, lost, len(lost))
        weights = _ALL_ONE if weight is None else weight
        if isinstance(X, CSR):
            self._grow(int(X.indices[X.indptr[0] : X.indptr[-1]].max(initial=-1)) + 1)
            add_csr(X.indptr, X.indices, X.data, weights, self._table, self._lost)
        else:
            self._grow(X.shape[1])
            X = X[:, : self._learned(X.shape[1])]
            add_dense(X, weights, self._table, self._lost)

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
            if self._rows is not None:
                lost = np.zeros((room, 2))
                lost[:have] = self._lost
                self._lost = lost

    def _facts(self, n_rows: int, n_columns: int | None = None) -> _Learned:
        """Return the statistics of the first columns, of all where ``n_columns`` is None. n_rows: that have been
        seen."""
        table = self._table[:n_columns]
        if (each := self._rows) is None:
            return _Learned.of(table, n_rows)
        each._grow(len(table))
        has_zeros = each._table[: len(table), :2].sum(axis=1) < each._total
        lost, of_mean = self._lost[: len(table)].T
        return _Learned.of(table, self._total, has_zeros, self._total_lost - lost, of_mean)

    def lost_by_scaling(self, scaling: Scaling, lost: float, n_rows: int) -> float:
        """Return sqrt(Σ e²) over all values after scaling in 32-bit floats; lost: the same before.

        A scaled value is rounded once more, by 2^-24 of itself at most; what was lost before is scaled with its
        column, and of a column it is no more than all, and 2^-24 of its values.
        """
        learned = (self._rows or self)._facts(n_rows, len(scaling.scale))
        count, missing, zeros, mean = learned.count, learned.missing, learned.zeros, learned.mean
        squares = learned.squares / learned.unit / learned.unit
        if scaling.kind == ROW_SCALE:  # the values, and the norm that they are divided by
            return (1.0 + (2.0 if lost else 0.0)) * HALF_ULP * n_rows**0.5
        before = 2.0 * HALF_ULP**2 * (squares + count * mean**2) + 2.0 * n_rows * MIN_FLOAT32**2
        before = np.minimum(before, lost * lost)
        after = squares + count * (mean - scaling.shift) ** 2
        after += (zeros + missing) * scaling.shift**2 + missing * (scaling.fill - scaling.shift) ** 2
        changed = (scaling.scale != 1.0) | (scaling.shift != 0.0) | (missing > 0)
        after = np.where(changed, HALF_ULP**2 * after, 0.0)
        return float(np.sqrt((scaling.scale**2 * before).sum())) + float(
            np.sqrt((scaling.scale**2 * after).sum())
        )

    def lost_by_doubles(self, scaling: Scaling, roundings: Sequence[Rounding], n_rows: int) -> float:
        """Return what ``lost_by_scaling`` does, for values that are kept as 64-bit floats and had more digits than
        these."""
        if scaling.kind == ROW_SCALE:
            return 3.0 * HALF_ULP64 * n_rows**0.5
        learned = self._facts(n_rows, len(scaling.scale))
        largest = np.maximum(np.abs(learned.smallest), np.abs(learned.largest))
        moved = 2.0 * scaling.scale * doubt_of_columns(roundings, largest, HALF_ULP64)
        return float(np.sqrt(n_rows * (moved @ moved)))

    def blurred(
        self, kind: str, n_rows: int, roundings: Sequence[Rounding], half_ulp: float = HALF_ULP
    ) -> int | None:
        """Return the first column whose scale is not known, since its values are too near to 0, or to each other,
        for the floats that they were rounded to; None where there is none. roundings: of the source. half_ulp: of
        the floats."""
        if kind == ROW_SCALE:
            return 0 if any(each.flushed for each in roundings) else None
        if kind == "none" or not lost_squares(roundings):
            return None
        learned = self._facts(n_rows)
        span = learned.span(kind) / learned.unit
        largest = np.maximum(np.abs(learned.smallest), np.abs(learned.largest))
        columns = np.flatnonzero(doubt_of_columns(roundings, largest, half_ulp) > _BLURRED * span)
        return int(columns[0]) if len(columns) else None

    def scaling(self, kind: str, n_rows: int, n_columns: int, is_dense: bool) -> Scaling:
        """Return the scaling of that kind that follows from ``n_rows`` rows of ``n_columns`` columns. Raises
        ScaleError."""
        self._grow(n_columns)
        n_columns = self._learned(n_columns)
        learned = self._facts(n_rows, n_columns)
        fill, deviation, unit = learned.fill, learned.deviation, learned.unit
        shift, scale = np.zeros(n_columns), np.ones(n_columns)
        bad = np.zeros(n_columns, bool)
        if kind == "none":
            bad = np.maximum(-learned.smallest, learned.largest) > MAX_UNSCALED
        if kind == "minmax":
            shift = learned.smallest
        elif kind == "standard":
            shift = fill
        if kind in ("maxabs", "minmax", "standard"):
            span = learned.span(kind)
            with np.errstate(over="ignore"):
                np.divide(unit, span, out=scale, where=span > 0)
                width = learned.largest - learned.smallest
            bad = (scale > _MAX_SCALE) | ((shift != 0) & np.isinf(width))
        if bad.any():
            at = int(np.argmax(bad))
            raise ScaleError(at, float(learned.smallest[at]), float(learned.largest[at]))
        left_out = (learned.zeros > 0) & (shift != 0) if not is_dense else np.zeros(n_columns, bool)
        shift = np.where(left_out, 0.0, shift)
        spread = np.zeros(0, np.float32) if n_columns > MAX_SPREADS else _narrow(deviation / unit)
        far = np.flatnonzero((np.abs(fill * scale) > FAR_OFF) & (learned.rest != 0))
        return Scaling(
            kind, shift, scale, fill, spread, int(np.count_nonzero(left_out)), far, learned.rest[far]
        )


class ScaleError(Exception):
    """A column cannot be scaled. column: its number. smallest, largest: its values."""

    def __init__(self, column: int, smallest: float, largest: float) -> None:
        super().__init__(column, smallest, largest)
        self.column, self.smallest, self.largest = column, smallest, largest


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a + b, and what rounding has taken of it (Knuth)."""
    total = a + b
    added = total - a
    return total, (a - (total - added)) + (b - added)


@dataclass(slots=True)
class _Learned:
    """Statistics of columns from a table, (d,) float64 each. count, missing, zeros: sums of weights of rows. mean:
    of the values that are neither 0 nor missing; squares: Σ (x − mean)² of these, of x · unit. smallest, largest,
    fill, deviation: of all values, the last of x · unit; fill is the mean."""

    count: NDArray[np.float64]
    missing: NDArray[np.float64]
    zeros: NDArray[np.float64]
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]
    smallest: NDArray[np.float64]
    largest: NDArray[np.float64]
    unit: NDArray[np.float64]
    fill: NDArray[np.float64]
    deviation: NDArray[np.float64]
    rest: NDArray[np.float64]
    """What the mean has beyond ``fill``."""

    @classmethod
    def of(
        cls,
        table: NDArray[np.float64],
        n_rows: float,
        has_zeros: Any = None,
        lost: Any = 0.0,
        lost_of_mean: Any = 0.0,
    ) -> _Learned:
        """Compute the statistics of a table. n_rows: the sum of all rows' weights. has_zeros: (d,) is a value 0?
        None where all rows have weight 1: the sums, which are whole numbers then, tell. lost, lost_of_mean: (d,)
        what rounding has taken of the zeros' weight, and of the mean in the table."""
        count, missing, moved, squares, smallest, largest, first, unit = table.T
        unit = np.where(count > 0, unit, 1.0)
        more, less = np.maximum(count, missing), np.minimum(count, missing)
        zeros = ((n_rows - more) - less) + lost  # the larger first: where little is left, that loses nothing
        has_zeros = zeros > 0 if has_zeros is None else has_zeros
        zeros = np.where(has_zeros, np.maximum(zeros, np.finfo(float).tiny), 0.0)
        empty = (count <= 0) & ~has_zeros
        present = np.where(empty, 1.0, count + zeros)
        smallest = np.where(has_zeros, np.minimum(smallest, 0.0), smallest)
        largest = np.where(has_zeros, np.maximum(largest, 0.0), largest)
        smallest, largest = np.where(empty, 0.0, smallest), np.where(empty, 0.0, largest)
        moved_by = moved / unit
        mean = first + moved_by
        back = mean - first
        rest = np.where(
            np.isfinite(mean), (first - (mean - back)) + (moved_by - back) + lost_of_mean / unit, 0.0
        )
        # the zeros join the other values: Chan's formula for two groups, one of them without spread
        scaled = first * unit + moved
        total = squares + scaled * scaled * (count * zeros / present)
        # rounding leaves a trace of spread where all values are the same; what is missing becomes the mean
        deviation = np.where(smallest == largest, 0.0, np.sqrt(total / (n_rows or 1.0)))
        fill = mean * (count / present)
        # exact enough where it matters: of columns whose zeros weigh so little that they hardly move the mean
        rest = np.where(
            np.isfinite(mean), (mean - fill) + (rest * (count / present) - mean * (zeros / present)), 0.0
        )
        return cls(count, missing, zeros, mean, squares, smallest, largest, unit, fill, deviation, rest)

    def span(self, kind: str) -> NDArray[np.float64]:
        """Return what columns times their unit are divided by, (d,); 0 of those that do not vary."""
        smallest, largest = self.smallest * self.unit, self.largest * self.unit
        if kind == "maxabs":
            return np.maximum(np.abs(smallest), np.abs(largest))
        return largest - smallest if kind == "minmax" else self.deviation


def _narrow(values: NDArray[np.float64]) -> NDArray[np.floating]:
    """Return the values as 32-bit floats, unless some of them are too large or too small for these."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    lost = np.isinf(narrow) | ((narrow < np.finfo(np.float32).tiny) & (values > 0))
    return values if lost.any() else narrow
