"""The pieces of a block's rows that sums are made of, and the bytes that work on them takes."""

from __future__ import annotations

from collections.abc import Iterator

from llsvm.block import CSR, Block

_VECTORS = 10
"""Numbers for each row that sums take: with fewer a run takes more memory than it was given."""


def pieces(block: Block, piece_bytes: int) -> Iterator[Block]:
    """Yield the block in pieces, so that what is worked with does not grow with it."""
    rows = piece_rows(block, piece_bytes)
    for start in range(0, block.n_rows, rows):
        yield block.slice(start, min(start + rows, block.n_rows))


def piece_rows(block: Block, piece_bytes: int) -> int:
    """Return how many rows of the block make a piece of so many bytes."""
    return max(1, piece_bytes // row_bytes(0 if isinstance(block.X, CSR) else block.X.shape[1]))


def row_bytes(dense_columns: int) -> int:
    """Return the bytes of a row of a piece: of a dense one as float64 with the constant feature, else of its
    numbers. dense_columns: of dense rows, 0 of sparse ones."""
    return 8 * (dense_columns + 1 if dense_columns else _VECTORS)
