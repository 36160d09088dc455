"""Starts: dual variables of candidates that others begin at.

They are kept as α_i / C_i, as float32, in memory or in a file beside the spill: whoever begins at them sums its
weights afresh.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.llsvm.solver import LLSVM
from llsvm.solvers.state import Shares
from llsvm.spill.row_state import RowState
from llsvm.tuning.batches import Batch

_PIECE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Start:
    """Of several problems each: α_i / C_i of every row, (n_rows, m · width)."""

    values: RowState
    width: int

    def shares(self, which: int, copies: int = 1) -> Shares:
        """Of the problems number ``which``, as a solver begins at them, so many times side by side."""
        first = which * self.width

        def of(rows: NDArray[np.int64]) -> NDArray[np.floating]:
            found = self.values.get(rows).reshape(len(rows), -1)[:, first : first + self.width]
            return np.tile(found, (1, copies))

        return of


def kept_of_first(solver: LLSVM, batch: Batch, new: Callable[[int], RowState]) -> Start:
    """Of each C of a batch, the first of its folds. new: makes room for so many values of each row."""
    width = solver.problems.width_of_classes

    def first(shares: NDArray[np.floating]) -> NDArray[np.floating]:
        each = shares.reshape(len(shares), len(batch.costs), len(batch.folds), width)
        return each[:, :, 0].reshape(len(shares), -1)

    return Start(_copied(solver, new(len(batch.costs) * width), first), width)


def kept_of_largest(solver: LLSVM, batch: Batch, new: Callable[[int], RowState]) -> Start:
    """Of the largest C of a batch, all its folds."""
    width = solver.problems.width_of_classes * len(batch.folds)
    return Start(_copied(solver, new(width), lambda shares: shares[:, -width:]), width)


def _copied(
    solver: LLSVM, values: RowState, made: Callable[[NDArray[np.floating]], NDArray[np.floating]]
) -> RowState:
    step = max(1, _PIECE_BYTES // (8 * solver.problems.width))
    for start in range(0, values.n_rows, step):
        stop = min(start + step, values.n_rows)
        part = made(solver.run.duals.shares(start, stop))
        values.set(np.arange(start, stop), part.reshape(stop - start, -1))
    return values
