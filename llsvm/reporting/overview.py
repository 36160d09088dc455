"""Subject of a page: what the model is, what it was trained on, what is proven of it, and its strongest weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llsvm.files.fingerprint import TRAINED_ON
from llsvm.memory.sizes import format_size
from llsvm.models.header import TEXT, WHY_HASHED
from llsvm.models.markup import Markup, card, facts, figure, folded, join, section, tag
from llsvm.models.model import Model
from llsvm.models.words import (
    CONTRIBUTION,
    WEIGHT,
    changed_settings,
    described,
    listed,
    of_each_problem,
    proven,
    ranked_by,
    setting_text,
)

_FIRST = (
    "accuracy",
    "roc_auc",
    "macro_f1",
    "pinball_loss",
    "coverage",
    "r2",
    "root_mean_squared_error",
    "outlier_share",
)
_OPEN_PROBLEMS = 6  # shown at once
_MAX_PROBLEMS = 200
_OF_FEW, _OF_MANY = 20, 10  # weights of each
_RANKED = {
    CONTRIBUTION: "By contribution: the weight times the spread (standard deviation) of the feature over the rows "
    "trained on, which is what a usual difference in it does to the score.",
    WEIGHT: "By weight: the model does not know how much the features' values spread.",
}


@dataclass(frozen=True, slots=True)
class Subject:
    """Subject of a page, or one of the two models that it shows side by side.

    name: of the model, for people. evaluation: what ``evaluate`` says of ``data`` (their name), with shapes, or
    None where there are none."""

    name: str
    model: Model
    data: str = ""
    evaluation: Mapping[str, Any] | None = None

    @property
    def figures(self) -> Mapping[str, Any]:
        """Return the evaluation's numbers, by their names there."""
        numbers = self.evaluation or {}
        return {name: value for name, value in numbers.items() if isinstance(value, int | float)}

    @property
    def classes(self) -> Mapping[str, Any] | None:
        """Return the evaluation of classes, if there is one; for outliers, that of the rows with labels."""
        evaluation = self.evaluation or {}
        return evaluation if "confusion" in evaluation else evaluation.get("labelled")


def overview(subject: Subject) -> Markup:
    """Return the first section of the page."""
    return section("At a glance", _verdict(subject), _trained_on(subject), _settings(subject))


def _verdict(subject: Subject) -> Markup:
    model = subject.model
    sentence = proven(model)
    if model.certificate is not None:
        sentence += (
            " No weights whatever have an objective below the dual's: the gap between the two is measured over "
            "all rows, on the weights of this model."
        )
    tiles = [
        _tile(name.replace("_", " "), figure(name, value))
        for name, value in subject.figures.items()
        if name in _FIRST
    ]
    tiles += [_tile("rows trained on", f"{model.n_rows:,}"), _tile("features", f"{model.n_features_in_:,}")]
    if "seconds" in model.log:
        tiles.append(_tile("seconds", f"{model.log['seconds']:,.1f}"))
    if "peak_rss_bytes" in model.log:
        tiles.append(_tile("peak memory", format_size(model.log["peak_rss_bytes"])))
    kind = "good" if model.converged else "warning"
    return card(
        "Certificate",
        tag("p", sentence, class_=f"verdict {kind}"),
        tag("ul", *tiles, class_="tiles"),
        wide=True,
    )


def _tile(name: str, value: Any) -> Markup:
    return tag("li", tag("strong", value), tag("span", name))


def _trained_on(subject: Subject) -> Markup:
    model = subject.model
    files = model.extra.get(TRAINED_ON)
    pairs: list[tuple[str, Any]] = [("model", described(model))]
    if model.extra.get("solver"):
        why = f": {model.extra['why']}" if model.extra.get("why") else ""
        pairs.append(("solver", f"{model.extra['solver']}{why}"))
    if hashed := model.extra.get(TEXT, {}).get(WHY_HASHED):
        pairs.append(("n-grams", hashed))
    if files is None:
        return card(
            "Trained on", facts([*pairs, ("data", "arrays or tables in memory, of which nothing is kept")])
        )
    if files["n_files"] == 1:
        name, count = files["files"][0]["name"], ""
    else:
        name, count = listed([file["name"] for file in files["files"]]), f"{files['n_files']:,} files, "
    pairs += [
        ("data", name),
        ("size", f"{count}{format_size(files['n_bytes'])}"),
        ("fingerprint", files["digest"]),
    ]
    return card("Trained on", facts(pairs))


def _settings(subject: Subject) -> Markup:
    settings, changed = subject.model.settings, changed_settings(subject.model)
    if not settings:
        return Markup("")
    others = {name: value for name, value in sorted(settings.items()) if name not in changed}
    said = "As they were used, where they differ from the defaults:" if changed else "All are the defaults."
    return card(
        "Settings",
        tag("p", said),
        facts((name, setting_text(value)) for name, value in changed.items()),
        folded(
            "The others" if changed else "All of them",
            facts((name, setting_text(value)) for name, value in others.items()),
        ),
    )


def weights(subject: Subject) -> Markup:
    """Return the section of the weights; nothing where they are not those of columns."""
    model = subject.model
    few = model.n_problems <= _OPEN_PROBLEMS
    problems = of_each_problem(model, _OF_FEW if few else _OF_MANY, _MAX_PROBLEMS)
    if not problems:
        return Markup("")
    two = len(model.classes_) == 2
    cards = [card("How they are ranked", tag("p", _RANKED[ranked_by(model)]), wide=True)]
    for problem in problems[:_OPEN_PROBLEMS]:
        against = f", − for {model.labels[0]}" if two and not model.is_regression else ""
        cards.append(card(f"+ for {problem['class']}{against}", _bars(problem["features"])))
    if len(problems) > _OPEN_PROBLEMS:
        more = join(
            folded(f"+ for {problem['class']}", _bars(problem["features"]))
            for problem in problems[_OPEN_PROBLEMS:]
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
    largest = max(abs(feature[by]) for feature in features)
    rows = [
        tag(
            "tr",
            tag("th", feature["feature"], scope="row", class_="text"),
            *(
                tag("td", f"{feature[name]:+,.4g}", class_="number", title=repr(feature[name]))
                for name in numbers
            ),
            tag("td", _bar(feature[by], largest), class_="bar"),
        )
        for feature in features
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
