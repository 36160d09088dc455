"""How good predictions of numbers are, and how many rows are outliers: the figures of an evaluation."""

from __future__ import annotations

import math
from typing import Any, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.errors import DataError
from llsvm.features.labels import is_text
from llsvm.features.targets import as_targets
from llsvm.models.model import Model
from llsvm.scoring.figures import ClassCounts, Evaluation, weights_of
from llsvm.scoring.kept_scores import ScoreStore
from llsvm.scoring.shapes import NumberShapes, OutlierShapes

_NUMBERS_BYTES = 5_000  # of the figures of a regression


class RegressionEvaluation(TypedDict):
    """Of a regression, plain values. r2: 1 − Σ (y − p)² / Σ (y − mean of y)², as scikit-learn has it; NaN of a
    single row. weight: the sum of the rows' weights, where they have some: all else is by them.
    mean_absolute_error, mean_squared_error, root_mean_squared_error: of y − p. Of a quantile q, pinball_loss: the
    mean of q (y − p) above the prediction and (q − 1)(y − p) below it, and coverage: the share of rows with y ≤ p,
    q of a perfect model. shapes: where they are asked for, see ``llsvm.scoring.shapes``."""

    rows: int
    weight: NotRequired[float]
    r2: float
    mean_absolute_error: float
    mean_squared_error: float
    root_mean_squared_error: float
    pinball_loss: NotRequired[float]
    coverage: NotRequired[float]
    shapes: NotRequired[dict[str, Any]]


class OutlierEvaluation(TypedDict):
    """Of a model that tells outliers, plain values. outliers: rows predicted as such, outlier_share: of all, by
    their weights if they have some, whose sum is weight. labelled: of the rows that
    have one of the labels 1 (no outliers) and -1, if there are any. shapes: as of a regression."""

    rows: int
    weight: NotRequired[float]
    outliers: int
    outlier_share: float
    labelled: NotRequired[Evaluation]
    shapes: NotRequired[dict[str, Any]]


class NumberErrors:
    """Figures of a regression, as blocks of rows and their scores go by."""

    def __init__(self, model: Model, store: ScoreStore, shapes: bool = False, thresholds: int = 0) -> None:
        """store, thresholds: for classes only."""
        self._shapes = NumberShapes() if shapes else None
        self._n_rows = 0
        self._weight = self._mean = self._spread = 0.0  # Σ w, mean of y, Σ w (y − mean)²
        self._weighted = False
        self._absolute = self._squares = self._above = self._covered = 0.0
        settings = model.settings
        self._quantile = float(settings["quantile"]) if settings.get("loss") == "quantile" else None

    @staticmethod
    def nbytes(model: Model, as_json: bool, thresholds: int = 0) -> int:
        """See ClassCounts."""
        return _NUMBERS_BYTES

    def add(self, block: Block, scores: NDArray[np.float64]) -> None:
        """Raises DataError where a label is no number."""
        try:
            y = as_targets(block.y)
        except ValueError as error:
            at, reason = error.args
            raise DataError(f"row {block.rows[at] + 1}: {reason}") from error
        self._n_rows += len(y)
        weight, errors = weights_of(block), y - scores[:, 0]
        self._weighted |= block.weight is not None
        self._add_targets(y, weight)
        self._absolute += float((weight * np.abs(errors)).sum())
        self._squares += float((weight * np.square(errors)).sum())
        self._above += float((weight * np.maximum(errors, 0.0)).sum())
        self._covered += float((weight * (errors <= 0)).sum())
        if self._shapes is not None:
            self._shapes.add(scores[:, 0], y)

    def _add_targets(self, y: NDArray[np.float64], weight: NDArray[np.float64]) -> None:
        """By the updates of Chan, Golub and LeVeque (1979)."""
        new = float(weight.sum())
        if new == 0:
            return
        mean, whole = float(weight @ y) / new, self._weight + new
        moved = mean - self._mean
        self._spread += float(weight @ np.square(y - mean)) + moved * moved * self._weight * new / whole
        self._mean += moved * new / whole
        self._weight = whole

    def answer(self, room_bytes: int) -> RegressionEvaluation:
        n, total = self._weight, self._spread
        if self._n_rows < 2:
            r2 = math.nan
        elif total > 0:
            r2 = 1.0 - self._squares / total
        else:
            r2 = float(self._squares == 0)
        answer: RegressionEvaluation = {
            "rows": self._n_rows,
            "r2": r2,
            "mean_absolute_error": self._absolute / n,
            "mean_squared_error": self._squares / n,
            "root_mean_squared_error": math.sqrt(self._squares / n),
        }
        if self._quantile is not None:
            q, below = self._quantile, self._absolute - self._above
            answer |= {
                "pinball_loss": (q * self._above + (1.0 - q) * below) / n,
                "coverage": self._covered / n,
            }
        if self._weighted:
            answer["weight"] = self._weight
        if self._shapes is not None:
            answer["shapes"] = self._shapes.answer()
        return answer


class Outliers:
    """Figures of a model that tells outliers, as blocks of rows and their scores go by."""

    def __init__(self, model: Model, store: ScoreStore, shapes: bool = False, thresholds: int = 0) -> None:
        self._model = model
        self._shapes = OutlierShapes() if shapes else None
        self._classes = ClassCounts(model, store, shapes, thresholds)
        self._weight = self._outlier_weight = 0.0
        self._weighted = False
        self._n_rows = self._n_outliers = self._n_labelled = 0

    @staticmethod
    def nbytes(model: Model, as_json: bool, thresholds: int = 0) -> int:
        """See ClassCounts."""
        return ClassCounts.nbytes(model, as_json, thresholds)

    def add(self, block: Block, scores: NDArray[np.float64]) -> None:
        self._n_rows += block.n_rows
        outliers, weight = self._model.class_ids(scores) == 0, weights_of(block)
        self._n_outliers += int(np.count_nonzero(outliers))
        self._weighted |= block.weight is not None
        self._weight += float(weight.sum())
        self._outlier_weight += float(weight[outliers].sum())
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
            "outlier_share": self._outlier_weight / self._weight,
        }
        if self._weighted:
            answer["weight"] = self._weight
        if self._n_labelled:
            answer["labelled"] = self._classes.answer(room_bytes)
        if self._shapes is not None:
            answer["shapes"] = self._shapes.answer()
        return answer
