"""Checksum: of the bytes of a page, in whatever pieces they come; or of every chunk of some bytes.

Fletcher's: the sum of all words, and the sum of these sums as they grew, which depends on the words' order. Words
are of 64 bits, so it is as fast as memory; CRC-32 took a twentieth of a run's processor time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_WORD = 1 << 64


class PageChecksum:
    """Add bytes, then look at ``value``."""

    def __init__(self) -> None:
        self._state = np.zeros(4, np.uint64)  # see the kernel

    def add(self, data: NDArray[np.uint8]) -> None:
        """Go on with ``data`` (n,), contiguous."""
        from llsvm.kernels.pages import fletcher

        data = data[:]
        data.setflags(write=False)  # some arrays are: the kernel is compiled for these, once
        fletcher(data, self._state)

    @property
    def value(self) -> int:
        """128 bits."""
        total, sums, rest, n_rest = map(int, self._state)
        if n_rest:  # an unfinished word counts as if zeros followed
            total = (total + rest) % _WORD
            sums = (sums + total) % _WORD
        return sums * _WORD | total


def chunk_checksums(data: NDArray[np.uint8], chunk_bytes: int) -> NDArray[np.uint64]:
    """(k, 2): Fletcher's two sums of every ``chunk_bytes`` of contiguous ``data`` (n,); the last may be shorter."""
    from llsvm.kernels.pages import fletcher

    data = data[:]
    data.setflags(write=False)
    states = np.zeros((-(-len(data) // chunk_bytes), 4), np.uint64)
    for i, state in enumerate(states):
        fletcher(data[i * chunk_bytes : (i + 1) * chunk_bytes], state)
    unfinished = states[:, 3] > 0
    states[unfinished, 0] += states[unfinished, 2]
    states[unfinished, 1] += states[unfinished, 0]
    return states[:, :2]
