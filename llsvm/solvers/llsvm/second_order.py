"""Second order: where sweeps over rows at hand crawl, the method of multipliers (multipliers.py) finishes them.

Whether it pays is told by counts alone, so that runs repeat: what sweeps over the problem's rows have cost so far,
or are about to, against what Newton's steps are expected to. So easy problems never see it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from llsvm.block import FLOAT64_BYTES
from llsvm.memory.plan import MemoryLeft
from llsvm.objective.losses import PLQLoss
from llsvm.objective.problems import Positions
from llsvm.solvers.llsvm.duals import BlockState, block_state_bytes
from llsvm.solvers.llsvm.extrapolation import Extrapolation, extrapolation_bytes
from llsvm.solvers.llsvm.multipliers import (
    SUBPROBLEM_ROW_BYTES,
    WEIGHT_VECTORS,
    Subproblem,
    solve_subproblem,
)
from llsvm.solvers.llsvm.run import Run
from llsvm.solvers.optim.conjugate_gradients import Way
from llsvm.solvers.optim.lapack import one_blas_thread
from llsvm.solvers.optim.newton_system import (
    DENSE_COPIES,
    MOST_ORDER,
    NewtonPrices,
    matrix_bytes,
)
from llsvm.solvers.optim.row_operator import PIECE_BYTES, RowOperator, piece_bytes

Vector = NDArray[np.float64]

SECOND_ORDER = "second order"  # the line of the memory plan for what this takes beside the work on rows
# Newton steps that a problem is expected to take, which its price is computed of. Lower begins second order sooner,
# where sweeps would have ended soon; higher leaves sweeps to crawl for longer.
EXPECTED_STEPS = 30
# Seconds that loading LAPACK and more kernels takes, once for all problems. Lower makes easy problems wait for
# these, higher leaves small problems to sweeps that crawl.
START_SECONDS = 0.1
# Sweeps of a working set, at most, where conjugate gradients would be the way. Only a cap: they end when the gap is
# small, or when time is over.
MOST_WORKING_SET_SWEEPS = 300


def useful_bytes(memory: MemoryLeft, n_parallel: int) -> int:
    """Return what so many problems at the same time can do with, at most, where all rows are in memory."""
    return n_parallel * _bytes(memory, min(_order(memory), MOST_ORDER))


def missing_bytes(memory: MemoryLeft, room: int) -> int:
    """Return what is missing to the ``room`` (bytes) for one problem, where all rows are in memory, of the least
    that it wants: a matrix, unless that is too large."""
    order = _order(memory)
    return max(0, _bytes(memory, order if order <= MOST_ORDER else 0) - room)


def _order(memory: MemoryLeft) -> int:
    """Return the order of a matrix of the columns or of the rows, whichever is the smaller."""
    return min(memory.dataset.n_columns + 1, memory.dataset.n_rows)


def _bytes(memory: MemoryLeft, order: int) -> int:
    dataset = memory.dataset
    return newton_bytes(dataset.n_rows, dataset.n_columns + 1, order, dataset.is_dense)


def newton_bytes(n_rows: int, columns: int, order: int, dense: bool) -> int:
    """Return what the method of multipliers takes for a problem, with matrices of that order."""
    vectors = SUBPROBLEM_ROW_BYTES * n_rows + FLOAT64_BYTES * WEIGHT_VECTORS * columns
    return vectors + matrix_bytes(order, dense) + dense * DENSE_COPIES * piece_bytes(columns)


class SecondOrder:
    """Newton's method for problems over rows in memory, and when it is worth while.

    run: the training."""

    def __init__(self, run: Run) -> None:
        self._run = run
        dataset = run.stream.dataset
        self._columns, self._dense = dataset.n_columns + 1, dataset.is_dense

    def is_worthwhile(
        self,
        part: BlockState,
        n_rows: int,
        n_active: int,
        visits: int,
        to_come: float,
        is_forced: bool = False,
    ) -> bool:
        """Return whether so many visits to rows of a problem have cost more than the method of multipliers would,
        over ``n_rows`` of the part; or whether those that are to come would. False where it has no room.

        n_active: as many rows moved, or were free, in the last sweep. to_come: visits at the rate of the last
        sweeps; they count where all rows are in memory. is_forced: it counts as such, if there is room."""
        free, prices = min(n_active, n_rows), self._prices(part, n_rows)
        if n_rows < 2 or prices.room_bytes < 0:
            return False
        whole = part is self._run.duals.whole
        price, doubt = self.price_of(prices, n_rows, free), self._run.tuning.doubt if whole else 1.0
        will_cost_more = whole and prices.updates(to_come) > doubt * price
        return is_forced or will_cost_more or doubt * prices.updates(visits) > price

    def price_of(self, prices: NewtonPrices, n_rows: int, n_free: int) -> float:
        """Return the seconds of work that solving a problem over so many rows takes, of which so many are free."""
        system = prices.system(prices.best(n_free), n_free)
        steps = EXPECTED_STEPS * (prices.products(3 * n_rows) + system)
        return steps + START_SECONDS / len(self._run.sweeps.w)

    def solve(
        self,
        part: BlockState,
        problems: list[int],
        rows: list[Positions],
        gap: float,
        starts: Mapping[int, Vector] | None = None,
        lent_bytes: int = 0,
    ) -> None:
        """Solve each of the problems over the rows of the part that are given for it.

        ``run.start`` becomes the weights of the smallest gap, for the next pass.

        gap: at which to end, a share of the objective. starts: of each problem, weights (d + 1,) close to its best
        ones to begin at; None: there are none but its own.
        lent_bytes: room beside what is signed for; if there is any, these rows are all that is not at rest."""
        if not problems:
            return

        def solve(j: int) -> None:
            c = problems[j]
            with part.held(c):
                self._solve(part, c, rows[j], gap, None if starts is None else starts[c], lent_bytes)

        with one_blas_thread():
            self._run.sweeps.for_each(solve, range(len(problems)))

    def extrapolation(
        self, part: BlockState, c: int, rows: Positions, lent_bytes: int = 0
    ) -> Extrapolation | None:
        """Return the extrapolation of sweeps over these rows of problem ``c`` in the part; None where it has no
        room, or the loss is not for it."""
        run, sweeps = self._run, self._run.sweeps
        room = (self._room_bytes(part) + lent_bytes) // sweeps.n_parallel
        needed = extrapolation_bytes(len(rows), self._columns)
        if room < needed or run.threshold is not None or not isinstance(sweeps.loss, PLQLoss):
            return None
        at = np.sort(rows[part.cost(c)[rows] > 0])
        return Extrapolation(sweeps, part, c, self._subproblem(part, c, at, sweeps.bias, 0, np.zeros(0)))

    def _subproblem(
        self, part: BlockState, c: int, at: Positions, bias: float, piece_bytes: int, rest: Vector
    ) -> Subproblem:
        """Return problem ``c`` over these rows of the part, ascending; piece_bytes: see ``RowOperator``."""
        progress, loss = self._run.stream.progress, self._run.sweeps.loss
        rows = RowOperator(part.block.X, self._columns - 1, bias, piece_bytes, progress)
        target = part.target(at) if isinstance(loss, PLQLoss) else 0.0
        return Subproblem(rows, at, part.signs(c)[at], target, part.cost(c)[at], loss, rest)

    def _descend(self, part: BlockState, c: int, at: Positions, gap: float, lent_bytes: int) -> None:
        """Sweep over the rows of a working set, with extrapolation, until the gap that a sweep over all meets is
        small: most of the work of conjugate gradients is lost from one point to the next."""
        sweeps, progress = self._run.sweeps, self._run.stream.progress
        extrapolation = self.extrapolation(part, c, at, lent_bytes)
        for _ in range(MOST_WORKING_SET_SWEEPS):
            if extrapolation is not None:
                extrapolation.step()
            target_gap = gap * float(sweeps.dual[c])
            swept_gap = sweeps.sweep(part, c, at)
            if swept_gap <= target_gap or progress.out_of_time:
                return
            sweeps.sweep_active(part, c, swept_gap, self._run.tuning.block_sweeps)

    def _prices(self, part: BlockState, n_rows: int, lent_bytes: int = 0) -> NewtonPrices:
        values = part.block.nnz / max(part.n_rows, 1)
        return self.prices(values, n_rows, self._room_bytes(part) + lent_bytes)

    def prices(self, values: float, n_rows: int, room: int) -> NewtonPrices:
        """Return the prices of Newton's method over so many rows; room_bytes is below 0 where it has no room.

        values: of a row. room: bytes for all problems at the same time."""
        left = self._left_bytes(n_rows, room)
        return NewtonPrices(self._dense, self._columns, values, left - DENSE_COPIES * self._piece_bytes(left))

    def _left_bytes(self, n_rows: int, room: int) -> int:
        """Return what the vectors of a problem leave of its part of the room."""
        return room // self._run.sweeps.n_parallel - newton_bytes(n_rows, self._columns, 0, dense=False)

    def _piece_bytes(self, left: int) -> int:
        """Return the bytes of a piece of dense rows, whose copies take at most half of what vectors leave of the
        room, in powers of 2: with a little more or less of it, as more threads leave, sums are rounded alike."""
        power = 1 << (max(left // (2 * DENSE_COPIES), 1).bit_length() - 1)
        return self._dense * max(min(PIECE_BYTES, power), FLOAT64_BYTES * self._columns)

    def work_bytes(self, n_rows: int, has_matrix: bool) -> int:
        """Return what work on so many rows of each problem takes beside the rows, with a matrix or without."""
        sweeps, columns = self._run.sweeps, self._columns
        if not has_matrix and isinstance(sweeps.loss, PLQLoss):
            return sweeps.n_parallel * extrapolation_bytes(n_rows, columns)
        order = min(n_rows, columns, MOST_ORDER) if has_matrix else 0
        return sweeps.n_parallel * newton_bytes(n_rows, columns, order, self._dense)

    def _room_bytes(self, part: BlockState) -> int:
        """Return what the part's rows leave of all that is signed for: no sweep is on its way, and no block in
        memory but the part's."""
        plan, width = self._run.stream.plan, len(part.alpha)
        signed = plan.work_bytes + self._run.second_order_bytes
        return signed - part.n_rows * block_state_bytes(width)

    def _solve(
        self, part: BlockState, c: int, at: Positions, gap: float, start: Vector | None, lent_bytes: int
    ) -> None:
        """Solve problem ``c`` over the rows of the part at these positions, as ``solve`` says.

        start: weights (d + 1,) to begin at; None: its own. A working set (lent_bytes > 0) is swept over where
        conjugate gradients would be the way. α, the margins and the weights are left as they were where D has
        not risen; the weights that the next pass measures change in any case. The one-class SVM's multiplier
        is part of the weights then, whose constant feature is ``threshold.steep``."""
        run, sweeps, threshold = self._run, self._run.sweeps, self._run.threshold
        at = np.sort(at[part.cost(c)[at] > 0])
        if not len(at) or run.stream.progress.out_of_time:
            return
        alpha, margin = part.load(c, at)
        before, cost = alpha[at], part.cost(c)[at]
        prices = self._prices(part, len(at), lent_bytes)
        n_free = int(np.count_nonzero(sweeps.loss.free(before, cost)))
        if lent_bytes and isinstance(sweeps.loss, PLQLoss) and prices.best(n_free) is Way.PRODUCTS:
            self._descend(part, c, at, gap, lent_bytes)
            run.measure_next(c, sweeps.w[c])
            return
        w, bias, whole = sweeps.w[c], sweeps.bias, part is run.duals.whole
        if threshold is not None:
            bias, w = threshold.steep, threshold.steepened(w)
        piece_bytes = self._piece_bytes(self._left_bytes(len(at), self._room_bytes(part) + lent_bytes))
        problem = self._subproblem(part, c, at, bias, piece_bytes, np.zeros_like(w))
        if not whole:
            problem.rest += w - problem.weights(before)
        other_dual, first_dual = 0.0, float(sweeps.dual[c])  # of the other rows; of all, as it begins
        if threshold is not None:
            other_alpha_sum = 0.0 if whole else threshold.alpha_sum - float(before.sum())
            problem.rest[-1] = threshold.rest(other_alpha_sum)
            first_dual = problem.dual(before, problem.weights(before))
        elif not whole:
            other_dual = first_dual - problem.dual(before, w)

        def target_gap(dual: float, v: Vector) -> float:
            size = max(dual + other_dual, first_dual) if threshold is None else 0.5 * float(v[:-1] @ v[:-1])
            return gap * size

        sigma = problem.first_sigma(None if threshold is None else -1)
        solution = solve_subproblem(problem, prices, before, w if start is None else start, sigma, target_gap)
        new, v, dual = solution.alpha, solution.v, solution.dual
        if sweeps.round_to_float32:
            new = sweeps.rounded(new, cost)
            v = problem.weights(new)
            dual = problem.dual(new, v)
        if threshold is None:  # also where the dual variables are no better than before
            run.measure_next(c, solution.w)
        if dual + other_dual < first_dual:
            return
        # those of all rows are measured next, at w
        alpha[at], margin[at] = new, solution.margins if start is not None else problem.margins(v)
        part.store(c, at, alpha, margin)
        if threshold is None:
            sweeps.set(c, v, dual + other_dual)
        else:
            threshold.take(v, other_alpha_sum + float(new.sum()))
            run.measure_weights_next()
