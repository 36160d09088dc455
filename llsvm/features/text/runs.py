"""Runs: counted n-grams sorted by key, in memory or on disk, and all of them merged in so much memory.

A run is divided into PARTS ranges of keys, the same in all. On disk range lies behind range, so that what is merged
at a time, some ranges of every run, is one read of each; no file stays open.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.kernels import ngrams as kernels

PARTS = 256
_EDGES = np.arange(1, PARTS, dtype=np.uint64) << np.uint64(64 - PARTS.bit_length() + 1)
_STORED = (np.uint64, np.uint32, np.uint64, np.uint32)  # of Entries but strings, in the order of its fields
_STORED_BYTES = sum(np.dtype(each).itemsize for each in _STORED)
_MERGING = 5  # times as much memory as what is merged


@dataclass(slots=True)
class Entries:
    """N-grams, ascending by key. All (n,) but strings (bytes,): the n-grams one behind the other."""

    keys: NDArray[np.uint64]
    documents: NDArray[np.int64]
    occurrences: NDArray[np.int64]
    lengths: NDArray[np.int32]
    strings: NDArray[np.uint8]

    def chosen(self, which: NDArray[np.bool_]) -> Entries:
        starts = np.cumsum(self.lengths, dtype=np.int64) - self.lengths
        lengths = self.lengths[which]
        strings = gathered(self.strings, starts[which], lengths)
        return Entries(self.keys[which], self.documents[which], self.occurrences[which], lengths, strings)


def merged(parts: list[Entries]) -> Entries:
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
    return Entries(
        keys[first],
        documents,
        occurrences,
        lengths[chosen],
        gathered(strings, starts[chosen], lengths[chosen]),
    )


def gathered(
    strings: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int32]
) -> NDArray[np.uint8]:
    """Slices, one behind the other."""
    out = np.empty(int(lengths.sum(dtype=np.int64)), np.uint8)
    kernels.gather(strings, starts, lengths, out)
    return out


def merged_by_ranges(runs: list[SortedRun | StoredRun], room: int) -> Iterator[Entries]:
    """All runs as one, some ranges of keys at a time: as many as are merged in ``room`` bytes, but at least one."""
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
    """In memory. first, first_byte: (PARTS + 1,) int64, where each range begins, in n-grams and in strings."""

    def __init__(self, entries: Entries) -> None:
        self.entries = entries
        self.first = np.r_[0, np.searchsorted(entries.keys, _EDGES), len(entries.keys)]
        ends = np.r_[0, np.cumsum(entries.lengths, dtype=np.int64)]
        self.first_byte = ends[self.first]

    @classmethod
    def of(cls, places: NDArray[np.uint64], strings: NDArray[np.uint8]) -> SortedRun:
        """What ``llsvm.kernels.ngrams.count`` has filled."""
        used = np.flatnonzero(places[:, 0])
        used = used[np.argsort(places[used, 0], kind="stable")]  # which is soon done: they are all but sorted
        counts = places[used, 1]
        lengths = (counts & kernels.LOW_HALF).astype(np.int32)
        return cls(
            Entries(
                places[used, 0],
                (counts >> np.uint64(32)).astype(np.int64),
                places[used, 2].astype(np.int64),
                lengths,
                gathered(strings, places[used, 3].astype(np.int64), lengths),
            )
        )

    def sizes(self) -> NDArray[np.int64]:
        return _sizes(self.first, self.first_byte)

    def ranges(self, begin: int, stop: int) -> Entries:
        rows, e = slice(self.first[begin], self.first[stop]), self.entries
        text = slice(self.first_byte[begin], self.first_byte[stop])
        return Entries(e.keys[rows], e.documents[rows], e.occurrences[rows], e.lengths[rows], e.strings[text])


class StoredRun:
    """On disk. Of each range: keys, documents, occurrences, lengths, strings."""

    def __init__(self, run: SortedRun, new_file: Callable[[int], Path]) -> None:
        """Write it. new_file: names a file for so many bytes."""
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
        file = os.open(self._path, os.O_RDONLY)
        try:
            read = _read(file, edges[-1] - edges[0], edges[0])
        finally:
            os.close(file)
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
    """(PARTS,) bytes on disk of each range."""
    return _STORED_BYTES * np.diff(first) + np.diff(first_byte)


def _read(file: int, n_bytes: int, at: int) -> bytearray:
    """Raises OSError where the file is shorter."""
    out = bytearray(n_bytes)
    view, done = memoryview(out), 0
    while done < n_bytes:
        n = os.preadv(file, [view[done:]], at + done)
        if n == 0:
            raise OSError("a file of counted n-grams ends early")
        done += n
    return out
