"""Text columns whose values should hardly be categories: refused while a model learns, with the remedy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import DataError
from llsvm.features.spelling import (
    DATE,
    MARKED,
    MISSING,
    NUMBER,
    OTHER_DATE,
    OTHER_NUMBER,
    TEXT,
    is_code,
    kind_of_word,
    short,
    stands_with_others,
    unit_of,
)
from llsvm.features.value_texts import MOST_LABELS, value_in

_FEW_VALUES = 100  # so many categories of one row each do no harm
_MANY, _MOST = 20, 0.9  # of the values, where some are text
_FEW_UNITS = 3  # numbers with a unit that are no single name, as 7 Up is
_NO_UNITS = ("st", "nd", "rd", "th", MARKED)  # where few differ
_LIST = re.compile(r"\[.*\]|\(.*,.*\)", re.DOTALL)  # as Python writes them
_IN = "in "  # begins the kind of numbers with a unit: in kg
_SAMPLED, _SAMPLED_BYTES = 1 << 14, 250  # values of a table that are hashed, and what is held for each
_PLAIN = {NUMBER: "numbers", DATE: "dates or times"}
_OTHER = {NUMBER: OTHER_NUMBER, DATE: OTHER_DATE}
_REMEDY = {
    NUMBER: "write plain numbers (1234.50)",
    DATE: "write dates as 2024-01-31, months by their first day, times as 13:05",
}


class _Spellings:
    """Meanings of the different values of a column.

    kinds: how many are of each kind, see ``kind_of_word``, numbers with a unit by that. first: of each kind, and
    where that is, in words; in the order of their rows. codes: some are numbers with zeros in front. mixed: some
    are text with digits, as versions, postal codes and the last of several answers (3+) are. only_lists: there are
    some, and all are lists as Python writes them.
    """

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.first: dict[str, str] = {}
        self.codes = self.mixed = self.only_lists = False

    def add(self, word: str, row: int, place: Callable[[int], str] | None) -> str:
        kind = kind_of_word(word)
        self.codes = self.codes or is_code(word)
        self.mixed = self.mixed or (kind == TEXT and any(sign.isdigit() for sign in word))
        if kind == TEXT and (unit := unit_of(word)):
            kind = _IN + unit
        is_list = _LIST.fullmatch(word) is not None
        self.only_lists = is_list and (self.only_lists or not self.kinds)
        self.kinds[kind] += 1
        if kind not in self.first:
            self.first[kind] = short(word) + (f" in {place(row)}" if place is not None else "")
        return kind

    def of_sample(self, rows: Iterable[tuple[str, int]]) -> None:
        """Set the kinds to those of a sample alone: (kind, rows) of its values."""
        self.kinds = Counter(kind for kind, _ in rows)

    def first_of(self, *others: str) -> str:
        """Return the first value that is of other kinds."""
        return next(value for kind, value in self.first.items() if kind not in (*others, MISSING))


class _Sample:
    """The values of a column whose hashes end in so many zeros that they are few: the kind and the rows of each.

    share: how many values there are for each of these. n_rows: of all values.
    """

    def __init__(self) -> None:
        self.rows: dict[int, tuple[str, int]] = {}
        self.share, self.n_rows = 1, 0

    def keep(self, most: int) -> None:
        while len(self.rows) > most:
            self.share *= 2
            self.rows = {each: sampled for each, sampled in self.rows.items() if each % self.share == 0}


class Doubts:
    """Looks at the values of text columns as they are learned.

    trusted: columns whose values are categories because their user says so.
    lenient: what is doubtful is kept in ``notes``, not refused.
    typed: columns whose type in the data is that of categories. Values that look like numbers or dates are
    categories there, but a column of identifiers is refused like any other.
    """

    def __init__(self, trusted: Iterable[str] = (), lenient: bool = False, typed: Iterable[str] = ()) -> None:
        self._notes: dict[str, str] = {}  # by column
        self._of_folders: frozenset[str] = frozenset()
        self._trusted, self._lenient, self._typed = frozenset(trusted), lenient, frozenset(typed)
        self._spellings: dict[str, _Spellings] = {}
        self._values: dict[tuple[str, str | Decimal], str] = {}  # the first words of trusted columns
        self._columns_seen: set[str] = set()
        self._samples: dict[str, _Sample] = {}
        self.counts: NDArray[np.int64] = np.zeros(0, np.int64)
        """Rows with each category, by number; none of those that are hashed."""
        self.sums = np.zeros(0)
        """... of their weights."""

    def expect_of_folders(self, names: Iterable[str]) -> None:
        """Expect these columns from folders (month=2024-01): no cell of them can be written otherwise."""
        self._of_folders = frozenset(names)

    @property
    def notes(self) -> list[str]:
        """Sentences on what is doubtful."""
        return list(self._notes.values())

    @property
    def nbytes(self) -> int:
        """Return the bytes that are held of values that are hashed."""
        return _SAMPLED_BYTES * sum(len(each.rows) for each in self._samples.values())

    def begin_again(self) -> None:
        """Start again: the first reading has been broken off, and another takes its place; categories are still
        known."""
        self._notes, self.counts, self.sums = {}, np.zeros(0, np.int64), np.zeros(0)
        for name in self._samples:
            del self._spellings[name]
        self._samples = {}

    def look(self, name: str, word: str, row: int, place: Callable[[int], str] | None) -> None:
        """Look at a new value of a column. row: in which it first is. place: of rows, in words."""
        self._spellings.setdefault(name, _Spellings()).add(word, row, place)
        if not self.trusts(name) or len(self._values) >= MOST_LABELS or (value := value_in(word)) is None:
            return
        if (first := self._values.setdefault((name, value), word)) != word:
            what = f"the categories {short(first)} and {short(word)} spell the same value, but are two"
            self.note(name, f"column {name}: {what}; write them alike if they mean the same")

    def sample(
        self,
        name: str,
        codes: NDArray[np.int64],
        words: Sequence[str],
        hashes: Sequence[int],
        place: Callable[[int], str] | None,
    ) -> None:
        """Sample the values of a batch that are hashed. codes: (n,) of the words, -1 for what is missing."""
        sample = self._samples.setdefault(name, _Sample())
        spellings = self._spellings.setdefault(name, _Spellings())
        rows = np.bincount(codes[codes >= 0], minlength=len(words)).tolist()
        sample.n_rows += sum(rows)
        for code, (word, each) in enumerate(zip(words, hashes, strict=True)):
            if rows[code] and each % sample.share == 0:
                if each not in sample.rows:
                    kind = spellings.add(word, int(np.argmax(codes == code)), place)
                else:
                    kind = sample.rows[each][0]
                sample.rows[each] = kind, sample.rows.get(each, (kind, 0))[1] + rows[code]
        sample.keep(_SAMPLED // len(self._samples))

    def begin(self) -> None:
        """Judge some columns whose first batch has been seen. Raises DataError where most values of a column are
        numbers or dates of another convention, or nearly all are plain ones among which some text is."""
        for name, spellings in self._spellings.items():
            if name not in self._columns_seen and spellings.kinds.total() > spellings.kinds[MISSING]:
                self._columns_seen.add(name)
                self._judge(name, spellings, early=True)

    def _judge(self, name: str, spellings: _Spellings, early: bool = False) -> None:
        """Judge the values of a column. early: what may still turn out to be one of many is not looked at."""
        if name in self._typed:
            return
        kinds = spellings.kinds
        n = kinds.total() - kinds[MISSING]
        for plain, what in _PLAIN.items():
            n_plain, odd = kinds[plain], n - kinds[plain]
            as_codes = spellings.codes or (plain == NUMBER and spellings.mixed)
            few = not early and not as_codes and n_plain > 1 and (odd == 1 or 100 * odd <= n)
            if plain == DATE and n_plain == n > 0 and not early:
                self._doubt(
                    name,
                    f"dates or times such as {spellings.first_of()} are written in several ways",
                    "write all alike",
                )
                return
            if odd and (few or (n_plain > _MANY and n_plain >= _MOST * n)):
                kind = what.split()[0][:-1]
                sentence = (
                    f"{spellings.first_of(plain)} is text among {what}: {n_plain:,} of {n:,} different values are "
                    f"{what}"
                )
                self._doubt(
                    name, sentence, f"write a {kind}, or nothing where there is none (--missing zero or mean)"
                )
                return
        for plain, what in _PLAIN.items():
            n_other, others = kinds[_OTHER[plain]], n - kinds[plain] - kinds[_OTHER[plain]]
            if 2 * n_other > n or (not early and n_other and n - others >= _MOST * n):
                value = spellings.first_of(*({*kinds} - {_OTHER[plain]}))
                exception = f" (but {spellings.first_of(plain, _OTHER[plain])})" if others else ""
                sentence = f"values such as {value} are {what} written as text{exception}"
                self._doubt(name, sentence, _REMEDY[plain])
                return

        self._judge_units(name, spellings, n, early)

    def _judge_units(self, name: str, spellings: _Spellings, n: int, early: bool) -> None:
        """Refuse numbers of which most have the same unit, or those that stand together. n: different values.
        early: seats and postal codes of the first rows may all end in the same letters."""
        units = {kind: count for kind, count in spellings.kinds.items() if kind.startswith(_IN)}
        compatible = [kind for kind in units if stands_with_others(kind.removeprefix(_IN))]
        common = [] if early else sorted(units, key=lambda kind: -units[kind])[:1]
        for kinds in (compatible, common):
            n_units = sum(units[kind] for kind in kinds)
            is_clear = n_units > _MANY and (kinds is compatible or 2 * n_units > n)
            nearly_all = n_units >= _MOST * (n - spellings.kinds[NUMBER] - spellings.kinds[OTHER_NUMBER])
            if not nearly_all or n_units < _FEW_UNITS or (early and not is_clear):
                continue
            value = spellings.first_of(*({*spellings.kinds} - {*kinds}))
            with_units = [*kinds] != [_IN + MARKED]
            what, more = (
                ("a unit", ", all in the same unit") if with_units else ("the mark of a footnote", "")
            )
            if is_clear:
                sentence = f"values such as {value} are numbers with {what}, written as text"
                self._doubt(name, sentence, f"{_REMEDY[NUMBER]}{more}")
                return
            if not {kind.removeprefix(_IN) for kind in kinds}.issubset(_NO_UNITS) and not self.trusts(name):
                self.note(
                    name,
                    f"column {name}: values such as {value} are numbers with a unit, of which few differ: they "
                    f"are taken for categories (--categorical {name} says so); {_REMEDY[NUMBER]} if they are "
                    "quantities",
                )
                return

    def count(self, ids: NDArray[np.int64], n_ids: int, weight: NDArray[np.float64] | None = None) -> None:
        """Count the categories of some cells, by the weights of their rows, None where all are 1."""
        counts, sums = np.bincount(ids, minlength=n_ids), np.bincount(ids, weight, n_ids).astype(np.float64)
        counts[: len(self.counts)] += self.counts
        sums[: len(self.sums)] += self.sums
        self.counts, self.sums = counts, sums

    def conclude(self, categories: Iterable[tuple[str, str]]) -> None:
        """Judge all columns: all rows have been seen; categories: (column, value) of each id, where they are not
        hashed. Raises DataError as ``begin`` does, and for a column in which most rows have a value that no other
        row has: such values say nothing of other rows."""
        for name, sample in self._samples.items():
            self._spellings[name].of_sample(sample.rows.values())
        for name, spellings in self._spellings.items():
            self._judge(name, spellings)
            if spellings.only_lists and not self.trusts(name):
                self.note(
                    name,
                    f"column {name}: values such as {spellings.first_of()} are lists written as text: they are "
                    f"taken for categories (--categorical {name} says so); Parquet and JSON Lines have lists of "
                    "numbers",
                )
        rows: dict[str, int] = {}
        once: dict[str, list[str]] = {}
        for (name, value), count in zip(categories, self.counts.tolist(), strict=False):
            rows[name] = rows.get(name, 0) + count
            if count == 1:
                once.setdefault(name, []).append(value)
        for name, values in once.items():
            if len(values) > max(_FEW_VALUES, rows[name] / 2):
                self._refuse_singles(name, f"{len(values):,}", rows[name], short(values[0]))
        for name, sample in self._samples.items():
            singles = sample.share * sum(count == 1 for _, count in sample.rows.values())
            if singles > max(_FEW_VALUES, sample.n_rows / 2):
                about = f"{'about ' * (sample.share > 1)}{min(singles, sample.n_rows):,}"
                self._refuse_singles(name, about, sample.n_rows, self._spellings[name].first_of())

    def _refuse_singles(self, name: str, singles: str, n_rows: int, value: str) -> None:
        self._doubt(
            name,
            f"{singles} of {n_rows:,} rows have a value that no other row has, such as {value}: text or an "
            "identifier, from which categories learn nothing",
            more=f"make n-grams of its words (--text {name}), ",
        )

    def _doubt(self, name: str, what: str, rewrite: str = "", more: str = "") -> None:
        """Refuse a column, or note the doubt if the reading is lenient. rewrite, more: remedies, in the imperative,
        that change the values, and that read them otherwise; for cells alone."""
        if self.trusts(name):
            return
        which = f"column {name}"
        if name in self._of_folders:
            which, rewrite, more = f"column {name}, which folders give", "", ""
        sentence = (
            f"{which}: {what}; {f'{rewrite}; ' * bool(rewrite)}leave the column out (--exclude {name}), {more}or "
            f"keep its values as categories all the same (--categorical {name})"
        )
        if not self._lenient:
            raise DataError(sentence)
        self.note(name, sentence)

    def trusts(self, name: str) -> bool:
        """Return whether the column is named as one of categories."""
        return name in self._trusted

    def note(self, name: str, sentence: str) -> None:
        """Keep a sentence on a column; the first one counts."""
        self._notes.setdefault(name, sentence)
