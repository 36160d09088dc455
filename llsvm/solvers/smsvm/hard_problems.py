"""Work between two full passes: ``NearRows``, the rows near the margin, kept in memory in a full pass to go on
with before the next; and ``HardProblems``, those that the method of multipliers takes over from SmSVM's steps,
and by how many threads.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.objective.losses import Loss, PLQLoss
from llsvm.objective.penalty import Penalty
from llsvm.objective.problems import RowCosts
from llsvm.process.threads import Threads
from llsvm.process.trace import trace
from llsvm.settings.settings import Settings
from llsvm.solvers.smsvm.descent import GAP_SHARE, Descent
from llsvm.solvers.smsvm.layout import Layout
from llsvm.solvers.smsvm.multipliers import AtHand, L1Multipliers, Rest
from llsvm.solvers.smsvm.sums import Labels, RowsLeftOut
from llsvm.solvers.smsvm.tuning import SmSVMTuning
from llsvm.stream.progress import OutOfTime, Progress
from llsvm.stream.stream import Stream

LeftOut = Callable[[Descent], RowsLeftOut]

_ONE_SIDED_SHARE = 0.75
"""The largest share of all rows that is kept where all rows with a loss are kept. It is above
``SmSVMTuning.near_share``: lower, more problems with an L1 penalty go to the method of multipliers, whose dual is
not kept by row. Higher, steps on these rows cost as much as passes."""
_SLACK_PER_SMOOTHING = 8.0
"""Rows are left out whose margin is so many times a away from 1: the slope of the smoothed hinge is there within
0.4 % of that of a straight line. Of smooth losses, so many times as far as margins still move. Lower, more rows
cross the margin unseen, and steps are taken back; higher, more rows have to be kept."""
_EXPONENTS, _LOWEST = 64, -32
"""Slacks are counted by their binary exponent: the number of exponents that are told apart, and the lowest. 2 to
the lowest, in units of margins, is as good as 0. With a higher one, the threshold cannot fall as far as the
smoothing."""


class NearRows:
    """Rows with a slack |1 − margin| up to a threshold.

    On both sides of the margin, where the loss of what is left out is a straight line there. Where it is none, or
    where there is no L2 penalty (straight lines then have no minimum), rows are only left out where their loss is
    zero: ``one_sided``.

    In each pass ``begin``, ``offer`` of each block and ``end`` follow each other; ``suffice`` is for after it.

    in_memory: are all rows? alone: are there no rows on other shards of the data? rows: that were kept in the last
    full pass; valid until the next. all_rows: where they are in memory, as one block.
    """

    def __init__(
        self, stream: Stream, everything: bool, keeps: bool, one_sided: bool, tuning: SmSVMTuning
    ) -> None:
        """everything: all rows are near, in the one block of the stream. keeps: else, are any rows to be kept?"""
        self.one_sided, self.in_memory = one_sided, stream.place == "memory"
        self.alone = stream.sum(1.0) == 1.0
        self.threshold = 1.0
        """Of the slack, for the rows to be kept in the next pass."""
        self.rows: Block
        self.all_rows: Block | None = None
        self._everything, self._collects = everything, keeps and not everything
        self._stream = stream
        share = _ONE_SIDED_SHARE if one_sided else tuning.near_share
        self._max_rows = stream.dataset.n_rows * (1.0 if everything else share)
        self._all_up_to = np.inf if everything else -np.inf  # all rows of no more slack have been kept

    def restore(self, threshold: float) -> None:
        """Keep the rows up to this threshold in the next pass, as a run did that was interrupted."""
        self.threshold = threshold

    def begin(self, margins_move: float) -> None:
        """Begin a full pass. Rows are kept in it only if they may be enough after it; margins_move: see there."""
        self._keeps = self._collects and margins_move * _SLACK_PER_SMOOTHING <= self.threshold
        if self._collects:
            self._stream.survivors.clear()
        self._counts = np.zeros(_EXPONENTS, np.int64)  # of rows by the exponent of their slack
        self._offered = 0

    def offer(self, block: Block, slack: NDArray[np.float32]) -> None:
        """A block of the pass; slack: (n,) float32, see Summing, which is changed; infinite of rows that take no
        part."""
        if self._stream.in_one_block:
            self.all_rows = block
        if self._everything:
            self.rows = block
        if not self._collects:
            return
        for part in np.array_split(slack, 1 + len(slack) // 65536):  # so that copies are small
            # 1e-9 is just above 2 to the power of _LOWEST
            exponents = np.frexp(np.maximum(part[part < np.inf], 1e-9))[1]
            self._counts += np.bincount(np.clip(exponents - _LOWEST, 0, _EXPONENTS - 1), minlength=_EXPONENTS)
        if not self._keeps:
            return
        is_near = slack < self.threshold
        self._offered += int(np.count_nonzero(is_near))
        slack[~is_near] = np.inf
        self._stream.survivors.add(block, slack, None)

    def end(self) -> None:
        """The full pass is over."""
        if not self._collects:
            return
        self._all_up_to, survivors = -np.inf, self._stream.survivors
        if self._keeps:
            self.rows = survivors.resident
            all_kept = len(survivors) == self._offered
            self._all_up_to = self.threshold if all_kept else float(survivors.slack.max(initial=0.0))
        total = self._stream.sum
        counts, room = total(self._counts.astype(np.float64)), total(float(survivors.max_resident))
        exponents_below = np.searchsorted(np.cumsum(counts), min(self._max_rows, room), side="right")
        self.threshold = 2.0 ** (int(exponents_below) + _LOWEST - 1)

    def suffice(self, margins_move: float) -> bool:
        """Return whether the problem of these rows is that of all, while margins move by no more than
        ``margins_move``."""
        near = margins_move * _SLACK_PER_SMOOTHING <= self._all_up_to
        if self._stream.any(not near):
            return False
        return 0 < self._stream.sum(float(self.rows.n_rows)) <= self._max_rows


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
