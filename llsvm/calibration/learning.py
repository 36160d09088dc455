"""Learning from the scores of held-out rows, by models that were not trained on them: probabilities by a method,
and a threshold by a rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.calibration.calibrators import (
    Held,
    ThresholdRule,
    choose,
    isotonic,
    library_bytes,
    platt,
    rule_of,
    temperature,
)
from llsvm.dataset import DatasetInfo
from llsvm.errors import DataError, UsageError
from llsvm.features.labels import quoted
from llsvm.memory.budget import MemoryBudget
from llsvm.models.decisions import METHODS, THRESHOLD, Calibration, Method
from llsvm.models.model import Model
from llsvm.models.tables import given_names
from llsvm.objective.problems import class_signs
from llsvm.scoring.metrics import Numbers
from llsvm.scoring.ranking import SORT_BYTES, Piece
from llsvm.settings.objective import CLASSIFICATION, KINDS
from llsvm.settings.option import require_choice
from llsvm.settings.settings import Settings
from llsvm.stream.stream import Stream

_WORK_BYTES = 4 << 20  # reserved to go through them, at most, and at most 1/8 of what is free;
_WORK_SHARE, _WORK_PIECES = 8, 16  # a piece of scores is 1/16 of that
_PIECE_BYTES = 1 << 20  # without that
_SMALLEST_SORT = 1000  # rows


class HeldScores:
    """Scores of held-out rows, in memory, or in a file beside the spill. A context manager."""

    def __init__(
        self, stream: Stream, n_rows: int, n_scores: int, line: str, reserve_work: bool = False
    ) -> None:
        """Reserve room for the scores.

        stream: whose budget and disk are used. n_rows: among which held-out rows have numbers. n_scores: of a row.
        line: name in the budget. reserve_work: reserve memory for those that go through the pieces. Raises
        BudgetError, DiskError."""
        self._budget: MemoryBudget = stream.budget
        # a row has its scores; of targets the target; 0 where it is not held out, else 1 + its fold, of classes
        # 1 + n_classes · fold + its class; and its weight
        self._n_classes = 0 if stream.dataset.has_targets else stream.dataset.n_classes
        self._n_scores, width = n_scores, n_scores + (2 if self._n_classes else 3)
        work = min(_WORK_BYTES, self._budget.available_bytes // _WORK_SHARE) if reserve_work else 0
        self._piece_rows = max(1, (work // _WORK_PIECES if reserve_work else _PIECE_BYTES) // (8 * width))
        self._values = stream.reserved_state(n_rows, width, line, "scores")
        self._work = self._budget.reserve(line, work) if reserve_work else None

    @property
    def in_memory(self) -> bool:
        return self._values.in_memory

    @property
    def row_bytes(self) -> int:
        return 8 * self._values.width

    def __enter__(self) -> HeldScores:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let memory and disk go."""
        self._values.close()
        if self._work is not None:
            self._work.release()

    def add(
        self,
        fold: int,
        rows: NDArray[np.int64],
        true: NDArray[Any],
        scores: Numbers,
        weight: Numbers,
    ) -> None:
        """Add rows (n,) of the fold: their numbers, class ids or targets, scores (n, n_scores), sample weights."""
        if self._n_classes:
            columns = [scores, 1.0 + self._n_classes * fold + true, weight]
        else:
            columns = [scores, true, np.full(len(rows), 1.0 + fold), weight]
        self._values.set(rows, np.column_stack(columns))

    def pieces(self, fold: int | None = None) -> Iterator[Held]:
        """Yield the rows that are held out, or those of one fold, and have a weight, some at a time, the same each
        time."""
        for values, is_held in self._held_rows(fold):
            values = values[is_held]
            yield self._true(values), values[:, : self._n_scores], values[:, -1]

    def of_problem(self, c: int, signs: Numbers, fold: int | None = None) -> Iterator[Piece]:
        """Yield the scores of problem ``c`` of rows that take part in it, with their signed weights. signs:
        (n_classes,) the y of each class, or 0. fold: see ``pieces``."""
        for values, is_held in self._held_rows(fold):
            others = values[is_held, self._n_scores :]
            sign = signs[self._true(others)]
            takes_part = sign != 0
            yield (
                values[is_held, c][takes_part],
                np.where(sign > 0, others[:, -1], -others[:, -1])[takes_part],
            )

    def _held_rows(self, fold: int | None) -> Iterator[tuple[Numbers, NDArray[np.bool_]]]:
        """Yield some rows at a time, (n, width), and which of them are held out, in the fold if one is named, and
        have a weight."""
        n, step, size = self._values.n_rows, self._piece_rows, max(self._n_classes, 1)
        for start in range(0, n, step):
            values = self._values.get(np.arange(start, min(start + step, n)))
            codes = values[:, -2]
            is_held = (codes > 0) & (values[:, -1] > 0)
            if fold is not None:
                is_held &= (codes > size * fold) & (codes <= size * (fold + 1))
            yield values, is_held

    def _true(self, values: Numbers) -> NDArray[Any]:
        """Return the class ids, or the targets, of held-out rows, whose last columns ``values`` has at least."""
        if self._n_classes:
            return (values[:, -2].astype(np.intp) - 1) % self._n_classes
        return values[:, -3]

    def sort_rows(self) -> int:
        """Return how many rows there is room to sort at a time."""
        room = self._budget.available_bytes // 2
        return min(self._values.n_rows, max(_SMALLEST_SORT, room // SORT_BYTES))


LINE = "scores to learn probabilities from"  # lines of the budget
SORTING = "sorting held-out rows"
LIBRARY = "the library of isotonic regression"


@dataclass(frozen=True, slots=True)
class LearningRequest:
    """Method of probabilities and rule of a threshold to learn; None: not asked for."""

    method: Method | None = None
    rule: ThresholdRule | None = None

    def __bool__(self) -> bool:
        return self.method is not None or self.rule is not None

    def require(self, dataset: DatasetInfo, budget: MemoryBudget) -> None:
        """Reserve memory for what is to be loaded. Raises BudgetError, and DataError for what such data cannot
        give."""
        if self.rule is not None and dataset.n_classes != 2:
            raise DataError(
                f"{dataset.name}: --threshold is for two classes, and there are {dataset.n_classes}: leave it out, "
                "or pass --positive with the label of one of them"
            )
        for line, nbytes in self.library.items():
            budget.reserve(line, nbytes)

    @property
    def library(self) -> dict[str, int]:
        """Return the line of the budget for what is still to be loaded."""
        nbytes = library_bytes() if self.method == "isotonic" else 0
        return {LIBRARY: nbytes} if nbytes else {}


NOTHING = LearningRequest()


def learning_request(probabilities: Any, threshold: str | None, settings: Settings) -> LearningRequest:
    """Return what is to be learned. Raises UsageError for what cannot be."""
    for name, asked in (("--probabilities", probabilities), ("--threshold", threshold)):
        if asked is not None and KINDS[settings.loss] != CLASSIFICATION:
            raise UsageError(
                f"{name} is for classes, and --loss {settings.loss} predicts numbers: leave it out"
            )
    if probabilities is not None:
        require_choice("--probabilities", probabilities, METHODS)
    if probabilities == "temperature" and settings.multiclass == "ovo":
        raise UsageError(
            "--probabilities temperature needs a score for each class, and --multiclass ovo has one for each "
            "pair: take platt or isotonic, or --multiclass ovr"
        )
    return LearningRequest(probabilities, None if threshold is None else rule_of(threshold))


@dataclass(frozen=True, slots=True)
class Learned:
    """Calibration and threshold that were learned. threshold: see ``llsvm.calibration.calibrators.choose``, with
    n_rows."""

    calibration: Calibration | None = None
    threshold: dict[str, Any] | None = None

    def give(self, model: Model) -> Model:
        """Return the model with that."""
        extra: dict[str, Any] = {}
        if self.calibration is not None:
            extra |= self.calibration.as_extra()
        if self.threshold is not None:
            extra[THRESHOLD] = self.threshold
        if not extra:
            return model
        needed = [name for name, value in extra.items() if not isinstance(value, np.ndarray)]
        more: dict[str, Any] = {"extra": {**model.extra, **extra}, "requires": (*model.requires, *needed)}
        return replace(model, feature_names=given_names(model), **more)


def learn(
    held: HeldScores,
    asked: LearningRequest,
    dataset: DatasetInfo,
    one_vs_one: bool,
    budget: MemoryBudget,
    remedy: str,
) -> Learned:
    """Return what is asked for. remedy: for a class without held-out rows. Raises DataError, BudgetError."""
    signs = class_signs(dataset.n_classes, one_vs_one)
    n_rows = _count(held, signs, dataset, remedy)
    threshold = calibration = None
    sorts = asked.rule is not None or asked.method == "isotonic"
    max_rows = held.sort_rows() if sorts else 0
    sorting = budget.reserve(SORTING, SORT_BYTES * max_rows)
    if asked.rule is not None:
        pieces = partial(held.of_problem, 0, signs[0])
        threshold = choose(pieces, asked.rule, max_rows, dataset.name) | {"n_rows": n_rows}
    if asked.method == "platt":
        slopes, offsets = platt(held.pieces, signs)
        calibration = Calibration("platt", n_rows, tuple(slopes.tolist()), tuple(offsets.tolist()))
    elif asked.method == "temperature":
        calibration = Calibration("temperature", n_rows, (temperature(held.pieces),))
    elif asked.method == "isotonic":
        knots = [isotonic(partial(held.of_problem, c, y), max_rows) for c, y in enumerate(signs)]
        ends = np.cumsum([len(each) for each in knots])
        calibration = Calibration("isotonic", n_rows, knots=np.concatenate(knots), ends=tuple(ends.tolist()))
    sorting.release()
    return Learned(calibration, threshold)


def _count(held: HeldScores, signs: Any, dataset: DatasetInfo, remedy: str) -> int:
    """Return how many held-out rows have a weight. Raises DataError where a problem has none on one of its
    sides."""
    counts = np.zeros(dataset.n_classes, np.int64)
    for true, _, _ in held.pieces():
        counts += np.bincount(true, minlength=len(counts))
    if not counts.all():
        c = int(np.argmin(counts))
        raise DataError(
            f"{dataset.name}: no held-out row with a weight is of class {quoted(dataset.classes[c])}, so that "
            f"nothing tells its probabilities: {remedy}"
        )
    return int(counts.sum())
