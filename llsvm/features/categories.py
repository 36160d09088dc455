"""Categories: text columns to columns of 0 and 1, one for each value, numbered in the order in which values first
appear (row by row, so that block sizes do not matter), or 2^hash_bits that they are hashed into."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from sys import getsizeof
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from llsvm.errors import DataError
from llsvm.features.columns import categories
from llsvm.features.doubts import Doubts
from llsvm.features.labels import one_writing
from llsvm.features.spelling import short
from llsvm.features.value_texts import value_in

MAX_CATEGORIES = 100_000
CATEGORY_BYTES = 250  # what a category holds beside its text: its place in the dictionary
Place = Callable[[int], str] | None  # where a row of a batch is, in words
# ... and its text: in the dictionary, in a feature's name, and while the model is written twice each as JSON text,
# as bytes, and as bytes with what follows them
_TEXT_COPIES = 8


class Coded(NamedTuple):
    """A column of a batch. codes: (n,) int64, -1 for what is missing. words: the value of each code."""

    name: str
    codes: NDArray[np.int64]
    words: list[str]


class Categories:
    """The categories of some columns, together.

    names: of the columns, in the table's order. hash_bits: None: each category has its own column.
    known: (column, value) by number, of a model, which learns nothing more; None: new ones are added.
    doubts: looks at what is learned.
    """

    def __init__(
        self,
        names: Sequence[str],
        hash_bits: int | None,
        known: Iterable[tuple[str, str]] | None = None,
        doubts: Doubts | None = None,
    ) -> None:
        self.names = tuple(names)
        self.hash_bits = hash_bits
        self.learning = known is None
        self.doubts = doubts or Doubts()
        self.nbytes = 0
        """What the categories seen so far take, here and in the model."""
        self._ids = {key: i for i, key in enumerate(known or ())}
        self._as_written = {
            name for name, word in self._ids if one_writing(word) != word
        }  # columns of a model
        self._by_value: dict[str, dict[str | Decimal, int]] = {}  # of a model, by column, see ``_id_of``
        self._n_values: dict[str, int] = {}  # of a model: how many values a column has
        self._unknown: dict[str, tuple[int, str]] = {}  # of these, how many are not known, and the first

    @property
    def width(self) -> int:
        """Columns of 0 and 1."""
        if not self.names:
            return 0
        return len(self._ids) if self.hash_bits is None else 1 << self.hash_bits

    @property
    def keys(self) -> list[tuple[str, str]]:
        """(column, value) of each number; none where they are hashed."""
        return list(self._ids)

    def empty_is_missing(self, name: str) -> bool:
        """Return whether empty text is missing in that column. It is a category where a model of an earlier version
        has it."""
        return (name, "") not in self._ids

    def _writing(self, name: str) -> Callable[[str], str]:
        """Return the function that makes one text of the texts of a column that mean the same: truth values and
        numbers that are named as categories are text in CSV files alone. A column of text has its words as they
        are, and so have hashes, from which the words cannot be recovered."""
        as_written = name in self._as_written or (self.learning and not self.doubts.trusts(name))
        return str.strip if as_written or self.hash_bits is not None else one_writing

    def coded(self, batch: pa.RecordBatch) -> list[Coded]:
        """Return the columns of a batch."""
        columns = []
        for name in self.names:
            try:
                how = self.empty_is_missing(name), self._writing(name)
                columns.append(Coded(name, *categories(batch.column(name), *how)))
            except ValueError as error:
                if len(error.args) != 2:  # of pyarrow
                    raise
                raise ValueError(error.args[0], f"column {name}: {error.args[1]}") from error
        return columns

    def cells(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Return the places of the ones of a batch: rows, and columns. ids: of the batch, see ``ids``."""
        row, place = np.nonzero(ids >= 0)
        columns = ids[row, place]
        return row, columns if self.hash_bits is None else columns & ((1 << self.hash_bits) - 1)

    def ids(
        self, found: Sequence[Coded], place: Place = None, weight: NDArray[np.float64] | None = None
    ) -> NDArray[np.int64]:
        """Return the numbers (n, columns) of a batch's categories, or hashes of 32 bits; -1 for what is missing, or
        not known. found: the columns ``names``, in that order. weight: (n,) of the rows, None where all are 1.
        Raises DataError."""
        if self.hash_bits is not None:
            id_maps = [[zlib.crc32(f"{name}={word}".encode()) for word in words] for name, _, words in found]
            if self.learning:
                for each, hashes in zip(found, id_maps, strict=True):
                    self.doubts.sample(*each, hashes, place)
                self.doubts.begin()
                self.nbytes = self.doubts.nbytes
        else:
            if self.learning:
                self._learn(found, place)
            id_maps = [[self._id_of(name, word) for word in words] for name, _, words in found]
        ids = np.stack(
            [
                np.array([*id_map, -1], np.int64)[codes]
                for id_map, (_, codes, _) in zip(id_maps, found, strict=True)
            ],
            axis=1,
        )
        if self.hash_bits is None:
            if self.learning:
                row, at = np.nonzero(ids >= 0)
                self.doubts.count(ids[row, at], len(self._ids), None if weight is None else weight[row])
                self._refuse_too_many()
            else:
                self._note_met(found, ids)
        return ids

    def _id_of(self, name: str, word: str) -> int:
        """Return the number of a category; -1 for what is not known. To a model, a number, date or time is the
        category that spells the same one: 1.50 in one format is 1.5 in another, and a day its midnight."""
        known = self._ids.get((name, word), -1)
        if known >= 0 or self.learning or (value := value_in(word)) is None:
            return known
        if name not in self._by_value:
            values = [(value_in(key), i) for (column, key), i in self._ids.items() if column == name]
            counts = Counter(key for key, _ in values)
            self._by_value[name] = {key: i for key, i in values if key is not None and counts[key] == 1}
        return self._by_value[name].get(value, -1)

    def _note_met(self, coded: Sequence[Coded], ids: NDArray[np.int64]) -> None:
        for place, (name, codes, words) in enumerate(coded):
            self._n_values[name] = self._n_values.get(name, 0) + int(np.count_nonzero(codes >= 0))
            unknown = (codes >= 0) & (ids[:, place] < 0)
            if n := int(np.count_nonzero(unknown)):
                before, first = self._unknown.get(name, (0, words[codes[np.argmax(unknown)]]))
                self._unknown[name] = (before + n, first)

    def _learn(self, coded: Sequence[Coded], place: Place) -> None:
        """Number the categories that are new, in the order of their first rows, within a row of their columns."""
        fresh = []
        for at, (name, codes, words) in enumerate(coded):
            new = [code for code, word in enumerate(words) if (name, word) not in self._ids]
            if new:
                first = np.full(len(words) + 1, -1)
                first[codes[::-1]] = np.arange(len(codes))[::-1]
                fresh += [(int(first[code]), at, name, words[code]) for code in new if first[code] >= 0]
        for row, _, name, word in sorted(fresh):
            self.doubts.look(name, word, row, place)
            self._ids[name, word] = len(self._ids)
            self.nbytes += CATEGORY_BYTES + _TEXT_COPIES * (getsizeof(word) + len(name))
        self.doubts.begin()

    def _refuse_too_many(self) -> None:
        if len(self._ids) > MAX_CATEGORIES:
            self.doubts.conclude(self._ids)
            counts = {name: sum(name == other for other, _ in self._ids) for name in self.names}
            widest = max(counts, key=lambda name: counts[name])
            raise DataError(
                f"column {widest}: {counts[widest]:,} categories and more ({MAX_CATEGORIES:,} are allowed in all); "
                f"leave it out (--exclude {widest}), read it as text (--text {widest}), or hash the categories "
                "(--hash-bits 18)"
            )

    def tell_unknown(self) -> list[str]:
        """Return a sentence for each column that has values which the model does not know, of the rows so far;
        those that follow are counted anew."""
        sentences = [
            f"column {name}: the model knows none of its values; they count as 0 in every row (are they written "
            "otherwise than in the training data?)"
            if n == self._n_values[name]
            else f"column {name}: {n:,} of its {self._n_values[name]:,} values are categories that the model does "
            f"not know, such as {short(first)}; they count as 0"
            for name, (n, first) in self._unknown.items()
        ]
        self._n_values, self._unknown = {}, {}
        return sentences

    def begin_again(self) -> None:
        """Start again: the first reading has been broken off, and another takes its place; nothing was counted."""
        if self.learning:
            self.doubts.begin_again()

    def finish(self) -> None:
        """End learning: all rows have been seen. Raises DataError, see Doubts."""
        if self.learning:
            self.learning = False
            self.doubts.conclude(self._ids)
            known = {name for name, _ in self._ids}
            for name in (name for name in self.names if name not in known and self.hash_bits is None):
                self.doubts.note(name, f"column {name}: no row has a value: it is no feature")
