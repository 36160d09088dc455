"""Writing of pages: the store for each format, a store that only counts pages, and the writer that fills them.

A new format is a file in this folder and a line in ``open_store``.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block
from llsvm.errors import UsageError
from llsvm.row_buffer import RowBuffer, row_bytes
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


Store = TypeVar("Store", bound=PageSink)


class PageWriter(Generic[Store]):
    """Joins rows to pages of ``page_bytes`` (a row may be larger) and appends these to a store.

    Any call may raise the DiskError of a page given before; ``discard`` is all that may follow. Holds two pages,
    and what a store needs to write one.
    """

    def __init__(self, page_bytes: int, make_store: Callable[[], Store]) -> None:
        """make_store: called when there is a first page, and again after ``finish`` or ``discard``."""
        self.n_rows = 0
        """Rows given since the last ``finish`` or ``discard``."""
        self._page_bytes = page_bytes
        self._make_store = make_store
        self._store: Store | None = None
        self._page, self._other = (RowBuffer(page_bytes, np.dtype(np.float32)) for _ in range(2))
        self._writing: Future[None] | None = None
        self._thread: ThreadPoolExecutor | None = None

    def append(self, block: Block) -> None:
        """Take all rows of a block, which may change afterwards."""
        self._be_of_kind(block)
        if not self._page.fits(block.n_rows, block.nnz):
            self._flush()
        if self._page.fits(block.n_rows, block.nnz):
            self._page.append(block)
        else:
            self._write_now(block)
        self.n_rows += block.n_rows

    def append_rows(self, block: Block, rows: NDArray[np.intp]) -> None:
        """Take the rows ``rows`` of a block, which may change afterwards."""
        self._be_of_kind(block)
        ends, done = np.cumsum(row_sizes(block, self._page)[rows]), 0
        while done < len(rows):
            room = self._page.capacity_bytes - self._page.used_bytes + (ends[done - 1] if done else 0)
            fitting = int(np.searchsorted(ends, room, side="right"))
            if fitting > done:
                self._page.append_rows(block, rows[done:fitting])
                done = fitting
            elif self._page.n_rows:
                self._flush()
            else:
                self._write_now(block.take(rows[done : done + 1]))
                done += 1
        self.n_rows += len(rows)

    def finish(self) -> Store | None:
        """Return the store with all rows, ready to be read; None if there were none."""
        self._flush()
        self._wait()
        store, self._store, self.n_rows = self._store, None, 0
        if store is not None:
            store.finish()
        return store

    def discard(self) -> None:
        """Forget the rows given so far, and delete what was written of them."""
        self.wait()
        self._page.clear()
        store, self._store, self.n_rows = self._store, None, 0
        if store is not None:
            store.delete()

    def wait(self) -> None:
        """Return when nothing is being written any more, be it because of an error."""
        if self._writing is not None:
            self._writing.exception()
            self._writing = None

    def close(self) -> None:
        """Wait as ``wait`` does, and end the thread, even one that a signal has interrupted us in starting."""
        self.wait()
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None

    def _be_of_kind(self, block: Block) -> None:
        """Make a page for rows like the block's."""
        X = block.X
        width, dtype = (None, X.data.dtype) if isinstance(X, CSR) else (X.shape[1], X.dtype)
        kind = dtype, width, block.weight is not None, block.has_targets
        page = self._page
        if (page.dtype, page.width, page.weighted, page.targets) != kind:
            self._flush()
            self._wait()
            self._page, self._other = (RowBuffer(self._page_bytes, *kind) for _ in range(2))

    def _flush(self) -> None:
        """Let the page be written, and go on with the other."""
        if self._page.n_rows:
            self._write(self._page.block())
            self._page, self._other = self._other, self._page
            self._page.clear()

    def _write_now(self, block: Block) -> None:
        self._write(block)
        self._wait()

    def _write(self, block: Block) -> None:
        self._wait()
        if self._store is None:
            self._store = self._make_store()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "llsvm-write")
        self._writing = self._thread.submit(self._store.append, block)

    def _wait(self) -> None:
        if self._writing is not None:
            writing, self._writing = self._writing, None
            writing.result()


def row_sizes(block: Block, buffer: RowBuffer) -> NDArray[np.int64]:
    """Return (n,) bytes that each row of a block takes in a buffer."""
    per_row = row_bytes(1, 0, buffer.dtype.itemsize, buffer.width, buffer.weighted, buffer.targets)
    if buffer.width is not None:
        return np.full(block.n_rows, per_row, np.int64)
    per_value = row_bytes(0, 1, buffer.dtype.itemsize, None, False)
    if isinstance(block.X, CSR):
        return np.diff(block.X.indptr) * per_value + per_row
    return np.full(block.n_rows, block.X.shape[1] * per_value + per_row, np.int64)
