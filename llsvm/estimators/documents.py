"""Documents as estimators are given them: lists, arrays and columns of text, and data frames with such columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set, Sized
from typing import Any, Literal

import numpy as np

from llsvm.errors import DataError, UsageError
from llsvm.features.frames import column_names, is_frame, naming_bad_text
from llsvm.models.model import Model
from llsvm.settings.kinds import plain
from llsvm.settings.option import TEXT
from llsvm.settings.settings import OPTIONS

COLUMN = "text"  # of documents that have no other name
TEXT_OPTIONS = (
    *(name for name, each in OPTIONS.items() if each.group == TEXT and name != "encoding"),
    "hash_bits",
    "cross",
    "categorical",
    "missing",
    "scale",
    "target_scale",
)
Text = bool | str | Sequence[str]


def text_of(text: Text | None) -> Literal[True] | tuple[str, ...]:
    """The parameter ``text``: True, or names. Raises UsageError."""
    given = plain(text)
    if given is True:
        return True
    if isinstance(given, str):
        return (given,)
    if given is None or given is False:
        return ()
    if not isinstance(given, list | tuple | set) or not all(isinstance(each, str) for each in given):
        raise UsageError(f"text must be True, or names of columns, not {text!r}")
    return tuple(given)


def names_columns(text: Text | None, cross: Any) -> bool:
    """Do the parameters ``text`` and ``cross`` make features of columns? Raises UsageError."""
    return bool(text_of(text)) or bool(plain(cross))


def with_columns(text: Text, X: Any) -> tuple[Any, tuple[str, ...]]:
    """X, documents as a data frame, and its columns that the parameter ``text`` means. Raises UsageError."""
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
        raise UsageError(
            f"text=True is for documents alone, and X has {len(names)} columns: name those of text, "
            f"text=[{names[0]!r}]"
        )
    return names


def as_frame(X: Any, column: str) -> Any:
    """X, a data frame, or else documents, (n,) or (n, 1), as a table with that column: text; what is missing (None,
    NaN) is empty. Raises DataError for what is no text."""
    if is_frame(X):
        return X
    import pyarrow as pa

    if isinstance(X, Set | Iterator):
        raise DataError(f"X is a {type(X).__name__}: give documents in order, as a list")
    if isinstance(X, str | bytes) or not isinstance(X, Sized):
        raise DataError("X is one document, or none: give a list of them")
    if isinstance(X, np.ndarray):
        X = X[:, 0] if X.ndim == 2 and X.shape[1] == 1 else X
        if X.ndim != 1:
            raise DataError(
                f"X has the shape {X.shape}, and documents are (n,): give a list, or a column of a data frame"
            )
    try:
        with naming_bad_text(X):
            found = X if isinstance(X, pa.Array | pa.ChunkedArray) else pa.array(X, from_pandas=True)
    except (pa.ArrowException, TypeError) as error:
        raise DataError(
            f"X holds what is no text: {_odd(X) or error}; make it text, or leave the row out"
        ) from error
    from llsvm.features.columns import can_be_text

    if not can_be_text(found.type) and len(found):
        raise DataError(
            f"X holds what is no text: {_odd(X) or found.type}; make it text, or leave text=True out"
        )
    return pa.table({column: found.cast(pa.string()) if pa.types.is_null(found.type) else found})


def only_text(model: Model) -> str | None:
    """The column that a model was trained on, where that is text, and the only one."""
    columns = model.extra.get("table", {}).get("columns", ())
    return columns[0]["name"] if [each["kind"] for each in columns] == ["document"] else None


def _odd(X: Any) -> str:
    """The first value that is neither text nor missing."""
    for row, value in enumerate(X):
        missing = value is None or (isinstance(value, float) and value != value)
        if not isinstance(value, str | bytes) and not missing:
            return f"X[{row}] is {value!r} ({type(value).__name__})"
    return ""
