"""Parquet, row group by row group, each in slices, so that the size of row groups does not matter."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as types

from llsvm.data.arrow_memory import refer_to_others, stands_alone, validate
from llsvm.data.parquet_pages import (
    LENGTHS_BYTES,
    dictionary_bytes,
    first_byte,
    has_prefixes,
    largest_page_bytes,
    longest_text,
)
from llsvm.data.table import TableSource
from llsvm.features.columns import are_plain_numbers
from llsvm.files.file_objects import Seekable
from llsvm.files.fingerprint import ROW_GROUPS, Checksum, Reading
from llsvm.files.inputs import open_binary, open_seekable
from llsvm.files.remote import is_remote
from llsvm.memory.budget import require_room
from llsvm.process.threads import prefetched

_BUFFER_BYTES = 1 << 16  # of a column's file bytes; 0 would read a column of a row group at once
_REMOTE_BUFFER_BYTES = 1 << 20  # there each is a request of its own, which takes tens of milliseconds
_STORED_BYTES = 1 << 17  # read together for their checksum: they stay in the processor's cache
_PAGE_BYTES = 1 << 20  # what writers put into a page by default
_FIRST_PAGES = 2  # that are looked at, of a column: a dictionary, and values
_VARYING_PAGES = 1000  # of all columns of text and lists, of which any page may be a long one, or dictionary
_METADATA = 10  # held for each byte of the footer; measured
_COLUMN_BYTES = 10_000  # held for each column that is read, however small; measured
_PAGES = 2.5  # held per column: compressed, decompressed, dictionary; measured
_CATEGORY_PAGES = 5.5  # of one that comes as a dictionary and codes; measured
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}  # of values, decoded
_LEVEL_BYTES = 2  # more for each value of a list
_TEXTS_BYTES = 4 << 20  # of the longest texts of dictionaries, each once in every row of a batch
_MIN_ROWS = 16  # of a batch, but of long lists and texts
_TEXT_COPIES = 8  # of the texts of one row: decoded, as a category, in Python; measured


class ParquetSource(TableSource):
    """Files of Parquet."""

    format = "parquet"
    types_in_files = True
    magic = b"PAR1"
    _held_bytes = 0  # not known yet
    _described_together = 16  # each holds pages
    _longest: tuple[tuple[Any, ...], dict[str, int]] = ((), {})  # texts of columns that were asked for last
    no_footer = ("magic bytes not found", "file size is", "Parquet file size")

    def _schema(self, number: int) -> pa.Schema:
        with _opened(self._paths[number]) as file:
            return file.schema_arrow

    def _has_rows(self, number: int) -> bool:
        with _opened(self._paths[number]) as file:
            return bool(file.metadata.num_rows)

    def _without_values(self) -> set[str]:
        """Return the columns without values, by the statistics of row groups; of columns that have none, nothing is
        known."""
        with _opened(self._paths[0]) as file:
            meta, schema = file.metadata, file.schema_arrow
            names = {field.name for field in schema if are_plain_numbers(field.type)}
            _require_column_metadata(meta, self._prints[0][0], sorted(names))
            return {name for i, name in _places(meta, names).items() if _is_empty(meta, i)}

    def _reader_bytes(self) -> int:
        if self._held_bytes == 0:
            names = [name for name in self.encoder.used if name not in self._partitions[0]]
            used = set(self._stored_names(0, names))
            with self._explaining(0), _opened(self._paths[0]) as file:
                self._held_bytes = self._bytes_of(0, file, used)
        return self._held_bytes

    def _rows(self, meta: Any, names: Collection[str], texts: int, max_rows: int, max_bytes: int) -> int:
        """Return the number of rows of a batch. texts: bytes of the longest texts of a row."""
        places, rows = _places(meta, names), max_rows
        for g in range(meta.num_row_groups):
            n_bytes = sum(_decoded_bytes(meta, g, i) for i in places)
            if n_bytes > max_bytes:
                rows = min(rows, max_bytes * meta.row_group(g).num_rows // n_bytes)
        lists = any(_value_bytes(meta.schema.column(i)) for i in places)
        rows = min(max_rows, max(rows, 1 if lists else _MIN_ROWS))
        return max(1, min(rows, max(max_bytes, _TEXTS_BYTES) // max(texts, 1)))

    def _longest_texts(self, number: int, file: Any, names: Sequence[str], rows: int) -> dict[str, int]:
        """Return the bytes of the longest text in dictionaries, or without its prefix, by column, of those with
        texts that might take much room in so many rows."""
        if is_remote(self._paths[number]):
            return {}
        if self._longest[0] != (number, rows, *names):
            longest = _longest_texts(self._paths[number], file, names, rows)
            self._longest = (number, rows, *names), longest
        return self._longest[1]

    def _bytes_of(self, number: int, file: Any, used: Collection[str], coded: Collection[str] = ()) -> int:
        """Return the bytes held while the columns ``used`` of a file are read: pages of each, and what describes
        them. coded: those that are read as dictionaries though they are not written so."""
        path, metadata, schema = self._paths[number], file.metadata, file.schema_arrow
        places, buffer, held = _places(metadata, used), _buffer_bytes(path), 0.0
        _require_column_metadata(metadata, self._prints[number][0], sorted(used))
        kinds = [schema.field(name).type for name in places.values()]
        varying = [not stands_alone(kind) and not is_remote(path) for kind in kinds]  # else a request each
        looked_at = max(_FIRST_PAGES, _VARYING_PAGES // max(sum(varying), 1))
        with open_seekable(path) as raw:
            pages = [
                _largest_page_bytes(raw, metadata, i, looked_at * varies)
                for i, varies in zip(places, varying, strict=True)
            ]
        copies = [
            _page_copies(kind, page, name in coded)
            for kind, page, name in zip(kinds, pages, places.values(), strict=True)
        ]
        for g in range(metadata.num_row_groups):
            sizes = [_decoded_bytes(metadata, g, i) for i in places]
            parts = zip(sizes, pages, copies, strict=True)
            held = max(held, sum(n * (min(size, page) + min(size, buffer)) for size, page, n in parts))
        return (16 << 20) + int(held) + _METADATA * metadata.serialized_size + _COLUMN_BYTES * len(used)

    @property
    def _only_analysed(self) -> tuple[str, ...]:
        """Columns of documents that nobody looks at before they are analysed."""
        if self._kept_columns or self._choice.changes_rows or self.encoder.documents is None:
            return ()
        return self.encoder.documents.names

    def _batches(
        self, number: int, names: list[str], max_rows: int, max_bytes: int, reading: Reading | None = None
    ) -> Iterator[pa.RecordBatch]:
        with ExitStack() as opened:
            file = opened.enter_context(_opened(self._paths[number]))
            meta = file.metadata
            longest, coded = 0, list[str]()
            if not is_remote(self._paths[number]):
                require_room(self._paths[number], self._bytes_of(number, file, names))
                texts = self._longest_texts(number, file, names, max_rows)
                if reading is not None:  # for the encoder, which takes codes
                    coded = [
                        name for name in texts if name in self._choice.coded(self.encoder, self._kept_columns)
                    ]
                    coded = [name for name in coded if not _any_prefixes(meta, *_places(meta, [name]))]
                longest = sum(n for name, n in texts.items() if name not in coded)
                held = self._bytes_of(number, file, names, coded) + _TEXT_COPIES * sum(texts.values())
                require_room(self._paths[number], held)
                self._held_bytes = max(self._held_bytes, held if number > 0 or texts else 0)
            if coded:
                file = opened.enter_context(_opened(self._paths[number], coded))
            rows = self._rows(meta, names, longest, max_rows, max_bytes)
            done, counted = 0, 0
            batches = prefetched(file.iter_batches(rows, columns=names, use_threads=False), self._threads > 1)
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
                        mismatch = ValueError(f"{done:,} rows, and {meta.num_rows:,} by its footer")
                        self._refuse_damage(number, "", mismatch)
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
        self._columns = _places(meta, names)
        self._group = self._end = 0  # the next one, and the rows before it
        self._buffer = bytearray(_STORED_BYTES)

    def take_in(self, n_rows: int) -> None:
        """Take in all row groups that end within the first ``n_rows`` rows. Raises DataError."""
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


def _ranges(group: Any, columns: Collection[int]) -> list[list[int]]:
    """Return the ranges [begin, end) of the columns' bytes in the file, in order; those side by side are one."""
    ranges: list[list[int]] = []
    for column in sorted(map(group.column, columns), key=first_byte):
        begin = first_byte(column)
        end = begin + column.total_compressed_size
        if ranges and ranges[-1][1] == begin:
            ranges[-1][1] = end
        else:
            ranges.append([begin, end])
    return ranges


