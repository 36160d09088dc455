"""Scales of columns as rows of a state, and sums of scaled rows brought to other scales.

A scaled value is x' = (x − shift) · scale, so of any coefficients c_i

    Σ c_i x'_i = scale · (Σ c_i x_i − shift · Σ c_i),

where Σ c_i is the weight of the constant feature, divided by its value. That is not quite so where the x'_i were
rounded, or means that missing values were replaced by have changed: such sums are as good a start as exact ones,
but no certificate may rest on them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.features.scaling import Scaling
from llsvm.solvers.state import RowValues

# Columns looked at together, 2.6 MB of their scales: fewer take more calls, more take more memory.
_PIECE = 1 << 16


class ColumnScales:
    """The shift, scale and fill of each scaled column, and what shift and fill lack of the mean, as RowValues: each
    column is a row of these."""

    width, dtype = 5, np.dtype(np.float64)

    def __init__(self, scaling: Scaling) -> None:
        self.n_rows = len(scaling.scale)
        self._scaling = scaling

    @classmethod
    def of(cls, scaling: Scaling | None) -> ColumnScales | None:
        """None where no column is scaled."""
        return None if scaling is None else cls(scaling)

    def get(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        scaling = self._scaling
        rest = np.zeros((2, len(rows)))
        _, among, far = np.intersect1d(rows, scaling.far, assume_unique=True, return_indices=True)
        rest[:, among] = scaling.shift_rest[far], scaling.rest[far]
        return np.stack([scaling.shift[rows], scaling.scale[rows], scaling.fill[rows], *rest], axis=1)


def are_same(before: RowValues | None, now: RowValues | None) -> bool:
    """Return whether columns are scaled as they were. Columns that are new in ``now`` count for nothing."""
    if before is None or now is None:
        return before is now
    pieces = _pieces(before.n_rows)
    return before.n_rows <= now.n_rows and all(
        np.array_equal(before.get(columns), now.get(columns)) for columns in pieces
    )


def rescale(w: NDArray[np.float64], before: RowValues | None, now: RowValues | None, constant: float) -> bool:
    """Bring sums (p, d + 1) of rows, the constant feature's the last, from one scaling to the other. constant: the
    value of that feature. False where this cannot be told; w is then of no use."""
    if before is None or now is None or before.n_rows > now.n_rows:
        return False
    for columns in _pieces(before.n_rows):
        shift, scale, _, rest, _ = before.get(columns).T
        new_shift, new_scale, _, new_rest, _ = now.get(columns).T
        moved = (shift - new_shift) + (rest - new_rest)
        part = w[:, columns[0] : columns[-1] + 1]
        with np.errstate(over="ignore", invalid="ignore"):
            part *= new_scale / scale
            if moved.any():
                if constant == 0:
                    return False
                part += np.outer(w[:, -1] / constant, moved * new_scale)
    return bool(np.isfinite(w).all())


def _pieces(n: int) -> list[NDArray[np.int64]]:
    return [np.arange(start, min(start + _PIECE, n)) for start in range(0, n, _PIECE)]
