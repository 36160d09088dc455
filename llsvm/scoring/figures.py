"""How good predictions of classes are: the figures of an evaluation."""

from __future__ import annotations

from heapq import nsmallest
from typing import Any, NotRequired, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.errors import ModelError
from llsvm.features.labels import is_text, quoted
from llsvm.models.calibration import THRESHOLD
from llsvm.models.model import Model, label_text
from llsvm.scoring.curve import Curve
from llsvm.scoring.kept_scores import HELD_BYTES, KeptScores
from llsvm.scoring.reliability import Bin, Reliability
from llsvm.scoring.shapes import ClassShapes

_CELL_BYTES, _CELL_TEXT_BYTES = 24, 100  # of a confusion's cell: counted, as a list, and as JSON
_UNKNOWN_LISTED = 20


class ClassFigures(TypedDict):
    """Of one class; a ratio without cases is 0. support: rows that have it, predicted: rows predicted as it."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int
    predicted: int


class Confusion(TypedDict):
    """counts: a row per true and a column per predicted class, in the order of labels."""

    labels: list[str]
    counts: list[list[int]]


def most_confused(confusion: Confusion, count: int) -> list[tuple[str, str, int, int]]:
    """(true, predicted, rows, rows of the true class) of the cells off the diagonal with most rows."""
    labels, counts = confusion["labels"], confusion["counts"]
    cells = [(-n, i, j) for i, row in enumerate(counts) for j, n in enumerate(row) if n and i != j]
    return [(labels[i], labels[j], -n, sum(counts[i])) for n, i, j in nsmallest(count, cells)]


class Evaluation(TypedDict):
    """Of classes, plain values. accuracy: correct / rows. macro_f1: the mean of the classes'. balanced_accuracy:
    the mean recall of the classes that rows have. matthews_corrcoef: the correlation of true and predicted classes,
    of several as Gorodkin 2004 has it. roc_auc, average_precision: of two classes, where rows have both, the areas
    under the ROC curve and under that of precision against recall, by the scores. unknown_rows: whose
    label the model has never seen, which count as wrong; unknown_labels: up to 20 of those with their counts. Where
    the model gives probabilities, over the rows whose label it knows: log_loss: the mean of −log p of the true
    class; brier_score: the mean of (1 − p)² of the true class, of more than two classes Σ (p_k − [k is true])²;
    reliability: see ``llsvm.scoring.reliability``. threshold: as the model has it, if one was chosen. shapes: where
    they are asked for, see ``llsvm.scoring.shapes``."""

    rows: int
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
    shapes: NotRequired[dict[str, Any]]


class ClassCounts:
    """Figures of a classifier, as blocks of rows and their scores go by."""

    def __init__(self, model: Model, shapes: bool = False) -> None:
        self._model = model
        self._shapes = ClassShapes(len(model.classes_)) if shapes else None
        self._counts = np.zeros((len(model.classes_),) * 2, np.int64)
        self._unknown: dict[str, int] = {}
        self._n_rows = 0
        self._log_loss = self._brier = 0.0  # sums
        self._reliability = Reliability()
        self._scores = KeptScores() if len(model.classes_) == 2 else None

    @staticmethod
    def needs(model: Model, as_json: bool) -> dict[str, int]:
        """What is held, in bytes, by name."""
        cells = len(model.classes_) ** 2
        found = {"confusion of classes": cells * (_CELL_BYTES + as_json * _CELL_TEXT_BYTES)}
        return found | ({"scores to be ranked": 2 * HELD_BYTES} if len(model.classes_) == 2 else {})

    def add(self, block: Block, scores: NDArray[np.float64]) -> None:
        model = self._model
        self._n_rows += block.n_rows
        true, known = _known_classes(model, block.y)
        scores_known, true_known = scores[known], true[known]
        predicted = model.class_ids(scores_known)
        np.add.at(self._counts, (true_known, predicted), 1)
        if self._scores is not None:  # methods with weights for each of two classes have two scores
            score = scores_known[:, -1] - scores_known[:, 0] if scores.shape[1] > 1 else scores_known[:, 0]
            self._scores.add(score, true_known == 1)
        if self._shapes is not None:
            shown = model.class_scores(scores_known) if self._scores is None else score
            self._shapes.add(shown, true_known, predicted)
        for label, count in zip(*np.unique(block.y[~known], return_counts=True), strict=True):
            text = label_text(label)
            if text in self._unknown or len(self._unknown) < _UNKNOWN_LISTED:
                self._unknown[text] = self._unknown.get(text, 0) + int(count)
        if model.has_probabilities:
            self._add_probabilities(model.probabilities(scores_known), true_known)

    def _add_probabilities(self, p: NDArray[np.float64], true: NDArray[np.intp]) -> None:
        of_true = p[np.arange(len(p)), true]
        self._log_loss -= float(np.log(np.maximum(of_true, np.finfo(np.float64).eps)).sum())
        squares = (1.0 - of_true) ** 2
        if p.shape[1] > 2:
            squares += (p * p).sum(axis=1) - of_true * of_true
        self._brier += float(squares.sum())
        self._reliability.add(p, true)

    def answer(self, room_bytes: int) -> Evaluation:
        """room_bytes: that may be taken to rank the rows."""
        answer = _figures(self._model, self._counts, self._n_rows, self._unknown)
        n_known = int(self._counts.sum())
        if self._model.has_probabilities and n_known:
            answer |= {"log_loss": self._log_loss / n_known, "brier_score": self._brier / n_known}
            answer["reliability"] = self._reliability.answer()
        shapes = {} if self._shapes is None or not n_known else self._shapes.answer()
        if self._scores is not None and self._counts.sum(axis=1).all():
            others, positives = self._counts.sum(axis=1).tolist()
            curve = None if self._shapes is None else Curve(positives, others)
            ranked = self._scores.ranked(room_bytes, curve)
            answer |= {"roc_auc": ranked.roc_auc, "average_precision": ranked.average_precision}
            shapes |= {} if curve is None else {"curve": curve.answer()}
        if self._scores is not None:
            self._scores.close()
        if shapes:
            answer["shapes"] = shapes
        if THRESHOLD in self._model.extra:
            answer["threshold"] = self._model.extra[THRESHOLD]
        return answer


def _known_classes(model: Model, y: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Class ids (n,) of the labels, and which (n,) the model knows; the ids of the others mean nothing."""
    text_model, text_data = is_text(model.classes_), is_text(y)
    if text_model != text_data:
        kinds = ("text", "numbers") if text_model else ("numbers", "text")
        raise ModelError(
            f"the model's labels are {kinds[0]} ({quoted(model.classes_[0])}), the data's {kinds[1]}"
        )
    if text_data:  # one by one: as an array of text all rows would be as long as the longest label
        known = {label: i for i, label in enumerate(model.classes_.tolist())}
        ids = np.fromiter((known.get(label, -1) for label in y), np.intp, len(y))
        return ids, ids >= 0
    ids = np.minimum(np.searchsorted(model.classes_, y), len(model.classes_) - 1)
    return ids, model.classes_[ids] == y


