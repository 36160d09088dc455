"""Checks of values that come from a JSON file, which may say anything."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

MAX_FEATURES = 2**31  # column numbers are 32-bit

Test = Callable[[Any], bool]


def parsed(text: bytes) -> Any:
    """Return the value of JSON text; every number in it can be a float. Raises ValueError, RecursionError."""
    return json.loads(text, parse_constant=_number, parse_float=_number, parse_int=_number)


def _number(text: str) -> float | int:
    value = int(text) if text.removeprefix("-").isdigit() else float(text)
    if not is_number(value):
        raise ValueError(f"{shown(text)} is no number")
    return value


def is_whole(minimum: int, maximum: int = 2**62) -> Test:
    return lambda value: type(value) is int and minimum <= value <= maximum


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def is_scalar(value: Any) -> bool:
    return value is None or is_number(value) or is_flag(value) or is_text(value)


def is_text(value: Any) -> bool:
    return type(value) is str


def is_flag(value: Any) -> bool:
    return type(value) is bool


def list_of(test: Test, minimum: int = 0) -> Test:
    return lambda value: type(value) is list and len(value) >= minimum and all(map(test, value))


def mapping_of(test: Test) -> Test:
    return lambda value: type(value) is dict and all(map(test, value.values()))


def maybe(test: Test) -> Test:
    return lambda value: value is None or test(value)


def one_of(*values: str) -> Test:
    return lambda value: type(value) is str and value in values


def check(values: Any, tests: Mapping[str, Test], where: str) -> None:
    """Raise ValueError unless ``values`` is a mapping with every name of ``tests``, each value passing its test."""
    if type(values) is not dict:
        raise ValueError(f"its {where} is {shown(values)}, where a JSON object must be")
    for name, test in tests.items():
        if name not in values:
            raise ValueError(f"its {where} lacks {name}")
        if not test(values[name]):
            raise ValueError(f"its {where} says {name}: {shown(values[name])}, which cannot be")


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
