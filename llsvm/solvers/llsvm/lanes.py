"""Lanes: problems that are swept over side by side, their weights next to each other column by column
(lane_kernels.py), and the extrapolation (extrapolation.py) of their sweeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, FLOAT64_BYTES, Block
from llsvm.objective.losses import PLQLoss
from llsvm.objective.problems import Fold, Positions, Variant
from llsvm.process.work import count_products, count_updates
from llsvm.solvers.llsvm import lane_kernels as kernels
from llsvm.solvers.llsvm.extrapolation import best_combination
from llsvm.solvers.llsvm.lane_kernels import ProblemArguments, RowArguments
from llsvm.solvers.optim.rows import LINE_BYTES

# Lanes of a vector register: problems that do not fit into the first width take the second. More lanes than
# problems are computed in vain; with fewer lanes there are more groups of problems, and each visits all rows.
WIDTHS = 4, 8
# Type of a row's move from one point to the next: bfloat16, as kernels/vectors.py has it
STEP = np.dtype(np.uint16)
# Neighboring rows that a sweep visits one after the other, before it jumps to another place. Fewer are read more
# slowly, as the processor fetches ahead in order; more make the order less random, and sweeps slower to converge.
RUN = 16
# The weights of round t have the share EARLY / t in their average, as the gap falls fast at first. At 2.0 the
# average is behind, and the gap that it proves takes more rounds; much higher, it averages little.
EARLY = 4.0
PIECE_ROWS = 1 << 12  # rows that are measured at a time: fewer take more calls, more take more memory
# Bytes of each row that is measured: eight arrays of margins, costs, losses and what they are made of. Lower
# exceeds the memory limit, higher asks for a larger limit than it needs.
MEASURED_BYTES = 8 * FLOAT64_BYTES * WIDTHS[-1]

Vector = NDArray[np.float64]
Weights = NDArray[np.floating]


def width_for(n: int) -> int:
    """Lanes for so many problems, at most ``WIDTHS[-1]``."""
    return next(width for width in WIDTHS if n <= width)


def column_bytes(n: int, itemsize: int) -> int:
    """Return the bytes of each column, for so many problems: weights now and their move, as float64; and those at
    the last two points and on average, of the type of dual variables."""
    return (2 * FLOAT64_BYTES + (2 + 1) * itemsize) * width_for(n)


def row_bytes(n: int, itemsize: int) -> int:
    """Return the bytes of each row of the data, for so many problems: dual variables now and at the last point, the
    move that led there, which lanes leave it out, and whether it is active."""
    return (2 * itemsize + STEP.itemsize) * width_for(n) + 2


class LaneRows:
    """Rows at hand, as the kernels take them (``whole``)."""

    def __init__(self, block: Block, cost: Vector) -> None:
        """cost: (n,) of each, but for the problems' own factors."""
        assert isinstance(block.X, CSR)
        self.block = block
        y = block.y if block.has_targets else np.array([-1.0, 1.0])[block.y]
        self.whole = RowArguments(*block.X, y, cost, block.rows, block.has_targets)

    def __len__(self) -> int:
        return self.block.n_rows

    def pieces(self) -> Iterator[RowArguments]:
        """Yield the rows, ``PIECE_ROWS`` at a time."""
        whole = self.whole
        for start in range(0, len(self), PIECE_ROWS):
            piece, indptr = slice(start, start + PIECE_ROWS), whole.indptr[start : start + PIECE_ROWS + 1]
            yield whole._replace(
                indptr=indptr, y=whole.y[piece], cost=whole.cost[piece], rows=whole.rows[piece]
            )


