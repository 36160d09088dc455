"""Labels and sample weights that the caller holds as arrays: what they may be."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, time, timedelta
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from llsvm.errors import DataError, UsageError
from llsvm.features.labels import NOT_A_NUMBER

_COLUMNS = {"y": "label", "sample_weight": "weight"}  # what names a column of them instead


def as_array(name: str, values: Any) -> NDArray[Any]:
    """Return values as an array. name: for the DataError where they cannot be one, and the UsageError for a
    column's."""
    if isinstance(values, str) and name in _COLUMNS:
        raise UsageError(
            f"{name} is {values!r}, and is to have a value for each row: where that is the name of a column of the "
            f"data, pass {_COLUMNS[name]}={values!r}"
        )
    refuse_masked(**{name: values})
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise DataError(f"{name} cannot be made into an array: {error}") from error


def refuse_records(X: Any) -> None:
    """Raise DataError for a list of dictionaries or NumPy's records, which a data frame is to be made of."""
    if isinstance(X, list | tuple) and X and isinstance(X[0], Mapping):
        _refuse_without_frame("a list of dictionaries")
    if getattr(getattr(X, "dtype", None), "names", None):  # of one dimension, which no reshape() changes
        _refuse_without_frame("an array of records")


def refuse_dictionaries(X: Any) -> None:
    """Raise DataError as ``refuse_records`` does, and for a dictionary of columns, which is no data frame. SciPy's
    dok matrices are dict, too."""
    refuse_records(X)
    if isinstance(X, Mapping) and not hasattr(X, "shape"):
        _refuse_without_frame("a dictionary" if type(X) is dict else f"a {type(X).__name__}, a dictionary")


def _refuse_without_frame(what: str) -> NoReturn:
    raise DataError(
        f"X is {what}: give the data frame that pandas.DataFrame(X), or polars.DataFrame(X), makes of it"
    )


def refuse_masked(**arrays: Any) -> None:
    """Raise DataError where one of NumPy's masked arrays has masked values, which no array would show. arrays: by
    the names that they have in the message."""
    for name, values in arrays.items():
        if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
            raise DataError(
                f"{name} is a masked array, and {int(np.ma.count_masked(values)):,} of its values are masked: fill "
                f"them ({name}.filled(0), say), or leave these rows out"
            )


def label_array(y: Any) -> NDArray[Any]:
    """Return y as an array, of objects where a list has text and other things, of which NumPy would make text.
    Raises DataError."""
    labels = as_array("y", y)
    if (
        labels.dtype.kind == "U"
        and isinstance(y, list | tuple)
        and not all(isinstance(each, str) for each in y)
    ):
        labels = np.empty(len(y), object)
        labels[:] = y
    return labels


def in_common_unit(labels: NDArray[Any]) -> NDArray[Any]:
    """Return times and spans of time in a unit that Arrow and libraries of frames have, others as they are."""
    if labels.dtype.kind not in "mM" or labels.dtype.name.endswith(("[ms]", "[us]", "[ns]", "time64[D]")):
        return labels
    return labels.astype(f"{labels.dtype.kind}8[ms]")


def refuse_times(y: Any) -> None:
    """Raise DataError for targets of a regression that are dates, times, spans of time or other objects."""
    labels = label_array(y)
    times = (date, time, timedelta, np.datetime64, np.timedelta64)
    of_objects = labels.ravel().tolist() if labels.dtype.kind == "O" and labels.ndim else ()
    odd = next(
        (type(each).__name__ for each in of_objects if isinstance(each, times) or _is_no_value(each)), ""
    )
    if odd or labels.dtype.kind in "mM":
        raise DataError(f"y: a label of type {odd or labels.dtype}: {NOT_A_NUMBER}")


def _is_no_value(each: Any) -> bool:
    """Return whether the object is one that Python makes no number of, and neither text nor missing."""
    is_missing = type(each).__name__ in ("NoneType", "NAType", "NaTType")
    return not (is_missing or hasattr(each, "__float__") or isinstance(each, str | bytes))


def labels_of(y: ArrayLike, n: int) -> NDArray[Any]:
    """Return y as an array of n labels: bool, integers, finite floats or text. Raises DataError."""
    labels = label_array(y)
    _check_length("y", labels, n)
    if labels.dtype.kind in "OT" and all(isinstance(label, str) for label in labels):
        labels = labels.astype(object).astype(np.str_)  # which NumPy makes of no StringDType at once
    elif labels.dtype.kind == "m":
        labels = _labels_of_objects(labels.astype("m8[ns]"))
    elif labels.dtype.kind in "OM":
        labels = _labels_of_objects(in_common_unit(labels))
    if labels.dtype.kind not in "biufU":
        kinds = sorted({type(label).__name__ for label in labels}) if labels.dtype.kind == "O" else []
        held = f" and holds {', '.join(kinds)}" if kinds else ""
        raise DataError(
            f"Unknown label type: y has dtype {labels.dtype}{held}; it must hold numbers or text alone, as "
            "y.astype(str) does"
        )
    if labels.dtype.kind == "f":
        _check_all_finite("y", labels)
    return labels


def _labels_of_objects(y: NDArray[Any]) -> NDArray[Any]:
    """Return labels such as bools, dates and decimals, as those of a table's column. Raises DataError."""
    import pyarrow as pa

    from llsvm.features.arrow_types import kind_of
    from llsvm.features.columns import label_column

    try:
        column = pa.array(y, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return y
    if kind_of(column.type) not in ("number", "text"):
        return y
    if pa.types.is_integer(column.type) and not column.null_count:
        return np.array(y.tolist())
    try:
        labels = label_column(column, "y", False, False)
        return labels.astype(np.str_) if labels.dtype.kind == "O" else labels
    except ValueError as error:
        at, reason = error.args
        reason = "it is missing; leave the row out" if column[at].as_py() is None else reason
        raise DataError(f"y[{at}]: {reason}") from error


def weights_of(sample_weight: ArrayLike, n: int) -> NDArray[Any]:
    """Return n sample weights, finite and not negative. Raises DataError."""
    weight = as_array("sample_weight", sample_weight)
    if weight.dtype.kind == "O":  # such as decimals, of which fit makes floats, too
        try:
            weight = weight.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"sample_weight must hold numbers: {error}") from error
    _check_length("sample_weight", weight, n)
    if weight.dtype.kind not in "biuf":
        raise DataError(f"sample_weight has dtype {weight.dtype}; it must hold numbers")
    _check_all_finite("sample_weight", weight)
    if (weight < 0).any():
        row = int(np.argmax(weight < 0))
        raise DataError(f"sample_weight[{row}] is {weight[row]}; weights must not be negative")
    if n and not weight.any():
        raise DataError(f"sample_weight: all {n} rows have the weight 0")
    return weight


def _check_length(name: str, values: NDArray[Any], n: int) -> None:
    if values.ndim != 1:
        remedy = f"; give its one column, np.ravel({name})" if values.shape[1:] == (1,) else ""
        raise DataError(f"{name} should be a 1d array, got an array of shape {values.shape} instead{remedy}")
    if len(values) != n:
        raise DataError(f"X and {name} have inconsistent lengths: {n} rows and {len(values)} values")


def _check_all_finite(name: str, values: NDArray[Any]) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(np.argmax(bad))
        what = "NaN" if np.isnan(values[row]) else "infinity (inf)"
        raise DataError(f"Input {name} contains {what}: {name}[{row}]; leave the row out")
