"""Second order: where sweeps over rows at hand crawl, the method of multipliers (multipliers.py) finishes them.

Whether it pays is told by counts alone, so that runs repeat: what sweeps over the problem's rows have cost so far
against what Newton's steps are expected to. So easy problems never see it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from llsvm.memory.plan import WORK_ON_ROWS, MemoryLeft
from llsvm.objective.losses import PLQLoss
from llsvm.objective.problems import Positions
from llsvm.solvers.blas import one_blas_thread
from llsvm.solvers.llsvm.block_state import BlockState
from llsvm.solvers.llsvm.chosen_rows import chosen_rows
from llsvm.solvers.llsvm.face import FACE_ROW_BYTES, Face
from llsvm.solvers.llsvm.multipliers import ROW_BYTES, VECTORS, Multipliers, Subproblem
from llsvm.solvers.llsvm.newton_system import MATRICES, Prices, Way
from llsvm.solvers.llsvm.run import Run
from llsvm.solvers.llsvm.scale import Scale
from llsvm.solvers.llsvm.tuning import LLSVMTuning

Vector = NDArray[np.float64]

SECOND_ORDER = "second order"  # the ledger's line of what this takes beside the work on rows
# Of dense rows as float64, at a time, of which so many are held, in no more than this part (1/4) of the room
PIECE_BYTES, PIECES, PIECE_SHARE = 1 << 20, 3, 4
RESIDENT_BYTES, RESIDENT_PROBLEM_BYTES = 40, 24  # of a row of a BlockState, and of each of its dual variables


def useful_bytes(memory: MemoryLeft, at_once: int, tuning: LLSVMTuning) -> int:
    """What so many problems at the same time can do with, at most, where all rows are at hand."""
    dataset = memory.dataset
    columns = dataset.n_columns + 1
    order = min(columns, dataset.n_rows, tuning.multipliers.max_order)
    each = (
        ROW_BYTES * dataset.n_rows
        + 8 * VECTORS * columns
        + PIECES * PIECE_BYTES
        + MATRICES * 8 * order * order
    )
    return at_once * each


class SecondOrder:
    """For the rows of blocks at hand."""

    def __init__(self, run: Run) -> None:
        self._run = run
        dataset = run.stream.dataset
        self._columns = dataset.n_columns + 1
        self._dense = dataset.is_dense

    def pays(self, part: BlockState, n_rows: int, n_active: int, visits: int, late: bool = False) -> bool:
        """Have so many visits to rows of a problem cost more than the multipliers would, over ``n_rows`` of the
        part?

        n_active: as many rows moved, or were free, of late. late: it does, if there is room."""
        run, tuning = self._run, self._run.tuning.multipliers
        if n_rows < 2:
            return False
        prices, _ = self._prices(part, n_rows)
        if prices.room_bytes < 0 or late:
            return prices.room_bytes >= 0
        spent = visits * prices.visit()
        free = min(n_active, n_rows)
        if run.threshold is None and self._is_wide(prices, free):
            return spent > run.tuning.face.products * 2 * free * prices.product()
        return spent > tuning.patience * self._price(prices, n_rows, free)

    def price(self, part: BlockState, n_rows: int, n_active: int) -> float:
        """ns of processor time that the multipliers are expected to take; infinite where they have no room, or are
        not the way. Arguments as in ``pays``."""
        prices, _ = self._prices(part, n_rows)
        free = min(n_active, n_rows)
        if prices.room_bytes < 0 or self._is_wide(prices, free):
            return math.inf
        return self._price(prices, n_rows, free)

    def _price(self, prices: Prices, n_rows: int, n_free: int) -> float:
        run, tuning = self._run, self._run.tuning.multipliers
        step = n_rows * (3 * prices.product() + tuning.point_price) + prices.by(prices.best(n_free), n_free)
        steps = tuning.smooth_steps if math.isfinite(run.sweeps.loss.smoothness) else tuning.steps
        return steps * (step + tuning.step_price) + tuning.start_price / len(run.sweeps.w)

    def solve(
        self, part: BlockState, problems: list[int], rows: list[Positions], gap: float, whole: bool
    ) -> None:
        """Solve each of the problems over the rows of the part that are given for it.

        gap: at which to end, a share of the objective. whole: these are all rows that the problems have, and
        ``run.start`` becomes the weights of the smallest gap."""
        if not problems:
            return
        with one_blas_thread():
            each = range(len(problems))
            self._run.sweeps.each(lambda j: self._solve(part, problems[j], rows[j], gap, whole), each)

    def _is_wide(self, prices: Prices, n_free: int) -> bool:
        """Are conjugate gradients the way to solve systems? Then they do without the method of multipliers."""
        if not isinstance(self._run.sweeps.loss, PLQLoss) or prices.room_bytes < FACE_ROW_BYTES * n_free:
            return False
        return prices.best(n_free) is Way.PRODUCTS

    def _along_faces(self, part: BlockState, c: int, problem: Subproblem, gap: float) -> None:
        """Sweeps over the rows of the problem, and steps along the faces they find (face.py), in turn, until the
        gap, as met by a sweep over all of them, is small."""
        run, sweeps = self._run, self._run.sweeps
        tuning = run.tuning.face
        at, progress = problem.at, run.stream.progress

        face = Face(problem, tuning, sweeps.rounded)
        scale = Scale(run)
        for _ in range(tuning.max_steps):
            part.active[c] = at
            met = sweeps.sweep(part, c)
            enough = gap * float(sweeps.dual[c])
            if met <= enough or scale.is_enough(part, c, met, enough) or progress.out_of_time:
                return
            for _ in range(tuning.sweeps - 1):
                if progress.out_of_time or sweeps.sweep(part, c) <= enough:
                    break
            alpha, margin = part.load(c, at)
            some = alpha[at]
            sweeps.dual[c] += face.step(some, sweeps.w[c])
            alpha[at] = some
            part.store(c, at, alpha, margin)

    def _prices(self, part: BlockState, n_rows: int) -> tuple[Prices, int]:
        """Prices, without room where that is negative; and bytes of a piece of dense rows."""
        tuning = self._run.tuning.multipliers
        room = self._room_bytes(part) // self._run.sweeps.at_once
        room -= ROW_BYTES * n_rows + 8 * VECTORS * self._columns
        piece_bytes = 0
        if self._dense:
            share = max(room // (PIECES * PIECE_SHARE), 1)
            # a power of 2: with a little more or less room, as more threads leave, sums are rounded alike
            piece_bytes = max(min(PIECE_BYTES, 1 << (share.bit_length() - 1)), 8 * self._columns)
        room -= PIECES * piece_bytes
        values = part.block.nnz / max(part.n_rows, 1)
        prices = Prices(self._dense, self._columns, values, room, tuning.max_order, tuning.max_products)
        return prices, piece_bytes

    def _room_bytes(self, part: BlockState) -> int:
        """What the part's rows leave of all that is signed for: no sweep is on its way, and no block at hand but
        the part's."""
        plan, width = self._run.stream.plan, len(part.alpha)
        assert plan is not None
        signed = plan.lines[WORK_ON_ROWS] + plan.lines.get(SECOND_ORDER, 0)
        return signed - part.n_rows * (RESIDENT_BYTES + RESIDENT_PROBLEM_BYTES * width)

    def _solve(self, part: BlockState, c: int, at: Positions, gap: float, whole: bool) -> None:
        run, sweeps, progress = self._run, self._run.sweeps, self._run.stream.progress
        loss, threshold = sweeps.loss, run.threshold
        at = np.sort(at[part.cost(c)[at] > 0])
        if not len(at) or progress.out_of_time:
            return
        prices, piece_bytes = self._prices(part, len(at))
        alpha, margin = part.load(c, at)
        before, w = alpha[at], sweeps.w[c]
        bias = sweeps.bias
        if threshold is not None:
            bias, w = threshold.steep, threshold.steepened(w)
        rows = chosen_rows(part.block.X, self._columns - 1, bias, piece_bytes, progress)
        cost, rest = part.cost(c)[at], np.zeros_like(w)
        target = part.target(at) if isinstance(loss, PLQLoss) else 0.0
        problem = Subproblem(rows, at, part.signs(c)[at], target, cost, loss, rest)
        if threshold is None and self._is_wide(prices, int(np.count_nonzero(loss.free(before, cost)))):
            self._along_faces(part, c, problem, gap)
            if whole:
                run.start[c] = w
            return
        if not whole:
            rest += w - problem.weights(before)
        others, begun = 0.0, float(sweeps.dual[c])
        if threshold is not None:
            sum_of_others = 0.0 if whole else threshold.alpha_sum - float(before.sum())
            rest[-1] = threshold.rest(sum_of_others)
            begun = problem.dual(before, problem.weights(before))
        elif not whole:
            others = begun - problem.dual(before, w)
        squares = np.zeros_like(w)
        rows.add_squares(at, np.ones(len(at)), squares)
        sigma = len(at) / max(float((squares if threshold is None else squares[:-1]).sum()), 1e-300)

        def enough(dual: float, v: Vector) -> float:
            size = max(dual + others, begun) if threshold is None else 0.5 * float(v[:-1] @ v[:-1])
            return gap * size

        solver = Multipliers(problem, prices, run.tuning.multipliers)
        found = solver.solve(before, w, sigma, enough)
        new, v, dual = found.alpha, found.v, found.dual
        if sweeps.round_to_float32:
            new = sweeps.rounded(new, cost)
            v = problem.weights(new)
            dual = problem.dual(new, v)
        if dual + others < begun:
            return
        alpha[at], margin[at] = new, problem.margins(v)
        part.store(c, at, alpha, margin)
        if threshold is not None:
            threshold.take(v, sum_of_others + float(new.sum()))
            run.begin_at_weights()
            return
        sweeps.w[c], sweeps.dual[c] = v, dual + others
        if whole:
            run.start[c] = found.w
