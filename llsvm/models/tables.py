"""Columns that a model was trained on: their encoder's values, and the features' names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    return columns[0]["name"] if [each["kind"] for each in columns] == ["document"] else None


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
    """X with rows and columns: see ``as_rows``; documents (``as_frame``), where a model was trained on nothing
    else. extra: of the model. Raises ModelError, DataError."""
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
    """``names_of``, to be asked often."""
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