class LaneProblems:
    """Variants of one binary problem, and what rows cost in each of them, as the kernels take it.

    variants: at most ``WIDTHS[-1]``. loss: of all of them. arguments: of the kernels.
    """

    def __init__(self, variants: Sequence[Variant], n_rows: int, loss: PLQLoss, bias: float) -> None:
        self.variants, self.loss = tuple(variants), loss
        lanes, left_out = (0,) * width_for(len(variants)), np.zeros(n_rows, np.uint8)
        factors = np.zeros((4, len(lanes)))
        for lane, variant in enumerate(variants):
            factors[:2, lane] = variant.cost * np.array(variant.class_weight or (1.0, 1.0))
        np.divide(1.0, factors[:2], out=factors[2:], where=factors[:2] > 0)
        self.arguments = ProblemArguments(bias, lanes, loss.lower, loss.upper, factors, left_out)

    def leave_out(self, part: LaneRows, outside: Sequence[tuple[Fold, NDArray[np.bool_]]]) -> None:
        """Note which of these rows are in the folds that are left out, before anything else is done with them."""
        bits = np.zeros(len(part), np.uint8)
        for lane, variant in enumerate(self.variants):
            for fold, inside in outside:
                if variant.leaves_out is fold:
                    bits |= inside.astype(np.uint8) << np.uint8(lane)
        self.arguments.left_out[part.block.rows] = bits

    def costs(self, rows: RowArguments) -> Vector:
        """Return C_i of the rows in each variant, (n, m)."""
        side = np.ones(len(rows.y), np.intp) if rows.targets else (rows.y > 0).astype(np.intp)
        lane = np.arange(len(self.variants), dtype=np.uint8)
        inside = (self.arguments.left_out[rows.rows][:, None] >> lane) & np.uint8(1) == 0
        return np.where(inside, rows.cost[:, None] * self.arguments.factors[side][:, : len(lane)], 0.0)


class Average:
    """Average of weights, (n,), in which those of each round count for more than those of the rounds before.

    w: the average, whose primal is far less than that of the weights themselves, which change to and fro.
    """

    def __init__(self, w: Weights) -> None:
        """w: zeros, which become the average."""
        self.w = w
        self._n_rounds = 0

    def add(self, w: Vector) -> None:
        """Add the weights that a round has ended with."""
        self._n_rounds += 1
        share = min(1.0, EARLY / self._n_rounds)
        for start in range(0, len(w), PIECE_ROWS):  # so that nothing large is held beside them
            piece = slice(start, start + PIECE_ROWS)
            self.w[piece] *= 1.0 - share
            self.w[piece] += share * w[piece]

    def begin_again(self) -> None:
        """The average is behind: the next weights replace it."""
        self._n_rounds = 0


class LaneMoves:
    """The last two points that lanes have been at, and the move on from there that raises D the most.

    Two points tell a direction; with one, or with sweeps alone, there are several times as many rounds.

    last: (n_rows L,) shares at the last point. step: (n_rows L,) bfloat16, the move that led there.
    factors: (2, L) how much of the move since the last point is best, and of the one before.
    """

    def __init__(self, share: NDArray[np.floating], n_weights: int, width: int) -> None:
        self.last, self.step = np.zeros_like(share), np.zeros(len(share), STEP)
        self.factors = np.zeros((2, width))
        self._weights = np.zeros((2, n_weights), share.dtype)  # those before the last ones, and these
        self._sums = np.zeros((2, width))  # Σ t_i α_i, as D's part that is linear in α, at these points

    def choose(self, w: Vector, dual: Vector) -> None:
        """Find the best combination of the last two moves. w: (n_weights,), and dual: (L,) D, as they are now."""
        width = len(dual)
        points = [weights.reshape(-1, width) for weights in (*self._weights, w)]
        dots = np.empty((len(points), len(points), width))
        for i, j in combinations_with_replacement(range(len(points)), 2):
            dots[i, j] = dots[j, i] = np.einsum("jl,jl->l", points[i], points[j], dtype=np.float64)
        sums = np.vstack([self._sums, dual + 0.5 * dots[2, 2]])
        steps = np.array([[0.0, -1.0, 1.0], [-1.0, 1.0, 0.0]])  # since the last point, and before it
        for lane in range(width):
            G = dots[:, :, lane]
            self.factors[:, lane] = best_combination(steps @ (sums[:, lane] - G[2]), steps @ G @ steps.T)

    def remember(self, w: Vector, dual: Vector) -> None:
        """These weights and (L,) dual objectives are those of the new point."""
        self._weights[0], self._sums[0] = self._weights[1], self._sums[1]
        self._weights[1] = w
        columns = w.reshape(-1, len(dual))
        self._sums[1] = dual + 0.5 * np.einsum("jl,jl->l", columns, columns)


