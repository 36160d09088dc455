"""A model's file in ONNX."""

from __future__ import annotations

import json
import os
import warnings
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import LLSVMWarning
from llsvm.features.labels import is_text
from llsvm.files.writing import replacing
from llsvm.models.decisions import Calibration
from llsvm.models.model import Model
from llsvm.models.onnx.graph import Graph, require_onnx
from llsvm.models.onnx.rows import refuse_unsayable, scores
from llsvm.models.tables import given_names

LABEL, SCORES, PROBABILITIES, PREDICTION = "label", "scores", "probabilities", "prediction"


def write_onnx(model: Model, path: str | os.PathLike[str]) -> None:
    """Write ``model`` as ONNX (opset 17, ai.onnx.ml 3), atomically. Inputs: see ``rows``. Outputs: ``label`` (n,),
    whole numbers, other numbers or text; ``scores`` (n, 1) of two classes, above the threshold for the second, else
    (n, classes); ``probabilities`` (n, classes) where there are such; of a regression ``prediction`` (n,) alone.
    All is computed in 64-bit floats.

    A missing value that the model refuses makes the scores NaN. Warns (LLSVMWarning) of probabilities that are left
    out. Raises UsageError where the package onnx is missing, ModelError for what ONNX cannot say, and as
    ``replacing``.
    """
    require_onnx()
    refuse_unsayable(model)
    graph = Graph()
    output = scores(graph, model)
    if model.is_regression:
        flat = graph.node("Reshape", output, graph.constant(np.array([-1])))
        graph.output(PREDICTION, flat, "double")
    else:
        _classes(graph, model, output, path)
    said = graph.model(_description(model), _properties(model))
    with replacing(path) as stream:
        stream.write(said)


def _classes(graph: Graph, model: Model, output: str, path: str | os.PathLike[str]) -> None:
    of_classes = class_scores(graph, model, output)
    classes = model.classes_
    classes = np.array(model.labels) if classes.dtype == bool else classes
    kind = "text"
    if not is_text(classes):
        whole = bool(np.all(classes % 1 == 0))
        classes, kind = (classes.astype(np.int64), "whole") if whole else (classes.astype(float), "double")
    ids = class_ids(graph, model, of_classes)
    graph.output(LABEL, graph.node("Gather", graph.constant(classes), ids), kind)
    n = len(model.classes_)
    graph.output(SCORES, of_classes, "double", [1 if n == 2 else n])
    if sayable_probabilities(model):
        graph.output(PROBABILITIES, probabilities(graph, model, output), "double", [n])
    elif model.has_probabilities:
        warnings.warn(
            f"{os.fspath(path)}: probabilities of pairs (one-vs-one) come from linear equations, which ONNX does "
            "not solve: they are left out, labels and scores are there",
            LLSVMWarning,
            stacklevel=3,
        )


def _description(model: Model) -> str:
    what = "Predicts numbers" if model.is_regression else f"Classes: {', '.join(model.labels[:20])}"
    return f"A linear model by llsvm {model.version}, {model.settings.get('loss', 'hinge')} loss. {what}."


def _properties(model: Model) -> dict[str, str]:
    """Return facts for those who give it rows, as JSON."""
    facts = {"classes": model.labels, "feature_names": None, "missing": model.settings.get("missing")}
    table = model.extra.get("table")
    if table is not None:
        facts["columns"] = [[column["name"], column["kind"]] for column in table["columns"]]
        facts["missing"] = table["missing"]
    if (names := given_names(model)) is not None and len(names) <= 1000:
        facts["feature_names"] = list(names)
    if "text" in model.extra:
        facts["text"] = model.extra["text"]["options"]
    return {f"llsvm.{name}": json.dumps(value) for name, value in facts.items() if value is not None}


