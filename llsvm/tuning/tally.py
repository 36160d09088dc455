"""Tally: the sums that scores are made of, and where rows are ranked, their scores, by candidate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.calibration.ordered import SORT_BYTES
from llsvm.dataset import DatasetInfo
from llsvm.memory.budget import MemoryBudget
from llsvm.objective.problems import count_problems
from llsvm.scoring.ranking import ranked
from llsvm.settings.objective import CLASSIFICATION
from llsvm.settings.settings import Settings
from llsvm.spill.row_state import RowState
from llsvm.stream.stream import Stream
from llsvm.tuning.called import value
from llsvm.tuning.scores import ClassSums, NumberSums, Score

_RANKING, _CALLED = "ranking rows", "scores of a fold"
_PIECE_BYTES = 1 << 20


class Tally:
    """Of the candidates of a batch: so many costs with each of so many folds. A context manager."""

    def __init__(
        self,
        score: Score,
        settings: Settings,
        stream: Stream,
        n_costs: int,
        n_folds: int,
        n_rows: int,
    ) -> None:
        """stream: that the candidates are trained on. n_rows: of those among which held-out rows have numbers."""
        self._score = score
        self.n_costs = n_costs
        self._budget: MemoryBudget = stream.budget
        self._scores: RowState | None = None
        dataset = stream.dataset
        self._sums = [[_sums(score, settings, dataset) for _ in range(n_folds)] for _ in range(n_costs)]
        if score.call is not None:
            # of each cost; the label; 0 where the row is not held out, else 1 + its fold; and its weight
            self._settings, self._dataset = settings, dataset
            k = 1 if score.kind != CLASSIFICATION else n_problems(settings, dataset)
            line = "scores of held-out rows"
            self._scores = stream.reserved_state(n_rows, n_costs * k + 3, line, "scores")
        elif score.ranks:
            # of each cost; 0 where the row is not held out, else 1 + twice its fold, + 1 where it is positive; and
            # its weight
            self._scores = stream.reserved_state(n_rows, n_costs + 2, "scores of held-out rows", "scores")

    def __enter__(self) -> Tally:
        return self

    def __exit__(self, *_: object) -> None:
        if self._scores is not None:
            self._scores.close()

    def add(
        self,
        fold: int,
        rows: NDArray[np.int64],
        true: NDArray[Any],
        scores: NDArray[np.float64],
        weight: NDArray[np.float64] | None,
    ) -> None:
        """Rows (n,) of the fold, and their scores, (n, n_costs · k). true: class ids, or targets. weight: (n,) of
        samples, None where all are 1; functions of the caller do not see it."""
        if self._scores is not None and self._score.call is not None:
            weights = np.ones(len(rows)) if weight is None else weight
            code = np.full(len(rows), 1.0 + fold)
            self._scores.set(rows, np.column_stack([scores, true, code, weights]))
            return
        weights = np.ones(len(rows)) if weight is None else weight
        if self._scores is not None:
            code = 1.0 + 2 * fold + (true == 1)
            self._scores.set(rows, np.column_stack([scores, code, weights]))
            return
        k = scores.shape[1] // len(self._sums)
        for c, sums in enumerate(self._sums):
            sums[fold].add(true, scores[:, c * k : (c + 1) * k], weights)

    def values(self) -> list[list[float]]:
        """The score of each candidate: of each cost, by fold."""
        if self._score.of is not None:
            return [[float(self._score.of(each)) for each in sums] for sums in self._sums]  # type: ignore[arg-type]
        if self._score.call is not None:
            each = [self._called(fold) for fold in range(len(self._sums[0]))]
            return [list(of_cost) for of_cost in zip(*each, strict=True)]
        room = self._budget.available_bytes // 2
        max_rows = max(1000, min(room // SORT_BYTES, self._n_rows))
        with self._budget.reserve(_RANKING, SORT_BYTES * max_rows):
            return [
                [self._ranked(c, fold, max_rows) for fold in range(len(sums))]
                for c, sums in enumerate(self._sums)
            ]

    def _called(self, fold: int) -> list[float]:
        """Of each cost, of the rows of the fold."""
        assert self._scores is not None
        width = self._scores.width
        with self._budget.reserve(_CALLED, 3 * 8 * width * self._n_rows // len(self._sums[0])):
            step, found = max(1, _PIECE_BYTES // (8 * width)), []
            for start in range(0, self._n_rows, step):
                values = self._scores.get(np.arange(start, min(start + step, self._n_rows)))
                found.append(values[(values[:, -2] == 1 + fold) & (values[:, -1] > 0)])
            rows, n_costs = np.concatenate(found), len(self._sums)
            k = (width - 3) // n_costs
            told = self._score, self._settings, self._dataset, rows[:, -3], rows[:, -1]
            return [value(*told, rows[:, c * k : (c + 1) * k]) for c in range(n_costs)]

    @property
    def _n_rows(self) -> int:
        assert self._scores is not None
        return self._scores.n_rows

    def _ranked(self, c: int, fold: int, max_rows: int) -> float:
        def pieces() -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
            assert self._scores is not None
            step = max(1, _PIECE_BYTES // (8 * self._scores.width))
            for start in range(0, self._n_rows, step):
                values = self._scores.get(np.arange(start, min(start + step, self._n_rows)))
                code, weight = values[:, -2] - (1 + 2 * fold), values[:, -1]
                some = ((code == 0) | (code == 1)) & (weight > 0)
                yield values[some, c], np.where(code[some] == 1, weight[some], -weight[some])

        return float(getattr(ranked(pieces, max_rows), self._score.name))


def n_problems(settings: Settings, dataset: DatasetInfo) -> int:
    """Scores that a row has by each candidate."""
    return count_problems(dataset.n_classes, settings.multiclass == "ovo")


def _sums(score: Score, settings: Settings, dataset: DatasetInfo) -> ClassSums | NumberSums:
    if score.kind == CLASSIFICATION:
        pairs = settings.multiclass == "ovo" and dataset.n_classes > 2
        return ClassSums(dataset.n_classes, pairs, score.name == "log_loss")
    assert dataset.target is not None
    return NumberSums(dataset.target, settings.quantile)
