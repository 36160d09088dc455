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
from llsvm.kernels import ngrams as kernels
from llsvm.process.threads import Threads

_FIRST_PLACES = 1 << 12
_PLACE_BYTES = 32
_STRING_BYTES = 16  # of an n-gram, for which there is room in a table beside its place
_PARTS = 256  # ranges of keys, in which runs are merged
_EDGES = 1 << 16  # looked up together
_ARRAYS = {"keys": "u8", "columns": "i4", "documents": "u4", "names": "u1", "lengths": "i4"}
# of an n-gram that is kept, beside its bytes: as entries (28) and as a vocabulary (20); joined from parts once more
_KEPT_BYTES, _KEPT_COPIES = 28 + 20, 2
_RUN_BYTES = 28  # of an n-gram on disk, beside its bytes


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
        self._tables = [_Table(room // threads.number) for _ in range(threads.number)]
        self._new_file = new_file
        self._runs: list[_Run] = []
        self.n_documents = 0

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
            at = table.count(part, begin, shard, len(self._tables))
            if at < len(part.grams) and not table.grow():
                self._spill(table)

    def _spill(self, table: _Table) -> None:
        self._runs.append(_Run.written(self._new_file, table))
        table.clear()

    def finish(self, most_bytes: int = 1 << 62) -> Vocabulary:
        """Of all documents. The tables are gone afterwards, and the runs are not needed any more.

        most_bytes: that it may take, and what it is made of meanwhile. Raises VocabularyTooLarge."""
        kept, n, n_bytes = list[_Entries](), 0, 0
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
            names = _gathered(names, starts, lengths)
        del kept
        order = np.argsort(-documents.astype(np.int64), kind="stable")
        columns = np.empty(len(keys), np.int32)
        columns[order] = np.arange(len(keys), dtype=np.int32)
        return Vocabulary(keys, columns, documents[order].astype(np.uint32), self.n_documents, names, lengths)

    def _all_runs(self) -> list[_Run | _Sorted]:
        """What has been counted, sorted: in memory only where nothing has been spilled."""
        tables, self._tables = self._tables, []
        runs: list[_Run | _Sorted] = [*self._runs]
        while tables:
            table = tables.pop()
            runs.append(_Run.written(self._new_file, table) if self._runs else _Sorted.of(table))
        return runs

    def _kept(self, runs: list[_Run | _Sorted]) -> Iterator[_Entries]:
        """What the rules keep, by ranges of keys. The runs have the same key at most once each."""
        low, high = self._bounds()
        for number in range(_PARTS):
            part = _merged([run.part(number) for run in runs])
            kept = (part.documents >= low) & (part.documents <= high)
            yield part if kept.all() else part.chosen(kept)

    def _bounds(self) -> tuple[float, float]:
        """The fewest and the most documents that an n-gram may be in; as scikit-learn, a float is a share."""
        fewest, most = self._options.min_df, self._options.max_df
        low = fewest if isinstance(fewest, int) else fewest * self.n_documents
        high = most if isinstance(most, int) else most * self.n_documents
        return low, high


@dataclass(slots=True)
class _Entries:
    """N-grams, ascending by key. All (n,) but strings (bytes,): the n-grams one behind the other."""

    keys: NDArray[np.uint64]
    documents: NDArray[np.int64]
    occurrences: NDArray[np.int64]
    lengths: NDArray[np.int32]
    strings: NDArray[np.uint8]

    def chosen(self, which: NDArray[np.bool_]) -> _Entries:
        starts = np.cumsum(self.lengths, dtype=np.int64) - self.lengths
        lengths = self.lengths[which]
        strings = _gathered(self.strings, starts[which], lengths)
        return _Entries(self.keys[which], self.documents[which], self.occurrences[which], lengths, strings)


def _merged(parts: list[_Entries]) -> _Entries:
    """One of several; the counts of a key are added up."""
    keys = np.concatenate([part.keys for part in parts])
    lengths = np.concatenate([part.lengths for part in parts])
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    strings = np.concatenate([part.strings for part in parts])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]]) if len(keys) else np.zeros(0, np.int64)
    documents, occurrences = (
        np.add.reduceat(np.concatenate(counts)[order], first) if len(keys) else np.zeros(0, np.int64)
        for counts in ([part.documents for part in parts], [part.occurrences for part in parts])
    )
    chosen = order[first]
    return _Entries(
        keys[first],
        documents,
        occurrences,
        lengths[chosen],
        _gathered(strings, starts[chosen], lengths[chosen]),
    )


