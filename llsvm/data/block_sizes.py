"""Blocks of the sizes that are asked for: cut, filled with rows, or larger where a row is too long."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, FLOAT64_BYTES, ROW_BYTES, TARGET_BYTES, WEIGHT_BYTES, Block, concat
from llsvm.data.source import BlockSource, SourceInfo
from llsvm.errors import LongRowError
from llsvm.memory.budget import READING, MemoryBudget
from llsvm.memory.plan import PAGE_BYTES, READING_BLOCKS

_ROW_BYTES = ROW_BYTES + TARGET_BYTES + WEIGHT_BYTES  # of any row: the same whatever labels are read as
# Each block of a table costs Python a time for each column: it has so many rows, or as many as so many bytes hold
_TABLE_ROWS, _TABLE_BYTES = 16, 500_000


def cut(block: Block, max_bytes: int) -> Iterator[Block]:
    """Yield the block in views of at most ``max_bytes``, or of one row."""
    if block.nbytes <= max_bytes or block.n_rows == 1:
        yield block
        return
    middle = block.n_rows // 2
    yield from cut(block.slice(0, middle), max_bytes)
    yield from cut(block.slice(middle, block.n_rows), max_bytes)


def filled(blocks: Iterable[Block], max_bytes: int) -> Iterator[Block]:
    """Yield the rows of sparse blocks, copied, in blocks of as many as ``max_bytes`` hold, or of one row: where
    these are cut follows from the rows alone."""
    held: list[Block] = []
    room = max_bytes
    for block in blocks:
        ends, start = np.cumsum(_row_sizes(block)), 0
        while start < block.n_rows:
            before = int(ends[start - 1]) if start else 0
            stop = int(np.searchsorted(ends, before + room, "right"))
            if stop == start and not held:
                stop += 1
            if stop > start:
                held.append(block.slice(start, stop))
                room -= int(ends[stop - 1]) - before
                start = stop
            if start < block.n_rows:
                yield from cut(concat(held), max_bytes)  # long labels may make it too large
                held, room = [], max_bytes
    if held:
        yield from cut(concat(held), max_bytes)


def _row_sizes(block: Block) -> NDArray[np.int64]:
    """Return the bytes of each row, (n,)."""
    X = block.X
    assert isinstance(X, CSR), "n-grams are sparse"
    return np.diff(X.indptr) * (X.indices.itemsize + X.data.itemsize) + _ROW_BYTES


def growing_blocks(source: BlockSource, max_bytes: int, grow: Callable[[int], int] | None) -> Iterator[Block]:
    """Yield the blocks of ``source``; where a row is too long for them it is read anew up to there, in larger ones.

    grow: asked for blocks of at least so many bytes where a row is too long for those at hand; it may refuse. None:
    such a row is refused.
    """
    done = 0  # rows handed out
    while True:
        try:
            for block in source.blocks(max_bytes):
                if not block.n_rows:
                    yield block
                    continue
                first = int(np.searchsorted(block.rows, done))
                if first < block.n_rows:
                    done = int(block.rows[-1]) + 1
                    yield block.slice(first, block.n_rows) if first else block
            return
        except LongRowError as error:
            if grow is None or not source.info().rereadable or error.row_bytes <= max_bytes:
                raise
            max_bytes = grow(error.row_bytes)


def room_in(budget: MemoryBudget) -> Callable[[int], int]:
    """Return a function for ``growing_blocks``, of a reading beside what the budget holds: it refuses with the
    budget's BudgetError."""

    def grow(row_bytes: int) -> int:
        budget.require({READING: READING_BLOCKS * row_bytes})
        return row_bytes

    return grow


def table_block_bytes(info: SourceInfo) -> int:
    """Return the bytes of the rows that a block of a table has to hold; 0 where the smallest pages hold them, and
    for what is no table."""
    nbytes = min(_TABLE_ROWS * FLOAT64_BYTES * (info.n_features or 0), _TABLE_BYTES)
    return nbytes if info.is_table and nbytes > PAGE_BYTES[0] else 0
