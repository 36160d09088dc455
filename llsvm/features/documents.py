"""Documents that stand alone: lists, arrays and Series of text, as tables with one column."""

from __future__ import annotations

from collections.abc import Iterator, Set, Sized
from typing import Any

import numpy as np

from llsvm.errors import DataError
from llsvm.features.array_labels import refuse_dictionaries, refuse_masked
from llsvm.features.frames import is_frame, naming_bad_text


def as_frame(X: Any, column: str) -> Any:
    """X, a data frame, or else documents, (n,) or (n, 1), as a table with that column: text; what is missing (None,
    NaN) is empty. Raises DataError for what is no text."""
    if is_frame(X):
        return X
    refuse_masked(X=X)
    refuse_dictionaries(X)
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
        X = X.astype(object) if X.dtype.kind == "U" else X  # of which pyarrow takes what is before a NUL
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


def _odd(X: Any) -> str:
    """The first value that is neither text nor missing."""
    for row, value in enumerate(X):
        missing = value is None or (isinstance(value, float) and value != value)
        if not isinstance(value, str | bytes) and not missing:
            return f"X[{row}] is {value!r} ({type(value).__name__})"
    return ""
