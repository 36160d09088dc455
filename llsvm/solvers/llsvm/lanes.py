"""Lanes: problems that are swept over side by side, their weights next to each other column by column
(lane_kernels.py), and the extrapolation (extrapolation.py) of their sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement, pairwise

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block
from llsvm.objective.losses import PLQLoss
from llsvm.objective.problems import Fold, Positions, Variant
from llsvm.process.work import count_products, count_updates
from llsvm.solvers.llsvm.extrapolation import best_combination
from llsvm.solvers.llsvm.lane_kernels import add_lanes, advance, dots_lanes, rows_of_runs, sweep_lanes

WIDTHS = 4, 8  # of a vector register: problems that there is no room for in the first take the second
POINTS = 2  # of the weights, that extrapolation remembers
# Of a row's move from one point to the next: bfloat16, as kernels/vectors.py has it
STEP = np.dtype(np.uint16)
RUN = 16  # rows that are visited one after the other
PIECE_ROWS = 1 << 12  # measured at a time,
MEASURED_BYTES = (
    8 * 8 * WIDTHS[-1]
)  # which takes so much of each: margins, costs, losses and what they are made of
_LINE_BYTES = 64  # of a processor's cache, at whose beginnings weights of a column begin

Vector = NDArray[np.float64]
Weights = NDArray[np.floating]


def width_for(n: int) -> int:
    """Lanes for so many problems, at most ``WIDTHS[-1]``."""
    return next(width for width in WIDTHS if n <= width)


def column_bytes(n: int, itemsize: int) -> int:
    """Of each column, for so many problems: weights as they are now and how they are to move, as float64; and at
    the last points and on average, as dual variables are kept."""
    return (2 * 8 + (POINTS + 1) * itemsize) * width_for(n)


def row_bytes(n: int, itemsize: int) -> int:
    """Of each row of the data, for so many problems: dual variables now and at the last point, the move that led
    there, which lanes leave it out, and whether it is active."""
    return (2 * itemsize + STEP.itemsize) * width_for(n) + 2


class LaneRows:
    """Rows at hand, as the kernels take them. y: (n,) signs or targets. cost: (n,) of each, but for the problems'
    own factors."""

    def __init__(self, block: Block, cost: Vector) -> None:
        assert isinstance(block.X, CSR)
        self.block = block
        self.X, self.rows, self.class_ids, self.cost = block.X, block.rows, block.class_ids, cost
        self.targets = block.has_targets
        self.y = block.y if block.has_targets else np.array([-1.0, 1.0])[block.y]

    def __len__(self) -> int:
        return len(self.rows)

    def pieces(self) -> Sequence[tuple[slice, CSR]]:
        """Some rows at a time."""
        indptr, indices, data = self.X
        ends = [*range(0, len(self), PIECE_ROWS), len(self)]
        return [
            (slice(start, stop), CSR(indptr[start : stop + 1], indices, data))
            for start, stop in pairwise(ends)
        ]


class Lanes:
    """Of some variants of one binary problem, at most ``WIDTHS[-1]``.

    first: the number of the first of them. dual: (L,) their D(α). met: (L,) their gap, as the last sweep over all
    rows met it. is_open: they are still worked on. visits: to rows, by sweeps."""

    def __init__(
        self,
        first: int,
        variants: Sequence[Variant],
        n_rows: int,
        n_columns: int,
        loss: PLQLoss,
        bias: float,
        dtype: np.dtype,
        seed: int,
    ) -> None:
        """dtype: of dual variables, α_i / C_i, as they are kept, and of weights at the last points."""
        self.first, self.variants, self.is_open, self.visits = first, tuple(variants), True, 0
        width = self._width = width_for(len(variants))
        self._lanes = (0,) * width
        self._loss, self._bias = loss, bias
        self._factors = np.zeros((4, width))
        for lane, variant in enumerate(variants):
            self._factors[:2, lane] = variant.cost * np.array(variant.class_weight or (1.0, 1.0))
        np.divide(1.0, self._factors[:2], out=self._factors[2:], where=self._factors[:2] > 0)
        self._left_out, self._active = np.zeros((2, n_rows), np.uint8)
        self.share = np.zeros(n_rows * width, dtype)
        self._last, self._step = np.zeros_like(self.share), np.zeros(len(self.share), STEP)
        n = (n_columns + 1) * width
        self._w, self._moved = _aligned(n), _aligned(n)
        self._w_last, self._w_before, self._average = np.zeros((POINTS + 1, n), dtype)
        # Σ t_i α_i, as D's part that is linear in α, at the last two points
        self._sum_last, self._sum_before, self._rise = np.zeros((3, width))
        self._ahead = np.zeros((POINTS, width))
        self._n_averaged = 0
        self.dual, self.met = np.zeros((2, width))
        self._loss_at_w, self._close, self._linear = np.zeros((3, width))
        self._rng = np.random.default_rng([seed, first])

    @property
    def numbers(self) -> range:
        """Of the variants."""
        return range(self.first, self.first + len(self.variants))

    @property
    def weights(self) -> list[Weights]:
        """(d + 1,) of each variant, the average of those that rounds of sweeps have ended with: its primal is far
        less than theirs, which change to and fro. Views."""
        return list(self._columns(self._average).T[: len(self.variants)])

    @property
    def n_active(self) -> int:
        """Rows whose α has changed in some variant when they were last seen, or is between its bounds."""
        return int(np.count_nonzero(self._active))

    def _columns(self, w: Weights) -> Weights:
        return w.reshape(-1, self._width)

    # -- sweeps -----------------------------------------------------------------------------------------

    def leave_out(self, part: LaneRows, outside: Sequence[tuple[Fold, NDArray[np.bool_]]]) -> None:
        """Before anything else is done with these rows: which of them are in the folds that are left out."""
        bits = np.zeros(len(part), np.uint8)
        for lane, variant in enumerate(self.variants):
            for fold, inside in outside:
                if variant.leaves_out is fold:
                    bits |= inside.astype(np.uint8) << np.uint8(lane)
        self._left_out[part.rows] = bits

    def costs(self, part: LaneRows, rows: slice) -> Vector:
        """(n, m) C_i of some rows in each variant."""
        side = np.ones(len(part.y[rows]), np.intp) if part.targets else (part.y[rows] > 0).astype(np.intp)
        lane = np.arange(len(self.variants), dtype=np.uint8)
        inside = (self._left_out[part.rows[rows]][:, None] >> lane) & np.uint8(1) == 0
        return np.where(inside, part.cost[rows][:, None] * self._factors[side][:, : len(lane)], 0.0)

    def order(self, part: LaneRows, everyone: bool) -> Positions:
        """The rows that a sweep is to visit: all, or the active ones, in runs of neighbours in random order, which
        are read faster than rows here and there."""
        runs, order = self._rng.permutation(-(-len(part) // RUN)), np.empty(len(part), np.int64)
        return order[: rows_of_runs(runs, RUN, part.rows, self._active, everyone, order)]

    def sweep(self, part: LaneRows, order: Positions, met: Vector) -> None:
        """Visit rows of the part, as sweep_lanes does. met: (L,) their gap is added to it."""
        self.visits += len(order)
        n = len(self.variants) * len(order)
        count_updates(n, n * part.block.nnz // max(len(part), 1), False)
        totals = np.stack([np.zeros(self._width), met])
        sweep_lanes(
            *(*part.X, part.y, part.cost, part.rows, order, self._w, self._bias, self._lanes, part.targets),
            *(*self._of_rows, self.share, self._active, totals),
        )
        self.dual += totals[0]
        met[:] = totals[1]

    def end_sweeps(self, early: float) -> None:
        """A round of sweeps is over. Of the average its weights are a share of ``early`` over the rounds so far, as
        the first ones change fast."""
        self._n_averaged += 1
        share = min(1.0, early / self._n_averaged)
        keep = 1.0 - share
        for start in range(0, len(self._w), PIECE_ROWS):  # so that nothing large is held beside them
            some = slice(start, start + PIECE_ROWS)
            self._average[some] *= keep
            self._average[some] += share * self._w[some]

    def average_anew(self) -> None:
        """The average is behind: it begins again with the next round's weights."""
        self._n_averaged = 0

    def is_active(self, part: LaneRows) -> NDArray[np.bool_]:
        """(n,) whose α has changed in some variant when they were last seen, or is between its bounds."""
        return self._active[part.rows] != 0

    def forget(self, rows: NDArray[np.int64]) -> None:
        """Let these rows, by number, have no part in the moves that follow."""
        share, last, step = (each.reshape(-1, self._width) for each in (self.share, self._last, self._step))
        last[rows], step[rows] = share[rows], 0

    # -- extrapolation ----------------------------------------------------------------------------------

    def begin_move(self) -> None:
        """What is the best combination of the last two moves? Of all rows, ``move`` is to follow."""
        points = [self._columns(each) for each in (self._w_before, self._w_last, self._w)]
        dots = np.empty((len(points), len(points), self._width))
        for i, j in combinations_with_replacement(range(len(points)), 2):
            dots[i, j] = dots[j, i] = np.einsum("jl,jl->l", points[i], points[j], dtype=np.float64)
        sums = [self._sum_before, self._sum_last, self.dual + 0.5 * dots[2, 2]]
        steps = np.array([[0.0, -1.0, 1.0], [-1.0, 1.0, 0.0]])  # since the last point, and before it
        for lane in range(len(self.variants)):
            G = dots[:, :, lane]
            linear = steps @ np.array([each[lane] for each in sums])
            self._ahead[:, lane] = best_combination(linear - steps @ G[2], steps @ G @ steps.T)
        self._moved[:], self._rise[:] = 0.0, 0.0

    def move(self, part: LaneRows) -> None:
        """Add what the part's rows bring to the weights if their α is clipped where that leads."""
        n = len(self.variants)
        count_products(n * len(part), n * part.block.nnz, False)
        self._add(part, slice(None), part.X, self._rise, moves=True)

    def end_move(self) -> None:
        """All rows have been seen: move α and the weights to the best point on the way there, and remember it."""
        w, moved = self._columns(self._w), self._columns(self._moved)
        rise = self._rise - np.einsum("jl,jl->l", w, moved)
        curvature = np.einsum("jl,jl->l", moved, moved)
        length = np.divide(rise, curvature, out=np.zeros_like(rise), where=(curvature > 0) & (rise > 0))
        np.minimum(length, 1.0, out=length)
        moved *= length
        w += moved
        self.dual += length * rise - 0.5 * length**2 * curvature
        advance(
            *(self.share, self._last, self._step, self._ahead, length),
            *(self._loss.lower, self._loss.upper, self._lanes),
        )
        self._w_before, self._w_last = self._w_last, self._w_before
        self._w_last[:] = self._w
        self._sum_before[:] = self._sum_last
        self._sum_last[:] = self.dual + 0.5 * np.einsum("jl,jl->l", w, w)

    def _add(self, part: LaneRows, rows: slice, X: CSR, linear: Vector, moves: bool) -> None:
        """As ``add_lanes``, to ``_moved``."""
        add_lanes(
            *(*X, part.y[rows], part.cost[rows], part.rows[rows], self._moved, self._bias, self._lanes),
            *(part.targets, *self._of_rows, self.share, self._last, self._step, self._ahead, moves, linear),
        )

    @property
    def _of_rows(self) -> tuple[float, float, Vector, NDArray[np.uint8]]:
        """What kernels are told of all rows."""
        return self._loss.lower, self._loss.upper, self._factors, self._left_out

    # -- measuring --------------------------------------------------------------------------------------

    def begin_measuring(self) -> None:
        """Σ C_i φ at ``weights``, and D(α) of the shares as they are kept; ``measure`` is to follow, of
        all rows."""
        for each in (self._loss_at_w, self._close, self._linear, self._moved):
            each[:] = 0.0

    def measure(self, part: LaneRows, close: float) -> None:
        """close: see RoundingBound."""
        n, loss = len(self.variants), self._loss
        count_products(2 * n * len(part), 2 * n * part.block.nnz, False)
        for rows, X in part.pieces():
            margin = np.empty((rows.stop - rows.start, self._width))
            dots_lanes(*X, self._average, self._bias, self._lanes, margin)
            y = part.y[rows]
            target = y[:, None] if part.targets else 1.0
            m = margin[:, :n] if part.targets else y[:, None] * margin[:, :n]
            own = self.costs(part, rows)
            self._loss_at_w[:n] += np.einsum("il,il->l", own, loss.value(m, target))
            self._close[:n] += np.einsum("il,il,il->l", own, own, ~loss.is_flat(m, close, target))
            self._add(part, rows, X, self._linear, moves=False)

    def end_measuring(self) -> tuple[Vector, Vector, Vector, list[Weights]]:
        """(m,) of the variants: P at ``weights``, Σ C_i² of rows with a loss or nearly so, and D(α); and these."""
        n, w, fresh = len(self.variants), self._columns(self._average), self._columns(self._moved)
        primal = 0.5 * np.einsum("jl,jl->l", w, w, dtype=np.float64) + self._loss_at_w
        self.dual[:] = self._linear - 0.5 * np.einsum("jl,jl->l", fresh, fresh)
        return primal[:n], self._close[:n], self.dual[:n], self.weights

    def go_on(self) -> None:
        """With the weights that α makes, summed afresh."""
        self._w, self._moved = self._moved, self._w

    def shares(self, start: int, stop: int) -> NDArray[np.floating]:
        """(stop − start, m) α_i / C_i of the rows from ``start`` to ``stop``."""
        return self.share.reshape(-1, self._width)[start:stop, : len(self.variants)]

    def close(self) -> None:
        """They are not worked on any more; their dual variables stay."""
        self.is_open = False
        self._w = self._moved = np.zeros(0)
        self._w_last = self._w_before = self._average = self._average[:0]
        self._last, self._step = self.share[:0], self._step[:0]


def _aligned(n: int) -> Vector:
    """(n,) zeros that begin where a line of the processor's cache does."""
    room = np.zeros(n + _LINE_BYTES // 8)
    start = -room.ctypes.data % _LINE_BYTES // 8
    return room[start : start + n]
