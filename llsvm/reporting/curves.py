"""Scores of rows: how they are spread, what thresholds come to, how reliable probabilities are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llsvm.models.markup import Markup, card, figure, table, tag
from llsvm.reporting.axis import Axis, axis_of
from llsvm.reporting.plot import Plot


def scores(shapes: Mapping[str, Any], labels: Sequence[str], threshold: float = 0.0) -> Markup:
    """Return histograms of scores for each of ``labels``, the classes or whatever else the series are.
    threshold: above which rows are predicted as the second class."""
    if "scores" not in shapes:
        return Markup("")
    said = "Distribution of the scores" + (
        f": above {threshold:.6g} speaks for {labels[1]}" if len(labels) == 2 else ""
    )
    of_each = dict(zip(labels, ("b", "a") if len(labels) == 2 else ("a",), strict=True))
    return histogram(shapes["scores"], said, "score", of_each)


def leads(shapes: Mapping[str, Any]) -> Markup:
    """Return a histogram of how much the predicted class leads."""
    if "leads" not in shapes:
        return Markup("")
    said = "By how much the score of the predicted class leads that of the next"
    return histogram(shapes["leads"], said, "lead", {"rightly predicted": "a", "wrongly predicted": "b"})


def histogram(found: Mapping[str, Any], said: str, label: str, names: Mapping[str, str]) -> Markup:
    """Return a card with a histogram, see ``llsvm.scoring.metrics``. names: of each series, with their kinds."""
    edges, counts = found["edges"][0], found["counts"]
    top = max(max(each) for each in counts)
    plot = Plot(said, axis_of(label, edges), axis_of("rows", (top,), zero=True))
    for (name, kind), heights in zip(names.items(), counts, strict=True):
        plot.bars(name, edges, heights, kind)
    head = (f"{label} from", "to", *(f"rows, {name}" for name in names))
    plot.values(
        head,
        [(f"{a:.6g}", f"{b:.6g}", *rows) for a, b, *rows in zip(edges, edges[1:], *counts, strict=False)],
    )
    return card(said, plot.draw())


def roc(answer: Mapping[str, Any]) -> Markup:
    """True against false positives."""
    curve = answer.get("shapes", {}).get("curve")
    if curve is None:
        return Markup("")
    false = [0.0, *(each / curve["others"] for each in curve["false_positives"])]
    true = [0.0, *(each / curve["positives"] for each in curve["true_positives"])]
    plot = Plot("ROC curve", _share("false positive rate"), _share("true positive rate"))
    plot.line("", (0, 1), (0, 1), "faint")
    plot.line("true positive rate", false, true, "a")
    plot.values(
        ("score from", "false positive rate", "true positive rate"), _rows(curve, false[1:], true[1:])
    )
    area = tag("p", "Area under it: ", figure("roc_auc", answer["roc_auc"]))
    return card("ROC curve", plot.draw(), area)


def precision_recall(answer: Mapping[str, Any]) -> Markup:
    """Precision against recall."""
    curve = answer.get("shapes", {}).get("curve")
    if curve is None:
        return Markup("")
    points = list(zip(curve["true_positives"], curve["false_positives"], strict=True))
    recall = [true / curve["positives"] for true, _ in points]
    precision = [true / (true + false) for true, false in points]
    plot = Plot("Precision against recall", _share("recall"), _share("precision"))
    plot.line("precision", recall, precision, "a")
    plot.values(("score from", "recall", "precision"), _rows(curve, recall, precision))
    area = tag("p", "Average precision: ", figure("average_precision", answer["average_precision"]))
    return card("Precision against recall", plot.draw(), area)


def thresholds(answer: Mapping[str, Any]) -> Markup:
    """Return a table of thresholds from which the second class is predicted: by recall, and where F1 is largest."""
    table_rows = answer.get("thresholds")
    if not table_rows:
        return Markup("")
    names = ("predicted_positive", "precision", "recall", "f1", "false_positive_rate")
    best = max(table_rows, key=lambda each: each["f1"])
    rows = [
        (
            f"{each['threshold']:.6g}{' (largest f1)' if each is best else ''}",
            *(f"{each[name]:.4f}" for name in names),
        )
        for each in table_rows
    ]
    head = ("score from", *(name.replace("_", " ") for name in names))
    said = f"What it comes to, to predict {answer['confusion']['labels'][1]} from a score on"
    return card("Thresholds", table(head, rows, said), wide=True)


def reliability(answer: Mapping[str, Any]) -> Markup:
    """Return how often what a probability is given to comes true."""
    if "reliability" not in answer:
        return Markup("")
    bins, labels = answer["reliability"], answer["confusion"]["labels"]
    what = f"of {labels[1]}" if len(labels) == 2 else "of the most probable class"
    plot = Plot("Reliability of probabilities", _share(f"probability {what}"), _share("share that came true"))
    plot.line("as told", (0, 1), (0, 1), "faint")
    plot.line("these rows", [each["probability"] for each in bins], [each["share"] for each in bins], "a")
    rows = [
        (f"{b['below']:.1f}", f"{b['rows']:,}", f"{b['probability']:.4f}", f"{b['share']:.4f}") for b in bins
    ]
    plot.values(("probability below", "rows", "mean probability", "share"), rows)
    losses = tag(
        "p",
        *("Log loss ", figure("log_loss", answer["log_loss"])),
        *(", Brier score ", figure("brier_score", answer["brier_score"])),
    )
    return card("Reliability of probabilities", plot.draw(), losses)


def _share(label: str) -> Axis:
    return Axis(label, 0.0, 1.0)


def _rows(curve: Mapping[str, Any], *columns: Sequence[float]) -> list[tuple[str, ...]]:
    thresholds = (f"{each:.6g}" for each in curve["threshold"])
    return [
        (first, *(f"{each:.4f}" for each in rest)) for first, *rest in zip(thresholds, *columns, strict=True)
    ]
