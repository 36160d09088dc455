"""Arrow types: what a column of each can be; types that stand for other ones (identifiers and JSON of databases
are text, bytes of truth values are such, runs are their values, categories are what their dictionaries hold); and
fields of structs as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

EXTENSION = b"ARROW:extension:name"  # of a type that the library which has it has not been imported for
_UUID = "arrow.uuid"
_READ_AS = {_UUID: pa.string(), "arrow.json": pa.string(), "arrow.bool8": pa.bool_()}


def kind_of(type_: pa.DataType) -> str:
    """Return what a column of that Arrow type can be: "number", "text", "vector", "list", "struct", or "" for
    nothing."""
    if types.is_dictionary(type_):
        return kind_of(type_.value_type)
    if types.is_boolean(type_) or types.is_integer(type_) or types.is_floating(type_):
        return "number"
    if types.is_decimal(type_) or types.is_null(type_):
        return "number"
    if types.is_temporal(type_):
        return "" if types.is_interval(type_) else "number"  # months have no fixed length
    if is_plain_text(type_):
        return "text"
    if types.is_fixed_size_list(type_):
        return "vector" if kind_of(type_.value_type) == "number" else ""
    if types.is_list(type_) or types.is_large_list(type_):
        return "list" if kind_of(type_.value_type) == "number" else ""
    if types.is_struct(type_) and {"indices", "values"} <= {field.name for field in type_}:
        return "struct"
    return ""


def is_plain_text(type_: pa.DataType) -> bool:
    """Return whether the type is text, and no type of categories."""
    return bool(types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_))


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


# Fields of structs as columns of their own, named by their path (``user.age``), as JSON Lines have them.


def with_fields(schema: pa.Schema) -> tuple[pa.Schema, dict[str, tuple[str, ...]]]:
    """Return the schema with a column for each field of structs, and the paths of these and of columns that are
    read as another type, see ``plain_type``. Structs stay that are sparse vectors, that have no fields, so that
    they are refused as features, and that are how a value of another type is stored, as pandas' intervals are."""
    odd = [field.name for field in schema if plain_type(field) is not field.type]
    if not odd and not any(map(types.is_struct, schema.types)):
        return schema, {}
    fields = list[tuple[tuple[str, ...], pa.DataType]]()
    for field in schema:
        is_one_value, type_ = EXTENSION in (field.metadata or {}), plain_type(field)
        fields += [((field.name,), type_)] if is_one_value else _leaves((field.name,), type_)
    within = {".".join(path): path for path, _ in fields if len(path) > 1 or path[0] in odd}
    return pa.schema([(".".join(path), type_) for path, type_ in fields], schema.metadata), within


def _leaves(path: tuple[str, ...], type_: pa.DataType) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    if not types.is_struct(type_) or type_.num_fields == 0 or kind_of(type_) == "struct":
        yield path, type_
        return
    for field in type_:
        yield from _leaves((*path, field.name), plain_type(field))


def column_at(batch: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    """Return a column, or what is within a struct; missing where the struct is; see ``plain_type``."""
    field = batch.schema.field(path[0])
    column = plain(batch.column(path[0]), plain_type(field))
    for name in path[1:]:
        place = column.type.get_field_index(name)
        column = plain(column.flatten()[place], plain_type(column.type.field(place)))
    return column


def flat_table(table: pa.Table) -> pa.Table:
    """Return the table with a column for each field of structs."""
    schema, within = with_fields(table.schema)
    if not within:
        return table
    paths = [within.get(name, (name,)) for name in schema.names]
    batches = table.to_batches()
    return pa.Table.from_batches(
        [pa.record_batch([column_at(batch, path) for path in paths], schema=schema) for batch in batches],
        schema,
    )
