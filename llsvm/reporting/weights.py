"""The strongest weights of each class, by name and sign."""

from __future__ import annotations

from typing import Any

from llsvm.models.markup import Markup, card, folded, join, section, tag
from llsvm.models.strongest import CONTRIBUTION, WEIGHT, of_each_problem, ranked_by
from llsvm.reporting.overview import Subject

_OPEN_PROBLEMS = 6  # shown at once
_MAX_PROBLEMS = 200
_OF_FEW, _OF_MANY = 20, 10  # weights of each
_RANKED = {
    CONTRIBUTION: "By contribution: the weight times the spread (standard deviation) of the feature over the rows "
    "trained on, which is what a usual difference in it does to the score.",
    WEIGHT: "By weight: the model does not know how much the features' values spread.",
}


def weights(subject: Subject) -> Markup:
    """Return the section of the weights; nothing where they are not those of columns."""
    model = subject.model
    few = model.n_problems <= _OPEN_PROBLEMS
    problems = of_each_problem(model, _OF_FEW if few else _OF_MANY, _MAX_PROBLEMS)
    if not problems:
        return Markup("")
    two = len(model.classes_) == 2
    cards = [card("How they are ranked", tag("p", _RANKED[ranked_by(model)]), wide=True)]
    for each in problems[:_OPEN_PROBLEMS]:
        against = f", − for {model.labels[0]}" if two and not model.is_regression else ""
        cards.append(card(f"+ for {each['class']}{against}", _bars(each["features"])))
    if len(problems) > _OPEN_PROBLEMS:
        more = join(
            folded(f"+ for {each['class']}", _bars(each["features"])) for each in problems[_OPEN_PROBLEMS:]
        )
        rest = (
            f"Of {model.n_problems:,}, the first {len(problems)}." if model.n_problems > len(problems) else ""
        )
        cards.append(card("The other classes", tag("div", more, class_="folds"), tag("p", rest), wide=True))
    return section("Strongest weights", *cards)


def _bars(features: list[dict[str, Any]]) -> Markup:
    if not features:
        return tag("p", "All weights are zero.")
    numbers = [name for name in (WEIGHT, CONTRIBUTION) if name in features[0]]
    by = numbers[-1]
    largest = max(abs(each[by]) for each in features)
    rows = [
        tag(
            "tr",
            tag("th", each["feature"], scope="row", class_="text"),
            *(tag("td", f"{each[name]:+,.4g}", class_="number", title=repr(each[name])) for name in numbers),
            tag("td", _bar(each[by], largest), class_="bar"),
        )
        for each in features
    ]
    head = tag(
        "tr",
        tag("th", "feature", scope="col", class_="text"),
        *(tag("th", name, scope="col", class_="number") for name in numbers),
        tag("td"),
    )
    return tag(
        "table",
        tag("thead", head),
        tag("tbody", *rows),
        class_="weights both" if len(numbers) > 1 else "weights",
    )


def _bar(weight: float, largest: float) -> Markup:
    kind = "plus" if weight > 0 else "minus"
    return tag("span", style=f"width:{100 * abs(weight) / largest:.1f}%", class_=kind)
