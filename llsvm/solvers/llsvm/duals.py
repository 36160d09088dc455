"""The dual variables: of rows at hand, with their margins, by problem (BlockState); and of all rows, which stay
with those at hand or are stored in a row state (AllDuals)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.block import FLOAT64_BYTES, Block
from llsvm.objective.losses import Loss, Target
from llsvm.objective.problems import Positions, Problems, RowCosts, Variant
from llsvm.solvers.state import RowValues, copy_rows
from llsvm.spill.row_state import RowState

Vector = NDArray[np.float64]


class _Held(NamedTuple):
    """State of one problem that a thread works on: the positions of its rows; and (n,) signs, C_i, α and margins,
    of which the last two are valid at these rows.

    ``row_work_bytes`` counts the fields, an array each: one more or fewer changes the memory plan."""

    members: Positions
    signs: Vector
    cost: Vector
    alpha: Vector
    margin: Vector


class BlockState:
    """Rows at hand with what the solver keeps for them, by problem.

    alpha, margin: (width, n) float64 dual variables, and y_i w·x_i when last seen; NaN before. Problem c has row c
        of them; pairs of classes share rows, see ``_at``.
    y: (n,) class ids. targets: (n,) float64, of regression; None: classes, whose target is 1.
    costs: for each variant of the problems, (n,) C_i times its factor, 0 for rows that it leaves out.
    active: per problem, the positions of the rows that the next sweep visits, unless it is told others.
    """

    def __init__(self, problems: Problems, block: Block, cost: Vector, alpha: Vector, loss: Loss) -> None:
        """cost: (n,) C_i."""
        self.problems, self.block = problems, block
        self.rows = block.rows.copy()  # the block's own may be a view of a buffer that changes
        self.y, self.targets = block.class_ids, block.y if block.has_targets else None
        self.alpha, self.margin = alpha, np.full_like(alpha, np.nan)
        self._loss = loss
        folds = [variant.leaves_out for variant in problems.variants]
        outside = {id(fold): fold.contains(self.rows, self.y) for fold in folds if fold is not None}
        self._left_out = [outside.get(id(fold)) for fold in folds]
        pairs, by_row = zip(problems.variants, self._left_out, strict=True), not problems.of_rest
        self.costs = [_cost(cost, variant, self.y, out, by_row) for variant, out in pairs]
        self._everyone = np.arange(block.n_rows)
        self._held = dict[int, _Held]()
        if problems.pairs:
            by_class = np.argsort(self.y, kind="stable")
            starts = np.searchsorted(self.y[by_class], np.arange(1, problems.n_classes))
            self._of_class = np.split(by_class, starts)
        self.active = [self.members(c) for c in range(len(problems))]

    @property
    def n_rows(self) -> int:
        return self.block.n_rows

    @contextmanager
    def held(self, c: int) -> Iterator[None]:
        """Work on problem ``c`` alone, which nothing else may look at meanwhile: what it has of the rows is brought
        together once, not for each sweep."""
        if c in self._held:
            yield
            return
        members = self.members(c)
        state = self._held[c] = _Held(members, self.signs(c), self.cost(c), *self.load(c, members))
        try:
            yield
        finally:
            del self._held[c]
            self.store(c, members, state.alpha, state.margin)

    def members(self, c: int) -> Positions:
        """Positions of the rows that take part in problem ``c``."""
        if c in self._held:
            return self._held[c].members
        left_out = self._left_out[self.problems.variant(c)]
        if not self.problems.pairs:
            return self._everyone if left_out is None else np.flatnonzero(~left_out)
        i, j = self.problems.pair(c)
        rows = np.concatenate([self._of_class[i], self._of_class[j]])
        return rows if left_out is None else rows[~left_out[rows]]

    def signs(self, c: int) -> Vector:
        """(n,) ±1 for the rows of problem ``c``, 0 for those of other classes."""
        return self._held[c].signs if c in self._held else self.problems.signs(c)[self.y]

    def cost(self, c: int) -> Vector:
        """(n,) C_i in problem ``c``."""
        if c in self._held:
            return self._held[c].cost
        cost = self.costs[self.problems.variant(c)]
        return self.problems.weighted(c, cost, self.y) if self.problems.has_own_weights else cost

    def labels(self, c: int) -> Vector:
        """(n,) what the kernels take for y in problem ``c``: the signs, or the targets."""
        return self.signs(c) if self.targets is None else self.targets

    def target(self, rows: Positions) -> Target:
        """Return t_i of ``rows``, or of all rows where these are as many."""
        if self.targets is None:
            return 1.0
        return self.targets if len(rows) == len(self.y) else self.targets[rows]

    def of(self, c: int, rows: Positions | None = None) -> tuple[Positions, Vector, Vector]:
        """Positions (all members of problem ``c``, if ``rows`` is None), their α and their margins."""
        rows = self.members(c) if rows is None else rows
        alpha, margin = self.load(c, rows)
        return rows, alpha[rows], margin[rows]

    def load(self, c: int, rows: Positions) -> tuple[Vector, Vector]:
        """α and margins of problem ``c`` as the kernels take them, by position; valid at ``rows``."""
        if not self.problems.pairs:
            return self.alpha[c], self.margin[c]
        if c in self._held:
            return self._held[c].alpha, self._held[c].margin
        alpha, margin = np.empty(len(self.y)), np.empty(len(self.y))
        at = self._at(c, rows)
        alpha[rows], margin[rows] = self.alpha[at], self.margin[at]
        return alpha, margin

    def store(self, c: int, rows: Positions, alpha: Vector, margin: Vector) -> None:
        """Take back what ``load`` gave out and a kernel has changed."""
        if self.problems.pairs and c not in self._held:
            at = self._at(c, rows)
            self.alpha[at], self.margin[at] = alpha[rows], margin[rows]

    def _at(self, c: int, rows: Positions) -> tuple[Positions, Positions]:
        """Return where the values of problem ``c``, a pair of classes i < j, are in ``alpha`` and ``margin``, for
        ``rows``, which are of these classes.

        A row of class y has a place for each other class, m at m before its own and m − 1 after it
        (llsvm/objective/problems.py); so the rows of i have theirs for j at j − 1, and those of j for i at i."""
        i, j = self.problems.pair(c)
        first = self.problems.variant(c) * self.problems.width_of_classes
        return np.where(self.y[rows] == i, first + j - 1, first + i), rows

    def set_shares(self, share: NDArray[np.floating]) -> None:
        """Let α be of these shares α_i / C_i, (n, width), as ``shares`` has them."""
        self.alpha[...] = 0.0
        for cost, places in self._by_variant():
            self.alpha[places] += self._loss.alpha(share.T[places], cost)

    def copy_shares(self, parent: int, variant: int) -> None:
        """Let α_i / C_i of a variant of the problems be that of another, 0 for rows that it leaves out."""
        pairs = zip(self._of_variant(parent), self._of_variant(variant), strict=True)
        for (given, source), (cost, target) in pairs:
            alpha = self.alpha[source]
            share = np.divide(alpha, given, out=np.zeros_like(alpha), where=given > 0)
            np.multiply(share, cost, out=self.alpha[target])

    def shares(self, rows: slice = slice(None)) -> Vector:
        """(n, width) α_i / C_i of these rows, 0 where C_i is 0."""
        share = np.zeros_like(self.alpha[:, rows])
        for cost, places in self._by_variant():
            np.divide(self.alpha[places, rows], cost[rows], out=share[places], where=cost[rows] > 0)
        return share.T

    def slack(self, negligible: float) -> NDArray[np.float32]:
        """(n,) how far the gradient would have to change before the row is free or violates its optimality
        conditions in some problem; 0 if it is or does; ∞ where it was not seen, or costs nothing. negligible: see
        ``Sweeps``."""
        min_slack = np.full(self.n_rows, np.inf, np.float32)
        for cost, places in self._by_variant():
            for alpha, margin in zip(self.alpha[places], self.margin[places], strict=True):
                slack = self._loss.slack(alpha, margin, cost, self.target(self._everyone), negligible)
                slack[np.isnan(margin) | (cost <= 0)] = np.inf
                with np.errstate(over="ignore"):  # so far off is as good as infinitely far
                    np.minimum(min_slack, slack, out=min_slack, casting="same_kind")
        return min_slack

    def violating(
        self, c: int, negligible: float, threshold: float = 0.0, rows: Positions | None = None
    ) -> Positions:
        """Return those of ``rows`` (None: all of problem ``c``) that are free in it, or violate its optimality
        conditions, by their margins, or have a slack of ``threshold`` at most. negligible: see ``Sweeps``."""
        rows, alpha, margin = self.of(c, rows)
        slack = self._loss.slack(alpha, margin, self.cost(c)[rows], self.target(rows), negligible)
        return rows[~(slack > threshold)]

    def free(self) -> NDArray[np.bool_]:
        """(n,) which rows are between their bounds in some problem: the slides' survivors."""
        free = np.zeros(self.n_rows, bool)
        for cost, places in self._by_variant():
            free |= self._loss.free(self.alpha[places], cost).any(axis=0)
        return free

    def _by_variant(self) -> Iterator[tuple[Vector, slice]]:
        """The costs of each variant, or problem, and the places of its dual variables in ``alpha``."""
        for variant in range(len(self.costs)):
            yield from self._of_variant(variant)

    def _of_variant(self, variant: int) -> Iterator[tuple[Vector, slice]]:
        width = self.problems.width_of_classes
        first, stop = variant * width, (variant + 1) * width
        if not self.problems.has_own_weights:
            yield self.costs[variant], slice(first, stop)
            return
        for c in range(first, stop):  # where variables of problem c are, too
            yield self.cost(c), slice(c, c + 1)


