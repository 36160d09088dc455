"""What two sides of a comparison in an expression become so that they can be compared, as SQL has it; and the
sentence for sides that cannot be."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from llsvm.features.spelling import BOOLS, NUMBER, kind_of_word

_WORDS = {
    "number": "numbers",
    "truth": "truth values",
    "text": "text",
    "date": "dates",
    "moment": "times",
    "clock": "times of day",
}
_DIGITS = 76  # of decimals in which whole numbers and decimals are compared
_MOST_DIGITS = 38  # of literals there
_UTC = ("UTC", "Etc/UTC", "Z", "+00:00")
_FORMS = {
    **dict.fromkeys(("date", "moment"), 'a day such as "2024-06-01" or a time such as "2024-06-01 12:30:00"'),
    "clock": 'a time of day such as "12:30"',
}


class NotComparable(ValueError):
    """Says what is wrong with an expression's operands."""


class Numerals(NamedTuple):
    """A column of text that reads as numbers: beside text it is text, and else numbers.

    text: the column. read: gives the numbers, and may refuse a cell.
    """

    text: Any
    read: Callable[[], Any]


def literal(value: bool | int | float | str) -> pa.Scalar:
    """Return a literal as a scalar. Whole numbers that no 64 bits have are decimals, or 64-bit floats."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return pa.scalar(Decimal(value) if abs(value) < 10**_MOST_DIGITS else float(value))
    return pa.scalar(value)


def number(value: Any) -> Any:
    """Return a side of + - * /, as 64-bit floats. Raises NotComparable."""
    value = value.read() if isinstance(value, Numerals) else value
    kind = value.type
    if types.is_null(kind) or types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        return value.cast(pa.float64(), safe=False)
    if not types.is_floating(kind):
        raise NotComparable(f"+ - * / are for numbers, not for {_named(kind)}")
    return value.cast(pa.float64(), safe=False)


def truth(value: Any) -> Any:
    """Return a side of and, or, not. Raises NotComparable."""
    value = value.text if isinstance(value, Numerals) else value
    if types.is_null(value.type):
        return value.cast(pa.bool_())
    if not types.is_boolean(value.type):
        raise NotComparable(f"and, or, not are for truth values, not for {_named(value.type)}: compare it")
    return value


def alike(a: Any, b: Any) -> tuple[Any, Any]:
    """Return two sides of a comparison as they can be compared. A literal is taken for what the other side is.
    Raises NotComparable."""
    a, b = _with_numerals_read(a, b), _with_numerals_read(b, a)
    if types.is_null(a.type) or types.is_null(b.type):
        other = b.type if types.is_null(a.type) else a.type
        return (a, b) if types.is_null(other) else (a.cast(other), b.cast(other))
    kinds = _kind(a.type), _kind(b.type)
    if kinds == ("number", "number"):
        return _numbers(a, b)
    if kinds == ("text", "text"):
        return a.cast(pa.large_string()), b.cast(pa.large_string())
    if set(kinds) == {"truth", "number"}:
        return _numbers(
            *(value.cast(pa.int8()) if types.is_boolean(value.type) else value for value in (a, b))
        )
    for one, other in ((a, b), (b, a)):
        kind = _kind(one.type)
        if kind in _FORMS and isinstance(other, pa.Scalar) and types.is_string(other.type):
            read = _read(other.as_py(), one.type, kind)
            sides = (one, read) if one is a else (read, one)
            return _moments(*sides) if kind == "date" else sides
        if kind == "truth" and isinstance(other, pa.Scalar) and other.as_py() in BOOLS:
            said = other.cast(pa.bool_())
            return (one, said) if one is a else (said, one)
    if set(kinds) <= {"date", "moment"}:
        return _moments(a, b)
    if kinds[0] != kinds[1]:
        hint = _unquoted(a, b) or _hint(*kinds)
        raise NotComparable(f"{_named(a.type)} cannot be compared with {_named(b.type)}{hint}")
    if kinds[0] == "clock":
        return a.cast(pa.time64("ns")), b.cast(pa.time64("ns"))
    return a, b


def _with_numerals_read(value: Any, other: Any) -> Any:
    """Return a side of a comparison, with numerals read as what the other side is."""
    if not isinstance(value, Numerals):
        return value
    numbers = not isinstance(other, Numerals) and _is_number(other.type)
    return value.read() if numbers else value.text


def _is_number(type_: pa.DataType) -> bool:
    return bool(types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_))


def _kind(type_: pa.DataType) -> str:
    if types.is_boolean(type_):
        return "truth"
    if _is_number(type_):
        return "number"
    if types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_):
        return "text"
    if types.is_date(type_):
        return "date"
    if types.is_timestamp(type_):
        return "moment"
    if types.is_time(type_):
        return "clock"
    raise NotComparable(
        f"values of type {type_} cannot be compared: `is null` is all that can be asked of them"
    )


def _named(type_: pa.DataType) -> str:
    try:
        return _WORDS[_kind(type_)]
    except NotComparable:
        return f"values of type {type_}"


def _unquoted(a: Any, b: Any) -> str:
    """Return the remedy for a number in quotes beside numbers. It is not read as one: where another format has the
    column as text, 01 is not "1"."""
    for one, other in ((a, b), (b, a)):
        if isinstance(other, pa.Scalar) and _is_number(one.type) and _kind(other.type) == "text":
            word = other.as_py()
            return f": write {word}, without quotes" if kind_of_word(word) == NUMBER else ""
    return ""


def _hint(a: str, b: str) -> str:
    if "number" in (a, b) and (form := _FORMS.get(b if a == "number" else a)):
        return f": write {form}, in quotes"
    if "text" not in (a, b):
        return ""
    other = b if a == "text" else a
    alike = {"number": "numbers", "truth": "true or false"}.get(other)
    return f": write both as text, in quotes, or both as {alike}, without" if alike else ""


def _numbers(a: Any, b: Any) -> tuple[Any, Any]:
    """Return both as numbers that compare as in SQL: exactly, unless one is a float; a literal is as narrow as the
    other side."""
    columns = [value.type for value in (a, b) if not isinstance(value, pa.Scalar)]
    if len(columns) == 1 and types.is_decimal(columns[0]):
        return _decimals(
            *(_as_decimal(value) if types.is_floating(value.type) else value for value in (a, b))
        )
    if any(types.is_floating(value.type) for value in (a, b)):
        narrow = pa.float32() in columns and pa.float64() not in columns
        float_ = pa.float32() if narrow else pa.float64()
        return tuple(value.cast(pa.float64(), safe=False).cast(float_, safe=False) for value in (a, b))
    if any(types.is_decimal(value.type) for value in (a, b)):
        return _decimals(a, b)
    if any(types.is_uint64(value.type) for value in (a, b)) and a.type != b.type:
        return a.cast(pa.decimal128(20, 0)), b.cast(pa.decimal128(20, 0))
    return a, b


def _as_decimal(value: pa.Scalar) -> pa.Scalar:
    """Return a literal as it is written."""
    exact = Decimal(repr(value.as_py()))
    if (
        not exact.is_finite()
        or len(exact.as_tuple().digits) + abs(int(exact.as_tuple().exponent)) > _DIGITS // 2
    ):
        raise NotComparable(f"{value.as_py()} cannot be compared with decimals")
    return pa.scalar(exact)


def _decimals(a: Any, b: Any) -> tuple[Any, Any]:
    scale = max(0, *(value.type.scale for value in (a, b) if types.is_decimal(value.type)))
    type_ = pa.decimal256(_DIGITS, scale)
    return a.cast(type_), b.cast(type_)


def _moments(a: Any, b: Any) -> tuple[Any, Any]:
    """Return dates and times as they stand beside each other: a date is its midnight."""
    if all(types.is_date(value.type) for value in (a, b)):  # of infinite ones there are no midnights
        return a.cast(pa.date32()), b.cast(pa.date32())
    units = [value.type.unit for value in (a, b) if types.is_timestamp(value.type)]
    zones = [value.type.tz for value in (a, b) if types.is_timestamp(value.type)]
    unit = max((*units, "s"), key=("s", "ms", "us", "ns").index) if units else "ms"
    zoned = [zone for zone in zones if zone is not None]
    if zoned and len(zoned) < 2 and zoned[0] not in _UTC:
        raise NotComparable(
            f"times with a zone ({zoned[0]}) cannot be compared with days or times without one; write the zone, "
            'as in "2024-06-01T00:00:00+02:00"'
        )
    target = pa.timestamp(unit, "UTC" if zoned else None)
    return _moment(a, unit, target), _moment(b, unit, target)


def _moment(value: Any, unit: str, target: pa.DataType) -> Any:
    if types.is_timestamp(value.type) and value.type.tz is not None:
        return value.cast(target)
    value = value.cast(pa.timestamp(unit))
    return value if target.tz is None else pc.assume_timezone(value, "UTC")


def _read(text: str, type_: pa.DataType, kind: str) -> pa.Scalar:
    """Return the value of a literal beside a date or a time. Raises NotComparable."""
    form, zone = _FORMS[kind], type_.tz if kind == "moment" else None
    try:
        if kind == "clock":
            return pa.scalar(datetime.time.fromisoformat(text), pa.time64("us"))
        read = datetime.datetime.fromisoformat(_with_dashes(text))
        if kind == "date" and (read.tzinfo, read.time()) == (None, datetime.time()):
            return pa.scalar(read.date())
        if zone is None and read.tzinfo is not None:
            form += ", without a zone, as the column has none"
        elif zone not in (None, *_UTC) and read.tzinfo is None:
            form = f'a time with its zone, as the column has one ({zone}): "2024-06-01T00:00:00+02:00"'
        else:
            return pa.scalar(read if zone is None else _in_utc(read), pa.timestamp("us", zone))
    except (ValueError, OverflowError, pa.ArrowException):
        pass
    raise NotComparable(f"{text!r} is compared with {_WORDS[kind]}; write {form}")


def _in_utc(read: datetime.datetime) -> datetime.datetime:
    return read.replace(tzinfo=datetime.UTC) if read.tzinfo is None else read.astimezone(datetime.UTC)


def _with_dashes(text: str) -> str:
    """Refuses the short forms of ISO 8601, such as 2024-W01."""
    if text[4:5] != "-" or text[7:8] != "-":
        raise ValueError(text)
    return text
