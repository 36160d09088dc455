"""Blocks cut to a size: in views of what there is, or filled with rows, wherever a reader's batches end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, ROW_BYTES, TARGET_BYTES, WEIGHT_BYTES, Block, concat

_ROW_BYTES = ROW_BYTES + TARGET_BYTES + WEIGHT_BYTES  # of any row: the same whatever labels are read as


def cut(block: Block, max_bytes: int) -> Iterator[Block]:
    """The block in views of at most ``max_bytes``, or of one row."""
    if block.nbytes <= max_bytes or block.n_rows == 1:
        yield block
        return
    middle = block.n_rows // 2
    yield from cut(block.slice(0, middle), max_bytes)
    yield from cut(block.slice(middle, block.n_rows), max_bytes)


def filled(blocks: Iterable[Block], max_bytes: int) -> Iterator[Block]:
    """The rows of sparse blocks, copied, in blocks of as many as ``max_bytes`` hold, or of one row: where these are
    cut follows from the rows alone."""
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
    """(n,) bytes."""
    X = block.X
    assert isinstance(X, CSR), "n-grams are sparse"
    return np.diff(X.indptr) * (X.indices.itemsize + X.data.itemsize) + _ROW_BYTES
