"""Passes yield every row once, from the caller's arrays, the source's pages, or a store's pages in random order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.data.source import BlockSource
from llsvm.features.scaling import Scaling
from llsvm.features.targets import RowLabels
from llsvm.row_buffer import RowBuffer
from llsvm.spill.store import PageStore
from llsvm.stream.assembly import Ahead, Assembler
from llsvm.stream.progress import Progress


def from_arrays(
    source: BlockSource,
    labels: RowLabels,
    block_bytes: int,
    block_rows: int,
    wait_for_readers: Callable[[], None],
) -> Iterator[Block]:
    """Yield views of the caller's arrays. block_bytes, block_rows: the largest size of a block.
    wait_for_readers: called after each block of the source, before its rows may vanish."""
    for block in source.blocks(block_bytes):
        whole = Block(block.X, labels.final(block.y), block.rows, block.weight)
        for start in range(0, block.n_rows, block_rows):
            yield whole.slice(start, min(start + block_rows, block.n_rows))
        wait_for_readers()


def from_source(
    source: BlockSource,
    labels: RowLabels,
    page_bytes: int,
    assembler: Assembler,
    scaling: Scaling | None,
) -> Iterator[Block]:
    """Yield blocks made of the source's pages, in its order. page_bytes: the size of pages that it is asked for."""
    pages: Iterable[Block] = (
        Block(page.X, labels.final(page.y), page.rows, page.weight) for page in source.blocks(page_bytes)
    )
    for buffer in assembler.in_order(pages):
        if scaling is not None:
            scaling.apply(buffer.block().X)
        yield buffer.block()


@dataclass(frozen=True, slots=True)
class PagesOnDisk:
    """Pages of a store, and what happens to those that are read.

    count: called with the bytes read. finisher: makes final labels of those on the pages; None where they are
    final. scaling: is applied to the rows; None where they need none."""

    store: PageStore
    count: Callable[[int], None]
    finisher: Callable[[NDArray[Any]], NDArray[Any]] | None = None
    scaling: Scaling | None = None

    def finish(self, buffer: RowBuffer, nbytes: int) -> None:
        """Finish the labels and the scale of rows in the buffer, for which ``nbytes`` were read."""
        self.count(nbytes)
        if self.finisher is not None:
            buffer.relabel(self.finisher)
        if self.scaling is not None:
            self.scaling.apply(buffer.block().X)


def from_store(
    pages: PagesOnDisk,
    assembler: Assembler,
    progress: Progress,
    shuffle: bool = True,
    begin: Ahead | None = None,
    endless: bool = False,
) -> Iterator[Block]:
    """Return blocks made of the pages of a store, whose bytes are counted as they are read.

    pages: of the store. assembler: makes the blocks. progress: to count in. shuffle: take pages from random places,
    not in their order. begin, endless: see ``Assembler.of_store``; an endless sequence has no pass to count the
    bytes of: its caller counts them.
    """

    def finish(buffer: RowBuffer, nbytes: int) -> None:
        if not endless:
            progress.count_bytes(nbytes)
        pages.finish(buffer, nbytes)

    if not endless:
        progress.expect_bytes(pages.store.nbytes)
    return assembler.of_store(pages.store, finish, shuffle, begin, endless)
