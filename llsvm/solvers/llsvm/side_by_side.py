"""SideBySide: coordinate descent for many variants of one binary problem over sparse rows: C's and folds of a grid.

The problems are those of solver.py, with a loss whose dual is linear but for w. All rows are read again and again,
from memory or from the binary cache, in blocks of random pages, so that each epoch puts other rows together: over
blocks that stay the same, a problem takes several times as many. Each block is swept over for all variants, eight
at a time in the lanes of a vector register (lanes.py), by a thread for each eight; after each round of sweeps all α
go on along their last moves (extrapolation.py). Where the gap that sweeps meet is small, a pass measures the primal
at the average of the weights that rounds have ended with, and sums D(α) afresh, which certifies them; lanes whose
problems are all certified are left alone.

It takes memory for the dual variables of all rows. What has no room for that, other losses, several classes, and
narrow or dense rows, where second order ends sooner, are for LLSVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from llsvm.dataset import DatasetInfo
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.costs import RowCosts
from llsvm.objective.losses import Loss, PLQLoss, loss_of
from llsvm.objective.problems import Problems
from llsvm.settings.objective import ONE_CLASS
from llsvm.settings.settings import Settings
from llsvm.solvers.llsvm.lane_epochs import LaneEpochs
from llsvm.solvers.llsvm.lanes import (
    MEASURED_BYTES,
    PIECE_ROWS,
    WIDTHS,
    LaneProblems,
    Lanes,
    column_bytes,
    row_bytes,
)
from llsvm.solvers.llsvm.layout import WEIGHTS, shares_as_float32
from llsvm.solvers.report import Report
from llsvm.stream.stream import Stream

MOST = WIDTHS[-1]  # variants in the lanes of a register
LEAST_COLUMNS = 3000  # rows of fewer are for second order
DUALS, MEASURING = "dual variables of all rows", "measuring"  # the ledger's lines
ROW_WORK_BYTES = 80  # of a row at hand: sign, cost, number, and of the next, which is read;
THREAD_BYTES = 48  # and in what order a thread visits it


def suits(settings: Settings, dataset: DatasetInfo) -> bool:
    """Are variants of this problem for SideBySide?"""
    loss = loss_of(settings)
    wide = not dataset.is_dense and dataset.n_columns > LEAST_COLUMNS
    return wide and dataset.n_classes <= 2 and not settings.paper and _suits(loss)


def _suits(loss: Loss) -> bool:
    if not isinstance(loss, PLQLoss) or loss.ridge or loss.epsilon or loss.name == ONE_CLASS:
        return False
    bounds = np.array([loss.lower, loss.upper])
    return bool(np.isfinite(bounds).all() and (bounds == bounds.astype(np.float32)).all())


def lanes_of(n: int, of_cost: int) -> list[range]:
    """How ``n`` variants, so many of each C one after the other, are put side by side: those of a C together, as
    they take about as long. Fewer would be hardly quicker, also not by a thread for each half: a visit waits for
    memory, not for arithmetic."""
    size = of_cost * max(1, MOST // of_cost) if of_cost <= MOST else MOST
    return [range(start, min(start + size, n)) for start in range(0, n, size)]


class SideBySide:
    """See the file's head. ``solve`` yields a Report after each pass that measures, and each round of sweeps."""

    def __init__(
        self,
        settings: Settings,
        class_weight: NDArray[np.float64],
        threads: int,
        problems: Problems,
    ) -> None:
        """class_weight: (n_classes,) factors of C. problems: of two classes or numbers, with their variants."""
        loss = loss_of(settings)
        assert isinstance(loss, PLQLoss)
        assert _suits(loss)
        self.settings, self.class_weight, self.problems = settings, class_weight, problems
        self._loss, self._n_threads = loss, threads
        first = problems.variants[0]
        of_cost = sum(variant.cost == first.cost for variant in problems.variants)
        self._parts = lanes_of(len(problems), of_cost)
        self._lanes: list[Lanes] = []  # while ``solve`` is at it, and after

    def needs(self, memory: MemoryLeft) -> Needs:
        dataset = memory.dataset
        columns, n, threads = (
            dataset.n_columns + 1,
            len(self.problems),
            min(self._n_threads, len(self._parts)),
        )
        itemsize = self._dtype(dataset).itemsize
        of_lanes = columns * sum(column_bytes(len(part), itemsize) for part in self._parts)
        rows = dataset.n_rows * sum(row_bytes(len(part), itemsize) for part in self._parts)
        measuring = threads * min(dataset.n_rows, PIECE_ROWS) * MEASURED_BYTES
        lines = {WEIGHTS: of_lanes + 8 * columns * n, DUALS: rows, MEASURING: measuring}
        return Needs(lines, ROW_WORK_BYTES + THREAD_BYTES * threads, resident_survivors=False)

    def _dtype(self, dataset: DatasetInfo) -> np.dtype:
        by_class = RowCosts.of_classes(self.settings.C, self.class_weight).by_class
        variants = self.problems.variants
        cost = max(v.cost * float((by_class * (v.class_weight or 1.0)).max()) for v in variants)
        return np.dtype(np.float32 if shares_as_float32(self.settings, cost, dataset) else np.float64)

    def solve(self, stream: Stream) -> Iterator[Report]:
        """See llsvm.solvers.base."""
        stream.prepare(self.needs(stream.memory_left))
        dataset = stream.dataset
        shape, dtype = (dataset.n_rows, dataset.n_columns), self._dtype(dataset)
        self._lanes = [
            Lanes(self._lane_problems(part, dataset.n_rows), part.start, *shape, dtype, self.settings.seed)
            for part in self._parts
        ]
        of = self.settings, self.class_weight, self._n_threads, self.problems
        with closing(LaneEpochs(*of, stream, self._lanes)) as epochs:
            yield from epochs.reports()

    def _lane_problems(self, part: range, n_rows: int) -> LaneProblems:
        variants = self.problems.variants[part.start : part.stop]
        return LaneProblems(variants, n_rows, self._loss, self.settings.constant)

    def shares(self, start: int, stop: int) -> NDArray[np.floating]:
        """(stop − start, k) α_i / C_i of the rows from ``start`` to ``stop``."""
        return np.concatenate([each.shares(start, stop) for each in self._lanes], axis=1)

    def close(self) -> None:
        """Let go of the dual variables, once ``solve`` is at its end."""
        self._lanes = []
