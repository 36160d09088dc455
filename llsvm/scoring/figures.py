"""Figures of an evaluation: how good predictions of classes and of numbers are, and how many rows are outliers."""

from __future__ import annotations

import math
from heapq import nsmallest
from typing import Any, NotRequired, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.errors import ModelError
from llsvm.features.labels import is_text, positions, quoted
from llsvm.models.decisions import THRESHOLD
from llsvm.models.model import Model
from llsvm.models.record import label_text
from llsvm.models.tables import known_labels
from llsvm.scoring.metrics import (
    SCORE_BINS,
    Bin,
    ClassShapes,
    Histogram,
    Moments,
    NumberErrors,
    Numbers,
    NumberShapes,
    PrecisionRecall,
    ProbabilityErrors,
    matthews_corrcoef,
    pairwise_sum,
    targets_of,
    weights_of,
)
from llsvm.scoring.ranking import (
    Areas,
    Curve,
    RankingFigure,
    ScoreSpool,
    SpoolFile,
    ThresholdFigures,
    Thresholds,
)

_CELL_BYTES, _CELL_TEXT_BYTES = 24, 100  # of a confusion's cell: counted, as a list, and as JSON
_CLASS_BYTES, _THRESHOLD_BYTES = 1000, 1000  # of what there is of each, and as JSON
_FIGURES_BYTES, _NUMBERS_BYTES = 20_000, 5_000  # of all else, and of the figures of a regression
_UNKNOWN_LISTED = 20


class ClassFigures(TypedDict):
    """Figures of one class; a ratio without cases is 0. support: rows that have it, predicted: rows predicted as
    it; where rows have weights, the sums of these."""

    label: str
    precision: float
    recall: float
    f1: float
    support: float
    predicted: float


class Confusion(TypedDict):
    """Confusion of classes. counts: a row per true and a column per predicted class, in the order of labels; where
    rows have weights, the sums of these."""

    labels: list[str]
    counts: list[list[float]]


def most_confused(confusion: Confusion, count: int) -> list[tuple[str, str, float, float]]:
    """Return (true, predicted, rows, rows of the true class) of the cells off the diagonal with most rows."""
    labels, counts = confusion["labels"], confusion["counts"]
    cells = [(-n, i, j) for i, row in enumerate(counts) for j, n in enumerate(row) if n and i != j]
    return [(labels[i], labels[j], -n, sum(counts[i])) for n, i, j in nsmallest(count, cells)]


class Evaluation(TypedDict):
    """Evaluation of classes, plain values. rows, correct, unknown_rows, unknown_labels: counts of rows. weight: the
    sum of the rows' weights, where they have some: all else is by them. accuracy: the share of the correct rows.
    macro_f1: the mean of the classes'. balanced_accuracy: the mean recall of the classes that rows have.
    matthews_corrcoef: the correlation of true and predicted classes, of several as Gorodkin 2004 has it. roc_auc,
    average_precision: of two classes, where rows have both, the areas under the ROC curve and under that of
    precision against recall, by the scores. unknown_rows: whose label the model has never seen, which count as
    wrong; unknown_labels: up to 20 of those with their counts. Where the model gives probabilities, over the rows
    whose label it knows: log_loss: the mean of −log p of the true class; brier_score: the mean of (1 − p)² of the
    true class, of more than two classes Σ (p_k − [k is true])²; reliability: see Bin. threshold: as the model has
    it, if one was chosen. shapes: where they are asked for, see ``llsvm.scoring.metrics``. thresholds: likewise,
    see ThresholdFigures."""

    rows: int
    weight: NotRequired[float]
    correct: int
    accuracy: float
    macro_f1: float
    balanced_accuracy: float
    matthews_corrcoef: float
    classes: list[ClassFigures]
    confusion: Confusion
    unknown_rows: int
    unknown_labels: dict[str, int]
    roc_auc: NotRequired[float]
    average_precision: NotRequired[float]
    log_loss: NotRequired[float]
    brier_score: NotRequired[float]
    reliability: NotRequired[list[Bin]]
    threshold: NotRequired[dict[str, Any]]
    thresholds: NotRequired[list[ThresholdFigures]]
    shapes: NotRequired[dict[str, Any]]


class RegressionEvaluation(TypedDict):
    """Evaluation of a regression, plain values. r2: 1 − Σ (y − p)² / Σ (y − mean of y)², as scikit-learn has it;
    NaN of a single row. weight: the sum of the rows' weights, where they have some: all else is by them.
    mean_absolute_error, mean_squared_error, root_mean_squared_error: of y − p. Of a quantile q, pinball_loss: the
    mean of q (y − p) above the prediction and (q − 1)(y − p) below it, and coverage: the share of rows with y ≤ p,
    q of a perfect model. shapes: where they are asked for, see ``llsvm.scoring.metrics``."""

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
    """Evaluation of a model that tells outliers, plain values. outliers: rows predicted as such, outlier_share: of
    all, by their weights if they have some, whose sum is weight. labelled: of the rows that have one of the labels
    1 (no outliers) and -1, if there are any. shapes: as of a regression."""

    rows: int
    weight: NotRequired[float]
    outliers: int
    outlier_share: float
    labelled: NotRequired[Evaluation]
    shapes: NotRequired[dict[str, Any]]


