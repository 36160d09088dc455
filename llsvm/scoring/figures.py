"""How good predictions are: the figures of an evaluation."""

from __future__ import annotations

from functools import partial
from typing import Any, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from llsvm.data.source import BlockSource
from llsvm.errors import ModelError
from llsvm.features.labels import is_text, quoted
from llsvm.models.model import Model, label_text
from llsvm.scoring.room import max_block_bytes, row_bytes
from llsvm.scoring.scores import at_least_one, score_blocks

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


class Evaluation(TypedDict):
    """Plain values. accuracy: correct / rows. macro_f1: the mean of the classes'. unknown_rows: whose label the
    model has never seen, which count as wrong; unknown_labels: up to 20 of those labels with their counts."""

    rows: int
    correct: int
    accuracy: float
    macro_f1: float
    classes: list[ClassFigures]
    confusion: Confusion
    unknown_rows: int
    unknown_labels: dict[str, int]


def measure(
    model: Model,
    source: BlockSource,
    *,
    memory_limit: str | int | None = None,
    as_json: bool = False,
) -> Evaluation:
    """How well ``model`` predicts the labels of ``source``.

    as_json: the answer is going to be written as JSON, whose text takes more memory than it does.
    Raises as ``predict_file``, and ModelError where the data's labels are text and the model's are numbers,
    or the other way round.
    """
    n_classes, each_bytes = len(model.classes_), row_bytes(model)
    cells = n_classes * n_classes
    more = {
        "confusion of classes": cells * (_CELL_BYTES + as_json * _CELL_TEXT_BYTES),
        "scores of a row": each_bytes,
    }
    grow = partial(max_block_bytes, model, source, memory_limit, more)
    max_bytes = grow()
    counts = np.zeros((n_classes, n_classes), np.int64)
    unknown: dict[str, int] = {}
    n_rows = 0
    for block, values in score_blocks(model, source, max_bytes, each_bytes, grow):
        n_rows += block.n_rows
        predicted = model.class_ids(values)
        true, known = _known_classes(model, block.y)
        np.add.at(counts, (true[known], predicted[known]), 1)
        for label, count in zip(*np.unique(block.y[~known], return_counts=True), strict=True):
            text = label_text(label)
            if text in unknown or len(unknown) < _UNKNOWN_LISTED:
                unknown[text] = unknown.get(text, 0) + int(count)
    at_least_one(n_rows, source)
    return _figures(model, counts, n_rows, unknown)


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
        "classes": [cast(ClassFigures, dict(zip(columns, row, strict=True))) for row in rows],
        "confusion": {"labels": model.labels, "counts": counts.tolist()},
        "unknown_rows": n_rows - int(counts.sum()),
        "unknown_labels": unknown,
    }
