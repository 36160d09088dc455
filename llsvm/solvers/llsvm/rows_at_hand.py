"""Rows at hand, of all problems: what brings these to their end."""

from __future__ import annotations

from collections.abc import Iterator

from llsvm.objective.losses import PLQLoss
from llsvm.solvers.llsvm.block_state import BlockState
from llsvm.solvers.llsvm.run import Run
from llsvm.solvers.llsvm.second_order import SecondOrder


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

    def to_last_digits(self, all_problems: bool) -> int:
        """Solve small data by second order, if that has room; returns how many rows that are.

        Where it costs next to nothing it makes the answer the same to the last digits, whatever the order of the
        rows, and whether a row is written twice or weighs 2. all_problems: those that have converged, too."""
        run, part = self._run, self._run.duals.whole
        assert part is not None
        if all_problems:
            run.sweeps.open = list(range(len(run.sweeps.w)))
        run.duals.set_enough(0.0)
        if not self._second_order.pays(part, part.n_rows, part.n_rows, 0, at_once=True):
            return 0
        small = run.tuning.small_gap
        for _ in self.multipliers(part, small):
            self.finish(part, run.sweeps.open, small if isinstance(run.sweeps.loss, PLQLoss) else 0.0)
        return part.n_rows

    def finish(self, part: BlockState, crawling: list[int], gap: float) -> None:
        """Solve these problems over all their rows, which the part has, to such a gap, a share of the dual."""
        self._run.begin_at_weights()
        members = [part.members(c) for c in crawling]
        self._second_order.solve(part, crawling, members, gap, whole=True)
