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

STARTS = "dual variables to begin at"  # line of the budget
_PIECE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Start:
    """Dual variables of several problems, α_i / C_i of every row, (n_rows, m · width)."""

    values: RowState
    width: int

    def shares(self, which: int, copies: int = 1) -> Shares:
        """Return those of the problems number ``which``, as a solver begins at them, so many times side by side."""
        first = which * self.width

        def of(rows: NDArray[np.int64]) -> NDArray[np.floating]:
            shares = self.values.get(rows).reshape(len(rows), -1)[:, first : first + self.width]
            return np.tile(shares, (1, copies))

        return of


class CandidateStarts:
    """Dual variables at which the model of the chosen C may begin: of those trained so far, that of the best, or of
    one before it, could be asked for; the others are dropped."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._starts: dict[Key, tuple[Start, int]] = {}

    def add(self, keys: Sequence[Key], start: Start) -> None:
        """Add the start of these candidates, trained on all rows, in their order. Those in memory are reserved."""
        if start.values.in_memory:
            self._budget.reserve(STARTS, start.values.nbytes)
        self._starts |= {key: (start, number) for number, key in enumerate(keys)}

    def drop(self, board: Board) -> None:
        """Let go of all that come from other batches than the best candidate's, if all are scored."""
        if not self._starts or not all(board.finished(key) or board.lost(key) for key in self._starts):
            return
        keep = self._starts[min(self._starts, key=lambda key: (board.lost(key), board.worth(key)))][0]
        for start in {id(start): start for start, _ in self._starts.values() if start is not keep}.values():
            if start.values.in_memory:
                self._budget.release(STARTS, start.values.nbytes)
            start.values.close()
        self._starts = {key: each for key, each in self._starts.items() if each[0] is keep}

    def shares(self, key: Key) -> Shares | None:
        """Return those of the candidate; None: it is not known."""
        if key not in self._starts:
            return None
        start, number = self._starts[key]
        return start.shares(number)


def start_of_first_folds(solver: LLSVM | SideBySide, batch: Batch, new: Callable[[int], RowState]) -> Start:
    """Return the start of each C and class weights of a batch, the first of its folds. new: makes room for so many
    values of each row."""
    width, n = solver.problems.width_of_classes, len(batch.costs) * len(batch.weights)

    def first(shares: NDArray[np.floating]) -> NDArray[np.floating]:
        each = shares.reshape(len(shares), n, len(batch.folds), width)
        return each[:, :, 0].reshape(len(shares), -1)

    return Start(_copied(solver, new(n * width), first), width)


def start_of_largest(solver: LLSVM | SideBySide, batch: Batch, new: Callable[[int], RowState]) -> Start:
    """Return the start of the largest C of a batch, all its class weights and folds."""
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
