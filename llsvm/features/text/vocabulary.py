"""Vocabularies: which n-grams have a column, what columns are called, and what they weigh.

The arrays of a Vocabulary may lie in a file that is mapped (``growing``): only what is looked at is in memory, and
until ``rest``. A Lookup finds the column of an n-gram's key in few bytes for each. Keys are hashes, so their high
bits spread them evenly over buckets. An entry has the KEY_BITS that follow those of its bucket, which together are
all 64: no bit of a key is lost.

Document frequencies of hashed columns are counted in a reading of their own, as scikit-learn's TfidfTransformer
counts them of HashingVectorizer's rows.
"""

from __future__ import annotations

import codecs
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, running_sum
from llsvm.files.growing import is_mapped, let_go
from llsvm.kernels.ngrams import ENTRY_BYTES, KEY_BITS, gather

WEIGHED_ALONE = 1 << 20  # columns that have a weight of their own in memory; those after them share theirs
_RUN_BYTES = 12  # of columns one behind the other that share it
_MOST_RUNS = 1 << 16  # an estimate: beyond the frequent columns, few documents have a column
_WEIGHED = "f8"  # documents, where they count by their sample weights
_NAMES = {"names": ("u1",), "lengths": ("i4",)}
_VOCABULARY = {"keys": ("u8",), "columns": ("i4",), "documents": ("u4", _WEIGHED), **_NAMES}
_COLUMN_NAMES = {"columns": ("i4",), "others": ("i4",), **_NAMES}
# Bits of a key that choose its bucket: at least, so that no bit is lost; at most, to save memory.
BUCKET_BITS = 64 - KEY_BITS, 21
_KEY_BYTES = KEY_BITS // 8
_PIECE = 1 << 18  # columns, or n-grams, that are looked at together
_NAMES_PIECE = 1 << 20  # n-grams, or bytes of names, that are looked at together

Places = NDArray[np.int32]  # (width,) of each column: its number in blocks


def gathered(
    strings: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int32]
) -> NDArray[np.uint8]:
    """Return slices of ``strings``, one behind the other."""
    out = np.empty(int(lengths.sum(dtype=np.int64)), np.uint8)
    gather(strings, starts, lengths, out)
    return out


