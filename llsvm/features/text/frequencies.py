"""How many documents have an n-gram, each counted by its sample weight, and the weight that follows from it, for
tfidf.

Document frequencies of hashed columns are counted in a reading of their own, as scikit-learn's TfidfTransformer
counts them of HashingVectorizer's rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, running_sum
from llsvm.files.growing import let_go

WEIGHED_ALONE = 1 << 20  # columns that have a weight of their own in memory; those after them share theirs
_RUN_BYTES = 12  # of columns one behind the other that share it
_MOST_RUNS = 1 << 16  # an estimate: beyond the frequent columns, few documents have a column
_PIECE = 1 << 18  # columns that are looked at together

Places = NDArray[np.int32]  # (width,) of each column: its number in blocks


@dataclass(frozen=True, slots=True)
class ColumnWeights:
    """By which counts are multiplied.

    alone: (m,) float64, of the first m columns. first: (runs,) int32, ascending, those columns after them from
    which on ``shared``, (runs,) float64, is the weight, up to the next.
    """

    alone: NDArray[np.float64]
    first: NDArray[np.int32]
    shared: NDArray[np.float64]

    @classmethod
    def none(cls) -> ColumnWeights:
        """Every column has weight 1."""
        return cls(np.zeros(0), np.zeros(0, np.int32), np.zeros(0))

    def moved(self, places: NDArray[np.int32]) -> ColumnWeights:
        """Of the columns where they have been put, each of which has a weight of its own, or none has."""
        alone = np.empty_like(self.alone)
        if len(alone):
            alone[places] = self.alone
        return ColumnWeights(alone, self.first, self.shared)

    @classmethod
    def inverse(
        cls, documents: NDArray[Any], n_documents: float, most_alone: int | None = None
    ) -> ColumnWeights:
        """ln((1 + n_documents) / (1 + documents)) + 1 of each column. documents: (n,), that have it; where it lies
        on disk it is let go. A vocabulary's columns are by their number, so that equal ones are neighbours.
        most_alone: None: WEIGHED_ALONE."""
        most_alone = WEIGHED_ALONE if most_alone is None else most_alone
        alone = _inverse(documents[:most_alone], n_documents)
        places, numbers = [np.zeros(0, np.int32)], [np.zeros(0, np.uint32)]
        for start in range(most_alone, len(documents), _PIECE):
            piece = documents[start : start + _PIECE]
            before = documents[start - 1] if start > most_alone else piece[0] + np.uint32(1)
            new = np.flatnonzero(np.diff(piece, prepend=before))
            places.append((start + new).astype(np.int32))
            numbers.append(piece[new])
            let_go(documents)
        return cls(alone, np.concatenate(places), _inverse(np.concatenate(numbers), n_documents))


def weights_bytes(n: int) -> int:
    """Of ColumnWeights of a vocabulary of so many."""
    return 8 * min(n, WEIGHED_ALONE) + _RUN_BYTES * min(max(n - WEIGHED_ALONE, 0), _MOST_RUNS)


class ColumnFrequencies:
    """documents: (n_columns,) uint32, those that have an n-gram of the column, or float64, the sums of their
    weights. n_documents: of all."""

    def __init__(self, documents: NDArray[Any], n_documents: float = 0) -> None:
        self.documents = documents
        self.n_documents = n_documents

    def add(self, rows: CSR, weight: NDArray[np.float64] | None = None) -> None:
        """Documents that come next, in each of whose rows a column is there at most once. weight: (n,) of each,
        None where all are 1."""
        if weight is None:
            np.add.at(self.documents, rows.indices, self.documents.dtype.type(1))
        else:
            np.add.at(self.documents, rows.indices, np.repeat(weight, np.diff(rows.indptr)))
        self.n_documents = running_sum(self.n_documents, weight, len(rows.indptr) - 1)

    def weights(self) -> ColumnWeights:
        """Of each column its own."""
        return ColumnWeights.inverse(self.documents, self.n_documents, len(self.documents))


def _inverse(documents: NDArray[Any], n_documents: float) -> NDArray[np.float64]:
    return np.log((1.0 + n_documents) / (1.0 + documents)) + 1.0


def frequent_first(columns: NDArray[np.integer], width: int) -> Places:
    """Of columns that are there so often, (m,), the most frequent first; those in their places have theirs instead,
    and the rest stay."""
    frequent, counts = np.unique(columns, return_counts=True)
    frequent = frequent[np.argsort(-counts, kind="stable")]
    n = len(frequent)
    places = np.arange(width, dtype=np.int32)
    places[np.setdiff1d(np.arange(n), frequent, assume_unique=True)] = np.sort(frequent[frequent >= n])
    places[frequent] = np.arange(n)
    return places
