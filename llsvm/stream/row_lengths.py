"""RowLengths measures how long rows are, and how large their values, on the first of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix

_ROWS_LOOKED_AT = 10_000


class RowLengths:
    """Lengths and values of the first rows.

    first_unscaled: columns from this one on (n-grams, categories) keep their values where columns are scaled; None:
    all columns are scaled. largest_value: the largest absolute value."""

    def __init__(self, first_unscaled: int | None) -> None:
        self._first_unscaled = first_unscaled
        self.largest_value = 0.0
        self._n_rows = self._n_values = self._n_unscaled = 0
        self._squares = self._unscaled_squares = 0.0  # sums

    def look_at(self, X: Matrix, n_rows: int) -> None:
        """Measure the next rows, unless enough rows have been measured."""
        values = X.data[X.indptr[0] : X.indptr[-1]] if isinstance(X, CSR) else X
        if self._n_rows >= _ROWS_LOOKED_AT:
            return
        self._n_rows += n_rows
        if not values.size:
            return
        largest = max(abs(float(np.nanmin(values))), abs(float(np.nanmax(values))))
        self.largest_value = max(self.largest_value, largest)
        self._n_values += values.size
        self._squares += _sum_of_squares(values)
        if self._first_unscaled is not None and isinstance(X, CSR):
            unscaled = values[X.indices[X.indptr[0] : X.indptr[-1]] >= self._first_unscaled]
            self._n_unscaled += len(unscaled)
            self._unscaled_squares += _sum_of_squares(unscaled)

    @property
    def squared_norm(self) -> float:
        """Return the mean of ‖x_i‖²."""
        return self._squares / max(self._n_rows, 1)

    def scaled_squared_norm(self, values_per_row: float) -> float:
        """Return ‖x_i‖² of a row with so many values. Squares of values in scaled columns are taken to be 1 on
        average; the other values are as they are."""
        scaled = 1.0 - self._n_unscaled / max(self._n_values, 1)
        return scaled * values_per_row + self._unscaled_squares / max(self._n_rows, 1)


def _sum_of_squares(values: NDArray[np.floating]) -> float:
    with np.errstate(over="ignore"):  # of columns that are scaled nobody asks
        return float(np.nansum(np.square(values, dtype=np.float64)))
