"""The grid of C's, as it is asked for."""

from __future__ import annotations

import math
from collections.abc import Iterable

from llsvm.errors import UsageError

DEFAULT_COSTS = "0.001..1000"
POINTS = 7  # of a range
_DIGITS = 12  # of a point: 0.1, not 0.10000000000000002


def costs_of(asked: str | float | Iterable[float]) -> tuple[float, ...]:
    """The C's, ascending, each once: of "0.001..1000" (seven, evenly on a log scale), "0.1,1,10" or numbers.

    Raises UsageError for what is none, and for a single one, of which there is nothing to choose."""
    given = asked if isinstance(asked, str) else ",".join(str(each) for each in _listed(asked))
    low, dots, high = given.partition("..")
    if dots:
        first, last = _number(low, given), _number(high, given)
        if first >= last:
            raise UsageError(
                f"-C {given}: a range goes from a smaller to a larger C, such as {DEFAULT_COSTS}"
            )
        steps = [(last / first) ** (i / (POINTS - 1)) for i in range(POINTS)]
        found = {float(f"{first * step:.{_DIGITS}g}") for step in steps}
    else:
        found = {_number(each, given) for each in given.split(",")}
    if len(found) < 2:
        raise UsageError(f"-C {given}: there is nothing to choose from one C; give several, or train with it")
    return tuple(sorted(found))


def _listed(asked: float | Iterable[float]) -> list[float]:
    return list(asked) if isinstance(asked, Iterable) else [asked]


def _number(text: str, given: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise UsageError(
            f"-C {given}: {text.strip()!r} is no positive number; write a list as 0.1,1,10, a range as 0.001..1000"
        )
    return value
