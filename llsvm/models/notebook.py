"""A model as notebooks show it: what is proven of it, the settings that differ from the defaults, the strongest
weights."""

from __future__ import annotations

from llsvm.models.markup import Markup, join, table, tag
from llsvm.models.record import ModelRecord
from llsvm.models.strongest import of_each_problem
from llsvm.models.words import changed_settings, described, proven, setting_text

_PROBLEMS, _WEIGHTS = 3, 10  # shown


def html_of(model: ModelRecord) -> Markup:
    """A piece of HTML; names in it are harmless, whatever they hold."""
    changed = [(name, setting_text(value)) for name, value in changed_settings(model).items()]
    parts = [tag("p", described(model)), tag("p", tag("strong", proven(model)))]
    if changed:
        head, said = ("setting", "value"), "Settings that differ from the defaults"
        parts.append(table(head, changed, said, text_columns=2))
    for each in of_each_problem(model, _WEIGHTS, _PROBLEMS):
        rows = [(feature["feature"], f"{feature['weight']:+.6g}") for feature in each["features"]]
        parts.append(table(("feature", "weight"), rows, f"Strongest weights, + for {each['class']}"))
    return tag("div", join(parts), class_="llsvm-model")