def _gathered(
    strings: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int32]
) -> NDArray[np.uint8]:
    out = np.empty(int(lengths.sum(dtype=np.int64)), np.uint8)
    kernels.gather(strings, starts, lengths, out)
    return out


class _Table:
    """A hash table of n-grams and their counts; see ``llsvm.kernels.ngrams.count``."""

    def __init__(self, room: int) -> None:
        most = max(room // (_PLACE_BYTES + _STRING_BYTES), _FIRST_PLACES)
        self._most_places = 1 << (most.bit_length() - 1)
        self._most_strings = max(room - self._most_places * _PLACE_BYTES, 1 << 16)
        self.places = np.zeros((_FIRST_PLACES, 4), np.uint64)
        self.strings = np.empty(_FIRST_PLACES * _STRING_BYTES, np.uint8)
        self.state = np.zeros(2, np.int64)

    def count(self, part: Grams, begin: int, shard: int, shards: int) -> int:
        stop = len(part.grams)
        return int(
            kernels.count(
                part.grams, begin, stop, part.text, shard, shards, self.places, self.strings, self.state
            )
        )

    def grow(self) -> bool:
        """Make room for more; not beyond what there is."""
        full = self.state[0] >= len(self.places) // 4 * 3
        if full:
            if 2 * len(self.places) > self._most_places:
                return False
            old, self.places = self.places, np.zeros((2 * len(self.places), 4), np.uint64)
            kernels.grow(old, self.places)
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


class _Sorted:
    """What is in a table, ascending by key, in ranges of keys."""

    def __init__(self, entries: _Entries) -> None:
        self.entries = entries
        edges = np.arange(1, _PARTS, dtype=np.uint64) << np.uint64(64 - _PARTS.bit_length() + 1)
        self.first = np.r_[0, np.searchsorted(entries.keys, edges), len(entries.keys)]
        ends = np.r_[0, np.cumsum(entries.lengths, dtype=np.int64)]
        self.first_byte = ends[self.first]

    @classmethod
    def of(cls, table: _Table) -> _Sorted:
        used = np.flatnonzero(table.places[:, 0])
        used = used[np.argsort(table.places[used, 0])]
        keys = table.places[used, 0]
        lengths = (table.places[used, 1] & kernels.LOW_HALF).astype(np.int32)
        documents = (table.places[used, 1] >> np.uint64(32)).astype(np.int64)
        occurrences = table.places[used, 2].astype(np.int64)
        strings = _gathered(table.strings, table.places[used, 3].astype(np.int64), lengths)
        return cls(_Entries(keys, documents, occurrences, lengths, strings))

    def part(self, number: int) -> _Entries:
        rows = slice(self.first[number], self.first[number + 1])
        text = slice(self.first_byte[number], self.first_byte[number + 1])
        e = self.entries
        return _Entries(
            e.keys[rows], e.documents[rows], e.occurrences[rows], e.lengths[rows], e.strings[text]
        )


class _Run:
    """The same on disk, array behind array."""

    def __init__(self, path: Path, first: NDArray[np.int64], first_byte: NDArray[np.int64]) -> None:
        self._path, self._first, self._first_byte = path, first, first_byte

    @classmethod
    def written(cls, new_file: Callable[[int], Path], table: _Table) -> _Run:
        ordered = _Sorted.of(table)
        path = new_file(_RUN_BYTES * len(ordered.entries.keys) + len(ordered.entries.strings))
        with open(path, "wb") as file:
            e = ordered.entries
            for array in (e.keys, e.documents, e.occurrences, e.lengths, e.strings):
                array.tofile(file)
        return cls(path, ordered.first, ordered.first_byte)

    def part(self, number: int) -> _Entries:
        n, total = self._first[number + 1] - self._first[number], self._first[-1]
        at = self._first[number]
        with open(self._path, "rb") as file:

            def array(dtype: type, before: int, start: int, count: int) -> NDArray[Any]:
                file.seek(before + start * np.dtype(dtype).itemsize)
                return np.fromfile(file, dtype, count)

            return _Entries(
                array(np.uint64, 0, at, n),
                array(np.int64, 8 * total, at, n),
                array(np.int64, 16 * total, at, n),
                array(np.int32, 24 * total, at, n),
                array(
                    np.uint8,
                    28 * total,
                    self._first_byte[number],
                    self._first_byte[number + 1] - self._first_byte[number],
                ),
            )
