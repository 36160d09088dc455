"""Batches cut by what their rows take once they are decoded: a category's code stands for a text, and a list may be
a million times as long as the one before it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types
from numpy.typing import NDArray

from llsvm.errors import LongRowError
from llsvm.features.columns import codes_of, nulls, plain

_VALUE_BYTES = 16  # of a list's value: as a 64-bit float, and its column
_MIN_LONG_ROW_BYTES = 8 << 20  # a shorter row may be larger than a block


def pieces(
    batch: pa.RecordBatch, coded: Collection[str], max_bytes: int, where: str, first: int
) -> Iterator[pa.RecordBatch]:
    """The rows, in pieces of about ``max_bytes`` or of one row.

    coded: columns of which nobody decodes categories. where, first: the file and the row in it, from 0, for
    messages. Raises LongRowError for lists that are much longer than a piece.
    """
    lists, texts = _row_bytes(batch, coded)
    if lists is not None and (longest := int(lists.max(initial=0))) > max(2 * max_bytes, _MIN_LONG_ROW_BYTES):
        raise LongRowError(
            f"{where}: row {first + int(lists.argmax()) + 1}: its lists take {longest:,} bytes, too long for the "
            "memory limit; pass a larger --memory-limit",
            longest,
        )
    sizes = texts if lists is None else lists if texts is None else lists + texts
    if sizes is None or not batch.num_rows or (ends := np.cumsum(sizes))[-1] <= max_bytes:
        yield batch
        return
    start = 0
    while start < batch.num_rows:
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + max_bytes, "right")), start + 1)
        yield batch.slice(start, stop - start)
        start = stop


def _row_bytes(
    batch: pa.RecordBatch, coded: Collection[str]
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """(n,) of lists, and of texts; None where there are none."""
    lists: NDArray[np.int64] | None = None
    texts: NDArray[np.int64] | None = None
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for part in column.flatten() if types.is_struct(column.type) else (column,):
            if _is_list(part.type):
                own = _VALUE_BYTES * _known(pc.list_value_length(part))
                lists = own if lists is None else lists + own
        if types.is_dictionary(column.type):
            if name in coded or not _is_text(column.type.value_type):
                continue
            own = np.append(_lengths(column.dictionary), 0)[codes_of(column)]
        elif _is_text(column.type):
            own = _lengths(column)
        else:
            continue
        texts = own if texts is None else texts + own
    return lists, texts


def _is_list(type_: pa.DataType) -> bool:
    return bool(types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_))


def _is_text(type_: pa.DataType) -> bool:
    large = types.is_large_string(type_) or types.is_large_binary(type_)
    view = types.is_string_view(type_) or types.is_binary_view(type_)
    return bool(types.is_string(type_) or types.is_binary(type_) or large or view)


def _lengths(texts: pa.Array) -> NDArray[np.int64]:
    """(n,) bytes of each text. Of views pyarrow has no lengths: the first four of the 16 bytes of each are its."""
    if not (types.is_string_view(texts.type) or types.is_binary_view(texts.type)):
        return _known(pc.binary_length(texts))
    buffer = texts.buffers()[1]
    if buffer is None or not len(texts):
        return np.zeros(len(texts), np.int64)
    lengths = np.frombuffer(buffer, np.int32, 4 * len(texts), 16 * texts.offset)[::4].astype(np.int64)
    return np.where(nulls(texts), 0, lengths)


def _known(lengths: pa.Array) -> NDArray[np.int64]:
    return plain(lengths.cast(pa.int64()).fill_null(0))
