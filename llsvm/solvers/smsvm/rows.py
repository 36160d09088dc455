"""The pieces of a block's rows that sums are made of, what labels make of them, and the bytes that work on them
takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, FLOAT64_BYTES, Block
from llsvm.objective.costs import RowCosts
from llsvm.objective.losses import Loss
from llsvm.settings.objective import CLASSIFICATION

Vector = NDArray[np.float64]

_NUMBERS_PER_ROW = 10
"""The 64-bit numbers that sums take for each row of a piece. With fewer here, a run takes more memory than it was
given; with more, pieces are smaller than they need to be."""


class Labels(NamedTuple):
    """Signs y_i, targets t_i and factors C_i of rows in one binary problem, (n,) float64 each."""

    sign: Vector
    target: Vector
    cost: Vector

    @classmethod
    def of(cls, y: NDArray[Any], loss: Loss, costs: RowCosts, cost: Vector, positive: int) -> Labels:
        """Return those of rows with labels y, (n,). cost: of the rows, see ``RowCosts.of``. positive: the class
        whose rows have y_i = 1, where labels are classes."""
        n = len(y)
        if loss.kind != CLASSIFICATION:
            return cls(np.ones(n), np.asarray(y, np.float64), cost)
        is_plus = y == positive
        return cls(np.where(is_plus, 1.0, -1.0), np.ones(n), costs.in_problem(cost, positive, is_plus))

    def take(self, rows: NDArray[np.bool_]) -> Labels:
        """Return those of some rows, which a mask of all says."""
        return Labels(self.sign[rows], self.target[rows], self.cost[rows])


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
    return FLOAT64_BYTES * (dense_columns + 1 if dense_columns else _NUMBERS_PER_ROW)
