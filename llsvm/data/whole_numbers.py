"""Numbers of text that 64-bit floats may not tell apart, as whole numbers beyond 2^53: read as what they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from llsvm.errors import DataError
from llsvm.features.columns import numbers
from llsvm.features.encoder import TableEncoder
from llsvm.features.spelling import as_exact
from llsvm.objective.rounding import beyond_floats

_APART = 2.0**-32  # of its largest value, that a column varies by whose floats are told apart


def may_be_alike(column: pa.Array) -> bool:
    """Return whether the column holds numbers, or lists of them, that may differ where their 64-bit floats do
    not."""
    of_lists = types.is_list(column.type)
    column = column.flatten() if of_lists else column
    if not (types.is_floating(column.type) or types.is_integer(column.type)):
        return False
    values = numbers(column)
    if not beyond_floats(values).any():
        return False
    smallest, largest = float(np.fmin.reduce(values)), float(np.fmax.reduce(values))
    return of_lists or not largest - smallest > _APART * max(-smallest, largest)


def only_features(names: Iterable[str], encoder: TableEncoder, others: Collection[str]) -> list[str]:
    """Return those of the columns that become numbers and are not used otherwise. others: names of what is used
    otherwise."""
    kinds = ("number", "vector", "values")
    return [name for name in names if encoder.kind(name) in kinds and name not in others]


def of_any_time(type_: pa.DataType) -> pa.DataType:
    """Return the type to read dates and times in whole seconds as where they are numbers: later ones may be
    finer."""
    coarse = types.is_timestamp(type_) and type_.tz is None and type_.unit in ("s", "ms")
    return pa.timestamp("us") if coarse or types.is_date(type_) else type_


def with_numbers(
    batch: pa.RecordBatch, names: Iterable[str], path: str, row: int, missing: list[str], decimal_point: str
) -> pa.RecordBatch:
    """Return the columns ``names`` of text as the numbers that it spells. row: the first one's number, from 0.
    missing: words for none. Raises DataError."""
    for name in names:
        place = batch.schema.get_field_index(name)
        words = pc.utf8_trim_whitespace(batch.column(place))
        if decimal_point != ".":
            words = pc.replace_substring(words, decimal_point, ".")
        gone = pc.is_in(words, value_set=pa.array(missing))
        try:
            column = as_exact(pc.if_else(gone, pa.scalar(None, pa.string()), words))
        except pa.ArrowInvalid as error:
            value = str(error).partition("'")[2].rpartition("'")[0]
            at = row + max(pc.index(words, value).as_py(), 0) + 1
            raise DataError(
                f"{path}: row {at}: column {name}: {value[:40]!r} is not a number; correct it, or read the column "
                f"as categories (--categorical {name})"
            ) from error
        batch = batch.set_column(place, name, column)
    return batch
