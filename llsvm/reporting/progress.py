"""How the training went: the certificate pass by pass, memory, active rows, and where the time went."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llsvm.memory.sizes import format_size
from llsvm.models.markup import Markup, card, section, table, tag
from llsvm.reporting.overview import Subject
from llsvm.reporting.plot import Plot, axis_of, log_axis

_MAX_POINTS = 300
_FAR = 2.0  # times the last primal, beyond which early objectives are cut off
_SPENT = {
    "read": "first reading of the data, up to the first step",
    "pass": "full passes over all rows",
    "epoch": "work on the active rows, between full passes",
}
_OVER: dict[str, tuple[str, Callable[[float], str] | None]] = {
    "passes": ("full passes", None),
    "seconds": ("seconds", None),
    "bytes_read": ("read so far", format_size),
}
Row = Mapping[str, Any]


def training(subject: Subject) -> Markup:
    """Return the section of the training."""
    history = _thinned(subject.model.history)
    return section(
        "Training",
        *(_objectives(history, name) for name in _OVER),
        _gaps(history, subject.model.settings.get("tol")),
        _memory(history, subject.model.log.get("memory_limit_bytes")),
        _active_rows(history, subject.model.n_rows),
        _time(subject.model.log),
    )


def _thinned(history: Sequence[Row]) -> list[Row]:
    step = max(1, -(-len(history) // _MAX_POINTS))
    return [*history[:-1:step], *history[-1:]]


def _with(history: Sequence[Row], *names: str) -> tuple[list[float], ...]:
    """Return the columns of the rows that have finite numbers in all of them."""
    rows: list[list[Any]] = [[row.get(name) for name in names] for row in history]
    there = [row for row in rows if all(value is not None and math.isfinite(value) for value in row)]
    return tuple([float(row[i]) for row in there] for i in range(len(names)))


def _objectives(history: Sequence[Row], name: str) -> Markup:
    x, primal, dual = _with(history, name, "primal", "dual")
    if not x or (name == "bytes_read" and len(set(x)) == 1 < len(x)):  # all was read at once
        return Markup("")
    label, words = _OVER[name]
    last = abs(primal[-1]) or 1.0
    near = [value for value in (*primal, *dual) if abs(value - primal[-1]) <= _FAR * last]
    cut = len(near) < 2 * len(x)
    said = f"Primal and dual objective by {label}" + (", what is far off is cut off" if cut else "")
    plot = Plot(said, axis_of(label, x, words, zero=True), axis_of("objective", near))
    plot.line("primal", x, primal, "a")
    plot.line("dual", x, dual, "b")
    plot.values((label, "primal", "dual"), _rows(words, x, primal, dual))
    return plot.card()


def _rows(
    words: Callable[[float], str] | None, x: Sequence[float], *columns: Sequence[float]
) -> list[tuple[str, ...]]:
    words = words or "{:,.10g}".format
    return [(words(row[0]), *(f"{value:.10g}" for value in row[1:])) for row in zip(x, *columns, strict=True)]


def _gaps(history: Sequence[Row], tol: Any) -> Markup:
    x, gaps = _with(history, "passes", "relative_gap")
    above = [(a, b) for a, b in zip(x, gaps, strict=True) if b > 0]
    if not above:
        return Markup("")
    tolerances = [tol] if isinstance(tol, float) and tol > 0 else []
    x_axis = axis_of("full passes", x, zero=True)
    y_axis = log_axis("relative gap", [*(b for _, b in above), *tolerances])
    plot = Plot("Relative gap by full passes", x_axis, y_axis)
    for tolerance in tolerances:
        plot.line("asked for", (x_axis.low, x_axis.high), (tolerance, tolerance), "c")
    plot.line("relative gap", [a for a, _ in above], [b for _, b in above], "a")
    plot.values(("full passes", "relative gap"), _rows(None, x, gaps))
    return plot.card()


def _memory(history: Sequence[Row], limit: Any) -> Markup:
    x, used, peak = _with(history, "seconds", "used_bytes", "peak_rss_bytes")
    if not x:
        return Markup("")
    limits = [limit] if isinstance(limit, int) else []
    x_axis = axis_of("seconds", x, zero=True)
    y_axis = axis_of("resident set", [*used, *peak, *limits], format_size, zero=True)
    plot = Plot("Memory of the process by seconds", x_axis, y_axis)
    for bound in limits:
        plot.line("limit", (x_axis.low, x_axis.high), (bound, bound), "c")
    plot.line("peak so far", x, peak, "b")
    plot.line("at the end of a pass", x, used, "a")
    rows = [(f"{s:,.3f}", format_size(p), format_size(u)) for s, p, u in zip(x, peak, used, strict=True)]
    plot.values(("seconds", "peak so far", "at the end of a pass"), rows)
    said = f"The limit was {format_size(limit)}, the peak {format_size(max(peak))}." if limits else ""
    return plot.card(tag("p", said), heading="Memory against the limit")


def _active_rows(history: Sequence[Row], n_rows: int) -> Markup:
    x, active = _with(history, "passes", "survivors")
    if not any(active):
        return Markup("")
    said = f"Active rows by full passes, of {n_rows:,}"
    plot = Plot(said, axis_of("full passes", x, zero=True), axis_of("active rows", active, zero=True))
    plot.line("free or violating", x, active, "a")
    plot.values(("full passes", "active rows"), _rows(None, x, active))
    return plot.card()


def _time(log: Mapping[str, Any]) -> Markup:
    spent, seconds = log.get("spent"), log.get("seconds")
    if not spent or not seconds:
        return Markup("")
    parts = {_SPENT[kind]: spent[kind] for kind in _SPENT if kind in spent}
    parts["the rest"] = max(0.0, seconds - sum(parts.values()))
    bars, rows = [], []
    for i, (name, part) in enumerate(parts.items()):
        width, tooltip = f"width:{100 * part / seconds:.2f}%", f"{name}: {part:,.2f} s"
        bars.append(tag("span", style=width, class_=f"p{i}", title=tooltip))
        keyed = tag("span", tag("span", class_=f"key p{i}"), name)  # with its color in the bar
        rows.append((keyed, f"{part:,.2f}", f"{part / seconds:.1%}"))
    label = "Where the time went; the table has the figures"
    read = [("read from the data", format_size(log["bytes_read"]))] if "bytes_read" in log else []
    read += [("spilled to disk", format_size(log["bytes_spilled"]))] if log.get("bytes_spilled") else []
    return card(
        "Where the time went",
        tag("div", *bars, class_="parts", role="img", aria_label=label),
        table(("what", "seconds", "share"), rows, "Seconds by what they went into"),
        tag("p", "; ".join(f"{name}: {value}" for name, value in read)),
    )
