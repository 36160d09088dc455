"""Arrays that come in batches from the caller's own program, again and again or once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from llsvm.block import CSR, Block, Matrix
from llsvm.data.batches import Batches
from llsvm.data.source import BlockSource, SourceInfo
from llsvm.errors import DataError
from llsvm.objective.rounding import Rounding


class ArrayBatches:
    """See BlockSource. batches: of (X, y) or (X, y, sample_weight). make: a source over such a batch."""

    def __init__(self, batches: Batches, make: Callable[..., BlockSource]) -> None:
        self.bytes_read = 0
        self._batches = batches
        self._make = make
        first = make(*batches.first)
        self._info = first.info()
        self._largest = self._info.n_bytes or 0
        self._n_rows: int | None = None
        self._rounding = Rounding()

    def info(self) -> SourceInfo:
        """Columns are known from the start, rows when all batches have been read."""
        return replace(
            self._info,
            name=self._batches.name,
            n_bytes=None,
            n_rows=self._n_rows,
            rereadable=self._batches.rereadable,
            in_memory=False,
            reader_bytes=2 * self._largest,
            rounding=(self._rounding,),
        )

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """The rows in order; see BlockSource. Raises DataError."""
        row = 0
        for batch in self._batches.read():
            source = self._make(*batch)
            info = source.info()
            if info.n_features != self._info.n_features:
                raise DataError(
                    f"{self._batches.name}: {info.n_features} columns in the batch that begins with row {row + 1}, "
                    f"where the first one has {self._info.n_features}"
                )
            self._largest = max(self._largest, info.n_bytes or 0)
            for rounding in info.rounding:
                rounding.handle_as(self._rounding)
            try:
                for block in source.blocks(max_bytes):
                    yield Block(_own(block.X), block.y.copy(), block.rows + row, block.weight)
            finally:
                for rounding in info.rounding:
                    self._rounding.take_in(rounding)
            row += info.n_rows or 0
        self._n_rows = row


def _own(X: Matrix) -> Matrix:
    """A copy: the caller may fill the arrays of a batch anew for the next one."""
    if not isinstance(X, CSR):
        return X.copy()
    first, last = int(X.indptr[0]), int(X.indptr[-1])
    return CSR(X.indptr - first, X.indices[first:last].copy(), X.data[first:last].copy())
