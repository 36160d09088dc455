"""Arrow columns with a dictionary (types of categories) as plain columns."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as types


def decoded(column: pa.Array) -> pa.Array:
    """The values of a column with a dictionary, and views of text, for which there are no kernels, as text."""
    if types.is_dictionary(column.type):
        column = _without_views(column).dictionary_decode()
    return column.cast(pa.large_string()) if types.is_string_view(column.type) else column


def writable(column: pa.Array) -> pa.Array:
    """The same column as Parquet can hold it: with nothing missing among the values of a dictionary."""
    column = _without_views(column)
    if not types.is_dictionary(column.type) or not column.dictionary.null_count:
        return column
    again = column.dictionary_decode().dictionary_encode()
    indices = again.indices.cast(column.type.index_type)
    return pa.DictionaryArray.from_arrays(indices, again.dictionary, ordered=column.type.ordered)


def _without_views(column: pa.Array) -> pa.Array:
    """The same column where pyarrow, which neither takes nor writes views of a dictionary, can do both."""
    if not types.is_dictionary(column.type) or not types.is_string_view(column.type.value_type):
        return column
    return pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(pa.large_string()))
