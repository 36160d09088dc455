"""Costs that are larger than any dual variable becomes are taken for smaller ones, in the dual alone.

Shares are multiples of 1/grid of C_i, and a visit knows them to 2^-52 of it: p_im to C_i ‖x_i‖² 2^-50 in units of
1/‖x_i‖², of which it may be few. At the optimum Σ_im p_im = Σ ‖w_m‖² + Σ C_i loss_i, which is at most 2 P of any
weights. So costs above that may be taken for it: the optimum of the dual stays what it is, and what is feasible is
feasible. P is measured with the costs as they are.
"""

from __future__ import annotations

import numpy as np

from llsvm.solvers.sequential_dual.problem import JointProblem
from llsvm.solvers.sequential_dual.shares import BlockShares

# C_i ‖x_i‖² below which the grid of shares is fine enough. With less, costs are lowered, and all shares rounded,
# where that helps nothing; with more, p_im of large costs are too coarse for gaps to close.
LONG = 2.0**30


def with_costs(part: BlockShares, bound: float) -> BlockShares:
    """Return the rows with costs of ``bound`` at most; the part itself if it has none that are larger."""
    return part.with_costs(np.minimum(part.cost, bound)) if part.cost.max(initial=0.0) > bound else part


def needed_cost(part: BlockShares, terms: float, primal: float) -> float:
    """Return the largest cost that the dual needs, where that is worth the change; else infinity.

    part: all rows, with the costs as they are taken so far. terms: Σ C_i² ‖x_i‖². primal: P of some
    weights."""
    bound, largest = 2.0 * primal, float(part.cost.max(initial=0.0))
    is_long = terms > LONG * largest * part.n_rows
    # half of the largest cost at most: for less, shares are not worth rounding again
    return bound if is_long and 0.0 < 2.0 * bound < largest else np.inf


def lower_costs(problem: JointProblem, part: BlockShares, bound: float) -> BlockShares:
    """Return the rows with costs of ``bound`` at most, and shares in place that are those of the same dual
    variables, or of the nearest that these costs allow. part: rows with the costs as they are taken so far."""
    lower, dual = with_costs(part, bound), problem.dual
    for rows in problem.products(part).pieces(0, part.n_rows):
        y, cost = part.block.y[rows], lower.cost[rows]
        p = dual.of_shares(part.share[rows], y, part.cost[rows])
        p = dual.prox(p, np.zeros_like(p), 0.0, y, cost)[0]
        part.share[rows] = dual.shares(p, y, cost, problem.grid)
    return lower
