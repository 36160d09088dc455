"""Evaluation: a model's predictions held against the labels of data, block by block."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Any

from llsvm.data.source import BlockSource
from llsvm.errors import BudgetError, DataError
from llsvm.models.model import Model
from llsvm.scoring.figures import ClassCounts
from llsvm.scoring.groups import GROUP_BYTES, LEAST_GROUPS, MAX_GROUPS, Groups, groups_for
from llsvm.scoring.kept_scores import HELD_BYTES, ScoreStore
from llsvm.scoring.number_figures import NumberErrors, Outliers
from llsvm.scoring.room import BLOCKS_HELD, max_block_bytes, row_bytes, spare_bytes
from llsvm.scoring.scores import at_least_one, score_blocks
from llsvm.scoring.shapes import SHAPES_BYTES
from llsvm.scoring.thresholds import check_thresholds
from llsvm.settings.objective import CLASSIFICATION, REGRESSION, UNLABELLED

_NAMED_GROUPS_BYTES = 16_000_000  # of groups, that a limit which is named has room for
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
    by: str | None = None,
) -> dict[str, Any]:
    """How well ``model`` predicts the labels of ``source``: an Evaluation of classes, RegressionEvaluation or
    OutlierEvaluation.

    as_json: the answer is going to be written as JSON, whose text takes more memory than it does.
    shapes: the answer has ``shapes`` too, see ``llsvm.scoring.shapes``.
    thresholds: of two classes, the answer has a table of about so many, see ``llsvm.scoring.thresholds``; 0: none.
    by: the column that the source keeps (Block.kept), as it was asked for: the answer has ``by``, its name, and
    ``groups`` too, see ``llsvm.scoring.groups``.
    Raises as ``predict_file``, and ModelError where the data's labels are text and the model's are numbers,
    or the other way round; DataError where those of a regression are no numbers,
    or all weights are 0; UsageError for thresholds that there are not, and for too many groups.
    """
    check_thresholds(thresholds, len(model.classes_))
    kind, each_bytes = _FIGURES[model.label_kind], row_bytes(model)
    own_bytes = kind.nbytes(model, as_json, thresholds)
    more = {"figures, and the confusion of classes": own_bytes, "scores of a row": each_bytes}
    if len(model.classes_) == 2:
        more["scores to be ranked"] = 2 * HELD_BYTES
    if shapes:
        more["shapes of scores"] = SHAPES_BYTES
    grow = partial(max_block_bytes, model, source, memory_limit, more)
    if by is not None:
        group_bytes = own_bytes + GROUP_BYTES
        more["figures of groups"] = least = LEAST_GROUPS * group_bytes
        try:
            grow()
        except BudgetError:  # what it names has room for some more
            more["figures of groups"] = max(least, min(MAX_GROUPS * group_bytes, _NAMED_GROUPS_BYTES))
            grow()
            raise
        limit = groups_for(least + spare_bytes(model, source, memory_limit, more), group_bytes)
        more["figures of groups"] = limit.groups * group_bytes
    max_bytes, n_rows, weighs = grow(), 0, False
    with closing(ScoreStore()) as store:
        figures = kind(model, store, shapes, thresholds)
        groups = None if by is None else Groups(by, partial(kind, model, store, thresholds=thresholds), limit)
        for block, values in score_blocks(model, source, max_bytes, each_bytes, grow):
            n_rows += block.n_rows
            weighs |= block.weight is None or bool(block.weight.any())
            figures.add(block, values)
            if groups is not None:
                groups.add(block, values)
        at_least_one(n_rows, source)
        if not weighs:
            raise DataError(
                f"{source.info().name}: all {n_rows:,} rows have the weight 0: no figure counts them"
            )
        room = BLOCKS_HELD * max_bytes  # the blocks are gone
        answer = dict(figures.answer(room))
        if groups is not None:
            answer |= {"by": groups.column, "groups": groups.answer(room)}
        return answer
