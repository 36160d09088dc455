"""Vocabulary: which n-grams have a column, and what they are.

Its arrays may lie in a file that is mapped (``growing``): only what is looked at is in memory, and until ``rest``.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.features.text.frequencies import ColumnWeights
from llsvm.files.growing import is_mapped, let_go

_ARRAYS = {"keys": "u8", "columns": "i4", "documents": "u4", "names": "u1", "lengths": "i4"}
_WEIGHED = "f8"  # documents, where they count by their sample weights
_PIECE = 1 << 20  # n-grams, or bytes of names, that are looked at together


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The n-grams that have a column.

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
        """Of the arrays that are in memory all the time."""
        return sum(array.nbytes for array in self.arrays().values() if not is_mapped(array))

    def rest(self) -> None:
        """Take what is mapped out of memory, until it is looked at again."""
        let_go(*self.arrays().values())

    def weights(self) -> ColumnWeights:
        """Inverse document frequencies, by column."""
        return ColumnWeights.inverse(self.documents, self.n_documents, len(self) if self.is_weighed else None)

    @property
    def is_weighed(self) -> bool:
        """Do documents count by their sample weights?"""
        return self.documents.dtype == _WEIGHED

    def words_of(self, columns: Sequence[int]) -> list[str]:
        """The n-grams of some columns."""
        wanted, byte = np.unique(np.asarray(columns, np.int32)), 0
        words: dict[int, str] = {}
        for start in range(0, len(self), _PIECE):
            there, lengths = self.columns[start : start + _PIECE], self.lengths[start : start + _PIECE]
            ends = byte + np.cumsum(lengths, dtype=np.int64)
            for place in np.flatnonzero(np.isin(there, wanted)).tolist():
                name = self.names[ends[place] - lengths[place] : ends[place]]
                words[int(there[place])] = name.tobytes().decode()
            byte = int(ends[-1])
        self.rest()
        return [words[column] for column in columns]

    def words(self) -> list[str]:
        """The n-grams, by column."""
        return self.words_of(range(len(self)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """By name, for a model's file."""
        return {name: getattr(self, name) for name in _ARRAYS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], n_documents: float) -> Vocabulary:
        """Raises ValueError where they do not fit each other."""
        for name, dtype in _ARRAYS.items():
            dtypes = (dtype, _WEIGHED) if name == "documents" else (dtype,)
            if arrays[name].dtype not in dtypes or arrays[name].ndim != 1:
                raise ValueError(f"{name} are {arrays[name].dtype} of shape {arrays[name].shape}")
        made = cls(n_documents=n_documents, **{name: arrays[name] for name in _ARRAYS})
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
        for start in range(0, len(made.names), _PIECE):
            decoder.decode(made.names[start : start + _PIECE].tobytes())
        decoder.decode(b"", True)
        return made