class Lanes:
    """The weights and dual variables of some variants of one binary problem, side by side.

    problems: these. numbers: theirs. dual: (L,) their D(α). swept_gap: (L,) their gap, as the last sweep over all
    rows met it. is_open: they are still worked on. visits: to rows, by sweeps. share: (n_rows L,) α_i / C_i.
    """

    def __init__(
        self,
        problems: LaneProblems,
        first: int,
        n_rows: int,
        n_columns: int,
        dtype: np.dtype,
        seed: int,
    ) -> None:
        """first: the number of the first of them. dtype: of dual variables as they are kept, and of weights at the
        last points."""
        self.problems, self.numbers = problems, range(first, first + len(problems.variants))
        self.is_open, self.visits = True, 0
        width = len(problems.arguments.lanes)
        n = (n_columns + 1) * width
        self.share, self._active = np.zeros(n_rows * width, dtype), np.zeros(n_rows, np.uint8)
        self._w, self._moved = _aligned(n), _aligned(n)
        self._average, self._moves = Average(np.zeros(n, dtype)), LaneMoves(self.share, n, width)
        self.dual, self.swept_gap = np.zeros(width), np.zeros(width)
        self._linear = np.zeros(width)  # Σ t_i α_i of what ``_moved`` is made of
        self._measured = np.zeros((2, len(problems.variants)))  # Σ C_i φ, and Σ C_i² of rows close to a loss
        self._rng = np.random.default_rng([seed, first])

    @property
    def weights(self) -> list[Weights]:
        """(d + 1,) of each variant, see Average. Views."""
        return list(self._columns(self._average.w).T[: len(self.numbers)])

    @property
    def n_active(self) -> int:
        """Number of rows whose α has changed in some variant when they were last seen, or is between its bounds."""
        return int(np.count_nonzero(self._active))

    def _columns(self, w: Weights) -> Weights:
        return w.reshape(-1, len(self.problems.arguments.lanes))

    # -- sweeps -----------------------------------------------------------------------------------------

    def order(self, part: LaneRows, everyone: bool) -> Positions:
        """Return the rows that a sweep is to visit: all, or the active ones, in runs of neighbors in random order,
        which are read faster than rows here and there."""
        runs, order = self._rng.permutation(-(-len(part) // RUN)), np.empty(len(part), np.int64)
        return order[: kernels.rows_of_runs(runs, RUN, part.block.rows, self._active, everyone, order)]

    def sweep(self, part: LaneRows, order: Positions, gap: Vector) -> None:
        """Sweep over the rows of the part at these positions, and add their gap as met to ``gap``, (L,).

        Changes the weights, ``share``, ``dual``, ``visits``, and which of these rows are active."""
        self.visits += len(order)
        n = len(self.numbers) * len(order)
        count_updates(n, n * part.block.nnz // max(len(part), 1), False)
        totals = np.stack([np.zeros_like(gap), gap])
        kernels.sweep_lanes(
            *part.whole, *self.problems.arguments, order, self._w, self.share, self._active, totals
        )
        self.dual += totals[0]
        gap[:] = totals[1]

    def end_sweeps(self) -> None:
        """A round of sweeps is over."""
        self._average.add(self._w)

    # -- extrapolation ----------------------------------------------------------------------------------

    def begin_move(self) -> None:
        """Find the best combination of the last two moves; ``move`` follows, with all rows, then ``end_move``."""
        self._moves.choose(self._w, self.dual)
        self._moved[:], self._linear[:] = 0.0, 0.0

    def move(self, part: LaneRows) -> None:
        """Add what the part's rows bring to the weights if their α is clipped where that leads."""
        n = len(self.numbers)
        count_products(n * len(part), n * part.block.nnz, False)
        self._add(part.whole, moves=True)

    def end_move(self) -> None:
        """All rows have been seen: move α and the weights to the best point on the way there, and remember it."""
        w, moved, loss = self._columns(self._w), self._columns(self._moved), self.problems.loss
        rise = self._linear - np.einsum("jl,jl->l", w, moved)
        curvature = np.einsum("jl,jl->l", moved, moved)
        length = np.divide(rise, curvature, out=np.zeros_like(rise), where=(curvature > 0) & (rise > 0))
        np.minimum(length, 1.0, out=length)
        moved *= length
        w += moved
        self.dual += length * rise - 0.5 * length**2 * curvature
        last, lanes = self._moves, self.problems.arguments.lanes
        kernels.advance(self.share, last.last, last.step, last.factors, length, loss.lower, loss.upper, lanes)
        last.remember(self._w, self.dual)

    def _add(self, rows: RowArguments, moves: bool) -> None:
        """Add what α of the rows makes, or what its move does, to ``_moved`` and ``_linear``; see ``add_lanes``."""
        problems, last = self.problems.arguments, self._moves
        w, share, linear = self._moved, self.share, self._linear
        kernels.add_lanes(*rows, *problems, w, share, last.last, last.step, last.factors, moves, linear)

    # -- measuring --------------------------------------------------------------------------------------

    def begin_measuring(self) -> None:
        """Begin to sum Σ C_i φ at ``weights``, and D(α) of the shares as they are kept. ``measure`` is to follow,
        with all rows, then ``end_measuring``."""
        for sums in (self._measured, self._linear, self._moved):
            sums[:] = 0.0

    def measure(self, part: LaneRows, close: float) -> None:
        """Add the part's rows to the sums. close: see RoundingBound."""
        n, loss, problems = len(self.numbers), self.problems.loss, self.problems.arguments
        count_products(2 * n * len(part), 2 * n * part.block.nnz, False)
        for rows in part.pieces():
            margin, w = np.empty((len(rows.y), len(problems.lanes))), self._average.w
            kernels.dots_lanes(rows.indptr, rows.indices, rows.data, w, problems.bias, problems.lanes, margin)
            target = rows.y[:, None] if rows.targets else 1.0
            m = margin[:, :n] if rows.targets else rows.y[:, None] * margin[:, :n]
            cost = self.problems.costs(rows)
            self._measured[0] += np.einsum("il,il->l", cost, loss.value(m, target))
            self._measured[1] += np.einsum("il,il,il->l", cost, cost, ~loss.is_flat(m, close, target))
            self._add(rows, moves=False)

    def end_measuring(self) -> tuple[Vector, Vector, Vector, list[Weights]]:
        """Return, (m,) of the variants, P at ``weights``, Σ C_i² of rows with a loss or nearly so, and D(α); and
        these weights."""
        n, w, fresh = len(self.numbers), self._columns(self._average.w), self._columns(self._moved)
        primal = 0.5 * np.einsum("jl,jl->l", w, w, dtype=np.float64)[:n] + self._measured[0]
        self.dual[:] = self._linear - 0.5 * np.einsum("jl,jl->l", fresh, fresh)
        return primal, self._measured[1], self.dual[:n], self.weights

    def take_fresh_sums(self, average_anew: bool) -> None:
        """Go on with the weights that α makes, as ``measure`` has summed them. average_anew: see Average."""
        self._w, self._moved = self._moved, self._w
        if average_anew:
            self._average.begin_again()

    def shares(self, start: int, stop: int) -> NDArray[np.floating]:
        """(stop − start, m) α_i / C_i of the rows from ``start`` to ``stop``."""
        return self._columns(self.share)[start:stop, : len(self.numbers)]

    def close(self) -> None:
        """Work on them no more; their dual variables stay."""
        self.is_open = False
        self._w = self._moved = np.zeros(0)
        width = len(self.problems.arguments.lanes)
        self._average, self._moves = Average(self._w), LaneMoves(self.share[:0], 0, width)


def _aligned(n: int) -> Vector:
    """(n,) zeros that begin where a line of the processor's cache does: weights of a column that begin elsewhere
    take two lines at each visit."""
    room = np.zeros(n + LINE_BYTES // FLOAT64_BYTES)
    start = -room.ctypes.data % LINE_BYTES // FLOAT64_BYTES
    return room[start : start + n]
