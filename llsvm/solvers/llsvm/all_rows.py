"""Second order over all rows, where these do not fit in memory, but a matrix of all columns does: the method of
multipliers (multipliers.py) as it is, of which each product with the rows is a reading of the binary cache
(every_row.py). A Newton step takes three: ∇ψ, H, and how margins change along the step; each row of a problem keeps
some numbers in memory (ROW_BYTES).

Meant for problems whose free rows have no room together (working_sets.py): second order over some of them finds out
that others are free, too. Of a reading, blocks of rows and the survivors in memory are of no use, and lend their
room.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from llsvm.memory.plan import BLOCKS, SURVIVORS, WORK_ON_ROWS
from llsvm.objective.losses import PLQLoss
from llsvm.objective.problems import Positions
from llsvm.solvers.llsvm.layout import WEIGHTS
from llsvm.solvers.llsvm.multipliers import Multipliers, Subproblem
from llsvm.solvers.llsvm.newton_system import DENSE_MATRICES, MATRICES, Prices
from llsvm.solvers.llsvm.read_rows import ReadRows
from llsvm.solvers.llsvm.run import Run
from llsvm.solvers.llsvm.second_order import SecondOrder
from llsvm.solvers.optim.blas import one_blas_thread
from llsvm.stream.every_row import EveryRow
from llsvm.stream.gathered import Gathered

Vector = NDArray[np.float64]
READINGS = 3  # of a Newton step
CACHE_PRICE = 10.0  # ns: of a value, read from the cache
POSITION_BYTES = 40  # of a row: its position, sign, cost and target, and α as it was


class AllRows:
    """begun: in this round. done: (k,) the problem waits for the next pass as it is."""

    def __init__(self, run: Run, second_order: SecondOrder, done: NDArray[np.bool_]) -> None:
        """done: is changed."""
        self._run, self._second_order = run, second_order
        self.begun, self.done = False, done

    def begin(self) -> None:
        """A round begins."""
        self.begun = False

    @property
    def fits(self) -> bool:
        """Has that room?"""
        run = self._run
        least = EveryRow.least_bytes(run.stream)
        if least == 0 or run.threshold is not None or run.tuning.all_rows.patience == math.inf:
            return False
        return self._prices(self._room_bytes - least)[0].has_room(run.start.shape[1])

    def pay(self, problems: list[int], n_free: NDArray[np.int64], again: bool) -> list[int]:
        """Of these problems, those of which sweeps have cost more than this would. n_free: (k,) so many rows of
        each are free, or moved. again: second order over some rows has been tried, and counts, too."""
        if not problems or not self.fits:
            return []
        run, dataset = self._run, self._run.stream.dataset
        prices = self._prices(self._room_bytes)[0]
        reading = READINGS * CACHE_PRICE * dataset.nnz * self._second_order.steps

        def pays(c: int) -> bool:
            free = min(int(n_free[c]), dataset.n_rows)
            price = reading + self._second_order.price_of(prices, dataset.n_rows, free)
            spent = int(run.sweeps.work[c]) * prices.visit()
            spent += again * self._second_order.price_of(prices, free, free)
            return spent > run.tuning.all_rows.patience * price

        return [c for c in problems if pays(c)]

    def solve(self, problems: list[int], gap: float) -> None:
        """Solve these problems, one after the other, to such a gap, a share of the objective."""
        run = self._run
        self.begun = True
        run.begin_at_weights()
        with Gathered(run.stream, WEIGHTS, 0) as gathered, one_blas_thread():
            gathered.drop_resident()
            self._in_turn(problems, gap)
        self.done[problems] = True

    def _in_turn(self, problems: list[int], gap: float) -> None:
        run = self._run
        prices, piece_bytes = self._prices(self._room_bytes)
        matrices = DENSE_MATRICES if prices.dense else MATRICES
        every = EveryRow(run.stream, prices.room_bytes - matrices * 8 * prices.columns**2)
        rows = ReadRows(every, prices.columns - 1, run.sweeps.bias, piece_bytes, run.stream.progress)
        for c in problems:
            if not run.stream.progress.out_of_time:
                self._solve(c, every, rows, prices, gap)

    @property
    def _room_bytes(self) -> int:
        """Of the work on rows, that on a block remains."""
        plan = self._run.stream.plan
        assert plan is not None
        work = plan.lines[WORK_ON_ROWS] * plan.survivor_rows // (plan.survivor_rows + plan.block_rows)
        return plan.lines[BLOCKS] + plan.lines[SURVIVORS] + work

    def _prices(self, room: int) -> tuple[Prices, int]:
        """As of SecondOrder. room: bytes, for one problem."""
        dataset = self._run.stream.dataset
        room -= POSITION_BYTES * dataset.n_rows
        values = dataset.nnz / max(dataset.n_rows, 1)
        at_once = self._run.sweeps.at_once
        prices, piece_bytes = self._second_order.prices(values, dataset.n_rows, room * at_once)
        return replace(prices, by_columns=True), piece_bytes

    def _solve(self, c: int, every: EveryRow, rows: ReadRows, prices: Prices, gap: float) -> None:
        run, sweeps = self._run, self._run.sweeps
        problem, before = self._problem(c, every, rows)
        begun = float(sweeps.dual[c])
        solver = Multipliers(problem, prices, run.tuning.multipliers)
        found = solver.solve(
            before, sweeps.w[c], problem.first_sigma(), lambda dual, v: gap * max(dual, begun)
        )
        new, v, dual = found.alpha, found.v, found.dual
        if sweeps.round_to_float32:
            new = sweeps.rounded(new, problem.cost)
            v = problem.weights(new)
            dual = problem.dual(new, v)
        if dual < begun:
            return
        self._store(c, every, problem.at, new)
        sweeps.w[c], sweeps.dual[c], run.start[c] = v, dual, found.w

    def _problem(self, c: int, every: EveryRow, rows: ReadRows) -> tuple[Subproblem, Vector]:
        """The problem of all rows that have a cost, and their α."""
        run, n = self._run, self._run.stream.dataset.n_rows
        loss = run.sweeps.loss
        at, used = np.empty(n, np.intp), 0
        sign, cost, alpha, target = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
        for number in range(len(every)):
            part = run.duals.of(every.block(number))
            own = np.sort(part.members(c))
            own = own[part.cost(c)[own] > 0]
            some = slice(used, used + len(own))
            at[some], alpha[some] = own + every.first[number], part.of(c, own)[1]
            sign[some], cost[some] = part.signs(c)[own], part.cost(c)[own]
            target[some] = part.target(own) if isinstance(loss, PLQLoss) else 0.0
            used = some.stop
        columns = np.zeros(run.sweeps.w.shape[1])
        given = rows, at[:used], sign[:used], target[:used], cost[:used]
        return Subproblem(*given, loss, columns), alpha[:used]

    def _store(self, c: int, every: EveryRow, at: Positions, new: Vector) -> None:
        """Let the α of problem ``c`` be these."""
        duals = self._run.duals
        for number, (start, stop) in enumerate(pairwise(np.searchsorted(at, every.first).tolist())):
            part, own = duals.of(every.block(number)), at[start:stop] - every.first[number]
            alpha, margin = part.load(c, own)
            alpha[own] = new[start:stop]
            part.store(c, own, alpha, margin)
            duals.store(part)
