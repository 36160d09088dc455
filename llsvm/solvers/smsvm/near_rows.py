"""The rows near the margin, kept in memory in a full pass, to go on with before the next."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.solvers.smsvm.tuning import SmSVMTuning
from llsvm.stream.stream import Stream

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
