"""How long a document may be: as long as there is memory to analyse it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import BudgetError
from llsvm.features.text.analyzer import workspace_bytes
from llsvm.features.text.options import TextOptions
from llsvm.features.text.vectorizer import PIECE_BYTES
from llsvm.memory.budget import MemoryBudget
from llsvm.memory.sizes import format_size

MAX_DOCUMENT_BYTES = 4_000_000
_SHARE = 4  # analysing a long document may take this part (1/4) of the memory there is


@dataclass(frozen=True, slots=True)
class DocumentLength:
    """most_bytes: of a document. refusal: of longer ones that more memory would allow; in lines of the ledger,
    without the document, and its limit. bytes_per_mib: of memory that must be left, for a document of 1 MiB."""

    most_bytes: int = MAX_DOCUMENT_BYTES
    lines: tuple[tuple[str, int], ...] = ()
    limit_bytes: int = 0
    bytes_per_mib: int = 0

    @classmethod
    def under(cls, budget: MemoryBudget, options: TextOptions, n_threads: int) -> DocumentLength:
        """Return what the memory that is left in a ledger allows."""
        each = _SHARE * n_threads * workspace_bytes(options, 1 << 20)
        most = max((budget.available_bytes << 20) // each, PIECE_BYTES)
        return cls(min(most, MAX_DOCUMENT_BYTES), tuple(budget.mark().items()), budget.limit_bytes, each)

    def require(self, name: str, lengths: NDArray[np.integer]) -> None:
        """Raise BudgetError, or ValueError(row, reason), for documents of column ``name`` that are too long."""
        longest = int(lengths.max(initial=0))
        if longest > MAX_DOCUMENT_BYTES:
            raise ValueError(
                int(np.argmax(lengths == longest)),
                f"column {name}: a text of {format_size(longest)}, and one may have "
                f"{format_size(MAX_DOCUMENT_BYTES)}; part it among several rows",
            )
        if longest > self.most_bytes:
            what = f"a text of {format_size(longest)} in column {name}"
            lines = {**dict(self.lines), "analysis of a text": -(-longest * self.bytes_per_mib >> 20)}
            raise BudgetError(what, self.limit_bytes, sum(lines.values()), lines, at_least=True)
