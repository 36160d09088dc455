"""The method of multipliers (multipliers.py) over all rows where these do not fit in memory, but the matrix of a
step does: each look at the rows is a reading of the binary cache (every_row.py).

Of a row nothing is kept but its shares, which are the proximal point: scores are made anew at each reading. So a
step takes some three readings, for the matrix and two points of a line search, however many rows there are. Of a
reading, blocks of rows and the survivors in memory are of no use, and lend their room.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from llsvm.memory.plan import BLOCKS, SURVIVORS
from llsvm.objective.costs import RowCosts
from llsvm.solvers.optim.blas import one_blas_thread
from llsvm.solvers.row_products import RowProducts
from llsvm.solvers.sequential_dual.duals import NO_CHANGE, JointDual
from llsvm.solvers.sequential_dual.layout import WEIGHTS
from llsvm.solvers.sequential_dual.loops import Loops
from llsvm.solvers.sequential_dual.multipliers import Multipliers
from llsvm.solvers.sequential_dual.newton_system import WholeSystem
from llsvm.solvers.sequential_dual.prices import readings_pay
from llsvm.solvers.sequential_dual.prox_kernel import N_TOTALS
from llsvm.solvers.sequential_dual.proximal_point import Point, Totals
from llsvm.solvers.sequential_dual.rounds import Rounds
from llsvm.solvers.sequential_dual.shares import BlockShares, KeptShares, squared_norm
from llsvm.solvers.sequential_dual.tuning import SequentialDualTuning
from llsvm.stream.every_row import EveryRow
from llsvm.stream.gathered import Gathered
from llsvm.stream.progress import Progress
from llsvm.stream.stream import Stream

Array = NDArray[np.float64]
Work = Callable[[BlockShares, RowProducts, slice, Array], Totals]


class RowsRead:
    """See ``JointRows``. D: of the shares as they are. ``move_base`` changes these, and D never falls by it; w
    and D are summed anew from them then."""

    def __init__(
        self,
        every: EveryRow,
        shares: KeptShares,
        costs: RowCosts,
        dual: JointDual,
        loops: Loops,
        progress: Progress,
    ) -> None:
        """loops: of the weights' shape, the constant feature, threads, and the grid."""
        self._every, self._shares, self._costs, self._dual = every, shares, costs, dual
        self._shape, self._bias, self._threads, self._grid = (
            loops.w.shape,
            loops.bias,
            loops.threads,
            loops.grid,
        )
        self._progress = progress
        self._W = self._step = np.zeros(self._shape)
        self.W0 = np.zeros(self._shape)  # there are no other rows
        (linear, squares, *_), self._w = self._over(self._begin)
        self._at_first = self.D = linear - 0.5 * squared_norm(self._w)
        self._found = self.D  # of the last point
        self.first_sigma = int(every.first[-1]) / max(squares, 1e-300)

    def set_weights(self, W: Array) -> None:
        self._W, self._step = W.copy(), np.zeros(self._shape)

    def set_change(self, step: Array) -> None:
        self._step = step

    def take(self, length: float) -> None:
        self._W += length * self._step

    def point(self, sigma: float, length: float = 0.0) -> Point:
        def work(part: BlockShares, products: RowProducts, rows: slice, sums: Array) -> Totals:
            X, y, cost = products.matrix(rows), part.block.y[rows], part.cost[rows]
            change = products.scores(X, self._step) if length else NO_CHANGE
            base, scores = self._dual.of_shares(part.share[rows], y, cost), products.scores(X, self._W)
            _, v, totals = self._dual.prox_along(base, scores, change, length, sigma, y, cost)
            products.add(X, v, sums)
            return totals

        totals, sums = self._over(work)
        point = Point.of(totals, sums)
        self._found = point.linear - 0.5 * squared_norm(sums)
        return point

    def newton_step(self, g: Array, sigma: float) -> Array:
        whole = WholeSystem(self._dual, self._shape, self._threads, self._progress)
        for number in range(len(self._every)):
            part, products = self._part(number)
            face = np.empty((part.n_rows, self._shape[1]), bool)

            def find(t: int, start: int, stop: int, part=part, products=products, face=face) -> None:  # type: ignore[no-untyped-def]
                for rows in products.pieces(start, stop):
                    y, cost = part.block.y[rows], part.cost[rows]
                    face[rows] = self._dual.face(self._p(part, products, rows, sigma), y, cost)

            self._threads.over_rows(part.n_rows, find)
            whole.add(products, np.flatnonzero(self._dual.rank(face)), face, part.block.y)
        return whole.solve(g, sigma)

    def move_base(self, sigma: float) -> None:
        if not self._found >= self.D:
            return

        def work(part: BlockShares, products: RowProducts, rows: slice, sums: Array) -> Totals:
            y, cost = part.block.y[rows], part.cost[rows]
            p = self._p(part, products, rows, sigma)
            part.share[rows] = self._dual.shares(p, y, cost, self._grid)
            return self._add(part, products, rows, sums)

        (linear, *_), self._w = self._over(work, store=True)
        self.D = linear - 0.5 * squared_norm(self._w)

    def finish(self, w: Array) -> float:
        w[...] = self._w
        return self.D - self._at_first

    def _p(self, part: BlockShares, products: RowProducts, rows: slice, sigma: float) -> Array:
        y, cost = part.block.y[rows], part.cost[rows]
        base = self._dual.of_shares(part.share[rows], y, cost)
        return self._dual.prox(base, products.scores(products.matrix(rows), self._W), sigma, y, cost)

    def _begin(self, part: BlockShares, products: RowProducts, rows: slice, sums: Array) -> Totals:
        return *self._add(part, products, rows, sums), products.squares(products.matrix(rows))

    def _add(self, part: BlockShares, products: RowProducts, rows: slice, sums: Array) -> Totals:
        """What the shares add up to."""
        y, cost = part.block.y[rows], part.cost[rows]
        p = self._dual.of_shares(part.share[rows], y, cost)
        products.add(products.matrix(rows), self._dual.coefficients(p, y, cost), sums)
        return (self._dual.linear(p, y),)

    def _part(self, number: int) -> tuple[BlockShares, RowProducts]:
        block = self._every.block(number)
        part = BlockShares(block, self._costs.of(block), self._shares.get(block.rows))
        return part, RowProducts(block, self._bias, *self._shape)

    def _over(self, work: Work, store: bool = False) -> tuple[list[float], Array]:
        """A reading: what ``work`` returns of all pieces, and what it adds to sums as large as the weights. store:
        the shares that it has changed."""
        totals, sums = np.zeros(N_TOTALS), np.zeros(self._shape)
        for number in range(len(self._every)):
            part, products = self._part(number)

            def of_range(t: int, start: int, stop: int, part=part, products=products) -> tuple[Array, Array]:  # type: ignore[no-untyped-def]
                found, own = np.zeros(N_TOTALS), np.zeros(self._shape)
                for rows in products.pieces(start, stop):
                    each = work(part, products, rows, own)
                    found[: len(each)] += each
                return found, own

            for found, own in self._threads.over_rows(part.n_rows, of_range):
                totals += found
                sums += own
            if store:
                self._shares.set(part.rows, part.share)
        return totals.tolist(), sums


