"""What holds for all rows of a run, and sums over rows with their shares.

Visits of rows and Newton's method keep the weights and D by adding up what they change. Each addition may be off
by 2^-52 of its terms, and where C_i ‖x_i‖ is large, terms are far larger than the D that is left in the end: after
some loops, D as kept may be above that of any feasible point. So where that could matter both are summed again from
the shares, which are exact (``Loops.resum``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from llsvm.process.threads import Threads
from llsvm.solvers.optim.blas import dot
from llsvm.solvers.row_products import RowProducts
from llsvm.solvers.sequential_dual.duals import JointDual
from llsvm.solvers.sequential_dual.shares import BlockShares
from llsvm.stream.progress import Progress

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class JointProblem:
    """A direct multi-class problem, and what works on its rows.

    dual: of the loss. shape: (d + 1, k) of the weights. bias: value of the constant feature. grid: shares are
    multiples of 1/grid. threads: to divide rows over. progress: of the run.
    """

    dual: JointDual
    shape: tuple[int, int]
    bias: float
    grid: float
    threads: Threads
    progress: Progress

    def with_columns(self, width: int) -> JointProblem:
        """Return the same over rows of so many columns, the constant feature included."""
        return replace(self, shape=(width, self.shape[1]))

    def products(self, part: BlockShares) -> RowProducts:
        """Return the products of these rows with weights and coefficients."""
        return RowProducts(part.block, self.bias, *self.shape, self.progress)

    def terms(self, part: BlockShares) -> float:
        """Return Σ C_i² ‖x_i‖², at most: what the terms of D come to."""
        rows = self.products(part).operator
        return float(rows.squares(rows.all).sum()) * float(part.cost.max(initial=0.0)) ** 2

    def sum_of(self, parts: Iterable[BlockShares], w: Array) -> float:
        """Set w (d + 1, k) to the weights that the shares make; return D. parts: all rows, each once."""
        w[...], linear = 0.0, 0.0
        for part in parts:
            products = self.products(part)
            for rows in products.pieces(0, part.n_rows):
                linear += self.add_shares(part, products, rows, w)
        return linear - 0.5 * dot(w, w)

    def add_shares(self, part: BlockShares, products: RowProducts, rows: slice, sums: Array) -> float:
        """Add what the shares of these rows make to sums (d + 1, k); return Σ C_i a_im of them."""
        y, cost = part.labels(rows)
        v = self.dual.coefficients(self.dual.of_shares(part.share[rows], y, cost), y)
        products.add(products.matrix(rows), v, sums)
        return float(v[np.arange(len(y)), y].sum())

    def gaps(self, part: BlockShares, w: Array) -> Array:
        """Return (n,) C_i (loss_i + Σ_m a_im (s_y − s_m − 1)) at the weights w (d + 1, k)."""
        products, gap = self.products(part), np.empty(part.n_rows)
        for rows in products.pieces(0, part.n_rows):
            scores = products.scores(products.matrix(rows), w)
            gap[rows] = self.dual.gaps(part.share[rows], scores, part.block.y[rows], part.cost[rows])
        return gap
