"""Labels: maps the labels of a stream to class ids while it is still unknown which labels will come."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import lru_cache
from sys import getsizeof
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import DataError
from llsvm.settings.objective import CLASSIFICATION

MAX_CLASSES = 100_000
_CLASS_BYTES = 160  # of a label: its places here, and in what is made of them while they are put in order
BOOL_LABELS = ("true", "false")  # as files have them
WHOLE_BELOW = 2.0**53  # whole numbers below this are exact as float64
NOT_A_NUMBER = "it is not a number, and the labels of a regression are (--loss says what is trained)"
FOR_REGRESSION = "for a regression pass --loss epsilon_insensitive, huber or quantile"
_WHOLE_FLOAT = re.compile(r"[+-]?\d+\.0+", re.ASCII)
_FEW_ROWS = 20  # to a class, on average: more than _MANY_REAL_LABELS numbers look like targets then
_HARDLY_ANY_ROWS = 10  # ... and are no classes unless their user says so
_MANY_REAL_LABELS = 100  # this many different labels that are not whole numbers look like a regression target


class LabelEncoder:
    """Hands out ids in the order in which labels first appear, and counts their rows.

    kind: what labels are to it. Labels are numbers, or text: then as Python objects, since one long label must not
    make all rows as long.
    """

    kind = CLASSIFICATION

    def __init__(self) -> None:
        self._known: NDArray[np.float64] = np.empty(0)  # numbers, ascending
        self._ids: NDArray[np.int32] = np.empty(0, np.int32)  # of the known numbers
        self._words: dict[str, int] = {}  # text, and its id
        self._word_bytes = 0
        self._longest = 0
        self.counts: NDArray[np.int64] = np.zeros(0, np.int64)  # by id
        self.sums = np.zeros(0)  # of the rows' weights, by id

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def nbytes(self) -> int:
        """Return the bytes that are held, and that ``classes`` will take."""
        return len(self.counts) * _CLASS_BYTES + self._word_bytes + 4 * self._longest * len(self._words)

    @property
    def classes(self) -> NDArray[Any]:
        """The labels seen so far, ascending."""
        return np.array(sorted(self._words)) if self._words else self._known

    @property
    def finisher(self) -> Callable[[NDArray[Any]], NDArray[Any]]:
        """Makes of what ``encode`` has handed out what blocks are to have."""
        rank = self.rank
        return lambda ids: rank[ids]

    @property
    def target(self) -> None:
        """Return None: labels are names."""
        return None

    @property
    def rank(self) -> NDArray[np.int32]:
        """(n_classes,) int32: ``rank[id]`` is the position of the id's label in ``classes``."""
        ids = [self._words[word] for word in sorted(self._words)] if self._words else self._ids
        rank = np.empty(len(ids), np.int32)
        rank[ids] = np.arange(len(ids), dtype=np.int32)
        return rank

    def encode(self, y: NDArray[Any], weight: NDArray[np.float64] | None = None) -> NDArray[np.int32]:
        """Return the ids of the labels ``y`` (n,), new ones made as needed, and the rows counted. weight: (n,) of
        the rows, None where all are 1. Raises DataError."""
        ids = self._numbered(y)
        self.counts += np.bincount(ids, minlength=len(self.counts))
        np.add.at(self.sums, ids, 1.0 if weight is None else weight)  # one after the other: see running_sum
        return ids

    def merge(self, other: LabelEncoder) -> NDArray[np.int32]:
        """Take in the labels of rows that follow, and return (k,) their ids here, by their ids there. Raises
        DataError."""
        if not len(other):
            return np.empty(0, np.int32)
        ids = self._numbered(other.classes[other.rank])
        self.counts[ids] += other.counts
        self.sums[ids] += other.sums
        return ids

    def _numbered(self, y: NDArray[Any]) -> NDArray[np.int32]:
        """Return the ids of the labels ``y`` (n,), new ones made as needed. Raises DataError."""
        if len(self) and is_text(y) != bool(self._words):
            raise DataError(
                f"the labels are text in some rows and numbers in others, such as {quoted(self.classes[0])} and "
                f"{quoted(y[0])}; write them as one type"
            )
        ids = self._lookup(y)
        if ids is None:
            if is_text(y):
                self._learn_words(y.tolist())
            else:
                self._learn(np.unique(y))
            if len(self) > MAX_CLASSES:
                raise DataError(
                    f"more than {MAX_CLASSES:,} different labels, such as {str(y[-1])[:40]!r}: these look like "
                    "identifiers, not classes; name the column of the labels with --label"
                )
            ids = self._lookup(y)
        assert ids is not None
        self.sums = np.concatenate([self.sums, np.zeros(len(self.counts) - len(self.sums))])
        return ids

    @property
    def doubt(self) -> str:
        """A sentence where the labels look like numbers to be predicted, else ""."""
        many = max(_MANY_REAL_LABELS, int(self.counts.sum()) // _FEW_ROWS)
        if self._words or len(self) <= many:
            return ""
        return f"{len(self):,} different numbers as labels, each a class: {FOR_REGRESSION}"

    def require_variety(self, where: str, column: str | None = None, note: str = "") -> None:
        """Raise DataError unless there are two classes, or where they look like numbers to be predicted. where: the
        name of the data. column: of a table that has the labels, which its user may declare to be classes. note: on
        labels of it that are one label."""
        if len(self) < 2:
            n = int(self.counts.sum())
            note = f"{note}; " * bool(note)
            who = "the only row has the label" if n == 1 else f"all {n} rows have the same label,"
            raise DataError(
                f"{where}: {who} {quoted(self.classes[0])}: one class; {note}training needs rows of at least two "
                "classes"
            )
        if column is not None and self.doubt and len(self) * _HARDLY_ANY_ROWS > self.counts.sum():
            raise DataError(
                f"{where}: column {column}: its {self.counts.sum():,} rows have {self.doubt}; for classes name "
                f"another column with --label, or pass --categorical {column} to train on these all the same"
            )

    def final(self, y: NDArray[Any]) -> NDArray[np.int32]:
        """Return the positions in ``classes`` of labels that have all been seen before (a later reading of the
        data)."""
        ids = self._lookup(y)
        if ids is None:
            raise DataError(
                "the data changed between two readings: a label appeared that was not there before"
            )
        return self.rank[ids]

    def _lookup(self, y: NDArray[Any]) -> NDArray[np.int32] | None:
        if is_text(y):
            try:
                return np.fromiter((self._words[word] for word in map(str, y)), np.int32, len(y))
            except KeyError:
                return None
        if len(self._known) == 0:
            return None
        if {y.dtype.kind, self._known.dtype.kind} == {"f", "i"}:
            y = _as_whole(y)
            if y.dtype.kind == "f" and self._known.dtype.kind == "i":
                return None
        at = np.minimum(np.searchsorted(self._known, y), len(self._known) - 1)
        return self._ids[at] if np.array_equal(self._known[at], y) else None

    def _learn_words(self, words: list[Any]) -> None:
        for word in map(str, words):
            if word not in self._words:
                self._words[word] = len(self._words)
                self._word_bytes += getsizeof(word)
                self._longest = max(self._longest, len(word))
        fresh = np.zeros(len(self._words) - len(self.counts), np.int64)
        self.counts = np.concatenate([self.counts, fresh])

    def _learn(self, labels: NDArray[Any]) -> None:
        known = self._known if len(self._known) else labels[:0]
        if {labels.dtype.kind, known.dtype.kind} == {"f", "i"}:
            labels, known = _as_whole(labels), _as_whole(known)
        fresh = np.setdiff1d(labels, known)
        known = np.concatenate([known, fresh])
        large = (
            np.abs(known.astype(np.float64)) >= WHOLE_BELOW if known.dtype.kind == "f" else np.zeros(0, bool)
        )
        if large.any():
            raise DataError(
                f"the label {known[large][-1]:.0f}: labels from 2^53 on cannot be told from their neighbours; "
                "number the classes otherwise, or write the labels as text in a table"
            )
        ids = np.arange(len(self.counts), len(self.counts) + len(fresh), dtype=np.int32)
        order = np.argsort(known, kind="stable")
        self._known, self._ids = known[order], np.concatenate([self._ids, ids])[order]
        self.counts = np.concatenate([self.counts, np.zeros(len(fresh), np.int64)])
        if known.dtype.kind == "f" and len(known) > _MANY_REAL_LABELS and np.any(known % 1):
            raise DataError(
                f"more than {_MANY_REAL_LABELS} different labels that are not whole numbers (for example "
                f"{known[known % 1 != 0][0]:g}): these look like regression targets (Unknown label type); "
                f"for classes name another column with --label, {FOR_REGRESSION}"
            )


def _as_whole(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the labels as int64, where they are whole numbers that floats tell apart; others as they are."""
    fits = labels.dtype.kind == "f" and bool(
        ((labels % 1 == 0) & (abs(labels.astype(np.float64)) < WHOLE_BELOW)).all()
    )
    return labels.astype(np.int64) if fits else labels


def quoted(label: Any) -> str:
    """Return a label for messages: text in quotes, which show its spaces too."""
    if isinstance(label, bool | np.bool_):
        return str(label).lower()
    return repr(str(label)) if isinstance(label, str) else str(label).removesuffix(".0")


def look_alike(words: Collection[str]) -> str:
    """Return a sentence on two labels that differ in case or space alone, else ""."""
    first: dict[str, str] = {}
    for word in sorted(words):
        other = first.setdefault(" ".join(word.split()).casefold(), word)
        if other != word:
            return (
                f"the labels {quoted(other)} and {quoted(word)} differ in case or space alone, and are two "
                "classes: write them alike if they mean the same"
            )
    return ""


def positions(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp] | None:
    """Return the positions (n,) of labels among ``classes``, -1: not there; None where either are text, and the
    others numbers. Text that says true or false, as files do, is the same as a bool, and text that is a number the
    same as that, on either side."""
    if len(y) and is_text(y) != is_text(classes):
        if y.dtype == bool:
            return positions(np.where(y, *BOOL_LABELS).astype(object), _in_small_letters(classes))
        if classes.dtype == bool:
            return positions(_in_small_letters(y), np.where(classes, *BOOL_LABELS))
        if not is_text(y):
            return _among_numerals(y, classes)
        numbers = _as_numbers(y)
        return None if np.isnan(numbers).all() else positions(numbers, classes)
    if is_text(y):  # one by one: as an array of text all rows would be as long as the longest label
        known = {label: i for i, label in enumerate(classes.tolist())}
        known |= _same_values(set(y) - known.keys(), known)
        return np.fromiter((known.get(label, -1) for label in y), np.intp, len(y))
    if not len(y):
        return np.zeros(0, np.intp)
    ids = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    ids[classes[ids] != y] = -1
    return ids


def _among_numerals(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp] | None:
    """Return ``positions`` of numbers among classes that are text; None where none is there, or two of them are the
    same number."""
    numbers = _as_numbers(classes)
    order = np.argsort(numbers)[: np.count_nonzero(~np.isnan(numbers))]  # NaN comes last
    if len(np.unique(numbers[order])) < max(len(order), 1):
        return None
    at = positions(y, numbers[order])
    return None if at is None or (at < 0).all() else np.where(at < 0, -1, order[at])


def _same_values(words: Collection[str], known: Mapping[str, int]) -> dict[str, int]:
    """Return the positions of known labels that words mean in another spelling, by word (in CSV and JSON Lines
    dates are spelled otherwise, and elsewhere text is as it is written; numbers are, where the column is one of
    numbers)."""
    if not words:
        return {}
    places = {moment_in(label) or one_writing(label): i for label, i in known.items()}
    by_word = {word: places.get(moment_in(word) or one_writing(word)) for word in words}
    # 1.0 is the label 01, as it is where it is no text, unless there is another of that number
    numbers = {label: _number_or_bit(label) for label in known}
    times = Counter(numbers.values())
    alone = {
        label: number for label, number in numbers.items() if times[number] == 1 and not math.isnan(number)
    }
    of_number = {number: known[label] for label, number in alone.items()}
    by_word |= {word: of_number.get(_number_or_bit(word)) for word, place in by_word.items() if place is None}
    return {word: place for word, place in by_word.items() if place is not None}


def one_writing(word: str) -> str:
    """Return a word without space around; truth values and whole numbers as Arrow writes them, where CSV files have
    True and 200.0."""
    word = word.strip()
    if word.lower() in BOOL_LABELS:
        return word.lower()
    return word.rstrip("0").removesuffix(".") if _WHOLE_FLOAT.fullmatch(word) else word


@lru_cache(maxsize=10_000)
def moment_in(word: str) -> str | None:
    """Return the date, time or span of time that a word spells, as labels that have such a type are written; None
    where it is none."""
    if not _may_be_time(word):
        return None
    from llsvm.features.value_texts import moment_of

    return moment_of(word)


def _in_small_letters(words: NDArray[Any]) -> NDArray[Any]:
    return np.array([word.lower() for word in words], object)


def _may_be_time(word: str) -> bool:
    """Return whether the word may be a date, time or span of time: not for most labels, for which Arrow is not
    loaded."""
    return word.lstrip("+-PT")[:1].isdecimal()


@lru_cache(maxsize=10_000)
def _nanoseconds_in(word: str) -> float:
    """Return spans of time in nanoseconds, which they are where labels are numbers; NaN of other words."""
    if not _may_be_time(word):
        return math.nan
    from llsvm.features.value_texts import nanoseconds_of

    nanoseconds = nanoseconds_of(word)
    return math.nan if nanoseconds is None else float(nanoseconds)


def _as_numbers(words: NDArray[Any]) -> NDArray[np.float64]:
    """Return numbers (n,), NaN, which no class is, for those that are none."""
    return np.array([_as_number(str(word)) for word in words])


def _number_or_bit(word: str) -> float:
    """Return a number; 1 and 0 for truth values, which these stand for beside them."""
    return float(word.lower() == "true") if word.lower() in BOOL_LABELS else _as_number(word)


def _as_number(word: str) -> float:
    try:
        return math.nan if "_" in word else float(word)
    except ValueError:
        return _nanoseconds_in(word)


def is_text(y: NDArray[Any]) -> bool:
    """Return whether these labels are text."""
    return y.dtype.kind in "OU"


def number_of(label: Any) -> int | float | None:
    """Return the number that a label is, or that its text means, whole ones exactly; None where it is none."""
    if isinstance(label, str | int | np.integer):
        with suppress(ValueError):
            return int(label)
    try:
        number = float(label)
    except (TypeError, ValueError, OverflowError):
        return None
    if math.isnan(number):
        return None
    return int(number) if number.is_integer() else number
