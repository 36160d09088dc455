"""Parquet, row group by row group, each in slices, so that the size of row groups does not matter."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as types

from llsvm.data.arrow_check import refer_to_others, stands_alone, validate
from llsvm.data.parquet_pages import largest_page_bytes
from llsvm.data.table import TableSource
from llsvm.files.fingerprint import ROW_GROUPS, Checksum, Reading
from llsvm.files.inputs import open_binary, open_seekable
from llsvm.files.remote import is_remote
from llsvm.files.seekable import Seekable
from llsvm.memory.opening import require_room
from llsvm.process.threads import ahead

_BUFFER_BYTES = 1 << 16  # of a column's file bytes; 0 would read a column of a row group at once
_REMOTE_BUFFER_BYTES = 1 << 20  # there each is a request of its own, which takes tens of milliseconds
_STORED_BYTES = 1 << 17  # read together for their checksum: they stay in the processor's cache
_PAGE_BYTES = 1 << 20  # what writers put into a page by default
_FIRST_PAGES = 2  # that are looked at, of a column: a dictionary, and values
_VARYING_PAGES = 1000  # of all columns of text and lists, of which any page may be a long one
_METADATA = 10  # held for each byte of the footer; measured
_COLUMN_BYTES = 10_000  # held for each column that is read, however small; measured
_PAGES = 2.5  # held per column: compressed, decompressed, dictionary; measured
_CATEGORY_PAGES = 5.5  # of one that comes as a dictionary and codes; measured


class ParquetSource(TableSource):
    """Files of Parquet."""

    format = "parquet"
    magic = b"PAR1"
    _held_bytes = 0  # not known yet
    _described_together = 16  # each holds pages
    no_footer = ("magic bytes not found", "file size is", "Parquet file size")

    def _schema(self, number: int) -> pa.Schema:
        with _opened(self._paths[number]) as file:
            return file.schema_arrow

    def _reader_bytes(self) -> int:
        if self._held_bytes == 0:
            used = {name for name in self.encoder.used if name not in self._partitions[0]}
            with self._explaining(0), _opened(self._paths[0]) as file:
                self._held_bytes = self._bytes_of(0, file, used)
        return self._held_bytes

    def _bytes_of(self, number: int, file: Any, used: Collection[str]) -> int:
        """Held while the columns ``used`` of a file are read: pages of each, and what describes them."""
        path, metadata, held, buffer = (
            self._paths[number],
            file.metadata,
            0.0,
            _buffer_bytes(self._paths[number]),
        )
        places = _places(metadata, used)
        _require_column_metadata(metadata, self._prints[number][0], sorted(used))
        schema, stored = file.schema_arrow, metadata.schema  # each made anew, of all columns, when asked for
        kinds = [schema.field(stored.column(i).path.split(".")[0]).type for i in places]
        varying = [not stands_alone(kind) and not is_remote(path) for kind in kinds]  # else a request each
        looked_at = max(_FIRST_PAGES, _VARYING_PAGES // max(sum(varying), 1))
        with open_seekable(path) as raw:
            pages = [
                _largest_page_bytes(raw, metadata, i, looked_at * varies)
                for i, varies in zip(places, varying, strict=True)
            ]
        copies = [_CATEGORY_PAGES if types.is_dictionary(kind) else _PAGES for kind in kinds]
        for g in range(metadata.num_row_groups):
            sizes = [metadata.row_group(g).column(i).total_uncompressed_size for i in places]
            parts = zip(sizes, pages, copies, strict=True)
            held = max(held, sum(n * (min(size, page) + min(size, buffer)) for size, page, n in parts))
        return (16 << 20) + int(held) + _METADATA * metadata.serialized_size + _COLUMN_BYTES * len(used)

    @property
    def _only_analysed(self) -> tuple[str, ...]:
        """Columns of documents that nobody looks at before they are analysed."""
        if self._kept or self._choice.changes_rows or self.encoder.documents is None:
            return ()
        return self.encoder.documents.names

    def _batches(
        self, number: int, names: list[str], max_rows: int, max_bytes: int, reading: Reading | None = None
    ) -> Iterator[pa.RecordBatch]:
        with ExitStack() as opened:
            file = opened.enter_context(_opened(self._paths[number]))
            meta = file.metadata
            if not is_remote(self._paths[number]):
                held = self._bytes_of(number, file, names)
                require_room(self._paths[number], held)
                self._held_bytes = max(self._held_bytes, held if number > 0 else 0)
            per_row = sum(meta.row_group(g).total_byte_size for g in range(meta.num_row_groups)) // max(
                meta.num_rows, 1
            )
            rows = max(16, min(max_rows, max_bytes // max(per_row, 1)))
            done, counted = 0, 0
            batches = ahead(file.iter_batches(rows, columns=names, use_threads=False), self._threads > 1)
            opened.callback(batches.close)
            checked = None
            documents = () if reading is None else self._only_analysed
            groups = None
            if reading is not None and not is_remote(self._paths[number]):
                groups = _StoredGroups(self._paths[number], meta, names, reading)
            while True:
                try:
                    batch = next(batches, None)
                    if batch is not None:
                        checked = refer_to_others(batch.schema) if checked is None else checked
                        validate(batch, checked, documents)  # text need not be UTF-8
                except (pa.ArrowException, OSError) as error:
                    self._refuse_damage(number, _place(meta, done, rows), error)
                if groups is not None:
                    groups.take_in(done if batch is not None else meta.num_rows)
                if batch is None:
                    if done != meta.num_rows:
                        found = ValueError(f"{done:,} rows, and {meta.num_rows:,} by its footer")
                        self._refuse_damage(number, "", found)
                    break
                done += batch.num_rows
                share = self._prints[number][0] * done // max(meta.num_rows, 1)
                self.bytes_read += share - counted
                counted = share
                yield batch
            if reading is not None and groups is not None:
                self._fingerprints[number] = reading.finish(self._prints[number][0])


class _StoredGroups:
    """Shows a reading the stored bytes of row groups, of some columns, once their rows have been handed out: they
    are in the system's memory then. (As a file of ours that pyarrow reads from, it would take several times as
    long.)"""

    def __init__(self, path: str, meta: Any, names: Sequence[str], reading: Reading) -> None:
        self._path, self._meta, self._reading = path, meta, reading
        self._columns = _places(meta, set(names))
        self._group = self._end = 0  # the next one, and the rows before it
        self._buffer = bytearray(_STORED_BYTES)

    def take_in(self, n_rows: int) -> None:
        """All row groups that end within the first ``n_rows`` rows. Raises DataError."""
        while self._group < self._meta.num_row_groups:
            group = self._meta.row_group(self._group)
            if self._end + group.num_rows > n_rows:
                return
            self._end += group.num_rows
            self._group += 1
            self._reading.add_chunk(self._checksum(group), ROW_GROUPS)

    def _checksum(self, group: Any) -> int:
        checksum = Checksum()
        with open_binary(self._path) as file:
            for begin, end in _ranges(group, self._columns):
                while begin < end:
                    got = os.preadv(file.fileno(), [memoryview(self._buffer)[: end - begin]], begin)
                    if got == 0:
                        break  # it has been cut off meanwhile, as will be found
                    checksum.add(memoryview(self._buffer)[:got])
                    begin += got
        return checksum.value


def _ranges(group: Any, columns: Sequence[int]) -> list[list[int]]:
    """[begin, end) in the file of the columns' bytes, in order; those side by side are one."""
    found: list[list[int]] = []
    for column in sorted(map(group.column, columns), key=_first_byte):
        begin = _first_byte(column)
        end = begin + column.total_compressed_size
        if found and found[-1][1] == begin:
            found[-1][1] = end
        else:
            found.append([begin, end])
    return found


