"""SignedState keeps values of rows beside a training, in memory while they take little of what is free."""

from __future__ import annotations

import numpy as np

from llsvm.spill.row_state import RowState
from llsvm.stream.stream import Stream

SHARE = 4  # they stay in memory while they take no more than this part (1/4) of what is free


class SignedState(RowState):
    """RowState of (n_rows, width) float64 values, in memory that is reserved or in a file beside the spill."""

    def __init__(self, stream: Stream, n_rows: int, width: int, line: str, name: str) -> None:
        """stream: its budget and disk are used. line: name in the budget. name: of the file. Raises DiskError."""
        nbytes = n_rows * width * np.dtype(np.float64).itemsize
        in_memory = nbytes <= stream.budget.available_bytes // SHARE
        self._signed = stream.budget.reserve(line, nbytes) if in_memory else None
        super().__init__(n_rows, width, np.float64, None if in_memory else stream.open_workspace(), name)

    def close(self) -> None:
        """Do as ``RowState.close``, and release the memory that was reserved."""
        super().close()
        if self._signed is not None:
            self._signed.release()
