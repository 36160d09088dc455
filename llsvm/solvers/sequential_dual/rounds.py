"""Rounds out of core, and work on the worst rows in memory.

``JointRounds``: full passes over blocks, and what follows each: epochs over survivors, or Newton's method over all
rows.

``settle_worst_rows``: the rows that miss their optimality conditions by most, as a problem of their own. It follows
the loops where there are too many columns, or too little memory, for the matrices of Newton's method over all rows.
Where C is large, loops settle all rows but a few, which contradict each other: their shares have as far to go as C
is large, and come nearer by some 1/‖x_i‖² in a visit. Loops over these alone cost next to nothing. Where rows are
nearly the same and their classes are not, even these crawl: Newton's method (multipliers.py) takes some dozens of
steps, in which only the columns that these rows have enter. Of two rows that contradict each other the worst may
be one, and the other settled: so what is worst after a solution joins the rows, and all are solved for together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block
from llsvm.objective.problems import RowCosts
from llsvm.solvers.optim.augmented_lagrangian import MOST_STEPS, AugmentedLagrangian
from llsvm.solvers.optim.lapack import dot, one_blas_thread
from llsvm.solvers.sequential_dual.layout import WEIGHTS_LINE, WORST_ROWS
from llsvm.solvers.sequential_dual.loops import LOOP_ACCURACY, MAX_LOOPS, Loops
from llsvm.solvers.sequential_dual.multipliers import JointMultipliers, JointRows, NewtonRoom, newton_prices
from llsvm.solvers.sequential_dual.problem import BlockShares, JointProblem
from llsvm.spill.row_state import RowState
from llsvm.stream.rereading import EveryRow, Gathered
from llsvm.stream.sparse_state import SparseState
from llsvm.stream.stream import Stream

Array = NDArray[np.float64]
Positions = NDArray[np.int64]

# Arrays of a SolverState that hold the survivors in memory: rows' numbers and class ids, their slack, and the rows.
_ROWS, _IDS, _SLACK, _WEIGHT = "survivors", "survivors_y", "survivors_slack", "survivors_weight"
_CSR = ("survivors_indptr", "survivors_indices", "survivors_data")
_DENSE = "survivors_X"
# Solutions by Newton's method one after the other, at most, each of the rows of the one before and what is worst
# after it. With fewer, rows that contradict settled ones wait for the next pass; each one more takes the gaps of
# all rows.
JOINED = 4


class JointRounds:
    """shares: of all rows. start: (d + 1, k) float64, the weights as the pass at hand began. n_active: rows that
    were free or violating in the last full pass; before the first, all. terms: of D, of all rows, see
    ``JointProblem.terms``, once they were seen."""

    def __init__(self, stream: Stream, loops: Loops, shares: RowState | SparseState, costs: RowCosts) -> None:
        self.loops = loops
        self.shares = shares
        self.start = np.empty_like(loops.w)
        self.n_active = stream.dataset.n_rows
        self.terms = 0.0
        self._stream = stream
        self._costs = costs

    def full_pass(self, only_measures: Callable[[], bool]) -> float:
        """Measure the primal at the weights it begins with, which it returns, and update. only_measures: asked
        before each block, which is not trained if so."""
        loops, stream, survivors = self.loops, self._stream, self._stream.survivors
        self.start[...] = loops.w
        spill = self.n_active < stream.dataset.n_rows
        primal, n_active, terms = 0.5 * dot(self.start, self.start), 0, 0.0
        is_first = self.terms == 0.0
        for block in stream.all():
            part = self.part(block)
            if is_first:
                terms += loops.problem.terms(part)
            losses, rows = loops.measure(part, self.start)
            primal += losses
            newer = np.isin(survivors.resident.rows, part.rows)  # a copy of these rows is at hand
            survivors.retain(~newer)
            if not only_measures():
                self._train_with_survivors(part, rows)
            survivors.add(block, part.slack, 0.0 if spill else None)
            n_active += part.n_active
            stream.progress.note_survivors(n_active)
        survivors.swap_generation()
        self.n_active, self.terms = n_active, terms if is_first else self.terms
        return primal

    def measure(self, w: NDArray[np.float64]) -> float:
        """The primal at the weights w, with which ``start`` is then the same."""
        self.start[...] = w
        losses, self.n_active = 0.0, 0
        for part in self.parts():
            loss, rows = self.loops.measure(part, self.start)
            losses, self.n_active = losses + loss, self.n_active + len(rows)
        return 0.5 * dot(self.start, self.start) + losses

    def parts(self) -> Iterator[BlockShares]:
        """All rows with their shares, read once more."""
        return map(self.part, self._stream.all())

    def part(self, block: Block) -> BlockShares:
        """Its rows with their shares."""
        return BlockShares(block, self._costs.of(block), self.shares.get(block.rows))

    # -- epochs over survivors ------------------------------------------------------------------------------

    def epochs(self, primal: float) -> int:
        """Epochs over the survivors, in memory and spilled, until their part of the gap is small; returns how many
        there are. primal: as last measured."""
        loops, survivors = self.loops, self._stream.survivors
        self._stream.progress.begin("survivors", len(survivors))
        end_gap = LOOP_ACCURACY * (primal - loops.D)
        for _ in range(MAX_LOOPS):
            resident = self.part(survivors.resident)
            loops.train([resident], [np.arange(resident.n_rows)], end_gap)
            self._put_back(resident)
            late = self._stream.progress.out_of_time
            if survivors.spilled is None or late or self._spilled_epoch() <= end_gap:
                break
        return len(survivors)

    def _spilled_epoch(self) -> float:
        """Train each spilled block with the survivors in memory; returns the blocks' gap as met."""
        survivors = self._stream.survivors
        gap = 0.0
        for block in self._stream.active():
            if self._stream.progress.out_of_time:
                break  # the next pass, if there is one, sees all rows
            part = self.part(block)
            gap += self._train_with_survivors(part, np.arange(part.n_rows))
            survivors.add(block, part.slack, 0.0)
        survivors.swap_generation()
        return gap

    def _train_with_survivors(self, part: BlockShares, rows: NDArray[np.int64]) -> float:
        """Train these rows of a block together with the survivors in memory; returns the rows' gap as met."""
        resident = self.part(self._stream.survivors.resident)
        gap = self.loops.train([part, resident], [rows, np.arange(resident.n_rows)])
        self._put_back(resident)
        self.shares.set(part.rows, part.share)
        return gap

    def _put_back(self, resident: BlockShares) -> None:
        self.shares.set(resident.rows, resident.share)
        self._stream.survivors.set_slack(resident.slack)

    # -- Newton's method over all rows ----------------------------------------------------------------------

    def can_read_every_row(self) -> bool:
        """Return whether there is room for readings of all rows, which must be in the cache."""
        return 0 < EveryRow.least_bytes(self._stream) <= self._room_bytes

    def newton_stage(self, newton: JointMultipliers, accuracy: float) -> int:
        """Steps of Newton's method until the gap is at most ``accuracy`` · D; returns how many rows there are.
        Blocks of rows and the survivors in memory are of no use meanwhile, lend their room and are given up."""
        with Gathered(self._stream, WEIGHTS_LINE, 0) as gathered, one_blas_thread():
            gathered.drop_resident()
            every, loops = EveryRow(self._stream, self._room_bytes), self.loops

            def parts() -> Iterator[BlockShares]:
                return map(self.part, map(every.block, range(len(every))))

            def store(part: BlockShares) -> None:
                self.shares.set(part.rows, part.share)

            loops.solved(newton.solve(loops.problem, parts, store, loops.w, accuracy))
        return self._stream.dataset.n_rows

    @property
    def _room_bytes(self) -> int:
        return self._stream.plan.two_blocks_bytes + self._stream.plan.survivor_bytes

    # -- what a SolverState holds of it -----------------------------------------------------------------

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The survivors in memory; views."""
        survivors = self._stream.survivors
        block = survivors.resident
        arrays: dict[str, NDArray[Any]] = {_ROWS: block.rows, _IDS: block.y, _SLACK: survivors.slack}
        if block.weight is not None:
            arrays[_WEIGHT] = block.weight
        if isinstance(block.X, CSR):
            return arrays | dict(zip(_CSR, block.X, strict=True))
        return arrays | {_DENSE: block.X}

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_active: int, terms: float) -> None:
        """Go on from what these were."""
        self.n_active, self.terms = n_active, terms
        X = CSR(*(arrays[name] for name in _CSR)) if _DENSE not in arrays else arrays[_DENSE]
        block = Block(X, arrays[_IDS], arrays[_ROWS], arrays.get(_WEIGHT))
        survivors, slack = self._stream.survivors, arrays[_SLACK]
        survivors.add(block, np.zeros_like(slack), None)  # there was room for all, and there is
        survivors.set_slack(slack)


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
