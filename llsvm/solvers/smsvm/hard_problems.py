"""HardProblems: those that the method of multipliers takes over from SmSVM's steps, and by how many threads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np

from llsvm.block import Block
from llsvm.objective.costs import RowCosts
from llsvm.objective.losses import Loss, PLQLoss
from llsvm.objective.penalty import Penalty
from llsvm.process.threads import Threads
from llsvm.process.trace import trace
from llsvm.settings.settings import Settings
from llsvm.solvers.smsvm.at_hand import AtHand, Rest
from llsvm.solvers.smsvm.descent import GAP_SHARE, Descent
from llsvm.solvers.smsvm.layout import Layout
from llsvm.solvers.smsvm.multipliers import L1Multipliers
from llsvm.solvers.smsvm.near_rows import NearRows
from llsvm.solvers.smsvm.rows import Labels
from llsvm.solvers.smsvm.sums import RowsLeftOut
from llsvm.stream.progress import OutOfTime, Progress

LeftOut = Callable[[Descent], RowsLeftOut]


class HardProblems:
    """Problems of one run that the method of multipliers takes over."""

    def __init__(
        self, settings: Settings, loss: Loss, near: NearRows, layout: Layout, progress: Progress
    ) -> None:
        self._settings, self._loss, self._near, self._layout = settings, loss, near, layout
        self._progress = progress

    def includes(self, problem: Descent, penalty: Penalty) -> bool:
        """Return whether the smoothing makes too little progress and the near rows are those that the method of
        multipliers needs. By columns there is no other method, and it goes on while that helps."""
        if self._layout.by_columns:
            return problem.last.closing or not problem.multiplied
        # without L1 and free intercept, coordinate descent (llsvm) is there for hard problems if rows are in memory
        near, free_or_not_in_memory = self._near, penalty.intercept or not self._near.in_memory
        applies = penalty.l1 > 0 or (free_or_not_in_memory and not self._layout.by_products)
        # the method of multipliers works on the rows at hand themselves
        applies = applies and near.alone and isinstance(self._loss, PLQLoss)
        if not applies or not problem.is_hard(self._layout.tuning.patience):
            return False
        return near.all_rows is not None or near.suffice(problem.margins_move)

    def may_gain(self, problem: Descent, penalty: Penalty) -> bool:
        """Return whether another step may help: of the method of multipliers, or of SmSVM."""
        return self.includes(problem, penalty) or not (problem.exhausted or self._layout.by_columns)

    @property
    def rows(self) -> Block:
        """At hand: all where they are in memory."""
        return self._near.rows if self._near.all_rows is None else self._near.all_rows

    def solve(
        self, problems: list[Descent], penalty: Penalty, costs: RowCosts, threads: Threads, left_out: LeftOut
    ) -> None:
        """Solve each on the rows at hand, and aim at what that gives; where there is room for as many problems at
        once as there are threads, all of them: what comes out is the same. left_out: what the other rows come to,
        of a problem on those at hand."""
        solve_one = partial(self._solve, penalty=penalty, costs=costs, left_out=left_out)
        if self._layout.workers > 1 and len(problems) > 1:
            threads.map(solve_one, problems)
            return
        for problem in problems:
            solve_one(problem)

    def _solve(self, problem: Descent, penalty: Penalty, costs: RowCosts, left_out: LeftOut) -> None:
        if self._progress.out_of_time:
            return
        n, block, tuning, tol = len(problem.w), self.rows, self._layout.tuning, self._settings.tol
        rest, begin = Rest.nothing(n), problem.aim.target if self._layout.by_columns else problem.w
        if self._near.all_rows is None and not self._near.one_sided:
            # the losses of the others are straight lines from the target on: elsewhere their sum may be below 0
            rest, begin = Rest.of(left_out(problem.on_near_rows(penalty))), problem.aim.target
        labels = Labels.of(block.y, self._loss, costs, costs.of(block), problem.positive)
        if problem.negative is not None:
            takes_part = (block.y == problem.positive) | (block.y == problem.negative)
            labels = labels._replace(cost=np.where(takes_part, labels.cost, 0.0))
        bias, copied_values = self._settings.constant, self._layout.copied_values
        rows = AtHand(block.X, labels, bias, n, copied_values, tuning, self._progress)
        multipliers = L1Multipliers(rows, rest, self._loss, penalty, begin, self._layout.by_columns)
        with suppress(OutOfTime):
            multipliers.solve(problem.unit, GAP_SHARE * tol)
        trace("newton.multipliers", rows=block.n_rows, steps=multipliers.steps)
        # straight lines have led below the losses; of all rows, a primal below the dual is but rounding
        if multipliers.primal < multipliers.dual and self._near.all_rows is None:
            problem.near_has_failed(multipliers.dual)
            return
        problem.end_at(multipliers.w, multipliers.primal, multipliers.dual)
