"""SignedState: values that are kept beside a training, in memory while they take little of what is free."""

from __future__ import annotations

import numpy as np

from llsvm.spill.row_state import RowState
from llsvm.stream.stream import Stream

SHARE = 4  # they stay in memory while they take no more than this part (1/4) of what is free


class SignedState(RowState):
    """See RowState: (n_rows, width) float64 that the ledger knows, or in a file beside the spill."""

    def __init__(self, stream: Stream, n_rows: int, width: int, line: str, name: str) -> None:
        """stream: whose ledger and disk are used. line: of the ledger. name: of the file. Raises DiskError."""
        nbytes = n_rows * width * np.dtype(np.float64).itemsize
        in_memory = nbytes <= stream.budget.available_bytes // SHARE
        self._signed = stream.budget.reserve(line, nbytes) if in_memory else None
        super().__init__(n_rows, width, np.float64, None if in_memory else stream.open_workspace(), name)

    def close(self) -> None:
        """See RowState; what was signed is let go, too."""
        super().close()
        if self._signed is not None:
            self._signed.release()
