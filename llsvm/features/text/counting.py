"""Counting: n-grams counted over all documents in so much memory, whatever their number.

Counts are kept in hash tables, one for each thread, which counts the keys of its share. A table that is full is
written to disk as a run, sorted by key, and begun anew. In the end the runs are merged, a range of keys at a time,
and the rules of TextOptions applied to the sums: they are exact, however often tables were full. A run is divided
into PARTS ranges of keys, the same in all. On disk range lies behind range, so that what is merged at a time, some
ranges of every run, is one read of each; no file stays open.

Columns are numbered by how many documents have their n-gram, the most frequent first, and among equals by key. How
many n-grams each number of documents has is counted as they come; then a second look at them, in pieces, gives each
its column: nothing of their number is sorted, and what they are may lie on disk meanwhile.

Hashed columns are named by a sample of the documents: all of the first SAMPLE_BYTES of text, and a document after
that with the probability SAMPLE_BYTES by the bytes before it: 1.5 % of 1 GB. Whether one is taken depends on its
number and the text before it alone, not on the format or on threads. Their n-grams are counted in a table of
TABLE_BYTES; when it is full, the rarest are dropped from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from llsvm.features.text.analysis import Analyzer, Documents, Grams, workspace_bytes
from llsvm.features.text.options import TextOptions
from llsvm.features.text.vocabulary import ColumnNames, Vocabulary, gathered, select_strings
from llsvm.files.growing import GrowingArray, ScratchFiles, let_go
from llsvm.kernels import ngrams as kernels
from llsvm.process.threads import Threads

PARTS = 256
_EDGES = np.arange(1, PARTS, dtype=np.uint64) << np.uint64(64 - PARTS.bit_length() + 1)
_STORED = (np.uint64, np.uint32, np.uint64, np.uint32)  # of Entries but strings, in the order of its fields
_STORED_BYTES = sum(np.dtype(each).itemsize for each in _STORED)
_MERGING = 5  # times as much memory as what is merged
_FIRST_PLACES = 1 << 12
_PLACE_BYTES = 32
_STRING_BYTES = 16  # of an n-gram, for which there is room in a table beside its place
_MERGED_SHARE = 8  # of the room of tables
_SELECTED_SHARE = 64  # ... for each array of the n-grams that have columns, before it goes to disk
_PIECE = 1 << 17  # n-grams that are looked at together
SAMPLE_BYTES = 2_000_000
TABLE_BYTES = 9_000_000
_TABLE_COPIES = 2  # while some n-grams are dropped, or all are sorted
_SAMPLE_PIECE_BYTES = 1 << 15  # of text that is analyzed at a time


@dataclass(slots=True)
class Entries:
    """Counted n-grams, ascending by key. All are (n,) but strings (bytes,): the n-grams one behind the other."""

    keys: NDArray[np.uint64]
    documents: NDArray[np.int64]
    occurrences: NDArray[np.int64]
    lengths: NDArray[np.int32]
    strings: NDArray[np.uint8]

    def select(self, which: NDArray[np.bool_]) -> Entries:
        """Return the n-grams for which ``which``, (n,), is true."""
        strings, lengths = select_strings(self.strings, self.lengths, which)
        return Entries(self.keys[which], self.documents[which], self.occurrences[which], lengths, strings)


def merged(parts: list[Entries]) -> Entries:
    """Merge parts; the counts of a key are added up."""
    keys = np.concatenate([part.keys for part in parts])
    lengths = np.concatenate([part.lengths for part in parts])
    strings = np.concatenate([part.strings for part in parts])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]]) if len(keys) else np.zeros(0, np.int64)
    documents, occurrences = (
        np.add.reduceat(np.concatenate(counts)[order], first) if len(keys) else np.zeros(0, np.int64)
        for counts in ([part.documents for part in parts], [part.occurrences for part in parts])
    )
    strings, lengths = select_strings(strings, lengths, order[first])
    return Entries(keys[first], documents, occurrences, lengths, strings)


def merged_by_ranges(runs: list[SortedRun | StoredRun], room: int) -> Iterator[Entries]:
    """Merge runs, some ranges of keys at a time: as many as are merged in ``room`` bytes, but at least one."""
    sizes = sum((run.sizes() for run in runs), np.zeros(PARTS, np.int64)).tolist()
    begin = 0
    while begin < PARTS:
        stop, size = begin + 1, sizes[begin]
        while stop < PARTS and (size + sizes[stop]) * _MERGING <= room:
            size += sizes[stop]
            stop += 1
        yield merged([run.ranges(begin, stop) for run in runs])
        begin = stop


class SortedRun:
    """Run in memory. first, first_byte: (PARTS + 1,) int64, where each range begins, in n-grams and in strings."""

    def __init__(self, entries: Entries) -> None:
        self.entries = entries
        self.first = np.r_[0, np.searchsorted(entries.keys, _EDGES), len(entries.keys)]
        ends = np.r_[0, np.cumsum(entries.lengths, dtype=np.int64)]
        self.first_byte = ends[self.first]

    def sizes(self) -> NDArray[np.int64]:
        return _sizes(self.first, self.first_byte)

    def ranges(self, begin: int, stop: int) -> Entries:
        rows, e = slice(self.first[begin], self.first[stop]), self.entries
        text = slice(self.first_byte[begin], self.first_byte[stop])
        return Entries(e.keys[rows], e.documents[rows], e.occurrences[rows], e.lengths[rows], e.strings[text])


class StoredRun:
    """Run on disk. A range is its keys, documents, occurrences, lengths and strings."""

    def __init__(self, run: SortedRun, new_file: Callable[[int], Path]) -> None:
        """Write ``run``. new_file: names a file for so many bytes."""
        self.first, self.first_byte = run.first, run.first_byte
        self._path = new_file(int(run.sizes().sum()))
        with open(self._path, "wb") as file:
            for number in range(PARTS):
                part = run.ranges(number, number + 1)
                numbers: list[NDArray[Any]] = [part.keys, part.documents, part.occurrences, part.lengths]
                for array, dtype in zip(numbers, _STORED, strict=True):
                    file.write(array.astype(dtype, copy=False).data)
                file.write(part.strings.data)

    def sizes(self) -> NDArray[np.int64]:
        return _sizes(self.first, self.first_byte)

    def ranges(self, begin: int, stop: int) -> Entries:
        edges = (_STORED_BYTES * self.first[begin : stop + 1] + self.first_byte[begin : stop + 1]).tolist()
        read = bytearray(edges[-1] - edges[0])
        with open(self._path, "rb") as file:
            file.seek(edges[0])
            if file.readinto(read) < len(read):
                raise OSError("a file of counted n-grams ends early")
        rows = np.diff(self.first[begin : stop + 1]).tolist()
        columns: list[list[NDArray[Any]]] = [[], [], [], [], []]
        for n, start, end in zip(rows, edges, edges[1:], strict=False):
            at = start - edges[0]
            for column, dtype in zip(columns, _STORED, strict=False):
                column.append(np.frombuffer(read, dtype, n, at))
                at += column[-1].nbytes
            columns[4].append(np.frombuffer(read, np.uint8, end - edges[0] - at, at))
        keys, documents, occurrences, lengths, strings = map(np.concatenate, columns)
        return Entries(
            keys, documents.astype(np.int64), occurrences.astype(np.int64), lengths.astype(np.int32), strings
        )


def _sizes(first: NDArray[np.int64], first_byte: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return (PARTS,) bytes on disk of each range."""
    return _STORED_BYTES * np.diff(first) + np.diff(first_byte)