class Evaluator:
    """Evaluation of predictions, summed up over blocks of rows; here what all kinds of labels have.

    n_rows: how many rows there are. weight: the sum of their weights."""

    def __init__(self) -> None:
        self.n_rows, self.weight = 0, 0.0
        self._weighted = False  # have the rows weights?

    def add(self, block: Block, scores: Numbers) -> None:
        """Add rows and their scores, (n, k). Raises ModelError, DataError for labels that the model cannot have."""
        weight = weights_of(block)
        self.n_rows += block.n_rows
        self.weight += float(weight.sum())
        self._weighted |= block.weight is not None
        self._add(block, scores, weight)

    def _add(self, block: Block, scores: Numbers, weight: Numbers) -> None:
        """Add rows to the figures of a kind of labels."""

    def answer(self, room_bytes: int) -> Any:
        """Return plain values. room_bytes: that may be taken to rank the rows."""
        return {}


class ClassEvaluator(Evaluator):
    """Evaluation of a classifier."""

    def __init__(self, model: Model, store: SpoolFile, shapes: bool = False, thresholds: int = 0) -> None:
        """Begin with no rows. store: where scores of two classes are kept. thresholds: see Thresholds; 0: none."""
        super().__init__()
        self._model = model
        self._thresholds = thresholds
        self._shapes = ClassShapes(len(model.classes_)) if shapes else None
        self._counts = np.zeros((len(model.classes_),) * 2)  # Σ weight
        self._unknown: dict[str, int] = {}
        self._n_correct = self._n_known = self._n_unknown = 0
        self._probabilities = ProbabilityErrors()
        self._scores = ScoreSpool(store) if len(model.classes_) == 2 else None

    @staticmethod
    def nbytes(model: Model, as_json: bool, thresholds: int = 0) -> int:
        """Return what is held beside the store."""
        k = len(model.classes_)
        cells = k * k * (_CELL_BYTES + as_json * _CELL_TEXT_BYTES)
        return _FIGURES_BYTES + cells + k * _CLASS_BYTES + thresholds * _THRESHOLD_BYTES

    def _add(self, block: Block, scores: Numbers, weight: Numbers) -> None:
        model = self._model
        true, known = _known_classes(model, block.y)
        scores_known, true_known, weight_known = scores[known], true[known], weight[known]
        predicted = model.class_ids(scores_known)
        self._n_known += len(predicted)
        self._n_correct += int(np.count_nonzero(predicted == true_known))
        np.add.at(self._counts, (true_known, predicted), weight_known)
        if self._scores is not None:  # methods with weights for each of two classes have two scores
            score = scores_known[:, -1] - scores_known[:, 0] if scores.shape[1] > 1 else scores_known[:, 0]
            signed = np.where(true_known == 1, weight_known, -weight_known).astype(np.float32)
            self._scores.add(score[signed != 0], signed[signed != 0])
        if self._shapes is not None:
            shown = model.class_scores(scores_known) if self._scores is None else score
            self._shapes.add(shown, true_known, predicted)
        unknown = block.y[~known & (weight > 0)]
        self._n_unknown += len(unknown)
        for label, count in zip(*np.unique(unknown, return_counts=True), strict=True):
            text = label_text(label)
            if text in self._unknown or len(self._unknown) < _UNKNOWN_LISTED:
                self._unknown[text] = self._unknown.get(text, 0) + int(count)
        if model.has_probabilities:
            self._probabilities.add(model.probabilities(scores_known), true_known, weight_known)

    def answer(self, room_bytes: int) -> Evaluation:
        """Return the evaluation."""
        counts = self._counts
        answer, known = self._of_counts(), float(counts.sum())
        if self._model.has_probabilities and known:
            answer |= cast(Evaluation, self._probabilities.answer(known))
        shapes = {} if self._shapes is None or not self._n_known else self._shapes.answer()
        if self._scores is not None and counts.sum(axis=1).all():
            others, positives = counts.sum(axis=1).tolist()
            areas, figures = Areas(), list[RankingFigure]()
            curve, levels = Curve(positives, others), Thresholds(self._thresholds, positives, others)
            figures += [] if self._shapes is None else [curve]
            figures += [levels] if self._thresholds else []
            self._scores.rank(room_bytes, areas, *figures)
            answer |= {"roc_auc": areas.roc_auc, "average_precision": areas.average_precision}
            shapes |= {} if self._shapes is None else {"curve": curve.answer()}
            if self._thresholds:
                answer["thresholds"] = levels.answer()
        if shapes:
            answer["shapes"] = shapes
        if THRESHOLD in self._model.extra:
            answer["threshold"] = self._model.extra[THRESHOLD]
        return answer

    def _of_counts(self) -> Evaluation:
        counts = self._counts
        of_classes = PrecisionRecall(np.diag(counts), counts.sum(axis=1), counts.sum(axis=0))
        plain = np.float64 if self._weighted else np.int64
        columns = {
            "label": np.array(self._model.labels, dtype=object),
            "precision": of_classes.precision,
            "recall": of_classes.recall,
            "f1": of_classes.f1,
            "support": counts.sum(axis=1).astype(plain),
            "predicted": of_classes.predicted.astype(plain),
        }
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        answer: Evaluation = {
            "rows": self.n_rows,
            "correct": self._n_correct,
            "accuracy": float(of_classes.hits.sum() / self.weight),
            "macro_f1": float(of_classes.f1.mean()),
            "balanced_accuracy": of_classes.balanced_accuracy if counts.any() else 0.0,
            "matthews_corrcoef": matthews_corrcoef(counts),
            "classes": [cast(ClassFigures, dict(zip(columns, row, strict=True))) for row in rows],
            "confusion": {"labels": self._model.labels, "counts": counts.astype(plain).tolist()},
            "unknown_rows": self._n_unknown,
            "unknown_labels": self._unknown,
        }
        if self._weighted:
            answer["weight"] = self.weight
        return answer


