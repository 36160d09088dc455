"""BlockState: rows at hand with their dual variables and margins, by problem."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.objective.losses import Loss, Target
from llsvm.objective.problems import Positions, Problems, Variant

Vector = NDArray[np.float64]


class _Held(NamedTuple):
    """A pair's members, their α and their margins, (n,), valid at the members."""

    c: int
    members: Positions
    alpha: Vector
    margin: Vector


class _ThreadState(local):
    """Each thread's own. signs, cost: the problem that it asked for last, and its signs, or C_i, where each problem
    has its own. held: see ``Duals.held``."""

    cost: tuple[int, Vector] | None = None
    signs: tuple[int, Vector] | None = None
    held: _Held | None = None


class Duals:
    """The dual variables of some rows and their margins, by problem.

    alpha, margin: (width, n) float64; what the solver has not yet seen has margin NaN. y: (n,) class ids.
    targets: (n,) float64, of regression; None: classes, whose target is 1.
    left_out: for each variant of the problems, (n,) whether the row takes no part, or None: all rows do.
    """

    def __init__(
        self,
        problems: Problems,
        y: NDArray[np.int32],
        alpha: Vector,
        left_out: list[NDArray[np.bool_] | None] | None = None,
        targets: Vector | None = None,
    ) -> None:
        self.problems = problems
        self.y = y
        self.targets = targets
        self.alpha = alpha
        self.margin = np.full_like(alpha, np.nan)
        self.left_out = left_out or [None] * len(problems.variants)
        self._everyone = np.arange(len(y))
        self._at_hand = _ThreadState()
        if problems.pairs:
            self._by_class = np.argsort(y, kind="stable")
            self._starts = np.searchsorted(y[self._by_class], np.arange(problems.n_classes + 1))

    @contextmanager
    def held(self, c: int) -> Iterator[None]:
        """Work of one thread on problem ``c`` alone, which nobody else may look at meanwhile: what a pair has of
        its rows is brought together once, not for each sweep."""
        if not self.problems.pairs or self._at_hand.held is not None:
            yield
            return
        members = self.members(c)
        found = _Held(c, members, *self.load(c, members))
        self._at_hand.held = found
        try:
            yield
        finally:
            self._at_hand.held = None
            self.store(c, members, found.alpha, found.margin)

    def _held(self, c: int) -> _Held | None:
        held = self._at_hand.held
        return held if held is not None and held.c == c else None

    def members(self, c: int) -> Positions:
        """Positions of the rows that take part in problem ``c``."""
        if (held := self._held(c)) is not None:
            return held.members
        left_out = self.left_out[self.problems.variant(c)]
        if not self.problems.pairs:
            return self._everyone if left_out is None else np.flatnonzero(~left_out)
        i, j = self.problems.pair(c)
        rows = np.concatenate([self._by_class[self._starts[m] : self._starts[m + 1]] for m in (i, j)])
        return rows if left_out is None else rows[~left_out[rows]]

    def signs(self, c: int) -> Vector:
        """(n,) ±1 for the rows of problem ``c``, 0 for those of other classes."""
        known = self._at_hand.signs
        if known is None or known[0] != c:
            known = self._at_hand.signs = c, self.problems.signs(c)[self.y]
        return known[1]

    def labels(self, c: int) -> Vector:
        """(n,) what the kernels take for y in problem ``c``: the signs, or the targets."""
        return self.signs(c) if self.targets is None else self.targets

    def target(self, rows: Positions) -> Target:
        """Of each of ``rows``, or of all."""
        if self.targets is None:
            return 1.0
        return self.targets if len(rows) == len(self.y) else self.targets[rows]

    def of(self, c: int, rows: Positions | None = None) -> tuple[Positions, Vector, Vector]:
        """Positions (all members of problem ``c``, if ``rows`` is None), their α and their margins."""
        rows = self.members(c) if rows is None else rows
        if not self.problems.pairs and len(rows) == len(self.y):
            return rows, self.alpha[c][rows], self.margin[c][rows]
        if (held := self._held(c)) is not None:
            return rows, held.alpha[rows], held.margin[rows]
        at = self._at(c, rows)
        return rows, self.alpha[at], self.margin[at]

    def load(self, c: int, rows: Positions) -> tuple[Vector, Vector]:
        """α and margins of problem ``c`` as the kernels take them, by position; valid at ``rows``."""
        if not self.problems.pairs:
            return self.alpha[c], self.margin[c]
        if (held := self._held(c)) is not None:
            return held.alpha, held.margin
        alpha, margin = np.empty(len(self.y)), np.empty(len(self.y))
        at = self._at(c, rows)
        alpha[rows], margin[rows] = self.alpha[at], self.margin[at]
        return alpha, margin

    def store(self, c: int, rows: Positions, alpha: Vector, margin: Vector) -> None:
        """Take back what ``load`` gave out and a kernel has changed."""
        if self.problems.pairs and self._held(c) is None:
            at = self._at(c, rows)
            self.alpha[at], self.margin[at] = alpha[rows], margin[rows]

    def _at(self, c: int, rows: Positions) -> tuple[Positions | int, Positions]:
        """Where the values of problem ``c`` are, of ``rows``."""
        if not self.problems.pairs:
            return c, rows
        i, j = self.problems.pair(c)
        first = self.problems.variant(c) * self.problems.width_of_classes
        return np.where(self.y[rows] == i, first + j - 1, first + i), rows


