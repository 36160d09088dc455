"""Checks of values that come from a JSON file, which may say anything."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

MAX_FEATURES = 2**31  # column numbers are 32-bit

Test = Callable[[Any], bool]


def is_whole(least: int, most: int = 2**62) -> Test:
    return lambda value: type(value) is int and least <= value <= most


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def is_text(value: Any) -> bool:
    return type(value) is str


def is_flag(value: Any) -> bool:
    return type(value) is bool


def list_of(test: Test) -> Test:
    return lambda value: type(value) is list and all(map(test, value))


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
