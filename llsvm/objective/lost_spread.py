"""How far rounding values to 32-bit floats may have changed the way in which columns vary: where that is as much as
they vary, their means and standard deviations are not known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

HALF_ULP = 2.0**-24  # rounding to float32 changes a number by at most this share of it
HALF_ULP64 = 2.0**-53  # and rounding to float64
MIN_FLOAT32 = 2.0**-149  # numbers nearer to 0 are rounded to a multiple of it
NORMAL_FLOAT32 = 2.0**-126  # rounding numbers nearer to 0 takes more than 2^-24 of them
_VARIED = 2.0**-12  # of its largest value, that a column must vary by to be seen to vary


class LostSpread:
    """By how much that which rounding has taken off a column's values differs from row to row, of columns that do
    not seem to vary: of others it is no more than 2^-24 of the values. low, high: (d,) the least and the most."""

    def __init__(self) -> None:
        self.low = np.empty(0)
        self.high = np.empty(0)
        self.constant = np.empty(0, bool)
        """(d,) all values of a batch were nearly the same, so far."""

    def note(self, lost: NDArray[np.float64], kept: NDArray[Any], first: int) -> None:
        """lost, kept: (n, m), of columns ``first`` and on."""
        stop = first + kept.shape[1]
        if stop > len(self.low):
            more = stop - len(self.low)
            self.low, self.high = np.pad(self.low, (0, more)), np.pad(self.high, (0, more))
            self.constant = np.pad(self.constant, (0, more), constant_values=True)
            self.low[-more:], self.high[-more:] = np.inf, -np.inf
        at = first + np.flatnonzero(self.constant[first:stop])
        if not len(at) or not len(kept):
            return
        if len(at) < kept.shape[1]:
            lost, kept = lost[:, at - first], kept[:, at - first]
        least, most = np.fmin.reduce(kept, axis=0), np.fmax.reduce(kept, axis=0)
        range_ = most.astype(np.float64) - least
        largest = np.maximum(np.abs(least), np.abs(most))
        self.constant[at] = ~((range_ > _VARIED * largest) & (range_ > NORMAL_FLOAT32))
        self.low[at] = np.fmin(self.low[at], np.fmin.reduce(lost, axis=0))
        self.high[at] = np.fmax(self.high[at], np.fmax.reduce(lost, axis=0))

    def take_in(self, other: LostSpread) -> None:
        d = max(len(self.low), len(other.low))
        mine, theirs = self._padded(d), other._padded(d)
        self.low, self.high = np.minimum(mine[0], theirs[0]), np.maximum(mine[1], theirs[1])
        self.constant = mine[2] & theirs[2]

    def _padded(self, d: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
        more = d - len(self.low)
        return (
            np.pad(self.low, (0, more), constant_values=np.inf),
            np.pad(self.high, (0, more), constant_values=-np.inf),
            np.pad(self.constant, (0, more), constant_values=True),
        )

    def doubt(self, largest: NDArray[np.float64], half_ulp: float) -> NDArray[np.float64]:
        """(d,) by how much columns may vary otherwise than they seem to. largest: (d,) their largest absolute
        values. half_ulp: of what they are kept as."""
        differs = np.maximum(self.high - self.low, 0.0) / 2.0  # none of columns without a value
        return np.where(self.constant, differs, half_ulp * largest)
