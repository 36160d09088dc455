"""Why a row has its score: what each of its features adds to it, and the intercept.

A number adds its weight times what it is above the mean of its column, where training has learned that: the
intercept is then the score of a row of means. Else, and of n-grams and categories, it is weight times value.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix
from llsvm.data.source import BlockSource
from llsvm.errors import ModelError
from llsvm.models.header import MEAN
from llsvm.models.model import Model
from llsvm.models.record import label_text
from llsvm.models.sparse import Weights, of_columns
from llsvm.models.tables import CENTER, intercept_of, namer
from llsvm.scoring.predictions import column_base, score_blocks
from llsvm.scoring.room import max_block_bytes, row_bytes

INTERCEPT = "(intercept)"
DEFAULT_TOP = 10
COLUMNS = ("row", "prediction", "of", "score", "feature", "value", "weight", "contribution", "mean")
_LINE_BYTES = 600  # of a contribution, as an object and as text
_NAMES_TOGETHER = 4096  # contributions whose names are looked up at once


def explain_rows(
    model: Model,
    source: BlockSource,
    *,
    top: int = DEFAULT_TOP,
    all_scores: bool = False,
    memory_limit: str | int | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield for each row of ``source``, in order, what its scores are made of; see ``llsvm.explain``.

    model: a linear one, see ``require_linear``. top: number of contributions of each score, the largest in absolute
    value; of the others their sum. Raises as ``predict_file``.
    """
    names, problems = namer(model), model.problem_names
    each_bytes = row_bytes(model, _LINE_BYTES * (top + 2) * (model.n_problems if all_scores else 1))
    grow = partial(max_block_bytes, model, source, memory_limit, {"contributions of a row": each_bytes})
    prepare, base, n_rows, origin = model.preparer(), column_base(model, source), 0, _origin(model)
    intercepts = _intercepts(model, origin)
    for block, scores in score_blocks(model, source, grow(), each_bytes, grow):
        X, predicted = prepare(block.X, base), model.predictions(scores)
        if predicted.dtype.kind in "mM":
            predicted = np.array(model.labels)[model.class_ids(scores)]  # JSON has text for them
        written = _written_as(block.X)
        step = max(1, _NAMES_TOGETHER // (top + 1))
        for start in range(0, len(scores), step):
            rows = [
                [
                    _largest(model.weights, p, *_row(X, i, base, len(origin.mean)), origin, top)
                    for p in _explained_problems(model, scores[i : i + 1], all_scores)
                ]
                for i in range(start, min(start + step, len(scores)))
            ]
            feature_names = _names(names, rows)
            for i, parts in enumerate(rows, start):
                explanations = [
                    _score(
                        problems[p.problem],
                        scores[i, p.problem],
                        intercepts[p.problem],
                        p,
                        feature_names,
                        written,
                    )
                    for p in parts
                ]
                yield {"row": n_rows + i + 1, "prediction": predicted[i].item(), "scores": explanations}
        n_rows += len(scores)


def require_linear(model: Model) -> None:
    """Raise ModelError for a model whose scores are no sums over columns."""
    if model.feature_map is not None:
        how = "of a kernel" if model.feature_map.kind == "kernel" else "on a feature map"
        raise ModelError(
            f"a model {how} cannot be explained: its scores are no sums over the columns of the data; train a "
            "linear one, without --kernel and --feature-map"
        )


def _explained_problems(model: Model, scores: NDArray[np.float64], all_scores: bool) -> Sequence[int]:
    """Return the scores of a row to explain, positions among the model's problems: of the predicted class, or all.

    scores: (1, k) of the row."""
    if all_scores or model.n_problems == 1:
        return range(model.n_problems)
    predicted = int(model.class_ids(scores)[0])
    if not model.one_vs_one:
        return [predicted]
    k = len(model.classes_)
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    return [number for number, pair in enumerate(pairs) if predicted in pair]


class _Origin(NamedTuple):
    """The point from which values are counted. mean: (m,) of the first m columns, as training has learned them;
    rest: (m,) what of it has not been taken off rows that are prepared; taken: (d,) what has, or None."""

    mean: NDArray[np.float64]
    rest: NDArray[np.float64]
    taken: NDArray[np.float64] | None


def _origin(model: Model) -> _Origin:
    """Return the origin of a model, without means if those that it has are damaged."""
    mean: Any = model.extra.get(MEAN)
    taken: Any = model.extra.get(CENTER)
    known = isinstance(mean, np.ndarray) and mean.dtype == np.float64 and mean.ndim == 1
    if not known or len(mean) > model.weights.shape[1] or not np.isfinite(mean).all():
        mean = np.zeros(0)
    return _Origin(mean, mean if taken is None else mean - taken[: len(mean)], taken)


def _intercepts(model: Model, origin: _Origin) -> NDArray[np.float64]:
    """Return (k,) scores of a row at the origin."""
    first = np.arange(len(origin.mean))
    moved = [of_columns(model.weights, p, first) @ origin.rest for p in range(model.n_problems)]
    return intercept_of(model) + np.array(moved)


def _row(X: Matrix, i: int, base: int, m: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return columns from 0, and values, of row i, the first m of them even where they are 0."""
    if isinstance(X, CSR):
        span = slice(int(X.indptr[i]), int(X.indptr[i + 1]))
        columns, values = X.indices[span].astype(np.int64) - base, X.data[span].astype(np.float64)
        numbers = np.zeros(m)
        numbers[columns[columns < m]] = values[columns < m]
        rest = columns >= m
        return np.concatenate([np.arange(m), columns[rest]]), np.concatenate([numbers, values[rest]])
    return np.arange(X.shape[1]), np.asarray(X[i], np.float64)


class _Part(NamedTuple):
    """The contributions to a score. problem: whose score. columns, values, weights, products, means (0 of columns
    that are counted from 0): of the largest contributions, in order. n_others: how many other features there are.
    others: the sum of their contributions."""

    problem: int
    columns: NDArray[np.int64]
    values: NDArray[np.float64]
    weights: NDArray[np.float64]
    products: NDArray[np.float64]
    means: NDArray[np.float64]
    n_others: int
    others: float


def _largest(
    coef: Weights,
    problem: int,
    columns: NDArray[np.int64],
    values: NDArray[np.float64],
    origin: _Origin,
    top: int,
) -> _Part:
    """Return what a score of a row is made of."""
    known = (columns >= 0) & (columns < coef.shape[1])
    columns, values = columns[known], values[known]
    weights = of_columns(coef, problem, columns)
    m = len(origin.mean)
    counted, means = columns < m, np.zeros(len(columns))
    means[counted] = origin.mean[columns[counted]]
    above = values.copy()
    above[counted] -= origin.rest[columns[counted]]
    products = weights * above
    values = values if origin.taken is None else values + origin.taken[columns]
    order = np.lexsort((columns, -np.abs(products)))
    order = order[: np.count_nonzero(products)]  # what adds nothing is last
    first, rest = order[:top], order[top:]
    return _Part(
        problem,
        columns[first],
        values[first],
        weights[first],
        products[first],
        means[first],
        len(rest),
        float(products[rest].sum()),
    )


def _names(names: Callable[[Sequence[int]], list[str]], rows: list[list[_Part]]) -> dict[int, str]:
    columns = sorted({int(j) for parts in rows for part in parts for j in part.columns})
    return dict(zip(columns, names(columns), strict=True))


def _written_as(X: Matrix) -> Callable[[float], float]:
    """Return a function that makes values of rows what users have written: a 32-bit float 0.1 has other digits as a
    64-bit one."""
    single = (X.data if isinstance(X, CSR) else X).dtype == np.float32
    return (lambda value: float(str(np.float32(value)))) if single else float


def _score(
    of: str,
    score: float,
    intercept: float,
    part: _Part,
    names: dict[int, str],
    written: Callable[[float], float],
) -> dict[str, Any]:
    """Return what explains a score, plain values. written: see ``_written_as``."""
    values = np.array([written(value) for value in part.values.tolist()])
    arrays = (part.columns, values, part.weights, part.products, part.means)
    cells = zip(*(array.tolist() for array in arrays), strict=True)
    return {
        "of": of,
        "score": float(score),
        "intercept": float(intercept),
        "contributions": [
            {"feature": names[j], "value": value, "weight": weight, "contribution": product, "mean": mean}
            for j, value, weight, product, mean in cells
        ],
        "other_features": part.n_others,
        "other_contributions": part.others,
    }


def write_table(rows: Iterator[dict[str, Any]], out: TextIO, delimiter: str) -> None:
    """Write a line for each contribution, under a line of names; rows are numbered from 1."""
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        for score in row["scores"]:
            head = [row["row"], label_text(row["prediction"]), score["of"], repr(score["score"])]
            for each in score["contributions"]:
                numbers = [repr(each[name]) for name in ("value", "weight", "contribution", "mean")]
                writer.writerow([*head, each["feature"], *numbers])
            if score["other_features"]:
                others = f"({score['other_features']:,} other features)"
                writer.writerow([*head, others, "", "", repr(score["other_contributions"]), ""])
            writer.writerow([*head, INTERCEPT, "1.0", *[repr(score["intercept"])] * 2, ""])


def write_json(rows: Iterator[dict[str, Any]], out: TextIO) -> None:
    """Write an object a line; rows are numbered from 1."""
    for row in rows:
        out.write(json.dumps(row, ensure_ascii=False) + "\n")
