"""CountingStore: a PageStore that keeps nothing, to learn how many pages rows would be."""

from __future__ import annotations

from llsvm.block import Block
from llsvm.spill.packing import Shape
from llsvm.spill.store import Arrays, Layout, PageInfo, PageStore, Segment


class CountingStore(PageStore):
    """Pages are counted, with their rows; none can be read."""

    def __init__(self) -> None:
        self.pages: list[PageInfo] = []
        self.n_rows = self.nbytes = self.scratch_bytes = self.buffer_bytes = 0
        self.finished = False

    def append(self, block: Block) -> None:
        width = block.X.shape[1] if block.is_dense else None  # type: ignore[union-attr]
        self.pages.append(PageInfo(Shape(block.n_rows, block.nnz, width, None), (), (), (), 0, 0))
        self.n_rows += block.n_rows

    def finish(self) -> None:
        self.finished = True

    def delete(self) -> None:
        """There is nothing to remove."""

    def _write(self, layout: Layout, arrays: Arrays) -> tuple[tuple[Segment, ...], int]:
        raise NotImplementedError

    def _arrays(self, page: PageInfo, buffer: object) -> Arrays:
        raise NotImplementedError

    def _complete(self) -> None:
        raise NotImplementedError
