"""Evaluation: a model's predictions held against the labels of data, block by block."""

from __future__ import annotations

from functools import partial
from typing import Any

from llsvm.data.source import BlockSource
from llsvm.errors import DataError
from llsvm.models.model import Model
from llsvm.scoring.figures import ClassCounts
from llsvm.scoring.number_figures import NumberErrors, Outliers
from llsvm.scoring.room import BLOCKS_HELD, max_block_bytes, row_bytes
from llsvm.scoring.scores import at_least_one, score_blocks
from llsvm.scoring.shapes import SHAPES_BYTES
from llsvm.scoring.thresholds import check_thresholds
from llsvm.settings.objective import CLASSIFICATION, REGRESSION, UNLABELLED

_FIGURES: dict[str, type[ClassCounts] | type[NumberErrors] | type[Outliers]] = {
    CLASSIFICATION: ClassCounts,
    REGRESSION: NumberErrors,
    UNLABELLED: Outliers,
}


def measure(
    model: Model,
    source: BlockSource,
    *,
    memory_limit: str | int | None = None,
    as_json: bool = False,
    shapes: bool = False,
    thresholds: int = 0,
) -> dict[str, Any]:
    """How well ``model`` predicts the labels of ``source``: an Evaluation of classes, RegressionEvaluation or
    OutlierEvaluation.

    as_json: the answer is going to be written as JSON, whose text takes more memory than it does.
    shapes: the answer has ``shapes`` too, see ``llsvm.scoring.shapes``.
    thresholds: of two classes, the answer has a table of about so many, see ``llsvm.scoring.thresholds``; 0: none.
    Raises as ``predict_file``, and ModelError where the data's labels are text and the model's are numbers,
    or the other way round; DataError where those of a regression are no numbers,
    or all weights are 0; UsageError for thresholds that there are not.
    """
    check_thresholds(thresholds, len(model.classes_))
    kind, each_bytes = _FIGURES[model.label_kind], row_bytes(model)
    more = {**kind.needs(model, as_json), "scores of a row": each_bytes}
    if shapes:
        more["shapes of scores"] = SHAPES_BYTES
    grow = partial(max_block_bytes, model, source, memory_limit, more)
    max_bytes, figures, n_rows, weighs = grow(), kind(model, shapes, thresholds), 0, False
    for block, values in score_blocks(model, source, max_bytes, each_bytes, grow):
        n_rows += block.n_rows
        weighs |= block.weight is None or bool(block.weight.any())
        figures.add(block, values)
    at_least_one(n_rows, source)
    if not weighs:
        raise DataError(f"{source.info().name}: all {n_rows:,} rows have the weight 0: no figure counts them")
    return dict(figures.answer(BLOCKS_HELD * max_bytes))  # the blocks are gone
