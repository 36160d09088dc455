"""Labels of classes as scikit-learn can take them, whatever Python object holds them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from llsvm.errors import DataError
from llsvm.features.array_labels import label_array, labels_of

_OBJECTS = "OT"  # kinds of NumPy's types: objects, and StringDType
_REMEDY = "give text (pandas: y.astype(str))"


def class_labels(y: Any) -> Any:
    """y, where scikit-learn knows its labels. Nullable types, and objects that are bools, whole numbers or text,
    become arrays of that type, numbers floats, dates and times without a zone datetime64. Raises DataError for
    labels that are missing, and objects of other types."""
    if y is None or (isinstance(y, np.ndarray) and y.dtype.kind not in _OBJECTS):
        return y
    found = label_array(y)
    if found.ndim == 0:
        return y  # sparse, or no column: scikit-learn says what is wrong with it
    if found.dtype.kind not in _OBJECTS or len(found) == 0:
        return found
    found = column_or_1d(found, warn=True)
    labels = labels_of(found, len(found))
    if labels.dtype.kind != "U" or isinstance(found[0], str):
        return labels
    import pyarrow as pa

    type_ = pa.array(found, from_pandas=True).type
    if pa.types.is_date(type_) or (pa.types.is_timestamp(type_) and type_.tz is None):
        return found.astype("datetime64[D]" if pa.types.is_date(type_) else "datetime64[us]")
    raise DataError(
        f"y[0] is {found[0]!r} ({type(found[0]).__name__}), which scikit-learn does not take for a label; {_REMEDY}"
    )


def spans_as_numbers(y: Any) -> Any:
    """Spans of time as whole numbers of nanoseconds, whose order is theirs, as that of text is not; other labels as
    they are. Raises DataError for those that are missing."""
    if not isinstance(y, np.ndarray) or y.dtype.kind != "m":
        return y
    if (gone := np.isnat(y)).any():
        raise DataError(f"y[{int(np.argmax(gone))}]: it is missing; leave the row out")
    return y.astype("m8[ns]").astype(np.int64)


def type_of_times(y: Any) -> np.dtype[Any] | None:
    """The type of labels that are dates, times or spans of time."""
    return y.dtype if isinstance(y, np.ndarray) and y.dtype.kind in "Mm" else None
