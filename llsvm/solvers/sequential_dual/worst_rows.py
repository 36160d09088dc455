"""The rows that miss their optimality conditions by most, as a problem of their own: what follows the loops where
there are too many columns, or too little memory, for the matrices of Newton's method over all rows.

Where C is large, loops settle all rows but a few, which contradict each other: their shares have as far to go as C
is large, and come nearer by some 1/‖x_i‖² in a visit. Loops over these alone cost next to nothing. Where rows are
nearly the same and their classes are not, even these crawl: Newton's method (multipliers.py) takes some dozens of
steps, in which only the columns that these rows have enter. Of two rows that contradict each other the worst may
be one, and the other settled: so what is worst after a solution joins the rows, and all are solved for together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block
from llsvm.solvers.optim.augmented_lagrangian import MOST_STEPS, AugmentedLagrangian
from llsvm.solvers.optim.blas import one_blas_thread
from llsvm.solvers.sequential_dual.layout import WORST_ROWS
from llsvm.solvers.sequential_dual.loops import Loops
from llsvm.solvers.sequential_dual.multipliers import NewtonRoom, newton_prices
from llsvm.solvers.sequential_dual.problem import JointProblem
from llsvm.solvers.sequential_dual.proximal_point import JointRows
from llsvm.solvers.sequential_dual.shares import BlockShares

Array = NDArray[np.float64]
Positions = NDArray[np.int64]

# Solutions by Newton's method one after the other, at most, each of the rows of the one before and what is worst
# after it. With fewer, rows that contradict settled ones wait for the next pass; each one more takes the gaps of
# all rows.
JOINED = 4


def settle_worst_rows(part: BlockShares, loops: Loops, room: NewtonRoom | None) -> None:
    """Move the shares of the worst rows, and the weights and D of all shares, by Newton's method; by loops where it
    has no room. part: all rows."""
    if room is None:
        loops.train([part], [worst_rows(loops.problem, part, loops.w, WORST_ROWS)], 0.0)
        return
    rows = np.zeros(0, np.int64)
    for _ in range(JOINED):
        # half of the room is for rows that join later
        worst = worst_rows(loops.problem, part, loops.w, WORST_ROWS // 2)
        new = worst[~np.isin(worst, rows)][: WORST_ROWS - len(rows)]
        if not len(new) or loops.problem.progress.out_of_time:
            return
        rows = solve_for(np.append(new, rows), part, loops, room)
        if not len(rows):
            return


def worst_rows(problem: JointProblem, part: BlockShares, w: Array, number: int) -> Positions:
    """Return the positions of the ``number`` rows of the largest gaps at the weights w (d + 1, k)."""
    gap = problem.gaps(part, w)
    rows = np.argsort(-gap, kind="stable")[:number]
    return rows[gap[rows] > 0.0]


def solve_for(rows: Positions, part: BlockShares, loops: Loops, room: NewtonRoom) -> Positions:
    """Move the shares of these rows, or of the first of them whose values have room; return those moved: none where
    none has room, or where D would not gain."""
    d, X = len(loops.w) - 1, part.block.X
    lengths = np.diff(X.indptr)[rows] if isinstance(X, CSR) else np.full(len(rows), X.shape[1])
    rows = rows[: np.searchsorted(np.cumsum(lengths), room.values, side="right")]
    if not len(rows):
        return rows
    block, columns = _own_columns(part.block.take(rows), d)
    w, goal = loops.w[columns], loops.goal
    problem = loops.problem.with_columns(len(columns))
    subset, W = BlockShares(block, part.cost[rows], part.share[rows]), w.copy()
    values = block.nnz / len(rows)
    prices = newton_prices(block.is_dense, problem.shape, values, room.matrix_bytes)
    with one_blas_thread():
        joint = JointRows(problem, lambda: [subset], lambda _: None, W, prices, w)
        before = joint.D
        newton = AugmentedLagrangian(joint, W, joint.first_sigma, problem.progress)
        newton.solve(lambda gap, *_: gap <= goal, MOST_STEPS)
        gain = joint.finish(w) - before
    if not gain > 0.0:
        return rows[:0]
    part.share[rows] = subset.share
    loops.set_columns(columns, w, gain)
    return rows


def _own_columns(block: Block, n_columns: int) -> tuple[Block, Positions]:
    """The rows with their own columns only, and which these are; the constant feature's comes last."""
    if not isinstance(block.X, CSR):
        return block, np.arange(n_columns + 1)
    columns, indices = np.unique(block.X.indices, return_inverse=True)
    X = CSR(block.X.indptr, indices.reshape(-1).astype(np.int32), block.X.data)
    return Block(X, block.y, block.rows, block.weight), np.append(columns.astype(np.int64), n_columns)
