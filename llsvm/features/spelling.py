"""Text that means numbers or dates: which words do, and columns of such words as numbers.

Plain spellings are those that CSV is read by: 1234.5, 2024-01-31, 2024-01-31 12:30. Others, such as 1.234,50,
180 kg and 31.01.2024, are known here to be refused instead of becoming categories.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Collection
from contextlib import suppress
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from llsvm.features.arrow_types import decoded
from llsvm.features.column import Sort

# a missing value where numbers or dates are: what pyarrow's CSV reader takes for none, and what else is common
# (? in the data of UCI)
_OF_PYARROW = (
    "",
    *("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA"),
    *("NULL", "NaN", "n/a", "nan", "null"),
)
# for pyarrow's readers, which compare whole cells, and hold what a word takes for each column: no more than these
NULLS = [*_OF_PYARROW, "?", "-", ".", "None", "none", "nil", " ", "\t", "\u00a0"]
_MISSING = frozenset(word.lower() for word in NULLS if not word.isspace())

MISSING, TEXT = "missing", "text"
NUMBER, DATE, BOOL = "number", "date", "bool"
OTHER_NUMBER, OTHER_DATE = "other number", "other date"  # of another convention
OTHERWISE = (TEXT, OTHER_NUMBER, OTHER_DATE)

FIRST_DAY = "1970-01-01T"
_FEW = 20  # whole numbers, that differ, may be codes
_LONGEST = 60  # characters of a number or a date
_SHOWN = 40  # characters of a word
_PLAIN = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf(?:inity)?", re.ASCII | re.IGNORECASE)
_TIME = r"\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?"
_PLAIN_DATE = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](?:[01]\d|2[0-3])(?::[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?)?"
    r"(?:Z|[+-]\d\d(?::?\d\d)?)?)?|(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?",
    re.ASCII,
)
_NANOSECONDS = re.compile(r"\.\d{7,9}", re.ASCII)
_CODE = re.compile(r"0\d+", re.ASCII)
BOOLS = ("true", "True", "TRUE", "false", "False", "FALSE")  # that pyarrow's CSV reader takes for such
_BITS = ("1", "0")  # which stand for these, too, beside them
NUMBERS = (pa.float64(), pa.bool_())
_WHOLE_FLOATS, DECIMALS = (
    2.0**53,
    pa.decimal256(73, 20),
)  # below which floats tell whole numbers apart; beyond it
WHOLE_TYPES = (pa.int64(), pa.decimal256(73, 0))  # of whole numbers; the second one for any that is counted
TIMES = (
    *(pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC")),
)
_NONE_SUCH = {  # by the types of which one is asked for
    pa.float64(): "is not a number",
    pa.bool_(): "is neither true nor false",
    **dict.fromkeys(TIMES, "is no date or time"),
}
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
# digits in groups: of comma (1,234,567.8 and 12,34,567), of dots (1.234.567,8), of spaces, apostrophes and the like
_DIGITS = re.compile(
    r"(?:\d*,\d+|\d+(?:,\d+)+(?:\.\d*)?|\d{1,3}(?:\.\d{3})+,\d*|(?!(?:\d{1,3}\.){3}\d{1,3}$)\d{1,3}(?:\.\d{3}){2,}"
    r"|\d{1,3}(?:([ '_])\d{3})(?:\1\d{3})*(?:[.,]\d*)?|\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?",
    re.ASCII,
)
_MARKED_AS_TEXT = re.compile(r"['\u2019](.+)|=\"(.+)\"")  # in a spreadsheet: '0150, ="0150"
SPAN = re.compile(
    r"(?P<days>[+-]?\d+) days?,? \+?(?P<h>\d{1,2}):(?P<m>\d\d):(?P<s>\d\d(?:\.\d{1,9})?)"  # pandas, Python
    r"|(?P<sign>-?)P(?:(?P<D>-?\d+)D)?T(?:(?P<H>\d+)H)?(?:(?P<M>\d+)M)?(?:(?P<S>\d+(?:\.\d+)?)S)?",  # ISO 8601
    re.ASCII,
)
# a number and what it is counted in, perhaps more than once (2h 50m); a unit ends in no digit but m2 and the like
_LETTER = r"[^\W\d_]|[°″′\"']"
_UNIT = rf"(?:{_LETTER})(?:{_LETTER}|[./ -](?=[^\W\d_]|$)|[23](?!\d)){{0,11}}"
_MEASURE = re.compile(rf"(\.?\d(?:[\d.,' ]*\d)?)\s?({_UNIT})\s?")
# units of which several stand in one column: 900 k beside 1.2 M, 45 min beside 2 h, 1st beside 2nd
_TOGETHER = re.compile(
    r"(?:[kmbgt]|[bm]n|mio|mrd|mln|tsd|thousand|mil|million|billion|[kmgt]i?b|bytes?|ms|s|secs?|seconds?|mins?|minutes?"
    r"|h|hrs?|hours?|d|days?|w|weeks?|mo|months?|y|yrs?|years?|[cmk]?m|in|ft|yd|mi|[mk]?g|lbs?|oz|[cdm]?l|px|pt|r?em"
    r"|st|nd|rd|th|\*)",
    re.IGNORECASE,
)
_MARK = re.compile(r"\s?(?:[*†‡§¶#]{1,3}|\[\w{1,3}\]|\(\w{1,4}\.?\))$")  # of a footnote, behind a number
MARKED = "*"  # stands for the unit of a number with such a mark
_SPLIT = re.compile(r"\d+\s?(h|m|min|ft|['°])\s?\d{1,2}")  # a unit between its parts: 12h30
_CURRENCIES = re.compile(
    r"^(?:EUR|USD|GBP|CHF|JPY|CNY|INR|RUB|BRL|PLN|CZK|SEK|NOK|DKK|US\$|R\$|Rs\.?|Fr\.|kr\.?)|"
    r"(?:EUR|USD|GBP|CHF|JPY|CNY|INR|RUB|BRL|PLN|CZK|SEK|NOK|DKK|Fr\.|kr\.?|zł|Kč|Ft)$"
)
_ZONE = r"(?:\s*(?:Z|(?:UTC|GMT)?[+-]\d\d(?::?\d\d)?|[A-Z]{2,5})(?:\s?[\[(][\w/+ -]+[\])])?)"
_CLOCK = rf"(?:(?:,?[T ]\s*|:)\d{{1,2}}[:.]\d\d(?:[:.]\d\d)?(?:[.,]\d+)?\s*(?:[AaPp]\.?[Mm]\.?)?{_ZONE}?)?"
_MONTH = (
    r"(?i:jan|feb|fév|mar|mär|maa|apr|abr|avr|may|mai|mag|mei|jun|jui|giu|jul|lug|aug|aoû|ago|sep|set|oct|okt|ott|out"
    r"|nov|dec|dez|déc|dic)[^\W\d_]{0,7}|[^\W\d_A-Za-z]{3,10}"  # or of another alphabet
)
_YEAR = r"(?:1[6-9]|20)\d\d"
_OTHER_DATES = re.compile(
    rf"(?:(?P<first>\d{{1,2}})(?P<by>[./ -])\s?(?P<second>\d{{1,2}})(?P=by)\s?(?P<year>\d{{4}}|\d\d)\.?"
    rf"|\d{{4}}(?P<sign>[./-])\d{{1,2}}(?P=sign)\d{{1,2}}\.?"
    rf"|(?:\w{{2,9}}\.?,? )?\d{{1,2}}(?:st|nd|rd|th)?\.?[ /-](?:de )?(?:{_MONTH})\.?,?[ /-](?:de )?(?:\d{{4}}|\d\d)"
    rf"|(?:\w{{2,9}}\.?,? )?(?:{_MONTH})\.? \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}"
    r"|\d{1,2}(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(?:\d{4}|\d\d)"  # SAS
    rf"|(?:0?[1-9]|1[0-2])[/-]{_YEAR}|{_YEAR}[/-](?:0?[1-9]|1[0-2])|(?:{_MONTH})\.?[ /-]{_YEAR}"  # months
    r"|\d{8}(?=[T ]\d)|\d{4}-?W\d\d-?\d|\d{4}[年년]\s?\d{1,2}[月월]\s?\d{1,2}[日일]"
    rf"){_CLOCK}"
    rf"|(?:\w{{2,9}}\.?,? )?(?:{_MONTH})\.? {{1,2}}\d{{1,2}} \d\d:\d\d(?::\d\d)?{_ZONE}? \d{{4}}"  # ctime
    rf"|\d{{8}}T\d{{4}}(?:\d\d)?(?:[.,]\d+)?{_ZONE}?"
    rf"|\d{{1,2}}:\d\d(?::\d\d)?(?:[.,]\d+)?(?:\s?[AaPp]\.?[Mm]\.?)?{_ZONE}?"
)
_ABOUT = re.compile(r"(?:[~≈]|(?:ca|circa|approx|about)\b\.?)\s*", re.IGNORECASE)


def kind_of_word(word: str) -> str:
    """Return MISSING, NUMBER, DATE, BOOL, OTHER_NUMBER, OTHER_DATE or TEXT: what a word means by itself."""
    word = word.strip()
    if len(word) > _LONGEST:
        return TEXT
    if word.lower() in _MISSING:
        return MISSING
    if word in BOOLS:
        return BOOL
    if _PLAIN.fullmatch(word):
        return NUMBER
    if match := _PLAIN_DATE.fullmatch(word):
        return DATE if match[1] is None or _is_day(match[1]) else TEXT
    if _is_other_date(word):
        return OTHER_DATE
    return OTHER_NUMBER if _is_other_number(word) else TEXT


def _is_day(word: str) -> bool:
    try:
        date.fromisoformat(word)
    except ValueError:
        return False
    return True


def _is_other_date(word: str) -> bool:
    match = _OTHER_DATES.fullmatch(word)
    if match is None or match["first"] is None:
        return match is not None
    days = sorted((int(match["first"]), int(match["second"])))
    # 1.10.12 is a version, and 01.10.12 a day
    padded = match["by"] == "/" or len(match["year"]) == 4 or len(match["first"] + match["second"]) == 4
    return 1 <= days[0] <= 12 and days[1] <= 31 and padded


def _is_other_number(word: str) -> bool:
    """Return whether the word is a span of time, or a number once signs, currencies, shares and groups of digits
    are read as people write them."""
    if SPAN.fullmatch(word):
        return True
    if match := _MARKED_AS_TEXT.fullmatch(word):
        return _is_other_number(match[1] or match[2])
    word = unicodedata.normalize("NFKC", word)  # digits of full width, narrow spaces
    word = "".join(str(unicodedata.digit(sign, sign)) for sign in word)  # digits of other scripts
    word = word.translate(_SIGNS).strip()
    if about := _ABOUT.match(word):
        word = word[about.end() :]
    if word.startswith("(") and word.endswith(")"):
        word = word[1:-1].strip()
    for _ in range(2):  # a sign before or behind the currency
        word = word.removeprefix("-").removeprefix("+").strip()
        word = _CURRENCIES.sub("", word).strip()
        word = word.strip("$%\u2030 ") if word.strip("$%\u2030 ") else word
    return _DIGITS.fullmatch(word.removesuffix("-").removesuffix("CR").removesuffix(",-").strip()) is not None


def unit_of(word: str) -> str:
    """Return the unit of a number that has one behind it (kg of 180 kg, h m of 2h 50m), MARKED for the mark of a
    footnote (477*), else ""."""
    word = unicodedata.normalize("NFKC", word.strip()).translate(_SIGNS)
    if (bare := _MARK.sub("", word)) != word:
        return MARKED if _is_other_number(bare) else unit_of(bare)
    if split := _SPLIT.fullmatch(word):
        return split[1]
    if not word[-1:] or word[-1].isspace() or len(word) > _LONGEST:
        return ""
    word = _CURRENCIES.sub("", word.lstrip("+-~$ ")).strip("$ ")
    parts, at = [], 0
    while match := _MEASURE.match(word, at):
        if _DIGITS.fullmatch(match[1]) is None:
            return ""
        parts.append(match[2].strip())
        at = match.end()
    return " ".join(parts) if parts and at == len(word) else ""


def stands_with_others(unit: str) -> bool:
    """Return whether a column may have this unit beside others of its kind."""
    return all(map(_TOGETHER.fullmatch, unit.split()))


_SIGNS = {
    **dict.fromkeys(map(ord, "\u2212\u2010\u2011\u2012\u2013\u2014\ufe63"), "-"),
    **dict.fromkeys(map(ord, "\u00a0\u2007\u2008\u2009\u200a\u202f\u2005\u2006"), " "),
    **dict.fromkeys(map(ord, "\u2019\u2018\u00b4`\u02bc"), "'"),
    **dict.fromkeys(map(ord, "\u066c"), ","),
    **dict.fromkeys(map(ord, "\u066b"), "."),
    **dict.fromkeys(map(ord, "\u200e\u200f\u061c\u2066\u2067\u2069"), None),  # marks of direction
    **dict.fromkeys(range(0x20A0, 0x20D0), "$"),
    **dict.fromkeys(map(ord, "£¥€¢\u20bd"), "$"),
}


def type_spelled(values: Collection[str]) -> pa.DataType | None:
    """Return the type of what a column of these different values is read as, one of NUMBERS and TIMES; None for
    text: where not all are plain, or none is there, or some are days and others times of day."""
    there = {word.strip(): kind for word in values if (kind := kind_of_word(word)) != MISSING}
    if not there or not {NUMBER, DATE, BOOL}.issuperset(there.values()):
        return None
    array = _read(pa.array(there, pa.large_string()), (*NUMBERS, *TIMES))
    return None if array is None else array.type


def types_alike(type_: pa.DataType | None, sort: Sort | None) -> tuple[pa.DataType, ...]:
    """Return the types that text of a column is read as. type_: that of the words seen first, None where that is
    not known; sort: of the values, as ``Column`` has it."""
    if type_ is None:
        return tuple(each for each in (*NUMBERS, *TIMES) if sort is None or sort.includes(sort_of(each)))
    of_truth = types.is_boolean(type_)  # as text these are none of the numbers
    return tuple(
        each
        for each in (*NUMBERS, *TIMES)
        if sort_of(each) == sort_of(type_) and types.is_boolean(each) == of_truth
    )


def sort_of(type_: pa.DataType) -> Sort | None:
    """Return the sort of numbers of that Arrow type; None where all of them are missing."""
    if types.is_dictionary(type_):
        return sort_of(type_.value_type)
    if types.is_null(type_):
        return None
    if not types.is_temporal(type_):
        return Sort.NUMBER
    if types.is_duration(type_):
        return Sort.SPAN
    if types.is_time(type_):
        return Sort.CLOCK
    return Sort.ZONED if types.is_timestamp(type_) and type_.tz is not None else Sort.DATE


def may_be_codes(words: Collection[str]) -> bool:
    """Return whether words that are all numbers are rather codes. Those with zeros in front are, and a few whole
    numbers."""
    words = {word.strip() for word in words if kind_of_word(word) != MISSING}
    few = len(words) <= _FEW and all(map(_WHOLE.fullmatch, words))
    return few or any(map(is_code, words))


def is_code(word: str) -> bool:
    """Return whether a number has zeros in front, as codes have."""
    return _CODE.fullmatch(word.strip()) is not None


def short(word: str) -> str:
    """Return a word for a message."""
    return repr(word if len(word) <= _SHOWN else f"{word[:_SHOWN]}...")


def why_no_time(word: str) -> str:
    """Return what is wrong with a word of a column of dates or times, which are read to the microsecond."""
    if kind_of_word(word) == DATE and _NANOSECONDS.search(word):
        return "is finer than a microsecond, where those before it are not; write at most six decimals"
    return "is no date or time, as those before it are; write them alike, as 2024-01-31 or 13:05"


def parsed(column: pa.Array, of: Collection[pa.DataType], as_first: bool) -> pa.Array:
    """Return a column of text as the numbers, bools, dates or times that it spells. of: their types, the first that
    fits is taken, see ``types_alike``. as_first: the column's first words have such types. Raises ValueError(row,
    reason) for the first word that is none."""
    words = words_of(decoded(column))
    if (values := _read(words, of)) is not None:
        return values
    # All words before the first that cannot be read with those before it are as they should be.
    begin = bisect_left(range(len(words)), True, key=lambda row: _read(words[: row + 1], of) is None)
    first_word = pc.index(words.is_valid(), True).as_py()
    first = None
    for row in (min(first_word, begin), *range(begin, len(words))):
        if (word := words[row].as_py()) is None:
            continue
        one = _read(pa.array([word], pa.large_string()), of)
        if one is None:
            what = next(what for type_, what in _NONE_SUCH.items() if type_ in of)
            raise ValueError(row, f"{short(word)} {what}{', as those before it are' * as_first}")
        first = first or (word, one.type)
        if first[1] != one.type and _read(pa.array([first[0], word], pa.large_string()), of) is None:
            raise ValueError(row, f"{short(word)} is written otherwise than {short(first[0])}")
    raise ValueError(0, "dates are written in several ways")


def as_exact(words: pa.Array) -> pa.Array:
    """Return the words as the whole numbers that they spell, where all are such, else as floats, or as decimals
    where floats of that size lack digits. Raises ArrowInvalid where one is no number."""
    for type_ in WHOLE_TYPES:
        with suppress(pa.ArrowInvalid):
            return words.cast(type_)
    floats = words.cast(pa.float64())
    if pc.any(pc.greater_equal(pc.abs(floats), _WHOLE_FLOATS)).as_py():
        with suppress(pa.ArrowInvalid):
            return words.cast(DECIMALS)
    return floats


def words_of(column: pa.Array) -> pa.Array:
    """Return the words of a column of text without space around, null where one stands for a missing value."""
    words = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    gone = pc.is_in(pc.utf8_lower(words), value_set=pa.array(sorted(_MISSING), pa.large_string()))
    return pc.if_else(gone, None, words)


def _all(are: pa.Array, words: pa.Array) -> bool:
    """Return whether ``are`` is true for all words, apart from those that are missing."""
    return bool(pc.all(pc.or_kleene(are, pc.is_null(words)), min_count=0).as_py())


def on_first_day(words: pa.Array) -> pa.Array:
    """Return times of day, to which text is not cast, as times of the first of January 1970."""
    begin, between = (pa.scalar(each, words.type) for each in (FIRST_DAY, ""))
    return pc.binary_join_element_wise(begin, words, between)


def _read(words: pa.Array, of: Collection[pa.DataType]) -> pa.Array | None:
    """Return the words as values of the first of these types that all are of; None where there is none such."""
    for type_ in of:
        with suppress(pa.ArrowInvalid):
            if types.is_boolean(type_) and not _all(
                pc.is_in(words, pa.array((*BOOLS, *_BITS), words.type)), words
            ):
                continue
            if types.is_time(type_):  # to which text is not cast
                if _all(pc.match_substring_regex(words, f"^{_TIME}$"), words):
                    return on_first_day(words).cast(pa.timestamp(type_.unit)).cast(type_)
                continue
            return words.cast(type_)
    return None