def select_strings(
    strings: NDArray[np.uint8], lengths: NDArray[np.int32], which: NDArray[Any]
) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Return some of the strings (bytes,) that lie one behind the other, and their lengths.

    lengths: (n,) of all. which: (n,) bool, or the numbers of those to return."""
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    lengths = lengths[which]
    return gathered(strings, starts[which], lengths), lengths


def _checked(
    arrays: Mapping[str, NDArray[Any]], dtypes: Mapping[str, Sequence[str]]
) -> dict[str, NDArray[Any]]:
    """Return the arrays of these names. Raises ValueError for other types or shapes than vectors of ``dtypes``."""
    for name, expected in dtypes.items():
        if arrays[name].dtype not in expected or arrays[name].ndim != 1:
            raise ValueError(f"{name} are {arrays[name].dtype} of shape {arrays[name].shape}")
    return {name: arrays[name] for name in dtypes}


@dataclass(frozen=True, slots=True)
class ColumnWeights:
    """Weights of columns, by which counts are multiplied.

    alone: (m,) float64, of the first m columns, each its own. first: (runs,) int32, ascending, the columns after
    them at which a run of columns with the same weight begins. shared: (runs,) float64, the weight of each run.
    """

    alone: NDArray[np.float64]
    first: NDArray[np.int32]
    shared: NDArray[np.float64]

    @classmethod
    def none(cls) -> ColumnWeights:
        """Return weights that are 1 for every column."""
        return cls(np.zeros(0), np.zeros(0, np.int32), np.zeros(0))

    def moved(self, places: NDArray[np.int32]) -> ColumnWeights:
        """Return the weights of columns that were moved to ``places``; each has its own weight, or none has."""
        alone = np.empty_like(self.alone)
        if len(alone):
            alone[places] = self.alone
        return ColumnWeights(alone, self.first, self.shared)

    @classmethod
    def inverse(
        cls, documents: NDArray[Any], n_documents: float, max_alone: int | None = None
    ) -> ColumnWeights:
        """Return the inverse document frequency ln((1 + n_documents) / (1 + documents)) + 1 of each column.

        documents: (n,), that have it; where it lies on disk it is let go. A vocabulary's columns are sorted by
        their number of documents, so that equal ones are neighbors. max_alone: columns with weights of their own,
        at most; None: WEIGHED_ALONE."""
        max_alone = WEIGHED_ALONE if max_alone is None else max_alone
        alone = _inverse(documents[:max_alone], n_documents)
        places, numbers = [np.zeros(0, np.int32)], [np.zeros(0, np.uint32)]
        for start in range(max_alone, len(documents), _PIECE):
            piece = documents[start : start + _PIECE]
            before = documents[start - 1] if start > max_alone else piece[0] + np.uint32(1)
            new = np.flatnonzero(np.diff(piece, prepend=before))
            places.append((start + new).astype(np.int32))
            numbers.append(piece[new])
            let_go(documents)
        return cls(alone, np.concatenate(places), _inverse(np.concatenate(numbers), n_documents))

    def by_column(self, n: int) -> NDArray[np.float64]:
        """Return the weights of all n columns, (n,), of which some or all share theirs."""
        weights = np.empty(n)
        alone = len(self.alone)
        weights[:alone] = self.alone
        if n > alone:
            weights[alone:] = self.shared[np.searchsorted(self.first, np.arange(alone, n), "right") - 1]
        return weights


def weights_bytes(n: int) -> int:
    """Return the bytes of the ColumnWeights of a vocabulary of n n-grams."""
    return 8 * min(n, WEIGHED_ALONE) + _RUN_BYTES * min(max(n - WEIGHED_ALONE, 0), _MOST_RUNS)


class ColumnFrequencies:
    """Document frequencies of hashed columns.

    documents: (n_columns,) uint32, those that have an n-gram of the column, or float64, the sums of their weights.
    n_documents: of all."""

    def __init__(self, documents: NDArray[Any], n_documents: float = 0) -> None:
        self.documents = documents
        self.n_documents = n_documents

    def add(self, rows: CSR, weight: NDArray[np.float64] | None = None) -> None:
        """Count the documents of rows, in each of which a column is there at most once. weight: (n,) of each, None
        where all are 1."""
        if weight is None:
            np.add.at(self.documents, rows.indices, self.documents.dtype.type(1))
        else:
            np.add.at(self.documents, rows.indices, np.repeat(weight, np.diff(rows.indptr)))
        self.n_documents = running_sum(self.n_documents, weight, len(rows.indptr) - 1)

    def weights(self) -> ColumnWeights:
        """Return the inverse document frequency of each column."""
        return ColumnWeights.inverse(self.documents, self.n_documents, len(self.documents))


def _inverse(documents: NDArray[Any], n_documents: float) -> NDArray[np.float64]:
    return np.log((1.0 + n_documents) / (1.0 + documents)) + 1.0


def frequent_first(columns: NDArray[np.integer], width: int) -> Places:
    """Return places that put the most frequent of the columns, (m,), first; those that were there move to where the
    frequent ones come from, and all others stay."""
    frequent, counts = np.unique(columns, return_counts=True)
    frequent = frequent[np.argsort(-counts, kind="stable")]
    n = len(frequent)
    places = np.arange(width, dtype=np.int32)
    places[np.setdiff1d(np.arange(n), frequent, assume_unique=True)] = np.sort(frequent[frequent >= n])
    places[frequent] = np.arange(n)
    return places


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """N-grams that have a column.

    keys: (n,) uint64, ascending. columns: (n,) int32, of each key. documents: (n,) uint32, that have the n-gram,
    by column; or float64, the sums of their weights. n_documents: of all. names: (bytes,) uint8, the n-grams in
    UTF-8, by key, one behind the other; lengths: (n,) int32, of each.
    """

    keys: NDArray[np.uint64]
    columns: NDArray[np.int32]
    documents: NDArray[Any]
    n_documents: float
    names: NDArray[np.uint8]
    lengths: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that are in memory all the time."""
        return sum(array.nbytes for array in self.arrays().values() if not is_mapped(array))

    def rest(self) -> None:
        """Take what is mapped out of memory, until it is looked at again."""
        let_go(*self.arrays().values())

    def weights(self) -> ColumnWeights:
        """Return the inverse document frequencies, by column."""
        return ColumnWeights.inverse(self.documents, self.n_documents, len(self) if self.is_weighed else None)

    @property
    def is_weighed(self) -> bool:
        """Whether documents count by their sample weights."""
        return self.documents.dtype == _WEIGHED

    def words_of(self, columns: Sequence[int]) -> list[str]:
        """Return the n-grams of these columns."""
        sought, byte = np.unique(np.asarray(columns, np.int32)), 0
        words: dict[int, str] = {}
        for start in range(0, len(self), _NAMES_PIECE):
            there, lengths = (
                self.columns[start : start + _NAMES_PIECE],
                self.lengths[start : start + _NAMES_PIECE],
            )
            ends = byte + np.cumsum(lengths, dtype=np.int64)
            for place in np.flatnonzero(np.isin(there, sought)).tolist():
                name = self.names[ends[place] - lengths[place] : ends[place]]
                words[int(there[place])] = name.tobytes().decode()
            byte = int(ends[-1])
        self.rest()
        return [words[column] for column in columns]

    def words(self) -> list[str]:
        """Return the n-grams, by column."""
        return self.words_of(range(len(self)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name, for a model's file."""
        return {name: getattr(self, name) for name in _VOCABULARY}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], n_documents: float) -> Vocabulary:
        """Return the vocabulary of ``arrays``. Raises ValueError where these do not fit each other."""
        made = cls(n_documents=n_documents, **_checked(arrays, _VOCABULARY))
        if made.is_weighed and not (np.isfinite(made.documents) & (made.documents >= 0)).all():
            raise ValueError("documents whose weights sum to no number")
        n, there = len(made), np.zeros(len(made), bool)
        if not len(made.columns) == len(made.documents) == len(made.lengths) == n:
            raise ValueError("its parts have different lengths")
        if n and (made.columns.min() < 0 or made.columns.max() >= n or made.lengths.min() < 0):
            raise ValueError("a column beyond the last")
        there[made.columns] = True
        if not there.all() or np.any(made.keys[1:] <= made.keys[:-1]):
            raise ValueError("n-grams that are there twice")
        if int(made.lengths.sum(dtype=np.int64)) != len(made.names):
            raise ValueError("names of other lengths")
        decoder = codecs.getincrementaldecoder("utf-8")()
        for start in range(0, len(made.names), _NAMES_PIECE):
            decoder.decode(made.names[start : start + _NAMES_PIECE].tobytes())
        decoder.decode(b"", True)
        return made


