"""Parquet, row group by row group, each in slices, so that the size of row groups does not matter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from llsvm.inputs import open_seekable
from llsvm.remote import is_remote
from llsvm.tables.source import TableSource

_BUFFER_BYTES = 1 << 16  # of a column's file bytes; 0 would read a column of a row group at once
_REMOTE_BUFFER_BYTES = 1 << 20  # there each is a request of its own, which takes tens of milliseconds
_PAGE_BYTES = 1 << 20  # what writers put into a page by default
_METADATA = 10  # held for each byte of the footer; measured
_COLUMN_BYTES = 10_000  # held for each column that is read, however small; measured
_PAGES = 2.5  # held per column: compressed, decompressed, dictionary; measured


class ParquetSource(TableSource):
    """Files of Parquet."""

    format = "parquet"
    magic = b"PAR1"
    no_footer = ("magic bytes not found", "file size is", "Parquet file size")

    def _schema(self, number: int) -> pa.Schema:
        with _opened(self._paths[number]) as file:
            return file.schema_arrow

    def _reader_bytes(self) -> int:
        """Pages of each column, of the first file."""
        with _opened(self._paths[0]) as file:
            held, buffer = 0, _buffer_bytes(self._paths[0])
            used = set(self.encoder.used)
            for g in range(file.metadata.num_row_groups):
                group = file.metadata.row_group(g)
                chunks = (group.column(i) for i in range(group.num_columns))
                sizes = (c.total_uncompressed_size for c in chunks if c.path_in_schema.split(".")[0] in used)
                held = max(held, sum(min(size, _PAGE_BYTES) + min(size, buffer) for size in sizes))
            describing = _METADATA * file.metadata.serialized_size
        return (16 << 20) + int(_PAGES * held) + describing + _COLUMN_BYTES * len(used)

    def _batches(
        self, number: int, names: list[str], max_rows: int, max_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        with _opened(self._paths[number]) as file:
            meta = file.metadata
            per_row = sum(meta.row_group(g).total_byte_size for g in range(meta.num_row_groups)) // max(
                meta.num_rows, 1
            )
            rows = max(16, min(max_rows, max_bytes // max(per_row, 1)))
            done, counted = 0, 0
            batches = file.iter_batches(rows, columns=names, use_threads=False)
            while True:
                try:
                    batch = next(batches, None)
                except (pa.ArrowException, OSError) as error:
                    self._refuse_damage(number, _place(meta, done, rows), error)
                if batch is None:
                    return
                done += batch.num_rows
                share = self._prints[number][0] * done // max(meta.num_rows, 1)
                self.bytes_read += share - counted
                counted = share
                yield batch


def _place(meta: Any, first: int, n_rows: int) -> str:
    """Some rows, and the row groups that they are in."""
    ends = np.cumsum([meta.row_group(g).num_rows for g in range(meta.num_row_groups)])
    last = min(first + n_rows, meta.num_rows)
    groups = np.searchsorted(ends, [first, last - 1], "right").tolist()
    named = f"row group {groups[0]}" if groups[0] == groups[1] else f"row groups {groups[0]} to {groups[1]}"
    return f"{named}, rows {first + 1:,} to {last:,}"


def _opened(path: str) -> Any:
    return pq.ParquetFile(
        open_seekable(path),
        pre_buffer=False,
        buffer_size=_buffer_bytes(path),
        memory_map=False,
        page_checksum_verification=True,
    )


def _buffer_bytes(path: str) -> int:
    return _REMOTE_BUFFER_BYTES if is_remote(path) else _BUFFER_BYTES
