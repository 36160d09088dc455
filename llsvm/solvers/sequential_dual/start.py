"""A start at shares found elsewhere: those of another C, or of fewer rows. See llsvm/solvers/llsvm/start.py."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from llsvm.block import FLOAT64_BYTES
from llsvm.objective.costs import RowCosts
from llsvm.solvers.column_scales import ColumnScales, are_same
from llsvm.solvers.optim.blas import dot
from llsvm.solvers.sequential_dual.loops import Loops
from llsvm.solvers.sequential_dual.shares import BlockShares
from llsvm.solvers.state import ArrayRows, SettableRowValues, Shares, ShareSums
from llsvm.stream.stream import Stream

# Bytes of rows' shares as float64 that are worked on at a time, with some five arrays as large: fewer take more
# calls, and more take more memory.
SHARES_BYTES = 1 << 22


def begin_at(
    given: Shares,
    sums: ShareSums | None,
    stream: Stream,
    costs: RowCosts,
    kept: SettableRowValues,
    loops: Loops,
) -> int:
    """Let the shares be those that are given, or the nearest that are feasible, and w and D what they make; returns
    how many passes that took. sums: of them, if they were kept. kept: where shares are."""
    step = max(1, SHARES_BYTES // (FLOAT64_BYTES * kept.width))
    if sums is not None and are_same(sums.scales, ColumnScales.of(stream.scaling)):
        factor = sums.factor(costs.by_class, kept.dtype)
        if factor is not None and sums.dtype == kept.dtype:  # no row is read
            loops.begin_at(sums, factor)
            for start in range(0, stream.dataset.n_rows, step):
                rows = np.arange(start, min(start + step, stream.dataset.n_rows))
                kept.set(rows, given(rows).astype(kept.dtype))
            return 0
    problem = loops.problem

    def parts() -> Iterator[BlockShares]:
        for whole in stream.all():
            for start in range(0, whole.n_rows, step):
                block = whole.slice(start, min(start + step, whole.n_rows))
                y, cost = block.class_ids, costs.of(block)
                share = problem.dual.nearest(given(block.rows).astype(np.float64), y)
                p = problem.dual.of_shares(share, y, cost)
                share = problem.dual.shares(p, y, cost, problem.grid)
                kept.set(block.rows, share.astype(kept.dtype))
                yield BlockShares(block, cost, share)

    loops.resum(parts())
    return 1


def sums_of(loops: Loops, costs: RowCosts, kept: SettableRowValues, runs: int, stream: Stream) -> ShareSums:
    """Return the sums of the stored shares, see ShareSums."""
    linear = np.array([loops.D + 0.5 * dot(loops.w, loops.w)])
    scales = ColumnScales.of(stream.scaling)
    return ShareSums(ArrayRows(loops.w.reshape(-1, 1)), 1, linear, costs.by_class, kept.dtype, runs, scales)
