"""Arrow memory that comes from a file, checked before anything follows its offsets: Arrow itself trusts them."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.types as types

_AS_BYTES = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}


def use_system_memory() -> None:
    """Let pyarrow take memory from the C library, which gives it back; its own pools keep what they freed. (As
    the package does when it is loaded before pyarrow, and then for all that pyarrow holds.)"""
    pa.set_memory_pool(pa.system_memory_pool())


def refer_to_others(schema: pa.Schema) -> tuple[int, ...]:
    """The columns whose values are found by other values: offsets of text and lists, codes of categories."""
    return tuple(i for i, type_ in enumerate(schema.types) if not stands_alone(type_))


def stands_alone(type_: pa.DataType) -> bool:
    """Are all values of the type of one size, each in its place?"""
    if types.is_fixed_size_list(type_):
        return stands_alone(type_.value_type)
    return bool(types.is_primitive(type_) or types.is_decimal(type_) or types.is_null(type_))


def validate(batch: pa.RecordBatch, checked: tuple[int, ...], documents: Collection[str] = ()) -> None:
    """Raise ArrowInvalid unless the batch's buffers are as long as they must be and, of the columns ``checked``
    (see ``refer_to_others``), every offset and code lies within what it refers to, and text is UTF-8; but for the
    text of ``documents``, names of columns, at which the analysis looks byte by byte in any case."""
    batch.validate()
    for i in checked:
        column = batch.column(i)
        if batch.schema.names[i] in documents and column.type in _AS_BYTES:
            column = column.view(_AS_BYTES[column.type])
        column.validate(full=True)