def class_scores(graph: Graph, model: Model, scores: str) -> str:
    """Return scores (n, 1) of two classes, else (n, classes): as ``Model.class_scores``. scores: (n, k) of
    problems."""
    if not model.one_vs_one:
        return scores
    k = len(model.classes_)
    first, second = np.zeros((k * (k - 1) // 2, k)), np.zeros((k * (k - 1) // 2, k))
    for problem, (i, j) in enumerate(combinations(range(k), 2)):
        first[problem, i] = second[problem, j] = 1.0
    won = graph.wide(graph.node("Greater", scores, graph.constant(np.array(0.0))))
    # of a pair (i, j) that i has won: e_i, else e_j
    votes = graph.node("MatMul", won, graph.constant(first - second))
    votes = graph.node("Add", votes, graph.constant(second.sum(axis=0)))
    sums = graph.node("MatMul", scores, graph.constant(first - second))
    bound = graph.node("Mul", graph.node("Abs", sums), graph.constant(np.array(2.0)))
    bound = graph.node("Add", bound, graph.constant(np.array(3.0)))
    return graph.node("Add", votes, graph.node("Div", sums, bound))


def class_ids(graph: Graph, model: Model, scores: str) -> str:
    """Return (n,) whole numbers, as ``Model.class_ids``. scores: of classes."""
    if len(model.classes_) > 2:
        return graph.node("ArgMax", scores, axis=1, keepdims=0)
    above = graph.node("Greater", scores, graph.constant(np.array(model.threshold)))
    whole = graph.node("Cast", above, to=graph.types["whole"])
    return graph.node("Reshape", whole, graph.constant(np.array([-1])))


def sayable_probabilities(model: Model) -> bool:
    """Return whether ONNX can give the probabilities: those of pairs are coupled by linear equations, which it
    does not solve."""
    return model.has_probabilities and not (
        model.one_vs_one and (model.calibration is None or model.calibration.method != "temperature")
    )


def probabilities(graph: Graph, model: Model, scores: str) -> str:
    """Return (n, classes) probabilities, as ``Model.probabilities``. scores: (n, k) of problems."""
    two = len(model.classes_) == 2
    if model.calibration is not None:
        return _calibrated(graph, model.calibration, scores, two)
    if two:
        return _of_two(graph, scores)
    if model.settings.get("multiclass") == "softmax":
        return graph.node("Softmax", scores, axis=1)
    # logarithms of sigmoids, as a sum of them may be 0: min(s, 0) − ln(1 + e^−|s|)
    small = graph.node("Exp", graph.node("Neg", graph.node("Abs", scores)))
    more = graph.node("Log", graph.node("Add", small, graph.constant(np.array(1.0))))
    logarithms = graph.node("Sub", graph.node("Min", scores, graph.constant(np.array(0.0))), more)
    return graph.node("Softmax", logarithms, axis=1)


def _of_two(graph: Graph, scores: str) -> str:
    return graph.node(
        "Concat", graph.node("Sigmoid", graph.node("Neg", scores)), graph.node("Sigmoid", scores), axis=1
    )


def _calibrated(graph: Graph, calibration: Calibration, scores: str, two: bool) -> str:
    if calibration.method == "temperature":
        scores = graph.node("Mul", scores, graph.constant(np.array(calibration.slopes[0])))
        return _of_two(graph, scores) if two else graph.node("Softmax", scores, axis=1)
    if calibration.method == "platt":
        z = graph.node("Mul", scores, graph.constant(np.array(calibration.slopes)))
        z = graph.node("Add", z, graph.constant(np.array(calibration.offsets)))
        if two:
            return _of_two(graph, z)
        wins = graph.node("Sigmoid", z)
    else:
        assert calibration.knots is not None
        ends = [0, *calibration.ends]
        parts = [
            _between_knots(graph, _column(graph, scores, c), calibration.knots[first:end])
            for c, (first, end) in enumerate(pairwise(ends))
        ]
        wins = parts[0] if len(parts) == 1 else graph.node("Concat", *parts, axis=1)
        if two:
            one = graph.constant(np.array(1.0))
            return graph.node("Concat", graph.node("Sub", one, wins), wins, axis=1)
    sums = graph.sum(wins)
    there = graph.node("Greater", sums, graph.constant(np.array(0.0)))
    k = len(calibration.ends) or len(calibration.slopes)
    shares = graph.node("Where", there, wins, graph.constant(np.ones((1, k))))  # all the same where none wins
    whole = graph.node("Where", there, sums, graph.constant(np.array(float(k))))
    return graph.node("Div", shares, whole)


def _column(graph: Graph, scores: str, number: int) -> str:
    """Return a column as (n, 1)."""
    return graph.node("Gather", scores, graph.constant(np.array([number])), axis=1)


def _between_knots(graph: Graph, score: str, knots: NDArray[np.float64]) -> str:
    """Return (n, 1) values on straight lines between ``knots`` (m, 2), beyond them the first and the last value.
    Each stretch adds what its line rises by as far as the score has gone along it; one without length adds its
    rise at once."""
    x, y = knots.T
    value = graph.constant(y[:1].reshape(1, 1))
    long, jump = np.diff(x) > 0, np.diff(x) == 0
    parts = []
    if long.any():
        begin, length = x[:-1][long], np.diff(x)[long]
        gone = graph.node("Sub", score, graph.constant(begin))
        gone = graph.node("Max", gone, graph.constant(np.array(0.0)))
        gone = graph.node("Min", gone, graph.constant(length))
        parts.append(graph.node("MatMul", gone, graph.constant((np.diff(y)[long] / length).reshape(-1, 1))))
    if jump.any():
        past = graph.wide(graph.node("GreaterOrEqual", score, graph.constant(x[:-1][jump])))
        parts.append(graph.node("MatMul", past, graph.constant(np.diff(y)[jump].reshape(-1, 1))))
    if not parts:  # one knot: the same for every row
        nothing = graph.node("Mul", score, graph.constant(np.array(0.0)))
        return graph.node("Add", nothing, value)
    for part in parts:
        value = graph.node("Add", part, value)
    return value
