"""Vocabulary: which n-grams have a column, counted over all documents in so much memory, whatever their number.

Counts are kept in hash tables, one for each thread, which counts the keys of its share. A table that is full is
written to disk as a run, sorted by key, and begun anew. In the end the runs are merged, a range of keys at a time,
and the rules of TextOptions applied to the sums: what is kept is exact, however often tables were full.

Columns are numbered by how many documents have their n-gram, the most frequent first, and among equals by key: the
order does not depend on memory or threads, and weights of n-grams that are met often lie together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.features.text.analyzer import Grams
from llsvm.features.text.options import TextOptions
from llsvm.features.text.runs import Entries, SortedRun, StoredRun, gathered, merged_by_ranges
from llsvm.kernels import ngrams as kernels
from llsvm.process.threads import Threads

_FIRST_PLACES = 1 << 12
_PLACE_BYTES = 32
_MERGED_SHARE = 8  # of the room of tables, while what is kept grows beside it
_STRING_BYTES = 16  # of an n-gram, for which there is room in a table beside its place
_EDGES = 1 << 16  # looked up together
_ARRAYS = {"keys": "u8", "columns": "i4", "documents": "u4", "names": "u1", "lengths": "i4"}
# of an n-gram that is kept, beside its bytes: as entries (28) and as a vocabulary (20); joined from parts once more
_KEPT_BYTES, _KEPT_COPIES = 28 + 20, 2


class VocabularyTooLarge(Exception):
    """It does not fit. n: its n-grams. nbytes: that they take while it is made."""

    def __init__(self, n: int, nbytes: int) -> None:
        super().__init__(n, nbytes)
        self.n, self.nbytes = n, nbytes


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The n-grams that have a column.

    keys: (n,) uint64, ascending. columns: (n,) int32, of each key. documents: (n,) uint32, that have the n-gram,
    by column. n_documents: of all. names: (bytes,) uint8, the n-grams in UTF-8, by key, one behind the other;
    lengths: (n,) int32, of each.
    """

    keys: NDArray[np.uint64]
    columns: NDArray[np.int32]
    documents: NDArray[np.uint32]
    n_documents: int
    names: NDArray[np.uint8]
    lengths: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """Of the arrays, those too that a Vectorizer makes of them."""
        buckets, idf = 4 << self._bucket_bits, 8 * len(self)
        return sum(array.nbytes for array in self.arrays().values()) + buckets + idf

    @property
    def _bucket_bits(self) -> int:
        return max(1, len(self).bit_length())

    def buckets(self) -> NDArray[np.int32]:
        """See ``llsvm.kernels.ngrams.encode``: about one key in each."""
        bits = self._bucket_bits
        out = np.full((1 << bits) + 1, len(self), np.int32)
        for start in range(0, 1 << bits, _EDGES):
            edges = np.arange(start, min(start + _EDGES, 1 << bits), dtype=np.uint64) << np.uint64(64 - bits)
            out[start : start + len(edges)] = np.searchsorted(self.keys, edges)
        return out

    def idf(self) -> NDArray[np.float64]:
        """(n,) ln((1 + documents) / (1 + those that have the n-gram)) + 1, by column."""
        return np.log((1.0 + self.n_documents) / (1.0 + self.documents)) + 1.0

    def words_of(self, columns: Sequence[int]) -> list[str]:
        """The n-grams of some columns."""
        places = np.flatnonzero(np.isin(self.columns, np.asarray(columns, np.int32)))
        ends = np.cumsum(self.lengths, dtype=np.int64)[places].tolist()
        found = zip(self.columns[places].tolist(), self.lengths[places].tolist(), ends, strict=True)
        words = {column: self.names[end - length : end].tobytes().decode() for column, length, end in found}
        return [words[column] for column in columns]

    def words(self) -> list[str]:
        """The n-grams, by column."""
        return self.words_of(range(len(self)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """By name, for a model's file."""
        return {name: getattr(self, name) for name in _ARRAYS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], n_documents: int) -> Vocabulary:
        """Raises ValueError where they do not fit each other."""
        for name, dtype in _ARRAYS.items():
            if arrays[name].dtype != dtype or arrays[name].ndim != 1:
                raise ValueError(f"{name} are {arrays[name].dtype} of shape {arrays[name].shape}")
        made = cls(n_documents=n_documents, **{name: arrays[name] for name in _ARRAYS})
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
        made.names.tobytes().decode()
        return made


class VocabularyCounter:
    """Counts n-grams; see the file's head."""

    def __init__(
        self, options: TextOptions, threads: Threads, room: int, new_file: Callable[[int], Path]
    ) -> None:
        """room: bytes that tables may take. new_file: names a file for a run of so many bytes, which is deleted by
        its owner."""
        self._options = options
        self._threads = threads
        self._tables = [
            _Table(room // threads.number, shard, threads.number) for shard in range(threads.number)
        ]
        self._new_file, self._room = new_file, room
        self._runs: list[StoredRun] = []
        self.n_documents = 0
        self.n_distinct = 0
        """N-grams, before the rules; known when it is finished."""

    def add(self, parts: list[Grams]) -> None:
        """The n-grams of documents, each of them once."""

        def work(shard: int) -> None:
            for part in parts:
                self._count(part, shard)

        self._threads.map(work, range(self._threads.number))
        self.n_documents += sum(len(part.first) - 1 for part in parts)

    def _count(self, part: Grams, shard: int) -> None:
        table, at = self._tables[shard], 0
        while at < len(part.grams):
            begin = at
            at = table.count(part, begin)
            if at < len(part.grams) and not table.grow():
                self._spill(table)

    def _spill(self, table: _Table) -> None:
        self._runs.append(StoredRun(table.sorted(), self._new_file))
        table.clear()

    def finish(self, most_bytes: int = 1 << 62) -> Vocabulary:
        """Of all documents. The tables are gone afterwards, and the runs are not needed any more.

        most_bytes: that it may take, and what it is made of meanwhile. Raises VocabularyTooLarge."""
        kept, n, n_bytes = list[Entries](), 0, 0
        for part in self._kept(self._all_runs()):
            n += len(part.keys)
            n_bytes += _KEPT_COPIES * (_KEPT_BYTES * len(part.keys) + len(part.strings))
            kept = [*kept, part] if n_bytes <= most_bytes else []
        if n_bytes > most_bytes:
            raise VocabularyTooLarge(n, n_bytes)
        keys = np.concatenate([part.keys for part in kept])
        documents = np.concatenate([part.documents for part in kept])
        lengths = np.concatenate([part.lengths for part in kept])
        names = np.concatenate([part.strings for part in kept])
        most = self._options.max_features
        if most is not None and len(keys) > most:
            occurrences = np.concatenate([part.occurrences for part in kept])
            chosen = np.zeros(len(keys), bool)
            chosen[np.lexsort((keys, -occurrences.astype(np.int64)))[:most]] = True
            starts = np.cumsum(lengths, dtype=np.int64) - lengths
            keys, documents, starts, lengths = (
                keys[chosen],
                documents[chosen],
                starts[chosen],
                lengths[chosen],
            )
            names = gathered(names, starts, lengths)
        del kept
        order = np.argsort(-documents.astype(np.int64), kind="stable")
        columns = np.empty(len(keys), np.int32)
        columns[order] = np.arange(len(keys), dtype=np.int32)
        return Vocabulary(keys, columns, documents[order].astype(np.uint32), self.n_documents, names, lengths)

    def _all_runs(self) -> list[SortedRun | StoredRun]:
        """What has been counted, sorted: in memory only where nothing has been spilled."""
        tables, self._tables = self._tables, []
        runs: list[SortedRun | StoredRun] = [*self._runs]
        while tables:
            table = tables.pop()
            runs.append(StoredRun(table.sorted(), self._new_file) if self._runs else table.sorted())
        return runs

    def _kept(self, runs: list[SortedRun | StoredRun]) -> Iterator[Entries]:
        """What the rules keep, by ranges of keys. The runs have the same key at most once each."""
        low, high = self._bounds()
        for part in merged_by_ranges(runs, self._room // _MERGED_SHARE):
            self.n_distinct += len(part.keys)
            kept = (part.documents >= low) & (part.documents <= high)
            yield part if kept.all() else part.chosen(kept)

    def _bounds(self) -> tuple[float, float]:
        """The fewest and the most documents that an n-gram may be in; as scikit-learn, a float is a share."""
        fewest, most = self._options.min_df, self._options.max_df
        low = fewest if isinstance(fewest, int) else fewest * self.n_documents
        high = most if isinstance(most, int) else most * self.n_documents
        return low, high


class _Table:
    """A hash table of n-grams and their counts; see ``llsvm.kernels.ngrams.count``."""

    def __init__(self, room: int, shard: int, shards: int) -> None:
        self._shard, self._shards = shard, shards
        most = max(room // (_PLACE_BYTES + _STRING_BYTES), _FIRST_PLACES)
        self._most_places = 1 << (most.bit_length() - 1)
        self._most_strings = max(room - self._most_places * _PLACE_BYTES, 1 << 16)
        self.places = np.zeros((_FIRST_PLACES, 4), np.uint64)
        self.strings = np.empty(_FIRST_PLACES * _STRING_BYTES, np.uint8)
        self.state = np.zeros(2, np.int64)

    def count(self, part: Grams, begin: int) -> int:
        stop = len(part.grams)
        return int(
            kernels.count(
                part.grams,
                begin,
                stop,
                part.text,
                self._shard,
                self._shards,
                self.places,
                self.strings,
                self.state,
            )
        )

    def grow(self) -> bool:
        """Make room for more; not beyond what there is."""
        full = self.state[0] >= len(self.places) // 4 * 3
        if full:
            if 2 * len(self.places) > self._most_places:
                return False
            old, self.places = self.places, np.zeros((2 * len(self.places), 4), np.uint64)
            kernels.grow(old, self.places, self._shards)
            return True
        if 2 * len(self.strings) > self._most_strings and self.state[0] > 0:
            return False
        larger = np.empty(2 * len(self.strings), np.uint8)  # a single n-gram may be longer than the room
        larger[: self.state[1]] = self.strings[: self.state[1]]
        self.strings = larger
        return True

    def clear(self) -> None:
        self.places[:] = 0
        self.state[:] = 0

    def sorted(self) -> SortedRun:
        return SortedRun.of(self.places, self.strings)