def block_state_bytes(width: int) -> int:
    """Return the bytes of a row of a BlockState: number, position, label, cost and order of each row; α, margin and
    position among the active rows of each of its dual variables."""
    return FLOAT64_BYTES * (5 + 3 * width)


def row_work_bytes(problems: Problems, threads: int) -> int:
    """Return the bytes that work on a row by so many threads takes, beside the row itself.

    Beside a BlockState these are the shares that are stored of it; what each thread holds of the problem that it
    works on, with the order of its rows and their slack, and what costs of its own are made of; the values of a
    pair of classes, which are copies; and costs, and who is left out, of each variant that has its own."""
    held = len(_Held._fields)
    of_threads = min(threads, len(problems)) * (held + 2 + 2 * problems.has_own_weights)
    of_variants = 2 * sum(variant != Variant() for variant in problems.variants)
    values = problems.width + of_threads + held * problems.pairs + of_variants
    return block_state_bytes(problems.width) + FLOAT64_BYTES * values


def row_gaps(loss: Loss, alpha: Vector, margin: Vector, cost: Vector, target: Target) -> Vector:
    """(n,) what rows add to the gap of a problem: C φ(m) − C b(α/C) + α m."""
    share = np.divide(alpha, cost, out=np.zeros_like(alpha), where=cost > 0)
    return cost * (loss.value(margin, target) - loss.dual_value(share, target)) + alpha * margin


