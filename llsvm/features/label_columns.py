"""Arrow columns of labels and sample weights as NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types
from numpy.typing import NDArray

from llsvm.features.column import Sort
from llsvm.features.columns import Types, categories, kind_of, nulls, numbers, plain
from llsvm.features.labels import WHOLE_BELOW
from llsvm.features.plain_types import decoded
from llsvm.features.targets import NOT_A_NUMBER, as_targets
from llsvm.features.value_texts import LabelWords, as_text


def labels(column: pa.Array, alike: LabelWords | None = None) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the labels (n,), as float64, int64 of a column of whole numbers without gaps, bool, or text as
    objects, and where they are missing. alike: makes one of the texts that spell the same value; None: they stay as
    they are."""
    if kind_of(column.type) != "text":
        column = decoded(column)
    if kind_of(column.type) == "text":
        codes, words = categories(column, True)
        words = [*(words if alike is None else alike.labels(words)), ""]
        # objects: as an array of text all rows would be as long as the longest label
        return np.array(words, object)[codes], np.array([not word for word in words])[codes]
    if types.is_boolean(column.type):
        return plain(column.fill_null(False).cast(pa.uint8())).astype(bool), nulls(column)
    if types.is_temporal(column.type):
        return labels(as_text(column))
    values = numbers(column)
    too_large = np.abs(values) >= WHOLE_BELOW
    if too_large.any():
        row = int(np.argmax(too_large))
        raise ValueError(
            row,
            f"the label {column[row]} is too large to be told from its neighbours; number the labels otherwise, or "
            "keep them as text (--categorical LABEL)",
        )
    gone = np.isnan(values)
    whole = types.is_integer(column.type) and not gone.any()
    return values.astype(np.int64) if whole else values, gone


def targets(column: pa.Array) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return numbers (n,), and where they are missing. Raises ValueError(row, reason) for the first label that is
    none."""
    if types.is_temporal(column.type):
        raise ValueError(0, f"a label of type {column.type}: {NOT_A_NUMBER}")
    if kind_of(column.type) == "text":
        words, gone = labels(column)
        return as_targets(np.where(gone, "0", words)), gone
    values = numbers(column)
    gone = np.isnan(values)
    return as_targets(np.where(gone, 0.0, values)), gone


def label_column(
    column: pa.Array, name: str, as_numbers: bool, may_be_missing: bool, alike: LabelWords | None = None
) -> NDArray[Any]:
    """Return the column (n,) as ``labels`` or ``targets``, NaN or "" where they may be missing. Raises
    ValueError(row, reason) where not, and for those that are no labels."""
    try:
        y, gone = targets(column) if as_numbers else labels(column, alike)
    except ValueError as error:
        if may_be_missing:
            return np.full(len(column), np.nan)
        if len(error.args) != 2:  # of pyarrow
            raise
        raise ValueError(error.args[0], f"column {name}: {error.args[1]}") from error
    if y.dtype == bool and gone.any() and may_be_missing:
        y = np.where(gone, np.nan, y)
    if gone.any() and not may_be_missing:
        reason = f"column {name}: the label is missing; fill it in, or pass --missing-label drop"
        raise ValueError(int(np.argmax(gone)), reason)
    return y


def weight_column(column: pa.Array, name: str, types: Types) -> NDArray[np.float64]:
    """Return the sample weights (n,). types: what text is read as. Raises ValueError(row, reason) for what is
    none."""
    try:
        values = numbers(column, Sort.NUMBER, types.get(name))
    except ValueError as error:
        if len(error.args) != 2:  # of pyarrow
            raise
        raise ValueError(error.args[0], f"column {name}: the weight {error.args[1]}") from error
    bad = ~((values >= 0) & np.isfinite(values))
    if bad.any():
        row = int(np.argmax(bad))
        what = "the weight is missing" if np.isnan(values[row]) else f"weight {values[row]:g}"
        raise ValueError(row, f"column {name}: {what}; weights are 0 or more, and 0 leaves a row out")
    return values
