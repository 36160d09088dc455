"""Run: what the exact and the paper mode of coordinate descent both work with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.files.growing import copied, is_mapped, let_go
from llsvm.objective.best import BestPrimal
from llsvm.objective.rounding import RoundingBound
from llsvm.settings.settings import Settings
from llsvm.solvers.llsvm.duals import AllDuals, BlockState
from llsvm.solvers.llsvm.sweeps import Sweeps
from llsvm.solvers.llsvm.threshold import OneClassThreshold
from llsvm.solvers.llsvm.tuning import LLSVMTuning
from llsvm.solvers.optim.row_operator import PIECE_BYTES
from llsvm.stream.stream import Stream


@dataclass(slots=True)
class Run:
    """State of one training over one stream.

    sweeps: the weights of all problems, and what moves them. duals: the dual variables of all rows.
    start: (k, d + 1) float64, or float32 where there is no room for more, the weights that the pass at hand, or the
    next one, measures. They may lie on disk (llsvm.files.growing), where those of problems that are not open are of
    no use.
    best: of the weights that passes have measured.
    bound: makes certificates.
    in_small_data: all rows are at hand, and so few that they are solved to the last digits.
    threshold: of the one-class SVM, else None.
    second_order_bytes: that Newton's method over all rows may take, beside the work on rows.
    """

    settings: Settings
    tuning: LLSVMTuning
    stream: Stream
    sweeps: Sweeps
    duals: AllDuals
    bound: RoundingBound
    start: NDArray[np.floating]
    best: BestPrimal
    in_small_data: bool
    threshold: OneClassThreshold | None = None
    second_order_bytes: int = 0

    @property
    def total_dual(self) -> float:
        return float(self.dual.sum())

    @property
    def dual(self) -> NDArray[np.float64]:
        """(k,) D of a feasible α."""
        return self.sweeps.dual if self.threshold is None else self.threshold.dual()

    def measure_weights_next(self) -> None:
        """Let the next pass measure the weights as they are, or as near by as makes them those of a feasible α."""
        if self.threshold is not None:
            self.threshold.feasible(self.start[0])
        elif is_mapped(self.start):
            for c in self.sweeps.open:
                self.measure_next(c, self.sweeps.w[c])
        else:
            self.start[...] = self.sweeps.w

    def measure_next(self, c: int, w: NDArray[np.float64]) -> None:
        """Let the next pass measure these weights, (d + 1,), for problem ``c``."""
        self.start[c] = w
        let_go(self.start)

    def put_start_on_disk(self) -> None:
        """Put zeros in a file in the place of ``start``, whose memory is given up."""
        self.start = self.stream.open_workspace().map_array(self.start.shape, self.start.dtype)

    def take_start_into_memory(self) -> None:
        """Copy ``start`` from its file to memory, which has room for it again."""
        self.start = copied(self.start)

    @property
    def certified(self) -> NDArray[np.floating]:
        """(k, d + 1) weights whose primal the last pass has measured, in the unit of ``settings.constant``."""
        return self.start if self.threshold is None else self.threshold.certified(self.start)

    @property
    def survivors_gap(self) -> float:
        """The gap at which work on some of the rows ends, as a share of the objective. The rest of the tolerance is
        for the rows that this work does not see."""
        return self.tuning.tol_share * self.settings.tol

    @property
    def sizes(self) -> NDArray[np.float64]:
        """(k,) of the objectives: what gaps are measured against."""
        return self.sweeps.dual if self.threshold is None else np.array([self.threshold.size])

    def drift(self, block: Block, from_zero: bool = False) -> float:
        """Return how far margins have moved since ``start``, or ``from_zero``: root mean square over a sample of
        the block's rows, the largest of the problems."""
        problems = self.duals.problems
        share = min(1.0, PIECE_BYTES / max(2 * block.nbytes, 1))  # copied, which takes their positions, too
        n_rows = max(1, int(share * block.n_rows))
        sample = block.take(np.linspace(0, block.n_rows - 1, n_rows).astype(np.int64))
        margins = []
        for w in (self.sweeps.w, None if from_zero else self.start):
            part = BlockState(
                problems, sample, np.ones(n_rows), np.zeros((problems.width, n_rows)), self.sweeps.loss
            )
            self.sweeps.measure(part, w)
            margins.append(part.margin)
        squares = (margins[0] - margins[1]) ** 2
        known = ~np.isnan(squares)  # of problems that are open, and their rows
        means = np.sum(squares, axis=1, where=known) / np.maximum(known.sum(axis=1), 1)
        return float(np.sqrt(means.max()))
