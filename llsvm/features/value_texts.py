"""Values of Arrow columns as text: one text for each value, whatever type carries it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from sys import getsizeof

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from llsvm.features.spelling import BOOL, DATE, NUMBER, SPAN, TIMES, kind_of_word, parsed, short
from llsvm.settings.option import span_as_text

MOST_LABELS = 1000  # of the first rows, whose spellings are compared
_WORD_BYTES = 250  # of a label's word: its places in two tables while these grow, and its value; measured
_ONE_TEXT = (  # of times and decimals: patterns, and what stands in their place
    (r"(\.\d*[1-9])0+($|[^0-9])", r"\1\2"),
    (r"\.0+($|[^0-9])", r"\1"),
    (r" 00:00:00$", ""),
    (r"\+0000$", "Z"),
)


def has_text(type_: pa.DataType) -> bool:
    """Return whether values of that type have a text. Lists, bytes and spans of months have none."""
    if types.is_dictionary(type_):
        return has_text(type_.value_type)
    bare = types.is_nested(type_) or types.is_interval(type_) or isinstance(type_, pa.BaseExtensionType)
    bytes_ = types.is_binary(type_) or types.is_large_binary(type_) or types.is_binary_view(type_)
    return not (bare or bytes_ or types.is_fixed_size_binary(type_) or types.is_run_end_encoded(type_))


def most_ticks(type_: pa.DataType) -> int:
    """Return the number that databases store of an infinite date or time, and of one before all others the opposite
    of."""
    return int(2 ** (type_.bit_width - 1) - 1)


def in_full(column: pa.Array) -> pa.Array:
    """Return the values as text with all their digits; spans of time as pandas has them."""
    if types.is_duration(column.type):
        return _spans_as_text(column)
    texts = column.cast(pa.large_string())
    if types.is_date(column.type) or types.is_timestamp(column.type):
        ticks, infinite = column.view(f"int{column.type.bit_width}"), most_ticks(column.type)
        for word, each in (("infinity", infinite), ("-infinity", -infinite)):
            texts = pc.if_else(pc.equal(ticks, each), pa.scalar(word, texts.type), texts)
    return texts


def as_text(column: pa.Array) -> pa.Array:
    """Return the values as text that does not depend on their unit, scale or the name of a zone: times and decimals
    without zeros at their end, midnights as dates, UTC as Z, spans of time as pandas has them."""
    shortened = types.is_temporal(column.type) or types.is_decimal(column.type)
    texts = in_full(column)
    for pattern, text in _ONE_TEXT if shortened and not types.is_duration(column.type) else ():
        texts = pc.replace_substring_regex(texts, pattern, text)
    return texts


def moment_of(word: str) -> str | None:
    """Return the date, time or span of time that a word spells, ``as_text``; None where it is none."""
    if (span := _span_in(word)) is not None:
        return span
    if kind_of_word(word) != DATE:
        return None
    with suppress(ValueError):  # a nanosecond of a year that has none
        return as_text(parsed(pa.array([word]), TIMES, False))[0].as_py()
    return None


class LabelWords:
    """Labels that are text: words that spell the same number, date, time or truth value are one label, called as
    the first of them."""

    def __init__(self) -> None:
        self._labels: dict[str, str] = {}  # by word
        self._first: dict[str | Decimal, str] = {}  # by the value that is spelled
        self.alike: tuple[str, str] | None = None
        """The first two words that are one label."""
        self._nbytes = 0

    def labels(self, words: Iterable[str]) -> list[str]:
        """Return the label of each word."""
        return [self._labels.get(word) or self._label(word) for word in words]

    def _label(self, word: str) -> str:
        label = self._first.setdefault(value_or_word(word), word)
        if label != word:
            self.note(label, word)
        self._labels[word] = label
        self._nbytes += _WORD_BYTES + getsizeof(word)
        return label

    @property
    def nbytes(self) -> int:
        """Return the bytes that the words seen so far take."""
        return self._nbytes

    def note(self, label: str, word: str) -> None:
        """Note a word that is the same label as another one; the first one counts."""
        self.alike = self.alike or (label, word)

    def note_alike(self, words: Iterable[str]) -> None:
        """Note the first two words that spell the same value, if there are any, and hold none of them."""
        first_words: dict[str | Decimal, str] = {}
        for word in words:
            if (first := first_words.setdefault(value_or_word(word), word)) != word:
                self.note(first, word)


def value_or_word(word: str) -> str | Decimal:
    """Return a key that a word shares with those that spell the same value; for other text the word itself."""
    value = value_in(word)
    return word if value is None else value


@lru_cache(maxsize=10_000)
def value_in(word: str) -> str | Decimal | None:
    """Return a key that a number, date, time or truth value (true is 1) shares with those that spell the same; None
    for other text."""
    if (moment := moment_of(word)) is not None:
        return moment
    kind = kind_of_word(word)
    if kind == NUMBER and (number := Decimal(word)).is_finite():
        return number
    return Decimal(word.lower() == "true") if kind == BOOL else None


def alike_labels(name: str, alike: tuple[str, str]) -> str:
    """Return a sentence on two words that are one label."""
    return (
        f"column {name}: the labels {short(alike[0])} and {short(alike[1])} spell the same value: they are one "
        f"label (--categorical {name} keeps labels as they are written)"
    )


def _spans_as_text(column: pa.Array) -> pa.Array:
    """Return spans of time as pandas writes them, in CSV files too."""
    column = column.cast(pa.duration("ns")).cast(pa.int64()).dictionary_encode()
    words = map(span_as_text, column.dictionary.to_pylist())
    return pa.array(words, pa.large_string()).take(column.indices)


def _span_in(word: str) -> str | None:
    """Return the span of time that a word spells, as ``_spans_as_text`` writes it; None where it spells none."""
    nanoseconds = nanoseconds_of(word)
    return None if nanoseconds is None else span_as_text(nanoseconds)


def nanoseconds_of(word: str) -> int | None:
    """Return the span of time that a word spells; None where it spells none."""
    word = word.strip()
    match = SPAN.fullmatch(word) or SPAN.fullmatch(f"{word} 00:00:00")  # pandas writes whole days without
    if match is None:
        return None
    units = ("days", *"hms") if match["days"] else "DHMS"
    days, hours, minutes, seconds = (match[unit] or "0" for unit in units)
    whole = int(Decimal(seconds).scaleb(9)) + 60 * 10**9 * (int(minutes) + 60 * (int(hours) + 24 * int(days)))
    return -whole if match["sign"] else whole
