"""Scoring of data larger than memory: predictions to a stream, and how good they are.

An svmlight row begins with a label; where it is not known, any number does (a dummy such as 0), and
predictions ignore it.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.data import open_source
from llsvm.data.source import BlockSource
from llsvm.errors import DataError, LongRowError, ModelError
from llsvm.features.labels import is_text, quoted
from llsvm.files.inputs import open_binary
from llsvm.memory.budget import MemoryBudget
from llsvm.memory.process import RUNTIME_BYTES, resident_bytes
from llsvm.memory.sizes import memory_limit_bytes
from llsvm.models.model import Model, label_text
from llsvm.objective.rounding import keep_double

DEFAULT_MEMORY = "50%"
_LARGEST_BLOCK_BYTES = 8 << 20
_SMALLEST_BLOCK_BYTES = 256 << 10
_BLOCKS_HELD = 8  # five in the source, one being scored, its scores and its lines of text:
_SCORE_BLOCKS = 2
_LABEL_BYTES = 200  # of a row: its predicted class and its line without scores
_SCORE_TEXT_BYTES = 160  # of a score as a number and as text
_VOTE_BYTES = 48  # of a row and class, where pairs of classes vote
_CELL_BYTES, _CELL_TEXT_BYTES = 24, 100  # of a confusion's cell: counted, as a list, and as JSON
_HEADER_FACTOR = 8  # a model's header as objects, over its text
_UNKNOWN_LISTED = 20


def zero_based(model: Model) -> str:
    """How the svmlight files that ``model`` scores count their columns, as ``open_source`` wants it."""
    return "yes" if model.index_base == 0 else "no"


def block_bytes(
    n_weights: int,
    n_classes: int,
    memory_limit: str | int | None = None,
    reader_bytes: int = 0,
    more: Mapping[str, int] | None = None,
    at_least: int = _SMALLEST_BLOCK_BYTES,
) -> int:
    """Bytes a block may have while a model of ``n_weights`` weights scores, under a limit on the process.

    memory_limit: as Settings has it; None for "50%". reader_bytes: see SourceInfo. more: what else is held, in
    bytes, by name. at_least: bytes that a block must have. Raises BudgetError, UsageError.
    """
    limit = memory_limit_bytes(DEFAULT_MEMORY if memory_limit is None else memory_limit)
    # a model of several classes may be held twice: as it was made, and with each feature's weights together
    model_bytes = 8 * n_weights * (2 if n_classes > 2 else 1)
    budget = MemoryBudget(limit, 0)
    # the model may be resident already; what else the process holds counts where it exceeds our own runtime
    fixed = {
        "interpreter and libraries": max(RUNTIME_BYTES, resident_bytes() - model_bytes),
        "model": model_bytes,
    }
    if reader_bytes:
        fixed["the file format's library"] = reader_bytes
    fixed |= more or {}
    budget.require(fixed | {"blocks of rows": _BLOCKS_HELD * at_least})
    return min(max(_LARGEST_BLOCK_BYTES, at_least), (limit - sum(fixed.values())) // _BLOCKS_HELD)


def require_room(path: str | os.PathLike[str], memory_limit: str | int | None = None) -> None:
    """Raise BudgetError unless the model in the file ``path`` fits the limit once it is unpacked, by what its
    directory declares; nothing is unpacked for that. What is wrong with the file is left to whoever loads it."""
    try:
        with open_binary(os.fspath(path)) as stream:
            parts = {part.filename: part.file_size for part in zipfile.ZipFile(stream).infolist()}
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, DataError):
        return
    texts = sum(size for name, size in parts.items() if not name.endswith(".npy"))
    arrays = sum(parts.values()) - texts + parts.get("coef.npy", 0)  # these are held twice where they score
    limit = memory_limit_bytes(DEFAULT_MEMORY if memory_limit is None else memory_limit)
    MemoryBudget(limit, 0).require(
        {
            "interpreter and libraries": RUNTIME_BYTES,
            "model": arrays + _HEADER_FACTOR * texts,
            "blocks of rows": _BLOCKS_HELD * _SMALLEST_BLOCK_BYTES,
        }
    )


def open_for(model: Model, data: Any, need_label: bool = False, **options: Any) -> BlockSource:
    """The data to score, read as the model's training data was: same columns, categories, positive label, and
    values rounded to 32-bit floats or not.

    options: what ``open_source`` takes, to read it otherwise.
    """
    options.setdefault("zero_based", zero_based(model))
    table, label = model.extra.get("table"), None
    told: dict[str, Any] = {}
    if table is None:
        label = model.settings.get("label")
        if options.get("options", {}).get("label") or (label or "").endswith(".npy"):
            label = (
                None  # another is asked for; the file that had the labels of the training data has no others
            )
        told = {name: model.settings.get(name) for name in ("features", "missing")}
        if model.feature_names is not None:
            table = _numbers_table(model)
    opened = partial(
        open_source,
        data,
        positive=model.extra.get("positive"),
        table=table,
        need_label=need_label,
        **options,
    )
    source = opened(told={**told, "label": label if need_label else None})
    info = source.info()
    if label and not need_label and info.is_dense and info.n_features == model.n_features_in_ + 1:
        source = opened(told={**told, "label": label})  # one of the columns is the label
    _require_same_kind(model, source)
    if model.extra.get("double"):
        keep_double(source.info().rounding)
    names = source.info().feature_names
    if (
        source.info().encoder is None
        and None not in (names, model.feature_names)
        and names != model.feature_names
    ):
        from llsvm.data.by_name import ColumnsByName

        return ColumnsByName(source, model.feature_names or ())
    return source


def _numbers_table(model: Model) -> dict[str, Any]:
    """What a model whose columns have names, though it was not trained on a table, asks of one."""
    from llsvm.features.encoder import TableEncoder

    encoder = TableEncoder.of_numbers(model.feature_names or ())
    encoder.missing = model.settings.get("missing", "refuse")
    if "fill" in model.extra:
        encoder.set_fill(model.extra["fill"])
    return encoder.as_dict()


def _require_same_kind(model: Model, source: BlockSource) -> None:
    """Raise ModelError where columns would be taken for other columns: they are found by name or by number."""
    info, table = source.info(), model.extra.get("table")
    by_name = model.feature_names is not None and info.feature_names is not None
    if table is not None and info.encoder is None and not by_name:
        names = ", ".join(column["name"] for column in table["columns"][:6])
        raise ModelError(
            f"{info.name}: the columns of {info.format} have no names, but the model was trained on a table with "
            f"columns {names}{', ...' if len(table['columns']) > 6 else ''}; give it CSV, Parquet or Arrow"
        )
    if model.feature_names is None and table is None and info.first_indicator is not None:
        raise ModelError(
            f"{info.name}: has text columns, but the model was not trained on a table; give it numbers only"
        )
    width, known = info.n_features, model.n_features_in_
    if info.is_dense and table is None and not by_name and width is not None and width != known:
        raise ModelError(f"{info.name}: {width} columns of features, but the model was trained on {known}")


def score_blocks(
    model: Model,
    source: BlockSource,
    max_bytes: int,
    row_bytes: int | None = None,
    grow: Callable[[int], int] | None = None,
) -> Iterator[tuple[Block, NDArray[np.float64]]]:
    """The rows of ``source``, block by block, with their scores (n, k) float64, k = 1 for two classes.

    Columns that the model does not know count nothing, columns that the data lacks count as zero.
    max_bytes: of a block; the source holds about five. Of short rows, whose scores take more than they do, fewer
    come at a time: row_bytes is what a row's scores, and what is made of them, take (None: the scores alone).
    grow: asked for blocks of at least so many bytes where a row is too long for those at hand; it may refuse.
    Raises DataError for malformed data.
    """
    score = model.scorer()
    base = source.info().index_base
    base = model.index_base if base is None else base
    step = max(1, _SCORE_BLOCKS * max_bytes // (row_bytes or 8 * model.n_problems))
    for block in _blocks(source, max_bytes, grow):
        for start in range(0, block.n_rows, step):
            part = block if block.n_rows <= step else block.slice(start, min(start + step, block.n_rows))
            yield part, score(part.X, base)


def _blocks(source: BlockSource, max_bytes: int, grow: Callable[[int], int] | None) -> Iterator[Block]:
    """The blocks of ``source``; where a row is too long for them it is read anew up to there, in larger ones."""
    done = 0  # rows handed out
    while True:
        try:
            for block in source.blocks(max_bytes):
                first = int(np.searchsorted(block.rows, done))
                if first < block.n_rows:
                    done = int(block.rows[-1]) + 1
                    yield block.slice(first, block.n_rows) if first else block
            return
        except LongRowError as error:
            if grow is None or not source.info().rereadable or error.row_bytes <= max_bytes:
                raise
            max_bytes = grow(error.row_bytes)


def predict_file(
    model: Model,
    source: BlockSource,
    out: TextIO,
    *,
    scores: bool = False,
    memory_limit: str | int | None = None,
) -> int:
    """Write one predicted label a line to ``out``, in the source's order, and return the number of rows.

    scores: follow the label by its scores, tab separated, all digits: one for two classes (positive means the
    second), else one per class in the order of ``model.classes_``.
    Raises BudgetError where ``memory_limit`` is too small, DataError for malformed or empty data.
    """
    labels = np.array(model.labels, dtype=object)
    n_rows, text_bytes = 0, max(map(len, model.labels))
    if scores:
        text_bytes += _SCORE_TEXT_BYTES * (1 if len(labels) == 2 else len(labels))
    row_bytes = _row_bytes(model, text_bytes)
    grow = partial(_max_bytes, model, source, memory_limit, {"scores of a row": row_bytes})
    for _, values in score_blocks(model, source, grow(), row_bytes, grow):
        lines = labels[model.class_ids(values)].tolist()
        if scores:
            rows = zip(lines, model.class_scores(values).tolist(), strict=True)
            lines = ["\t".join([label, *map(repr, row)]) for label, row in rows]
        out.write("\n".join(lines) + "\n" if lines else "")
        n_rows += len(lines)
    return _at_least_one(n_rows, source)


def evaluate(
    model: Model,
    source: BlockSource,
    *,
    memory_limit: str | int | None = None,
    as_json: bool = False,
) -> dict[str, Any]:
    """How well ``model`` predicts the labels of ``source``.

    The answer, plain values: rows, correct, accuracy (correct / rows), classes (per class: label, precision,
    recall, f1, support, predicted; a ratio without cases is 0), macro_f1, confusion (labels, and counts with
    a row per true and a column per predicted class), unknown_rows and unknown_labels: rows whose label the
    model has never seen, which count as wrong, and up to 20 of those labels with their counts.
    as_json: the answer is going to be written as JSON, whose text takes more memory than it does.
    Raises as ``predict_file``, and ModelError where the data's labels are text and the model's are numbers,
    or the other way round.
    """
    n_classes, row_bytes = len(model.classes_), _row_bytes(model)
    cells = n_classes * n_classes
    more = {
        "confusion of classes": cells * (_CELL_BYTES + as_json * _CELL_TEXT_BYTES),
        "scores of a row": row_bytes,
    }
    grow = partial(_max_bytes, model, source, memory_limit, more)
    max_bytes = grow()
    counts = np.zeros((n_classes, n_classes), np.int64)
    unknown: dict[str, int] = {}
    n_rows = 0
    for block, values in score_blocks(model, source, max_bytes, row_bytes, grow):
        n_rows += block.n_rows
        predicted = model.class_ids(values)
        true, known = _known_classes(model, block.y)
        np.add.at(counts, (true[known], predicted[known]), 1)
        for label, count in zip(*np.unique(block.y[~known], return_counts=True), strict=True):
            text = label_text(label)
            if text in unknown or len(unknown) < _UNKNOWN_LISTED:
                unknown[text] = unknown.get(text, 0) + int(count)
    _at_least_one(n_rows, source)
    return _figures(model, counts, n_rows) | {
        "unknown_rows": n_rows - int(counts.sum()),
        "unknown_labels": unknown,
    }


def _row_bytes(model: Model, text_bytes: int = 0) -> int:
    """What a row's scores take, the votes of pairs and its predicted label included. text_bytes: its line's."""
    votes = _VOTE_BYTES * len(model.classes_) if model.one_vs_one else 0
    return 8 * model.n_problems + votes + _LABEL_BYTES + text_bytes


def _max_bytes(
    model: Model,
    source: BlockSource,
    memory_limit: str | int | None,
    more: Mapping[str, int],
    at_least: int = _SMALLEST_BLOCK_BYTES,
) -> int:
    n_values = model.coef_.size + len(model.extra.get("fill", ()))
    if model.feature_map is not None:
        more = {**more, "feature map": model.feature_map.work_bytes}
    return block_bytes(
        n_values, len(model.classes_), memory_limit, source.info().reader_bytes, more, at_least
    )


def _at_least_one(n_rows: int, source: BlockSource) -> int:
    if n_rows == 0:
        raise DataError(f"{source.info().name}: there is no row in it")
    return n_rows


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


def _figures(model: Model, counts: NDArray[np.int64], n_rows: int) -> dict[str, Any]:
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
        "classes": [dict(zip(columns, row, strict=True)) for row in rows],
        "confusion": {"labels": model.labels, "counts": counts.tolist()},
    }
