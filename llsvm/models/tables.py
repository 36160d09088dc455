"""Columns that a model was trained on: their encoder's values, the features' names, and what scores take off them.

Scores take a number off the values of columns that differ in their last digits only: a score is
w·(x − center) + at_center. Of w·x + b, which is the same in exact numbers, such columns would leave noise: both
terms are many times larger than their sum. ``extra`` of a model has both arrays where there are such columns;
``center`` is 0 for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix, beside, from_cells
from llsvm.errors import ModelError
from llsvm.features.column import LISTS
from llsvm.features.frames import as_frame, as_rows, is_frame
from llsvm.models.header import CLASS_NAMES, CROSSES, TEXT
from llsvm.models.record import ModelRecord


def table_of(extra: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the values for TableEncoder.from_dict; None for a model that was not trained on a table. Raises
    ModelError where a vocabulary is damaged.

    extra: of the model."""
    if "table" not in extra:
        return None
    table = dict(extra["table"])
    if CROSSES in extra:
        from llsvm.features.crosses import Crosses

        table["crosses"] = Crosses.from_extra(extra)
    if TEXT in extra:
        from llsvm.features.text.vectorizer import DocumentColumns

        table["documents"] = DocumentColumns.from_extra(extra)
    return table


def drops_unlabelled(model: ModelRecord) -> bool:
    """Return whether rows without a label are left out, as those of the table that the model was trained on
    were."""
    return "table" in model.extra and model.settings.get("missing_label") == "drop"


def table_columns(extra: Mapping[str, Any]) -> list[str]:
    """Return the columns of the table that a model was trained on; none where it was no table. extra: of the
    model."""
    return [column["name"] for column in extra.get("table", {}).get("columns", ())]


def only_text(extra: Mapping[str, Any]) -> str | None:
    """Return the column that a model was trained on, where that is text, and the only one. extra: of the model."""
    columns = extra.get("table", {}).get("columns", ())
    return columns[0]["name"] if [column["kind"] for column in columns] == ["document"] else None


def means_of(extra: Mapping[str, Any]) -> NDArray[np.float64] | None:
    """Return (n,) what replaces missing values of the first n features, 0 of others; None of a model that
    refuses them, or takes them for 0. extra: of the model."""
    table = extra.get("table")
    if table is None or table["missing"] != "mean":
        return extra.get("fill")
    numbers = [column for column in table["columns"] if column["kind"] in ("number", "vector")]
    return np.repeat(
        [table["fill"].get(column["name"], 0.0) for column in numbers],
        [column["width"] for column in numbers],
    )


def rows_for(extra: Mapping[str, Any], X: Any) -> Any:
    """Return X with rows and columns: see ``as_rows``; documents (``as_frame``), where a model was trained on
    nothing else. extra: of the model. Raises ModelError, DataError."""
    column = only_text(extra)
    if column is None or is_frame(X):
        return as_rows(X)
    holds_numbers = hasattr(X, "shape") and len(X.shape) == 2 and X.dtype.kind not in "OSU"
    return as_rows(X) if holds_numbers else as_frame(X, column)


def column_names_of(model: ModelRecord) -> Sequence[str] | None:
    """Return the columns that a model was trained on, by name: of a table, but for one of lists, its own, of
    which a column may be many features."""
    columns = model.extra.get("table", {}).get("columns", ())
    lists = any(column["kind"] in LISTS for column in columns)
    return given_names(model) if lists or not columns else table_columns(model.extra)


def trained_classes(model: ModelRecord) -> NDArray[Any]:
    """Return (n_classes,) the labels of the training data: ``classes_``, but -1 and 1 where one was trained
    against the others."""
    return np.array([-1.0, 1.0]) if CLASS_NAMES in model.extra else model.classes_


def label_against_rest(model: ModelRecord) -> str | None:
    """Return the label that a model was trained to tell from all others, whatever they are; None where it tells
    classes that have names apart, if only one from the single other one."""
    positive, names = model.extra.get("positive"), model.extra.get(CLASS_NAMES)
    known = names is not None and names[0] != f"not {names[1]}"
    return None if positive is None or known else str(positive)


def known_labels(model: ModelRecord) -> NDArray[Any]:
    """Return (n_classes,) what labels of data are compared with, in the order of ``classes_``: those that they
    had in the training data; -1 and 1 where one was trained against several others."""
    return model.classes_ if label_against_rest(model) is None else trained_classes(model)


class FeatureNames:
    """A model's ``feature_names``, made of its table where they are not held as a list."""

    def __get__(self, model: ModelRecord | None, owner: type) -> tuple[str, ...] | None:
        if model is None:
            return None  # the default
        if (held := given_names(model)) is not None or not _named_by_table(model):
            return held
        return tuple(names_of(model, range(model.n_features_in_)))

    def __set__(self, model: ModelRecord, value: tuple[str, ...] | None) -> None:
        vars(model)["feature_names"] = value


def given_names(model: ModelRecord) -> tuple[str, ...] | None:
    """Return the names of its features that a model holds as a list."""
    names: tuple[str, ...] | None = vars(model).get("feature_names")
    return names


def has_names(model: ModelRecord) -> bool:
    """Return whether its features have names."""
    return given_names(model) is not None or _named_by_table(model)


def names_of(model: ModelRecord, features: Sequence[int]) -> list[str]:
    """Return the names of columns of ``coef_``; their numbers, as in the svmlight file, where they have none."""
    return namer(model)(features)


def namer(model: ModelRecord) -> Callable[[Sequence[int]], list[str]]:
    """Return a function that gives what ``names_of`` does, to be asked often."""
    names, base = given_names(model), model.index_base
    if names is not None:
        return lambda features: [names[j] for j in features]
    table = table_of(model.extra)
    if table is None:
        return lambda features: [str(j + base) for j in features]
    from llsvm.features.encoder import TableEncoder

    return TableEncoder.from_dict(table).names_of


def _named_by_table(model: ModelRecord) -> bool:
    """Return whether its table has the names, of which there may be too many for a list of all."""
    return "table" in model.extra and (TEXT in model.extra or CROSSES in model.extra)


CENTER, AT_CENTER = "center", "at_center"  # (n_features,) and (k,) float64
CENTERED = "centered"  # there are such: older packages, which would not know, refuse the model


def check_center(model: ModelRecord) -> None:
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


def first_centered_name(model: ModelRecord) -> str:
    """Return the first such column, in words."""
    return f"column {namer(model)([int(np.flatnonzero(model.extra[CENTER])[0])])[0]}"
