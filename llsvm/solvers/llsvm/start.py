"""A start at dual variables found elsewhere: those of another C, of folds of the rows, of fewer rows.

α_i = C_i a_i keeps its bounds whatever C is, if the shares a_i are kept (Chu, Ho, Tsai, Lin & Lin 2015, "Warm start
for parameter selection of linear classifiers", section 4.2). The weights and D(α) are those that were kept with
them, where all α_i have grown by one factor; else they are summed afresh in a pass over all rows. Where columns
have other scales now, w is brought to these, and the first pass, which it is near enough for, sums it on its way.

Problems over the same rows at hand are solved one after the other, each from where its neighbour ended (InTurn).
A grid of C's with folds is a forest: all rows at the smallest C are a root; each fold begins there; and at larger
C's each of them begins at the C before. Sweeps or second order (second_order.py) then bring it close to its
optimum; where second order has finished a problem, it is all that those after it see: from such a start it takes
a few steps. What is measured in the pass that follows is what certifies them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.llsvm.duals import BlockState
from llsvm.solvers.llsvm.run import Run
from llsvm.solvers.llsvm.second_order import SecondOrder
from llsvm.solvers.optim.row_operator import PIECE_BYTES
from llsvm.solvers.state import ArrayRows, ColumnScales, Shares, ShareSums, are_same, rescale

NO_PARENT = -1
# Price of second order from a neighbor's solution, as a share of its price from nothing: it takes a few steps then.
# Lower begins it sooner where sweeps would have ended soon, higher leaves sweeps to crawl for longer.
WARM_SHARE = 0.25


def start_at_shares(shares: Shares, run: Run) -> None:
    """Let the run's dual variables, weights and D be those of ``shares``, clipped into their bounds."""
    sweeps = run.sweeps
    for c in range(len(sweeps.w)):
        sweeps.set(c, 0.0, 0.0)
    for block in run.stream.all():
        part = run.duals.of(block)
        part.set_shares(_feasible(shares, block.rows, run))
        sweeps.for_each(partial(sweeps.add, part))
        run.duals.store(part)
    sweeps.set_linear(sweeps.dual)
    run.measure_weights_next()