class AllRows:
    """Newton's method over all rows: stages of its steps, each followed by a pass that measures."""

    def __init__(
        self,
        newton: Multipliers,
        rounds: Rounds,
        costs: RowCosts,
        stream: Stream,
        tuning: SequentialDualTuning,
    ) -> None:
        self._newton, self._rounds, self._costs = newton, rounds, costs
        self._stream, self._tuning = stream, tuning

    @property
    def begun(self) -> bool:
        return self._newton.W is not None

    @property
    def is_due(self) -> bool:
        """Have loops cost as much as it would, or is it at work?"""
        rounds = self._rounds
        given = rounds.loops, rounds.n_active, self._stream.dataset, self._tuning
        return self.begun or readings_pay(*given)

    def full_pass(self, measure: bool, epochs: bool) -> float:
        """Returns P at ``rounds.start``: Newton's weights, which are only measured, if D rose by the last stage;
        else as ``Rounds.full_pass``, whose blocks are trained until this is due."""
        W = self._newton.W
        if W is not None and self._newton.gained:
            return self._rounds.measure(W)
        enough = None if self.begun else lambda: self.is_due
        return self._rounds.full_pass(measure, epochs, enough)

    def solve(self, enough: float) -> int:
        """A stage, until the gap is at most ``enough`` · D. Sets D to that of the shares; the survivors in memory
        are given up. Returns how many rows there are."""
        with Gathered(self._stream, WEIGHTS, 0) as gathered, one_blas_thread():
            gathered.drop_resident()
            self._solve(enough)
        return self._stream.dataset.n_rows

    def _solve(self, enough: float) -> None:
        """Nothing of it is held after."""
        stream, rounds, loops, newton = self._stream, self._rounds, self._rounds.loops, self._newton
        every = EveryRow(stream, _room_bytes(stream))
        rows = RowsRead(every, rounds.shares, self._costs, newton.dual, loops, stream.progress)
        loops.dual = rows.D
        loops.dual += newton.solve_rows(rows, loops.w, enough, self._tuning.newton_stage, stream.progress)


def has_room(stream: Stream) -> bool:
    """For readings of all rows, which must be in the cache."""
    return 0 < EveryRow.least_bytes(stream) <= _room_bytes(stream)


def _room_bytes(stream: Stream) -> int:
    assert stream.plan is not None
    return stream.plan.lines[BLOCKS] + stream.plan.lines[SURVIVORS]
