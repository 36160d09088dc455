"""Memory of Arrow's record batches: their sizes, from what describes them and not from the batches, since a batch
is read whole and memory must be reserved before; what a schema has that pyarrow refuses; and buffers, which are
checked before anything follows their offsets, since Arrow itself trusts them."""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as types
from numpy.typing import NDArray

FILE_MAGIC = b"ARROW1"
_CONTINUES = 0xFFFFFFFF
_DICTIONARY, _RECORD_BATCH = 2, 3  # kinds of messages
_BLOCKS = "<i8,<i4,<i4,<i8"  # of a footer: place, bytes of metadata, padding, bytes of body
_BUFFERS = "<i8,<i8"  # of a record batch: offset, length
_MAX_DESCRIPTION_BYTES = 64 << 20  # longer ones are damage
_OF_PARQUET = re.compile(rb"ARROW:schema.{1,8}?(/////[A-Za-z0-9+/]+=*)", re.DOTALL)  # a message, in base64
_INT, _MOST_BITS = 2, 64  # the type of whole numbers, and the most that pyarrow reads
_TAIL_BYTES = 1 << 24  # of a file of Parquet, in which its schema is looked for
_MAX_LOOKED_AT = 20_000  # buffers of compressed batches, the largest batches' first
_DAMAGE = (struct.error, IndexError, ValueError, OSError, RecursionError)


class Sizes(NamedTuple):
    """Bytes of the largest batch as it is read (stored), as it is used, and of all dictionaries."""

    stored: int
    batch: int
    dictionaries: int


class _Message(NamedTuple):
    """place: of its metadata in the file. body_bytes: after them."""

    place: int
    metadata_bytes: int
    body_bytes: int


def sizes_of(file: Any, has_footer: bool) -> Sizes:
    """Return the sizes in an open Arrow file (has_footer) or stream; seeks in it. A message that cannot be decoded
    counts as nothing: the reader reports what is wrong with it."""
    stored = batch = dictionaries = looked_at = 0
    messages: list[_Message] = []
    with suppress(*_DAMAGE):
        messages.extend(_messages(file, has_footer))
    for message in sorted(messages, key=lambda message: -message.body_bytes):
        unpacked = message.body_bytes
        kind = _RECORD_BATCH
        if looked_at < _MAX_LOOKED_AT:
            with suppress(*_DAMAGE):
                kind, unpacked, n_buffers = _described(file, message)
                looked_at += 1 + n_buffers
        if kind == _DICTIONARY:
            dictionaries += unpacked
        elif kind == _RECORD_BATCH:
            stored, batch = max(stored, message.body_bytes), max(batch, unpacked)
    return Sizes(stored, batch, dictionaries)


def holds_rows(file: Any, has_footer: bool) -> bool:
    """Return whether any record batch of an open Arrow file (has_footer) or stream has a row. Seeks in it. True if
    the file cannot be decoded."""
    try:
        for message in _messages(file, has_footer):
            described = _metadata(_at(file, message.place, message.metadata_bytes))
            if described.number(1, "<B") == _RECORD_BATCH and described.table(2).number(0, "<q"):
                return True
    except _DAMAGE:
        return True
    return False


def description_bytes(file: Any, has_footer: bool) -> int:
    """Return the length in bytes of a file's footer, or of a stream's schema; 0 if the file is cut off, so that
    there is no such length."""
    size = file.size()
    with suppress(*_DAMAGE):
        file.seek(max(size - len(FILE_MAGIC) - 4, 0) if has_footer else 0)
        data = bytes(file.read(4 + len(FILE_MAGIC)))
        if not has_footer:
            return min(_prefix(data)[1], size)
        if data.endswith(FILE_MAGIC):
            return min(_number(data, 0, "<i"), size)
    return 0


def wide_columns(file: Any) -> list[str]:
    """Return the columns of an open file of Arrow or Parquet that have whole numbers of more than 64 bits, for
    which pyarrow refuses the whole file and names none; columns that cannot be decoded are left out. Seeks in the
    file."""
    with suppress(*_DAMAGE):
        end = file.size()
        tail = _at(file, max(end - _TAIL_BYTES, 0), min(end, _TAIL_BYTES))
        if tail.endswith(FILE_MAGIC):
            schema = _footer(file).table(1)
        else:
            match = _OF_PARQUET.search(tail)
            message = base64.b64decode(match[1]) if match else _at(file, 0, sum(_prefix(_at(file, 0, 8))))
            schema = _metadata(message).table(2)
        return [field.vector(0, "u1").tobytes().decode() for field in schema.tables(1) if _is_wide(field)]
    return []


def _is_wide(field: _Table) -> bool:
    """Return whether a field of a schema, or one within it, holds whole numbers of more than 64 bits."""
    of_whole_numbers = field.number(2, "<B") == _INT
    wide = of_whole_numbers and field.table(3).number(0, "<i") > _MOST_BITS
    return wide or any(map(_is_wide, field.tables(5)))


