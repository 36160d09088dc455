"""Folds: which rows are held out, by a hash of the rows' numbers, by a column of the data, or as the caller says.

Stratified folds: of each class the rows with the smallest hashes are the first fold's, those after it the second's,
and so on. Where one fold ends follows from a histogram of the hashes, counted in a pass, so that folds have the
same share of each class but for a histogram's bin, and are the same whatever the memory limit, and the order of the
rows, made of the blocks.

Folds by a column: groups that are kept together, and spans that follow each other in time. The fold of a row is a
number of 1 byte then; values are read once more from the data, of the rows that count.

Folds of the caller: each takes a byte a row, and rows may be in several folds, or in none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.data.source import BlockSource
from llsvm.data.table_columns import refuse_cell
from llsvm.dataset import DatasetInfo
from llsvm.errors import DataError, UsageError, counted
from llsvm.features.columns import labels
from llsvm.features.labels import is_text, quoted
from llsvm.features.table_options import find_column
from llsvm.memory.budget import MemoryBudget
from llsvm.memory.plan import Needs
from llsvm.objective.problems import HELD, TRAINED, UNUSED, Fold, row_hash
from llsvm.settings.settings import Settings
from llsvm.stream.stream import Stream

_CELLS = 1 << 18  # of all classes' histograms together
_MAX_BITS, _MIN_BITS = 16, 6  # of a hash, that tell its bin
_ROW_BYTES = 64  # of a row: its hash and its bin, on the way there
_COPIES = 3  # of the histograms: counted, summed up, and summed up with a zero in front
ROW_FOLDS = "folds of rows"  # line of the budget
_WORD_BYTES = 200  # of a text that is held once
_BLOCK_BYTES = 1 << 20
OTHER_COLUMN = "ask for fewer --folds, or name another column"

Opened = Callable[[Settings], BlockSource]
_REMEDY = "pass a splitter that keeps classes together (StratifiedKFold), or one with fewer folds"


def needs_of_folds(dataset: DatasetInfo) -> Needs:
    """Return the memory that finding folds needs."""
    return Needs({"histograms of rows": _COPIES * 8 * dataset.n_classes << _bits(dataset)}, _ROW_BYTES)


def stratified(stream: Stream, folds: int, seed: int) -> list[Fold]:
    """Return so many folds of about the same number of rows of each class. Raises DataError where a class has too
    few."""
    return _cut(
        stream, np.arange(1, folds) / folds, folds, seed, "ask for fewer --folds" if folds > 2 else ""
    )


def holdout(stream: Stream, share: float, seed: int) -> Fold:
    """Return one fold of such a share of the rows of each class. Raises DataError where a class has too few."""
    return _cut(stream, np.array([share]), max(2, round(1 / share)), seed, "ask for a larger --holdout")[0]


def _cut(stream: Stream, ends: NDArray[np.float64], folds: int, seed: int, remedy: str) -> list[Fold]:
    """Return the folds that hashes are cut into. ends: where a fold ends and the next begins, as shares of a class;
    the last reaches to the end. remedy: for a class that has too few rows; "" for none."""
    dataset = stream.dataset
    bits = _bits(dataset)
    totals = _histogram(stream, bits, seed).cumsum(axis=1)
    cuts = np.zeros((len(ends) + 2, dataset.n_classes), np.int64)  # bins that folds begin with
    cuts[-1] = 1 << bits
    for c, total in enumerate(totals):
        targets = ends * total[-1]
        after = np.searchsorted(total, targets)  # the bin in which so many rows are reached
        before = np.where(after > 0, total[after - 1], 0)
        cuts[1:-1, c] = after + (total[after] - targets <= targets - before)
    _require_all_classes(dataset, np.diff(_rows_before(totals, cuts), axis=0), remedy)
    starts = cuts.astype(np.uint64) << np.uint64(64 - bits)
    last = starts[1:] - np.uint64(1)  # which wraps around at the end
    bounds = np.stack([starts[:-1], last], axis=1)
    return [Fold(number, folds, seed, each) for number, each in enumerate(bounds)]


def _bits(dataset: DatasetInfo) -> int:
    """Return how many bits of a hash tell its bin: as many as bins of a row or so need, if there is room for
    them."""
    bins = min(dataset.n_rows, _CELLS // dataset.n_classes)
    return int(np.clip(bins.bit_length(), _MIN_BITS, _MAX_BITS))


def _histogram(stream: Stream, bits: int, seed: int) -> NDArray[np.int64]:
    """Return (n_classes, 2^bits) rows of each class whose hash begins with these bits."""
    n_classes, bins = stream.dataset.n_classes, 1 << bits
    counts = np.zeros(n_classes * bins, np.int64)
    for block in stream.all():
        hashed = row_hash(block.rows, seed) >> np.uint64(64 - bits)
        np.add.at(counts, block.class_ids * np.int64(bins) + hashed.astype(np.int64), 1)
    return counts.reshape(n_classes, bins)


def _rows_before(totals: NDArray[np.int64], cuts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return (m, n_classes) rows of each class in the bins before ``cuts``, (m, n_classes)."""
    padded = np.concatenate([np.zeros((len(totals), 1), np.int64), totals], axis=1)
    return padded[np.arange(len(totals)), cuts]


