"""The rows that miss their optimality conditions by most, as a problem of their own.

Where C is large, loops settle all rows but a few, which contradict each other: their shares have as far to go as C
is large, and come nearer by some 1/‖x_i‖² in a visit. Loops over these alone cost next to nothing, so they get
thousands (Loops.settle_rows). Where rows are nearly the same and their classes are not, even that is too few:
Newton's method (multipliers.py) takes some dozens of steps, in which only the columns that these rows have enter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block
from llsvm.process.threads import Threads
from llsvm.solvers.row_products import RowProducts
from llsvm.solvers.sequential_dual.duals import JointDual
from llsvm.solvers.sequential_dual.multipliers import Multipliers
from llsvm.solvers.sequential_dual.shares import BlockShares
from llsvm.stream.progress import Progress

Array = NDArray[np.float64]
UNTIL = 1e-3  # of the rows' gap
STEPS = 60  # of Newton's method, at most


class WorstRows:
    """most: so many rows at a time. matrix_numbers: see newton_system.py. grid: shares are multiples of 1/grid."""

    def __init__(
        self, dual: JointDual, bias: float, most: int, threads: Threads, matrix_numbers: int, grid: float
    ) -> None:
        self._dual, self._bias, self._threads = dual, bias, threads
        self._most, self._matrix_numbers, self._grid = most, matrix_numbers, grid

    def choose(self, part: BlockShares, w: Array) -> NDArray[np.int64]:
        """The positions of the rows of the largest gaps at the weights w (d + 1, k)."""
        gap = gaps(part, w, self._bias, self._dual)
        rows = np.argsort(-gap, kind="stable")[: self._most]
        return rows[gap[rows] > 0.0]

    def solve(self, part: BlockShares, rows: NDArray[np.int64], w: Array, progress: Progress) -> float:
        """Move the shares of these rows, and the weights w that belong to all shares; returns what D gains."""
        if not len(rows):
            return 0.0
        block, columns = _own_columns(part.block.take(rows), len(w) - 1)
        own = w[columns]
        chosen = BlockShares(block, part.cost[rows], part.share[rows])
        floor = UNTIL * float(gaps(chosen, own, self._bias, self._dual).sum())
        newton = Multipliers(self._dual, self._bias, self._threads, self._matrix_numbers, self._grid)
        gain = newton.solve(chosen, own, 0.0, STEPS, progress, floor)
        if gain > 0.0:
            w[columns], part.share[rows] = own, chosen.share
        return gain


def gaps(part: BlockShares, w: Array, bias: float, dual: JointDual) -> Array:
    """(n,) C_i (loss_i + Σ_m a_im (s_y − s_m − 1)) at the weights w (d + 1, k)."""
    products = RowProducts(part.block, bias, *w.shape)
    gap = np.empty(part.n_rows)
    for rows in products.pieces(0, part.n_rows):
        y, cost = part.block.y[rows], part.cost[rows]
        gap[rows] = dual.gaps(part.share[rows], products.scores(products.matrix(rows), w), y, cost)
    return gap


def _own_columns(block: Block, n_columns: int) -> tuple[Block, NDArray[np.int64]]:
    """The rows with their own columns only, and which these are; the constant feature's comes last."""
    if not isinstance(block.X, CSR):
        return block, np.arange(n_columns + 1)
    columns, indices = np.unique(block.X.indices, return_inverse=True)
    X = CSR(block.X.indptr, indices.reshape(-1).astype(np.int32), block.X.data)
    return Block(X, block.y, block.rows, block.weight), np.append(columns.astype(np.int64), n_columns)