def start_at_sums(shares: Shares, sums: ShareSums, run: Run) -> bool:
    """Start as ``start_at_shares`` does, but at stored sums, without reading any row; return False if they do not
    fit."""
    sweeps, duals = run.sweeps, run.duals
    factor = sums.factor(duals.by_class, duals.dtype)
    if factor is None or len(sums.linear) != len(sweeps.w):
        return False
    sums.read(sweeps.w, 1, factor)
    scales = ColumnScales.of(run.stream.scaling)
    if not (has_scales(sums, run) or rescale(sweeps.w, sums.scales, scales, sweeps.bias)):
        return False
    sweeps.set_linear(factor * sums.linear)
    if duals.stored is None:
        for block in run.stream.all():  # which is one, at hand
            duals.of(block).set_shares(_feasible(shares, block.rows, run))
    else:
        step = max(1, PIECE_BYTES // (duals.stored.width * duals.dtype.itemsize))
        for start in range(0, run.stream.dataset.n_rows, step):
            rows = np.arange(start, min(start + step, run.stream.dataset.n_rows))
            duals.stored.set(rows, _feasible(shares, rows, run))
    run.measure_weights_next()
    return True


def has_scales(sums: ShareSums, run: Run) -> bool:
    """Return whether the sums were made of rows whose columns were scaled as those of the run are."""
    return are_same(sums.scales, ColumnScales.of(run.stream.scaling))


def sums_of(run: Run, runs: int, crawled: bool) -> ShareSums:
    """Return the sums of the dual variables as they are, see ShareSums."""
    w, duals = run.sweeps.w, run.duals
    linear = run.sweeps.dual + run.sweeps.half_squares
    scales, weights = ColumnScales.of(run.stream.scaling), ArrayRows(w.reshape(-1, 1))
    return ShareSums(weights, len(w), linear, duals.by_class, duals.dtype, runs, scales, crawled)


def _feasible(shares: Shares, rows: NDArray[np.int64], run: Run) -> NDArray[np.floating]:
    """(len(rows), width) as they will be kept."""
    loss = run.sweeps.loss
    return np.clip(shares(rows), loss.lower, loss.upper).astype(run.duals.dtype)


class InTurn:
    """Variants of the problems, solved one after the other, each from where another has ended."""

    def __init__(self, run: Run, parents: Sequence[int]) -> None:
        """parents: of each variant the number of the one that it begins at, which comes before it; or NO_PARENT."""
        self._run, self._parents = run, parents
        self._second_order = SecondOrder(run)
        self._finished = np.zeros(len(run.sweeps.w), bool)  # by second order

    def solve(self, part: BlockState) -> None:
        """Bring each problem close to its optimum. part: all rows, their dual variables at 0."""
        run, sweeps = self._run, self._run.sweeps
        k = run.duals.problems.of_classes  # problems of a variant
        gap = run.survivors_gap
        for level in self._levels():
            parents = {v * k + c: self._parents[v] * k + c for v in level for c in range(k)}
            for v in level:
                if self._parents[v] != NO_PARENT:
                    part.copy_shares(self._parents[v], v)

            def begin(c: int, parents: dict[int, int] = parents) -> None:
                self._begin(c, parents[c])

            sweeps.for_each(begin, list(parents))
            near = {c: parent for c, parent in parents.items() if parent >= 0 and self._finished[parent]}
            descending = [c for c in parents if c not in near]
            needs_newton = np.zeros(len(sweeps.w), bool)

            def descend(c: int, parents: dict[int, int] = parents, newton: np.ndarray = needs_newton) -> None:
                with part.held(c):
                    newton[c] = self._descend(part, c, parents[c] >= 0)

            sweeps.for_each(descend, descending)
            for c in descending:
                run.measure_next(c, sweeps.w[c])
            unsolved = [*np.flatnonzero(needs_newton).tolist(), *near]
            starts = {c: run.start[near.get(c, c)] for c in unsolved}
            self._second_order.solve(part, unsolved, [part.members(c) for c in unsolved], gap, starts)
            self._finished[unsolved] = True

    def _levels(self) -> Iterator[list[int]]:
        """The variants: those without a parent first, then those that begin at these, and so on."""
        depth = list[int]()
        for parent in self._parents:
            depth.append(0 if parent == NO_PARENT else depth[parent] + 1)
        for d in range(max(depth, default=-1) + 1):
            yield [v for v, depth_of_v in enumerate(depth) if depth_of_v == d]

    def _begin(self, c: int, parent: int) -> None:
        """Let the weights of problem ``c`` and its dual objective be those of its dual variables: where they are
        its parent's, all by one factor, without reading any row."""
        run, sweeps, part = self._run, self._run.sweeps, self._run.duals.whole
        assert part is not None
        problems = run.duals.problems
        variant, neighbor = (problems.variants[problems.variant(p)] for p in (c, max(parent, 0)))
        if parent < 0 or replace(variant, cost=neighbor.cost) != neighbor:
            sweeps.sum_weights(part, c)
            return
        factor = variant.cost / neighbor.cost
        square = float(sweeps.w[parent] @ sweeps.w[parent])
        dual = factor * (float(sweeps.dual[parent]) + 0.5 * (1.0 - factor) * square)
        sweeps.set(c, factor * sweeps.w[parent], dual)

    def _descend(self, part: BlockState, c: int, is_warm: bool) -> bool:
        """Sweep over all rows of the problem, and after each time over those that moved, until the gap as met is
        small; or until second order pays, and then return True. is_warm: it begins at a neighbor's solution."""
        run, sweeps, members = self._run, self._run.sweeps, part.members(c)
        tuning, progress, expected = run.tuning, run.stream.progress, WARM_SHARE if is_warm else 1.0
        for _ in range(tuning.max_epochs):
            gap = sweeps.sweep(part, c, members)
            if progress.out_of_time or gap <= run.survivors_gap * float(sweeps.dual[c]):
                return False
            for _ in range(tuning.block_sweeps):
                n_active, visits = len(part.active[c]), int(sweeps.work[c] / expected)
                if self._second_order.is_worthwhile(part, len(members), n_active, visits, to_come=0.0):
                    return True
                if progress.out_of_time or sweeps.sweep(part, c) <= tuning.survivors_until * gap:
                    break
        return False
