"""DatasetInfo: what is known of a data set once it has been read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import ROW_BYTES, WEIGHT_BYTES


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """What is known of a data set once it has been read.

    n_columns: columns of the blocks, which are numbered as in the source. first_column: the column that is
    feature 0 (1 where svmlight indices start at 1: column 0 is then empty). nnz: stored values.
    classes: (k,) labels, ascending; counts: (k,) rows of each. is_dense: blocks are dense arrays.
    dtype: of the values. weighted: rows have sample weights.
    squared_norm: about how large ‖x_i‖² is, as solvers see the rows: what scaling leaves, else that of the first.
    largest_value: absolute, of the first rows as the source has them.
    """

    name: str
    n_rows: int
    n_columns: int
    first_column: int
    nnz: int
    classes: NDArray[Any]
    counts: NDArray[np.int64]
    is_dense: bool
    dtype: np.dtype
    weighted: bool
    squared_norm: float = 0.0
    largest_value: float = 0.0

    @property
    def n_features(self) -> int:
        return self.n_columns - self.first_column

    @property
    def bytes_per_row(self) -> float:
        """Of the values (and column numbers), on average."""
        if self.is_dense:
            return self.n_columns * self.dtype.itemsize
        return self.nnz / self.n_rows * (4 + self.dtype.itemsize)

    @property
    def held_bytes_per_row(self) -> float:
        """Of a row at hand, on average."""
        return self.bytes_per_row + ROW_BYTES + (WEIGHT_BYTES if self.weighted else 0)
