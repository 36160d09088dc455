"""The rows of the augmented Lagrangian method (multipliers.py): their shares are the proximal point p^j, and p(W)
is made of them at the scores X W.

Rows come in parts, in memory or read anew for each look at them (rounds.py). Of a row that is read nothing is kept
but its shares, so that a step takes some three readings, for the matrix and two points of a line search, however
many rows there are. Rows in memory also keep their scores X W, and the change of these along a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.optim.augmented_lagrangian import LagrangianPoint
from llsvm.solvers.optim.blas import dot
from llsvm.solvers.optim.newton_system import (
    MATRICES,
    MOST_ORDER,
    NewtonPrices,
    NewtonSystem,
    solve_by_columns,
)
from llsvm.solvers.row_products import RowProducts
from llsvm.solvers.sequential_dual.kernels import N_TOTALS
from llsvm.solvers.sequential_dual.newton_system import FaceRows
from llsvm.solvers.sequential_dual.problem import JointProblem
from llsvm.solvers.sequential_dual.shares import BlockShares
from llsvm.stream.progress import OutOfTime

Array = NDArray[np.float64]
Totals = Sequence[float] | Array
Work = Callable[[BlockShares, RowProducts, slice, Array], Totals]
# Dimensions of a row's face that there is room to list, on average; in all there is room for MOST_ORDER at least.
# With fewer, Newton's method ends at a step on wide data whose faces have more; each takes LISTED_BYTES of a row.
ROW_DIMENSIONS = 2


class JointRows:
    """Rows with their p^j, the weights W, and a step along which these change: ``LagrangianRows`` of
    optim/augmented_lagrangian.py.

    rest: (d + 1, k), the weights that other rows add. first_sigma: of σ. D: of all shares as they are.
    ``point`` finds p(W) at W + length · step, and sums it up for ``weights`` and ``move_base``, which come after;
    ``newton_step`` and ``move_base`` make p(W) again, at W as ``take`` has left it.
    """

    def __init__(
        self,
        problem: JointProblem,
        parts: Callable[[], Iterable[BlockShares]],
        store: Callable[[BlockShares], None],
        W: Array,
        prices: NewtonPrices | None = None,
        w: Array | None = None,
    ) -> None:
        """parts: the rows, each once. store: called with a part whose shares have changed. W: (d + 1, k), which the
        method moves. prices: of ways to solve a system; None: by columns, as the rows are not all in memory. w:
        (d + 1, k), the weights that all shares make, those of other rows too; None: there are no others."""
        self._problem, self._parts, self._store, self._prices = problem, parts, store, prices
        self._W, self._step = W, np.zeros_like(W)
        self._scores = None if prices is None else self._times(W)  # of rows in memory, (n, k)
        self._change = np.zeros_like(W if self._scores is None else self._scores)  # of these along the step
        (linear, squares, n_rows, _), sums = self._over(self._begin)
        self.rest = np.zeros_like(W) if w is None else w - sums
        self.n_rows = int(n_rows)
        self.first_sigma = n_rows / squares if squares > 0.0 else 1.0  # 1 over the mean of ‖x_i‖²
        self._sum, self.D = sums, self._dual_at(linear, sums)
        self._point_dual = self.D  # D at the last point

    def set_step(self, step: Array) -> None:
        self._step = step
        if self._scores is not None:
            self._times(step, self._change)

    def take(self, length: float) -> None:
        """Move the scores: W is the array that the method moves. The step is used up."""
        if self._scores is not None:
            self._change *= length
            self._scores += self._change

    def point(self, sigma: float, length: float = 0.0) -> LagrangianPoint:
        def work(part: BlockShares, products: RowProducts, rows: slice, sums: Array) -> Totals:
            _, v, totals = self._prox(part, products, rows, sigma, length)
            products.add(products.matrix(rows), v, sums)
            return totals

        (linear, coupling, moved, loss), sums = self._over(work)
        self._point_dual, self._of_point = self._dual_at(linear, sums), self.rest + sums
        return LagrangianPoint(linear, loss - linear + coupling, moved, dot(sums, self._step))

    def weights(self) -> Array:
        return self._of_point

    def newton_step(self, gradient: Array, sigma: float) -> Array:
        """Raises OutOfTime, too, where neither lists of all dimensions of faces have room nor the matrix that is
        made without these."""
        if self._prices is None:
            return solve_by_columns(lambda H: self._add_matrices(H, sigma), gradient)
        (part,) = self._parts()
        rows = self._face_rows(part, sigma)
        if rows.number > MOST_ORDER and self._prices.has_room(self._prices.columns):
            return solve_by_columns(lambda H: rows.add_matrix(sigma, H), gradient)
        if rows.number > max(ROW_DIMENSIONS * self.n_rows, MOST_ORDER):
            raise OutOfTime
        curvature = np.full(len(rows.all), sigma)
        return NewtonSystem(rows, rows.all, curvature, self._prices, MATRICES).solve(gradient)

    def move_base(self, sigma: float) -> None:
        """p^{j+1} = p(W), at the last point, unless D falls by it; by the rounding of shares it may."""
        if not self._point_dual >= self.D:
            return

        def work(part: BlockShares, products: RowProducts, rows: slice, sums: Array) -> Totals:
            p, (y, cost) = self._prox(part, products, rows, sigma)[0], part.labels(rows)
            part.share[rows] = self._problem.dual.shares(p, y, cost, self._problem.grid)
            return (self._problem.add_shares(part, products, rows, sums),)

        (linear, *_), self._sum = self._over(work, self._store)
        self.D = self._dual_at(linear, self._sum)

    def finish(self, w: Array) -> float:
        """Set w to the weights that belong to all shares; returns D of these."""
        np.add(self.rest, self._sum, out=w)
        return self.D

    def _begin(self, part: BlockShares, products: RowProducts, rows: slice, sums: Array) -> Totals:
        counting = rows.start + np.flatnonzero(part.cost[rows])  # rows without a weight may have any values
        squares = float(products.operator.squares(counting).sum())
        return self._problem.add_shares(part, products, rows, sums), squares, len(counting)

    def _times(self, W: Array, out: Array | None = None) -> Array:
        """Return X W of rows in memory, (n, k). out: to have it; None: an array of its own."""
        (part,) = self._parts()
        scores = np.empty(part.share.shape) if out is None else out

        def work(part: BlockShares, products: RowProducts, rows: slice, sums: Array) -> Totals:
            scores[rows] = products.scores(products.matrix(rows), W)
            return ()

        self._over(work)
        return scores

    def _prox(
        self, part: BlockShares, products: RowProducts, rows: slice, sigma: float, length: float = 0.0
    ) -> tuple[Array, Array, Array]:
        """Return the prox of these rows at W + length · step, its coefficients, and totals."""
        if self._scores is None:
            W = self._W + length * self._step if length else self._W
            scores = products.scores(products.matrix(rows), W)
        elif length:
            scores = self._scores[rows] + length * self._change[rows]
        else:
            scores = self._scores[rows]
        y, cost = part.labels(rows)
        base = self._problem.dual.of_shares(part.share[rows], y, cost)
        return self._problem.dual.prox(base, scores, sigma, y, cost)

    def _face_rows(self, part: BlockShares, sigma: float) -> FaceRows:
        """Return the rows of Newton's system at the last point."""
        products, face = self._problem.products(part), np.empty(part.share.shape, bool)

        def find(t: int, start: int, stop: int) -> None:
            for rows in products.pieces(start, stop):
                p = self._prox(part, products, rows, sigma)[0]
                face[rows] = self._problem.dual.face(p, part.cost[rows])

        self._problem.threads.over_rows(part.n_rows, find)
        return FaceRows(self._problem, part, face)

    def _add_matrices(self, H: Array, sigma: float) -> None:
        for part in self._parts():
            self._face_rows(part, sigma).add_matrix(sigma, H)

    def _dual_at(self, linear: float, sums: Array) -> float:
        w = self.rest + sums
        return linear - 0.5 * dot(w, w)

    def _over(
        self, work: Work, store: Callable[[BlockShares], None] = lambda _: None
    ) -> tuple[list[float], Array]:
        """Return the sums of what ``work`` returns of all pieces of rows, and of what it adds to arrays as large as
        the weights. store: called with each part."""
        totals, sums = np.zeros(N_TOTALS), np.zeros(self._problem.shape)
        for part in self._parts():
            products = self._problem.products(part)

            def of_range(t: int, start: int, stop: int, part=part, products=products) -> tuple[Array, Array]:  # type: ignore[no-untyped-def]
                range_totals, range_sums = np.zeros(N_TOTALS), np.zeros(self._problem.shape)
                for rows in products.pieces(start, stop):
                    of_piece = work(part, products, rows, range_sums)
                    range_totals[: len(of_piece)] += of_piece
                return range_totals, range_sums

            for range_totals, range_sums in self._problem.threads.over_rows(part.n_rows, of_range):
                totals += range_totals
                sums += range_sums
            store(part)
        return totals.tolist(), sums
