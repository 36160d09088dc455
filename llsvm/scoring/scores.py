"""Scores of rows, block by block, and the labels that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.data.source import BlockSource
from llsvm.errors import DataError, LongRowError
from llsvm.models.model import Model
from llsvm.scoring.room import max_block_bytes, row_bytes

_SCORE_BLOCKS = 2  # of those held, for scores and lines of text
_SCORE_TEXT_BYTES = 160  # of a score as a number and as text
_WORK_BYTES = 8  # of a row: its class as a position, while they are joined


def score_blocks(
    model: Model,
    source: BlockSource,
    max_bytes: int,
    each_bytes: int | None = None,
    grow: Callable[[int], int] | None = None,
) -> Iterator[tuple[Block, NDArray[np.float64]]]:
    """The rows of ``source``, block by block, with their scores (n, k) float64, k = 1 for two classes.

    Columns that the model does not know count nothing, columns that the data lacks count as zero.
    max_bytes: of a block; the source holds about five. Of short rows, whose scores take more than they do, fewer
    come at a time: each_bytes is what a row's scores, and what is made of them, take (None: the scores alone).
    grow: asked for blocks of at least so many bytes where a row is too long for those at hand; it may refuse.
    Raises DataError for malformed data.
    """
    score = model.scorer()
    base, held = source.info().index_base, source.info().in_memory
    base = model.index_base if base is None else base
    step = max(1, _SCORE_BLOCKS * max_bytes // (each_bytes or 8 * model.n_problems))
    for block in _blocks(source, max_bytes, grow):
        for start in range(0, block.n_rows, step):
            part = block if block.n_rows <= step else block.slice(start, min(start + step, block.n_rows))
            values = score(part.X, base)
            if held and not np.isfinite(values).all():  # readers of files refuse such values themselves
                row = int(part.rows[~np.isfinite(values).all(axis=1)][0])
                raise DataError(f"row {row} of X has no finite score: it holds a NaN or an infinite value")
            yield part, values


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
    each_bytes = row_bytes(model, text_bytes)
    grow = partial(max_block_bytes, model, source, memory_limit, {"scores of a row": each_bytes})
    for _, values in score_blocks(model, source, grow(), each_bytes, grow):
        lines = labels[model.class_ids(values)].tolist()
        if scores:
            rows = zip(lines, model.class_scores(values).tolist(), strict=True)
            lines = ["\t".join([label, *map(repr, row)]) for label, row in rows]
        out.write("\n".join(lines) + "\n" if lines else "")
        n_rows += len(lines)
    return at_least_one(n_rows, source)


def predicted_classes(
    model: Model, source: BlockSource, *, memory_limit: str | int | None = None
) -> NDArray[np.intp]:
    """(n,) positions in ``model.classes_``, in the source's order. Raises as ``predict_file``, and BudgetError
    where there is no room for the predictions themselves."""
    each_bytes, found, n_rows = row_bytes(model), [], 0
    grow = partial(max_block_bytes, model, source, memory_limit, {"scores of a row": each_bytes})
    for _, values in score_blocks(model, source, grow(), each_bytes, grow):
        found.append(model.class_ids(values).astype(np.int32))
        n_rows += len(values)
        label_bytes = model.classes_.dtype.itemsize + _WORK_BYTES
        max_block_bytes(model, source, memory_limit, {"predictions": n_rows * label_bytes})
    at_least_one(n_rows, source)
    return np.concatenate(found, dtype=np.intp)


def at_least_one(n_rows: int, source: BlockSource) -> int:
    if n_rows == 0:
        raise DataError(f"{source.info().name}: there is no row in it")
    return n_rows
