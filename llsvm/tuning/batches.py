"""Batches: how many candidates, a C, class weights and a fold each, are trained in the same passes, in which order.

Of a batch all C's have the same class weights and folds. The next one goes on with larger C's. Where all rows are
in memory, each of its candidates begins at the dual variables of its neighbour, the one of the next smaller C on
the same rows.

Starts: the dual variables that candidates begin at are kept as α_i / C_i, as float32, in memory or in a file beside
the spill: whoever begins at them sums its weights afresh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.memory.budget import MemoryBudget
from llsvm.memory.plan import MemoryPlan
from llsvm.objective.problems import Fold, Variant
from llsvm.solvers.llsvm.side_by_side import SideBySide
from llsvm.solvers.llsvm.solver import LLSVM
from llsvm.solvers.llsvm.start import NO_PARENT
from llsvm.solvers.state import Shares
from llsvm.spill.row_state import RowState
from llsvm.tuning.scores import Board, Key

# Where rows are not in memory: blocks of rows are at least this share of those that one candidate alone would have,
# since each block costs its reading again where few rows are seen at a time.
_BLOCK_SHARE = 1 / 8

Weights = tuple[float, ...] | None  # of classes, see Variant


@dataclass(frozen=True, slots=True)
class Batch:
    """Candidates of the same passes: each of ``costs`` with each of ``weights`` and of ``folds``, None being all
    rows.

    weights: numbers in a list of class weights. first, last: is it the first, or the last, of its weights and
    folds?"""

    costs: tuple[float, ...]
    weights: tuple[int, ...]
    folds: tuple[Fold | None, ...]
    first: bool
    last: bool

    def variants(self, weights: Sequence[Weights]) -> list[Variant]:
        """Return them in the order of the costs, within each in that of the weights, and of the folds."""
        several = len(self.folds) > 1
        return [
            Variant(C, fold, weights[w], to_begin_at=several and fold is None)
            for C in self.costs
            for w in self.weights
            for fold in self.folds
        ]

    @property
    def parents(self) -> list[int]:
        """Return where each of the variants may begin: at the next smaller C, and at the smallest of all at the
        first of the folds, if these are all rows."""
        n, at_all_rows = len(self.folds), self.first and self.folds[0] is None
        sides = len(self.weights) * n
        roots = [i - i % n if i % n and at_all_rows else NO_PARENT for i in range(sides)]
        return [*roots, *range(sides * (len(self.costs) - 1))]


def batches(
    costs: Sequence[float], n_weights: int, folds: Sequence[Fold | None], max_size: int
) -> Iterator[Batch]:
    """Yield batches of all candidates, at most ``max_size`` each. costs: ascending."""
    folds_at_once = min(max_size, len(folds))
    weights_at_once = max(1, min(n_weights, max_size // len(folds)))
    costs_at_once = max(1, max_size // (len(folds) * n_weights))
    for f in range(0, len(folds), folds_at_once):
        for w in range(0, n_weights, weights_at_once):
            for c in range(0, len(costs), costs_at_once):
                last = c + costs_at_once >= len(costs)
                weights = tuple(range(w, min(w + weights_at_once, n_weights)))
                in_batch = tuple(folds[f : f + folds_at_once])
                yield Batch(tuple(costs[c : c + costs_at_once]), weights, in_batch, c == 0, last)


def batch_size(n_costs: int, n_weights: int, n_folds: int, plan: Callable[[int], MemoryPlan | None]) -> int:
    """Return how many candidates the memory limit has room for: as many as leave all rows in memory, if there are
    such; else as many as leave blocks of rows large enough. plan: of so many; None where the limit is too small."""
    sizes = [
        *(n_folds * n_weights * c for c in range(n_costs, 0, -1)),
        *(n_folds * w for w in range(n_weights - 1, 0, -1)),
        *range(n_folds - 1, 0, -1),
    ]
    plans = {size: plan(size) for size in {*sizes, 1}}
    for size in sizes:
        if (made := plans[size]) is not None and made.in_one_block:
            return size
    alone = plans[1]
    for size in sizes:
        made = plans[size]
        if made is not None and alone is not None and made.block_bytes >= _BLOCK_SHARE * alone.block_bytes:
            return size
    return 1


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
