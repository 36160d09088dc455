"""Evaluation: a model's predictions held against the labels of data, block by block."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import Any

from llsvm.data.source import BlockSource
from llsvm.errors import BudgetError, DataError, ModelError
from llsvm.models.model import Model
from llsvm.scoring.figures import ClassEvaluator, NumberEvaluator, OutlierEvaluator
from llsvm.scoring.groups import (
    GROUP_BYTES,
    LEAST_GROUPS,
    MAX_GROUPS,
    Groups,
    Limit,
    count_groups,
    groups_for,
)
from llsvm.scoring.ranking import check_thresholds
from llsvm.scoring.room import (
    BLOCKS_HELD,
    SMALLEST_BLOCK_BYTES,
    can_be_looked_through,
    max_block_bytes,
    row_bytes,
    spare_bytes,
    with_spare,
)
from llsvm.scoring.score_spool import HELD_BYTES, SpoolFile
from llsvm.scoring.scores import at_least_one, score_blocks
from llsvm.scoring.shapes import SHAPES_BYTES
from llsvm.settings.objective import CLASSIFICATION, REGRESSION, UNLABELLED

_OF_GROUPS = "figures of groups"  # line of the budget
_NAMED_GROUPS_BYTES = 32_000_000  # of groups that are not counted, in a limit that is named
_EVALUATORS: dict[str, type[ClassEvaluator] | type[NumberEvaluator] | type[OutlierEvaluator]] = {
    CLASSIFICATION: ClassEvaluator,
    REGRESSION: NumberEvaluator,
    UNLABELLED: OutlierEvaluator,
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
    """Return how well ``model`` predicts the labels of ``source``: an Evaluation of classes, RegressionEvaluation
    or OutlierEvaluation.

    as_json: the answer is going to be written as JSON, whose text takes more memory than it does.
    shapes: the answer has ``shapes`` too, see ``llsvm.scoring.shapes``.
    thresholds: of two classes, the answer has a table of about so many, see ThresholdFigures; 0: none.
    by: the column that the source keeps (Block.kept), as it was asked for: the answer has ``by``, its name, and
    ``groups`` too, see ``llsvm.scoring.groups``.
    Raises as ``predict_file``, and ModelError where the data's labels are text and the model's are numbers,
    or the other way round; DataError where those of a regression are no numbers,
    or all weights are 0; UsageError for thresholds that there are not, and for too many groups.
    """
    check_thresholds(thresholds, len(model.classes_))
    kind, each_bytes = _EVALUATORS[model.label_kind], row_bytes(model)
    own_bytes = kind.nbytes(model, as_json, thresholds)
    more = {"figures, and the confusion of classes": own_bytes, "scores of a row": each_bytes}
    if len(model.classes_) == 2:
        more["scores to be ranked"] = 2 * HELD_BYTES
    if shapes:
        more["shapes of scores"] = SHAPES_BYTES
    grow = partial(max_block_bytes, model, source, memory_limit, more)
    if by is not None:
        group_bytes = own_bytes + GROUP_BYTES
        limit = _limit_of_groups(model, source, memory_limit, more, group_bytes, by)
        more[_OF_GROUPS] = limit.groups * group_bytes
    max_bytes = grow()
    with closing(SpoolFile()) as store:
        figures = kind(model, store, shapes, thresholds)
        groups = None if by is None else Groups(by, partial(kind, model, store, thresholds=thresholds), limit)
        for block, values in score_blocks(model, source, max_bytes, each_bytes, grow):
            try:
                figures.add(block, values)
            except ModelError as error:
                raise ModelError(f"{source.info().name}: {error}") from error
            if groups is not None:
                groups.add(block, values)
        at_least_one(figures.n_rows, source)
        if not figures.weight:
            raise DataError(
                f"{source.info().name}: all {figures.n_rows:,} rows have the weight 0: no figure counts them"
            )
        room = BLOCKS_HELD * max_bytes  # the blocks are gone
        answer = dict(figures.answer(room))
        if groups is not None:
            answer |= {"by": groups.column, "groups": groups.answer(room)}
        return answer


def _limit_of_groups(
    model: Model,
    source: BlockSource,
    memory_limit: str | int | None,
    more: Mapping[str, int],
    group_bytes: int,
    by: str,
) -> Limit:
    """Return how many groups the memory limit has room for, of so many bytes each. more: what else is held. Raises
    BudgetError with room for all groups of the source, where it can be read to count them."""
    limit, refused = Limit(0, ""), None
    smallest = {**more, _OF_GROUPS: LEAST_GROUPS * group_bytes}
    try:
        max_block_bytes(model, source, memory_limit, smallest)
        room = smallest[_OF_GROUPS] + spare_bytes(model, source, memory_limit, smallest)
        limit = groups_for(room, group_bytes)
    except BudgetError as error:
        refused = error
    if limit.groups == MAX_GROUPS:
        return limit
    known = can_be_looked_through(source, memory_limit)
    n_groups = count_groups(by, source.blocks(SMALLEST_BLOCK_BYTES)) if known else MAX_GROUPS
    if refused is None and (n_groups <= limit.groups or not known):
        return limit
    more_bytes = max(n_groups - LEAST_GROUPS, 0) * group_bytes
    named = more_bytes if known else min(more_bytes, _NAMED_GROUPS_BYTES)
    try:
        max_block_bytes(
            model, source, memory_limit, {**more, _OF_GROUPS: smallest[_OF_GROUPS] + with_spare(named)}
        )
    except BudgetError as error:
        raise (error if named == more_bytes else error.as_least()) from None
    return limit
