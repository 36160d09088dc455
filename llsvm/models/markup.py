"""HTML that is escaped by construction: whatever is not Markup already is text, of strangers maybe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from llsvm.process import printable

_EMPTY = ("meta", "rect", "line", "circle", "polyline")
_SHOWN_DIGITS = 6


class Markup(str):
    """HTML, safe to be put into a page as it is."""


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """Return an element. children: Markup, or text. attributes: None for none; an underscore at the end of a
    name is left out (class_), others become dashes."""
    words = [
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    ]
    opened = f"<{name}{''.join(words)}"
    return Markup(f"{opened}/>" if name in _EMPTY else f"{opened}>{join(children)}</{name}>")


def join(parts: Iterable[Any]) -> Markup:
    return Markup("".join(part if isinstance(part, Markup) else _escaped(part) for part in parts))


def _escaped(value: Any) -> str:
    """Return text with what nobody would see, or what turns the direction of text around, made visible."""
    return escape(printable(str(value)), quote=True)


def figure(name: str, value: float, shown: str | None = None) -> Markup:
    """Return a figure of ``evaluate --json``, by its name there; all its digits are under the pointer."""
    text = number(value) if shown is None else shown
    return tag("data", text, value=repr(value), title=repr(value), data_figure=name)


def number(value: float) -> str:
    """Return a number for people: whole ones with separators, others with a few digits."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.{_SHOWN_DIGITS}g}"


def table(head: Sequence[Any], rows: Iterable[Sequence[Any]], caption: str, text_columns: int = 1) -> Markup:
    """Return a table in a box of its own that scrolls. The first ``text_columns`` columns are text; the first
    cell of each row is its heading."""
    kinds = ["text" if i < text_columns else "number" for i in range(len(head))]
    first = tag(
        "tr", *(tag("th", cell, scope="col", class_=kind) for cell, kind in zip(head, kinds, strict=True))
    )
    body = [
        tag(
            "tr",
            *(
                tag("td", cell, class_=kind) if i else tag("th", cell, scope="row", class_=kind)
                for i, (cell, kind) in enumerate(zip(row, kinds, strict=True))
            ),
        )
        for row in rows
    ]
    content = tag("table", tag("caption", caption), tag("thead", first), tag("tbody", *body))
    return scrolling(content, caption)


def scrolling(content: Markup, label: str) -> Markup:
    """Return a box that scrolls by itself, with the keyboard too."""
    return tag("div", content, class_="scroll", tabindex="0", role="region", aria_label=label)


def facts(pairs: Iterable[tuple[str, Any]]) -> Markup:
    """Return names and what they are, as a list of definitions."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs))


def folded(summary: str, *content: Any) -> Markup:
    """Return content that is shown when the reader opens it."""
    return tag("details", tag("summary", summary), *content)


def card(heading: str, *content: Any, wide: bool = False) -> Markup:
    return tag("article", tag("h3", heading), *content, class_="wide" if wide else None)


def section(heading: str, *cards: Any) -> Markup:
    """Return a section of a page with ``cards``; nothing where all of them are empty."""
    there = [part for part in cards if part]
    if not there:
        return Markup("")
    return tag("section", tag("h2", heading), tag("div", *there, class_="cards"))
