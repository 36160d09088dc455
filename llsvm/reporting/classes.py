"""Which classes are taken for which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llsvm.models.markup import Markup, card, scrolling, table, tag
from llsvm.scoring.figures import Confusion, most_confused

_NUMBERED = 12  # up to so many classes, a table of counts; then a drawing,
_DRAWN = 300  # up to so many
_CELL, _LETTER, _LETTERS = 12, 5.5, 16  # pixels, and how many letters a label has at most
_PAIRS = 30
_CLASSES = 500


def confusion_matrix(confusion: Confusion) -> Markup:
    """A row per true and a column per predicted class; nothing of more classes than can be seen."""
    labels, counts = confusion["labels"], confusion["counts"]
    said = "Confusion matrix: a row for each true class, a column for each predicted one"
    if len(labels) > _DRAWN:
        return Markup("")
    if len(labels) > _NUMBERED:
        return card("Confusion matrix", scrolling(_drawing(labels, counts), said), wide=True)
    rows = []
    for label, row in zip(labels, counts, strict=True):
        total = sum(row) or 1
        rows.append([label, *(_count(n, n / total) for n in row)])
    return card("Confusion matrix", table(("true \\ predicted", *labels), rows, said), wide=len(labels) > 4)


def _count(n: float, share: float) -> Markup:
    told = f"{n:,.10g} rows, {share:.2%} of the true class"
    return tag("span", f"{n:,.10g}", title=told, class_="cell", style=f"--share:{100 * share**0.5:.0f}%")


def _drawing(labels: Sequence[str], counts: Sequence[Sequence[float]]) -> Markup:
    """Of many classes: cells with rows, coloured by the share of the true class, the rest under the pointer."""
    names = [label if len(label) <= _LETTERS else f"{label[: _LETTERS - 1]}…" for label in labels]
    start = round(_LETTER * max(map(len, names))) + 8
    side, parts = start + _CELL * len(labels), []
    for i, (label, name) in enumerate(zip(labels, names, strict=True)):
        at, end = start + _CELL * i, start - 4
        parts.append(tag("text", name, x=end, y=at + 10, text_anchor="end"))
        parts.append(tag("text", name, x=at + 10, y=end, transform=f"rotate(-90 {at + 10} {end})"))
        total = sum(counts[i]) or 1
        for j, n in enumerate(counts[i]):
            if n:
                told = f"true {label}, predicted {labels[j]}: {n:,.10g} rows, {n / total:.1%} of the class"
                place = {"x": start + _CELL * j, "y": at, "width": _CELL - 1, "height": _CELL - 1}
                kind, opacity = "right" if i == j else "wrong", f"{0.2 + 0.8 * (n / total) ** 0.5:.2f}"
                box = tag("rect", **place, class_=kind, fill_opacity=opacity)
                parts.append(tag("g", tag("title", told), box))
    return tag(
        "svg",
        *parts,
        width=side,
        height=side,
        viewBox=f"0 0 {side} {side}",
        role="img",
        aria_label="Confusion matrix; the tables beside it name the most confused classes",
        class_="matrix",
    )


def confused(confusion: Confusion) -> Markup:
    """The most confused pairs of several classes."""
    found = most_confused(confusion, _PAIRS)
    if len(confusion["labels"]) < 3 or not found:
        return Markup("")
    rows = [(true, predicted, f"{n:,.10g}", f"{n / total:.1%}") for true, predicted, n, total in found]
    head = ("true", "predicted as", "rows", "of the class")
    return card("Most confused", table(head, rows, "The pairs with most rows", text_columns=2))


def of_classes(classes: Sequence[Mapping[str, Any]]) -> Markup:
    """Precision, recall and the like, class by class."""
    head = ("label", "precision", "recall", "f1", "support", "predicted")
    rows = [
        [each[name] if name == "label" else _shown(each[name]) for name in head]
        for each in classes[:_CLASSES]
    ]
    more = f", the first {_CLASSES} of {len(classes):,}" if len(classes) > _CLASSES else ""
    return card("Class by class", table(head, rows, f"Figures of each class{more}"), wide=True)


def _shown(value: float) -> Markup:
    return tag("span", f"{value:,}" if isinstance(value, int) else f"{value:.4f}", title=repr(value))