@dataclass(frozen=True, slots=True)
class Lookup:
    """Table from keys to columns, as ``llsvm.kernels.ngrams.encode`` takes it.

    entries: (ENTRY_BYTES * n,) uint8: of each n-gram, by key, the KEY_BITS of its key that follow those of its
    bucket, and its column. buckets: (2^b + 1,) int32, where the entries begin whose keys have these b high bits.
    """

    entries: NDArray[np.uint8]
    buckets: NDArray[np.int32]

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Lookup:
        """Return the table of a vocabulary, whose mapped arrays are let go."""
        n, bits = len(vocabulary), _bucket_bits(len(vocabulary))
        entries, buckets = np.empty((n, ENTRY_BYTES), np.uint8), np.empty((1 << bits) + 1, np.int32)
        to_bucket, done = np.uint64(64 - bits), 0
        for start in range(0, n, _PIECE):
            piece = slice(start, min(start + _PIECE, n))
            keys = vocabulary.keys[piece]
            low_bits = (keys << np.uint64(bits)) >> np.uint64(64 - KEY_BITS)
            entries[piece, :_KEY_BYTES] = low_bits.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :_KEY_BYTES]
            columns = vocabulary.columns[piece].astype("<i4")
            entries[piece, _KEY_BYTES:] = columns.view(np.uint8).reshape(-1, 4)
            last = int(keys[-1] >> to_bucket)  # those up to it begin here, if they have not begun before
            edges = np.arange(done, last + 1, dtype=np.uint64) << to_bucket
            buckets[done : last + 1] = start + np.searchsorted(keys, edges)
            done = last + 1
            let_go(vocabulary.keys, vocabulary.columns)
        buckets[done:] = n
        return cls(entries.reshape(-1), buckets)


