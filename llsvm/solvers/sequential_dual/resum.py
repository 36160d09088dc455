"""W and D summed anew from the shares.

Visits of rows and Newton's method keep both by adding up what they change. Each addition may be off by 2^-52 of its
terms, and where C_i ‖x_i‖ is large, terms are far larger than the D that is left in the end: after some loops, D
as kept may be above that of any feasible point. So where that could matter, and only there, both are summed again
from the shares, which are exact.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.rounding import NOISE
from llsvm.solvers.row_products import RowProducts
from llsvm.solvers.sequential_dual.duals import JointDual
from llsvm.solvers.sequential_dual.loops import Loops
from llsvm.solvers.sequential_dual.shares import BlockShares, squared_norm

Array = NDArray[np.float64]
NEAR = 0.1  # of P: before the gap is that small, D proves little
WORTH = 0.01  # of the gap asked for: less drift than that is left


def resum(parts: Iterable[BlockShares], dual: JointDual, bias: float, w: Array) -> float:
    """Set w (d + 1, k) to the weights that the shares make; returns D. parts: all rows, each once."""
    w[...], linear = 0.0, 0.0
    for part in parts:
        products = RowProducts(part.block, bias, *w.shape)
        for rows in products.pieces(0, part.n_rows):
            y, cost = part.block.y[rows], part.cost[rows]
            p = dual.of_shares(part.share[rows], y, cost)
            products.add(products.matrix(rows), dual.coefficients(p, y), w)
            linear += dual.linear(p, y)
    return linear - 0.5 * squared_norm(w)


def terms(part: BlockShares, bias: float, shape: tuple[int, int]) -> float:
    """Σ C_i² ‖x_i‖² over the rows, at most: what the terms of D come to."""
    rows = RowProducts(part.block, bias, *shape).operator
    return float(rows.squares(rows.all).sum()) * float(part.cost.max(initial=0.0)) ** 2


def drift_matters(of_terms: float, loops: Loops, primal: float, tol: float) -> bool:
    """Does D prove much, and may it, kept through so many loops over rows, be off by more than a small part of the
    gap asked for? of_terms: ``terms`` of all rows."""
    near = primal - loops.dual <= NEAR * abs(primal)
    return near and NOISE * of_terms * loops.made > WORTH * tol * abs(primal)
