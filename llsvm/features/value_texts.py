"""Values of Arrow columns as text: one text for each value, whatever type carries it."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from llsvm.features.spelling import DATE, SPAN, TIMES, kind_of_word, parsed

_ONE_TEXT = (  # of times and decimals: patterns, and what stands in their place
    (r"(\.\d*[1-9])0+($|[^0-9])", r"\1\2"),
    (r"\.0+($|[^0-9])", r"\1"),
    (r" 00:00:00$", ""),
    (r"\+0000$", "Z"),
)


def as_text(column: pa.Array) -> pa.Array:
    """Values as text that does not depend on their unit, scale or the name of a zone: times and decimals without
    zeros at their end, midnights as dates, UTC as Z, spans of time as pandas has them."""
    if types.is_duration(column.type):
        return _spans_as_text(column)
    shortened = types.is_temporal(column.type) or types.is_decimal(column.type)
    found = column.cast(pa.large_string())
    for pattern, text in _ONE_TEXT if shortened else ():
        found = pc.replace_substring_regex(found, pattern, text)
    return found


def moment_of(word: str) -> str | None:
    """The date, time or span of time that a word spells, ``as_text``; None where it is none."""
    if (span := _span_in(word)) is not None:
        return span
    if kind_of_word(word) != DATE:
        return None
    return as_text(parsed(pa.array([word]), TIMES, False))[0].as_py()


def _spans_as_text(column: pa.Array) -> pa.Array:
    """Spans of time as pandas writes them, in CSV files too."""
    column = column.cast(pa.duration("ns")).cast(pa.int64()).dictionary_encode()
    words = map(_span_as_text, column.dictionary.to_pylist())
    return pa.array(words, pa.large_string()).take(column.indices)


def _span_as_text(nanoseconds: int) -> str:
    days, rest = divmod(nanoseconds, 86_400 * 10**9)
    seconds, fraction = divmod(rest, 10**9)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    digits = f".{fraction:09}".removesuffix("000") if fraction else ""
    return f"{days} days {'+' * (days < 0)}{clock}{digits}"


def _span_in(word: str) -> str | None:
    """The span of time that a word spells, as ``_spans_as_text`` writes it; None where it spells none."""
    nanoseconds = nanoseconds_of(word)
    return None if nanoseconds is None else _span_as_text(nanoseconds)


def nanoseconds_of(word: str) -> int | None:
    """The span of time that a word spells; None where it spells none."""
    word = word.strip()
    found = SPAN.fullmatch(word) or SPAN.fullmatch(f"{word} 00:00:00")  # pandas writes whole days without
    if found is None:
        return None
    units = ("days", *"hms") if found["days"] else "DHMS"
    days, hours, minutes, seconds = (found[unit] or "0" for unit in units)
    whole = int(Decimal(seconds).scaleb(9)) + 60 * 10**9 * (int(minutes) + 60 * (int(hours) + 24 * int(days)))
    return -whole if found["sign"] else whole
