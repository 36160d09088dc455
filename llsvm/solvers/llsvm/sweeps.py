"""Sweeps: dual coordinate descent over rows at hand; the weights, the dual objective and the threads that do it.

Problems of many classes share nothing, so threads take whole problems. A problem that is alone has its rows shared
out: each thread sweeps over its part with its own copy of the weights, and then the weights take the sum of all
steps. Neither depends on timing: the same threads give the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import parts_of
from llsvm.files.growing import let_go
from llsvm.objective.losses import Loss, PLQLoss
from llsvm.objective.problems import Positions, Problems
from llsvm.objective.rounding import CLOSE
from llsvm.process.threads import Threads
from llsvm.process.work import count_products, count_updates
from llsvm.solvers.base import LOOK_VALUES
from llsvm.solvers.llsvm.duals import BlockState
from llsvm.solvers.llsvm.kernels import GAIN, GAP, SweepRows, kernels_of, merge, sweep
from llsvm.solvers.llsvm.tuning import DEFAULT, LLSVMTuning
from llsvm.solvers.optim.kernels import dots_at
from llsvm.solvers.optim.row_operator import RowProducts
from llsvm.solvers.state import Value
from llsvm.stream.progress import Progress

# Visits to rows that take as long as what one call of a sweep costs beside its visits. Lower begins second order
# late where sweeps are over few rows; higher begins it too soon there, and gives threads larger pieces.
CALL_VISITS = 200


class Sweeps:
    """The problems' weights and what moves them; see the file's head.

    loss: of a row. bias: the constant feature's value. w: (k, d + 1) float64, the last column that of the constant
    feature. dual: (k,) their D(α). open: the problems that are still worked on. visits: (k,) to rows, by sweeps so
    far; calls: (k,) sweeps.
    negligible: of losses whose α never rest at a bound: a row that adds no more than this, times C_i, to the gap is
    left alone.
    round_to_float32: α_i / C_i is rounded, as it is stored.
    """

    def __init__(
        self,
        problems: Problems,
        n_columns: int,
        loss: Loss,
        bias: float,
        threads: int,
        round_to_float32: bool,
        seed: int = 0,
        tuning: LLSVMTuning = DEFAULT,
        progress: Progress | None = None,
    ) -> None:
        """bias: the constant feature's value. round_to_float32: α_i / C_i is rounded, as it is stored.
        seed: of the random orders. progress: of the run; a sweep over many rows ends early when time is over."""
        k = len(problems)
        self.w = np.zeros((k, n_columns + 1))
        self.dual = np.zeros(k)
        self.open, self.negligible = list(range(k)), 0.0
        self.visits, self.calls = np.zeros(k, np.int64), np.zeros(k, np.int64)
        self.loss = loss
        self.bias = bias
        self.round_to_float32 = round_to_float32
        self._tuning = tuning
        self._progress = progress or Progress()
        self._threads = Threads(threads, self._progress.stop)
        self._copies = np.zeros((copies_of_weights(n_columns, threads, tuning), n_columns + 1))
        self._shared = np.zeros(k, bool)  # problems whose rows threads share out
        # a stream of random numbers for each problem, so that it does not matter which comes first
        self._rngs = [np.random.default_rng([seed, c]) for c in range(k)]

    def close(self) -> None:
        self._threads.close()

    def begin(self, problems: Iterable[int], negligible: float) -> None:
        """Work on these problems from now on; threads that stopped sharing the rows of one try it again."""
        self.open, self.negligible = list(problems), negligible
        self._shared[:] = len(self._copies) > 0 and not self._apart

    @property
    def work(self) -> NDArray[np.int64]:
        """(k,) what the sweeps so far came to, in visits: what every call costs counts too."""
        return self.visits + CALL_VISITS * self.calls

    @property
    def _apart(self) -> bool:
        """Whether each thread takes problems of its own."""
        return 1 < self._threads.number <= len(self.open)

    @property
    def n_parallel(self) -> int:
        """Number of problems that are worked on at the same time."""
        return self._threads.number if self._apart else 1

    def for_each(self, work: Callable[[int], object], problems: Sequence[int] | None = None) -> None:
        """Call ``work`` for every open problem, or for these; it may only change what is that problem's."""
        problems = self.open if problems is None else problems
        if self._apart:
            self._threads.map(work, problems)
        else:
            for c in problems:
                work(c)

    def sweep(self, part: BlockState, c: int, rows: Positions | None = None) -> float:
        """Sweep over these rows of problem ``c``, or over those that are active, in random order; return their
        duality gap as met. From then on those are active that are free or were violating.

        Changes α and margins in ``part`` and ``part.active[c]``; the problem's w, dual, visits, calls and random
        numbers here."""
        order = self.shuffled(c, part.active[c] if rows is None else rows)
        self.visits[c] += len(order)
        self.calls[c] += 1
        step = self._threads.number * self._rows_per_thread(part)
        if not self._shared[c] or len(order) < step:
            step = max(1, int(LOOK_VALUES / self._values_per_row(part)))
            pieces = np.array_split(order, len(order) // step + 1) if len(order) >= step else [order]
            return self._sweep_pieces(part, c, pieces, False)
        return self._sweep_pieces(part, c, np.array_split(order, len(order) // step), True)

    def sweep_active(self, part: BlockState, c: int, gap: float, max_sweeps: int) -> None:
        """Sweep over the active rows, at most ``max_sweeps`` times, until the gap as met has fallen to
        ``survivors_until`` of ``gap``."""
        for _ in range(max_sweeps):
            if self._progress.out_of_time or self.sweep(part, c) <= self._tuning.survivors_until * gap:
                return

    def _sweep_pieces(
        self, part: BlockState, c: int, pieces: list[NDArray[np.int64]], in_threads: bool
    ) -> float:
        """Visit the rows a piece at a time; those that time has not sufficed for stay active."""
        total, active = 0.0, []
        for number, piece in enumerate(pieces):
            if number and self._progress.out_of_time:
                active += pieces[number:]
                break
            if in_threads:
                gap, of_piece = self._visit_in_threads(part, c, piece)
            else:
                n_active, gap = self.visit(part, c, piece)
                of_piece = [piece[:n_active]]
            total += gap
            active += of_piece
        part.active[c] = np.concatenate(active) if len(active) > 1 else active[0]
        return total

    def visit(self, part: BlockState, c: int, order: NDArray[np.int64]) -> tuple[int, float]:
        """Update the rows ``order``; returns how many are free or were violating, which are now in front, and the
        gap of all as met."""
        n_active, gain, gap = self._visit(part, c, order, self.w[c])
        self.dual[c] += gain
        return n_active, gap

    def rounded(self, alpha: NDArray[np.float64], cost: NDArray[np.float64]) -> NDArray[np.float64]:
        """Dual variables (r,) of rows of costs C_i (r,) as they will be stored."""
        return self.loss.alpha((alpha / cost).astype(np.float32), cost) if self.round_to_float32 else alpha

    def shuffled(self, c: int, rows: Positions) -> Positions:
        """The rows in the next random order of problem ``c``."""
        return self._rngs[c].permutation(rows)

    def _rows_per_thread(self, part: BlockState) -> int:
        """Rows that a thread visits between two sums of the threads' steps: work that is worth a sum."""
        as_sum = self.w.shape[1] / self._values_per_row(part)
        return max(1, int(self._tuning.parallel_work * (CALL_VISITS + as_sum)))

    def _values_per_row(self, part: BlockState) -> float:
        return max(part.block.nnz / max(part.n_rows, 1), 1.0)

    def _visit_in_threads(
        self, part: BlockState, c: int, order: NDArray[np.int64]
    ) -> tuple[float, list[NDArray[np.int64]]]:
        """The rows' gap as met, and those of each thread that are free or were violating.

        D after the sum of the steps is known exactly: the threads' gains less the products of their steps.
        """
        pieces, w, copies = np.array_split(order, self._threads.number), self.w[c], self._copies

        def visit(t: int) -> tuple[int, float, float]:
            copies[t] = w
            return self._visit(part, c, pieces[t], copies[t])

        n_active, gains, gaps = zip(*self._threads.map(visit, range(len(pieces))), strict=True)
        lost = sum(self._threads.over_rows(len(w), lambda _, start, stop: merge(w, copies, start, stop)))
        gain = sum(gains)
        self.dual[c] += gain - lost
        # too many shared columns: in this time one thread gets as far alone
        if gain - lost < gain / len(pieces):
            self._shared[c] = False
        return sum(gaps), [piece[:n] for piece, n in zip(pieces, n_active, strict=True)]

    def _visit(
        self, part: BlockState, c: int, order: NDArray[np.int64], w: NDArray[np.float64]
    ) -> tuple[int, float, float]:
        """Update the rows ``order`` and w; returns how many are free or were violating (now in front), the gain in
        the dual, and the rows' gap as met."""
        totals, block, loss, rounds = np.zeros(2), part.block, self.loss, self.round_to_float32
        count_updates(len(order), len(order) * block.nnz // max(part.n_rows, 1), block.is_dense)
        alpha, margin = part.load(c, order)
        labels, cost = part.labels(c), part.cost(c)
        rows = SweepRows(*parts_of(block.X), labels, cost, alpha, margin, order, w, self.bias)
        if isinstance(loss, PLQLoss):
            targets = part.targets is not None
            n_active = sweep(*rows, targets, loss.lower, loss.upper, loss.ridge, loss.epsilon, rounds, totals)
        else:
            n_active = kernels_of(loss).sweep(*rows, self.negligible, rounds, totals)
        part.store(c, order, alpha, margin)
        return n_active, float(totals[GAIN]), float(totals[GAP])

    # -- weights and D of dual variables from elsewhere --------------------------------------------------

    @property
    def half_squares(self) -> NDArray[np.float64]:
        """(k,) ½‖w‖², by which D is less than Σ C_i b."""
        return 0.5 * np.einsum("ij,ij->i", self.w, self.w)

    def set(self, c: int, w: NDArray[np.float64] | float, dual: float) -> None:
        """Let these be the weights of problem ``c``, (d + 1,) or all the same, and its D."""
        self.w[c], self.dual[c] = w, dual

    def set_linear(self, linear: NDArray[np.float64]) -> None:
        """Let D be that of the weights as they are and of ``linear``, (k,) Σ C_i b."""
        self.dual[...] = linear - self.half_squares

    def sum_weights(self, part: BlockState, c: int) -> None:
        """Let the weights of problem ``c`` and its D be those of the part's dual variables, which are all there
        are."""
        self.set(c, 0.0, 0.0)
        self.add(part, c)
        self.dual[c] -= 0.5 * float(self.w[c] @ self.w[c])

    def add(self, part: BlockState, c: int) -> None:
        """Add the part's rows to the weights of problem ``c``, and their Σ C_i b to its D."""
        rows, alpha, _ = part.of(c)
        cost, target = part.cost(c)[rows], part.target(rows)
        has_cost = cost > 0
        target = target if isinstance(target, float) else target[has_cost]
        values = self.loss.dual_value(alpha[has_cost] / cost[has_cost], target)
        self.dual[c] += float(np.einsum("i,i", cost[has_cost], values))
        self.add_rows(part, c, self.w)

    def add_rows(self, part: BlockState, c: int, out: NDArray[np.float64]) -> None:
        """Add Σ α_i y_i x_i of the part's rows in problem ``c`` to that of ``out``, (k, d + 1)."""
        members, alpha, _ = part.of(c)
        coefficients = np.zeros((part.n_rows, 1))
        coefficients[members, 0] = alpha * part.signs(c)[members]
        products, w = RowProducts(part.block, self.bias, out.shape[1], 1), out[c][:, None]
        nonzero = np.flatnonzero(coefficients) if part.problems.pairs else None  # most are of other classes
        for piece in products.pieces(0, part.n_rows if nonzero is None else len(nonzero)):
            rows = piece if nonzero is None else nonzero[piece]
            products.add(products.matrix(rows), coefficients[rows], w)

    def take_sums(self, sums: NDArray[np.float64], start: NDArray[np.floating]) -> None:
        """Let the weights, which a pass has moved from ``start``, and D be what they are if that began at ``sums``,
        (k, d + 1), which are those of the dual variables that it began with."""
        self.dual += self.half_squares
        self.w += sums - start
        self.dual -= self.half_squares

    # -- measuring --------------------------------------------------------------------------------------

    def losses(self, part: BlockState, c: int, factor: float = 1.0) -> tuple[float, float, float]:
        """Return Σ C_i φ of the part's rows in problem ``c``, by so many times their margins; the sum of squared
        costs of those close to having a loss, see RoundingBound; and the sum of costs."""
        rows, _, margin = part.of(c)
        if factor != 1.0:
            margin = factor * margin
        cost, target = part.cost(c)[rows], part.target(rows)
        close = cost[~self.loss.is_flat(margin, CLOSE, target)]
        total = float(np.einsum("i,i", cost, self.loss.value(margin, target)))
        return total, float(np.einsum("i,i", close, close)), float(cost.sum())

    def measure(
        self, part: BlockState, w: NDArray[np.floating] | None, problems: list[int] | None = None
    ) -> None:
        """Set the part's margins of these problems, None being the open ones, to those at ``w`` (k, d + 1), which
        may lie on disk; None is zero. Those of others become unknown."""
        part.margin[...] = 0.0 if w is None else np.nan
        if w is None:
            return
        for c in self.open if problems is None else problems:
            self._measure(part, c, w[c])
            let_go(w)

    def _measure(self, part: BlockState, c: int, w: NDArray[np.floating]) -> None:
        """Set the margins of problem ``c`` to those at its weights, each thread those of a range of rows."""
        block, rows, signs = part.block, part.members(c), part.signs(c)
        count_products(len(rows), len(rows) * block.nnz // max(part.n_rows, 1), block.is_dense)
        alpha, margin = part.load(c, rows)

        def measure(_: int, start: int, stop: int) -> None:
            piece, out = rows[start:stop], np.empty(stop - start)
            dots_at(*parts_of(block.X), piece, w, self.bias, out)
            margin[piece] = signs[piece] * out

        self._threads.over_rows(len(rows), measure)
        part.store(c, rows, alpha, margin)

    # -- what a SolverState holds of it -----------------------------------------------------------------

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """By name; views."""
        return {"w": self.w, "dual": self.dual, "visits": self.visits, "calls": self.calls}

    @property
    def numbers(self) -> dict[str, Value]:
        generators: list[Value] = [dict(rng.bit_generator.state) for rng in self._rngs]
        return {"open": list(self.open), "enough": self.negligible, "generators": generators}

    def restore(self, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> None:
        """Go on from what these were."""
        for name, array in self.arrays.items():
            array[...] = arrays[name]
        self.open, self.negligible = list(numbers["open"]), numbers["enough"]
        self._rngs = [_restored(state) for state in numbers["generators"]]


def _restored(state: Any) -> np.random.Generator:
    """Return a generator of random numbers that goes on from there."""
    bits = np.random.PCG64()
    bits.state = state
    return np.random.Generator(bits)


def copies_of_weights(n_columns: int, threads: int, tuning: LLSVMTuning = DEFAULT) -> int:
    """How many copies of one problem's weights threads need to share its rows out; 0 where they should not."""
    return threads if threads > 1 and n_columns > tuning.parallel_above else 0
