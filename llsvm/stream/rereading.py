"""Rows read again and again: pass after pass (Rereading), between two passes (EveryRow), or the survivors alone, in
one buffer (Gathered)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from types import TracebackType
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.memory.plan import BLOCKS, SURVIVORS
from llsvm.memory.process import trim_freed_memory
from llsvm.row_buffer import RowBuffer, row_bytes
from llsvm.spill.store import PageInfo, PageStore, Scratch
from llsvm.stream.passes import Ahead, PagesOnDisk, prepared
from llsvm.stream.stream import Stream

GATHERED = "survivors brought together"  # name in the memory budget


class Gathered:
    """Buffer for all survivors, a context manager. While it is open no blocks are read, and their memory is
    reserved for this buffer instead.

    room_bytes: the size of that memory. rows: a buffer for survivors."""

    def __init__(self, stream: Stream, line: str, more_bytes: int) -> None:
        """more_bytes: bytes of the budget's ``line`` that their holder needs no longer."""
        plan = stream.plan
        self._stream = stream
        self._reservations = {BLOCKS: plan.two_blocks_bytes, line: more_bytes}
        self._drop = False
        # memory is taken as rows come: as many as may
        self.rows = stream.new_buffer(self.room_bytes + plan.survivor_bytes)

    @property
    def room_bytes(self) -> int:
        return sum(self._reservations.values())

    def __enter__(self) -> Gathered:
        self._stream.drop_blocks()
        trim_freed_memory()
        for line, nbytes in self._reservations.items():
            self._take(line, nbytes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        trim_freed_memory()
        budget = self._stream.budget
        budget.release(GATHERED)
        for line, nbytes in self._reservations.items():
            budget.reserve(line, nbytes)

    def _take(self, line: str, nbytes: int) -> None:
        self._stream.budget.release(line, nbytes)
        self._stream.budget.reserve(GATHERED, nbytes)

    @property
    def survivor_bytes(self) -> int:
        """Return the bytes of all survivors in one buffer."""
        survivors, rows = self._stream.survivors, self.rows
        resident, spilled = survivors.resident, survivors.spilled
        pages = [] if spilled is None else spilled.pages
        n_rows = resident.n_rows + sum(page.n_rows for page in pages)
        nnz = resident.nnz + sum(page.nnz for page in pages)
        return row_bytes(n_rows, nnz, rows.dtype.itemsize, rows.width, rows.weighted, rows.targets)

    def begin(self, drop: bool) -> RowBuffer:
        """Return the buffer, empty. drop: ``survivors`` forgets those in memory before it yields the spilled ones,
        so that the buffer gets their memory."""
        self._drop = drop
        self.rows.clear()
        return self.rows

    def survivors(self) -> Iterator[Block]:
        """Yield the survivors in memory, then the spilled ones, page by page: each is valid until the next."""
        stream, survivors = self._stream, self._stream.survivors
        yield survivors.resident
        if self._drop:
            self.drop_resident()
        spilled, scratch = survivors.spilled, Scratch()
        for number, page in enumerate(spilled.pages if spilled is not None else ()):
            assert spilled is not None
            stream.count_bytes(page.nbytes)
            yield spilled.read(number, scratch)

    def drop_resident(self) -> None:
        """Forget the survivors in memory, and add their memory to that of the buffer."""
        survivors, plan = self._stream.survivors, self._stream.plan
        survivors.drop(self._stream.new_buffer(plan.survivor_bytes))
        trim_freed_memory()
        self._drop = False
        signed = plan.lines.get(SURVIVORS, 0)
        self._take(SURVIVORS, signed)
        self._reservations[SURVIVORS] = signed


PIECES = 8  # blocks of the room that there is: so many at least, if pages are small enough


class SizedRows(Protocol):
    """Rows in the form that a method works on."""

    def __len__(self) -> int: ...


T = TypeVar("T", bound=SizedRows)


class EveryRow:
    """All rows in the binary cache, in one fixed order and in blocks of whole pages, many times between two passes.

    As many pages as have room stay in memory; the others are read anew each time, a block at a time.
    first: (n_blocks + 1,) int64, the position of each block's first row in that order, and the number of rows.
    n_held: so many blocks, the first ones, stay in memory."""

    def __init__(self, stream: Stream, room_bytes: int) -> None:
        """Read the blocks that stay in memory. The rows must be in the cache.

        room_bytes: the room for rows, at least ``least_bytes``, which the caller has reserved."""
        cached = stream.cached
        assert cached is not None
        self._cached: PagesOnDisk = cached
        sizes = _sizes(stream, cached.store.pages)
        block_bytes = max(room_bytes // PIECES, int(sizes.max(initial=0)))
        self._groups = _grouped(sizes, block_bytes)
        self._loaded = stream.new_buffer(block_bytes)
        held = np.cumsum([int(sizes[group].sum()) for group in self._groups])
        self.n_held = int(np.searchsorted(held, room_bytes - block_bytes, side="right"))
        self._held = stream.new_buffer(int(held[self.n_held - 1]) if self.n_held else 0)
        self._scratch = Scratch()
        counts = [sum(cached.store.pages[page].n_rows for page in group) for group in self._groups]
        self.first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        for number in range(self.n_held):
            self._held.append(self._read(number))

    @staticmethod
    def least_bytes(stream: Stream) -> int:
        """Return the least room that the rows need; 0 where they are not in the cache."""
        cached = stream.cached
        return 0 if cached is None else int(_sizes(stream, cached.store.pages).max(initial=0))

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self._groups)

    def block(self, number: int) -> Block:
        """Return a block; it is valid until another one is asked for."""
        if number < self.n_held:
            return self._held.block().slice(int(self.first[number]), int(self.first[number + 1]))
        return self._read(number)

    def _read(self, number: int) -> Block:
        buffer, store = self._loaded, self._cached.store
        buffer.clear()
        nbytes = 0
        for page in self._groups[number]:
            _append(store, page, buffer, self._scratch)
            nbytes += store.pages[page].nbytes
        self._cached.finish(buffer, nbytes)
        return buffer.block()


def _append(store: PageStore, page: int, buffer: RowBuffer, scratch: Scratch) -> None:
    """Read a page into the buffer, which has room for it."""
    if store.is_like(buffer):
        info = store.pages[page]
        store.fill(page, buffer.extend(info.n_rows, info.nnz), scratch)
    else:
        buffer.append(store.read(page, scratch))


def _sizes(stream: Stream, pages: list[PageInfo]) -> NDArray[np.int64]:
    """Return the bytes that each page takes in a buffer."""
    buffer = stream.new_buffer(0)

    def nbytes(page: PageInfo) -> int:
        itemsize, width = buffer.dtype.itemsize, buffer.width
        return row_bytes(page.n_rows, page.nnz, itemsize, width, buffer.weighted, buffer.targets)

    return np.array([nbytes(page) for page in pages], np.int64)


def _grouped(sizes: NDArray[np.int64], max_bytes: int) -> list[list[int]]:
    """Return the pages in their order, in groups of at most ``max_bytes`` bytes or of one page."""
    groups, used = list[list[int]](), max_bytes + 1
    for page, size in enumerate(sizes.tolist()):
        if used + size > max_bytes:
            groups.append([])
            used = 0
        groups[-1].append(page)
        used += size
    return groups


class Rereading(Generic[T]):
    """Passes over the rows of a stream, one after the other. Call ``end`` before rows are read in other ways.

    Where pages are read, it reads the first block of a pass while the caller works on the last block of the pass
    before: with few blocks, waiting for the first one would take much of a pass."""

    def __init__(self, stream: Stream, make: Callable[[Block], T]) -> None:
        """make: returns what is worked on in place of a block. The thread that reads pages calls it, if there is
        one."""
        self._stream, self._make = stream, make
        self._reading: Generator[T, None, None] | None = None

    def all(self) -> Iterator[T]:
        """Yield every row once. Raises OutOfTime where a pass has to end."""
        cached, n_rows, progress = self._stream.cached, self._stream.dataset.n_rows, self._stream.progress
        n_bytes = 0 if cached is None else cached.store.nbytes
        if self._reading is None:
            self._reading = prepared(self._blocks, lambda: self._make)
        progress.begin("pass", n_rows, n_bytes)
        try:
            while progress.rows_done < n_rows:
                part = next(self._reading)
                progress.check_measuring()
                yield part
                progress.count(len(part), n_bytes * (progress.rows_done + len(part)) // n_rows)
        finally:
            if progress.rows_done < n_rows:  # nobody wants the rest
                self.end()

    def end(self) -> None:
        """Stop reading, and return when no thread reads any more."""
        if self._reading is not None:
            self._reading.close()
        self._reading = None

    def _blocks(self, ahead: Ahead) -> Iterator[Block]:
        return self._stream.again(ahead, endless=True)