def _figures(model: Model, counts: NDArray[np.int64], n_rows: int, unknown: dict[str, int]) -> Evaluation:
    hits, support, predicted = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    precision = hits / np.maximum(predicted, 1)
    recall = hits / np.maximum(support, 1)
    f1 = 2 * hits / np.maximum(predicted + support, 1)
    columns = {
        "label": np.array(model.labels, dtype=object),
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "support": support,
        "predicted": predicted,
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return {
        "rows": n_rows,
        "correct": int(hits.sum()),
        "accuracy": float(hits.sum() / n_rows),
        "macro_f1": float(f1.mean()),
        "balanced_accuracy": float(recall[support > 0].mean()) if (support > 0).any() else 0.0,
        "matthews_corrcoef": _correlation(counts),
        "classes": [cast(ClassFigures, dict(zip(columns, row, strict=True))) for row in rows],
        "confusion": {"labels": model.labels, "counts": counts.tolist()},
        "unknown_rows": n_rows - int(counts.sum()),
        "unknown_labels": unknown,
    }


def _correlation(counts: NDArray[np.int64]) -> float:
    """Of true classes (rows) and predicted ones; 0 where either does not vary."""
    n, hits = float(counts.sum()), float(np.trace(counts))
    true, predicted = counts.sum(axis=1).astype(np.float64), counts.sum(axis=0).astype(np.float64)
    spread = (n * n - true @ true) * (n * n - predicted @ predicted)
    return float((n * hits - true @ predicted) / np.sqrt(spread)) if spread > 0 else 0.0
