"""CountingStore: takes pages and keeps none, to learn how many rows would be."""

from __future__ import annotations

from llsvm.block import Block
from llsvm.spill.packing import Shape
from llsvm.spill.store import PageInfo, PageSink


class CountingStore(PageSink):
    """Pages are counted, with their rows."""

    def append(self, block: Block) -> None:
        width = block.X.shape[1] if block.is_dense else None  # type: ignore[union-attr]
        self._take(PageInfo(Shape(block.n_rows, block.nnz, width, None), (), (), (), 0, 0))

    def finish(self) -> None:
        self.finished = True

    def delete(self) -> None:
        """There is nothing to remove."""
