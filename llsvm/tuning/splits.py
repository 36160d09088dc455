"""Folds that the caller has made: of each the rows that are trained on, and those that are held out.

Each fold takes a byte a row: rows may be in several folds, or in none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import DataError, UsageError
from llsvm.objective.problems import HELD, TRAINED, UNUSED, Fold
from llsvm.stream.stream import Stream
from llsvm.tuning.columns import ROW_FOLDS, require_classes

_REMEDY = "pass a splitter that keeps classes together (StratifiedKFold), or one with fewer folds"


class Splits(NamedTuple):
    """roles: of each fold, (n_rows,) as ``Fold`` has them. counts: (n_rows,) bool, the rows of a weight above 0,
    which alone are read of tables; None: all rows."""

    roles: Sequence[NDArray[np.int8]]
    counts: NDArray[np.bool_] | None

    @property
    def overlap(self) -> bool:
        """Is a row held out more than once?"""
        return bool((sum((each == HELD).astype(np.int64) for each in self.roles) > 1).any())


def splits_of(pairs: Iterable[tuple[Any, Any]], n_rows: int, sample_weight: Any) -> Splits:
    """pairs: rows that are trained on, and that are held out, as places or masks, of each fold; sample_weight:
    (n_rows,), or None. Raises UsageError for folds that no training can have."""
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
    """Raises DataError where a fold holds no row out, or leaves a class none to train on; BudgetError."""
    dataset, roles = stream.dataset, list(splits.roles)
    if dataset.n_rows != len(roles[0]) and splits.counts is not None:
        roles = [each[splits.counts] for each in roles]
    if dataset.n_rows != len(roles[0]):
        raise DataError(f"{dataset.name}: cv is of {len(roles[0]):,} rows, and there are {dataset.n_rows:,}")
    stream.budget.reserve(ROW_FOLDS, folds * dataset.n_rows)
    made = [Fold(number, folds, roles=each) for number, each in enumerate(roles)]
    require_classes(stream, made, "cv", _REMEDY)
    return made
