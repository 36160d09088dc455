"""The rows that miss their optimality conditions by most, as a problem of their own: what follows the loops where
there are too many columns for the matrices of Newton's method.

Where C is large, loops settle all rows but a few, which contradict each other: their shares have as far to go as C
is large, and come nearer by some 1/‖x_i‖² in a visit. Loops over these alone cost next to nothing, so they get
thousands (Loops.settle_rows). Where rows are nearly the same and their classes are not, even that is too few:
Newton's method (multipliers.py) takes some dozens of steps, in which only the columns that these rows have enter.
Of two rows that contradict each other the worst may be one, and the other settled: so what is worst after a
solution joins the rows, and all are solved for together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block, concat
from llsvm.process.threads import Threads
from llsvm.solvers.optim.augmented_lagrangian import MOST_STEPS
from llsvm.solvers.row_products import RowProducts
from llsvm.solvers.sequential_dual.duals import JointDual
from llsvm.solvers.sequential_dual.layout import WorstRoom
from llsvm.solvers.sequential_dual.loops import Loops
from llsvm.solvers.sequential_dual.multipliers import JointMultipliers
from llsvm.solvers.sequential_dual.rounds import JointRounds
from llsvm.solvers.sequential_dual.shares import BlockShares, squared_norm
from llsvm.solvers.sequential_dual.tuning import SequentialDualTuning
from llsvm.solvers.state import Value
from llsvm.stream.progress import Progress

Array = NDArray[np.float64]
UNTIL = 1e-3  # of the rows' gap


class WorstRows:
    """begun: work on them follows the loops from now on."""

    def __init__(
        self,
        dual: JointDual,
        bias: float,
        threads: Threads,
        room: WorstRoom,
        grid: float,
        tuning: SequentialDualTuning,
    ) -> None:
        """grid: shares are multiples of 1/grid."""
        self.begun = False
        self._dual, self._bias, self._threads = dual, bias, threads
        self._most, self._room, self._grid, self._tuning = tuning.worst_rows, room, grid, tuning

    def step(self, part: BlockShares, loops: Loops, left: float, progress: Progress) -> None:
        """All rows are at hand: a loop over them, then the worst. left: the share of the gap that the last pass
        did."""
        loops.tighten()  # P is far above what loops meet
        loops.train([part], self._tuning.until, 1)
        rows = self.choose(part, loops.w)
        if not self._by_newton(left):
            loops.settle_rows(part, rows)
            return
        for more in range(self._tuning.worst_joined, -1, -1):
            self.solve(part, rows, loops, progress)
            worse = np.setdiff1d(self.choose(part, loops.w), rows) if more else rows[:0]
            if not len(worse) or progress.out_of_time:
                break
            rows = np.append(rows, worse)  # what contradicts them: neither can be settled alone

    def survey(self, rounds: JointRounds) -> tuple[float, BlockShares | None]:
        """P at the weights as the last pass left them, and the worst of all rows, which are read for it."""
        rounds.start[...] = rounds.loops.w
        losses, worst = self.choose_of(rounds.parts(), rounds.start)
        return 0.5 * squared_norm(rounds.start) + losses, worst

    def step_out_of_core(
        self, worst: BlockShares | None, rounds: JointRounds, left: float, progress: Progress
    ) -> int:
        """Settle the worst rows of a survey; returns how many they are."""
        rounds.loops.tighten()
        if worst is None:
            return 0
        rows = np.arange(worst.n_rows)
        if self._by_newton(left):
            self.solve(worst, rows, rounds.loops, progress)
        else:
            rounds.loops.settle_rows(worst, rows)
        rounds.shares.set(worst.rows, worst.share)
        return worst.n_rows

    def _by_newton(self, left: float) -> bool:
        """Are the rows due for Newton's method? If the last pass left more than ``newton_from`` of the gap, but not
        the first time."""
        first, self.begun = not self.begun, True
        return not first and left > self._tuning.newton_from and self.has_newton

    def choose(self, part: BlockShares, w: Array) -> NDArray[np.int64]:
        """The positions of the rows of the largest gaps at the weights w (d + 1, k)."""
        return self._choose(part, w)[0]

    def _choose(self, part: BlockShares, w: Array) -> tuple[NDArray[np.int64], Array, float]:
        """The positions, the gaps of all rows, and the sum of their losses."""
        gap, losses = gaps(part, w, self._bias, self._dual)
        rows = np.argsort(-gap, kind="stable")[: self._most]
        return rows[gap[rows] > 0.0], gap, losses

    @property
    def has_newton(self) -> bool:
        return self._room.weights > 0

    def choose_of(self, parts: Iterable[BlockShares], w: Array) -> tuple[float, BlockShares | None]:
        """Of rows that come in blocks: Σ C_i loss_i, and copies of the same, the largest gap first, in the bytes
        that there are; None where no row has a gap."""
        best: BlockShares | None = None
        gap, losses = np.zeros(0), 0.0
        for part in parts:
            rows, own, loss = self._choose(part, w)
            losses += loss
            rows = rows[np.cumsum(_row_bytes(part)[rows]) <= self._room.rows_bytes]
            if not len(rows):
                continue
            found = _taken(part, rows)
            gap = np.append(gap, own[rows])
            both = found if best is None else _joined(best, found)
            order = np.argsort(-gap, kind="stable")[: self._most]
            held = np.cumsum(_row_bytes(both)[order])
            order = order[held <= self._room.rows_bytes]
            best, gap = _taken(both, order), gap[order]
        return losses, best if len(gap) else None

    def solve(self, part: BlockShares, rows: NDArray[np.int64], loops: Loops, progress: Progress) -> float:
        """Move the shares of these rows, or of the first of them whose columns have room, and the weights and D of
        all shares; returns what D gains."""
        w = loops.w
        rows = rows[: self._with_room(part.block, rows, w.shape)]
        if not len(rows):
            return 0.0
        block, columns = _own_columns(part.block.take(rows), len(w) - 1)
        own = w[columns]
        chosen = BlockShares(block, part.cost[rows], part.share[rows])
        floor = UNTIL * float(gaps(chosen, own, self._bias, self._dual)[0].sum())
        newton = JointMultipliers(
            self._dual, self._bias, self._threads, self._room.matrix_numbers, self._grid
        )
        gain = newton.solve(chosen, own, 0.0, MOST_STEPS, progress, floor)
        if gain > 0.0:
            w[columns], part.share[rows] = own, chosen.share
        loops.dual += gain
        loops.made += 1
        return gain

    # -- what a SolverState holds of it -----------------------------------------------------------------

    @property
    def numbers(self) -> dict[str, Value]:
        return {"many columns": self.begun}

    def restore(self, numbers: Mapping[str, Any]) -> None:
        """Go on from what these were."""
        self.begun = numbers.get("many columns", False)

    def _with_room(self, block: Block, rows: NDArray[np.int64], shape: tuple[int, ...]) -> int:
        """So many rows, of the first, that have few enough columns."""
        most = self._room.weights // shape[1]
        if shape[0] <= most:
            return len(rows)
        if not isinstance(block.X, CSR):
            return 0
        values = np.cumsum(np.diff(block.X.indptr)[rows]) + 1  # and the constant feature
        n = int(np.searchsorted(values, most, side="right"))
        while n < len(rows) and len(_own_columns(block.take(rows[: n + 1]), shape[0] - 1)[1]) <= most:
            n += 1
        return n


def _taken(part: BlockShares, rows: NDArray[np.int64]) -> BlockShares:
    return BlockShares(part.block.take(rows), part.cost[rows], part.share[rows])


def _joined(a: BlockShares, b: BlockShares) -> BlockShares:
    block, cost = concat([a.block, b.block]), np.append(a.cost, b.cost)
    return BlockShares(block, cost, np.concatenate([a.share, b.share]))


def _row_bytes(part: BlockShares) -> NDArray[np.int64]:
    """That each row takes, beside a few numbers."""
    X, share = part.block.X, part.share[0].nbytes
    if isinstance(X, CSR):
        return np.diff(X.indptr) * (X.indices.itemsize + X.data.itemsize) + share
    return np.full(len(X), X[0].nbytes + share)


def gaps(part: BlockShares, w: Array, bias: float, dual: JointDual) -> tuple[Array, float]:
    """(n,) C_i (loss_i + Σ_m a_im (s_y − s_m − 1)) at the weights w (d + 1, k), and Σ C_i loss_i."""
    products = RowProducts(part.block, bias, *w.shape)
    gap, losses = np.empty(part.n_rows), 0.0
    for rows in products.pieces(0, part.n_rows):
        y, cost = part.block.y[rows], part.cost[rows]
        scores = products.scores(products.matrix(rows), w)
        gap[rows] = dual.gaps(part.share[rows], scores, y, cost)
        losses += dual.loss(scores, y, cost)
    return gap, losses


def _own_columns(block: Block, n_columns: int) -> tuple[Block, NDArray[np.int64]]:
    """The rows with their own columns only, and which these are; the constant feature's comes last."""
    if not isinstance(block.X, CSR):
        return block, np.arange(n_columns + 1)
    columns, indices = np.unique(block.X.indices, return_inverse=True)
    X = CSR(block.X.indptr, indices.reshape(-1).astype(np.int32), block.X.data)
    return Block(X, block.y, block.rows, block.weight), np.append(columns.astype(np.int64), n_columns)
