"""Section of the evaluation: how good the model is on other data, in figures, plots and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llsvm.models.markup import Markup, card, figure, scrolling, section, table, tag
from llsvm.reporting.overview import Subject
from llsvm.reporting.plot import Axis, Plot, axis_of
from llsvm.scoring.figures import Confusion, most_confused

_NUMBERED = 12  # up to so many classes, a table of counts; then a drawing,
_DRAWN = 300  # up to so many
_CELL, _LETTER, _LETTERS = 12, 5.5, 16  # pixels, and how many letters a label has at most
_PAIRS = 30
_CLASSES = 500


def evaluated(subject: Subject) -> Markup:
    """Return the section of the evaluation; nothing where there is none."""
    answer = subject.evaluation
    if answer is None:
        return Markup("")
    shapes = answer.get("shapes", {})
    cards = [_figures(subject), _errors(shapes), _predicted_against_true(shapes)]
    if (classes := subject.classes) is not None:
        if classes is not answer:
            cards.append(_scores(shapes, ["all rows"]))
        cards += _class_cards(classes)
    elif "scores" in shapes:
        cards.append(_scores(shapes, ["all rows"]))
    return section(f"On {subject.data}", *cards)


def _class_cards(answer: Mapping[str, Any]) -> list[Markup]:
    shapes, labels = answer.get("shapes", {}), answer["confusion"]["labels"]
    return [
        _scores(shapes, labels, answer.get("threshold", {}).get("value", 0.0)),
        _leads(shapes),
        *_curves(answer),
        _reliability(answer),
        _confusion_matrix(answer["confusion"]),
        _confused(answer["confusion"]),
        _class_table(answer["classes"]),
        _thresholds(answer),
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


def _errors(shapes: Mapping[str, Any]) -> Markup:
    """Return a histogram of the residuals."""
    if "errors" not in shapes:
        return Markup("")
    return _histogram(
        shapes["errors"], "Residuals: the true number less the predicted one", "residual", {"rows": "a"}
    )


def _predicted_against_true(shapes: Mapping[str, Any]) -> Markup:
    """Return a plane of cells whose color is the stronger, the more rows they hold."""
    if "predictions" not in shapes:
        return Markup("")
    (x, y), (counts,) = shapes["predictions"]["edges"], shapes["predictions"]["counts"]
    largest = max(max(row) for row in counts)
    x_axis, y_axis = axis_of("predicted", x), axis_of("true", y)
    plot = Plot("True against predicted numbers; the line is where they are equal", x_axis, y_axis)
    rows = []
    for a, b, column in zip(x, x[1:], counts, strict=False):
        for c, d, n in zip(y, y[1:], column, strict=False):
            if n:
                tooltip = f"predicted {a:.6g} to {b:.6g}, true {c:.6g} to {d:.6g}: {n:,} rows"
                plot.cell((a, b), (c, d), (n / largest) ** 0.5, tooltip)
                rows.append((f"{a:.6g} to {b:.6g}", f"{c:.6g} to {d:.6g}", n))
    ends = min(x[0], y[0]), max(x[-1], y[-1])
    plot.line("", ends, ends, "faint")
    plot.values(("predicted", "true", "rows"), rows)
    return plot.card(heading="True against predicted")


def _confusion_matrix(confusion: Confusion) -> Markup:
    """Return a row per true and a column per predicted class; nothing where there are more classes than can be
    seen."""
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
    tooltip = f"{n:,.10g} rows, {share:.2%} of the true class"
    return tag("span", f"{n:,.10g}", title=tooltip, class_="cell", style=f"--share:{100 * share**0.5:.0f}%")


def _drawing(labels: Sequence[str], counts: Sequence[Sequence[float]]) -> Markup:
    """Draw the matrix of many classes: cells with rows, colored by the share of the true class; the pointer
    shows the counts."""
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
                tooltip = f"true {label}, predicted {labels[j]}: {n:,.10g} rows, {n / total:.1%} of the class"
                place = {"x": start + _CELL * j, "y": at, "width": _CELL - 1, "height": _CELL - 1}
                kind, opacity = "right" if i == j else "wrong", f"{0.2 + 0.8 * (n / total) ** 0.5:.2f}"
                box = tag("rect", **place, class_=kind, fill_opacity=opacity)
                parts.append(tag("g", tag("title", tooltip), box))
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


def _confused(confusion: Confusion) -> Markup:
    """Return a table of the most confused pairs of several classes."""
    pairs = most_confused(confusion, _PAIRS)
    if len(confusion["labels"]) < 3 or not pairs:
        return Markup("")
    rows = [(true, predicted, f"{n:,.10g}", f"{n / total:.1%}") for true, predicted, n, total in pairs]
    head = ("true", "predicted as", "rows", "of the class")
    return card("Most confused", table(head, rows, "The pairs with most rows", text_columns=2))


def _class_table(classes: Sequence[Mapping[str, Any]]) -> Markup:
    """Return a table of precision, recall and the like, class by class."""
    head = ("label", "precision", "recall", "f1", "support", "predicted")
    rows = [
        [row[name] if name == "label" else _shown(row[name]) for name in head] for row in classes[:_CLASSES]
    ]
    more = f", the first {_CLASSES} of {len(classes):,}" if len(classes) > _CLASSES else ""
    return card("Class by class", table(head, rows, f"Figures of each class{more}"), wide=True)


def _shown(value: float) -> Markup:
    return tag("span", f"{value:,}" if isinstance(value, int) else f"{value:.4f}", title=repr(value))


def _scores(shapes: Mapping[str, Any], labels: Sequence[str], threshold: float = 0.0) -> Markup:
    """Return histograms of scores for each of ``labels``, the classes or whatever else the series are.
    threshold: above which rows are predicted as the second class."""
    if "scores" not in shapes:
        return Markup("")
    said = "Distribution of the scores" + (
        f": above {threshold:.6g} speaks for {labels[1]}" if len(labels) == 2 else ""
    )
    of_each = dict(zip(labels, ("b", "a") if len(labels) == 2 else ("a",), strict=True))
    return _histogram(shapes["scores"], said, "score", of_each)


def _leads(shapes: Mapping[str, Any]) -> Markup:
    """Return a histogram of how much the predicted class leads."""
    if "leads" not in shapes:
        return Markup("")
    said = "By how much the score of the predicted class leads that of the next"
    return _histogram(shapes["leads"], said, "lead", {"rightly predicted": "a", "wrongly predicted": "b"})


def _histogram(histogram: Mapping[str, Any], said: str, label: str, names: Mapping[str, str]) -> Markup:
    """Return a card with a histogram, see ``llsvm.scoring.metrics``. names: of each series, with their kinds."""
    edges, counts = histogram["edges"][0], histogram["counts"]
    top = max(max(heights) for heights in counts)
    plot = Plot(said, axis_of(label, edges), axis_of("rows", (top,), zero=True))
    for (name, kind), heights in zip(names.items(), counts, strict=True):
        plot.bars(name, edges, heights, kind)
    head = (f"{label} from", "to", *(f"rows, {name}" for name in names))
    bins = zip(edges, edges[1:], *counts, strict=False)
    plot.values(head, [(f"{low:.6g}", f"{high:.6g}", *rows) for low, high, *rows in bins])
    return plot.card()


def _curves(answer: Mapping[str, Any]) -> list[Markup]:
    """Return cards with the curves of two classes; none of several."""
    curve = answer.get("shapes", {}).get("curve")
    return [] if curve is None else [_roc(curve, answer), _precision_recall(curve, answer)]


def _roc(curve: Mapping[str, Any], answer: Mapping[str, Any]) -> Markup:
    """Return a card with true against false positives."""
    false = [0.0, *(count / curve["others"] for count in curve["false_positives"])]
    true = [0.0, *(count / curve["positives"] for count in curve["true_positives"])]
    plot = Plot("ROC curve", _share("false positive rate"), _share("true positive rate"))
    plot.line("", (0, 1), (0, 1), "faint")
    plot.line("true positive rate", false, true, "a")
    plot.values(
        ("score from", "false positive rate", "true positive rate"), _rows(curve, false[1:], true[1:])
    )
    return plot.card(tag("p", "Area under it: ", figure("roc_auc", answer["roc_auc"])))


def _precision_recall(curve: Mapping[str, Any], answer: Mapping[str, Any]) -> Markup:
    """Return a card with precision against recall."""
    points = list(zip(curve["true_positives"], curve["false_positives"], strict=True))
    recall = [true / curve["positives"] for true, _ in points]
    precision = [true / (true + false) for true, false in points]
    plot = Plot("Precision against recall", _share("recall"), _share("precision"))
    plot.line("precision", recall, precision, "a")
    plot.values(("score from", "recall", "precision"), _rows(curve, recall, precision))
    return plot.card(
        tag("p", "Average precision: ", figure("average_precision", answer["average_precision"]))
    )


def _thresholds(answer: Mapping[str, Any]) -> Markup:
    """Return a table of thresholds from which the second class is predicted: by recall, and where F1 is largest."""
    table_rows = answer.get("thresholds")
    if not table_rows:
        return Markup("")
    names = ("predicted_positive", "precision", "recall", "f1", "false_positive_rate")
    best = max(table_rows, key=lambda row: row["f1"])
    rows = [
        (
            f"{row['threshold']:.6g}{' (largest f1)' if row is best else ''}",
            *(f"{row[name]:.4f}" for name in names),
        )
        for row in table_rows
    ]
    head = ("score from", *(name.replace("_", " ") for name in names))
    said = f"What it comes to, to predict {answer['confusion']['labels'][1]} from a score on"
    return card("Thresholds", table(head, rows, said), wide=True)


def _reliability(answer: Mapping[str, Any]) -> Markup:
    """Return how often what a probability is given to comes true."""
    if "reliability" not in answer:
        return Markup("")
    bins, labels = answer["reliability"], answer["confusion"]["labels"]
    what = f"of {labels[1]}" if len(labels) == 2 else "of the most probable class"
    plot = Plot("Reliability of probabilities", _share(f"probability {what}"), _share("share that came true"))
    plot.line("as told", (0, 1), (0, 1), "faint")
    plot.line("these rows", [b["probability"] for b in bins], [b["share"] for b in bins], "a")
    rows = [
        (f"{b['below']:.1f}", f"{b['rows']:,}", f"{b['probability']:.4f}", f"{b['share']:.4f}") for b in bins
    ]
    plot.values(("probability below", "rows", "mean probability", "share"), rows)
    losses = tag(
        "p",
        *("Log loss ", figure("log_loss", answer["log_loss"])),
        *(", Brier score ", figure("brier_score", answer["brier_score"])),
    )
    return plot.card(losses)


def _share(label: str) -> Axis:
    return Axis(label, 0.0, 1.0)


def _rows(curve: Mapping[str, Any], *columns: Sequence[float]) -> list[tuple[str, ...]]:
    thresholds = (f"{threshold:.6g}" for threshold in curve["threshold"])
    return [
        (first, *(f"{value:.4f}" for value in rest))
        for first, *rest in zip(thresholds, *columns, strict=True)
    ]
