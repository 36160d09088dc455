"""Starts: dual variables of candidates that others begin at.

They are kept as α_i / C_i, as float32, in memory or in a file beside the spill: whoever begins at them sums its
weights afresh.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.memory.budget import MemoryBudget
from llsvm.solvers.llsvm.side_by_side import SideBySide
from llsvm.solvers.llsvm.solver import LLSVM
from llsvm.solvers.state import Shares
from llsvm.spill.row_state import RowState
from llsvm.tuning.batches import Batch
from llsvm.tuning.table import Board, Key

STARTS = "dual variables to begin at"  # the ledger's line
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


class KeptStarts:
    """Where the model of the C that is chosen may begin: of those trained so far, that of the best, or of one
    before it, could be asked for; the others are let go."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._kept: dict[Key, tuple[Start, int]] = {}

    def add(self, keys: Sequence[Key], start: Start) -> None:
        """start: of these candidates, trained on all rows, in their order. Those in memory are signed for."""
        if start.values.in_memory:
            self._budget.reserve(STARTS, start.values.nbytes)
        self._kept |= {key: (start, number) for number, key in enumerate(keys)}

    def drop(self, board: Board) -> None:
        """Let go of all that come from other batches than the best candidate's, if all are scored."""
        if not self._kept or not all(board.finished(key) or board.lost(key) for key in self._kept):
            return
        keep = self._kept[min(self._kept, key=lambda key: (board.lost(key), board.worth(key)))][0]
        for start in {id(start): start for start, _ in self._kept.values() if start is not keep}.values():
            if start.values.in_memory:
                self._budget.release(STARTS, start.values.nbytes)
            start.values.close()
        self._kept = {key: each for key, each in self._kept.items() if each[0] is keep}

    def shares(self, key: Key) -> Shares | None:
        """Of the candidate; None: it is not known."""
        if key not in self._kept:
            return None
        start, number = self._kept[key]
        return start.shares(number)


def kept_of_first(solver: LLSVM | SideBySide, batch: Batch, new: Callable[[int], RowState]) -> Start:
    """Of each C and class weights of a batch, the first of its folds. new: makes room for so many values of each
    row."""
    width, n = solver.problems.width_of_classes, len(batch.costs) * len(batch.weights)

    def first(shares: NDArray[np.floating]) -> NDArray[np.floating]:
        each = shares.reshape(len(shares), n, len(batch.folds), width)
        return each[:, :, 0].reshape(len(shares), -1)

    return Start(_copied(solver, new(n * width), first), width)


def kept_of_largest(solver: LLSVM | SideBySide, batch: Batch, new: Callable[[int], RowState]) -> Start:
    """Of the largest C of a batch, all its class weights and folds."""
    width = solver.problems.width_of_classes * len(batch.weights) * len(batch.folds)
    return Start(_copied(solver, new(width), lambda shares: shares[:, -width:]), width)


def _copied(
    solver: LLSVM | SideBySide, values: RowState, made: Callable[[NDArray[np.floating]], NDArray[np.floating]]
) -> RowState:
    step = max(1, _PIECE_BYTES // (8 * solver.problems.width))
    for start in range(0, values.n_rows, step):
        stop = min(start + step, values.n_rows)
        part = made(solver.shares(start, stop))
        values.set(np.arange(start, stop), part.reshape(stop - start, -1))
    return values
