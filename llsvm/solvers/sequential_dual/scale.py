"""Which multiple of the weights is measured and handed back (llsvm/objective/scale.py): both losses are hinges of
margins, s_y − s_m of all other classes m (Weston-Watkins), or the least of these (Crammer-Singer)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.scale import FAR, LEFT, best_factor
from llsvm.solvers.row_products import RowProducts
from llsvm.solvers.sequential_dual.shares import BlockShares, squared_norm

Array = NDArray[np.float64]


def scaled(
    part: BlockShares,
    w: Array,
    bias: float,
    each_class: bool,
    primal: float,
    dual: float,
    always: bool = False,
) -> tuple[float, float]:
    """The factor t of the weights w (d + 1, k), and P(t w); 1, and ``primal``, which is P(w), where that gains
    little; always: however little.

    each_class: every class has a hinge of its own. dual: D."""
    if not always and not primal - dual > FAR * primal:
        return 1.0, primal
    products = RowProducts(part.block, bias, *w.shape)
    pieces = [
        _short(products.scores(products.matrix(rows), w), part.block.y[rows], part.cost[rows], each_class)
        for rows in products.pieces(0, part.n_rows)
    ]
    margin, cost = (np.concatenate(each) for each in zip(*pieces, strict=True))
    square = squared_norm(w)
    t = best_factor(square, margin, cost)
    losses = float(np.einsum("i,i", cost, np.maximum(1.0 - t * margin, 0.0)))
    found = 0.5 * t * t * square + losses
    return (t, found) if found - dual <= (1.0 if always else LEFT) * (primal - dual) else (1.0, primal)


def _short(scores: Array, y: NDArray[np.int32], cost: Array, each_class: bool) -> tuple[Array, Array]:
    """The margins below 1, and the costs of their rows."""
    i = np.arange(len(y))
    margin = scores[i, y][:, None] - scores
    margin[i, y] = np.inf
    if not each_class:
        margin = margin.min(axis=1, keepdims=True)
    row, m = np.nonzero(margin < 1.0)
    return margin[row, m], cost[row]