class BlockState(Duals):
    """Rows at hand with what the solver keeps for them.

    costs: for each variant of the problems, (n,) C_i times its factor, 0 for rows that it leaves out.
    alpha: (width, n) dual variables. margin: (width, n) y_i w·x_i when last seen, NaN before.
    active: per problem, the positions of the rows that the next sweep visits.
    enough: of losses whose α never rest at a bound: a row that adds less than this, times C_i, to the gap is left
    alone.
    """

    def __init__(
        self, problems: Problems, block: Block, cost: Vector, alpha: Vector, loss: Loss, enough: float = 0.0
    ) -> None:
        """cost: (n,) C_i."""
        self.rows = block.rows.copy()  # the block's own may be a view of a buffer that changes
        folds = [variant.leaves_out for variant in problems.variants]
        class_ids = block.class_ids
        outside = {id(fold): fold.contains(self.rows, class_ids) for fold in folds if fold is not None}
        left_out = [outside.get(id(fold)) for fold in folds]
        targets = block.y if block.has_targets else None
        super().__init__(problems, class_ids, alpha, left_out, targets)
        self.block = block
        self.n_rows = block.n_rows
        pairs = zip(problems.variants, left_out, strict=True)
        by_row = not problems.of_rest
        self.costs = [_cost(cost, variant, class_ids, out, by_row) for variant, out in pairs]
        self.active = [self.members(c) for c in range(len(problems))]
        self._loss = loss
        self.enough = enough

    def cost(self, c: int) -> Vector:
        """(n,) C_i in problem ``c``."""
        if not self.problems.has_own_weights:
            return self.costs[self.problems.variant(c)]
        if (known := self._at_hand.cost) is not None and known[0] == c:
            return known[1]
        own = self.problems.weighted(c, self.costs[self.problems.variant(c)], self.y)
        self._at_hand.cost = c, own
        return own

    def set_shares(self, share: NDArray[np.floating]) -> None:
        """share: (n, width) α_i / C_i, as ``shares`` has them; α was 0."""
        for cost, some in self._by_variant():
            self.alpha[some] += self._loss.alpha(share.T[some], cost)

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
        for cost, some in self._by_variant():
            np.divide(self.alpha[some, rows], cost[rows], out=share[some], where=cost[rows] > 0)
        return share.T

    def slack(self) -> NDArray[np.float32]:
        """(n,) how far the gradient would have to change before the row is free or violates its optimality
        conditions in some problem; 0 if it is or does; ∞ where it was not seen, or costs nothing."""
        least = np.full(self.n_rows, np.inf, np.float32)
        for cost, some in self._by_variant():
            for alpha, margin in zip(self.alpha[some], self.margin[some], strict=True):
                slack = self._loss.slack(alpha, margin, cost, self.target(self._everyone), self.enough)
                slack[np.isnan(margin) | (cost <= 0)] = np.inf
                with np.errstate(over="ignore"):  # so far off is as good as infinitely far
                    np.minimum(least, slack, out=least, casting="same_kind")
        return least

    def violating(self, c: int, threshold: float = 0.0, rows: Positions | None = None) -> Positions:
        """Which of ``rows`` (None: all of problem ``c``) are free in it, or violate its optimality conditions, by
        their margins, or have a slack of ``threshold`` at most."""
        rows, alpha, margin = self.of(c, rows)
        slack = self._loss.slack(alpha, margin, self.cost(c)[rows], self.target(rows), self.enough)
        return rows[~(slack > threshold)]

    def free(self) -> NDArray[np.bool_]:
        """(n,) which rows are between their bounds in some problem: the slides' survivors."""
        free = np.zeros(self.n_rows, bool)
        for cost, some in self._by_variant():
            free |= self._loss.free(self.alpha[some], cost).any(axis=0)
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
