"""Page stores: the choice by format, and a store that only counts pages.

A new format is a file here and a line in ``open_store``.
"""

from __future__ import annotations

from llsvm.block import Block
from llsvm.errors import UsageError
from llsvm.spill.packing import Shape
from llsvm.spill.store import PageInfo, PageSink, PageStore
from llsvm.spill.workspace import Workspace


def open_store(workspace: Workspace, name: str, spill_format: str) -> PageStore:
    """Return a new, empty store in the file ``name`` of ``workspace``. ``spill_format``: "arrow" or "hdf5"."""
    if spill_format == "arrow":
        from llsvm.spill.arrow import ArrowStore

        return ArrowStore(workspace, name)
    if spill_format == "hdf5":
        from llsvm.spill.hdf5 import HDF5Store

        return HDF5Store(workspace, name)
    raise UsageError(f"spill format must be arrow or hdf5, not {spill_format!r}")


class CountingStore(PageSink):
    """Store that takes pages and keeps none, to learn how many there would be."""

    def __init__(self) -> None:
        super().__init__()
        self._largest_bytes = 1  # in memory, of a page

    def cut(self, page_bytes: int) -> CountingStore:
        """Return what would be counted if pages were cut to so many bytes, a row at least."""
        counted = CountingStore()
        for rows, nnz, width, _ in (page.shape for page in self.pages):
            step = max(1, rows * page_bytes // self._largest_bytes)
            for start in range(0, rows, step):
                part = min(step, rows - start)
                counted._take(PageInfo(Shape(part, nnz * part // rows, width, None), (), (), (), 0, 0))
        counted._largest_bytes = min(page_bytes, self._largest_bytes)
        counted.finish()
        return counted

    def append(self, block: Block) -> None:
        self._largest_bytes = max(self._largest_bytes, block.nbytes)
        width = block.X.shape[1] if block.is_dense else None  # type: ignore[union-attr]
        self._take(PageInfo(Shape(block.n_rows, block.nnz, width, None), (), (), (), 0, 0))

    def finish(self) -> None:
        self.finished = True

    def delete(self) -> None:
        """Remove nothing: no pages are kept."""
