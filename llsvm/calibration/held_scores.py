"""HeldScores: the scores of held-out rows by models that were not trained on them, with classes and weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.calibration.ordered import SORT_BYTES, Piece
from llsvm.memory.budget import MemoryBudget
from llsvm.stream.stream import Stream

LINE = "scores to learn probabilities from"
_WORK_BYTES = 4 << 20  # while they are gone through, at most, and at most a part (1/8) of what is free;
_WORK_SHARE, _WORK_PIECES = 8, 16  # a piece of scores is 1/16 of that
_SMALLEST_SORT = 1000  # rows

Numbers = NDArray[np.float64]
# (class ids (n,), scores (n, k), sample weights (n,))
Held = tuple[NDArray[np.intp], Numbers, Numbers]


class HeldScores:
    """Of one candidate's problems. They are kept in memory, or in a file beside the spill. A context manager.

    n_costs: 1, of the candidates whose scores are added at a time."""

    n_costs = 1

    def __init__(self, stream: Stream, n_rows: int, n_problems: int) -> None:
        """stream: whose ledger and disk are used. n_rows: among which held-out rows have numbers. Raises
        BudgetError, DiskError."""
        self.n_problems = n_problems
        self._budget: MemoryBudget = stream.budget
        work = min(_WORK_BYTES, self._budget.available_bytes // _WORK_SHARE)
        self._piece_rows = max(1, work // (_WORK_PIECES * 8 * (n_problems + 2)))
        # scores; 0 where the row is not held out, else 1 + its class; weight
        self._values = stream.reserved_state(n_rows, n_problems + 2, LINE, "held")
        self._work = self._budget.reserve(LINE, work)

    @property
    def in_memory(self) -> bool:
        return self._values.in_memory

    def __enter__(self) -> HeldScores:
        return self

    def __exit__(self, *_: object) -> None:
        self._values.close()
        self._work.release()

    def add(
        self,
        fold: int,
        rows: NDArray[np.int64],
        true: NDArray[Any],
        scores: Numbers,
        weight: NDArray[np.float64] | None,
    ) -> None:
        """Rows (n,), their class ids, their scores (n, n_problems), and their sample weights, None where all are
        1."""
        weights = np.ones(len(rows)) if weight is None else weight
        self._values.set(rows, np.column_stack([scores, true + 1.0, weights]))

    def pieces(self) -> Iterator[Held]:
        """The rows that are held out, and have a weight, a piece at a time, the same each time."""
        n, step = self._values.n_rows, self._piece_rows
        for start in range(0, n, step):
            values = self._values.get(np.arange(start, min(start + step, n)))
            values = values[(values[:, -2] > 0) & (values[:, -1] > 0)]
            yield values[:, -2].astype(np.intp) - 1, values[:, :-2], values[:, -1]

    def of_problem(self, c: int, signs: Numbers) -> Iterator[Piece]:
        """The scores of problem ``c`` of rows that take part in it, with (n, 2) their weights where they are
        positive, and where they are not. signs: (n_classes,) the y of each class, or 0."""
        for true, scores, weight in self.pieces():
            sign = signs[true]
            some = sign != 0
            sides = np.column_stack([weight * (sign > 0), weight * (sign < 0)])
            yield scores[some, c], sides[some]

    def sort_rows(self) -> int:
        """How many rows there is room to sort at a time."""
        room = self._budget.available_bytes // 2
        return min(self._values.n_rows, max(_SMALLEST_SORT, room // SORT_BYTES))
