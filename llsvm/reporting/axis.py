"""Axes: from values to places, and the marks at them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_MARKS = 5


@dataclass(frozen=True, slots=True)
class Axis:
    """label: what the values are, with the unit. low, high: the ends, low < high. log: are places those of the
    logarithms? words: of a value, as text for people; None for plain numbers."""

    label: str
    low: float
    high: float
    log: bool = False
    words: Callable[[float], str] | None = None

    def place(self, value: float) -> float:
        """Return the place in [0, 1] between the ends; beyond them where the value is."""
        low, high, at = (self._scaled(each) for each in (self.low, self.high, value))
        return (at - low) / (high - low)

    def _scaled(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.log else value

    def text_of(self, value: float) -> str:
        """Return a value with the digits that it deserves."""
        return f"{value:,.8g}" if self.words is None else self.words(value)

    def mark(self, value: float) -> str:
        """Return a mark's value, short, with so many digits that it differs from its neighbours'."""
        if self.words is not None:
            return self.words(value).replace(".0 ", " ")  # of a size
        if self.log:
            return f"{value:g}"
        largest = max(abs(self.low), abs(self.high))
        return _short(value, max(4, math.ceil(math.log10(largest / (self.high - self.low))) + 3))

    def marks(self) -> list[float]:
        """Round values within the ends."""
        if self.log:
            low, high = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            decades = max(1, math.ceil((high - low) / _MARKS))
            return [10.0**each for each in range(low, high + 1, decades)]
        step = _round_step((self.high - self.low) / _MARKS)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [each * step for each in range(first, last + 1)]


def axis_of(
    label: str, values: Sequence[float], words: Callable[[float], str] | None = None, zero: bool = False
) -> Axis:
    """Return an axis with room for ``values``, which are finite. zero: whether 0 is on it."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        low, high = (low - abs(low) / 2, high + abs(high) / 2) if high else (0.0, 1.0)
    return Axis(label, low, high, words=words)


def log_axis(label: str, values: Sequence[float], words: Callable[[float], str] | None = None) -> Axis:
    """Return an axis of whole decades around ``values``, which are positive."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return Axis(label, 10.0**low, 10.0 ** max(high, low + 1), log=True, words=words)


def _short(value: float, digits: int = 4) -> str:
    """Return a number with k, M and G for thousands, millions and thousands of millions."""
    for unit, size, threshold in (("G", 1e9, 1e9), ("M", 1e6, 1e6), ("k", 1e3, 1e4)):
        if abs(value) >= threshold:
            return f"{value / size:.{digits}g}{unit}"
    return f"{value:.{digits}g}" if abs(value) > 1e-12 else "0"


def _round_step(step: float) -> float:
    size = 10.0 ** math.floor(math.log10(step))
    return next(size * factor for factor in (1, 2, 5, 10) if size * factor >= step * (1 - 1e-9))
