"""How good the model is on data that it is asked about: the figures, and of classes which are taken for which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llsvm.models.markup import Markup, card, figure, section, table, tag
from llsvm.reporting.classes import confused, confusion_matrix, of_classes
from llsvm.reporting.curves import leads, precision_recall, reliability, roc, scores, thresholds
from llsvm.reporting.numbers import errors, predicted_against_true
from llsvm.reporting.subject import Subject


def evaluated(subject: Subject) -> Markup:
    """The section of the evaluation; nothing where there is none."""
    answer = subject.evaluation
    if answer is None:
        return Markup("")
    shapes = answer.get("shapes", {})
    cards = [_figures(subject), errors(shapes), predicted_against_true(shapes)]
    if (classes := subject.classes) is not None:
        if classes is not answer:
            cards.append(scores(shapes, ["all rows"]))
        cards += _of_classes(classes)
    elif "scores" in shapes:
        cards.append(scores(shapes, ["all rows"]))
    return section(f"On {subject.data}", *cards)


def _of_classes(answer: Mapping[str, Any]) -> list[Markup]:
    shapes, labels = answer.get("shapes", {}), answer["confusion"]["labels"]
    return [
        scores(shapes, labels, answer.get("threshold", {}).get("value", 0.0)),
        leads(shapes),
        roc(answer),
        precision_recall(answer),
        reliability(answer),
        confusion_matrix(answer["confusion"]),
        confused(answer["confusion"]),
        of_classes(answer["classes"]),
        thresholds(answer),
        _unknown(answer),
    ]


def _figures(subject: Subject) -> Markup:
    rows = [(name.replace("_", " "), figure(name, value)) for name, value in subject.figures.items()]
    of_labelled = subject.classes if subject.classes is not subject.evaluation else None
    if of_labelled:
        numbers = {name: value for name, value in of_labelled.items() if isinstance(value, int | float)}
        rows += [
            (f"{name.replace('_', ' ')} (rows with labels)", figure(f"labelled.{name}", value))
            for name, value in numbers.items()
        ]
    threshold = (subject.evaluation or {}).get("threshold")
    words = (
        ""
        if threshold is None
        else f"The score's threshold is {threshold['value']:.6g}, chosen for {threshold['rule']}."
    )
    return card("Figures", table(("figure", "value"), rows, f"Of {subject.data}"), tag("p", words))


def _unknown(answer: Mapping[str, Any]) -> Markup:
    if not answer["unknown_rows"]:
        return Markup("")
    said = f"Labels that the model does not know, {answer['unknown_rows']:,} rows, which count as wrong"
    return card("Unknown labels", table(("label", "rows"), answer["unknown_labels"].items(), said))
