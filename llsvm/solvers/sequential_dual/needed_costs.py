"""Costs that are larger than any dual variable becomes are taken for smaller ones, in the dual alone.

Shares are multiples of 1/grid of C_i, and a visit knows them to 2^-52 of it: p_im to C_i ‖x_i‖² 2^-50 in units of
1/‖x_i‖², of which it may be few. At the optimum Σ_im p_im = Σ ‖w_m‖² + Σ C_i loss_i, which is at most 2 P of any
weights. So costs above that may be taken for it: the optimum of the dual stays what it is, and what is feasible is
feasible. P is measured with the costs as they are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.row_products import RowProducts
from llsvm.solvers.sequential_dual.duals import JointDual
from llsvm.solvers.sequential_dual.loops import Loops
from llsvm.solvers.sequential_dual.resum import resum
from llsvm.solvers.sequential_dual.shares import BlockShares

Array = NDArray[np.float64]
SAFE = 4.0  # times the least P: the largest cost that is needed, and more
LONG = 2.0**30  # C_i ‖x_i‖², below which the grid of shares is fine enough
WORTH = 16.0  # so many times smaller costs at least, or they stay


def with_costs(part: BlockShares, most: float) -> BlockShares:
    """The rows with costs of ``most`` at most; the part itself if it has none that are larger."""
    return part.with_costs(np.minimum(part.cost, most)) if part.cost.max(initial=0.0) > most else part


def needed_cost(part: BlockShares, squares: float, least: float) -> float:
    """The largest cost that the dual needs, where that is worth the change; else infinite. part: all rows, with the
    costs as they are taken so far. squares: Σ ‖x_i‖². least: P."""
    most, longest = SAFE * least, float(part.cost.max(initial=0.0))
    is_long = longest * squares > LONG * part.n_rows
    return most if is_long and 0.0 < WORTH * most < longest else np.inf


def lower_costs(part: BlockShares, most: float, dual: JointDual, bias: float, w: Array, grid: float) -> float:
    """Make shares those of the same dual variables with costs of ``most`` at most, or the nearest that these allow,
    and w (d + 1, k) the weights that belong to them; returns D. part: all rows, with the costs as they are taken
    so far."""
    lower = np.minimum(part.cost, most)
    for rows in RowProducts(part.block, bias, *w.shape).pieces(0, part.n_rows):
        y, cost = part.block.y[rows], lower[rows]
        p = dual.of_shares(part.share[rows], y, part.cost[rows])
        p = dual.prox(p, np.zeros_like(p), 0.0, y, cost)
        part.share[rows] = dual.shares(p, y, cost, grid)
    return resum([BlockShares(part.block, lower, part.share)], dual, bias, w)


def measured_losses(whole: BlockShares, part: BlockShares, loops: Loops, w: Array) -> float:
    """Σ C_i loss_i at the weights w (d + 1, k). whole: all rows, with the costs as they are; part: as they are
    taken, whose active rows are set."""
    losses = loops.measure(part, w)
    return losses if part is whole else loops.measure(whole, w)
