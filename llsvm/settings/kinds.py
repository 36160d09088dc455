"""Kinds of values: what an option may be, and the sentence for what it may not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

from llsvm.errors import UsageError
from llsvm.settings.times import time_as_text

WORDS: dict[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "text",
    tuple: "a list of text",
    Mapping: "a mapping of labels to numbers",
    type(None): "None",
}


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
    """A key of a mapping as a ``plain`` value; dates, times and spans of time are called as labels of them are."""
    named = time_as_text(label)
    return plain(label) if named is None else named


def plain_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options by name as ``plain`` values; class weights may be a Series by labels."""
    return {name: plain(value, name == "class_weight") for name, value in given.items()}


def require_kind(name: str, value: object, kinds: Iterable[Any]) -> None:
    """Raise UsageError unless ``value`` is of one of the kinds, keys of ``WORDS``."""
    kinds = tuple(kinds)
    if not any(is_kind(value, kind) for kind in kinds):
        words = " or ".join(dict.fromkeys(WORDS[kind] for kind in kinds))
        raise UsageError(f"{name} must be {words}, not {value!r}{_as_list(value) if tuple in kinds else ''}")


def _as_list(value: object) -> str:
    """A remedy for a word, or for whole numbers, where there is to be a list of text; else ""."""
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
    """Is the value of one of the kinds? NumPy's numbers are numbers, a truth value is none."""
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
