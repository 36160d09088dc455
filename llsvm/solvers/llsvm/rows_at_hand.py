"""Rows at hand, of all problems: what brings these to their end, or small data to a standstill."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from llsvm.solvers.llsvm.block_state import BlockState
from llsvm.solvers.llsvm.run import Run
from llsvm.solvers.llsvm.second_order import SecondOrder
from llsvm.solvers.llsvm.sweeps import used_columns


class RowsAtHand:
    """Of one run."""

    def __init__(self, run: Run, second_order: SecondOrder) -> None:
        self._run, self._second_order = run, second_order

    def multipliers(self, part: BlockState | None, missing: float | None = None) -> Iterator[None]:
        """Once; of the one-class SVM, until the sum of its dual variables is where it should be, as far as the rows
        of the part can bring it there. missing: a share of it that still may be; None for the usual."""
        yield
        threshold, tuning = self._run.threshold, self._run.tuning
        if threshold is None or part is None:
            return
        most = tuning.sum_share * self._run.settings.tol if missing is None else missing
        for _ in range(tuning.max_multipliers):
            reached = threshold.within_reach(part)
            if threshold.update() <= most or threshold.cautious or not reached:
                break
            if self._run.stream.progress.out_of_time:
                break
            yield

    def to_standstill(self, all_problems: bool) -> int:
        """Sweep over small data until w stands still; returns how many rows that are.

        Where it costs next to nothing it makes the answer the same to the last digits, whatever the order of the
        rows, and whether a row is written twice or weighs 2. all_problems: those that have converged, too."""
        run, sweeps, tuning = self._run, self._run.sweeps, self._run.tuning
        part, k = run.duals.whole, len(sweeps.w)
        assert part is not None
        if all_problems:
            sweeps.open = list(range(k))
        run.duals.set_enough(0.0)
        if run.threshold is not None and self._second_order.pays(
            part, part.n_rows, part.n_rows, 0, at_once=True
        ):
            for _ in self.multipliers(part, tuning.standstill):  # sweeps would take many to stand still
                self.finish(part, [0], 0.0)
            return part.n_rows
        runs = tuning.small_visits // (k * tuning.small_sweeps * (part.n_rows + part.block.nnz))
        crawling, used = [], used_columns(part.block, sweeps.w.shape[1])
        for c in sweeps.open:
            if self._run.stream.progress.out_of_time:
                break
            w, rows = sweeps.w[c], np.tile(part.members(c), tuning.small_sweeps)
            for done in range(runs):
                before = w[used].copy()
                n_active, _ = sweeps.visit(part, c, sweeps.shuffled(c, rows))
                stands = np.max(np.abs(w[used] - before)) <= tuning.standstill * np.max(np.abs(before))
                if stands or self._run.stream.progress.out_of_time:
                    break
                visits, n_rows = (done + 1) * len(rows), len(part.members(c))
                if self._second_order.pays(part, n_rows, n_active // tuning.small_sweeps, visits):
                    crawling.append(c)
                    break
        self.finish(part, crawling, tuning.standstill)
        return part.n_rows

    def finish(self, part: BlockState, crawling: list[int], gap: float) -> None:
        """Solve these problems over all their rows, which the part has, to such a gap, a share of the dual."""
        self._run.begin_at_weights()
        members = [part.members(c) for c in crawling]
        self._second_order.solve(part, crawling, members, gap, whole=True)