def _cost(
    cost: Vector,
    variant: Variant,
    class_ids: NDArray[np.int32],
    left_out: NDArray[np.bool_] | None,
    by_row: bool,
) -> Vector:
    """C_i times the variant's factors, 0 where a row is left out; the array itself where that is the same. by_row:
    class weights are the same in all problems."""
    weighted = by_row and variant.class_weight is not None
    if variant.cost == 1.0 and not weighted and left_out is None:
        return cost
    scaled = cost * variant.cost
    scaled = variant.weighted(scaled, class_ids) if weighted else scaled
    return scaled if left_out is None else np.where(left_out, 0.0, scaled)


class AllDuals:
    """Makes of a block a BlockState, and takes back what a solver has made of its dual variables.

    whole: all rows, where they are one block at hand; None elsewhere, and before they were seen. costs: of rows,
    but for the problems' own factors.
    """

    def __init__(self, problems: Problems, costs: RowCosts, loss: Loss, stored: RowState | None) -> None:
        """stored: α_i / C_i of every row, (n_rows, width); None where all rows are one block, which keeps α_i."""
        self.problems = problems
        self.stored = stored
        self.whole: BlockState | None = None
        self.costs = costs
        self._loss = loss
        self._restored: RowValues | None = None  # until the block is there

    def of(self, block: Block) -> BlockState:
        """The block's rows with their dual variables; margins are unknown, all rows active."""
        if self.whole is not None:
            return self.whole
        alpha = np.zeros((self.problems.width, block.n_rows))
        part = BlockState(self.problems, block, self.costs.of(block), alpha, self._loss)
        if self.stored is not None:
            part.set_shares(self.stored.get(block.rows).reshape(block.n_rows, self.problems.width))
            return part
        if self._restored is not None:
            copy_rows(self._restored, _DualValues(part))
            self._restored = None
        self.whole = part
        return part

    @property
    def by_class(self) -> NDArray[np.float64]:
        """C_i of a row of sample weight 1, by class; see ShareSums."""
        cost, problems = self.costs.by_class, self.problems
        weights = problems.variants[0].class_weight if problems.of_rest else None
        return cost if weights is None else np.append(cost * weights, cost[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """In which α_i / C_i are kept."""
        return np.dtype(np.float64) if self.stored is None else self.stored.dtype

    def shares(self, start: int, stop: int) -> NDArray[np.floating]:
        """(stop − start, width) α_i / C_i of the rows from ``start`` to ``stop``."""
        if self.stored is None:
            assert self.whole is not None
            return self.whole.shares(slice(start, stop))  # a block of all rows has them in order
        return self.stored.get(np.arange(start, stop)).reshape(stop - start, self.problems.width)

    def close(self) -> None:
        """Let go of them, and of their file."""
        self.whole = None
        if self.stored is not None:
            self.stored.close()

    def store(self, part: BlockState) -> None:
        if self.stored is not None:
            self.stored.set(part.rows, part.shares())

    @property
    def rows(self) -> dict[str, RowValues]:
        """By name, for a SolverState: "share", α_i / C_i as stored; or "alpha", where they are at hand."""
        if self.stored is not None:
            return {"share": self.stored}
        assert self.whole is not None
        return {"alpha": _DualValues(self.whole)}

    @property
    def name(self) -> str:
        """Name of these values in ``rows``."""
        return "alpha" if self.stored is None else "share"

    def restore(self, values: RowValues) -> None:
        """Go on from what ``rows`` had, which is copied piece by piece."""
        if self.stored is None:
            self._restored = values
        else:
            copy_rows(values, self.stored)


class AllShares:
    """α_i / C_i of all rows, as RowValues, of which rows that follow each other can be had."""

    def __init__(self, duals: AllDuals, n_rows: int) -> None:
        self.n_rows, self.width = n_rows, duals.problems.width
        self.dtype = duals.dtype
        self._duals = duals

    def get(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        shares = self._duals.shares(int(rows[0]), int(rows[-1]) + 1)
        return shares[:, 0] if self.width == 1 else shares


class _DualValues:
    """The dual variables of all rows at hand, as RowValues."""

    dtype: np.dtype[Any] = np.dtype(np.float64)

    def __init__(self, part: BlockState) -> None:
        self._part = part
        self.width, self.n_rows = part.alpha.shape

    def get(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        values = self._part.alpha[:, self._positions(rows)]
        return values[0] if self.width == 1 else values.T

    def set(self, rows: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        self._part.alpha[:, self._positions(rows)] = values.reshape(len(rows), self.width).T

    def _positions(self, rows: NDArray[np.int64]) -> NDArray[np.intp]:
        return np.searchsorted(self._part.rows, rows)  # a block of all rows has them in order
