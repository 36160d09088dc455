"""Fields of structs as columns of their own, named by their path (``user.age``), as JSON Lines have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.types as types

from llsvm.features.columns import kind_of
from llsvm.features.plain_types import EXTENSION, plain, plain_type


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
