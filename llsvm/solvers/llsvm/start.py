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

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.column_scales import ColumnScales, are_same, rescale
from llsvm.solvers.llsvm.duals import BlockState
from llsvm.solvers.llsvm.run import Run
from llsvm.solvers.llsvm.second_order import SecondOrder
from llsvm.solvers.row_products import PIECE_BYTES, RowProducts
from llsvm.solvers.state import ArrayRows, Shares, ShareSums

NO_PARENT = -1
# Price of second order from a neighbor's solution, as a share of its price from nothing: it takes a few steps then.
# Lower begins it sooner where sweeps would have ended soon, higher leaves sweeps to crawl for longer.
WARM_SHARE = 0.25


def start_at_shares(shares: Shares, run: Run) -> None:
    """Let the run's dual variables, weights and D be those of ``shares``, clipped into their bounds."""
    sweeps = run.sweeps
    sweeps.w[...], sweeps.dual[...] = 0.0, 0.0
    for block in run.stream.all():
        part = run.duals.of(block)
        part.alpha[...] = 0.0
        part.set_shares(_feasible(shares, block.rows, run))
        sweeps.for_each(lambda c, part=part: _add(run, part, c))  # type: ignore[misc]
        run.duals.store(part)
    sweeps.dual[...] -= 0.5 * np.einsum("ij,ij->i", sweeps.w, sweeps.w)
    run.measure_weights_next()


def start_at_sums(shares: Shares, sums: ShareSums, run: Run) -> bool:
    """As ``start_at_shares``, by sums that were kept, so without reading any row; False where they do not fit."""
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
        step = max(1, PIECE_BYTES // (duals.stored.width * duals.dtype.itemsize))
        for start in range(0, run.stream.dataset.n_rows, step):
            rows = np.arange(start, min(start + step, run.stream.dataset.n_rows))
            duals.stored.set(rows, _feasible(shares, rows, run))
    run.measure_weights_next()
    return True


def has_scales(sums: ShareSums, run: Run) -> bool:
    """Are the sums of rows whose columns are scaled as those of the run?"""
    return are_same(sums.scales, ColumnScales.of(run.stream.scaling))


def sums_of(run: Run, runs: int, crawled: bool) -> ShareSums:
    """See Sums; of the dual variables as they are."""
    w, duals = run.sweeps.w, run.duals
    linear = run.sweeps.dual + 0.5 * np.einsum("ij,ij->i", w, w)
    scales, weights = ColumnScales.of(run.stream.scaling), ArrayRows(w.reshape(-1, 1))
    return ShareSums(weights, len(w), linear, duals.by_class, duals.dtype, runs, scales, crawled)


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


class InTurn:
    """parents: of each variant of the problems, the number of the one that it begins at, which comes before it; or
    NO_PARENT."""

    def __init__(self, run: Run, parents: Sequence[int]) -> None:
        self._run, self._parents = run, parents
        self._second_order = SecondOrder(run)
        self._finished = np.zeros(len(run.sweeps.w), bool)  # by second order

    def settle(self, part: BlockState) -> None:
        """Bring each problem close to its optimum. part: all rows, their dual variables at 0."""
        run, sweeps = self._run, self._run.sweeps
        each = run.duals.problems.of_classes
        gap = run.tuning.tol_share * run.settings.tol
        for level in self._levels():
            parents = {v * each + c: self._parents[v] * each + c for v in level for c in range(each)}
            for v in level:
                if self._parents[v] != NO_PARENT:
                    part.copy_shares(self._parents[v], v)

            def begin(c: int, parents: dict[int, int] = parents) -> None:
                self._begin(c, parents[c])

            sweeps.for_each(begin, list(parents))
            near = {c: parent for c, parent in parents.items() if parent >= 0 and self._finished[parent]}
            descending = [c for c in parents if c not in near]
            crawl = np.zeros(len(sweeps.w), bool)

            def descend(c: int, parents: dict[int, int] = parents, crawl: np.ndarray = crawl) -> None:
                with part.held(c):
                    crawl[c] = self._descend(part, c, parents[c] >= 0)

            sweeps.for_each(descend, descending)
            run.start[descending] = sweeps.w[descending]
            crawling = np.flatnonzero(crawl).tolist()
            second = [*crawling, *near]
            starts = {c: run.start[near.get(c, c)] for c in second}
            self._second_order.solve(part, second, [part.members(c) for c in second], gap, starts)
            self._finished[second] = True

    def _levels(self) -> Iterator[list[int]]:
        """The variants: those without a parent first, then those that begin at these, and so on."""
        depth = list[int]()
        for parent in self._parents:
            depth.append(0 if parent == NO_PARENT else depth[parent] + 1)
        for d in range(max(depth, default=-1) + 1):
            yield [v for v, each in enumerate(depth) if each == d]

    def _begin(self, c: int, parent: int) -> None:
        """Let the weights of problem ``c`` and its dual objective be those of its dual variables: where they are
        its parent's, all by one factor, without reading any row."""
        run, sweeps, part = self._run, self._run.sweeps, self._run.duals.whole
        assert part is not None
        problems = run.duals.problems
        own, other = (problems.variants[problems.variant(p)] for p in (c, max(parent, 0)))
        if parent < 0 or replace(own, cost=other.cost) != other:
            sum_weights(run, part, c)
            return
        factor = own.cost / other.cost
        square = float(sweeps.w[parent] @ sweeps.w[parent])
        sweeps.w[c] = factor * sweeps.w[parent]
        sweeps.dual[c] = factor * (float(sweeps.dual[parent]) + 0.5 * (1.0 - factor) * square)

    def _descend(self, part: BlockState, c: int, warm: bool) -> bool:
        """Sweep over all rows of the problem, and after each time over those that moved, until the gap as met is
        small; or until second order pays, and then returns True. warm: it begins at a neighbour."""
        run, sweeps, members = self._run, self._run.sweeps, part.members(c)
        tuning, progress, expected = run.tuning, run.stream.progress, WARM_SHARE if warm else 1.0
        for _ in range(tuning.max_epochs):
            part.active[c] = members
            met = sweeps.sweep(part, c)
            if progress.out_of_time or met <= tuning.tol_share * run.settings.tol * float(sweeps.dual[c]):
                return False
            for _ in range(tuning.block_sweeps):
                n_active, visits = len(part.active[c]), int(sweeps.work[c] / expected)
                if self._second_order.pays(part, len(members), n_active, visits, to_come=0.0):
                    return True
                if progress.out_of_time or sweeps.sweep(part, c) <= tuning.survivors_until * met:
                    break
        return False
