"""Blocks of a source, larger ones where a row is too long for those that were asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from llsvm.block import Block
from llsvm.data.source import BlockSource
from llsvm.errors import LongRowError
from llsvm.memory.budget import READING, MemoryBudget
from llsvm.memory.plan import READING_BLOCKS


def growing_blocks(source: BlockSource, max_bytes: int, grow: Callable[[int], int] | None) -> Iterator[Block]:
    """The blocks of ``source``; where a row is too long for them it is read anew up to there, in larger ones.

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
    """For ``growing_blocks``, of a reading beside what the budget holds: refuses with its BudgetError."""

    def grow(row_bytes: int) -> int:
        budget.require({READING: READING_BLOCKS * row_bytes})
        return row_bytes

    return grow
