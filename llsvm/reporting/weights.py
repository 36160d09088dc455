"""The strongest weights of each class, by name and sign."""

from __future__ import annotations

from typing import Any

from llsvm.models.markup import Markup, card, folded, join, section, tag
from llsvm.models.strongest import of_each_problem
from llsvm.reporting.subject import Subject

_OPEN_PROBLEMS = 6  # shown at once
_MAX_PROBLEMS = 200
_OF_FEW, _OF_MANY = 20, 10  # weights of each


def weights(subject: Subject) -> Markup:
    """The section of the weights; nothing where they are not those of columns."""
    model = subject.model
    few = model.n_problems <= _OPEN_PROBLEMS
    found = of_each_problem(model, _OF_FEW if few else _OF_MANY, _MAX_PROBLEMS)
    if not found:
        return Markup("")
    two = len(model.classes_) == 2
    cards = []
    for each in found[:_OPEN_PROBLEMS]:
        against = f", − for {model.labels[0]}" if two and not model.is_regression else ""
        cards.append(card(f"+ for {each['class']}{against}", _bars(each["features"])))
    if len(found) > _OPEN_PROBLEMS:
        more = join(
            folded(f"+ for {each['class']}", _bars(each["features"])) for each in found[_OPEN_PROBLEMS:]
        )
        rest = f"Of {model.n_problems:,}, the first {len(found)}." if model.n_problems > len(found) else ""
        cards.append(card("The other classes", more, tag("p", rest)))
    return section("Strongest weights", *cards)


def _bars(features: list[dict[str, Any]]) -> Markup:
    if not features:
        return tag("p", "All weights are zero.")
    largest = max(abs(each["weight"]) for each in features)
    rows = [
        tag(
            "tr",
            tag("th", each["feature"], scope="row", class_="text"),
            tag("td", f"{each['weight']:+,.6g}", class_="number", title=repr(each["weight"])),
            tag("td", _bar(each["weight"], largest), class_="bar"),
        )
        for each in features
    ]
    head = tag(
        "tr",
        tag("th", "feature", scope="col", class_="text"),
        tag("th", "weight", scope="col", class_="number"),
        tag("td"),
    )
    return tag("table", tag("thead", head), tag("tbody", *rows), class_="weights")


def _bar(weight: float, largest: float) -> Markup:
    kind = "plus" if weight > 0 else "minus"
    return tag("span", style=f"width:{100 * abs(weight) / largest:.1f}%", class_=kind)
