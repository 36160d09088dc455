"""Arrow types that stand for other ones: identifiers and JSON of databases are text, bytes of truth values are
such, runs are their values; and columns with a dictionary (types of categories) as plain columns."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

EXTENSION = b"ARROW:extension:name"  # of a type that the library which has it has not been imported for
_UUID = "arrow.uuid"
_READ_AS = {_UUID: pa.string(), "arrow.json": pa.string(), "arrow.bool8": pa.bool_()}


def plain_type(field: pa.Field) -> pa.DataType:
    """Return the type that a column is read as. One of an unknown library, such as the periods of pandas, is no
    number, whatever it is stored as."""
    type_ = field.type
    if types.is_run_end_encoded(type_):
        return type_.value_type
    if isinstance(type_, pa.BaseExtensionType):
        return _READ_AS.get(type_.extension_name, type_)
    if (name := (field.metadata or {}).get(EXTENSION)) is not None and not types.is_nested(type_):
        return pa.opaque(type_, name.decode("utf-8", "replace"), "unknown")
    return type_


def plain(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return a column as ``type_``, which ``plain_type`` says."""
    if column.type == type_:
        return column
    if types.is_run_end_encoded(column.type):
        return pc.run_end_decode(column)
    if not isinstance(column.type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, column)
    if column.type.extension_name == _UUID:
        return pa.array(map(_as_uuid, column.storage.to_pylist()), type_)
    return column.storage.cast(type_)


def plain_table(table: pa.Table) -> pa.Table:
    """Return a table with all columns as ``plain_type`` says."""
    for i, field in enumerate(table.schema):
        if (type_ := plain_type(field)) is not field.type:
            chunks = [plain(chunk, type_) for chunk in table.column(i).chunks]
            table = table.set_column(i, field.name, pa.chunked_array(chunks, type_))
    return table


def _as_uuid(value: bytes | None) -> str | None:
    if value is None:
        return None
    digits = value.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def decoded(column: pa.Array) -> pa.Array:
    """Return the values of a column with a dictionary, and views of text, for which there are no kernels, as
    text."""
    if types.is_dictionary(column.type):
        column = _without_views(column).dictionary_decode()
    return column.cast(pa.large_string()) if types.is_string_view(column.type) else column


def writable(column: pa.Array) -> pa.Array:
    """Return the same column as Parquet can hold it: with nothing missing among the values of a dictionary."""
    column = _without_views(column)
    if not types.is_dictionary(column.type) or not column.dictionary.null_count:
        return column
    again = column.dictionary_decode().dictionary_encode()
    indices = again.indices.cast(column.type.index_type)
    return pa.DictionaryArray.from_arrays(indices, again.dictionary, ordered=column.type.ordered)


def _without_views(column: pa.Array) -> pa.Array:
    """Return the same column where pyarrow, which neither takes nor writes views of a dictionary, can do both."""
    if not types.is_dictionary(column.type) or not types.is_string_view(column.type.value_type):
        return column
    return pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(pa.large_string()))
