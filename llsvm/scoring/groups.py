"""Figures of each group of rows, beside those of all: of the rows that have the same value in a column."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.errors import DataError, UsageError
from llsvm.features.arrow_types import decoded
from llsvm.features.labels import moment_in
from llsvm.features.spelling import BOOLS
from llsvm.features.table_options import listed
from llsvm.features.value_texts import as_text, has_text
from llsvm.scoring.figures import Evaluator
from llsvm.scoring.prediction_tables import column_texts

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

    def _only(self, kept: pa.RecordBatch) -> str:
        names = kept.schema.names
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
