"""The page itself: one file that asks for nothing else, of one model or of two side by side."""

from __future__ import annotations

from collections.abc import Callable

from llsvm.models.markup import Markup, card, figure, section, table, tag
from llsvm.models.words import changed_settings, setting_text
from llsvm.process import VERSION
from llsvm.reporting.evaluated import evaluated
from llsvm.reporting.overview import Subject, overview
from llsvm.reporting.progress import training
from llsvm.reporting.style import STYLE
from llsvm.reporting.weights import weights

_SECTIONS: tuple[Callable[[Subject], Markup], ...] = (overview, evaluated, training, weights)
_NOTHING_ELSE = "default-src 'none'; style-src 'unsafe-inline'"  # whatever a name may hold


def page(subject: Subject, other: Subject | None = None) -> str:
    """Return the HTML of a report. other: what ``subject`` is held against."""
    title = f"{subject.name}: report" if other is None else f"{subject.name} and {other.name}: report"
    if other is None:
        content = [make(subject) for make in _SECTIONS]
    else:
        pairs = [(make(subject), make(other)) for make in _SECTIONS]
        content = [_compared(subject, other), *(_side_by_side(*pair, subject, other) for pair in pairs)]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_NOTHING_ELSE),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content=f"llsvm {VERSION}"),
        tag("title", title),
        tag("style", Markup(STYLE)),
    )
    footer = tag("footer", f"Made by llsvm {VERSION}. Values are under the pointer, and below each drawing.")
    body = tag("body", tag("header", tag("h1", title)), tag("main", *content), footer)
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _side_by_side(ours: Markup, theirs: Markup, subject: Subject, other: Subject) -> Markup:
    if not (ours or theirs):
        return Markup("")
    parts = [
        tag("div", tag("p", each.name, class_="quiet"), part)
        for each, part in ((subject, ours), (other, theirs))
    ]
    return tag("div", *parts, class_="pair")


def _compared(subject: Subject, other: Subject) -> Markup:
    """Return the section of what differs between the two."""
    head = ("", subject.name, other.name)
    return section("Compared", _figures(subject, other, head), _settings(subject, other, head))


def _figures(subject: Subject, other: Subject, head: tuple[str, ...]) -> Markup:
    pair = subject, other
    rows: list[list[object]] = [["converged", *("yes" if each.model.converged else "no" for each in pair)]]
    gaps = [each.model.certificate and each.model.certificate.relative_gap for each in pair]
    rows.append(["relative gap", *("-" if gap is None else f"{gap:.3g}" for gap in gaps)])
    for name in ("n_rows", "n_features_in_"):
        rows.append(
            [
                name.strip("_").replace("_in", "").replace("n_", ""),
                *(f"{getattr(each.model, name):,}" for each in pair),
            ]
        )
    for name, value in subject.figures.items():
        theirs = other.figures.get(name)
        rows.append(
            [
                name.replace("_", " "),
                figure(name, value),
                "-" if theirs is None else figure(f"other.{name}", theirs),
            ]
        )
    return card("Figures", table(head, rows, "Side by side"))


def _settings(subject: Subject, other: Subject, head: tuple[str, ...]) -> Markup:
    names = sorted({*changed_settings(subject.model), *changed_settings(other.model)})
    values = [[setting_text(each.model.settings.get(name)) for each in (subject, other)] for name in names]
    rows = [[name, *pair] for name, pair in zip(names, values, strict=True) if pair[0] != pair[1]]
    if not rows:
        return card("Settings", tag("p", "The same settings."))
    return card("Settings that differ", table(head, rows, "As they were used"))
