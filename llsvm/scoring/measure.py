"""Evaluation: a model's predictions held against the labels of data, block by block; of all rows, and of each group
of rows that have the same value in a column."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.data.source import BlockSource
from llsvm.errors import BudgetError, DataError, ModelError, UsageError
from llsvm.features.arrow_types import decoded
from llsvm.features.labels import moment_in
from llsvm.features.spelling import BOOLS
from llsvm.features.table_options import listed
from llsvm.features.value_texts import as_text, has_text
from llsvm.models.model import Model
from llsvm.scoring.figures import ClassEvaluator, Evaluator, NumberEvaluator, OutlierEvaluator
from llsvm.scoring.metrics import SHAPES_BYTES
from llsvm.scoring.predictions import at_least_one, column_texts, score_blocks
from llsvm.scoring.ranking import HELD_BYTES, SpoolFile, check_thresholds
from llsvm.scoring.room import (
    BLOCKS_HELD,
    SMALLEST_BLOCK_BYTES,
    can_be_looked_through,
    max_block_bytes,
    row_bytes,
    spare_bytes,
    with_spare,
)
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
    shapes: the answer has ``shapes`` too, see ``llsvm.scoring.metrics``.
    thresholds: of two classes, the answer has a table of about so many, see ThresholdFigures; 0: none.
    by: the column that the source keeps (Block.kept), as it was asked for: the answer has ``by``, its name, and
    ``groups`` too, see ``llsvm.scoring.measure``.
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


# -- groups of rows ------------------------------------------------------------------------------------------------

MAX_GROUPS, LEAST_GROUPS = 1000, 2
_MAX_NAME = 200  # characters of a value
GROUP_BYTES = 2_000  # of a group beside its figures, its name included


class Limit(NamedTuple):
    """The number of groups that there may be, and why not more, in words."""

    groups: int
    why: str


def groups_for(room_bytes: int, group_bytes: int) -> Limit:
    """Return how many groups there may be in so much room."""
    groups = max(LEAST_GROUPS, room_bytes // group_bytes)
    if groups < MAX_GROUPS:
        why = f"--memory-limit has no room for more, {group_bytes:,} bytes each; pass a larger one, or"
        return Limit(groups, why)
    return Limit(MAX_GROUPS, "there may be no more;")


def count_groups(column: str, blocks: Iterable[Block]) -> int:
    """Return how many groups the rows have. Raises as ``Groups.add``."""
    groups = Groups(column, Evaluator, groups_for(MAX_GROUPS, 1))
    for block in blocks:
        groups.add(block, np.zeros((block.n_rows, 0)))
    return len(groups)


class Groups:
    """Evaluations of groups, summed up over blocks of rows with that column (Block.kept).

    column: as it was asked for. new: makes the evaluation of a group."""

    def __init__(self, column: str, new: Callable[[], Evaluator], limit: Limit) -> None:
        self._asked, self._new, self._limit = column, new, limit
        self.column = column
        self._groups: dict[str | None, Evaluator] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, block: Block, scores: NDArray[np.float64]) -> None:
        """Add rows and their scores. Raises UsageError for a column with too many values, DataError for one whose
        values have no text."""
        assert block.kept is not None
        self.column = self._only(block.kept)
        bare = replace(block, X=np.zeros((block.n_rows, 0), np.float32), kept=None)
        for name, places in self._places(block.kept.column(0)):
            group = self._groups.get(name) or self._made(name, int(block.rows[places[0]]))
            group.add(bare.take(places), scores[places])

    def answer(self, room_bytes: int) -> list[dict[str, Any]]:
        """Return plain values, in the order of the groups' names, that without a value last: a dict each: group
        (its value as text; None where it is missing) and its figures; of a group whose weights are all 0 its rows
        and weight alone."""
        answers = []
        for name in sorted(self._groups, key=_order(self._groups)):
            group = self._groups[name]
            figures = group.answer(room_bytes) if group.weight else {"rows": group.n_rows, "weight": 0.0}
            answers.append({"group": name, **figures})
        return answers

    def _only(self, columns: pa.RecordBatch) -> str:
        names = columns.schema.names
        if len(names) > 1:
            raise UsageError(
                f"--by {self._asked}: rows are grouped by one column, and {len(names)} are meant: {listed(names)}; "
                "name one"
            )
        return str(names[0])

    def _places(self, values: pa.Array) -> list[tuple[str | None, NDArray[np.intp]]]:
        """Return (value, the rows that have it), in the order in which values come."""
        if not has_text(values.type):
            raise DataError(
                f"--by {self.column}: the column has type {values.type}, whose values have no text: name another"
            )
        if pa.types.is_floating(values.type):
            values = values.cast(pa.float64())
            values = pc.if_else(pc.is_nan(values), pa.scalar(None, pa.float64()), values)
        if not pa.types.is_dictionary(values.type):
            values = values.dictionary_encode()
        texts = np.array([*_texts(values.dictionary), ""], dtype=object)
        names, numbers = np.unique(texts, return_inverse=True)
        codes = numbers[values.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False)]
        counts = np.bincount(codes, minlength=len(names))
        parts = np.split(np.argsort(codes, kind="stable"), np.cumsum(counts)[:-1])
        places = [(name or None, part) for name, part in zip(names.tolist(), parts, strict=True) if len(part)]
        return sorted(places, key=lambda each: int(each[1][0]))

    def _made(self, name: str | None, row: int) -> Evaluator:
        remedy = "name a column with fewer values"
        if name is not None and len(name) > _MAX_NAME:
            raise UsageError(
                f"--by {self.column}: row {row + 1} has a value of {len(name):,} characters, and a group's name "
                f"has {_MAX_NAME} at most: {remedy}"
            )
        if len(self._groups) == self._limit.groups:
            raise UsageError(
                f"--by {self.column}: more than {self._limit.groups:,} groups of rows (that of {name!r}, in row "
                f"{row + 1}, is the next): {self._limit.why} {remedy}"
            )
        self._groups[name] = self._new()
        return self._groups[name]


def _texts(values: pa.Array) -> list[str]:
    """Return the values by the same names from every format: CSV and JSON Lines have times and truth values as
    text."""
    if pa.types.is_floating(values.type):
        return column_texts(values)
    words = column_texts(as_text(decoded(values)))
    return [word.lower() if word in BOOLS else moment_in(word) or word for word in words]


def _order(names: Any) -> Callable[[str | None], tuple[bool, float, str]]:
    """Return a key for sorting: by number where all are numbers, else as text; what is missing comes last."""
    try:
        numbers = {name: float(name) for name in names if name is not None}
    except ValueError:
        numbers = {}
    if not all(map(math.isfinite, numbers.values())):
        numbers = {}
    return lambda name: (name is None, numbers.get(name or "", 0.0), name or "")
