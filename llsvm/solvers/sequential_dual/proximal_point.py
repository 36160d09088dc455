"""The rows of the method of multipliers (multipliers.py): their shares are the proximal point p^j, and p(W) is made
of them at the scores X W.

Rows come in parts, in memory or read anew for each look at them (rounds.py). Of a row nothing is kept but its
shares, so that a step takes some three readings, for the matrix and two points of a line search, however many rows
there are. Rows at hand also keep their scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.optim.augmented_lagrangian import LagrangianPoint
from llsvm.solvers.row_products import RowProducts
from llsvm.solvers.sequential_dual.duals import NO_CHANGE, Mask
from llsvm.solvers.sequential_dual.newton_system import JointNewtonSystem, WholeSystem
from llsvm.solvers.sequential_dual.problem import JointProblem
from llsvm.solvers.sequential_dual.prox_kernel import N_TOTALS
from llsvm.solvers.sequential_dual.shares import BlockShares, squared_norm

Array = NDArray[np.float64]
Totals = Sequence[float] | Array
Work = Callable[[BlockShares, RowProducts, slice, Array], Totals]


class JointRows:
    """Rows with their p^j, the weights W, and a step along which these change: ``Rows`` of
    optim/augmented_lagrangian.py.

    rest: (d + 1, k), the weights that other rows add. first_sigma: of σ. D: of all shares as they are.
    """

    def __init__(
        self,
        problem: JointProblem,
        parts: Callable[[], Iterable[BlockShares]],
        store: Callable[[BlockShares], None],
        w: Array | None = None,
    ) -> None:
        """parts: the rows, each once. store: called with a part whose shares have changed. w: (d + 1, k), the
        weights that all shares make, those of other rows too; None: there are no others."""
        self._problem, self._parts, self._store = problem, parts, store
        self._W = self._step = np.zeros(problem.shape)
        (linear, squares, n_rows, *_), own = self._over(self._begin)
        self.rest = np.zeros(problem.shape) if w is None else w - own
        self.n_rows = int(n_rows)
        self.first_sigma = n_rows / max(squares, 1e-300)  # 1 over the mean of ‖x_i‖²
        self._sum, self.D = own, self._dual_at(linear, own)
        self._at_first = self._found = self.D  # _found: of the last point

    def set_weights(self, W: Array) -> None:
        self._W = W.copy()

    def set_step(self, step: Array) -> None:
        self._step = step

    def take(self, length: float) -> None:
        self._W += length * self._step

    def point(self, sigma: float, length: float = 0.0) -> LagrangianPoint:
        def work(part: BlockShares, products: RowProducts, rows: slice, sums: Array) -> Totals:
            y, cost = part.block.y[rows], part.cost[rows]
            base, scores = (
                self._problem.dual.of_shares(part.share[rows], y, cost),
                self._scores(products, rows),
            )
            change = self._change(products, rows) if length else NO_CHANGE
            _, v, totals = self._problem.dual.prox_along(base, scores, change, length, sigma, y, cost)
            products.add(products.matrix(rows), v, sums)
            return totals

        (linear, coupling, moved, loss, slope), sums = self._over(work)
        self._found, self._of_point = self._dual_at(linear, sums), self.rest + sums
        return LagrangianPoint(linear, loss - linear + coupling, moved, slope)

    def weights(self) -> Array:
        return self._of_point

    def newton_step(self, gradient: Array, sigma: float) -> Array:
        whole = WholeSystem(self._problem)
        for part in self._parts():
            whole.add(part, self._face(part, sigma))
        return whole.solve(-gradient, sigma)

    def move_base(self, sigma: float) -> None:
        """p^{j+1} = p(W), at the last point; D never falls by it."""
        if not self._found >= self.D:
            return

        def work(part: BlockShares, products: RowProducts, rows: slice, sums: Array) -> Totals:
            p, y, cost = self._prox(part, products, rows, sigma), part.block.y[rows], part.cost[rows]
            part.share[rows] = self._problem.dual.shares(p, y, cost, self._problem.grid)
            return self._add(part, products, rows, sums)

        (linear, *_), self._sum = self._over(work, store=True)
        self.D = self._dual_at(linear, self._sum)

    def finish(self, w: Array) -> float:
        """Set w to the weights that belong to all shares; returns what D has gained."""
        np.add(self.rest, self._sum, out=w)
        return self.D - self._at_first

    def _scores(self, products: RowProducts, rows: slice) -> Array:
        return products.scores(products.matrix(rows), self._W)

    def _change(self, products: RowProducts, rows: slice) -> Array:
        return products.scores(products.matrix(rows), self._step)

    def _prox(self, part: BlockShares, products: RowProducts, rows: slice, sigma: float) -> Array:
        y, cost = part.block.y[rows], part.cost[rows]
        base = self._problem.dual.of_shares(part.share[rows], y, cost)
        return self._problem.dual.prox(base, self._scores(products, rows), sigma, y, cost)

    def _face(self, part: BlockShares, sigma: float) -> Mask:
        """(n, k)"""
        products, face = self._problem.products(part), np.empty(part.share.shape, bool)

        def find(t: int, start: int, stop: int) -> None:
            for rows in products.pieces(start, stop):
                p = self._prox(part, products, rows, sigma)
                face[rows] = self._problem.dual.face(p, part.block.y[rows], part.cost[rows])

        self._problem.threads.over_rows(part.n_rows, find)
        return face

    def _begin(self, part: BlockShares, products: RowProducts, rows: slice, sums: Array) -> Totals:
        squares = float(products.operator.squares(np.arange(rows.start, rows.stop)).sum())
        return *self._add(part, products, rows, sums), squares, rows.stop - rows.start

    def _add(self, part: BlockShares, products: RowProducts, rows: slice, sums: Array) -> Totals:
        """What the shares add up to."""
        y, cost = part.block.y[rows], part.cost[rows]
        p = self._problem.dual.of_shares(part.share[rows], y, cost)
        products.add(products.matrix(rows), self._problem.dual.coefficients(p, y), sums)
        return (self._problem.dual.linear(p, y),)

    def _dual_at(self, linear: float, sums: Array) -> float:
        return linear - 0.5 * squared_norm(self.rest + sums)

    def _over(self, work: Work, store: bool = False) -> tuple[list[float], Array]:
        """What ``work`` returns of all pieces of rows, and what it adds to sums as large as the weights. store: the
        shares that it has changed."""
        totals, sums = np.zeros(N_TOTALS), np.zeros(self._problem.shape)
        for part in self._parts():
            products = self._problem.products(part)

            def of_range(t: int, start: int, stop: int, part=part, products=products) -> tuple[Array, Array]:  # type: ignore[no-untyped-def]
                found, own = np.zeros(N_TOTALS), np.zeros(self._problem.shape)
                for rows in products.pieces(start, stop):
                    each = work(part, products, rows, own)
                    found[: len(each)] += each
                return found, own

            for found, own in self._problem.threads.over_rows(part.n_rows, of_range):
                totals += found
                sums += own
            if store:
                self._store(part)
        return totals.tolist(), sums


class RowsAtHand(JointRows):
    """Rows in memory, with their scores X W, and the change of these."""

    def __init__(
        self, problem: JointProblem, part: BlockShares, matrix_numbers: int, w: Array | None = None
    ) -> None:
        """matrix_numbers: see newton_system.py. w: as for JointRows."""
        self._part = part
        self._scores_held, self._change_held = np.empty(part.share.shape), np.zeros(part.share.shape)
        self._system = JointNewtonSystem(problem, part, matrix_numbers)
        super().__init__(problem, lambda: [part], lambda _: None, w)

    def set_weights(self, W: Array) -> None:
        self._set_scores(self._scores_held, W)

    def set_step(self, step: Array) -> None:
        self._set_scores(self._change_held, step)

    def take(self, length: float) -> None:
        self._scores_held += length * self._change_held

    def newton_step(self, gradient: Array, sigma: float) -> Array:
        return self._system.solve(self._face(self._part, sigma), -gradient, sigma)

    def _scores(self, products: RowProducts, rows: slice) -> Array:
        scores: Array = self._scores_held[rows]
        return scores

    def _change(self, products: RowProducts, rows: slice) -> Array:
        change: Array = self._change_held[rows]
        return change

    def _set_scores(self, scores: Array, W: Array) -> None:
        def work(part: BlockShares, products: RowProducts, rows: slice, sums: Array) -> Totals:
            scores[rows] = products.scores(products.matrix(rows), W)
            return ()

        self._over(work)
