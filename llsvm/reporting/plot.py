"""Plots as inline SVG: axes, lines, bars and cells; values are under the pointer and in a table below."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llsvm.models.markup import Markup, card, folded, table, tag

WIDTH, HEIGHT = 400, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 12, 10, 42
_INNER_WIDTH, _INNER_HEIGHT = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
_MARGIN = 4  # around the inner drawing, so that dots and lines at its ends are seen whole
_MAX_DOTS = 40  # points of a line that are drawn as such
_MAX_VALUES = 400  # rows of the table below
_MARKS = 5  # of an axis, about


class Plot:
    """Lines, bars and cells over two axes."""

    def __init__(self, description: str, x: Axis, y: Axis) -> None:
        """description: what is seen, for people who do not see it."""
        self._description, self._x, self._y = description, x, y
        self._drawn: list[Markup] = []
        self._legend: list[Markup] = []
        self._values: Markup | None = None

    def line(self, name: str, x: Sequence[float], y: Sequence[float], kind: str) -> None:
        """Draw a line. kind: its class in the style. name: "" for a line that is no data, which only guides the
        eye."""
        places = [self._at(*point) for point in zip(x, y, strict=True)]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        self._drawn.append(tag("polyline", points=path, class_=f"line {kind}"))
        if not name:
            return
        self._legend.append(tag("li", name, class_=kind))
        dots = len(places) <= _MAX_DOTS
        for (a, b), value_x, value_y in zip(places, x, y, strict=True):
            tooltip = f"{name}: {self._y.text_of(value_y)} at {self._x.label} {self._x.text_of(value_x)}"
            seen = (
                [tag("circle", cx=f"{a:.1f}", cy=f"{b:.1f}", r="2.5", class_=f"dot {kind}")] if dots else []
            )
            felt = tag("circle", cx=f"{a:.1f}", cy=f"{b:.1f}", r="8", class_="felt")
            self._drawn.append(tag("g", tag("title", tooltip), *seen, felt))

    def bars(self, name: str, edges: Sequence[float], heights: Sequence[float], kind: str) -> None:
        """Draw bars. edges: one more than there are heights."""
        self._legend.append(tag("li", name, class_=kind))
        for low, high, height in zip(edges, edges[1:], heights, strict=False):
            if height:
                tooltip = f"{name}, {self._x.text_of(low)} to {self._x.text_of(high)}: {height:,.6g}"
                self._drawn.append(self._box((low, high), (self._y.low, height), tooltip, kind))

    def cell(self, x: tuple[float, float], y: tuple[float, float], share: float, tooltip: str) -> None:
        """Draw a box from edge to edge, whose color says ``share``, in [0, 1]."""
        opacity = f"{0.12 + 0.88 * share:.3f}"
        self._drawn.append(self._box(x, y, tooltip, "cell", opacity))

    def values(self, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Add the table below; of many rows only some, from the first to the last."""
        step = -(-len(rows) // _MAX_VALUES)
        self._values = table(head, rows[::step] if step > 1 else rows, self._description, text_columns=0)

    def card(self, *content: Any, heading: str | None = None) -> Markup:
        """Return a card with the drawing and what comes below it. heading: the description by default."""
        return card(self._description if heading is None else heading, self._figure(), *content)

    def _figure(self) -> Markup:
        width, height = _INNER_WIDTH + 2 * _MARGIN, _INNER_HEIGHT + 2 * _MARGIN
        place = {"x": _LEFT - _MARGIN, "y": _TOP - _MARGIN, "width": width, "height": height}
        inside = tag("svg", *self._drawn, **place, viewBox=f"{-_MARGIN} {-_MARGIN} {width} {height}")
        drawing = tag(
            "svg",
            *self._marks(),
            inside,
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            role="img",
            aria_label=self._description,
            class_="plot",
        )
        legend = [tag("ul", *self._legend, class_="legend")] if len(self._legend) > 1 else []
        values = [] if self._values is None else [folded("Values", self._values)]
        return tag("figure", drawing, *legend, *values)

    def _at(self, x: float, y: float) -> tuple[float, float]:
        """Return a place within a few widths of the drawing: what is far beyond its ends is not seen."""
        a, b = (min(max(axis.place(value), -9.0), 9.0) for axis, value in ((self._x, x), (self._y, y)))
        return a * _INNER_WIDTH, (1 - b) * _INNER_HEIGHT

    def _box(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        tooltip: str,
        kind: str,
        opacity: str | None = None,
    ) -> Markup:
        (a, b), (c, d) = self._at(x[0], y[1]), self._at(x[1], y[0])
        width, height = f"{max(c - a - 0.4, 0.4):.1f}", f"{max(d - b, 0.8):.1f}"
        place = {"x": f"{a:.1f}", "y": f"{b:.1f}", "width": width, "height": height}
        box = tag("rect", **place, class_=f"bar {kind}", fill_opacity=opacity)
        return tag("g", tag("title", tooltip), box)

    def _marks(self) -> list[Markup]:
        """Return the marks and labels of the axes, with lines across."""
        bottom, marks = HEIGHT - _BOTTOM, []
        for value in self._x.marks():
            a = _LEFT + self._x.place(value) * _INNER_WIDTH
            marks.append(tag("line", x1=f"{a:.1f}", x2=f"{a:.1f}", y1=_TOP, y2=bottom, class_="grid"))
            marks.append(tag("text", self._x.mark(value), x=f"{a:.1f}", y=bottom + 15, text_anchor="middle"))
        for value in self._y.marks():
            b = _TOP + (1 - self._y.place(value)) * _INNER_HEIGHT
            marks.append(
                tag("line", x1=_LEFT, x2=WIDTH - _RIGHT, y1=f"{b:.1f}", y2=f"{b:.1f}", class_="grid")
            )
            marks.append(tag("text", self._y.mark(value), x=_LEFT - 5, y=f"{b + 4:.1f}", text_anchor="end"))
        middle_x, middle_y = _LEFT + _INNER_WIDTH / 2, _TOP + _INNER_HEIGHT / 2
        below = {"x": middle_x, "y": HEIGHT - 6, "text_anchor": "middle"}
        marks.append(tag("text", self._x.label, **below, class_="label"))
        upright = {"x": 12, "y": middle_y, "text_anchor": "middle", "transform": f"rotate(-90 12 {middle_y})"}
        marks.append(tag("text", self._y.label, **upright, class_="label"))
        return marks


@dataclass(frozen=True, slots=True)
class Axis:
    """Axis of a plot.

    label: what the values are, with the unit. low, high: the ends, low < high. log: places are those of the
    logarithms. words: of a value, as text for people; None for plain numbers."""

    label: str
    low: float
    high: float
    log: bool = False
    words: Callable[[float], str] | None = None

    def place(self, value: float) -> float:
        """Return the place in [0, 1] between the ends; beyond them where the value is."""
        low, high, at = (self._scaled(number) for number in (self.low, self.high, value))
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
        """Return round values within the ends."""
        if self.log:
            low, high = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            decades = max(1, math.ceil((high - low) / _MARKS))
            return [10.0**power for power in range(low, high + 1, decades)]
        step = _round_step((self.high - self.low) / _MARKS)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


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
