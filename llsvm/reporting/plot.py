"""Plot: a drawing as inline SVG, with its values under the pointer and in a table below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llsvm.models.markup import Markup, folded, table, tag
from llsvm.reporting.axis import Axis

WIDTH, HEIGHT = 400, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 12, 10, 42
_INNER_WIDTH, _INNER_HEIGHT = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
_MARGIN = 4  # around the inner drawing, so that dots and lines at its ends are seen whole
_MAX_DOTS = 40  # points of a line that are drawn as such
_MAX_VALUES = 400  # rows of the table below


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
        places = [self._at(*each) for each in zip(x, y, strict=True)]
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
                self._drawn.append(self._box(low, high, self._y.low, height, tag("title", tooltip), kind))

    def cell(self, x: tuple[float, float], y: tuple[float, float], share: float, tooltip: str) -> None:
        """Draw a box from edge to edge, whose color says ``share``, in [0, 1]."""
        opacity = f"{0.12 + 0.88 * share:.3f}"
        self._drawn.append(self._box(*x, *y, tag("title", tooltip), "cell", opacity))

    def values(self, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Add the table below; of many rows only some, from the first to the last."""
        step = -(-len(rows) // _MAX_VALUES)
        self._values = table(head, rows[::step] if step > 1 else rows, self._description, text_columns=0)

    def draw(self) -> Markup:
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
        a, b = (min(max(axis.place(each), -9.0), 9.0) for axis, each in ((self._x, x), (self._y, y)))
        return a * _INNER_WIDTH, (1 - b) * _INNER_HEIGHT

    def _box(
        self,
        left: float,
        right: float,
        low: float,
        high: float,
        tooltip: Markup,
        kind: str,
        opacity: str | None = None,
    ) -> Markup:
        (a, b), (c, d) = self._at(left, high), self._at(right, low)
        size = {"x": f"{a:.1f}", "y": f"{b:.1f}", "width": f"{max(c - a - 0.4, 0.4):.1f}"}
        drawn = tag(
            "rect", **size, height=f"{max(d - b, 0.8):.1f}", class_=f"bar {kind}", fill_opacity=opacity
        )
        return tag("g", tooltip, drawn)

    def _marks(self) -> list[Markup]:
        """Marks and labels of the axes, with lines across."""
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
        turned = f"rotate(-90 12 {middle_y})"
        marks.append(
            tag("text", self._x.label, x=middle_x, y=HEIGHT - 6, text_anchor="middle", class_="label")
        )
        up = {"x": 12, "y": middle_y, "text_anchor": "middle", "transform": turned}
        marks.append(tag("text", self._y.label, **up, class_="label"))
        return marks