def _require_all_classes(dataset: DatasetInfo, held: NDArray[np.int64], remedy: str) -> None:
    """Raise DataError where a fold has no row of a class. held: (folds, n_classes) rows of each."""
    empty = np.argwhere(held == 0)
    if not len(empty):
        return
    if dataset.has_targets:
        few = "1 row is" if dataset.n_rows == 1 else f"{dataset.n_rows:,} rows are"
        raise DataError(f"{dataset.name}: {few} too few: a fold would have none; {remedy or 'add rows'}")
    c = int(empty[0, 1])
    there = counted(int(dataset.counts[c]), "row")
    raise DataError(
        f"{dataset.name}: class {quoted(dataset.classes[c])} has {there} in all, so that a fold would have "
        f"none of it; {f'{remedy}, or ' if remedy else ''}leave such classes out"
    )


def by_group(
    opened: Opened, settings: Settings, column: str, seed: int, stream: Stream, folds: int
) -> list[Fold]:
    """Return so many folds of about as many rows each, whose groups, the rows of the same value, are whole: the
    largest first, each into what is the smallest fold so far. Raises DataError, BudgetError."""
    name, option = stream.dataset.name, f"--group {column}"

    def parts(ids: NDArray[np.int32], values: list[Any]) -> NDArray[np.int8]:
        sizes = np.bincount(ids, minlength=len(values))
        if len(values) < folds:
            groups = "all rows are of one group" if len(values) == 1 else f"there are {len(values)} groups"
            raise DataError(
                f"{name}: {option}: {groups}, too few for {folds} folds of whole groups; name another column, or "
                "ask for fewer --folds"
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
    """Return so many splits: of parts of about as many rows, one more than there are splits, each is held out in
    turn but the first, and those before it are trained on. Rows of the same time are in the same part; text is in
    the order of its letters. Raises DataError, BudgetError."""
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
    """Return (n_rows,) which part each row is in. parts: of rows' numbers in a list of values and that list, the
    part of each value."""
    budget, n_rows = stream.budget, stream.dataset.n_rows
    budget.reserve(ROW_FOLDS, 5 * n_rows)
    ids, values = _read(opened, settings, column, n_rows, budget)
    of_rows = parts(ids, values)[ids]
    budget.release(ROW_FOLDS, 4 * n_rows + _WORD_BYTES * len(values))
    return of_rows


def _read(
    opened: Opened, settings: Settings, column: str, n_rows: int, budget: MemoryBudget
) -> tuple[NDArray[np.int32], list[Any]]:
    """Return (n_rows,) numbers of the rows' values in a sorted list of all different ones."""
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
    distinct = list(known)
    order = sorted(range(len(distinct)), key=lambda i: (isinstance(distinct[i], str), distinct[i]))
    rank = np.empty(len(distinct), np.int32)
    rank[order] = np.arange(len(distinct), dtype=np.int32)
    np.take(rank, ids, out=ids, mode="clip")  # in place: "raise" would copy
    return ids, [distinct[i] for i in order]


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


class Splits(NamedTuple):
    """Folds that the caller has made. roles: of each fold, (n_rows,) as ``Fold`` has them. counts: (n_rows,) bool,
    the rows of a weight above 0, which alone are read of tables; None: all rows."""

    roles: Sequence[NDArray[np.int8]]
    counts: NDArray[np.bool_] | None

    @property
    def overlap(self) -> bool:
        """Return whether a row is held out more than once."""
        return bool((sum((each == HELD).astype(np.int64) for each in self.roles) > 1).any())


def splits_of(pairs: Iterable[tuple[Any, Any]], n_rows: int, sample_weight: Any) -> Splits:
    """Return folds that the caller has made. pairs: rows that are trained on, and that are held out, as places or
    masks, of each fold; sample_weight: (n_rows,), or None. Raises UsageError for folds that no training can
    have."""
    roles: list[NDArray[np.int8]] = []
    for train, test in pairs:
        times = np.zeros((2, n_rows), np.int64)
        for number, rows in enumerate((train, test)):
            try:
                np.add.at(times[number], np.asarray(rows), 1)
            except IndexError as error:
                raise UsageError(
                    f"cv: fold {len(roles) + 1} names rows that X does not have: {error}; rows are counted from 0, "
                    f"and there are {n_rows:,}"
                ) from error
        if (times.sum(axis=0) > 1).any():
            row = int(np.argmax(times.sum(axis=0) > 1))
            raise UsageError(
                f"cv: fold {len(roles) + 1} has row {row + 1} twice, or both to train on and held out: a splitter "
                "of cross-validation has each row in one of them"
            )
        role = np.full(n_rows, UNUSED, np.int8)
        role[times[0] > 0], role[times[1] > 0] = TRAINED, HELD
        roles.append(role)
    if not roles:
        raise UsageError("cv gives no fold: pass a number of folds, or a splitter")
    return Splits(roles, None if sample_weight is None else np.asarray(sample_weight) > 0)


def by_splits(splits: Splits, stream: Stream, folds: int) -> list[Fold]:
    """Return folds that the caller has made. Raises DataError where one holds no row out, or leaves a class none to
    train on; BudgetError."""
    dataset, roles = stream.dataset, list(splits.roles)
    if dataset.n_rows != len(roles[0]) and splits.counts is not None:
        roles = [each[splits.counts] for each in roles]
    if dataset.n_rows != len(roles[0]):
        raise DataError(f"{dataset.name}: cv is of {len(roles[0]):,} rows, and there are {dataset.n_rows:,}")
    stream.budget.reserve(ROW_FOLDS, folds * dataset.n_rows)
    made = [Fold(number, folds, roles=each) for number, each in enumerate(roles)]
    require_classes(stream, made, "cv", _REMEDY)
    return made
