"""Labels: maps the labels of a stream to class ids while it is still unknown which labels will come."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import DataError

_MANY_REAL_LABELS = 100  # this many different labels that are not whole numbers look like a regression target


class LabelEncoder:
    """Hands out ids in the order in which labels first appear, and counts their rows."""

    def __init__(self) -> None:
        self._known: NDArray[Any] = np.empty(0)  # ascending
        self._ids: NDArray[np.int32] = np.empty(0, np.int32)  # of the known labels
        self.counts: NDArray[np.int64] = np.zeros(0, np.int64)  # by id

    @property
    def classes(self) -> NDArray[Any]:
        """The labels seen so far, ascending."""
        return self._known

    @property
    def rank(self) -> NDArray[np.int32]:
        """(n_classes,) int32: ``rank[id]`` is the position of the id's label in ``classes``."""
        rank = np.empty(len(self._ids), np.int32)
        rank[self._ids] = np.arange(len(self._ids), dtype=np.int32)
        return rank

    def encode(self, y: NDArray[Any]) -> NDArray[np.int32]:
        """Ids of the labels ``y`` (n,), new ones made as needed, and the rows counted."""
        if y.dtype.kind == "O":
            y = y.astype(str)
        ids = self._lookup(y)
        if ids is None:
            self._learn(np.unique(y))
            ids = self._lookup(y)
        assert ids is not None
        self.counts += np.bincount(ids, minlength=len(self.counts))
        return ids

    def position(self, y: NDArray[Any]) -> NDArray[np.int32]:
        """Positions in ``classes`` of labels that have all been seen before (a later reading of the data)."""
        ids = self._lookup(y.astype(str) if y.dtype.kind == "O" else y)
        if ids is None:
            raise DataError(
                "the data changed between two readings: a label appeared that was not there before"
            )
        return self.rank[ids]

    def _lookup(self, y: NDArray[Any]) -> NDArray[np.int32] | None:
        if len(self._known) == 0:
            return None
        at = np.minimum(np.searchsorted(self._known, y), len(self._known) - 1)
        return self._ids[at] if np.array_equal(self._known[at], y) else None

    def _learn(self, labels: NDArray[Any]) -> None:
        fresh = np.setdiff1d(labels, self._known) if len(self._known) else labels
        known = np.concatenate([self._known, fresh]) if len(self._known) else fresh
        ids = np.arange(len(self.counts), len(self.counts) + len(fresh), dtype=np.int32)
        order = np.argsort(known, kind="stable")
        self._known, self._ids = known[order], np.concatenate([self._ids, ids])[order]
        self.counts = np.concatenate([self.counts, np.zeros(len(fresh), np.int64)])
        if known.dtype.kind == "f" and len(known) > _MANY_REAL_LABELS and np.any(known % 1):
            raise DataError(
                f"more than {_MANY_REAL_LABELS} different labels that are not whole numbers (for example "
                f"{known[known % 1 != 0][0]:g}): these look like regression targets (Unknown label type); "
                "llsvm trains classifiers"
            )


def class_signs(n_classes: int, one_vs_one: bool = False) -> NDArray[np.float64]:
    """(problems, classes) the y of each class in each binary problem: +1, -1, or 0 where it takes no part.

    Two classes are one problem, class 1 positive. More: each against the rest, or each pair i < j, i positive.
    """
    if n_classes == 2:
        return np.array([[-1.0, 1.0]])
    if not one_vs_one:
        return 2.0 * np.eye(n_classes) - 1.0
    pairs = [(i, j) for i in range(n_classes) for j in range(i + 1, n_classes)]
    signs = np.zeros((len(pairs), n_classes))
    for row, (i, j) in zip(signs, pairs, strict=True):
        row[i], row[j] = 1.0, -1.0
    return signs
