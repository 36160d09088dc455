"""A model's file in ONNX."""

from __future__ import annotations

import json
import os
import warnings

import numpy as np

from llsvm.errors import LLSVMWarning
from llsvm.features.labels import is_text
from llsvm.files.writing import replacing
from llsvm.models.model import Model
from llsvm.models.onnx.answers import class_ids, class_scores, probabilities, sayable_probabilities
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
