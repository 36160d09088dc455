"""Numbering: n-grams that are kept, as they come in ascending order of keys, become a Vocabulary.

Columns are numbered by how many documents have their n-gram, the most frequent first, and among equals by key. How
many n-grams each number of documents has is counted as they come; then a second look at them, in pieces, gives each
its column: nothing of their number is sorted, and what they are may lie on disk meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from llsvm.features.text.runs import Entries
from llsvm.features.text.vocabulary import Vocabulary
from llsvm.files.growing import GrowingArray, ScratchFiles, let_go

_PIECE = 1 << 17  # n-grams that are looked at together


class KeptNGrams:
    """See the file's head.

    files, memory_bytes: of each array, see GrowingArray. occurrences: they are wanted for ``most_frequent``.
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
        """Those that come next."""
        self._keys.append(part.keys)
        self._documents.append(part.documents)
        self._lengths.append(part.lengths)
        self._names.append(part.strings)
        _count(self._by_documents, part.documents)
        if self._with_occurrences:
            self._occurrences.append(part.occurrences)
            _count(self._by_occurrences, part.occurrences)

    def discard(self) -> None:
        """They are not wanted."""
        self.__dict__.pop("_whole", None)
        for each in (self._keys, self._documents, self._lengths, self._names, self._occurrences):
            each.discard()

    def most_frequent(self, most: int) -> KeptNGrams:
        """Those ``most`` that occur most often, and among equals the first in alphabetical order, as scikit-learn
        has them; this one is done with."""
        left, numbers = most, iter(sorted(self._by_occurrences, reverse=True))
        at_least = next(numbers)
        while self._by_occurrences[at_least] < left:
            left -= self._by_occurrences[at_least]
            at_least = next(numbers)
        last = self._chosen(lambda part: part.occurrences == at_least)._nth_name(left - 1)
        chosen = self._chosen(
            lambda part: (
                (part.occurrences > at_least) | ((part.occurrences == at_least) & _up_to(part, last))
            ),
            occurrences=False,
        )
        self.discard()
        return chosen

    def _chosen(self, which: Callable[[Entries], NDArray[np.bool_]], occurrences: bool = True) -> KeptNGrams:
        """Those of which this is true."""
        chosen = KeptNGrams(self._files, self._memory_bytes, occurrences)
        for part in self._pieces():
            chosen.add(part.chosen(which(part)))
        return chosen

    def _nth_name(self, n: int) -> bytes:
        """The n-th of their names in alphabetical order, from 0; this one is done with. What is looked for is
        narrowed down byte by byte, since the names may have no room in memory."""
        names, byte = self, 0
        while names._by_documents.total() > 1:
            ends = np.cumsum(
                sum(np.bincount(_bytes_at(part, byte), minlength=257) for part in names._pieces())
            )
            value = int(np.searchsorted(ends, n, "right"))
            n -= int(ends[value - 1]) if value else 0
            fewer = names._chosen(partial(_goes_on, byte=byte, value=value))
            names.discard()
            names, byte = fewer, byte + 1
        name = next(names._pieces()).strings.tobytes()
        names.discard()
        return name

    @cached_property
    def _whole(self) -> list[NDArray[Any]]:
        """Keys, documents, occurrences, lengths and names of all; nothing can be added any more."""
        arrays = (self._keys, self._documents, self._occurrences, self._lengths, self._names)
        return [each.finish() for each in arrays]

    def _pieces(self) -> Iterator[Entries]:
        """All of them, in order; nothing can be added any more."""
        keys, documents, occurrences, lengths, names = self._whole
        byte = 0
        for start in range(0, len(keys), _PIECE):
            own = slice(start, start + _PIECE)
            end = byte + int(lengths[own].sum(dtype=np.int64))
            counts = documents[own].astype(np.int64), occurrences[own].astype(np.int64)
            yield Entries(keys[own].copy(), *counts, lengths[own].copy(), names[byte:end].copy())
            let_go(*self._whole)
            byte = end

    def vocabulary(self, n_documents: int) -> Vocabulary:
        """Of all that was added; nothing can be added any more. n_documents: of all."""
        numbers = np.array(sorted(self._by_documents), np.int64)
        counts = np.array([self._by_documents[number] for number in numbers.tolist()], np.int64)
        first = counts.sum() - np.cumsum(
            counts
        )  # column of each number of documents: the larger ones come before
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
    """Columns of n-grams in these groups; following: (n_groups,) the next column of each, which is moved on."""
    order = np.argsort(groups, kind="stable")
    there, begin, number = np.unique(groups[order], return_index=True, return_counts=True)
    within = np.arange(len(groups)) - np.repeat(begin, number)
    columns = np.empty(len(groups), np.int32)
    columns[order] = np.repeat(following[there], number) + within
    following[there] += number
    return columns


def _bytes_at(part: Entries, byte: int) -> NDArray[np.int64]:
    """(n,) 1 and this byte of each name, from 0; 0 where a name is shorter, which comes before all longer ones."""
    starts = np.cumsum(part.lengths, dtype=np.int64) - part.lengths
    values, there = np.zeros(len(starts), np.int64), part.lengths > byte
    values[there] = part.strings[starts[there] + byte].astype(np.int64) + 1
    return values


def _goes_on(part: Entries, byte: int, value: int) -> NDArray[np.bool_]:
    """(n,) which names have this value of ``_bytes_at`` there."""
    return _bytes_at(part, byte) == value


def _up_to(part: Entries, last: bytes) -> NDArray[np.bool_]:
    """(n,) which names come before this one in alphabetical order, or are it."""
    ends = np.r_[0, np.cumsum(part.lengths, dtype=np.int64)]
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(part.strings)]
    names = pa.Array.from_buffers(pa.large_binary(), len(part.lengths), buffers)
    before: NDArray[np.bool_] = pc.less_equal(names, pa.scalar(last, pa.large_binary())).to_numpy(
        zero_copy_only=False
    )
    return before
