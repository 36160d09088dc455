"""A start at dual variables found elsewhere: those of another C, or of folds of the rows.

α_i = C_i a_i keeps its bounds whatever C is, if the shares a_i are kept (Chu, Ho, Tsai, Lin & Lin 2015, "Warm start
for parameter selection of linear classifiers", section 4.2). The weights and D(α) are summed afresh in a pass over
all rows, so that nothing of the other problem but α is trusted.
"""

from __future__ import annotations

import numpy as np

from llsvm.solvers.llsvm.block_state import BlockState
from llsvm.solvers.llsvm.run import Run
from llsvm.solvers.row_products import RowProducts
from llsvm.solvers.state import Shares


def begin_at(shares: Shares, run: Run) -> None:
    """Let the run's dual variables, weights and D be those of ``shares``, clipped into their bounds."""
    sweeps, stored = run.sweeps, run.duals.stored
    dtype = np.dtype(np.float64) if stored is None else stored.dtype
    sweeps.w[...], sweeps.dual[...] = 0.0, 0.0
    for block in run.stream.all():
        part = run.duals.of(block)
        given = np.clip(shares(block.rows), sweeps.loss.lower, sweeps.loss.upper).astype(dtype)
        part.alpha[...] = 0.0
        part.set_shares(given)
        sweeps.each(lambda c, part=part: _add(run, part, c))  # type: ignore[misc]
        run.duals.store(part)
    sweeps.dual -= 0.5 * np.einsum("ij,ij->i", sweeps.w, sweeps.w)
    run.begin_at_weights()


def sum_weights(run: Run, part: BlockState, c: int) -> None:
    """Let the weights of problem ``c`` and its D be those of the part's dual variables, which are all there are."""
    sweeps = run.sweeps
    sweeps.w[c], sweeps.dual[c] = 0.0, 0.0
    _add(run, part, c)
    sweeps.dual[c] -= 0.5 * float(sweeps.w[c] @ sweeps.w[c])


def _add(run: Run, part: BlockState, c: int) -> None:
    """Add the part's rows to the weights and the dual objective of problem ``c``."""
    sweeps = run.sweeps
    rows, alpha, _ = part.of(c)
    cost = part.cost(c)[rows]
    some = cost > 0
    target = part.target(rows)
    target = target if isinstance(target, float) else target[some]
    values = sweeps.loss.dual_value(alpha[some] / cost[some], target)
    sweeps.dual[c] += float(np.einsum("i,i", cost[some], values))
    coefficients = np.zeros((part.n_rows, 1))
    coefficients[rows, 0] = alpha * part.signs(c)[rows]
    products, w = RowProducts(part.block, sweeps.bias, sweeps.w.shape[1], 1), sweeps.w[c][:, None]
    for piece in products.pieces(0, part.n_rows):
        products.add(products.matrix(piece), coefficients[piece], w)
