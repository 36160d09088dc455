"""How good predictions of classes are: the figures of an evaluation."""

from __future__ import annotations

from heapq import nsmallest
from typing import Any, NotRequired, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.errors import ModelError
from llsvm.features.labels import is_text, positions, quoted
from llsvm.models.calibration import THRESHOLD
from llsvm.models.model import Model
from llsvm.models.record import label_text
from llsvm.models.tables import known_labels
from llsvm.scoring.curve import Curve
from llsvm.scoring.kept_scores import KeptScores, ScoreStore
from llsvm.scoring.reliability import Bin, Reliability
from llsvm.scoring.shapes import ClassShapes
from llsvm.scoring.thresholds import ThresholdFigures, Thresholds

_CELL_BYTES, _CELL_TEXT_BYTES = 24, 100  # of a confusion's cell: counted, as a list, and as JSON
_CLASS_BYTES, _THRESHOLD_BYTES = 1000, 1000  # of what there is of each, and as JSON
_FIGURES_BYTES = 20_000  # of all else
_UNKNOWN_LISTED = 20


class ClassFigures(TypedDict):
    """Of one class; a ratio without cases is 0. support: rows that have it, predicted: rows predicted as it; where
    rows have weights, the sums of these."""

    label: str
    precision: float
    recall: float
    f1: float
    support: float
    predicted: float


class Confusion(TypedDict):
    """counts: a row per true and a column per predicted class, in the order of labels; where rows have
    weights, the sums of these."""

    labels: list[str]
    counts: list[list[float]]


def most_confused(confusion: Confusion, count: int) -> list[tuple[str, str, float, float]]:
    """(true, predicted, rows, rows of the true class) of the cells off the diagonal with most rows."""
    labels, counts = confusion["labels"], confusion["counts"]
    cells = [(-n, i, j) for i, row in enumerate(counts) for j, n in enumerate(row) if n and i != j]
    return [(labels[i], labels[j], -n, sum(counts[i])) for n, i, j in nsmallest(count, cells)]


class Evaluation(TypedDict):
    """Of classes, plain values. rows, correct, unknown_rows, unknown_labels: counts of rows. weight: the sum of the
    rows' weights, where they have some: all else is by them. accuracy: the share of the correct rows. macro_f1:
    the mean of the classes'. balanced_accuracy:
    the mean recall of the classes that rows have. matthews_corrcoef: the correlation of true and predicted classes,
    of several as Gorodkin 2004 has it. roc_auc, average_precision: of two classes, where rows have both, the areas
    under the ROC curve and under that of precision against recall, by the scores. unknown_rows: whose
    label the model has never seen, which count as wrong; unknown_labels: up to 20 of those with their counts. Where
    the model gives probabilities, over the rows whose label it knows: log_loss: the mean of −log p of the true
    class; brier_score: the mean of (1 − p)² of the true class, of more than two classes Σ (p_k − [k is true])²;
    reliability: see ``llsvm.scoring.reliability``. threshold: as the model has it, if one was chosen. shapes: where
    they are asked for, see ``llsvm.scoring.shapes``. thresholds: likewise, see ``llsvm.scoring.thresholds``."""

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


