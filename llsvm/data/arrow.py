"""Arrow IPC files (Feather) and streams, record batch by record batch."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa

from llsvm.data.arrow_memory import (
    FILE_MAGIC,
    description_bytes,
    holds_rows,
    refer_to_others,
    sizes_of,
    validate,
)
from llsvm.data.table import TableSource
from llsvm.errors import DataError
from llsvm.features.columns import are_plain_numbers, has_values
from llsvm.features.table_options import listed
from llsvm.files.fingerprint import RECORD_BATCHES, Checksum, Reading
from llsvm.files.inputs import open_seekable
from llsvm.files.remote import is_remote
from llsvm.memory.budget import has_room, require_room

_DESCRIBING = 6  # held for each byte of a footer or schema; measured
_COLUMN_BYTES = 3_000  # held for each column, however small; measured
_SCHEMA_BYTES = 1 << 20
_OLD_FEATHER_MAGIC = b"FEA1"


class ArrowSource(TableSource):
    """Files in Arrow's file format (Feather version 2) or streaming format."""

    format = "arrow"
    types_in_files = True
    magic = FILE_MAGIC
    _held_bytes = 0  # at least; not known yet
    no_footer = ("Not an Arrow file", "File is too small", "File is smaller than")

    def _schema(self, number: int) -> pa.Schema:
        with self._opened(number) as (reader, _):
            return reader.schema

    def _has_rows(self, number: int) -> bool:
        with open_seekable(self._paths[number]) as file:
            return holds_rows(file, file.read(len(FILE_MAGIC)) == FILE_MAGIC)

    def _without_values(self) -> set[str]:
        """Return the columns without values, by a file's rows, up to the first value; none where there is no room
        to read them: the budget will say so."""
        empty = {field.name for field in self._schema(0) if are_plain_numbers(field.type)}
        if not empty or not has_room(self._bytes_of(0)):
            return set()
        for batch in self._batches(0, sorted(empty), 1 << 16, 1 << 20):
            empty -= {name for name in empty if has_values(batch.column(name))}
            if not empty:
                break
        return empty

    def _reader_bytes(self) -> int:
        """Return the bytes held while reading: a record batch is read whole, and is held while the next one is
        read."""
        if self._held_bytes == 0:
            self._held_bytes = max(self._bytes_of(number) for number in range(len(self._paths)))
        return self._held_bytes

    def _bytes_of(self, number: int) -> int:
        """Return the bytes held of a file; of remote ones all are taken to be as the first."""
        path = self._paths[number]
        if number > 0 and is_remote(path):
            return 0
        with self._explaining(number), open_seekable(path) as file:
            has_footer = file.read(len(FILE_MAGIC)) == FILE_MAGIC
            stored, batch, dictionaries = sizes_of(file, has_footer)
            describing = _DESCRIBING * description_bytes(file, has_footer)
            columns = len(self._schema(number))
        packed = stored if batch > stored else 0
        return (4 << 20) + _COLUMN_BYTES * columns + 2 * batch + packed + dictionaries + describing

    def _batches(
        self, number: int, names: list[str], max_rows: int, max_bytes: int, reading: Reading | None = None
    ) -> Iterator[pa.RecordBatch]:
        with self._opened(number, names) as (reader, seekable):
            counted, dictionaries = 0, dict[int, pa.Array]()
            for i in itertools.count():
                batch = self._batch(number, reader, i, seekable)
                if batch is None:
                    break
                if reading is not None:
                    reading.add_chunk(_checksum(batch, dictionaries), RECORD_BATCHES)
                n = max(batch.num_rows, 1)
                share = (
                    self._prints[number][0] * (i + 1) // reader.num_record_batches if seekable else counted
                )
                self.bytes_read += share - counted
                counted = share
                step = max(1, min(max_rows, max_bytes * n // max(batch.nbytes, 1)))
                for start in range(0, batch.num_rows, step):
                    yield batch.select(names).slice(start, step)
                del batch
            self.bytes_read += self._prints[number][0] - counted
            if reading is not None:
                self._fingerprints[number] = reading.finish(self._prints[number][0])

    def _batch(self, number: int, reader: Any, i: int, seekable: bool) -> Any:
        """Record batch ``i``, checked; of a stream the next one. None after the last."""
        try:
            if seekable and i == reader.num_record_batches:
                return None
            batch = reader.get_batch(i) if seekable else next(iter(reader), None)
            if batch is not None:
                validate(batch, refer_to_others(batch.schema))
                if batch.num_rows > 8 * max(batch.nbytes, self._prints[number][0]):  # not even a bit for each
                    raise pa.ArrowInvalid(f"{batch.num_rows:,} rows in {batch.nbytes:,} bytes")
            return batch
        except (pa.ArrowException, OSError) as error:
            self._refuse_damage(number, f"record batch {i}", error)

    @contextmanager
    def _opened(self, number: int, names: list[str] | None = None) -> Iterator[tuple[Any, bool]]:
        """Open a reader, of the columns ``names`` or of all, and whether it reads batches in any order."""
        file = open_seekable(self._paths[number])
        try:
            start = file.read(len(FILE_MAGIC))
            file.seek(0)
            if start.startswith(_OLD_FEATHER_MAGIC):
                raise DataError(
                    f"{self._paths[number]}: Feather version 1, which is not read any more; write it again "
                    "(pyarrow.feather.write_feather writes version 2)"
                )
            seekable = start == FILE_MAGIC
            require_room(self._paths[number], _DESCRIBING * description_bytes(file, seekable))
            file.seek(0)
            open_ipc = pa.ipc.open_file if seekable else pa.ipc.open_stream
            try:
                reader = open_ipc(file)
            except TypeError as error:  # of the library that a column's type is of: pandas' intervals, say
                file.seek(0)
                names = _categories_of_pandas(file.read(_SCHEMA_BYTES))
                which = f"column {names[0]}" if len(names) == 1 else "a column"
                among = f" (one of {listed(names)})" if len(names) > 1 else ""
                raise DataError(
                    f"{self._paths[number]}: {which}{among} has a type of another library, as the intervals of "
                    f"pandas.cut are, which cannot read it ({error}); write that column as text (pandas: "
                    "column.astype(str))"
                ) from error
            if names is not None:
                file.seek(0)
                places = sorted(map(reader.schema.get_field_index, names))
                reader = open_ipc(
                    file, options=pa.ipc.IpcReadOptions(included_fields=places, use_threads=False)
                )
            yield reader, seekable
        finally:
            file.close()


def _categories_of_pandas(start: bytes) -> list[str]:
    """Return the columns of categories by what pandas says of a frame in the schema, which stands first in a
    file."""
    position = start.find(b'{"index_columns"')
    metadata: Any = {}
    with suppress(ValueError, RecursionError):
        metadata, _ = json.JSONDecoder().raw_decode(start[max(position, 0) :].decode("utf-8", "replace"))
    columns = metadata.get("columns", ()) if isinstance(metadata, dict) else ()
    return [
        str(each.get("name"))
        for each in columns
        if isinstance(each, dict) and each.get("pandas_type") == "categorical"
    ]


def _checksum(batch: pa.RecordBatch, dictionaries: dict[int, pa.Array]) -> int:
    """Return the checksum of a batch's buffers. dictionaries: those taken in last, by column, for batches share
    them; they are held, so that no other dictionary gets the same address."""
    checksum = Checksum()
    for i, column in enumerate(batch.columns):
        buffers = column.buffers()
        if pa.types.is_dictionary(column.type):
            before = dictionaries.get(i)
            if before is None or _addresses(before) != _addresses(column.dictionary):
                dictionaries[i] = column.dictionary
                buffers += column.dictionary.buffers()
        for buffer in buffers:
            if buffer is not None:
                checksum.add(buffer)
    return checksum.value


def _addresses(values: pa.Array) -> list[int]:
    return [0 if buffer is None else buffer.address for buffer in values.buffers()]
