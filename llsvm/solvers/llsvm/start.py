"""A start at dual variables found elsewhere: those of another C, of folds of the rows, of fewer rows.

α_i = C_i a_i keeps its bounds whatever C is, if the shares a_i are kept (Chu, Ho, Tsai, Lin & Lin 2015, "Warm start
for parameter selection of linear classifiers", section 4.2). The weights and D(α) are those that were kept with
them, where all α_i have grown by one factor; else they are summed afresh in a pass over all rows. Where columns
have other scales now, w is brought to these, and the first pass, which it is near enough for, sums it on its way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.column_scales import ColumnScales, are_same, rescale
from llsvm.solvers.llsvm.block_state import BlockState
from llsvm.solvers.llsvm.run import Run
from llsvm.solvers.row_products import RowProducts
from llsvm.solvers.state import ArrayRows, Shares, ShareSums

_PIECE_BYTES = 1 << 18


def begin_at(shares: Shares, run: Run) -> None:
    """Let the run's dual variables, weights and D be those of ``shares``, clipped into their bounds."""
    sweeps = run.sweeps
    sweeps.w[...], sweeps.dual[...] = 0.0, 0.0
    for block in run.stream.all():
        part = run.duals.of(block)
        part.alpha[...] = 0.0
        part.set_shares(_feasible(shares, block.rows, run))
        sweeps.each(lambda c, part=part: _add(run, part, c))  # type: ignore[misc]
        run.duals.store(part)
    sweeps.dual[...] -= 0.5 * np.einsum("ij,ij->i", sweeps.w, sweeps.w)
    run.begin_at_weights()


def begin_at_sums(shares: Shares, sums: ShareSums, run: Run) -> bool:
    """As ``begin_at``, by what was kept of the sums, so without reading any row; False where they do not fit."""
    sweeps, duals = run.sweeps, run.duals
    factor = sums.factor(duals.by_class, duals.dtype)
    if factor is None or len(sums.linear) != len(sweeps.w):
        return False
    sums.read(sweeps.w, 1, factor)
    scales = ColumnScales.of(run.stream.scaling)
    if not (has_scales(sums, run) or rescale(sweeps.w, sums.scales, scales, sweeps.bias)):
        return False
    sweeps.dual[...] = factor * sums.linear - 0.5 * np.einsum("ij,ij->i", sweeps.w, sweeps.w)
    if duals.stored is None:
        for block in run.stream.all():  # which is one, at hand
            duals.of(block).set_shares(_feasible(shares, block.rows, run))
    else:
        step = max(1, _PIECE_BYTES // (duals.stored.width * duals.dtype.itemsize))
        for start in range(0, run.stream.dataset.n_rows, step):
            rows = np.arange(start, min(start + step, run.stream.dataset.n_rows))
            duals.stored.set(rows, _feasible(shares, rows, run))
    run.begin_at_weights()
    return True


def has_scales(sums: ShareSums, run: Run) -> bool:
    """Are the sums of rows whose columns are scaled as those of the run?"""
    return are_same(sums.scales, ColumnScales.of(run.stream.scaling))


def sums_of(run: Run, runs: int, crawled: bool) -> ShareSums:
    """See Sums; of the dual variables as they are."""
    w, duals = run.sweeps.w, run.duals
    linear = run.sweeps.dual + 0.5 * np.einsum("ij,ij->i", w, w)
    of_rows = ColumnScales.of(run.stream.scaling), crawled
    return ShareSums(ArrayRows(w.reshape(-1, 1)), len(w), linear, duals.by_class, duals.dtype, runs, *of_rows)


def _feasible(shares: Shares, rows: NDArray[np.int64], run: Run) -> NDArray[np.floating]:
    """(len(rows), width) as they will be kept."""
    loss = run.sweeps.loss
    return np.clip(shares(rows), loss.lower, loss.upper).astype(run.duals.dtype)


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
    add_rows(run, part, c, sweeps.w)


def add_rows(run: Run, part: BlockState, c: int, out: NDArray[np.float64]) -> None:
    """Add Σ α_i y_i x_i of the part's rows in problem ``c`` to that of ``out``, (k, d + 1)."""
    rows, alpha, _ = part.of(c)
    coefficients = np.zeros((part.n_rows, 1))
    coefficients[rows, 0] = alpha * part.signs(c)[rows]
    products, w = RowProducts(part.block, run.sweeps.bias, out.shape[1], 1), out[c][:, None]
    at = np.flatnonzero(coefficients) if run.duals.problems.pairs else None  # most are of other classes
    for piece in products.pieces(0, part.n_rows if at is None else len(at)):
        chosen = piece if at is None else at[piece]
        products.add(products.matrix(chosen), coefficients[chosen], w)


def take_sums(run: Run, sums: NDArray[np.float64]) -> None:
    """Let the weights, which a pass has moved from ``run.start``, and D be what they are if that began at ``sums``,
    (k, d + 1), which are those of the dual variables that it began with."""
    w, dual = run.sweeps.w, run.sweeps.dual
    dual += 0.5 * np.einsum("ij,ij->i", w, w)
    w += sums - run.start
    dual -= 0.5 * np.einsum("ij,ij->i", w, w)
