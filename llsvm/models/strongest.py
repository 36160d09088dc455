"""The features that speak most strongly for each class, by name; looked for in pieces, since a model may be as
large as memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from llsvm.models.header import TEXT
from llsvm.models.sparse import Weights, between, of_columns, of_problem
from llsvm.models.tables import namer, names_of

if TYPE_CHECKING:
    from llsvm.models.model import Model

PIECE_WEIGHTS = 1 << 20
_MAX_CLASSES = 20


def largest_weights(model: Model, count: int) -> list[dict[str, Any]]:
    """The largest in absolute value: class, feature, weight of each."""
    if model.feature_map is not None:
        return []  # they are not weights of columns
    labels = model.problem_names
    found = [(row, j, _weight(model, row, j)) for row, j in places_of_largest(model.weights, count)]
    found = [each for each in found if each[2] != 0]
    names = names_of(model, [j for _, j, _ in found])
    return [
        {"class": labels[row], "feature": name, "weight": weight}
        for (row, _, weight), name in zip(found, names, strict=True)
    ]


def _weight(model: Model, row: int, column: int) -> float:
    return float(of_columns(model.weights, row, np.array([column]))[0])


def places_of_largest(coef: Weights, count: int) -> list[tuple[int, int]]:
    """(row, column) of the largest of ``coef`` (k, d) in absolute value, in order."""
    found: list[tuple[float, int, int]] = []
    k, d = coef.shape
    step = max(1, PIECE_WEIGHTS // k)
    for start in range(0, d, step):
        piece = -np.abs(between(coef, start, min(start + step, d)))
        n = min(count, piece.size)
        rows, columns = np.divmod(np.argpartition(piece, n - 1, axis=None)[:n], piece.shape[1])
        sizes = piece[rows, columns]
        found += zip(sizes.tolist(), rows.tolist(), (columns + start).tolist(), strict=True)
        found = sorted(found)[:count]
    return [(row, column) for _, row, column in found]


def strongest(model: Model, count: int) -> list[dict[str, Any]]:
    """Of a model of text: for each class (20 at most) the features with the largest weights for it, and those
    weights; of one of two classes, weights for the other class are those against it. [] of other models."""
    if TEXT not in model.extra or model.feature_map is not None:
        return []
    names = model.problem_names
    weights = [(name, row, 1.0) for row, name in enumerate(names)][:_MAX_CLASSES]
    if len(model.classes_) == 2:
        weights.insert(0, (model.labels[0], 0, -1.0))
    found = []
    for name, row, sign in weights:
        own = sign * of_problem(model.weights, row)
        places = [j for j in _largest(own, count) if own[j] > 0]
        features = [
            {"feature": feature, "weight": float(own[j])}
            for j, feature in zip(places, names_of(model, places), strict=True)
        ]
        found.append({"class": name, "features": features})
    return found


def of_each_problem(model: Model, count: int, max_problems: int) -> list[dict[str, Any]]:
    """For each row of ``coef_``, of which the first ``max_problems``: what positive scores mean (class), and the
    features with the largest weights in absolute value, and those. [] where weights are not those of columns."""
    if model.feature_map is not None:
        return []
    k, d = model.weights.shape
    best: list[list[tuple[float, int, float]]] = [[] for _ in range(min(k, max_problems))]
    step = max(1, PIECE_WEIGHTS // k)
    for start in range(0, d, step):
        piece = between(model.weights, start, min(start + step, d))[: len(best)]
        n = min(count, piece.shape[1])
        for row, places in enumerate(np.argpartition(-np.abs(piece), n - 1, axis=1)[:, :n]):
            own = zip(places.tolist(), piece[row, places].tolist(), strict=True)
            best[row] = sorted(best[row] + [(-abs(w), start + j, w) for j, w in own if w != 0])[:count]
    named, found = namer(model), []
    for name, each in zip(model.problem_names, best, strict=False):
        features = zip(named([j for _, j, _ in each]), each, strict=True)
        found.append({"class": name, "features": [{"feature": f, "weight": w} for f, (_, _, w) in features]})
    return found


def _largest(weights: NDArray[np.float64], count: int) -> list[int]:
    count = min(count, len(weights))
    chosen = np.argpartition(-weights, count - 1)[:count] if count else np.zeros(0, np.intp)
    return [int(j) for j in chosen[np.lexsort((chosen, -weights[chosen]))]]