def _is_empty(metadata: Any, column: int) -> bool:
    """Return whether the statistics of all row groups say that a column has no value."""
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(column)
        statistics = chunk.statistics
        if statistics is None or statistics.null_count != chunk.num_values:
            return False
    return True


def _value_bytes(column: Any) -> int:
    """Return the bytes of a decoded value of a column of lists; 0 for other columns, whose rows bound them. column:
    of the schema."""
    return _WIDTHS.get(column.physical_type, 0) + _LEVEL_BYTES if column.max_repetition_level else 0


def _decoded_bytes(metadata: Any, group: int, column: int) -> int:
    """Return the least number of bytes that a column of a row group has when decoded, by what its footer says."""
    chunk = metadata.row_group(group).column(column)
    return max(chunk.total_uncompressed_size, chunk.num_values * _value_bytes(metadata.schema.column(column)))


def _any_prefixes(metadata: Any, column: int) -> bool:
    """Return whether a column has texts without the prefixes that they share, in any row group."""
    groups = range(metadata.num_row_groups)
    return any(has_prefixes(metadata.row_group(g).column(column)) for g in groups)


def _is_text(kind: pa.DataType) -> bool:
    """Return whether a column of that type is text that comes as it is, and not as a dictionary and codes."""
    return kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def _page_copies(kind: pa.DataType, page_bytes: int, coded: bool) -> float:
    """Return how often the bytes of a page are held while a column of type ``kind`` is read. coded: it is read as a
    dictionary though it is not written so."""
    if _is_text(kind) and page_bytes > _TEXTS_BYTES:  # it may be one text
        return _TEXT_COPIES
    return _CATEGORY_PAGES if types.is_dictionary(kind) or coded else _PAGES


