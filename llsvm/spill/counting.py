"""CountingStore: takes pages and keeps none, to learn how many rows would be."""

from __future__ import annotations

from llsvm.block import Block
from llsvm.spill.packing import Shape
from llsvm.spill.store import PageInfo, PageSink


class CountingStore(PageSink):
    """Pages are counted, with their rows."""

    def __init__(self) -> None:
        super().__init__()
        self._largest_bytes = 1  # in memory, of a page

    def cut(self, page_bytes: int) -> CountingStore:
        """As if pages had been cut to so many bytes, a row at least."""
        found = CountingStore()
        for rows, nnz, width, _ in (page.shape for page in self.pages):
            step = max(1, rows * page_bytes // self._largest_bytes)
            for start in range(0, rows, step):
                part = min(step, rows - start)
                found._take(PageInfo(Shape(part, nnz * part // rows, width, None), (), (), (), 0, 0))
        found._largest_bytes = min(page_bytes, self._largest_bytes)
        found.finish()
        return found

    def append(self, block: Block) -> None:
        self._largest_bytes = max(self._largest_bytes, block.nbytes)
        width = block.X.shape[1] if block.is_dense else None  # type: ignore[union-attr]
        self._take(PageInfo(Shape(block.n_rows, block.nnz, width, None), (), (), (), 0, 0))

    def finish(self) -> None:
        self.finished = True

    def delete(self) -> None:
        """There is nothing to remove."""
