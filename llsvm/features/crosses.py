"""Crosses of two columns of a table: features for what the two say together.

    number x number      one column, the product
    category x number    for each category a column, with the number in the rows that have it
    category x category  a column of 0 and 1 for each pair that rows of the training data have

Where categories have columns of their own, pairs have them too, in the order of their categories' numbers: they are
learned in a reading before the first one (``llsvm.data.crosses``), so that every width is known before a row is
made. Hashed crosses are put into 2^hash_bits columns for numbers and as many for pairs, and need no such reading.
A number that is missing is replaced first (by 0, or by its column's mean, learned in that reading too), then
crossed; a category that is missing, and a pair that the training data have not, is zero in every column.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import running_sum
from llsvm.errors import DataError, ModelError
from llsvm.features.table_options import find_column, listed

NAME = "crosses"  # of what a model keeps of them
PAIR_BYTES = (
    48  # held of a pair while pairs are learned: its key, and copies while those of a batch are sorted in
)
MARK = " & "  # between the two in names
_MERGED_ABOVE = 1 << 16
_WORD = np.uint64(32)


@dataclass(frozen=True, slots=True)
class Cross:
    """Two columns, in the order in which they were named. a_is_number, b_is_number: else they are categories."""

    a: str
    b: str
    a_is_number: bool
    b_is_number: bool

    @property
    def name(self) -> str:
        return f"{self.a}{MARK}{self.b}"

    @property
    def category(self) -> str:
        """Return the column of categories, of a category and a number."""
        return self.b if self.a_is_number else self.a

    @property
    def number(self) -> str:
        """Return the column of numbers, of a category and a number."""
        return self.a if self.a_is_number else self.b

    def named(self, a: str | None = None, b: str | None = None) -> str:
        """Return the name of one feature. a, b: the category of that column."""
        left = self.a if a is None else f"{self.a}={a}"
        return left + MARK + (self.b if b is None else f"{self.b}={b}")


class _PairsMet:
    """Pairs of categories that rows have, of each of ``count`` crosses: keys, ascending. ``keys``: given ones."""

    def __init__(self, count: int, keys: Sequence[NDArray[np.int64]] | None = None) -> None:
        self.keys = [np.zeros(0, np.int64) for _ in range(count)] if keys is None else list(keys)
        self._new: list[list[NDArray[np.int64]]] = [[] for _ in self.keys]  # not sorted in yet
        self._n_new = 0

    def __len__(self) -> int:
        """Count the pairs of all crosses; some may be counted twice."""
        return sum(map(len, self.keys)) + self._n_new

    def add(self, number: int, keys: NDArray[np.int64]) -> None:
        """Add the pairs of some rows to those of a cross; keys below 0 are none."""
        fresh = np.unique(keys)
        fresh = fresh[(fresh >= 0) & ~_among(self.keys[number], fresh)]
        if len(fresh):
            self._new[number].append(fresh)
            self._n_new += len(fresh)
        if self._n_new > max(_MERGED_ABOVE, sum(map(len, self.keys)) // 4):
            self.merge()

    def merge(self) -> None:
        """Sort in what is new."""
        for number, parts in enumerate(self._new):
            if parts:
                self.keys[number] = np.unique(np.concatenate([self.keys[number], *parts]))
                parts.clear()
        self._n_new = 0


class Crosses:
    """All crosses of a table.

    crosses: what is crossed. names: of the table's columns of categories, in its order. hash_bits: None: exact.
    replaced_by_mean: numbers that are missing count as their column's mean; else as 0.
    """

    def __init__(
        self,
        crosses: Sequence[Cross],
        names: Sequence[str],
        hash_bits: int | None,
        replaced_by_mean: bool = False,
    ) -> None:
        self.crosses = tuple(crosses)
        self.hash_bits = hash_bits
        self.products = [c for c in crosses if c.a_is_number and c.b_is_number]
        self.slopes = [c for c in crosses if c.a_is_number != c.b_is_number]
        self.pairs = [c for c in crosses if not (c.a_is_number or c.b_is_number)]
        numbers = [name for c in crosses for name, is_ in ((c.a, c.a_is_number), (c.b, c.b_is_number)) if is_]
        self.numbers = tuple(dict.fromkeys(numbers))
        """Columns of numbers that are crossed."""
        self.means: dict[str, float] = {}
        self.learns_means = replaced_by_mean and bool(self.numbers)
        self.learns_pairs = hash_bits is None and bool(self.slopes or self.pairs)
        self.known = not (self.learns_means or self.learns_pairs)
        """Can rows be made?"""
        self._place = {name: i for i, name in enumerate(names)}
        self._categories: list[NDArray[np.int64]] = [np.zeros(0, np.int64)] * len(self.slopes)
        self._pairs_seen = _PairsMet(len(self.pairs))
        self._sums = {name: [0.0, 0.0] for name in self.numbers}  # of values, and of their weights

    # -- widths and names ---------------------------------------------------------------------------------

    @property
    def slope_width(self) -> int:
        """Columns of numbers by category."""
        if self.hash_bits is not None:
            return 1 << self.hash_bits if self.slopes else 0
        return sum(map(len, self._categories))

    @property
    def pair_width(self) -> int:
        """Columns of pairs of categories."""
        if self.hash_bits is not None:
            return 1 << self.hash_bits if self.pairs else 0
        return sum(map(len, self._pairs_seen.keys))

    @property
    def nbytes(self) -> int:
        return 8 * sum(map(len, (*self._pairs_seen.keys, *self._categories)))

    def slope_names(self, columns: Sequence[int], keys: Sequence[tuple[str, str]]) -> list[str]:
        """Return ``A=x & B`` of each. keys: (column, value) by number of a category; none where they are hashed."""
        if self.hash_bits is not None:
            return [f"numbers by category#{j}" for j in columns]
        names = []
        for number, at in _located(columns, self._categories):
            cross, value = self.slopes[number], keys[self._categories[number][at]][1]
            names.append(cross.named(b=value) if cross.a_is_number else cross.named(a=value))
        return names

    def pair_names(self, columns: Sequence[int], keys: Sequence[tuple[str, str]]) -> list[str]:
        """Return ``A=x & B=y`` of each."""
        if self.hash_bits is not None:
            return [f"pairs of categories#{j}" for j in columns]
        names = []
        for number, at in _located(columns, self._pairs_seen.keys):
            a, b = divmod(int(self._pairs_seen.keys[number][at]), 1 << 32)
            names.append(self.pairs[number].named(keys[a][1], keys[b][1]))
        return names

    # -- learning -----------------------------------------------------------------------------------------

    def learn(
        self,
        numbers: Mapping[str, NDArray[np.float64]],
        ids: NDArray[np.int64] | None,
        weight: NDArray[np.float64] | None = None,
    ) -> None:
        """Take some rows in. numbers: (n,) of each crossed column, NaN where they are missing. ids: (n, columns of
        categories) their numbers, -1 where they are missing; None where there are none, or they are hashed. weight:
        (n,) of the rows, None where all are 1."""
        if self.learns_means:
            for name, values in numbers.items():
                there, total = ~np.isnan(values), self._sums[name]
                present, n = values[there], int(np.count_nonzero(there))
                counts = None if weight is None else weight[there]
                total[0] = running_sum(total[0], present if counts is None else counts * present, n)
                total[1] = running_sum(total[1], counts, n)
        if ids is None or self.hash_bits is not None:
            return
        for number, cross in enumerate(self.pairs):
            self._pairs_seen.add(number, self._key(cross, ids))

    @property
    def n_learned(self) -> int:
        """Pairs so far; some may be counted twice."""
        return len(self._pairs_seen)

    def finish(self, keys: Sequence[tuple[str, str]]) -> None:
        """End learning: all rows have been seen. keys: (column, value) of each category, by number."""
        self._pairs_seen.merge()
        self._set_categories(keys)
        if self.learns_means:
            self.means = {name: total / (count or 1.0) for name, (total, count) in self._sums.items()}
        self.known = True

    def _set_categories(self, keys: Sequence[tuple[str, str]]) -> None:
        if self.hash_bits is None:
            self._categories = [
                np.array([i for i, (name, _) in enumerate(keys) if name == cross.category], np.int64)
                for cross in self.slopes
            ]

    # -- rows ---------------------------------------------------------------------------------------------

    def filled(self, name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values (n,) of a column of numbers, what is missing replaced."""
        gone = np.isnan(values)
        return np.where(gone, self.means.get(name, 0.0), values) if gone.any() else values

    def slope_cells(
        self, numbers: Mapping[str, NDArray[np.float64]], ids: NDArray[np.int64]
    ) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.float64]]:
        """Return row, column and value of the numbers by category. ids: as Categories.ids has them."""
        parts, offset = [], 0
        for number, cross in enumerate(self.slopes):
            id_, values = ids[:, self._place[cross.category]], numbers[cross.number]
            row = np.flatnonzero((id_ >= 0) & (values != 0))
            if self.hash_bits is not None:
                column = self._hashed(id_[row], np.int64(zlib.crc32(cross.number.encode())))
            else:
                column = np.searchsorted(self._categories[number], id_[row]) + offset
                offset += len(self._categories[number])
            parts.append((row, column, values[row]))
        rows, columns, data = zip(*parts, strict=True)
        return np.concatenate(rows), np.concatenate(columns), np.concatenate(data)

    def pair_cells(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Return row and column of the pairs of categories, whose value is 1."""
        rows, columns, offset = [], [], 0
        for number, cross in enumerate(self.pairs):
            keys = self._key(cross, ids)
            if self.hash_bits is not None:
                row = np.flatnonzero(keys >= 0)
                a, b = (ids[row, self._place[name]] for name in (cross.a, cross.b))
                column = self._hashed(a, b)
            else:
                row = np.flatnonzero((keys >= 0) & _among(self._pairs_seen.keys[number], keys))
                column = np.searchsorted(self._pairs_seen.keys[number], keys[row]) + offset
                offset += len(self._pairs_seen.keys[number])
            rows.append(row)
            columns.append(column)
        return np.concatenate(rows), np.concatenate(columns)

    def _key(self, cross: Cross, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a number for each pair (n,); -1 where one of the two is missing."""
        a, b = ids[:, self._place[cross.a]], ids[:, self._place[cross.b]]
        if self.hash_bits is not None:  # only whether they are there
            return np.minimum(a, b)
        return np.where((a >= 0) & (b >= 0), (a << 32) | b, -1)

    def _hashed(self, a: NDArray[np.int64], b: NDArray[np.int64] | np.int64) -> NDArray[np.int64]:
        """Return the columns of pairs of hashes of 32 bits: the last step of SplitMix64 (Steele, Lea and Flood,
        2014)."""
        assert self.hash_bits is not None
        z = (a.astype(np.uint64) << _WORD) | np.asarray(b).astype(np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        return (z >> np.uint64(64 - self.hash_bits)).astype(np.int64)

    # -- in a model ---------------------------------------------------------------------------------------

    @property
    def widths(self) -> list[int]:
        """Return the numbers of columns of products, numbers by category, and pairs."""
        return [len(self.products), self.slope_width, self.pair_width]

    def as_extra(self) -> dict[str, Any]:
        """Return what a model keeps: plain values, and arrays."""
        values = {"pairs": [[c.a, c.b] for c in self.crosses], "widths": self.widths, "means": self.means}
        exact = {f"{NAME}_{number}": keys for number, keys in enumerate(self._pairs_seen.keys)}
        return {NAME: values, **(exact if self.hash_bits is None else {})}

    @classmethod
    def from_extra(cls, extra: Mapping[str, Any]) -> Crosses | None:
        """Return the crosses of a model of a table, or None if it has none. Raises ModelError where its parts do
        not fit each other."""
        if NAME not in extra:
            return None
        values, table = extra[NAME], extra["table"]
        kinds = {c["name"]: c["kind"] for c in table["columns"]}
        crosses = [
            Cross(a, b, kinds.get(a) == "number", kinds.get(b) == "number") for a, b in values["pairs"]
        ]
        names = [name for name, kind in kinds.items() if kind == "text"]
        keys = [(name, value) for name, value in table["categories"]]
        made = cls(crosses, names, table["hash_bits"])
        try:
            if made.hash_bits is None:
                known = [_checked_keys(extra[f"{NAME}_{n}"], len(keys)) for n in range(len(made.pairs))]
                made._pairs_seen = _PairsMet(len(known), known)
            made._set_categories(keys)
            made.means, made.known = dict(values["means"]), True
            if made.widths != values["widths"] or not all(
                (is_number or name in names)
                for c in crosses
                for name, is_number in ((c.a, c.a_is_number), (c.b, c.b_is_number))
            ):
                raise ValueError(f"they have {made.widths} columns, not {values['widths']}")
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"its crosses are damaged: {error}; fetch or train it again") from error
        return made


def _checked_keys(keys: NDArray[Any], n_categories: int) -> NDArray[np.int64]:
    """Return the pairs of a model's file. Raises ValueError."""
    keys = np.asarray(keys)
    a, b = np.divmod(keys, 1 << 32)
    if (
        keys.dtype != np.int64
        or keys.ndim != 1
        or np.any(keys[1:] <= keys[:-1])
        or (len(keys) and (keys[0] < 0 or max(int(a.max()), int(b.max())) >= n_categories))
    ):
        raise ValueError("pairs are not of its categories, or not in order")
    return keys


def _among(keys: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each of ``values`` whether it is in ``keys``, which ascend."""
    if not len(keys):
        return np.zeros(len(values), bool)
    at = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
    return np.asarray(keys[at] == values)


def _located(columns: Sequence[int], parts: Sequence[NDArray[np.int64]]) -> list[tuple[int, int]]:
    """Return for each column, counted over all parts one after the other, the number of its part and its place
    there."""
    edges = np.cumsum([0, *map(len, parts)])
    numbers = np.searchsorted(edges, columns, "right") - 1
    return [(int(n), int(j - edges[n])) for n, j in zip(numbers, columns, strict=True)]


def chosen(
    where: str,
    wanted: Iterable[str],
    names: Sequence[str],
    kinds: Mapping[str, str],
    others: Mapping[str, str],
) -> list[Cross]:
    """Return the crosses that ``--cross`` asks for, "A:B" each. Raises DataError for what cannot be crossed.

    names: of the table's columns. kinds: of the features, as Column has them. others: what the other columns are,
        such as "the label".
    """
    crosses: dict[frozenset[str], Cross] = {}
    for each in wanted:
        a, b = _two(where, each, names)
        if a == b:
            raise DataError(f"{where}: --cross {each} crosses column {a} with itself; name two columns")
        for name in (a, b):
            if name in others:
                raise DataError(f"{where}: --cross {each}: column {name} is {others[name]}; cross features")
            if kinds[name] not in ("number", "text"):
                what = "text (--text)" if kinds[name] == "document" else "a column of lists"
                raise DataError(
                    f"{where}: --cross {each}: column {name} is {what}; cross columns of categories and of numbers"
                )
        if frozenset((a, b)) in crosses:
            raise DataError(f"{where}: --cross {each}: columns {a} and {b} are crossed twice; name them once")
        crosses[frozenset((a, b))] = Cross(a, b, kinds[a] == "number", kinds[b] == "number")
    return list(crosses.values())


def _two(where: str, cross: str, names: Sequence[str]) -> tuple[str, str]:
    """Return the two columns that "A:B" means; names may have colons. Raises DataError."""
    colons = [at for at, letter in enumerate(cross) if letter == ":"]
    if not colons:
        raise DataError(f"{where}: --cross {cross} names no two columns; write A:B")
    for at in colons:
        if cross[:at] in names and cross[at + 1 :] in names:
            return cross[:at], cross[at + 1 :]
    if '"' in cross:  # as the shell wants names with commas
        return _two(where, cross.replace('"', ""), names)
    if len(colons) > 1:
        raise DataError(f"{where}: there are no two columns {cross!r} (--cross); there are {listed(names)}")
    a, _, b = cross.partition(":")
    return find_column(where, names, a, "cross"), find_column(where, names, b, "cross")
