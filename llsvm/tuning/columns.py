"""Folds by a column of the data: groups that are kept together, and parts that follow each other in time.

Which fold a row is in is a number for each row then, 1 byte; values are read once more from the data, of the
rows that count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.data.source import BlockSource
from llsvm.data.table_errors import refuse_cell
from llsvm.dataset import DatasetInfo
from llsvm.errors import DataError
from llsvm.features.label_columns import labels
from llsvm.features.labels import is_text, quoted
from llsvm.features.table_options import find_column
from llsvm.memory.budget import MemoryBudget
from llsvm.objective.problems import Fold
from llsvm.settings.settings import Settings
from llsvm.stream.stream import Stream
from llsvm.tuning.folds import needs_of_folds

ROW_FOLDS = "folds of rows"  # the ledger's line
_WORD_BYTES = 200  # of a text that is held once
_BLOCK_BYTES = 1 << 20
OTHER_COLUMN = "ask for fewer --folds, or name another column"

Opened = Callable[[Settings], BlockSource]


def by_group(
    opened: Opened, settings: Settings, column: str, seed: int, stream: Stream, folds: int
) -> list[Fold]:
    """So many folds of about as many rows each, whose groups, the rows of the same value, are whole: the largest
    first, each into what is the smallest fold so far. Raises DataError, BudgetError."""
    name, option = stream.dataset.name, f"--group {column}"

    def parts(ids: NDArray[np.int32], values: list[Any]) -> NDArray[np.int8]:
        sizes = np.bincount(ids, minlength=len(values))
        if len(values) < folds:
            some = "all rows are of one group" if len(values) == 1 else f"there are {len(values)} groups"
            raise DataError(
                f"{name}: {option}: {some}, too few for {folds} folds of whole groups; name another column, or ask "
                "for fewer --folds"
            )
        order = np.lexsort((np.random.default_rng(seed).permutation(len(values)), -sizes))
        fold_of, filled = np.zeros(len(values), np.int8), np.zeros(folds, np.int64)
        for group in order:
            smallest = int(filled.argmin())
            fold_of[group] = smallest
            filled[smallest] += sizes[group]
        return fold_of

    of_rows = _parts_of_rows(opened, settings, column, stream, parts)
    made = [Fold(number, folds, seed, of_rows=of_rows) for number in range(folds)]
    require_classes(stream, made, option, OTHER_COLUMN)
    return made


def by_time(opened: Opened, settings: Settings, column: str, stream: Stream, folds: int) -> list[Fold]:
    """So many splits: of parts of about as many rows, one more than there are splits, each is held out in turn but
    the first, and those before it are trained on. Rows of the same time are in the same part; text is in the order
    of its letters. Raises DataError, BudgetError."""
    name, option = stream.dataset.name, f"--time {column}"

    def parts(ids: NDArray[np.int32], values: list[Any]) -> NDArray[np.int8]:
        rank = np.empty(len(values), np.int64)
        rank[np.argsort(np.array(values))] = np.arange(len(values))
        ends = np.bincount(rank[ids], minlength=len(values)).cumsum()
        cuts = np.searchsorted(ends, len(ids) * np.arange(1, folds + 1) / (folds + 1)) + 1
        if len(np.unique(cuts)) < folds or cuts[-1] >= len(values):
            raise DataError(
                f"{name}: {option}: {len(values):,} different times are too few for {folds} splits; name another "
                "column, or ask for fewer --folds"
            )
        return np.searchsorted(cuts, rank, side="right").astype(np.int8)

    of_rows = _parts_of_rows(opened, settings, column, stream, parts)
    made = [Fold(number, folds, of_rows=of_rows, forward=True) for number in range(folds)]
    require_classes(stream, made, option, OTHER_COLUMN)
    return made


def _parts_of_rows(
    opened: Opened,
    settings: Settings,
    column: str,
    stream: Stream,
    parts: Callable[[NDArray[np.int32], list[Any]], NDArray[np.int8]],
) -> NDArray[np.int8]:
    """(n_rows,) which part each row is in. parts: of rows' numbers in a list of values and that list, the part of
    each value."""
    budget, n_rows = stream.budget, stream.dataset.n_rows
    budget.reserve(ROW_FOLDS, 5 * n_rows)
    ids, values = _read(opened, settings, column, n_rows, budget)
    of_rows = parts(ids, values)[ids]
    budget.release(ROW_FOLDS, 4 * n_rows + _WORD_BYTES * len(values))
    return of_rows


def _read(
    opened: Opened, settings: Settings, column: str, n_rows: int, budget: MemoryBudget
) -> tuple[NDArray[np.int32], list[Any]]:
    """(n_rows,) numbers of the rows' values in a sorted list of all different ones."""
    info = opened(settings).info()
    assert info.columns is not None, "data are a table"
    assert info.describe is not None, "data are a table"
    name = find_column(info.name, [str(each["name"]) for each in info.describe()], column, "exclude")
    ids, known, signed, row = np.zeros(n_rows, np.int32), dict[Any, int](), 0, 0
    for batch in info.columns([name], _BLOCK_BYTES):
        try:
            values, gone = labels(batch.rows.column(name))
        except ValueError as error:
            refuse_cell(batch, error)
        if gone.any():
            place = f"{batch.path}: row {batch.row(int(np.argmax(gone))) + 1}"
            there = f"{name if name.isidentifier() else f'`{name}`'} is not null"
            raise DataError(
                f"{place}: column {name}: the value is missing, which tells the folds; fill it in, or leave such "
                f"rows out (--where {there!r})"
            )
        each, where = np.unique(values.astype(str) if is_text(values) else values, return_inverse=True)
        numbers = [known.setdefault(value, len(known)) for value in each.tolist()]
        if len(known) > signed:
            budget.reserve(ROW_FOLDS, _WORD_BYTES * (len(known) - signed))
            signed = len(known)
        ids[row : row + len(where)] = np.array(numbers, np.int32)[where]
        row += len(where)
    # The order of appearance depends on how the rows are cut into batches and files; that of the values does not.
    found = list(known)
    order = sorted(range(len(found)), key=lambda i: (isinstance(found[i], str), found[i]))
    rank = np.empty(len(found), np.int32)
    rank[order] = np.arange(len(found), dtype=np.int32)
    np.take(rank, ids, out=ids, mode="clip")  # in place: "raise" would copy
    return ids, [found[i] for i in order]


def require_classes(stream: Stream, folds: list[Fold], option: str, remedy: str) -> None:
    """Raise DataError where a fold holds no row out, or leaves a class none to train on. remedy: in words."""
    dataset: DatasetInfo = stream.dataset
    stream.prepare(needs_of_folds(dataset))
    held, trained = (np.zeros((len(folds), dataset.n_classes), np.int64) for _ in range(2))
    for block in stream.all():
        ids = block.class_ids
        for f, fold in enumerate(folds):
            held[f] += np.bincount(ids[fold.holds(block.rows, ids)], minlength=dataset.n_classes)
            trained[f] += np.bincount(ids[~fold.contains(block.rows, ids)], minlength=dataset.n_classes)
    stream.reset()
    for what, counts in (("held out", held.sum(axis=1, keepdims=True)), ("to train on", trained)):
        empty = np.argwhere(counts == 0)
        if len(empty):
            f, c = empty[0]
            of = (
                "" if what == "held out" or dataset.has_targets else f" of class {quoted(dataset.classes[c])}"
            )
            raise DataError(
                f"{dataset.name}: {option}: fold {f + 1} of {len(folds)} has no row{of} {what}; {remedy}"
            )
