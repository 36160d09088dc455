"""VocabularyCounter: n-grams counted over all documents in so much memory, whatever their number.

Counts are kept in hash tables, one for each thread, which counts the keys of its share. A table that is full is
written to disk as a run, sorted by key, and begun anew. In the end the runs are merged, a range of keys at a time,
and the rules of TextOptions applied to the sums: what is kept is exact, however often tables were full.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from llsvm.features.text.analyzer import Grams
from llsvm.features.text.numbering import KeptNGrams
from llsvm.features.text.options import TextOptions
from llsvm.features.text.runs import Entries, SortedRun, StoredRun, gathered, merged_by_ranges
from llsvm.features.text.vocabulary import Vocabulary
from llsvm.files.growing import ScratchFiles
from llsvm.kernels import ngrams as kernels
from llsvm.process.threads import Threads

_FIRST_PLACES = 1 << 12
_PLACE_BYTES = 32
_MERGED_SHARE = 8  # of the room of tables
_KEPT_SHARE = 64  # ... for each array of what is kept, before it goes to disk
_STRING_BYTES = 16  # of an n-gram, for which there is room in a table beside its place


class VocabularyTooLarge(Exception):
    """It has more columns than wanted. n: its n-grams."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.n = n


class VocabularyCounter:
    """Counts n-grams; see the file's head."""

    def __init__(self, options: TextOptions, threads: Threads, room: int, files: ScratchFiles) -> None:
        """room: bytes that tables may take. files: for runs, and arrays of what is kept."""
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

    def _spill(self, table: Table) -> None:
        self._runs.append(StoredRun(table.sorted(), self._files.new))
        table.clear()

    def finish(self, most: int = 1 << 31) -> Vocabulary:
        """Of all documents. The tables are gone afterwards, and the runs are not needed any more.

        most: columns that it may have. Raises VocabularyTooLarge."""
        n, wanted = 0, self._options.max_features
        kept = KeptNGrams(self._files, self._room // _KEPT_SHARE, wanted is not None)
        for part in self._kept(self._all_runs()):
            if self._options.weight == "binary":  # a document has an n-gram once, as its rows do
                part = replace(part, occurrences=part.documents)
            n += len(part.keys)
            if n <= most or (wanted or n) <= most:
                kept.add(part)
        if min(n, wanted or n) > most:
            kept.discard()
            raise VocabularyTooLarge(n)
        if wanted is not None and n > wanted:
            kept = kept.most_frequent(wanted)
        return kept.vocabulary(self.n_documents)

    def _all_runs(self) -> list[SortedRun | StoredRun]:
        """What has been counted, sorted: in memory only where nothing has been spilled."""
        tables, self._tables = self._tables, []
        runs: list[SortedRun | StoredRun] = [*self._runs]
        while tables:
            table = tables.pop()
            runs.append(StoredRun(table.sorted(), self._files.new) if self._runs else table.sorted())
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


class Table:
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

    def drop_rarest(self) -> None:
        """Drop n-grams in the fewest documents, so many that a half of the table is empty, and of its strings."""
        documents = (self.places[:, 1] >> np.uint64(32)).astype(np.int64)
        lengths = (self.places[:, 1] & kernels.LOW_HALF).astype(np.int64)
        numbers = np.bincount(documents, documents > 0)
        sizes = np.bincount(documents, lengths)
        over = (np.cumsum(numbers[::-1]) > len(self.places) // 2) | (
            np.cumsum(sizes[::-1]) > len(self.strings) // 2
        )
        fewest = len(numbers) - (
            int(np.argmax(over)) if over.any() else 0
        )  # those in as many documents are kept
        kept = np.flatnonzero(documents >= fewest)
        strings = gathered(
            self.strings, self.places[kept, 3].astype(np.int64), lengths[kept].astype(np.int32)
        )
        self.places[documents < fewest] = 0
        self.places[kept, 3] = np.cumsum(lengths[kept]) - lengths[kept]
        old, self.places = self.places, np.zeros_like(self.places)
        kernels.grow(old, self.places, self._shards)
        self.strings[: len(strings)] = strings
        self.state[:] = len(kept), len(strings)

    def sorted(self) -> SortedRun:
        return SortedRun.of(self.places, self.strings)
