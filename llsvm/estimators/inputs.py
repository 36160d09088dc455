"""Rows and labels as estimators are given them: documents, frames with columns of text, labels of all types."""

from __future__ import annotations

from collections.abc import Collection, Sized
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from llsvm.data.batches import is_query
from llsvm.data.frame_tables import columns_of_text
from llsvm.errors import DataError, UsageError
from llsvm.estimators.parameters import Text, text_of
from llsvm.features.array_labels import label_array, labels_of, refuse_dictionaries
from llsvm.features.frames import as_frame, column_names

COLUMN = "text"  # of documents that have no other name
_OBJECTS = "OT"  # kinds of NumPy's types: objects, and StringDType
_REMEDY = "give text (pandas: y.astype(str))"


def require_rows(X: Any) -> None:
    """Raise UsageError for rows that are not in memory, DataError for those that are dictionaries."""
    refuse_dictionaries(X)
    if is_query(X):
        raise UsageError(
            f"X is a {type(X).__name__}, and estimators take rows that are in memory: give the data frame that "
            "collect() of Polars or df() of DuckDB makes of it, or pass it to llsvm.train, which reads batches"
        )


def is_documents(X: Any) -> bool:
    """Return whether it is a list, an array or a Series of text."""
    if len(getattr(X, "shape", (0,))) != 1 or not isinstance(X, Collection) or isinstance(X, str | bytes):
        return False
    there = (each for each in X if each is not None and (isinstance(each, Sized) or each == each))
    return isinstance(next(there, None), str)


def with_columns(text: Text, X: Any) -> tuple[Any, tuple[str, ...]]:
    """Return X, documents as a data frame, and its columns that the parameter ``text`` means. Raises UsageError."""
    given = text_of(text)
    if given is not True:
        return X, given
    columns = _only_column(X)
    return as_frame(X, columns[0]), columns


def _only_column(X: Any) -> tuple[str, ...]:
    names = column_names(X, ("0",))
    if names is None:
        return (COLUMN,)
    if len(names) != 1:
        of_text = columns_of_text(X)
        remedy = f"name those of text, text=[{of_text[0]!r}]" if of_text else "leave it out: none is of text"
        raise UsageError(f"text=True is for documents alone, and X has {len(names)} columns: {remedy}")
    return names


def class_labels(y: Any) -> Any:
    """Return y, as an array whose labels scikit-learn knows.

    Nullable types, and objects that are bools, whole numbers or text, become arrays of that type, numbers floats,
    dates and times without a zone datetime64. Raises DataError for labels that are missing, and objects of other
    types."""
    if y is None or (isinstance(y, np.ndarray) and y.dtype.kind not in _OBJECTS):
        return y
    given = label_array(y)
    if given.ndim == 0:
        return y  # sparse, or no column: scikit-learn says what is wrong with it
    if given.dtype.kind not in _OBJECTS or len(given) == 0:
        return given
    given = column_or_1d(given, warn=True)
    labels = labels_of(given, len(given))
    if labels.dtype.kind != "U" or isinstance(given[0], str):
        return labels
    import pyarrow as pa

    type_ = pa.array(given, from_pandas=True).type
    if pa.types.is_date(type_) or (pa.types.is_timestamp(type_) and type_.tz is None):
        return given.astype("datetime64[D]" if pa.types.is_date(type_) else "datetime64[us]")
    raise DataError(
        f"y[0] is {given[0]!r} ({type(given[0]).__name__}), which scikit-learn does not take for a label; {_REMEDY}"
    )


def spans_as_numbers(y: Any) -> Any:
    """Return spans of time as whole numbers of nanoseconds, whose order is theirs, as that of text is not; other
    labels as they are. Raises DataError for those that are missing."""
    if not isinstance(y, np.ndarray) or y.dtype.kind != "m":
        return y
    if (gone := np.isnat(y)).any():
        raise DataError(f"y[{int(np.argmax(gone))}]: it is missing; leave the row out")
    return y.astype("m8[ns]").astype(np.int64)


def type_of_times(y: Any) -> np.dtype[Any] | None:
    """Return the type of labels that are dates, times or spans of time, else None."""
    return y.dtype if isinstance(y, np.ndarray) and y.dtype.kind in "Mm" else None
