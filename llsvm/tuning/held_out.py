"""Held-out rows: the scores that candidates give them, in one pass; what these say of the candidates of a batch, as
sums or as the scores of all rows; and a source that leaves the rows out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.calibration.learning import HeldScores
from llsvm.data.source import BlockSource, DerivedSource, growing_blocks, room_in
from llsvm.dataset import DatasetInfo
from llsvm.errors import DataError
from llsvm.features.labels import is_text, positions, quoted
from llsvm.kernels.products import matrix_scores
from llsvm.memory.budget import MemoryBudget
from llsvm.memory.plan import Needs
from llsvm.models.model import Model
from llsvm.objective.problems import Fold, class_signs, count_problems
from llsvm.scoring.metrics import Numbers, targets_of, weights_of
from llsvm.scoring.predictions import column_base, score_rows
from llsvm.scoring.ranking import SORT_BYTES, Areas, rank
from llsvm.scoring.room import max_block_bytes
from llsvm.settings.objective import CLASSIFICATION
from llsvm.settings.settings import Settings
from llsvm.stream.stream import Stream
from llsvm.tuning.scores import ClassSums, NumberSums, Score, value
from llsvm.tuning.trained import WEIGHTS

_PIECE_BYTES = 1 << 20  # of rows that are looked at, at a time
_ROW_BYTES = 64  # of a row there: hash, place, number, label


class Sink(Protocol):
    """A collector of scores of held-out rows, by the candidates of n_costs C's."""

    def add(
        self,
        fold: int,
        rows: NDArray[np.int64],
        true: NDArray[Any],
        scores: NDArray[np.float64],
        weight: NDArray[np.float64],
    ) -> None:
        """Add rows (n,) of the fold: numbers, class ids or targets, scores (n, n_costs · k), sample weights."""


def score_folds(
    stream: Stream, folds: Sequence[Fold], coef: NDArray[np.float64], constant: float, sink: Sink
) -> None:
    """Add each row's scores by the candidates that left it out.

    coef: (n_costs, n_folds, k, d + 1) of the candidates; the last column times ``constant`` is the intercept. As
    ``by_column`` lays them out they are held once."""
    by_fold = coef.transpose(1, 3, 0, 2)
    copies = 1 if by_fold.flags.c_contiguous else 2
    stream.prepare(Needs({WEIGHTS: copies * coef.nbytes}, _ROW_BYTES))
    weights = np.ascontiguousarray(by_fold).reshape(len(folds), coef.shape[-1], -1)
    width = 8 * weights.shape[-1]
    for block in stream.all():
        step = max(1, int(_PIECE_BYTES / (block.nbytes / block.n_rows + width + _ROW_BYTES)))
        for start in range(0, block.n_rows, step):
            piece = block.slice(start, min(start + step, block.n_rows))
            class_ids = piece.class_ids
            for f, fold in enumerate(folds):
                held = fold.holds(piece.rows, class_ids)
                if held.any():
                    rows = piece.take(held)
                    scores = matrix_scores(rows.X, weights[f, :-1], constant * weights[f, -1])
                    sink.add(f, rows.rows, rows.y, scores, weights_of(rows))
    stream.reset()


def by_column(n_costs: int, n_folds: int, k: int, width: int) -> NDArray[np.float64]:
    """Return (n_costs, n_folds, k, width) zeros, of which all numbers of a fold and a column lie side by side."""
    return np.zeros((n_folds, width, n_costs, k)).transpose(2, 0, 3, 1)


def score_file(
    source: BlockSource, models: Sequence[Model], dataset: DatasetInfo, sink: Sink, memory_limit: Any
) -> None:
    """Add the scores of a source's rows by each of the models, of one C each."""
    bytes_of_models = {"models": sum(2 * model.coef_.nbytes for model in models)}
    scorers = [model.scorer() for model in models]
    grow = partial(max_block_bytes, models[0], source, memory_limit, bytes_of_models)
    each_bytes = 16 * sum(model.n_problems for model in models)

    def score(X: Any, base: int) -> NDArray[np.float64]:
        return np.concatenate([scorer(X, base) for scorer in scorers], axis=1)

    for block, scores in score_rows(score, column_base(models[0], source), source, grow(), each_bytes, grow):
        if dataset.target is not None:
            true: NDArray[Any] = dataset.target.scale(targets_of(block, f"{source.info().name}: "))
            scores = dataset.target.scale(scores)
        else:
            true = class_ids_of(source.info().name, block.y, dataset.classes)
        sink.add(0, block.rows, true, scores, weights_of(block))


def count_rows(source: BlockSource, budget: MemoryBudget) -> Iterator[int]:
    """Yield the number of rows of each block of the source. budget: holds all but these. Raises BudgetError."""
    for block in growing_blocks(source, _PIECE_BYTES, room_in(budget)):
        yield block.n_rows


def class_ids_of(name: str, y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int32]:
    """Return (n,) positions of labels in ``classes``. Raises DataError where one is not among them."""
    ids = positions(y, classes)
    if ids is None:
        kinds = ("numbers", "text") if is_text(y) else ("text", "numbers")
        raise DataError(f"{name}: its labels are {kinds[1]}, those of the training data {kinds[0]}")
    if (ids < 0).any():
        label = quoted(y[np.argmax(ids < 0)])
        raise DataError(f"{name}: label {label} is none of the training data's classes: leave its rows out")
    return ids.astype(np.int32)


class LeftOut(DerivedSource):
    """The rows of another source, those of ``fold`` with weight 0: columns are scaled, and classes counted, as if
    they were not left out.

    dataset: of the same rows, whose classes tell what is in the fold."""

    def __init__(self, source: BlockSource, fold: Fold, dataset: DatasetInfo) -> None:
        super().__init__(source)
        self._fold, self._dataset = fold, dataset

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the blocks of the source."""
        for block in self.source.blocks(max_bytes):
            out = self._fold.contains(block.rows, self._class_ids(block))
            weight = weights_of(block)
            left = np.where(out, 0.0, weight)
            yield Block(block.X, block.y, block.rows, left, learned_weight=weight)

    def _class_ids(self, block: Block) -> NDArray[np.int32]:
        if self._dataset.has_targets:
            return np.zeros(block.n_rows, np.int32)
        return class_ids_of(self._dataset.name, block.y, self._dataset.classes)


# lines of the budget
_HELD, _RANKING, _CALLED = "scores of held-out rows", "ranking rows", "scores of a fold"


class Tally:
    """Scores of the candidates of a batch: so many costs with each of so many folds. A context manager."""

    def __init__(
        self, score: Score, settings: Settings, stream: Stream, n_costs: int, n_folds: int, n_rows: int
    ) -> None:
        """Begin with no rows. stream: that the candidates are trained on. n_rows: of those among which held-out
        rows have numbers."""
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
