"""A start at shares found elsewhere: those of another C, or of fewer rows. See llsvm/solvers/llsvm/start.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from llsvm.block import Block
from llsvm.objective.costs import RowCosts
from llsvm.solvers.column_scales import ColumnScales, are_same
from llsvm.solvers.sequential_dual.duals import JointDual
from llsvm.solvers.sequential_dual.loops import Loops
from llsvm.solvers.sequential_dual.resum import resum
from llsvm.solvers.sequential_dual.shares import BlockShares, squared_norm
from llsvm.solvers.state import ArrayRows, SettableRowValues, Shares, ShareSums
from llsvm.stream.stream import Stream

_PIECE_BYTES = 1 << 18
_SHARES_BYTES = 1 << 22  # of rows' shares as float64; some five such arrays are worked on at a time


def begin_at(
    given: Shares,
    sums: ShareSums | None,
    stream: Stream,
    costs: RowCosts,
    kept: SettableRowValues,
    loops: Loops,
    dual: JointDual,
) -> int:
    """Let the shares be those that are given, or the nearest that are feasible, and w and D what they make; returns
    how many passes that took. sums: of them, if they were kept. kept: where shares are."""
    same = sums is not None and are_same(sums.scales, ColumnScales.of(stream.scaling))
    if sums is not None and same and _at_sums(given, sums, stream.dataset.n_rows, costs, kept, loops):
        return 0
    _at_shares(given, stream.all(), costs, kept, loops, dual)
    return 1


def sums_of(loops: Loops, costs: RowCosts, kept: SettableRowValues, runs: int, stream: Stream) -> ShareSums:
    """See Sums; of shares as they are kept."""
    linear = np.array([loops.dual + 0.5 * squared_norm(loops.w)])
    scales = ColumnScales.of(stream.scaling)
    return ShareSums(ArrayRows(loops.w.reshape(-1, 1)), 1, linear, costs.by_class, kept.dtype, runs, scales)


def _at_sums(
    given: Shares, sums: ShareSums, n_rows: int, costs: RowCosts, kept: SettableRowValues, loops: Loops
) -> bool:
    """Let the shares be those that are given, and w and D what was kept of their sums, so that no row is read;
    False where these do not fit. kept: where shares are."""
    w, factor = loops.w, sums.factor(costs.by_class, kept.dtype)
    if factor is None or sums.dtype != kept.dtype:
        return False
    sums.read(w.reshape(1, -1), w.shape[1], factor)
    loops.dual = factor * float(sums.linear[0]) - 0.5 * squared_norm(w)
    step = max(1, _PIECE_BYTES // (kept.width * kept.dtype.itemsize))
    for start in range(0, n_rows, step):
        rows = np.arange(start, min(start + step, n_rows))
        kept.set(rows, given(rows).astype(kept.dtype))
    return True


def _at_shares(
    given: Shares,
    blocks: Iterable[Block],
    costs: RowCosts,
    kept: SettableRowValues,
    loops: Loops,
    dual: JointDual,
) -> None:
    """Let the shares be those that are given, or the nearest that are feasible, and w and D what they make.
    blocks: all rows. kept: where shares are."""

    def parts() -> Iterator[BlockShares]:
        for block in _slices(blocks, max(1, _SHARES_BYTES // (8 * kept.width))):
            y, cost = block.class_ids, costs.of(block)
            share = dual.nearest(given(block.rows).astype(np.float64), y)
            share = dual.shares(dual.of_shares(share, y, cost), y, cost, loops.grid)
            kept.set(block.rows, share.astype(kept.dtype))
            yield BlockShares(block, cost, share)

    loops.dual = resum(parts(), dual, loops.bias, loops.w)


def _slices(blocks: Iterable[Block], most: int) -> Iterator[Block]:
    """The same rows, at most so many at a time."""
    for block in blocks:
        for start in range(0, block.n_rows, most):
            yield block.slice(start, min(start + most, block.n_rows))
