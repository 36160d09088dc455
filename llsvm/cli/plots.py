"""Pictures, drawn with matplotlib, which is loaded only here: the extra ``plots`` brings it."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from llsvm.errors import UsageError
from llsvm.files.writing import replacing
from llsvm.tuning.grid import said_of, told_apart

if TYPE_CHECKING:
    from llsvm.scoring.figures import Evaluation

_FORMATS = ("png", "svg", "pdf")
_NUMBERED = 25  # up to so many classes, cells show their counts;
_NAMED = 40  # at most so many classes are named
_GAMMA = 0.4  # of the colours
_BIN = 0.1  # wide, of probabilities


def require_matplotlib() -> None:
    """Raise UsageError, with the remedy, where matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib, which is not installed: pip install 'llsvm[plots]'")


def check_picture(path: str) -> None:
    """Raise UsageError unless a picture can be drawn and the name says of which kind."""
    require_matplotlib()
    if _kind(path) not in _FORMATS:
        raise UsageError(f"--plot {path}: the name must end in {', '.join('.' + f for f in _FORMATS)}")


def _kind(path: str) -> str:
    return os.path.splitext(path)[1].lstrip(".").lower()


def draw_evaluation(answer: Evaluation, path: str) -> None:
    """Draw the confusion matrix of an evaluation (``llsvm.evaluate``), and beside it how reliable probabilities are
    where there are some, to ``path``, atomically. Raises UsageError where the ending is not .png, .svg or .pdf.
    """
    check_picture(path)
    from matplotlib.figure import Figure

    side = min(max(4.0, 0.45 * len(answer["confusion"]["labels"]) + 2), 14.0)
    reliable = "reliability" in answer
    figure = Figure(figsize=((side + 1) * (1 + reliable), side), layout="constrained")
    if reliable:
        parts: Any = figure.subfigures(1, 2)
        _confusion(parts[0], answer)
        _reliability(parts[1], answer)
    else:
        _confusion(figure, answer)
    with replacing(path) as stream:
        figure.savefig(stream, format=_kind(path))


def _confusion(figure: Any, answer: Evaluation) -> None:
    """Draw a row per true class, a column per predicted one; the color is the share of the true class."""
    from matplotlib.colors import PowerNorm

    labels, counts = answer["confusion"]["labels"], np.array(answer["confusion"]["counts"])
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes = figure.subplots()
    # errors are a few per cent of a class: on a linear scale they would be white
    image = axes.imshow(share, cmap="Blues", norm=PowerNorm(_GAMMA, 0, 1))
    axes.set(xlabel="predicted", ylabel="true", title=f"accuracy {answer['accuracy']:.2%}")
    if len(labels) <= _NUMBERED:
        for i, j in np.argwhere(counts):
            colour = "white" if share[i, j] ** _GAMMA > 0.6 else "black"
            axes.text(j, i, str(counts[i, j]), ha="center", va="center", color=colour, fontsize=7)
    named = range(0, len(labels), -(-len(labels) // _NAMED))
    axes.set_xticks(named, [labels[i] for i in named], rotation=90)
    axes.set_yticks(named, [labels[i] for i in named])
    figure.colorbar(image, label="share of the true class", ticks=[0, 0.01, 0.05, 0.2, 0.5, 1])


def _reliability(figure: Any, answer: Evaluation) -> None:
    """Draw how often predictions come true, by their probability; below it, how many rows have such a
    probability."""
    bins, labels = answer["reliability"], answer["confusion"]["labels"]
    xlabel = f"probability of {labels[1]}" if len(labels) == 2 else "probability of the most probable class"
    curve, rows = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    curve.plot((0, 1), (0, 1), color="grey", linewidth=1, linestyle="--", label="as told")
    curve.plot([b["probability"] for b in bins], [b["share"] for b in bins], marker="o", label="these rows")
    title = f"log loss {answer['log_loss']:.4f}, Brier score {answer['brier_score']:.4f}"
    curve.set(xlim=(0, 1), ylim=(-0.02, 1.02), ylabel="share for which it is true", title=title)
    curve.legend()
    rows.bar([b["below"] - _BIN / 2 for b in bins], [b["rows"] for b in bins], width=0.9 * _BIN, log=True)
    rows.set(xlabel=xlabel, ylabel="rows")


def draw_search(search: dict[str, Any], path: str) -> None:
    """Draw the mean score of each C of a search (what ``llsvm tune --json`` has), with its standard deviation over
    the folds, to ``path``, atomically: of each loss, penalty and class weights that were tried, or of one with the
    scores of each fold. Raises UsageError as ``draw_evaluation``."""
    check_picture(path)
    from matplotlib.figure import Figure

    lines = _lines_of(search["table"])
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    if len(lines) == 1 and not search["race"]:
        table = search["table"]
        for number, scores in enumerate(zip(*(row["scores"] for row in table), strict=True)):
            label = "a fold" if number == 0 and len(table[0]["scores"]) > 1 else None
            costs = [row["C"] for row in table]
            axes.plot(costs, scores, color="grey", linewidth=0.8, alpha=0.5, label=label)
    for name, rows in lines.items():
        spreads = [row["spread"] or 0.0 for row in rows]
        bars: dict[str, Any] = {"yerr": spreads, "capsize": 4} if any(spreads) else {}
        spread_label = "mean, and standard deviation over the folds" if any(spreads) else "held-out rows"
        means = [row["mean"] for row in rows]
        axes.errorbar([row["C"] for row in rows], means, marker="o", label=name or spread_label, **bars)
    best = search["best"]
    details = ", ".join(said_of(each, best[each]) for each in told_apart(search["table"]))
    best_label = f"chosen: C = {best['C']:g}" + (f", {details}" if details else "")
    axes.axvline(best["C"], color="tab:orange", linestyle="--", label=best_label)
    axes.set(xscale="log", xlabel="C", ylabel=search["score"].replace("_", " "))
    axes.legend()
    with replacing(path) as stream:
        figure.savefig(stream, format=_kind(path))


def _lines_of(table: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each loss, penalty and class weights, but those that were dropped, by what sets it
    apart."""
    apart = told_apart(table)
    lines: dict[str, list[dict[str, Any]]] = {}
    for row in table:
        rows = lines.setdefault(", ".join(said_of(name, row[name]) for name in apart), [])
        if not row["dropped"]:
            rows.append(row)
    return {name: rows for name, rows in lines.items() if rows}
