"""A table that comes in batches from the caller's own program, read as the files of tables are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, NoReturn

import pyarrow as pa

from llsvm.data.batches import Batches
from llsvm.data.source import SourceInfo
from llsvm.data.table import TableSource
from llsvm.data.table_columns import index_columns
from llsvm.data.text_meanings import first_words, more_columns
from llsvm.errors import DataError
from llsvm.features.encoder import TableEncoder
from llsvm.features.schema import check_as_first, without_column
from llsvm.features.table_options import TableOptions, own_names
from llsvm.files.fingerprint import Reading


class StreamedTable(TableSource):
    """See TableSource. batches: whose first, or schema, says which columns there are."""

    format = "arrays"

    def __init__(
        self,
        batches: Batches,
        options: TableOptions,
        encoder: TableEncoder | None = None,
        need_label: bool = True,
        lenient: bool = False,
        threads: int = 1,
    ) -> None:
        self._source = batches
        self._checked = pa.schema([])  # of the last batch whose types were looked at
        self._largest = 0 if batches.first is None else batches.first.nbytes
        super().__init__([batches.name], options, encoder, need_label, lenient, threads)

    def info(self) -> SourceInfo:
        """See TableSource."""
        info = replace(super().info(), n_bytes=None, rereadable=self._source.rereadable)
        return (
            info
            if self._source.rereadable
            else replace(info, describe=None, record_batches=None, columns=None)
        )

    def _schema(self, number: int) -> pa.Schema:
        return self._source.schema

    def _reader_bytes(self) -> int:
        """A batch is held while it is used, and the next one is made."""
        return (4 << 20) + self._source.library_bytes + 2 * self._largest

    def _widths(self, lists: list[str]) -> dict[str, int]:
        first = self._source.first
        if lists and not self._source.rereadable and first is not None:
            batch = next(self._of_first(lists))
            return {name: len(batch.column(name)[0].as_py() or ()) for name in lists}
        return super()._widths(lists)

    def _of_first(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        """The columns ``names`` of the first batch."""
        for batch in self._source.first.select(self._stored_names(0, names)).to_batches():
            yield self._by_names(0, batch, names)

    def _first_words(self, names: list[str]) -> Mapping[str, Collection[str]]:
        first = self._source.first
        if self._source.rereadable or first is None:
            return super()._first_words(names) if self._source.rereadable else {}
        return first_words(lambda some, *_: self._of_first(some), names, len(names) or 1, [{}])

    def _over_files(self, names: list[str], max_rows: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
        if self._source.rereadable:
            yield from super()._over_files(names, max_rows, max_bytes)
        elif self._source.first is not None:
            yield from self._of_first(names)

    def _batches(
        self, number: int, names: list[str], max_rows: int, max_bytes: int, reading: Reading | None = None
    ) -> Iterator[pa.RecordBatch]:
        for table in self._source.read(names):
            own = own_names(table.column_names, self._source.schema.names)
            back = {name: new for new, name in own.items()}
            table = table.rename_columns([back.get(name, name) for name in table.column_names])
            self._note_left_out(table.schema)
            if missing := [name for name in names if name not in table.column_names]:
                found = without_column(missing[0], "the first one", self._excludable())
                raise DataError(f"{self._source.name}: a batch {found}")
            part = table.select(names)
            self._largest = max(self._largest, part.nbytes)
            step = max(1, min(max_rows, max_bytes * part.num_rows // max(part.nbytes, 1)))
            yield from part.to_batches(max_chunksize=step)

    def _note_left_out(self, schema: pa.Schema) -> None:
        if self._predicting or self._options.features:
            return
        self._left_out.update(index_columns(schema))
        where = f"{self._source.name}: a later one"
        for sentence in more_columns(where, schema, "the first one", self._source.schema, self._left_out):
            self._note(sentence)

    def _check_batch(self, batch: pa.RecordBatch) -> None:
        if not batch.schema.equals(self._checked):
            where = f"{self._source.name}: a later one"
            check_as_first(where, batch.schema, "the first one", self.encoder, batch.schema.names, ())
            self._checked = batch.schema

    def _refuse_missing(self, number: int, name: str, row: int) -> NoReturn:
        if self._source.rereadable:
            super()._refuse_missing(number, name, row)
        raise DataError(
            f"{self._source.name}: column {name}: the value is missing in row {row + 1}; pass --missing zero or "
            f"--missing mean, or leave the column out (--exclude {name})"
        )

    def _print_of(self, path: str) -> tuple[int, int]:
        return 0, 0

    def _unchanged(self, number: int) -> AbstractContextManager[None]:
        return nullcontext()

    def _explain(self, number: int, error: Exception) -> NoReturn:
        raise DataError(f"{self._source.name}: {' '.join(str(error).split())}") from error


def streamed(batches: Batches, options: dict[str, Any], table: Any, **more: Any) -> StreamedTable:
    """options: the fields of TableOptions. table: what a model knows of its columns, or None. more: see
    TableSource."""
    encoder = None if table is None else TableEncoder.from_dict(table)
    return StreamedTable(batches, TableOptions(**options), encoder, **more)
