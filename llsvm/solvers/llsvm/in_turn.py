"""Problems over the same rows at hand, one after the other: each begins where its neighbour ended.

A grid of C's with folds is a forest: all rows at the smallest C are a root; each fold begins there; and at larger
C's each of them begins at the C before, its dual variables scaled into their bounds (Chu, Ho, Tsai, Lin & Lin 2015,
"Warm start for parameter selection of linear classifiers", section 4.2). Sweeps or second order (second_order.py)
then bring it close to its optimum; where second order has finished a problem, it is all that those after it see:
from such a start it takes a few steps. What is measured in the pass that follows is what certifies them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from llsvm.solvers.llsvm.block_state import BlockState
from llsvm.solvers.llsvm.run import Run
from llsvm.solvers.llsvm.second_order import SecondOrder
from llsvm.solvers.llsvm.start import sum_weights

NO_PARENT = -1
WARM_SHARE = 0.25  # of the steps of second order from nothing, that it takes from a neighbour


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

            sweeps.each(begin, list(parents))
            near = {c: parent for c, parent in parents.items() if parent >= 0 and self._finished[parent]}
            descending = [c for c in parents if c not in near]
            crawl = np.zeros(len(sweeps.w), bool)

            def descend(c: int, parents: dict[int, int] = parents, crawl: np.ndarray = crawl) -> None:
                with part.held(c):
                    crawl[c] = self._descend(part, c, parents[c] >= 0)

            sweeps.each(descend, descending)
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