def _first_byte(column: Any) -> int:
    first = int(column.data_page_offset)
    return min(first, int(column.dictionary_page_offset)) if column.has_dictionary_page else first


def _places(meta: Any, names: Collection[str]) -> list[int]:
    """The numbers of the columns ``names`` as they are stored: one that is nested is several."""
    schema = meta.schema
    return [i for i in range(len(schema)) if schema.column(i).path.split(".")[0] in names]


def _place(meta: Any, first: int, n_rows: int) -> str:
    """Some rows, and the row groups that they are in."""
    ends = np.cumsum([meta.row_group(g).num_rows for g in range(meta.num_row_groups)])
    last = min(first + n_rows, meta.num_rows)
    groups = np.searchsorted(ends, [first, last - 1], "right").tolist()
    named = f"row group {groups[0]}" if groups[0] == groups[1] else f"row groups {groups[0]} to {groups[1]}"
    return f"{named}, rows {first + 1:,} to {last:,}"


def _opened(path: str) -> Any:
    file = open_seekable(path)
    if not is_remote(path):  # there it would be one more request
        file.seek(max(file.size() - 8, 0))
        require_room(path, _METADATA * int.from_bytes(file.read(4), "little"))
        file.seek(0)
    return pq.ParquetFile(
        file,
        pre_buffer=False,
        buffer_size=_buffer_bytes(path),
        memory_map=False,
        page_checksum_verification=True,
    )


def _require_column_metadata(metadata: Any, n_bytes: int, names: list[str]) -> None:
    """Raise pyarrow's error for damaged metadata of the columns ``names`` in any row group.

    ``RowGroupMetaData.column`` ends the process instead. Who asks for all columns to be read ahead has their
    metadata looked at first, with errors as errors; of a file that gives no byte away, nothing is read after that.
    """
    file = _NoBytes(n_bytes)
    ahead = pq.ParquetFile(pa.PythonFile(file, "r"), metadata=metadata, pre_buffer=True)
    try:
        next(ahead.iter_batches(1, columns=names), None)
    except (pa.ArrowException, OSError):
        if not file.asked:
            raise


class _NoBytes(Seekable):
    """A file that cannot be read; ``asked``: somebody tried."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.asked = False

    def size(self) -> int:
        return self._size

    def read(self, size: int = -1) -> bytes:
        self.asked = True
        return b""  # an error of ours would be kept by Arrow, with all that those who have called hold


def _largest_page_bytes(file: Any, metadata: Any, column: int, varying: int) -> int:
    """Of a column, unpacked: by its first pages, for all are alike, as writers are told to make them; of text and
    lists, as a long one may be anywhere, by ``varying`` pages of those row groups that have most of it."""
    groups = [metadata.row_group(g).column(column) for g in range(metadata.num_row_groups)]
    groups.sort(key=lambda group: -group.total_uncompressed_size)
    found, left = _PAGE_BYTES, varying or _FIRST_PAGES
    for group in groups if varying else groups[:1]:
        found, looked_at = largest_page_bytes(file, group, found, left)
        left -= looked_at
    return found


def _buffer_bytes(path: str) -> int:
    return _REMOTE_BUFFER_BYTES if is_remote(path) else _BUFFER_BYTES
