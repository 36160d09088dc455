"""Tally: what held-out rows say of the candidates of a batch, as sums, or as the scores of all rows."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.calibration.held_scores import HeldScores
from llsvm.dataset import DatasetInfo
from llsvm.objective.problems import class_signs, count_problems
from llsvm.scoring.metrics import Numbers
from llsvm.scoring.ranking import SORT_BYTES, Areas, rank
from llsvm.settings.objective import CLASSIFICATION
from llsvm.settings.settings import Settings
from llsvm.stream.stream import Stream
from llsvm.tuning.scores import ClassSums, NumberSums, Score, value

# lines of the budget
_HELD, _RANKING, _CALLED = "scores of held-out rows", "ranking rows", "scores of a fold"


class Tally:
    """Scores of the candidates of a batch: so many costs with each of so many folds. A context manager."""

    def __init__(
        self, score: Score, settings: Settings, stream: Stream, n_costs: int, n_folds: int, n_rows: int
    ) -> None:
        """stream: that the candidates are trained on. n_rows: of those among which held-out rows have numbers."""
        self._score, self._settings, self._stream = score, settings, stream
        self._n_costs, self._n_rows = n_costs, n_rows
        self._n_scores = 1  # of a row by each candidate
        if score.kind == CLASSIFICATION:
            self._n_scores = count_problems(stream.dataset.n_classes, settings.multiclass == "ovo")
        self._sums = [
            [_sums(score, settings, stream.dataset) for _ in range(n_folds)] for _ in range(n_costs)
        ]
        self._held: HeldScores | None = None
        if score.of is None:
            self._held = HeldScores(stream, n_rows, n_costs * self._n_scores, _HELD)

    def __enter__(self) -> Tally:
        return self

    def __exit__(self, *_: object) -> None:
        if self._held is not None:
            self._held.close()

    def add(
        self, fold: int, rows: NDArray[np.int64], true: NDArray[Any], scores: Numbers, weight: Numbers
    ) -> None:
        """Add held-out rows, see Sink; functions of the caller see their weights only where they take such."""
        if self._held is not None:
            self._held.add(fold, rows, true, scores, weight)
            return
        for c, sums in enumerate(self._sums):
            sums[fold].add(true, self._of_cost(scores, c), weight)

    def values(self) -> list[list[float]]:
        """Return the score of each candidate: of each cost, by fold."""
        if self._score.of is not None:
            return [[float(self._score.of(each)) for each in sums] for sums in self._sums]  # type: ignore[arg-type]
        of_fold = self._called if self._score.call is not None else self._ranked
        by_fold = [of_fold(fold) for fold in range(len(self._sums[0]))]
        return [list(of_cost) for of_cost in zip(*by_fold, strict=True)]

    def _of_cost(self, scores: Numbers, c: int) -> Numbers:
        return scores[:, c * self._n_scores : (c + 1) * self._n_scores]

    def _called(self, fold: int) -> list[float]:
        """Return the score of each cost that the caller's function gives to the rows of the fold."""
        assert self._held is not None
        budget, dataset = self._stream.budget, self._stream.dataset
        with budget.reserve(_CALLED, 3 * self._held.row_bytes * self._n_rows // len(self._sums[0])):
            true, scores, weight = (
                np.concatenate(each) for each in zip(*self._held.pieces(fold), strict=True)
            )
            return [
                value(self._score, self._settings, dataset, true, weight, self._of_cost(scores, c))
                for c in range(self._n_costs)
            ]

    def _ranked(self, fold: int) -> list[float]:
        """Return the score of each cost that the ranking of the rows of the fold gives."""
        assert self._held is not None
        values, signs, max_rows = [], class_signs(2)[0], self._held.sort_rows()
        with self._stream.budget.reserve(_RANKING, SORT_BYTES * max_rows):
            for c in range(self._n_costs):
                areas = Areas()
                rank(partial(self._held.of_problem, c, signs, fold), max_rows, areas)
                values.append(float(getattr(areas, self._score.name)))
        return values


def _sums(score: Score, settings: Settings, dataset: DatasetInfo) -> ClassSums | NumberSums:
    if score.kind == CLASSIFICATION:
        pairs = settings.multiclass == "ovo" and dataset.n_classes > 2
        return ClassSums(dataset.n_classes, pairs, score.name == "log_loss")
    assert dataset.target is not None
    return NumberSums(dataset.target, settings.quantile)
