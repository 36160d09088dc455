"""Sweeps: dual coordinate descent over rows at hand; the weights, the dual objective and the threads that do it.

Problems of many classes share nothing, so threads take whole problems. A problem that is alone has its rows shared
out: each thread sweeps over its part with its own copy of the weights, and then the weights take the sum of all
steps. Neither depends on timing: the same threads give the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block
from llsvm.objective.problems import Problems
from llsvm.objective.rounding import CLOSE
from llsvm.settings.settings import Settings
from llsvm.solvers.llsvm.block_state import BlockState
from llsvm.solvers.llsvm.kernels import dots_csr, dots_dense, merge, sweep_csr, sweep_dense

PARALLEL_ABOVE = 500  # columns: below, rows share so many of them that threads undo each other's steps
PARALLEL_ROWS = 1024  # each thread's rows between two sums of the threads' weights, at least,
PARALLEL_WORK = 3  # and as many as have so many values for each weight
CALL_VISITS = 200  # to rows take as long as what a sweep costs beside its visits
CONFLICT = 0.3  # threads stop sharing a sweep when this much of their gain is lost to each other
_NO_ROWS = CSR(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))  # where rows are dense


class Sweeps:
    """The problems' weights and what moves them; see the file's head.

    w: (k, d + 1) float64, the last column that of the constant feature. dual: (k,) their D(α). open: the problems
    that are still worked on. visits: (k,) to rows, by sweeps so far, and calls: (k,) how many sweeps.
    """

    def __init__(
        self, problems: Problems, n_columns: int, settings: Settings, threads: int, single: bool
    ) -> None:
        """single: α_i / C_i is rounded to float32, as it is stored."""
        k = len(problems)
        self.w = np.zeros((k, n_columns + 1))
        self.dual = np.zeros(k)
        self.open = list(range(k))
        self.visits, self.calls = np.zeros(k, np.int64), np.zeros(k, np.int64)
        self.squared = settings.loss == "squared_hinge"
        self._problems = problems
        self._bias = settings.constant
        self._single = single
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads)
        self._copies = np.zeros((copies_of_weights(n_columns, threads), n_columns + 1))
        self._shared = np.zeros(k, bool)  # problems whose rows threads share out
        # a stream of random numbers for each problem, so that it does not matter which comes first
        self._rngs = [np.random.default_rng([settings.seed, c]) for c in range(k)]

    def close(self) -> None:
        self._pool.shutdown()

    def begin(self) -> None:
        """A round begins: threads may share the rows of a problem again."""
        self._shared[:] = len(self._copies) > 0 and not self._apart

    @property
    def work(self) -> NDArray[np.int64]:
        """(k,) what the sweeps so far came to, in visits: what every call costs counts too."""
        return self.visits + CALL_VISITS * self.calls

    @property
    def _apart(self) -> bool:
        """Does each thread take problems of its own?"""
        return 1 < self._threads <= len(self.open)

    def each(self, work: Callable[[int], object]) -> None:
        """Do ``work`` on every open problem; it may only change what is that problem's."""
        if self._apart:
            list(self._pool.map(work, self.open))
        else:
            for c in self.open:
                work(c)

    def sweep(self, part: BlockState, c: int) -> float:
        """One sweep over the rows of problem ``c`` that are active, in random order; those still moving stay
        active. Returns their duality gap as met."""
        order = self.shuffled(c, part.active[c])
        self.visits[c] += len(order)
        self.calls[c] += 1
        step = self._threads * self._rows_per_thread(part)
        if not self._shared[c] or len(order) < step:
            moving, gap = self.visit(part, c, order)
            part.active[c] = order[:moving]
            return gap
        self._copies[:] = self.w[c]
        total, kept = 0.0, []
        for piece in np.array_split(order, len(order) // step):
            gap, active = self._visit_in_threads(part, c, piece)
            total += gap
            kept += active
        part.active[c] = np.concatenate(kept)
        return total

    def visit(self, part: BlockState, c: int, order: NDArray[np.int64]) -> tuple[int, float]:
        """Update the rows ``order``; returns how many are still moving, which are now in front, and the gap of all
        as met."""
        moving, gain, gap = self._visit(part, c, order, self.w[c])
        self.dual[c] += gain
        return moving, gap

    def shuffled(self, c: int, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """The rows in the next random order of problem ``c``."""
        return self._rngs[c].permutation(rows)

    def _rows_per_thread(self, part: BlockState) -> int:
        """Rows that a thread visits between two sums of the threads' steps: work that is worth a sum."""
        values_per_row = max(part.block.nnz / max(part.n_rows, 1), 1.0)
        return int(max(PARALLEL_ROWS, PARALLEL_WORK * self.w.shape[1] / values_per_row))

    def _visit_in_threads(
        self, part: BlockState, c: int, order: NDArray[np.int64]
    ) -> tuple[float, list[NDArray[np.int64]]]:
        """The rows' gap as met, and those of each thread that still move.

        D after the sum of the steps is known exactly: the threads' gains less the products of their steps.
        """
        pieces = np.array_split(order, self._threads)
        visits = list(
            self._pool.map(lambda t: self._visit(part, c, pieces[t], self._copies[t]), range(len(pieces)))
        )
        lost = merge(self.w[c], self._copies)
        gain = sum(visit[1] for visit in visits)
        self.dual[c] += gain - lost
        if lost > CONFLICT * gain:  # these rows share too many columns: one thread for the rest of the round
            self._shared[c] = False
        return sum(visit[2] for visit in visits), [o[: v[0]] for o, v in zip(pieces, visits, strict=True)]

    def _visit(
        self, part: BlockState, c: int, order: NDArray[np.int64], w: NDArray[np.float64]
    ) -> tuple[int, float, float]:
        """Update the rows ``order`` and w; returns how many are still moving (now in front), the gain in the
        dual, and the rows' gap as met."""
        totals = np.zeros(2)
        alpha, margin = part.load(c, order)
        tail = (part.signs(c), part.cost, alpha, margin, order, w, self._bias)
        end = (self.squared, self._single, totals)
        X = part.block.X
        if isinstance(X, CSR):
            moving = sweep_csr(X.indptr, X.indices, X.data, *tail, *end)
        else:
            moving = sweep_dense(X, *tail, *end)
        part.store(c, order, alpha, margin)
        return moving, float(totals[0]), float(totals[1])

    # -- measuring --------------------------------------------------------------------------------------

    def loss(self, part: BlockState, c: int) -> tuple[float, float]:
        """Of the part's rows in problem ``c``, by their margins, times their costs; and the sum of squared costs of
        those close to having one, see RoundingBound."""
        rows, _, margin = part.of(c)
        loss = np.maximum(0.0, 1.0 - margin)
        cost = part.cost[rows]
        close = cost[margin < 1.0 + CLOSE]
        total = float(np.einsum("i,i", cost, loss * loss if self.squared else loss))
        return total, float(np.einsum("i,i", close, close))

    def measure(self, part: BlockState, w: NDArray[np.float64] | None) -> None:
        """Set the part's margins of the open problems to those at ``w`` (k, d + 1); None is zero."""
        if w is None:
            part.margin[...] = 0.0
        elif self._problems.pairs:
            self._pair_margins(part.block, w, part.margin)
        else:
            for c in self.open:
                part.margin[c] = self._margins(part.block, w[c], part.signs(c))

    def _pair_margins(self, block: Block, w: NDArray[np.float64], out: NDArray[np.float64]) -> None:
        """Margins of the rows in the pairs of their classes, out (k − 1, n), each thread a range of rows."""
        from llsvm.solvers.llsvm.pair_kernels import pair_margins

        def measure(start: int, stop: int) -> None:
            some = block.slice(start, stop)
            X = some.X
            rows = (*X, np.empty((0, 0), X.data.dtype)) if isinstance(X, CSR) else (*_NO_ROWS, X)
            pair_margins(*rows, some.y, w, self._bias, out[:, start:stop])

        self._over_ranges(block.n_rows, measure)

    def _margins(
        self, block: Block, w: NDArray[np.float64], signs: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """y_i w·x_i, (n,), each thread a range of rows."""
        out = np.empty(block.n_rows)

        def dots(start: int, stop: int) -> None:
            X = block.slice(start, stop).X
            if isinstance(X, CSR):
                dots_csr(X.indptr, X.indices, X.data, w, self._bias, out[start:stop])
            else:
                dots_dense(X, w, self._bias, out[start:stop])

        self._over_ranges(block.n_rows, dots)
        out *= signs
        return out

    def _over_ranges(self, n_rows: int, work: Callable[[int, int], None]) -> None:
        bounds = np.linspace(0, n_rows, self._threads + 1).astype(int)
        list(self._pool.map(work, bounds[:-1], bounds[1:]))


def copies_of_weights(n_columns: int, threads: int) -> int:
    """How many copies of one problem's weights threads need to share its rows out; 0 where they should not."""
    return threads if threads > 1 and n_columns > PARALLEL_ABOVE else 0