class NumberEvaluator(Evaluator):
    """Evaluation of a regression."""

    def __init__(self, model: Model, store: SpoolFile, shapes: bool = False, thresholds: int = 0) -> None:
        """Begin with no rows. store, thresholds: for classes only."""
        super().__init__()
        self._shapes = NumberShapes() if shapes else None
        self._targets, self._errors = Moments(), NumberErrors(pairwise_sum)
        self._covered = 0.0
        settings = model.settings
        self._quantile = float(settings["quantile"]) if settings.get("loss") == "quantile" else None

    @staticmethod
    def nbytes(model: Model, as_json: bool, thresholds: int = 0) -> int:
        """Return what is held."""
        return _NUMBERS_BYTES

    def _add(self, block: Block, scores: Numbers, weight: Numbers) -> None:
        y = targets_of(block)
        errors = y - scores[:, 0]
        self._targets.add(y, weight)
        self._errors.add(errors, weight)
        self._covered += pairwise_sum(weight, errors <= 0)
        if self._shapes is not None:
            self._shapes.add(scores[:, 0], y)

    def answer(self, room_bytes: int) -> RegressionEvaluation:
        """Return the evaluation."""
        errors = self._errors
        answer: RegressionEvaluation = {
            "rows": self.n_rows,
            "r2": math.nan if self.n_rows < 2 else errors.r2(self._targets.squares),
            "mean_absolute_error": errors.mean_absolute_error,
            "mean_squared_error": errors.mean_squared_error,
            "root_mean_squared_error": math.sqrt(errors.mean_squared_error),
        }
        if self._quantile is not None:
            answer["pinball_loss"] = errors.pinball_loss(self._quantile)
            answer["coverage"] = self._covered / self.weight
        if self._weighted:
            answer["weight"] = self.weight
        if self._shapes is not None:
            answer["shapes"] = self._shapes.answer()
        return answer


class OutlierEvaluator(Evaluator):
    """Evaluation of a model that tells outliers."""

    def __init__(self, model: Model, store: SpoolFile, shapes: bool = False, thresholds: int = 0) -> None:
        """Begin with no rows. store, thresholds: for the rows that have labels."""
        super().__init__()
        self._model = model
        self._histogram = Histogram() if shapes else None
        self._labelled = ClassEvaluator(model, store, shapes, thresholds)
        self._n_outliers, self._outlier_weight = 0, 0.0

    @staticmethod
    def nbytes(model: Model, as_json: bool, thresholds: int = 0) -> int:
        """Return what is held beside the store."""
        return ClassEvaluator.nbytes(model, as_json, thresholds)

    def _add(self, block: Block, scores: Numbers, weight: Numbers) -> None:
        outliers = self._model.class_ids(scores) == 0
        self._n_outliers += int(np.count_nonzero(outliers))
        self._outlier_weight += float(weight[outliers].sum())
        if self._histogram is not None:
            self._histogram.add(scores[:, 0])
        if is_text(block.y):
            return
        labelled = np.flatnonzero(np.isin(block.y, self._model.classes_))
        if len(labelled):
            self._labelled.add(block.take(labelled), scores[labelled])

    def answer(self, room_bytes: int) -> OutlierEvaluation:
        """Return the evaluation."""
        answer: OutlierEvaluation = {
            "rows": self.n_rows,
            "outliers": self._n_outliers,
            "outlier_share": self._outlier_weight / self.weight,
        }
        if self._weighted:
            answer["weight"] = self.weight
        if self._labelled.n_rows:
            answer["labelled"] = self._labelled.answer(room_bytes)
        if self._histogram is not None:
            answer["shapes"] = {"scores": self._histogram.answer(SCORE_BINS)}
        return answer


def _known_classes(model: Model, y: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return class ids (n,) of the labels, and which (n,) the model knows; the ids of the others mean nothing."""
    classes = known_labels(model)
    order = np.argsort(classes, kind="stable")
    ids = positions(y, classes[order])
    if ids is None:
        kinds = ("numbers", "text") if is_text(y) else ("text", "numbers")
        raise ModelError(f"the model's labels are {kinds[0]} ({quoted(classes[0])}), the data's {kinds[1]}")
    return order[ids], ids >= 0
