"""ReusedArrays: arrays for the blocks of one reading, used again once nobody looks at a block any more.

Fresh arrays are memory that the system takes back when they go, and clears page by page when the next are made: a
tenth of the time that it takes to parse a text into them.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_MOST = 32  # arrays that are remembered; those of blocks that are kept are forgotten
_GRAIN = 512  # lengths are multiples of it: pieces of a text differ a little
_UNUSED = 3  # references to one that only we have: ours, the loop's, and that of the call that counts them


class ReusedArrays:
    """Threads may take arrays at the same time. What is handed out is a view, and so is what is made of it: while
    there is one, the array is in use."""

    def __init__(self) -> None:
        self._arrays: deque[NDArray[Any]] = deque(maxlen=_MOST)
        self._mutex = threading.Lock()

    def take(self, n: int, dtype: DTypeLike) -> NDArray[Any]:
        """(n,) of anything."""
        with self._mutex:
            for array in self._arrays:
                if array.dtype == dtype and len(array) >= n and sys.getrefcount(array) == _UNUSED:
                    return array[:n]
            array = np.empty(-(-n // _GRAIN) * _GRAIN, dtype)
            self._arrays.append(array)
            return array[:n]
