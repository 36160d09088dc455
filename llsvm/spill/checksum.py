"""Checksum: of the bytes of a page, in whatever pieces they come.

Fletcher's: the sum of all words, and the sum of these sums as they grew, which depends on the words' order. Words
are of 64 bits, so it is as fast as memory; CRC-32 took a twentieth of a run's processor time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Checksum:
    """Add bytes, then look at ``value``."""

    def __init__(self) -> None:
        self._state = np.zeros(4, np.uint64)  # see the kernel

    def add(self, data: NDArray[np.uint8]) -> None:
        """Go on with ``data`` (n,), contiguous."""
        from llsvm.kernels.pages import fletcher

        data = data[:]
        data.flags.writeable = False  # some arrays are: the kernel is compiled for these, once
        fletcher(data, self._state)

    @property
    def value(self) -> int:
        """128 bits."""
        total, sums, rest, n_rest = map(int, self._state)
        if n_rest:  # an unfinished word counts as if zeros followed
            total = (total + rest) % (1 << 64)
            sums = (sums + total) % (1 << 64)
        return sums << 64 | total
