"""Passes yield every row once, from the caller's arrays, the source's pages, or a store's pages in random order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import repeat
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.data.source import BlockSource
from llsvm.features.scaling import Scaling
from llsvm.features.targets import RowLabels
from llsvm.memory.plan import StoredPages
from llsvm.process.threads import Pool
from llsvm.row_buffer import RowBuffer
from llsvm.spill.store import PageSink, PageStore, Scratch
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


# Blocks made of pages, in two buffers, so that one is filled while a solver works on the other.

READERS = 2  # threads that read and unpack a block's pages

T = TypeVar("T")
Ahead = Callable[[], Callable[[Block], object]]
"""Function that is called before a block is read, by the caller that works on the block before it. The thread that
reads the block calls what this returns with it."""


def prepared(
    blocks: Callable[[Ahead], Iterator[Block]], begin: Callable[[], Callable[[Block], T]]
) -> Generator[T, None, None]:
    """Yield what is made of each block. Where a thread reads blocks, it also makes that of the next block while the
    caller works on this one.

    blocks: returns the blocks, given an Ahead. begin: the Ahead; what it returns is called with each block."""
    made: deque[T] = deque()

    def ahead() -> Callable[[Block], object]:
        prepare = begin()
        return lambda block: made.append(prepare(block))

    for block in blocks(ahead):
        yield made.popleft() if made else begin()(block)


def stored_pages(store: PageSink) -> StoredPages:
    """Return the facts of a store's pages that a memory plan needs to know."""
    scratch = max(store.scratch_bytes, READERS * store.buffer_bytes)
    return StoredPages(len(store.pages), max(page.n_rows for page in store.pages), scratch)


class Assembler:
    """Two buffers in which pages become blocks. A block is valid until the next but one is being made; one from
    ``in_order`` is valid until the next is being made."""

    def __init__(
        self,
        make_buffer: Callable[[], RowBuffer],
        most_rows: int,
        rng: np.random.Generator,
        wait_for_readers: Callable[[], None],
    ) -> None:
        """make_buffer: returns an empty buffer of the size of a block.
        most_rows: a block has no more rows, also where a buffer has room for more.
        rng: shuffles pages.
        wait_for_readers: called before a buffer is used again; returns when no other thread reads it any more."""
        self._buffers = [make_buffer() for _ in range(2)]
        self._most_rows = most_rows
        self._rng = rng
        self._wait_for_readers = wait_for_readers

    def in_order(self, pages: Iterable[Block]) -> Iterator[RowBuffer]:
        """Yield full buffers, with the pages in their order.

        The first of a pass is filled to a random part, so that it is not always the same rows that are solved
        together: rows that never meet keep pushing the weights to and fro.
        """
        buffer = self._cleared(0)
        most_rows = self._most_rows * self._rng.random()
        for page in pages:
            n_rows, nnz = buffer.n_rows + page.n_rows, buffer.nnz + page.nnz
            if buffer.n_rows and not (n_rows <= most_rows and self._is_room(n_rows, nnz)):
                yield buffer
                self._cleared(0)
                most_rows = self._most_rows
            buffer.append(page)
        yield buffer

    def of_store(
        self,
        store: PageStore,
        finish: Callable[[RowBuffer, int], None],
        shuffle: bool,
        begin: Ahead | None = None,
        endless: bool = False,
    ) -> Iterator[Block]:
        """Yield blocks of pages; a thread reads the next one while the caller works on this one.

        finish: called with each full buffer and the bytes that were read for it. shuffle: take pages in random
        order, else in their own. begin: what else the thread does. endless: begin again after the last page."""
        passes = repeat(None) if endless else repeat(None, 1)
        numbered = enumerate(pages for _ in passes for pages in self._groups(store, shuffle))
        scratch = [Scratch() for _ in range(READERS)]

        def fill(rooms: list[tuple[int, Block]], scratch: Scratch) -> None:
            for page, room in rooms:
                store.fill(page, room, scratch)

        def assemble(number: int, pages: list[int], prepare: Callable[[Block], object] | None) -> Block:
            buffer = self._cleared(number % 2)
            infos = [store.pages[page] for page in pages]
            if store.is_like(buffer):
                rooms = [buffer.extend(info.n_rows, info.nnz) for info in infos]
                todo = list(zip(pages, rooms, strict=True))
                others = [helpers.submit(fill, todo[t::READERS], scratch[t]) for t in range(1, READERS)]
                fill(todo[::READERS], scratch[0])
                for other in others:
                    other.result()
            else:
                for page in pages:
                    buffer.append(store.read(page, scratch[0]))
            finish(buffer, sum(info.nbytes for info in infos))
            block = buffer.block()
            if prepare is not None:
                prepare(block)
            return block

        with Pool(READERS - 1, "llsvm-fill") as helpers, Pool(1, "llsvm-read") as reader:

            def submit() -> Future[Block] | None:
                number, pages = next(numbered, (0, None))
                if pages is None:
                    return None
                return reader.submit(assemble, number, pages, None if begin is None else begin())

            ahead = submit()
            while ahead is not None:
                block = ahead.result()
                ahead = submit()
                yield block

    def _cleared(self, number: int) -> RowBuffer:
        self._wait_for_readers()
        self._buffers[number].clear()
        return self._buffers[number]

    def _is_room(self, n_rows: int, nnz: int) -> bool:
        return n_rows <= self._most_rows and self._buffers[0].would_hold(n_rows, nnz)

    def _groups(self, store: PageStore, shuffle: bool) -> list[list[int]]:
        """Return the store's pages, shuffled or not, in groups that fit a buffer; each group is in ascending
        order."""
        groups: list[list[int]] = []
        rows = nnz = 0
        n_pages = len(store.pages)
        for page in self._rng.permutation(n_pages) if shuffle else range(n_pages):
            info = store.pages[page]
            if groups and self._is_room(rows + info.n_rows, nnz + info.nnz):
                groups[-1].append(int(page))
            else:
                groups.append([int(page)])
                rows = nnz = 0
            rows, nnz = rows + info.n_rows, nnz + info.nnz
        return [sorted(group) for group in groups]
