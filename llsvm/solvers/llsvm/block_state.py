"""BlockState: rows at hand with their dual variables and margins, by problem."""

from __future__ import annotations

from threading import local

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.objective.problems import Positions, Problems


class Duals:
    """The dual variables of some rows and their margins, by problem.

    alpha, margin: (width, n) float64; what the solver has not yet seen has margin NaN. y: (n,) class ids.
    """

    def __init__(self, problems: Problems, y: NDArray[np.int32], alpha: NDArray[np.float64]) -> None:
        self.problems = problems
        self.y = y
        self.alpha = alpha
        self.margin = np.full_like(alpha, np.nan)
        self._everyone = np.arange(len(y))
        self._at_hand = local()  # each thread's: the signs of the problem that it asked for last
        if problems.pairs:
            self._by_class = np.argsort(y, kind="stable")
            self._starts = np.searchsorted(y[self._by_class], np.arange(problems.n_classes + 1))

    def members(self, c: int) -> Positions:
        """Positions of the rows that take part in problem ``c``."""
        if not self.problems.pairs:
            return self._everyone
        i, j = self.problems.pair(c)
        return np.concatenate([self._by_class[self._starts[m] : self._starts[m + 1]] for m in (i, j)])

    def signs(self, c: int) -> NDArray[np.float64]:
        """(n,) ±1 for the rows of problem ``c``, 0 for others."""
        known: tuple[int, NDArray[np.float64]] | None = getattr(self._at_hand, "signs", None)
        if known is None or known[0] != c:
            known = self._at_hand.signs = c, self.problems.signs(c)[self.y]
        return known[1]

    def of(
        self, c: int, rows: Positions | None = None
    ) -> tuple[Positions, NDArray[np.float64], NDArray[np.float64]]:
        """Positions (all members of problem ``c``, if ``rows`` is None), their α and their margins."""
        rows = self.members(c) if rows is None else rows
        if not self.problems.pairs and len(rows) == len(self.y):
            return rows, self.alpha[c][rows], self.margin[c][rows]
        at = self._at(c, rows)
        return rows, self.alpha[at], self.margin[at]

    def load(self, c: int, rows: Positions) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """α and margins of problem ``c`` as the kernels take them, by position; valid at ``rows``."""
        if not self.problems.pairs:
            return self.alpha[c], self.margin[c]
        alpha, margin = np.empty(len(self.y)), np.empty(len(self.y))
        at = self._at(c, rows)
        alpha[rows], margin[rows] = self.alpha[at], self.margin[at]
        return alpha, margin

    def store(self, c: int, rows: Positions, alpha: NDArray[np.float64], margin: NDArray[np.float64]) -> None:
        """Take back what ``load`` gave out and a kernel has changed."""
        if self.problems.pairs:
            at = self._at(c, rows)
            self.alpha[at], self.margin[at] = alpha[rows], margin[rows]

    def _at(self, c: int, rows: Positions) -> tuple[NDArray[np.intp] | int, Positions]:
        """Where the values of problem ``c`` are, of ``rows``."""
        if not self.problems.pairs:
            return c, rows
        i, j = self.problems.pair(c)
        return np.where(self.y[rows] == i, j - 1, i), rows


class BlockState(Duals):
    """Rows at hand with what the solver keeps for them.

    cost: (n,) C_i. alpha: (width, n) dual variables. margin: (width, n) y_i w·x_i when last seen, NaN before.
    active: per problem, the positions of the rows that the next sweep visits.
    """

    def __init__(
        self, problems: Problems, block: Block, cost: NDArray[np.float64], alpha: NDArray[np.float64]
    ) -> None:
        super().__init__(problems, block.y, alpha)
        self.block = block
        self.rows = block.rows.copy()  # the block's own may be a view of an arena that changes
        self.n_rows = block.n_rows
        self.cost = cost
        self.active = [self.members(c) for c in range(len(problems))]

    def stored(self) -> NDArray[np.float64]:
        """(n, width) α_i / C_i, as the row state has it."""
        share = np.divide(self.alpha, self.cost, out=np.zeros_like(self.alpha), where=self.cost > 0)
        return share.T

    def distance(self, squared: bool) -> NDArray[np.float32]:
        """(n,) how far the gradient would have to change before the row moves; 0 if it moves, or is free; ∞ where
        it was not seen."""
        nearest = np.full(self.n_rows, np.inf, np.float32)
        for alpha, margin in zip(self.alpha, self.margin, strict=True):
            outward = np.where(alpha <= 0, margin - 1.0, 0.0)
            if not squared:
                outward = np.where(alpha >= self.cost, 1.0 - margin, outward)
            outward[np.isnan(margin)] = np.inf
            np.minimum(nearest, np.maximum(outward, 0.0), out=nearest, casting="same_kind")
        nearest[self.cost <= 0] = np.inf
        return nearest

    def near(
        self, c: int, squared: bool, reach: float = 0.0, rows: NDArray[np.intp] | None = None
    ) -> NDArray[np.intp]:
        """Which of ``rows`` (None: all of problem ``c``) the problem would move, by their margins, or has free, or
        would move if margins changed by ``reach``."""
        rows, alpha, margin = self.of(c, rows)
        still = (alpha <= 0) & (margin > 1.0 + reach)
        if not squared:
            still |= (alpha >= self.cost[rows]) & (margin < 1.0 - reach)
        return rows[~still]

    def outside(self, squared: bool) -> NDArray[np.float32]:
        """(n,) 0 for rows with 0 < α < U in some problem, ∞ for the others: the slides' survivors."""
        upper = np.inf if squared else self.cost
        inside = ((self.alpha > 0) & (self.alpha < upper)).any(axis=0)
        return np.where(inside, 0.0, np.inf).astype(np.float32)