class ClassCounts:
    """Figures of a classifier, as blocks of rows and their scores go by."""

    def __init__(self, model: Model, store: ScoreStore, shapes: bool = False, thresholds: int = 0) -> None:
        """store: where scores of two classes are kept. thresholds: see Thresholds; 0: none."""
        self._model = model
        self._thresholds = thresholds
        self._shapes = ClassShapes(len(model.classes_)) if shapes else None
        self._counts = np.zeros((len(model.classes_),) * 2)  # Σ weight
        self._unknown: dict[str, int] = {}
        self._n_rows = self._n_correct = self._n_known = self._n_unknown = 0
        self._weight = 0.0
        self._weighted = False
        self._log_loss = self._brier = 0.0  # sums
        self._reliability = Reliability()
        self._scores = KeptScores(store) if len(model.classes_) == 2 else None

    @staticmethod
    def nbytes(model: Model, as_json: bool, thresholds: int = 0) -> int:
        """What is held beside the store."""
        k = len(model.classes_)
        cells = k * k * (_CELL_BYTES + as_json * _CELL_TEXT_BYTES)
        return _FIGURES_BYTES + cells + k * _CLASS_BYTES + thresholds * _THRESHOLD_BYTES

    def add(self, block: Block, scores: NDArray[np.float64]) -> None:
        model = self._model
        self._n_rows += block.n_rows
        true, known = _known_classes(model, block.y)
        weight = weights_of(block)
        self._weighted |= block.weight is not None
        self._weight += float(weight.sum())
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
            self._add_probabilities(model.probabilities(scores_known), true_known, weight_known)

    def _add_probabilities(
        self, p: NDArray[np.float64], true: NDArray[np.intp], weight: NDArray[np.float64]
    ) -> None:
        of_true = p[np.arange(len(p)), true]
        self._log_loss -= float((weight * np.log(np.maximum(of_true, np.finfo(np.float64).eps))).sum())
        squares = (1.0 - of_true) ** 2
        if p.shape[1] > 2:
            squares += (p * p).sum(axis=1) - of_true * of_true
        self._brier += float((weight * squares).sum())
        self._reliability.add(p, true, weight)

    def answer(self, room_bytes: int) -> Evaluation:
        """room_bytes: that may be taken to rank the rows."""
        answer = self._figures()
        known = float(self._counts.sum())
        if self._model.has_probabilities and known:
            answer |= {"log_loss": self._log_loss / known, "brier_score": self._brier / known}
            answer["reliability"] = self._reliability.answer()
        shapes = {} if self._shapes is None or not self._n_known else self._shapes.answer()
        if self._scores is not None and self._counts.sum(axis=1).all():
            others, positives = self._counts.sum(axis=1).tolist()
            curve = None if self._shapes is None else Curve(positives, others)
            levels = Thresholds(self._thresholds, positives, others) if self._thresholds else None
            followers = [each for each in (curve, levels) if each is not None]
            ranked = self._scores.ranked(room_bytes, followers)
            answer |= {"roc_auc": ranked.roc_auc, "average_precision": ranked.average_precision}
            shapes |= {} if curve is None else {"curve": curve.answer()}
            if levels is not None:
                answer["thresholds"] = levels.answer()
        if shapes:
            answer["shapes"] = shapes
        if THRESHOLD in self._model.extra:
            answer["threshold"] = self._model.extra[THRESHOLD]
        return answer

    def _figures(self) -> Evaluation:
        counts = self._counts
        hits, support, predicted = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
        recall = _ratio(hits, support)
        f1 = _ratio(2 * hits, predicted + support)
        plain = np.float64 if self._weighted else np.int64
        columns = {
            "label": np.array(self._model.labels, dtype=object),
            "precision": _ratio(hits, predicted),
            "recall": recall,
            "f1": f1,
            "support": support.astype(plain),
            "predicted": predicted.astype(plain),
        }
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        answer: Evaluation = {
            "rows": self._n_rows,
            "correct": self._n_correct,
            "accuracy": float(hits.sum() / self._weight),
            "macro_f1": float(f1.mean()),
            "balanced_accuracy": float(recall[support > 0].mean()) if (support > 0).any() else 0.0,
            "matthews_corrcoef": _correlation(counts),
            "classes": [cast(ClassFigures, dict(zip(columns, row, strict=True))) for row in rows],
            "confusion": {"labels": self._model.labels, "counts": counts.astype(plain).tolist()},
            "unknown_rows": self._n_unknown,
            "unknown_labels": self._unknown,
        }
        if self._weighted:
            answer["weight"] = self._weight
        return answer


def weights_of(block: Block) -> NDArray[np.float64]:
    """(n,) what the rows of a block count for."""
    return np.ones(block.n_rows) if block.weight is None else block.weight.astype(np.float64)


def _known_classes(model: Model, y: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Class ids (n,) of the labels, and which (n,) the model knows; the ids of the others mean nothing."""
    classes = known_labels(model)
    order = np.argsort(classes, kind="stable")
    ids = positions(y, classes[order])
    if ids is None:
        kinds = ("numbers", "text") if is_text(y) else ("text", "numbers")
        raise ModelError(f"the model's labels are {kinds[0]} ({quoted(classes[0])}), the data's {kinds[1]}")
    return order[ids], ids >= 0


def _ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each class; 0 where there is nothing."""
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)


def _correlation(counts: NDArray[np.float64]) -> float:
    """Of true classes (rows) and predicted ones; 0 where either does not vary."""
    n, hits = float(counts.sum()), float(np.trace(counts))
    true, predicted = counts.sum(axis=1), counts.sum(axis=0)
    spread = (n * n - true @ true) * (n * n - predicted @ predicted)
    return float((n * hits - true @ predicted) / np.sqrt(spread)) if spread > 0 else 0.0
