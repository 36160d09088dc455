"""The rows near the margin, kept in memory in a full pass, to go on with before the next."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.solvers.smsvm.tuning import SmSVMTuning
from llsvm.stream.stream import Stream

_ONE_SIDED_SHARE = 0.75
"""Of all rows, that are kept at most where all rows with a loss are kept: without these steps, problems with an L1
penalty go to the method of multipliers, whose dual is not kept by row."""
_SLACK_PER_SMOOTHING = 8.0
"""Rows are left out whose margin is so many times a away from 1: the loss is there a straight line but for a/500.
For smooth losses so many times as much as margins still move."""
_EXPONENTS, _LOWEST = 64, -32  # of slacks that are told apart; 2 to the lowest is as good as 0


class NearRows:
    """Those with a slack |1 − margin| up to a threshold.

    On both sides of the margin, where the loss of what is left out is a straight line there. Where it is none, or
    where there is no L2 penalty (straight lines then have no minimum), rows are only left out where their loss is
    zero: ``one_sided``.

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
        self._most = stream.dataset.n_rows * (1.0 if everything else share)
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
        for part in np.array_split(slack, 1 + len(slack) // 65536):
            exponents = np.frexp(np.maximum(part[part < np.inf], 1e-9))[1]
            self._counts += np.bincount(np.clip(exponents - _LOWEST, 0, _EXPONENTS - 1), minlength=_EXPONENTS)
        if not self._keeps:
            return
        wanted = slack < self.threshold
        self._offered += int(np.count_nonzero(wanted))
        slack[~wanted] = np.inf
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
        few = np.searchsorted(np.cumsum(counts), min(self._most, room), side="right")
        self.threshold = 2.0 ** (int(few) + _LOWEST - 1)

    def enough(self, margins_move: float) -> bool:
        """Is the problem of these rows that of all, while margins move by no more than that?"""
        near = margins_move * _SLACK_PER_SMOOTHING <= self._all_up_to
        if self._stream.any(not near):
            return False
        return 0 < self._stream.sum(float(self.rows.n_rows)) <= self._most