def _bucket_bits(n: int) -> int:
    low, high = BUCKET_BITS
    return min(max(low, n.bit_length()), high)


def lookup_bytes(n: int, weighed: bool = False) -> int:
    """Return the bytes that n n-grams take while rows are made: of their Lookup, and of their weights.

    weighed: documents count by their sample weights."""
    return ENTRY_BYTES * n + (4 << _bucket_bits(n)) + (8 * n if weighed else weights_bytes(n))


def most_n_grams(nbytes: int) -> int:
    """Return the largest number of n-grams whose ``lookup_bytes`` are at most ``nbytes``."""
    return bisect_right(range(1 << 31), nbytes, key=lookup_bytes) - 1


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """Names of hashed columns, of those that have one.

    columns: (n,) int32, ascending. others: (n,) int32, how many n-grams more were met of each than it is named by.
    names: (bytes,) uint8, of each the n-gram that was met most often, in UTF-8, one behind the other; lengths: (n,)
    int32.
    """

    columns: NDArray[np.int32]
    others: NDArray[np.int32]
    names: NDArray[np.uint8]
    lengths: NDArray[np.int32]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    def of(self, columns: Sequence[int]) -> dict[int, str]:
        """Return the names by column, of those that have one: ``good movie``, or ``good movie (and 2 more)``."""
        ends = np.cumsum(self.lengths, dtype=np.int64)
        by_column = {}
        for place in np.flatnonzero(np.isin(self.columns, np.asarray(columns, np.int64))).tolist():
            end, others = int(ends[place]), int(self.others[place])
            name = self.names[end - int(self.lengths[place]) : end].tobytes().decode()
            by_column[int(self.columns[place])] = name + (f" (and {others} more)" if others else "")
        return by_column

    def select(self, used: NDArray[np.bool_]) -> ColumnNames:
        """Return the names of the columns that are used. used: (all columns,)."""
        which = used[self.columns]
        return ColumnNames(
            self.columns[which], self.others[which], *select_strings(self.names, self.lengths, which)
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name, for a model's file."""
        return {name: getattr(self, name) for name in _COLUMN_NAMES}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], n_columns: int) -> ColumnNames:
        """Return the names of ``arrays``. Raises ValueError where these do not fit each other."""
        made = cls(**_checked(arrays, _COLUMN_NAMES))
        n = len(made.columns)
        ascending = n == 0 or (made.columns[0] >= 0 and made.columns[-1] < n_columns)
        if not ascending or np.any(made.columns[1:] <= made.columns[:-1]):
            raise ValueError("names of columns that are not there, or there twice")
        if not len(made.others) == len(made.lengths) == n or made.lengths.min(initial=0) < 0:
            raise ValueError("its parts have different lengths")
        if int(made.lengths.sum(dtype=np.int64)) != len(made.names):
            raise ValueError("names of other lengths")
        made.names.tobytes().decode()
        return made
