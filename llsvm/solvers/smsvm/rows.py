"""The pieces of a block's rows that sums are made of, and the bytes that work on them takes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from llsvm.block import CSR, Block
from llsvm.dataset import DatasetInfo
from llsvm.solvers.smsvm.tuning import SmSVMTuning


def pieces(block: Block, tuning: SmSVMTuning) -> Iterator[Block]:
    """The block in pieces, so that what is worked with does not grow with it."""
    rows = piece_rows(block, tuning)
    for start in range(0, block.n_rows, rows):
        yield block.slice(start, min(start + rows, block.n_rows))


def piece_rows(block: Block, tuning: SmSVMTuning) -> int:
    """How many rows of the block make a piece."""
    return tuning.piece_rows if isinstance(block.X, CSR) else _dense_rows(block.X.shape[1], tuning)


def work_bytes(n_columns: int, is_dense: bool, tuning: SmSVMTuning) -> int:
    """Bytes that one thread needs for the piece it works on."""
    if not is_dense:
        return tuning.piece_rows * 10 * 8
    return 3 * rows_bytes(_dense_rows(n_columns, tuning), n_columns)


def copy_bytes(n_columns: int, dataset: DatasetInfo, tuning: SmSVMTuning) -> int:
    """Bytes of a copy of that piece, and of what making it takes."""
    if dataset.is_dense:
        return rows_bytes(_dense_rows(n_columns, tuning), n_columns)
    return math.ceil(4 * tuning.piece_rows * dataset.bytes_per_row)


def rows_bytes(n_rows: int, n_columns: int) -> int:
    """Of so many dense rows as float64, with the constant feature."""
    return n_rows * (n_columns + 1) * 8


def _dense_rows(n_columns: int, tuning: SmSVMTuning) -> int:
    return max(1, tuning.piece_bytes // rows_bytes(1, n_columns))
