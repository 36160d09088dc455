"""Second order: where sweeps over rows at hand crawl, the method of multipliers (multipliers.py) finishes them.

Whether it pays is told by counts alone, so that runs repeat: what sweeps over the problem's rows have cost so far,
or are about to, against what Newton's steps are expected to. So easy problems never see it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from llsvm.memory.plan import MemoryLeft
from llsvm.objective.losses import PLQLoss
from llsvm.objective.problems import Positions
from llsvm.solvers.llsvm.block_state import BlockState
from llsvm.solvers.llsvm.extrapolation import Extrapolation, extrapolation_bytes
from llsvm.solvers.llsvm.face import FACE_ROW_BYTES, FACE_VECTORS, Face
from llsvm.solvers.llsvm.multipliers import ROW_BYTES, VECTORS, Subproblem, solve_subproblem
from llsvm.solvers.llsvm.newton_system import SMALL, Prices, matrix_bytes
from llsvm.solvers.llsvm.run import Run
from llsvm.solvers.llsvm.tuning import LLSVMTuning
from llsvm.solvers.optim.blas import one_blas_thread
from llsvm.solvers.optim.conjugate_gradients import Way
from llsvm.solvers.optim.row_operator import RowOperator

Vector = NDArray[np.float64]

SECOND_ORDER = "second order"  # the ledger's line of what this takes beside the work on rows
# Of dense rows as float64, at a time, of which so many are held, in no more than this part (1/4) of the room
PIECE_BYTES, PIECES, PIECE_SHARE = 1 << 20, 3, 4
RESIDENT_BYTES, RESIDENT_PROBLEM_BYTES = 40, 24  # of a row of a BlockState, and of each of its dual variables


def useful_bytes(memory: MemoryLeft, at_once: int, tuning: LLSVMTuning) -> int:
    """What so many problems at the same time can do with, at most, where all rows are at hand."""
    dataset = memory.dataset
    order = min(_order(memory), tuning.multipliers.max_order)
    return at_once * newton_bytes(dataset.n_rows, dataset.n_columns + 1, order, dataset.is_dense)


def missing_bytes(memory: MemoryLeft, room: int, tuning: LLSVMTuning) -> int:
    """Of what one problem wants at least, where all rows are at hand: a matrix, unless that is too large. room:
    bytes that there are for it."""
    dataset, order = memory.dataset, _order(memory)
    order = order if order <= tuning.multipliers.max_order else 0
    return max(0, newton_bytes(dataset.n_rows, dataset.n_columns + 1, order, dataset.is_dense) - room)


def _order(memory: MemoryLeft) -> int:
    """Of a matrix of the columns or of the rows."""
    return min(memory.dataset.n_columns + 1, memory.dataset.n_rows)


def newton_bytes(n_rows: int, columns: int, order: int, dense: bool) -> int:
    """Return what the method of multipliers takes for a problem, with matrices of that order."""
    vectors = ROW_BYTES * n_rows + 8 * VECTORS * columns
    return vectors + matrix_bytes(order, dense) + dense * PIECES * PIECE_BYTES


class SecondOrder:
    """For the rows of blocks at hand."""

    def __init__(self, run: Run) -> None:
        self._run = run
        dataset = run.stream.dataset
        self._columns = dataset.n_columns + 1
        self._dense = dataset.is_dense

    def pays(
        self, part: BlockState, n_rows: int, n_active: int, visits: int, to_come: float, at_once: bool = False
    ) -> bool:
        """Have so many visits to rows of a problem cost more than the multipliers would, over ``n_rows`` of the
        part; or would those that are to come?

        n_active: as many rows moved, or were free, in the last sweep. to_come: at the rate of the last sweeps; it
        counts where all rows are at hand, and systems are solved over columns, so that the price is known. at_once:
        it does, if there is room."""
        if n_rows < 2:
            return False
        free = min(n_active, n_rows)
        prices, _ = self._prices(part, n_rows)
        if prices.room_bytes < 0 and not self._is_wide(prices, n_rows, free, False):
            return False
        whole = part is self._run.duals.whole
        doubt = self._run.tuning.multipliers.doubt if whole else 1.0
        if at_once or visits * prices.visit() > self.price_of(prices, n_rows, free, False, 1.0 / doubt):
            return True
        price = self.price_of(prices, n_rows, free, False, doubt)
        return whole and prices.best(free) is Way.COLUMNS and to_come * prices.visit() > price

    def has_matrix(self, part: BlockState, n_rows: int, n_free: int) -> bool:
        """Is there room for a matrix, over so many rows of the part, of which so many are free?"""
        return self._prices(part, n_rows)[0].best(n_free) is not Way.PRODUCTS

    def price_of(self, prices: Prices, n_rows: int, free: int, lent: bool, times: float = 1.0) -> float:
        """In ns: of solving a problem over so many rows, of which so many are free. lent: see ``_is_wide``. times:
        the method of multipliers takes so many times the work that is expected of it."""
        if self._is_wide(prices, n_rows, free, lent):
            return self._run.tuning.face.products * 2 * free * prices.worth()
        return self._price(prices, n_rows, free, times)

    def _price(self, prices: Prices, n_rows: int, n_free: int, times: float = 1.0) -> float:
        """Of the method of multipliers, its work so many times."""
        run, tuning = self._run, self._run.tuning.multipliers
        step = n_rows * (3 * prices.product() + tuning.point_price) + prices.by(prices.best(n_free), n_free)
        return times * self.steps * (step + tuning.step_price) + tuning.start_price / len(run.sweeps.w)

    @property
    def visit_price(self) -> float:
        """In ns: of coordinate descent, to an average row."""
        dataset = self._run.stream.dataset
        return self.prices(dataset.nnz / max(dataset.n_rows, 1), dataset.n_rows, 0)[0].visit()

    @property
    def steps(self) -> int:
        """Newton's, that are expected."""
        tuning = self._run.tuning.multipliers
        return tuning.smooth_steps if math.isfinite(self._run.sweeps.loss.smoothness) else tuning.steps

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
            self._run.sweeps.each(solve, range(len(problems)))

    def extrapolation(
        self, part: BlockState, c: int, rows: Positions, beside_bytes: int = 0, lent_bytes: int = 0
    ) -> Extrapolation | None:
        """For sweeps over these rows of problem ``c`` in the part; None where it has no room beside so much, or the
        loss is not for it."""
        run, sweeps, loss = self._run, self._run.sweeps, self._run.sweeps.loss
        at = _ascending(rows)
        room = (self._room_bytes(part) + lent_bytes) // sweeps.at_once - beside_bytes
        piece_bytes = max(PIECE_BYTES, 8 * self._columns) if self._dense else 0
        needed = extrapolation_bytes(len(at), self._columns) + PIECES * piece_bytes
        if room < needed or run.threshold is not None or not isinstance(loss, PLQLoss):
            return None
        at = at[part.cost(c)[at] > 0]
        chosen = RowOperator(part.block.X, self._columns - 1, sweeps.bias, piece_bytes, run.stream.progress)
        given = part.signs(c)[at], part.target(at), part.cost(c)[at]
        return Extrapolation(sweeps, part, c, Subproblem(chosen, at, *given, loss, np.zeros(0)))

    def _is_wide(self, prices: Prices, n_rows: int, n_free: int, lent: bool) -> bool:
        """Are conjugate gradients the way to solve systems? Then they do without the method of multipliers. lent:
        also where that needs matrices of the free rows, and a few steps along faces cost less."""
        if not isinstance(self._run.sweeps.loss, PLQLoss) or self._run.threshold is not None:
            return False
        if prices.face_bytes < FACE_ROW_BYTES * n_free:
            return False
        if prices.best(n_free) is Way.PRODUCTS:
            return True
        tuning = self._run.tuning.face
        step = tuning.products * 2 * n_free * prices.worth()
        is_wide = self._columns > SMALL and n_rows <= self._columns
        return lent and is_wide and tuning.few_steps * step < self._price(prices, n_rows, n_free)

    def _along_faces(
        self, part: BlockState, c: int, problem: Subproblem, gap: float, lent_bytes: int
    ) -> None:
        """Sweeps over the rows of the problem until the gap, as met by a sweep over all of them, is small; where
        these crawl, steps along the faces that they find (face.py). lent_bytes: see ``solve``."""
        run, sweeps = self._run, self._run.sweeps
        tuning = run.tuning.face
        at, progress = problem.at, run.stream.progress

        face = Face(problem, tuning, sweeps.rounded)
        face_bytes = FACE_ROW_BYTES * len(at) + 8 * FACE_VECTORS * self._columns
        extrapolation = self.extrapolation(part, c, at, face_bytes, lent_bytes)
        n_sweeps, n_rounds = (tuning.sweeps, 1) if extrapolation is None else tuning.extrapolated
        steps, gaps = 0, list[float]()
        while steps < tuning.max_steps:
            if extrapolation is not None:
                extrapolation.step()
            part.active[c] = at
            met = sweeps.sweep(part, c)
            enough = gap * float(sweeps.dual[c])
            if met <= enough or progress.out_of_time:
                return
            if lent_bytes:
                alpha, margin = part.of(c, at)[1], problem.margins(sweeps.w[c])
                if problem.gap(alpha, margin) <= enough:
                    return
            gaps.append(met)
            if len(gaps) > n_rounds and tuning.crawl(gaps[-1 - n_rounds], met, enough, n_rounds * n_sweeps):
                alpha, margin = part.load(c, at)
                some = alpha[at]
                sweeps.dual[c] += face.step(some, sweeps.w[c])
                alpha[at] = some
                part.store(c, at, alpha, margin)
                steps, gaps = steps + 1, []
                if extrapolation is not None:
                    extrapolation.forget()
            for _ in range(n_sweeps - 1):
                if progress.out_of_time or sweeps.sweep(part, c) <= enough:
                    break

    def _prices(self, part: BlockState, n_rows: int, lent_bytes: int = 0) -> tuple[Prices, int]:
        values = part.block.nnz / max(part.n_rows, 1)
        return self.prices(values, n_rows, self._room_bytes(part) + lent_bytes)

    def prices(self, values: float, n_rows: int, room: int) -> tuple[Prices, int]:
        """Prices, without room where that is negative; and bytes of a piece of dense rows. values: of a row. room:
        bytes for all problems at the same time."""
        tuning = self._run.tuning.multipliers
        room //= self._run.sweeps.at_once
        face_bytes = room - 8 * FACE_VECTORS * self._columns
        room -= ROW_BYTES * n_rows + 8 * VECTORS * self._columns
        piece_bytes = 0
        if self._dense:
            matrices = matrix_bytes(min(self._columns, tuning.max_order), True)
            share = max(room // (PIECES * PIECE_SHARE), 1)
            # with a little more or less room, as more threads leave, sums are to be rounded alike: all that is of
            # use, or a power of 2
            useful = room >= PIECES * PIECE_BYTES + matrices
            piece_bytes = PIECE_BYTES if useful else min(PIECE_BYTES, 1 << (share.bit_length() - 1))
            piece_bytes = max(piece_bytes, 8 * self._columns)
        room -= PIECES * piece_bytes
        most = tuning.max_order, tuning.max_products
        return Prices(self._dense, self._columns, values, room, *most, face_bytes), piece_bytes

    def least_bytes(self, n_rows: int, most: int) -> int:
        """What work on so many rows of each problem takes beside the rows: with a matrix, if that needs no more
        than ``most``."""
        order = min(self._columns, n_rows, self._run.tuning.multipliers.max_order)
        pieces, at_once = self._dense * PIECES * PIECE_BYTES, self._run.sweeps.at_once
        least = FACE_ROW_BYTES * n_rows + 8 * FACE_VECTORS * self._columns + pieces
        if not isinstance(self._run.sweeps.loss, PLQLoss):
            least = max(least, newton_bytes(n_rows, self._columns, 0, self._dense))
        each = newton_bytes(n_rows, self._columns, order, self._dense)
        return at_once * (each if at_once * each <= most else least)

    def _room_bytes(self, part: BlockState) -> int:
        """What the part's rows leave of all that is signed for: no sweep is on its way, and no block at hand but
        the part's."""
        plan, width = self._run.stream.plan, len(part.alpha)
        signed = plan.work_bytes + self._run.second_order_bytes
        return signed - part.n_rows * (RESIDENT_BYTES + RESIDENT_PROBLEM_BYTES * width)

    def _solve(
        self, part: BlockState, c: int, at: Positions, gap: float, start: Vector | None, lent_bytes: int
    ) -> None:
        run, sweeps, progress = self._run, self._run.sweeps, self._run.stream.progress
        loss, threshold, whole = sweeps.loss, run.threshold, part is run.duals.whole
        at = _ascending(at[part.cost(c)[at] > 0])
        if not len(at) or progress.out_of_time:
            return
        prices, piece_bytes = self._prices(part, len(at), lent_bytes)
        alpha, margin = part.load(c, at)
        before, w = alpha[at], sweeps.w[c]
        bias = sweeps.bias
        if threshold is not None:
            bias, w = threshold.steep, threshold.steepened(w)
        rows = RowOperator(part.block.X, self._columns - 1, bias, piece_bytes, progress)
        cost, rest = part.cost(c)[at], np.zeros_like(w)
        target = part.target(at) if isinstance(loss, PLQLoss) else 0.0
        problem = Subproblem(rows, at, part.signs(c)[at], target, cost, loss, rest)
        n_free = int(np.count_nonzero(loss.free(before, cost)))
        if self._is_wide(prices, len(at), n_free, lent_bytes > 0):
            self._along_faces(part, c, problem, gap, lent_bytes)
            run.begin_at(c, w)
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
        sigma = problem.first_sigma(None if threshold is None else -1)

        def enough(dual: float, v: Vector) -> float:
            size = max(dual + others, begun) if threshold is None else 0.5 * float(v[:-1] @ v[:-1])
            return gap * size

        if start is not None:
            sigma *= run.tuning.in_turn.sigma
            w = start
        found = solve_subproblem(problem, prices, run.tuning.multipliers, before, w, sigma, enough)
        new, v, dual = found.alpha, found.v, found.dual
        if sweeps.round_to_float32:
            new = sweeps.rounded(new, cost)
            v = problem.weights(new)
            dual = problem.dual(new, v)
        if threshold is None:  # also where the dual variables are no better than before
            run.begin_at(c, found.w)
        if dual + others < begun:
            return
        # those of all rows are measured next, at w
        alpha[at], margin[at] = new, found.margins if start is not None else problem.margins(v)
        part.store(c, at, alpha, margin)
        if threshold is None:
            sweeps.w[c], sweeps.dual[c] = v, dual + others
        else:
            threshold.take(v, sum_of_others + float(new.sum()))
            run.begin_at_weights()


def _ascending(rows: Positions) -> Positions:
    return rows if (rows[:-1] < rows[1:]).all() else np.sort(rows)
