"""The average of the weights that loops have left.

Each loop, and each extrapolation the more, leaves margins that should be the same a little apart, now one way and
now the other, and those that are short cost something: where loops are many, the objective of the average is less
than half as far from the optimum as that of the weights themselves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_PIECE = 1 << 15


class Average:
    """w: (d + 1, k), the average. loops: of so many; 0: what comes next is the first."""

    def __init__(self, shape: tuple[int, int], least: float) -> None:
        """shape: of w. least: the part of the last loop, at least."""
        self.w = np.zeros(shape)
        self.loops, self._least = 0, least

    def add(self, w: Array) -> None:
        """The weights that a loop has left; in pieces, so that nothing as large is needed."""
        self.loops += 1
        share = max(self._least, 2.0 / (self.loops + 1))
        out, new = self.w.reshape(-1), w.reshape(-1)
        for start in range(0, len(out), _PIECE):
            piece = slice(start, start + _PIECE)
            out[piece] *= 1.0 - share
            out[piece] += share * new[piece]
