"""How good predictions of numbers are, and how many rows are outliers: the figures of an evaluation."""

from __future__ import annotations

import math
from typing import Any, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.errors import DataError
from llsvm.features.labels import is_text
from llsvm.features.targets import Targets, as_targets
from llsvm.models.model import Model
from llsvm.scoring.figures import ClassCounts, Evaluation
from llsvm.scoring.shapes import NumberShapes, OutlierShapes


class RegressionEvaluation(TypedDict):
    """Of a regression, plain values. r2: 1 − Σ (y − p)² / Σ (y − mean of y)², as scikit-learn has it; NaN of a
    single row. mean_absolute_error, mean_squared_error, root_mean_squared_error: of y − p. shapes: where they
    are asked for, see ``llsvm.scoring.shapes``."""

    rows: int
    r2: float
    mean_absolute_error: float
    mean_squared_error: float
    root_mean_squared_error: float
    shapes: NotRequired[dict[str, Any]]


class OutlierEvaluation(TypedDict):
    """Of a model that tells outliers, plain values. outliers: rows predicted as such. labelled: of the rows that
    have one of the labels 1 (no outliers) and -1, if there are any. shapes: as of a regression."""

    rows: int
    outliers: int
    outlier_share: float
    labelled: NotRequired[Evaluation]
    shapes: NotRequired[dict[str, Any]]


class NumberErrors:
    """Figures of a regression, as blocks of rows and their scores go by."""

    def __init__(self, model: Model, shapes: bool = False) -> None:
        self._shapes = NumberShapes() if shapes else None
        self._targets = Targets()
        self._n_rows = 0
        self._absolute = self._squares = 0.0

    @staticmethod
    def needs(model: Model, as_json: bool) -> dict[str, int]:
        """What is held, in bytes, by name."""
        return {}

    def add(self, block: Block, scores: NDArray[np.float64]) -> None:
        """Raises DataError where a label is no number."""
        try:
            y = self._targets.encode(as_targets(block.y))
        except ValueError as error:
            at, reason = error.args
            raise DataError(f"row {block.rows[at]}: {reason}") from error
        self._n_rows += len(y)
        errors = y - scores[:, 0]
        self._absolute += float(np.abs(errors).sum())
        self._squares += float(np.square(errors).sum())
        if self._shapes is not None:
            self._shapes.add(scores[:, 0], y)

    def answer(self, room_bytes: int) -> RegressionEvaluation:
        n, total = self._n_rows, self._n_rows * self._targets.target.std**2
        if n < 2:
            r2 = math.nan
        elif total > 0:
            r2 = 1.0 - self._squares / total
        else:
            r2 = float(self._squares == 0)
        answer: RegressionEvaluation = {
            "rows": n,
            "r2": r2,
            "mean_absolute_error": self._absolute / n,
            "mean_squared_error": self._squares / n,
            "root_mean_squared_error": math.sqrt(self._squares / n),
        }
        if self._shapes is not None:
            answer["shapes"] = self._shapes.answer()
        return answer


class Outliers:
    """Figures of a model that tells outliers, as blocks of rows and their scores go by."""

    def __init__(self, model: Model, shapes: bool = False) -> None:
        self._model = model
        self._shapes = OutlierShapes() if shapes else None
        self._classes = ClassCounts(model, shapes)
        self._n_rows = self._n_outliers = self._n_labelled = 0

    @staticmethod
    def needs(model: Model, as_json: bool) -> dict[str, int]:
        """What is held, in bytes, by name."""
        return ClassCounts.needs(model, as_json)

    def add(self, block: Block, scores: NDArray[np.float64]) -> None:
        self._n_rows += block.n_rows
        self._n_outliers += int(np.count_nonzero(self._model.class_ids(scores) == 0))
        if self._shapes is not None:
            self._shapes.add(scores[:, 0])
        if is_text(block.y):
            return
        labelled = np.flatnonzero(np.isin(block.y, self._model.classes_))
        if len(labelled):
            self._n_labelled += len(labelled)
            self._classes.add(block.take(labelled), scores[labelled])

    def answer(self, room_bytes: int) -> OutlierEvaluation:
        answer: OutlierEvaluation = {
            "rows": self._n_rows,
            "outliers": self._n_outliers,
            "outlier_share": self._n_outliers / self._n_rows,
        }
        if self._n_labelled:
            answer["labelled"] = self._classes.answer(room_bytes)
        if self._shapes is not None:
            answer["shapes"] = self._shapes.answer()
        return answer
