"""Scores of rows, block by block, and the labels that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal, TextIO

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block, Matrix
from llsvm.data.block_sizes import growing_blocks
from llsvm.data.source import BlockSource
from llsvm.errors import BudgetError, DataError, UsageError
from llsvm.features.frames import no_score
from llsvm.models.model import Model
from llsvm.scoring.room import SMALLEST_BLOCK_BYTES, max_block_bytes, n_rows_of, row_bytes

Columns = Literal["none", "scores", "probabilities"]
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
    """Yield the rows of ``source``, block by block, with their scores (n, k) float64, k = 1 for two classes.

    Columns that the model does not know count nothing, columns that the data lacks count as zero.
    max_bytes: of a block; the source holds about five. Of short rows, whose scores take more than they do, fewer
    come at a time: each_bytes is what a row's scores, and what is made of them, take (None: the scores alone).
    grow: asked for blocks of at least so many bytes where a row is too long for the current blocks; it may refuse.
    Raises DataError for malformed data.
    """
    each_bytes = each_bytes or 8 * model.n_problems
    yield from score_rows(model.scorer(), column_base(model, source), source, max_bytes, each_bytes, grow)


def score_rows(
    score: Callable[[Matrix, int], NDArray[np.float64]],
    base: int,
    source: BlockSource,
    max_bytes: int,
    each_bytes: int,
    grow: Callable[[int], int] | None = None,
) -> Iterator[tuple[Block, NDArray[np.float64]]]:
    """Yield rows and scores as ``score_blocks``. score: a function of rows, and their first column's number, which
    is ``base``."""
    held = source.info().in_memory
    step = max(1, _SCORE_BLOCKS * max_bytes // each_bytes)
    for block in growing_blocks(source, max_bytes, grow):
        for start in range(0, max(block.n_rows, 1), step):  # a block of no row has its columns, too
            part = block if block.n_rows <= step else block.slice(start, min(start + step, block.n_rows))
            values = score(part.X, base)
            if held and not np.isfinite(values).all():  # readers of files refuse such values themselves
                row = int(part.rows[~np.isfinite(values).all(axis=1)][0])
                raise DataError(no_score(row))
            yield part, values


def column_base(model: Model, source: BlockSource) -> int:
    """Return the number of the first column in the blocks of ``source``."""
    base = source.info().index_base
    return model.index_base if base is None else base


def predict_file(
    model: Model,
    source: BlockSource,
    out: TextIO,
    *,
    more: Columns = "none",
    memory_limit: str | int | None = None,
) -> int:
    """Write what is predicted, a label or of a regression a number, a line to ``out``, in the source's order, and
    return the number of rows.

    more: what follows, tab separated, all digits: "scores", one for two classes (positive means the second), else
    one per class in the order of ``model.classes_``; or "probabilities", one per class.
    Raises BudgetError where ``memory_limit`` is too small, DataError for malformed data; UsageError for
    the scores of a regression, ModelError for probabilities where the loss gives none.
    """
    if more == "scores":
        refuse_scores_of_numbers(model)
    if more == "probabilities":
        model.require_probabilities()
    n_rows, text_bytes = 0, max(map(len, model.labels), default=_SCORE_TEXT_BYTES)
    if more != "none":
        text_bytes += _SCORE_TEXT_BYTES * (
            1 if (more, len(model.classes_)) == ("scores", 2) else len(model.classes_)
        )
    each_bytes = row_bytes(model, text_bytes)
    grow = partial(max_block_bytes, model, source, memory_limit, {"scores of a row": each_bytes})
    texts = np.array(model.labels, dtype=object)
    for _, values in score_blocks(model, source, grow(), each_bytes, grow):
        lines = [repr(value) for value in values[:, 0].tolist()]
        if not model.is_regression:
            lines = texts[model.class_ids(values)].tolist()
        if more != "none":
            columns = model.probabilities(values) if more == "probabilities" else model.class_scores(values)
            rows = zip(lines, columns.tolist(), strict=True)
            lines = ["\t".join([label, *map(repr, row)]) for label, row in rows]
        out.write("\n".join(lines) + "\n" if lines else "")
        n_rows += len(lines)
    return n_rows


def refuse_scores_of_numbers(model: Model) -> None:
    """Raise UsageError for a regression."""
    if model.is_regression:
        raise UsageError(
            "--scores: the score of a regression is the number that it predicts; leave --scores out"
        )


def predicted(
    model: Model, source: BlockSource, *, probabilities: bool = False, memory_limit: str | int | None = None
) -> NDArray[Any]:
    """Return (n,) what is predicted of each row, in the source's order: of ``model.classes_``, or of a regression
    numbers; or (n, n_classes) ``probabilities``. Raises as ``predict_file``, and BudgetError where there is no room
    for the predictions themselves."""
    if probabilities:
        model.require_probabilities()
    as_ids = not (probabilities or model.is_regression)
    each_bytes, n_rows = row_bytes(model), 0
    parts: list[NDArray[Any]] = []
    classes = model.classes_
    kept_bytes = classes.dtype.itemsize if as_ids else 8 * max(len(model.classes_), 1)

    def grow(at_least: int = 0, rows: int = 0) -> int:
        more = {"scores of a row": each_bytes, "predictions": rows * (kept_bytes + _WORK_BYTES)}
        return max_block_bytes(model, source, memory_limit, more, max(at_least, SMALLEST_BLOCK_BYTES))

    try:
        for _, values in score_blocks(model, source, grow(), each_bytes, grow):
            if as_ids:
                parts.append(model.class_ids(values).astype(np.int32))
            else:
                parts.append(model.probabilities(values) if probabilities else values[:, 0].copy())
            n_rows += len(values)
            grow(rows=n_rows)
    except BudgetError as error:
        parts.clear()
        if (rows := n_rows_of(source)) is None:
            raise error.as_least() from error
        grow(rows=rows)
        raise
    if not parts:  # of arrays
        at_least_one(n_rows, source)
    values = np.concatenate(parts)
    return model.as_given(classes[values]) if as_ids else values


def at_least_one(n_rows: int, source: BlockSource) -> int:
    if n_rows == 0:
        raise DataError(f"{source.info().name}: there is no row in it")
    return n_rows
