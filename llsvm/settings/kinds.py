"""Values of options: as plain Python values, times as text, and errors for values of other kinds than allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, time, timedelta
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

from llsvm.errors import UsageError

WORDS: dict[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "text",
    tuple: "a list of text",
    Mapping: "a mapping of labels to numbers",
    type(None): "None",
}


_DAY = 86_400 * 10**9  # nanoseconds
_ZEROS = re.compile(r"(\.\d*[1-9])0+(?=$|[^0-9])|\.0+(?=$|[^0-9])")  # at the end of a fraction
_COARSE = ("[Y]", "[M]", "[W]", "[D]", "[h]", "[m]")  # units of NumPy without seconds


def plain(value: Any, by_label: bool = False) -> Any:
    """NumPy's scalars as Python's, also in lists, tuples and mappings; arrays, and pandas' Series and indexes, are
    lists; anything else as it is. by_label: a Series is a mapping of its labels to its values."""
    library = type(value).__module__.partition(".")[0]
    if by_label and library == "pandas" and hasattr(value, "to_dict"):
        value = value.to_dict()
    elif library in ("numpy", "pandas") and hasattr(value, "__len__") and hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return (tuple if isinstance(value, tuple) else list)(plain(each, by_label) for each in value)
    if isinstance(value, Mapping):
        return {_name_of(key): plain(each) for key, each in value.items()}
    if is_kind(value, bool):
        return bool(value)
    if is_kind(value, int):
        return int(value)
    if is_kind(value, float):
        return float(value)
    return str.__str__(value) if isinstance(value, str) else value  # of an enumeration's member, its value


def _name_of(label: Any) -> Any:
    """Return a key of a mapping as a ``plain`` value; dates, times and spans of time are called as labels of
    them are."""
    named = time_as_text(label)
    return plain(label) if named is None else named


def plain_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by name as ``plain`` values; class weights may be a Series by labels."""
    return {name: plain(value, name == "class_weight") for name, value in given.items()}


def require_kind(name: str, value: object, kinds: Iterable[Any]) -> None:
    """Raise UsageError unless ``value`` is of one of the kinds, keys of ``WORDS``."""
    kinds = tuple(kinds)
    if not any(is_kind(value, kind) for kind in kinds):
        words = " or ".join(dict.fromkeys(WORDS[kind] for kind in kinds))
        raise UsageError(f"{name} must be {words}, not {value!r}{_as_list(value) if tuple in kinds else ''}")


def _as_list(value: object) -> str:
    """Return a remedy for a word, or for whole numbers, where there is to be a list of text; else ""."""
    each = list(value) if isinstance(value, list | tuple) else [value]
    if not all(isinstance(one, str) or is_kind(one, int) for one in each):
        return ""
    return f": write {[str(one) for one in each]}"


def require_choice(flag: str, value: str, choices: Sequence[str]) -> None:
    """Raise UsageError unless the value is one of the choices."""
    if value not in choices:
        near = get_close_matches(str(value), choices, 2)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UsageError(f"{flag} must be one of {', '.join(choices)}, not {value!r}{hint}")


def is_kind(value: object, kind: Any) -> bool:
    """Return whether the value is of one of the kinds; NumPy's numbers are numbers, a truth value is none."""
    if kind in (int, float):
        is_span = type(value).__name__ == "timedelta64"  # which NumPy calls a whole number
        return isinstance(value, Integral if kind is int else Real) and not (
            isinstance(value, bool) or is_span
        )
    if kind is bool:
        return type(value).__name__ in ("bool", "bool_")  # Python's and NumPy's
    if kind is tuple:
        return isinstance(value, tuple) and all(isinstance(each, str) for each in value)
    return isinstance(value, kind)


def time_as_text(value: Any) -> str | None:
    """Return the text of a label that is that date, time or span of time, of Python, NumPy or pandas; None for
    others."""
    kind = type(value).__name__
    rest = value.nanoseconds if kind == "Timedelta" else 0  # of pandas; Python's spans have none
    if kind == "timedelta64":
        try:
            return span_as_text(int(value.astype("m8[ns]").astype("i8")))
        except TypeError:  # months have no length
            return str(value)
    if isinstance(value, timedelta):
        nanoseconds = (value.days * 86_400 + value.seconds) * 10**9 + value.microseconds * 1000
        return span_as_text(nanoseconds + rest)
    if kind == "datetime64":
        text = str(value.astype("M8[s]") if value.dtype.name.endswith(_COARSE) else value).replace("T", " ")
    elif isinstance(value, date | time):
        text = str(value)
    else:
        return None
    text = re.sub(r"([+-]\d\d):(\d\d)$", r"\1\2", _ZEROS.sub(lambda found: found[1] or "", text))  # of a zone
    text = re.sub(r"\+0000$", "Z", text)
    return text.removesuffix(" 00:00:00")


def span_as_text(nanoseconds: int) -> str:
    """Return a span of time as pandas writes it."""
    days, rest = divmod(nanoseconds, _DAY)
    seconds, fraction = divmod(rest, 10**9)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    digits = f".{fraction:09}".removesuffix("000") if fraction else ""
    return f"{days} days {'+' * (days < 0)}{clock}{digits}"