class Table:
    """Hash table of n-grams and their counts, which ``llsvm.kernels.ngrams.count`` fills."""

    def __init__(self, room: int, shard: int, shards: int) -> None:
        self._shard, self._shards = shard, shards
        max_places = max(room // (_PLACE_BYTES + _STRING_BYTES), _FIRST_PLACES)
        self._max_places = 1 << (max_places.bit_length() - 1)
        self._max_strings = max(room - self._max_places * _PLACE_BYTES, 1 << 16)
        self.places = np.zeros((_FIRST_PLACES, 4), np.uint64)
        self.strings = np.empty(_FIRST_PLACES * _STRING_BYTES, np.uint8)
        self.state = np.zeros(2, np.int64)

    def add(self, part: Grams, when_full: Callable[[], None]) -> None:
        """Count n-grams. when_full: makes room in a table that cannot grow."""
        at, n = 0, len(part.grams)
        while at < n:
            shard = self._shard, self._shards
            at = kernels.count(part.grams, at, n, part.text, *shard, self.places, self.strings, self.state)
            if at < n and not self._grow():
                when_full()

    def _grow(self) -> bool:
        """Double the table; returns False where that is more than it may take."""
        full = self.state[0] >= len(self.places) // 4 * 3
        if full:
            if 2 * len(self.places) > self._max_places:
                return False
            old, self.places = self.places, np.zeros((2 * len(self.places), 4), np.uint64)
            kernels.grow(old, self.places, self._shards)
            return True
        if 2 * len(self.strings) > self._max_strings and self.state[0] > 0:
            return False
        larger = np.empty(2 * len(self.strings), np.uint8)  # a single n-gram may be longer than the room
        larger[: self.state[1]] = self.strings[: self.state[1]]
        self.strings = larger
        return True

    def clear(self) -> None:
        self.places[:] = 0
        self.state[:] = 0

    def drop_rarest(self) -> None:
        """Drop n-grams in the fewest documents, so many that a half of the table is empty, and of its strings."""
        documents = (self.places[:, 1] >> np.uint64(32)).astype(np.int64)
        lengths = (self.places[:, 1] & kernels.LOW_HALF).astype(np.int64)
        numbers = np.bincount(documents, documents > 0)
        sizes = np.bincount(documents, lengths)
        over = (np.cumsum(numbers[::-1]) > len(self.places) // 2) | (
            np.cumsum(sizes[::-1]) > len(self.strings) // 2
        )
        fewest = len(numbers) - (int(np.argmax(over)) if over.any() else 0)  # those in as many documents stay
        stay = np.flatnonzero(documents >= fewest)
        starts = self.places[stay, 3].astype(np.int64)
        strings = gathered(self.strings, starts, lengths[stay].astype(np.int32))
        self.places[documents < fewest] = 0
        self.places[stay, 3] = np.cumsum(lengths[stay]) - lengths[stay]
        old, self.places = self.places, np.zeros_like(self.places)
        kernels.grow(old, self.places, self._shards)
        self.strings[: len(strings)] = strings
        self.state[:] = len(stay), len(strings)

    def sorted(self) -> SortedRun:
        """Return the n-grams and their counts, by key."""
        used = np.flatnonzero(self.places[:, 0])
        used = used[np.argsort(self.places[used, 0], kind="stable")]  # which is fast: they are all but sorted
        counts = self.places[used, 1]
        lengths = (counts & kernels.LOW_HALF).astype(np.int32)
        return SortedRun(
            Entries(
                self.places[used, 0],
                (counts >> np.uint64(32)).astype(np.int64),
                self.places[used, 2].astype(np.int64),
                lengths,
                gathered(self.strings, self.places[used, 3].astype(np.int64), lengths),
            )
        )


class SelectedNGrams:
    """N-grams that are to have columns, added in ascending order of keys.

    files, memory_bytes: of each GrowingArray. occurrences: they are counted, for ``most_frequent``.
    """

    def __init__(self, files: ScratchFiles, memory_bytes: int, occurrences: bool) -> None:
        self._files, self._memory_bytes, self._with_occurrences = files, memory_bytes, occurrences
        self._keys, self._documents, self._lengths, self._names = (
            self._new(dtype) for dtype in (np.uint64, np.uint32, np.int32, np.uint8)
        )
        self._occurrences = self._new(np.uint64)
        self._by_documents: Counter[int] = Counter()
        self._by_occurrences: Counter[int] = Counter()

    def _new(self, dtype: type) -> GrowingArray:
        return GrowingArray(dtype, self._files, self._memory_bytes)

    def add(self, part: Entries) -> None:
        """Add n-grams whose keys are larger than those before them."""
        self._keys.append(part.keys)
        self._documents.append(part.documents)
        self._lengths.append(part.lengths)
        self._names.append(part.strings)
        _count(self._by_documents, part.documents)
        if self._with_occurrences:
            self._occurrences.append(part.occurrences)
            _count(self._by_occurrences, part.occurrences)

    def discard(self) -> None:
        """Delete the n-grams, and their files."""
        self.__dict__.pop("_whole", None)
        for each in (self._keys, self._documents, self._lengths, self._names, self._occurrences):
            each.discard()

    def most_frequent(self, number: int) -> SelectedNGrams:
        """Return the ``number`` that occur most often, among equals the first in alphabetical order.

        So does scikit-learn. This object is used up."""
        left, numbers = number, iter(sorted(self._by_occurrences, reverse=True))
        at_least = next(numbers)
        while self._by_occurrences[at_least] < left:
            left -= self._by_occurrences[at_least]
            at_least = next(numbers)
        last = self._select(lambda part: part.occurrences == at_least)._nth_name(left - 1)
        selected = self._select(
            lambda part: (
                (part.occurrences > at_least) | ((part.occurrences == at_least) & _up_to(part, last))
            ),
            occurrences=False,
        )
        self.discard()
        return selected

    def _select(
        self, which: Callable[[Entries], NDArray[np.bool_]], occurrences: bool = True
    ) -> SelectedNGrams:
        """Return the n-grams for which ``which`` is true."""
        selected = SelectedNGrams(self._files, self._memory_bytes, occurrences)
        for part in self._pieces():
            selected.add(part.select(which(part)))
        return selected

    def _nth_name(self, n: int) -> bytes:
        """Return the n-th name in alphabetical order, from 0; this object is used up.

        The search goes byte by byte, since the names may not fit in memory."""
        names, byte = self, 0
        while names._by_documents.total() > 1:
            ends = np.cumsum(
                sum(np.bincount(_bytes_at(part, byte), minlength=257) for part in names._pieces())
            )
            value = int(np.searchsorted(ends, n, "right"))
            n -= int(ends[value - 1]) if value else 0
            fewer = names._select(partial(_goes_on, byte=byte, value=value))
            names.discard()
            names, byte = fewer, byte + 1
        name = next(names._pieces()).strings.tobytes()
        names.discard()
        return name

    @cached_property
    def _whole(self) -> list[NDArray[Any]]:
        """Return the keys, documents, occurrences, lengths and names; no n-gram can be added afterwards."""
        arrays = (self._keys, self._documents, self._occurrences, self._lengths, self._names)
        return [each.finish() for each in arrays]

    def _pieces(self) -> Iterator[Entries]:
        """Yield all n-grams, in order; none can be added afterwards."""
        keys, documents, occurrences, lengths, names = self._whole
        byte = 0
        for start in range(0, len(keys), _PIECE):
            piece = slice(start, start + _PIECE)
            end = byte + int(lengths[piece].sum(dtype=np.int64))
            counts = documents[piece].astype(np.int64), occurrences[piece].astype(np.int64)
            yield Entries(keys[piece].copy(), *counts, lengths[piece].copy(), names[byte:end].copy())
            let_go(*self._whole)
            byte = end

    def vocabulary(self, n_documents: int) -> Vocabulary:
        """Return the vocabulary of all n-grams; none can be added afterwards. n_documents: of all."""
        numbers = np.array(sorted(self._by_documents), np.int64)
        counts = np.array([self._by_documents[number] for number in numbers.tolist()], np.int64)
        # The first column of each number of documents: the larger ones come before.
        first = counts.sum() - np.cumsum(counts)
        documents, columns = self._documents.finish(), self._new(np.int32)
        for start in range(0, len(documents), _PIECE):
            columns.append(_numbered(np.searchsorted(numbers, documents[start : start + _PIECE]), first))
        del documents
        self._documents.discard()
        by_column = self._new(np.uint32)
        for number, count in zip(numbers[::-1].tolist(), counts[::-1].tolist(), strict=True):
            for start in range(0, count, _PIECE):
                by_column.append(np.full(min(_PIECE, count - start), number, np.uint32))
        keys, names, lengths = (each.finish() for each in (self._keys, self._names, self._lengths))
        return Vocabulary(keys, columns.finish(), by_column.finish(), n_documents, names, lengths)


def _count(counter: Counter[int], values: NDArray[np.integer]) -> None:
    for value, number in zip(*map(np.ndarray.tolist, np.unique(values, return_counts=True)), strict=True):
        counter[value] += number


def _numbered(groups: NDArray[np.intp], following: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return columns for n-grams in groups. following: (n_groups,) the next column of each, which advances."""
    order = np.argsort(groups, kind="stable")
    there, begin, number = np.unique(groups[order], return_index=True, return_counts=True)
    within = np.arange(len(groups)) - np.repeat(begin, number)
    columns = np.empty(len(groups), np.int32)
    columns[order] = np.repeat(following[there], number) + within
    following[there] += number
    return columns


def _bytes_at(part: Entries, byte: int) -> NDArray[np.int64]:
    """Return (n,) 1 + this byte of each name, or 0 where a name is shorter and comes before all longer ones."""
    starts = np.cumsum(part.lengths, dtype=np.int64) - part.lengths
    values, there = np.zeros(len(starts), np.int64), part.lengths > byte
    values[there] = part.strings[starts[there] + byte].astype(np.int64) + 1
    return values


def _goes_on(part: Entries, byte: int, value: int) -> NDArray[np.bool_]:
    """Return (n,) which names have this value of ``_bytes_at``."""
    return _bytes_at(part, byte) == value


def _up_to(part: Entries, last: bytes) -> NDArray[np.bool_]:
    """Return (n,) which names come before ``last`` in alphabetical order, or are equal to it."""
    ends = np.r_[0, np.cumsum(part.lengths, dtype=np.int64)]
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(part.strings)]
    names = pa.Array.from_buffers(pa.large_binary(), len(part.lengths), buffers)
    before = pc.less_equal(names, pa.scalar(last, pa.large_binary()))
    return np.asarray(before.to_numpy(zero_copy_only=False))


class VocabularyTooLarge(Exception):
    """A vocabulary has more columns than it may have. n: its n-grams."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.n = n


class VocabularyCounter:
    """Counter of the n-grams of a text column, which makes its vocabulary."""

    def __init__(self, options: TextOptions, threads: Threads, room: int, files: ScratchFiles) -> None:
        """room: bytes that tables may take. files: for runs, and for arrays of the vocabulary."""
        self._options = options
        self._threads = threads
        self._tables = [
            Table(room // threads.number, shard, threads.number) for shard in range(threads.number)
        ]
        self._files, self._room = files, room
        self._runs: list[StoredRun] = []
        self.n_documents = 0
        self.n_distinct = 0
        """N-grams, before the rules; known when it is finished."""

    def add(self, parts: list[Grams]) -> None:
        """Count the n-grams of documents, each of which comes once."""

        def work(shard: int) -> None:
            table = self._tables[shard]
            for part in parts:
                table.add(part, partial(self._spill, table))

        self._threads.map(work, range(self._threads.number))
        self.n_documents += sum(len(part.first) - 1 for part in parts)

    def _spill(self, table: Table) -> None:
        self._runs.append(StoredRun(table.sorted(), self._files.new))
        table.clear()

    def finish(self, max_columns: int = 1 << 31) -> Vocabulary:
        """Return the vocabulary of all documents; the tables and the runs are not needed afterwards.
        max_columns: n-grams that it may have. Raises VocabularyTooLarge for more."""
        n, max_features = 0, self._options.max_features
        selected = SelectedNGrams(self._files, self._room // _SELECTED_SHARE, max_features is not None)
        for part in self._within_bounds(self._all_runs()):
            if self._options.weight == "binary":  # a document has an n-gram once, as its rows do
                part = replace(part, occurrences=part.documents)
            n += len(part.keys)
            if min(n, max_features or n) <= max_columns:
                selected.add(part)
        if min(n, max_features or n) > max_columns:
            selected.discard()
            raise VocabularyTooLarge(n)
        if max_features is not None and n > max_features:
            selected = selected.most_frequent(max_features)
        return selected.vocabulary(self.n_documents)

    def _all_runs(self) -> list[SortedRun | StoredRun]:
        """Return all that was counted, sorted: in memory only where no table has been spilled."""
        tables, self._tables = self._tables, []
        runs: list[SortedRun | StoredRun] = [*self._runs]
        while tables:
            table = tables.pop()
            runs.append(StoredRun(table.sorted(), self._files.new) if self._runs else table.sorted())
        return runs

    def _within_bounds(self, runs: list[SortedRun | StoredRun]) -> Iterator[Entries]:
        """Yield the n-grams that min_df and max_df leave, by ranges of keys. A run has a key at most once."""
        low, high = self._bounds()
        for part in merged_by_ranges(runs, self._room // _MERGED_SHARE):
            self.n_distinct += len(part.keys)
            within = (part.documents >= low) & (part.documents <= high)
            yield part if within.all() else part.select(within)

    def _bounds(self) -> tuple[float, float]:
        """Return how many documents an n-gram must and may be in; as in scikit-learn, a float is a share."""
        low, high = self._options.min_df, self._options.max_df
        low = low if isinstance(low, int) else low * self.n_documents
        return low, high if isinstance(high, int) else high * self.n_documents


class NameSampler:
    """Counter of a sample's n-grams, which name hashed columns. options: with ``hash_bits``."""

    def __init__(self, options: TextOptions) -> None:
        assert options.hash_bits is not None, "other columns have names of their own"
        self._bits = options.hash_bits
        self._analyzer = Analyzer(options)
        self._table = Table(TABLE_BYTES, 0, 1)
        self._row = self._text_bytes = 0
        # texts one behind the other, and their lengths: taken, not yet counted
        self._held: list[tuple[NDArray[np.uint8], NDArray[np.int32]]] = []
        self._held_bytes = 0

    @staticmethod
    def bytes_for(options: TextOptions) -> int:
        """Return the most bytes that a sampler takes."""
        return (
            _TABLE_COPIES * TABLE_BYTES
            + workspace_bytes(options, _SAMPLE_PIECE_BYTES)
            + 2 * _SAMPLE_PIECE_BYTES
        )

    def add(self, documents: Documents) -> None:
        """Take a sample of documents, which are known to be UTF-8.

        Few of a batch are taken: they are held until they are worth the calls that counting takes."""
        starts = documents.offsets[:-1].astype(np.int64)
        lengths = documents.offsets[1:] - starts
        before = self._text_bytes + np.cumsum(lengths) - lengths
        rows = np.arange(self._row, self._row + documents.number, dtype=np.uint64)
        which = np.flatnonzero(_uniform(rows) * before < SAMPLE_BYTES)
        self._row += documents.number
        self._text_bytes += int(lengths.sum())
        if not len(which):
            return
        lengths = lengths[which].astype(np.int32)
        self._held.append((gathered(documents.text, starts[which], lengths), lengths))
        self._held_bytes += len(self._held[-1][0])
        if self._held_bytes >= _SAMPLE_PIECE_BYTES:
            self._count()

    def _count(self) -> None:
        """Count the n-grams of the documents that are held."""
        texts, lengths = map(np.concatenate, zip(*self._held, strict=True))
        sample = Documents(texts, np.r_[0, np.cumsum(lengths, dtype=np.int64)])
        self._held, self._held_bytes = [], 0
        for first, stop in sample.pieces(_SAMPLE_PIECE_BYTES):
            self._table.add(self._analyzer.grams(sample, first, stop), self._table.drop_rarest)

    def finish(self) -> ColumnNames:
        """Return the names of all columns of which the sample has an n-gram."""
        if self._held:
            self._count()
        entries = self._table.sorted().entries
        columns = (entries.keys >> np.uint64(64 - self._bits)).astype(np.int32)
        order = np.lexsort((-entries.documents, columns))  # stable: among equals by key
        columns, first, number = np.unique(columns, return_index=True, return_counts=True)
        names = select_strings(entries.strings, entries.lengths, order[first])
        return ColumnNames(columns, (number - 1).astype(np.int32), *names)


def _uniform(numbers: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return a pseudo-random number of [0, 1) for each number: splitmix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        z = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53
