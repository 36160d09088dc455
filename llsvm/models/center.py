"""Columns whose values differ in their last digits only: scores take a number off these values first.

A score is w·(x − center) + at_center. Of w·x + b, which is the same in exact numbers, such columns would leave
noise: both terms are many times larger than their sum. ``extra`` of a model has both arrays where there are such
columns; ``center`` is 0 for the others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix
from llsvm.errors import ModelError
from llsvm.features.csr_rows import beside, from_cells
from llsvm.models.record import ModelRecord

CENTER, AT_CENTER = "center", "at_center"  # (n_features,) and (k,) float64
CENTERED = "centered"  # there are such: older packages, which would not know, refuse the model


def check(model: ModelRecord) -> None:
    """Raise ModelError where the arrays do not fit the weights."""
    for name, n in ((CENTER, model.weights.shape[1]), (AT_CENTER, len(model.intercept_))):
        array = model.extra.get(name)
        expected = CENTERED in model.extra or CENTER in model.extra
        if expected and (
            not isinstance(array, np.ndarray) or array.shape != (n,) or array.dtype != np.float64
        ):
            raise ModelError(f"{name} does not fit weights of shape {model.weights.shape}")


def intercept_of(model: ModelRecord) -> NDArray[np.float64]:
    """Return (k,) numbers that are added to the weights' sum over rows that ``centered`` has made."""
    return np.asarray(model.extra.get(AT_CENTER, model.intercept_), np.float64)


def centered(X: Matrix, center: NDArray[np.float64], base: int) -> Matrix:
    """Return a copy of the rows, less the center. base: the number of the first column."""
    moved = np.flatnonzero(center)
    if not isinstance(X, CSR):
        wide = np.zeros((len(X), max(X.shape[1], base + len(center))))
        wide[:, : X.shape[1]] = X
        wide[:, moved + base] -= center[moved]
        return wide
    begin, end = int(X.indptr[0]), int(X.indptr[-1])
    indices, data = X.indices[begin:end], X.data[begin:end].astype(np.float64)
    n, without = len(X.indptr) - 1, list[NDArray[np.intp]]()
    row = np.repeat(np.arange(n), np.diff(X.indptr))
    for column in moved:
        in_column = indices == column + base
        data[in_column] -= center[column]
        without.append(np.setdiff1d(np.arange(n), row[in_column]))  # they have a 0 there
    X = CSR(X.indptr - begin, indices, data)
    lengths = [len(rows) for rows in without]
    if not any(lengths):
        return X
    columns, zeros = np.repeat(moved, lengths), np.concatenate(without)
    return beside([X, from_cells(zeros, columns + base, -center[columns], n)])


def first_name(model: ModelRecord) -> str:
    """Return the first such column, in words."""
    from llsvm.models.tables import namer

    return f"column {namer(model)([int(np.flatnonzero(model.extra[CENTER])[0])])[0]}"