class _Table:
    """A table of a flatbuffer: fields by number. pyarrow reads these, but hands out no sizes of what they
    describe."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        self._fields = at - _number(data, at, "<i")
        self._end = _number(data, self._fields, "<H")

    def place(self, field: int) -> int:
        """Return the position of a field's value, or 0 if the table has none."""
        entry = 4 + 2 * field
        offset = _number(self.data, self._fields + entry, "<H") if entry < self._end else 0
        return self.at + offset if offset else 0

    def number(self, field: int, kind: str) -> int:
        place = self.place(field)
        return _number(self.data, place, kind) if place else 0

    def target(self, field: int) -> int:
        """Return the position of the table or vector that a field refers to, or 0 if there is none."""
        place = self.place(field)
        return place + _number(self.data, place) if place else 0

    def table(self, field: int) -> _Table:
        return _Table(self.data, self.target(field))

    def vector(self, field: int, type_: str) -> NDArray[Any]:
        """Return the values of a vector; none if there is no such vector."""
        at = self.target(field)
        return np.frombuffer(self.data, type_, _number(self.data, at) if at else 0, at + 4)

    def tables(self, field: int) -> list[_Table]:
        """Return the tables of a vector; [] if there is none."""
        first = self.target(field) + 4
        return [
            _Table(self.data, first + 4 * i + n) for i, n in enumerate(self.vector(field, "<u4").tolist())
        ]


def _number(data: bytes, at: int, kind: str = "<I") -> int:
    return int(struct.unpack_from(kind, data, at)[0])


def _root(data: bytes) -> _Table:
    return _Table(data, _number(data, 0))


def _at(file: Any, place: int, n: int) -> bytes:
    if not 0 <= n <= _MAX_DESCRIPTION_BYTES:
        raise ValueError(n)
    file.seek(place)
    return bytes(file.read(n))


def _messages(file: Any, has_footer: bool) -> Iterator[_Message]:
    """Yield the messages of a file, by its footer, or of a stream, one after the other, its schema too."""
    if has_footer:
        footer = _footer(file)
        for field in (2, 3):  # dictionaries, record batches
            for place, metadata_bytes, _, body_bytes in footer.vector(field, _BLOCKS).tolist():
                yield _Message(place, metadata_bytes, body_bytes)
        return
    place = 0
    while (prefix := _prefix(_at(file, place, 8)))[1]:
        metadata_bytes = sum(prefix)
        body_bytes = _metadata(_at(file, place, metadata_bytes)).number(3, "<q")
        if body_bytes < 0:
            raise ValueError(body_bytes)
        yield _Message(place, metadata_bytes, body_bytes)
        place += metadata_bytes + body_bytes


def _footer(file: Any) -> _Table:
    end = file.size() - len(FILE_MAGIC) - 4
    n = _number(_at(file, end, 4), 0, "<i")
    return _root(_at(file, end - n, n))


def _prefix(data: bytes) -> tuple[int, int]:
    """Return the bytes before a message's metadata, and of them; (0, 0) at the end. Old writers wrote no first
    four."""
    if len(data) < 4:
        return 0, 0
    first = _number(data, 0)
    return (8, _number(data, 4)) if first == _CONTINUES else (4, first)


def _metadata(data: bytes) -> _Table:
    """Return what a message says of itself. data: its bytes, from its prefix on."""
    before, n = _prefix(data)
    return _root(data[before : before + n])


def _described(file: Any, message: _Message) -> tuple[int, int, int]:
    """Return a message's kind, the bytes of its body unpacked, and how many buffers were looked at for that."""
    described = _metadata(_at(file, message.place, message.metadata_bytes))
    kind = described.number(1, "<B")
    if kind not in (_DICTIONARY, _RECORD_BATCH):
        return kind, 0, 0
    batch = described.table(2) if kind == _RECORD_BATCH else described.table(2).table(1)
    if not batch.place(3):
        return kind, message.body_bytes, 0
    body, unpacked = message.place + message.metadata_bytes, 0
    buffers = batch.vector(2, _BUFFERS).tolist()
    for offset, length in buffers:
        if length >= 8:  # the size comes first; -1 says that it is not compressed
            size = _number(_at(file, body + offset, 8), 0, "<q")
            unpacked += length if size < 0 else size
    return kind, unpacked, len(buffers)


_AS_BYTES = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}


def use_system_memory() -> None:
    """Let pyarrow take memory from the C library, which gives it back; its own pools keep what they freed. (As
    the package does when it is loaded before pyarrow, and then for all that pyarrow holds.)"""
    pa.set_memory_pool(pa.system_memory_pool())


def refer_to_others(schema: pa.Schema) -> tuple[int, ...]:
    """Return the columns whose values are found by other values: offsets of text and lists, codes of categories."""
    return tuple(i for i, type_ in enumerate(schema.types) if not stands_alone(type_))


def stands_alone(type_: pa.DataType) -> bool:
    """Return whether all values of the type have one size, each in its place."""
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
