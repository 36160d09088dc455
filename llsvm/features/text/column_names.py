"""Names of hashed columns: the n-grams that fall into them, as met in a sample of the documents.

All of the first SAMPLE_BYTES of text are looked at, and a document after that with the probability SAMPLE_BYTES
by the bytes before it: 1.5 % of 1 GB. Whether one is taken depends on its number and the text before it alone, not
on the format or on threads. N-grams are counted in a table of TABLE_BYTES; when it is full, those that were met
least often are dropped from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.features.text.analyzer import Analyzer, Documents, workspace_bytes
from llsvm.features.text.counting import Table
from llsvm.features.text.options import TextOptions
from llsvm.features.text.runs import gathered

SAMPLE_BYTES = 2_000_000
TABLE_BYTES = 9_000_000
_TABLE_COPIES = 2  # while some n-grams are dropped, or all are sorted
_PIECE_BYTES = 1 << 15  # of text that is analysed at a time
_ARRAYS = {"columns": "i4", "others": "i4", "names": "u1", "lengths": "i4"}


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """Of some hashed columns.

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
        """By column, those that have one: ``good movie``, or ``good movie (and 2 more)``."""
        ends = np.cumsum(self.lengths, dtype=np.int64)
        found = {}
        for place in np.flatnonzero(np.isin(self.columns, np.asarray(columns, np.int64))).tolist():
            end, others = int(ends[place]), int(self.others[place])
            name = self.names[end - int(self.lengths[place]) : end].tobytes().decode()
            found[int(self.columns[place])] = name + (f" (and {others} more)" if others else "")
        return found

    def chosen(self, wanted: NDArray[np.bool_]) -> ColumnNames:
        """Of those columns only. wanted: (all columns,)."""
        which = wanted[self.columns]
        starts = np.cumsum(self.lengths, dtype=np.int64) - self.lengths
        lengths = self.lengths[which]
        names = gathered(self.names, starts[which], lengths)
        return ColumnNames(self.columns[which], self.others[which], names, lengths)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """By name, for a model's file."""
        return {name: getattr(self, name) for name in _ARRAYS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], n_columns: int) -> ColumnNames:
        """Raises ValueError where they do not fit each other."""
        for name, dtype in _ARRAYS.items():
            if arrays[name].dtype != dtype or arrays[name].ndim != 1:
                raise ValueError(f"{name} are {arrays[name].dtype} of shape {arrays[name].shape}")
        made = cls(**{name: arrays[name] for name in _ARRAYS})
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


class NameSampler:
    """See the file's head. options: with ``hash_bits``."""

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
        """What it takes at most."""
        return _TABLE_COPIES * TABLE_BYTES + workspace_bytes(options, _PIECE_BYTES) + 2 * _PIECE_BYTES

    def add(self, documents: Documents) -> None:
        """The documents that come next, which are known to be UTF-8. Few of a batch are taken: they are held until
        they are worth the calls that counting takes."""
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
        if self._held_bytes >= _PIECE_BYTES:
            self._count()

    def _count(self) -> None:
        """The n-grams of the documents that are held."""
        texts, lengths = map(np.concatenate, zip(*self._held, strict=True))
        sample = Documents(texts, np.r_[0, np.cumsum(lengths, dtype=np.int64)])
        self._held, self._held_bytes = [], 0
        for first, stop in sample.pieces(_PIECE_BYTES):
            part, at = self._analyzer.grams(sample, first, stop), 0
            while at < len(part.grams):
                at = self._table.count(part, at)
                if at < len(part.grams) and not self._table.grow():
                    self._table.drop_rarest()

    def finish(self) -> ColumnNames:
        """Of all columns that an n-gram was met of."""
        if self._held:
            self._count()
        met = self._table.sorted().entries
        columns = (met.keys >> np.uint64(64 - self._bits)).astype(np.int32)
        order = np.lexsort((-met.documents, columns))  # stable: among equals by key
        columns, first, number = np.unique(columns, return_index=True, return_counts=True)
        best = order[first]
        starts = np.cumsum(met.lengths, dtype=np.int64) - met.lengths
        lengths = met.lengths[best]
        names = gathered(met.strings, starts[best], lengths)
        return ColumnNames(columns, (number - 1).astype(np.int32), names, lengths)


def _uniform(numbers: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Of each number, one of [0, 1) that looks random: splitmix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        z = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53
