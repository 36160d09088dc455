"""The referee: the objective of a model, computed from its file and the data's text by the harness's own code.

What is minimised is said in ``tools.bench.row_losses``: by default the hinge, one problem for two classes (y = +1
for the larger label), one per class (against the rest) for more. Nothing here is shared with any contestant's code;
sums are float64.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tools.bench.models import Linear
from tools.bench.row_losses import ONE_CLASS, Objective

CHUNK_BYTES = 32 << 20
_BYTES_PER_VALUE, _BYTES_PER_ROW = (
    3,
    1,
)  # the least that a value (" 1:", then its value) and a row take in text


@dataclass(frozen=True)
class Rows:
    """Some rows: CSR with the column numbers as the file has them, labels float64."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    data: NDArray[np.float64]
    labels: NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """primal: the objective, all problems together. accuracy: share of rows labelled right, 0 where
    labels are numbers."""

    primal: float
    accuracy: float
    rows: int


def evaluate(model: Linear, path: str | os.PathLike[str], objective: Objective) -> Evaluation:
    """Objective and accuracy of ``model`` over the svmlight file ``path``."""
    weights = np.ascontiguousarray(model.coef.T)
    cost, right, rows = 0.0, 0, 0
    for part in read_rows(path):
        scores = np.zeros((len(part.labels), weights.shape[1])) + model.intercept
        _add_scores(part.indptr, part.indices, part.data, weights, scores)
        cost += objective.costs(scores, part.labels, model.classes)
        if len(model.classes) > 1 and objective.loss != ONE_CLASS:
            guess = guesses(scores, model.classes, objective.multiclass)
            right += int(np.count_nonzero(guess == part.labels))
        rows += len(part.labels)
    penalty = objective.constant_term(model.coef, model.intercept, rows)
    return Evaluation(penalty + objective.C * cost, right / max(rows, 1), rows)


def guesses(
    scores: NDArray[np.float64], classes: NDArray[np.float64], multiclass: str
) -> NDArray[np.float64]:
    """The class of each row: by the sign of a single score, by votes of pairs, or of the largest score."""
    if scores.shape[1] == 1:
        return classes[(scores[:, 0] > 0).astype(int)]
    if multiclass == "ovo":
        votes = np.zeros((len(scores), len(classes)))
        for p, (i, j) in enumerate(combinations(range(len(classes)), 2)):
            votes[:, i] += scores[:, p] > 0
            votes[:, j] += scores[:, p] <= 0
        scores = votes
    return classes[np.argmax(scores, axis=1)]


def read_rows(path: str | os.PathLike[str], chunk_bytes: int = CHUNK_BYTES) -> Iterator[Rows]:
    """The rows of an svmlight file without comments, some at a time. Raises ValueError for anything else."""
    rest = b""
    with open(path, "rb") as file:
        while True:
            fresh = file.read(chunk_bytes)
            text = rest + fresh
            cut = text.rfind(b"\n") + 1 if fresh else len(text)
            rest = text[cut:]
            if cut:
                yield _parse_rows(text[:cut], os.fspath(path))
            if not fresh:
                return


def _parse_rows(text: bytes, path: str) -> Rows:
    buffer = np.frombuffer(text if text.endswith(b"\n") else text + b"\n", np.uint8)
    n_rows = int(np.count_nonzero(buffer == 10))
    n_values = int(np.count_nonzero(buffer == 58))
    indptr = np.zeros(n_rows + 1, np.int64)
    indices, data = np.empty(n_values, np.int64), np.empty(n_values)
    labels = np.empty(n_rows)
    rows = _parse(buffer, indptr, indices, data, labels)
    if rows < 0:
        line = bytes(buffer[-rows - 1 : -rows + 60]).split(b"\n")[0].decode(errors="replace")
        raise ValueError(f"{path}: the benchmark's reader cannot read {line!r}")
    return Rows(indptr[: rows + 1], indices[: indptr[rows]], data[: indptr[rows]], labels[:rows])


@njit(cache=True)
def _number(buffer, at):  # type: ignore[no-untyped-def]
    """The decimal number at ``at``; returns it and the position behind it, -1 where there is none."""
    sign, value, scale, digits = 1.0, 0.0, 0, 0
    if buffer[at] == 45:
        sign = -1.0
        at += 1
    elif buffer[at] == 43:
        at += 1
    while 48 <= buffer[at] <= 57:
        value = value * 10.0 + (buffer[at] - 48)
        digits += 1
        at += 1
    if buffer[at] == 46:
        at += 1
        while 48 <= buffer[at] <= 57:
            if value < 1e17:  # more digits say nothing in float64
                value = value * 10.0 + (buffer[at] - 48)
                scale -= 1
            digits += 1
            at += 1
    if digits == 0:
        return 0.0, -1
    if buffer[at] == 101 or buffer[at] == 69:
        at += 1
        down = buffer[at] == 45
        if down or buffer[at] == 43:
            at += 1
        exponent = 0
        while 48 <= buffer[at] <= 57:
            exponent = exponent * 10 + (buffer[at] - 48)
            at += 1
        scale += -exponent if down else exponent
    if scale < 0:
        value = value / 10.0**-scale if scale > -300 else 0.0
    elif scale > 0:
        value *= 10.0**scale
    return sign * value, at


@njit(cache=True)
def _parse(buffer, indptr, indices, data, labels):  # type: ignore[no-untyped-def]
    """Fills the arrays; returns how many rows, or -1 - the position of what it cannot read."""
    at, row, n = 0, 0, 0
    while at < len(buffer):
        if buffer[at] == 10 or buffer[at] == 13:
            at += 1
            continue
        start = at
        labels[row], at = _number(buffer, at)
        if at < 0:
            return -1 - start
        while buffer[at] != 10:
            if buffer[at] == 32 or buffer[at] == 9 or buffer[at] == 13:
                at += 1
                continue
            column = 0
            first = at
            while 48 <= buffer[at] <= 57:
                column = column * 10 + (buffer[at] - 48)
                at += 1
            if at == first or buffer[at] != 58:
                return -1 - start
            indices[n] = column
            data[n], at = _number(buffer, at + 1)
            if at < 0:
                return -1 - start
            n += 1
        row += 1
        indptr[row] = n
    return row


@njit(cache=True)
def _add_scores(indptr, indices, data, weights, scores):  # type: ignore[no-untyped-def]
    """scores (n, k) += X weights, with weights (columns, k); columns beyond the model weigh nothing."""
    columns, k = weights.shape
    for i in range(scores.shape[0]):
        for t in range(indptr[i], indptr[i + 1]):
            j = indices[t]
            if j < columns:
                for c in range(k):
                    scores[i, c] += data[t] * weights[j, c]


def survey(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Rows, values, columns (the largest number), classes and bytes of an svmlight file."""
    rows, values, columns, classes = 0, 0, 0, np.empty(0)
    for part in read_rows(path):
        rows += len(part.labels)
        values += len(part.data)
        columns = max(columns, int(part.indices.max(initial=0)))
        classes = np.union1d(classes, part.labels)
    return {
        "rows": rows,
        "values": values,
        "columns": columns,
        "classes": classes.tolist(),
        "bytes": os.path.getsize(path),
    }