def _longest_texts(path: str, file: Any, names: Sequence[str], rows: int) -> dict[str, int]:
    """Return the bytes of the longest text by column; see ``ParquetSource._longest_texts``. Dictionaries and shared
    prefixes that take no room in ``rows`` rows, even if they are one text, are left out."""
    metadata, schema, longest = file.metadata, file.schema_arrow, dict[str, int]()
    texts = [(i, name) for i, name in _places(metadata, names).items() if _is_text(schema.field(name).type)]
    often = min(rows, metadata.num_rows) * len(texts)  # a batch may be of several row groups
    with open_seekable(path) as raw:
        for i, name in texts:
            optional = metadata.schema.column(i).max_definition_level > 0
            chunks = [metadata.row_group(g).column(i) for g in range(metadata.num_row_groups)]
            sizes = [chunk.total_uncompressed_size for chunk in chunks]
            for g in np.argsort(sizes)[::-1][: _VARYING_PAGES // len(texts)].tolist():
                chunk = chunks[g]
                if has_prefixes(chunk):
                    if sizes[g] * often > _TEXTS_BYTES:
                        longest[name] = max(longest.get(name, 0), longest_text(raw, chunk, optional))
                    continue
                nbytes = dictionary_bytes(raw, chunk)
                if nbytes * often > _TEXTS_BYTES and nbytes > longest.get(name, 0):
                    require_room(path, int(_CATEGORY_PAGES * nbytes))
                    nbytes = _longest_text(path, metadata, g, name)
                    if nbytes * often > _TEXTS_BYTES:
                        longest[name] = max(longest.get(name, 0), nbytes)
    return longest


def _longest_text(path: str, metadata: Any, group: int, column: str) -> int:
    """Return the bytes of the longest text in the dictionary of a column of a row group; 0 where the reader will
    say what is wrong with it."""
    with open_seekable(path) as raw, suppress(pa.ArrowException, OSError, StopIteration):
        options = {"metadata": metadata, "pre_buffer": False, "buffer_size": _BUFFER_BYTES}
        file = pq.ParquetFile(raw, read_dictionary=[column], **options)
        texts = next(file.iter_batches(1, [group], [column], use_threads=False)).column(0)
        if types.is_dictionary(texts.type):
            return pc.max(pc.binary_length(texts.dictionary)).as_py() or 0
    return 0


def _places(meta: Any, names: Collection[str]) -> dict[int, str]:
    """Return the numbers of the columns ``names`` as they are stored, with the name of each: one that is nested is
    several, whose paths go on after a dot. As pyarrow finds them: a name may have dots of its own."""
    names, schema, places = frozenset(names), meta.schema, dict[int, str]()
    for i in range(len(schema)):
        for name in accumulate(schema.column(i).path.split("."), "{}.{}".format):
            if name in names:
                places[i] = name
                break
    return places


def _place(meta: Any, first: int, n_rows: int) -> str:
    """Return in words some rows, and the row groups that they are in."""
    ends = np.cumsum([meta.row_group(g).num_rows for g in range(meta.num_row_groups)])
    last = min(first + n_rows, meta.num_rows)
    groups = np.searchsorted(ends, [first, last - 1], "right").tolist()
    named = f"row group {groups[0]}" if groups[0] == groups[1] else f"row groups {groups[0]} to {groups[1]}"
    return f"{named}, rows {first + 1:,} to {last:,}"


def _opened(path: str, coded: Sequence[str] = ()) -> Any:
    """Open a file. coded: columns that are to be read as dictionaries."""
    file = open_seekable(path)
    if not is_remote(path):  # there it would be one more request
        file.seek(max(file.size() - 8, 0))
        end = file.read(8)
        if end[4:] == ParquetSource.magic:  # else the file is cut off, and the four bytes are no length
            require_room(path, _METADATA * min(int.from_bytes(end[:4], "little"), file.size()))
        file.seek(0)
    return pq.ParquetFile(
        file,
        pre_buffer=False,
        buffer_size=_buffer_bytes(path),
        read_dictionary=list(coded),
        memory_map=False,
        page_checksum_verification=True,
    )


def _require_column_metadata(metadata: Any, n_bytes: int, names: list[str]) -> None:
    """Raise pyarrow's error for damaged metadata of the columns ``names`` in any row group.

    ``RowGroupMetaData.column`` ends the process instead. Who asks for all columns to be read ahead has their
    metadata looked at first, with errors as errors; of a file that gives no byte away, nothing is read after that.
    """
    file = _NoBytes(n_bytes)
    reader = pq.ParquetFile(pa.PythonFile(file, "r"), metadata=metadata, pre_buffer=True)
    try:
        next(reader.iter_batches(1, columns=names), None)
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
    """Return the bytes of the largest page of a column, unpacked: by its first pages, for all are alike, as writers
    are told to make them; for text and lists, as a long one may be anywhere, by ``varying`` pages of those row
    groups that have most of it."""
    groups = [metadata.row_group(g).column(column) for g in range(metadata.num_row_groups)]
    groups.sort(key=lambda group: -group.total_uncompressed_size)
    largest, left = _PAGE_BYTES, varying or _FIRST_PAGES
    value_bytes = _value_bytes(metadata.schema.column(column))
    if _any_prefixes(metadata, column):
        value_bytes = max(value_bytes, LENGTHS_BYTES)
    for group in groups if varying else groups[:1]:
        largest, looked_at = largest_page_bytes(file, group, largest, left, value_bytes)
        left -= looked_at
    return largest


def _buffer_bytes(path: str) -> int:
    return _REMOTE_BUFFER_BYTES if is_remote(path) else _BUFFER_BYTES
