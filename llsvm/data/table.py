"""TableSource: what readers of tables share. A reader adds how a file of its format gives schema and batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from llsvm.block import Block
from llsvm.data.arrow_memory import use_system_memory
from llsvm.data.source import FILE_BYTES, ColumnsBatch, SourceInfo, cut, filled
from llsvm.data.table_columns import (
    LOOKED_AT_BYTES,
    LOOKED_AT_ROWS,
    as_written,
    coded_numbers,
    described,
    first_rows,
    first_unnamed_text,
    first_words,
    index_columns,
    index_left_out,
    meanings,
    missing_in,
    missing_value,
    more_columns,
    numbers_rows,
    plain_texts,
    refuse_cell,
    refuse_label_kind,
)
from llsvm.data.table_files import (
    TableFiles,
    codes_read_as_numbers,
    folders_of,
    partition_values,
    partly_given,
    with_partition,
)
from llsvm.data.table_rows import (
    RowChoice,
    bind,
    columns_of_expressions,
    compared_texts,
    pieces,
    spelled_types,
    texts_of,
    with_computed_label,
)
from llsvm.data.text_chunks import TextSource
from llsvm.errors import DataError
from llsvm.features.arrow_types import kind_of
from llsvm.features.column import LISTS
from llsvm.features.columns import MissingValues
from llsvm.features.encoder import TableEncoder
from llsvm.features.schema import check_as_first, plan, read_as
from llsvm.features.table_options import (
    KeptColumns,
    TableOptions,
    assign_roles,
    excluded,
    in_order,
    with_names,
    with_objects,
)
from llsvm.features.text.vectorizer import RowsAhead, renumbered, with_documents
from llsvm.files.fingerprint import FileFingerprint, Reading, of_all
from llsvm.files.inputs import STDIN
from llsvm.files.remote import library_bytes

# pyarrow's functions and readers, beyond the runtime that svmlight needs: measured 12 to 20 MB
LIBRARY_BYTES = 24_000_000
_MIN_ROWS, _MAX_ROWS = 16, 1 << 16  # of a batch
_ARROW_ROOM = 3  # bytes of a batch, its decoded columns and the rows made of it, per byte of its columns


class TableSource(TableFiles):
    """Files of one format, with the same columns, as one table; see BlockSource.

    paths: of the files, with the same columns.
    options: see TableOptions; None: as they are there by default.
    encoder: of a model, to read for prediction: its columns are found by name, and what else there is does not
        matter. None: one is made for the table, and learns.
    need_label: refuse a table without labels. lenient: leave out columns that cannot be features.
    threads: that parse, of a format whose reader does so itself; blocks do not depend on it.
    Raises DataError for files that cannot be read, or lack a column.
    """

    numbers_are_text = False
    """Whether the files have numbers as text, which may have more digits than floats."""
    _described_together = 1 << 30  # columns

    def __init__(
        self,
        paths: Sequence[str],
        options: TableOptions | None = None,
        encoder: TableEncoder | None = None,
        need_label: bool = True,
        lenient: bool = False,
        threads: int = 1,
    ) -> None:
        use_system_memory()
        self.bytes_read = 0
        self._options = options or TableOptions()
        super().__init__(paths, () if encoder is None else encoder.used)
        self._move_files_without_rows()
        self._n_bytes = None if STDIN in self._paths else sum(size for size, _ in self._prints)
        self._library_bytes = LIBRARY_BYTES + library_bytes(paths) + FILE_BYTES * len(paths)
        self._fingerprints: list[FileFingerprint | None] = [None] * len(self._paths)
        self._all_fingerprints: tuple[FileFingerprint, ...] | None = None  # once there are all
        self._file_rows: tuple[int, ...] | None = None
        folders = [folders_of(path) for path in self._paths]
        self._notes = partly_given(self._paths, folders) if encoder is None else []
        self._kept_columns: list[str] = []  # columns that are handed on as they are
        self._left_out: set[str] = set()  # columns of later files
        self._text_labels: bool | None = None
        used = None
        if encoder is not None:
            named = (*self._options.keep.names, self._options.weight or "")
            used = (*encoder.used, *named, *columns_of_expressions(self._options, encoder.label))
        self._partitions = partition_values(folders, used, self._options)
        self._need_label, self._lenient, self._threads = need_label, lenient, threads
        self._predicting = encoder is not None
        self._begin(encoder)
        self._first_schema = schema = self._full_schema(0)
        self._options = with_objects(self._options, schema.names, self._field_paths())
        self.encoder = known = self._planned(schema) if encoder is None else self._bound(schema, encoder)
        if known.documents is not None:
            known.documents.read_with(threads, self._options.encoding)
        self._partitions = partition_values(folders, used, self._options, texts_of(known))
        if encoder is None:
            known.categories.doubts.expect_of_folders(self._partitions[0])
            numbers = (c.name for c in known.columns if c.kind == "number" and c.name in self._partitions[0])
            self._notes += codes_read_as_numbers(self._paths, folders, numbers)
        self._kept_columns = in_order(self._paths[0], schema.names, *self._options.keep)
        self.bytes_read = 0  # what was looked at before does not count

    # -- a format says -----------------------------------------------------------------------------------

    def _begin(self, encoder: TableEncoder | None) -> None:
        """Prepare the source before any file is opened."""

    def _as_it_is(self, name: str) -> bool:
        """Return whether that column is only handed on, and so to be read as it is written."""
        return name in self._kept_columns and name not in self._choice.needed(self.encoder.used)

    @property
    def _groups_rows(self) -> bool:
        """Return whether columns are handed on for groups of rows, and not to be written."""
        return self._options.keep.option != KeptColumns().option

    def _handed_on(self, name: str, type_: pa.DataType) -> pa.DataType:
        """Return the type of a column that is handed on as it is. type_: as the schema has it."""
        return type_

    def _note(self, sentence: str) -> None:
        if sentence not in self._notes:
            self._notes.append(sentence)

    def _index(self, schema: pa.Schema) -> list[str]:
        """Return the columns that are the index of a data frame."""
        text = first_unnamed_text(schema)
        return index_columns(schema) + ([text] if text is not None and self._numbers_rows(text) else [])

    def _left_out_note(self, name: str) -> str:
        """Return what to say of a column of ``_index``."""
        return index_left_out(name)

    def _numbers_rows(self, name: str) -> bool:
        """Return whether the column numbers the rows; see ``numbers_rows``."""
        batches = self._over_files([name], LOOKED_AT_ROWS, LOOKED_AT_BYTES)
        return any(numbers_rows(batch.column(0)) for batch in islice(filter(len, batches), 1))

    def _unreadable(self) -> set[str]:
        """Return the columns of the first file that cannot be read, which nobody needs who does not ask for
        them."""
        return set()

    def _reader_bytes(self) -> int:
        """Return the bytes that the format's library holds beside a batch."""
        return 4 << 20

    # -- the table --------------------------------------------------------------------------------------

    def info(self) -> SourceInfo:
        """Return what is known of the table: rows and features once a pass is complete."""
        n_features = self.encoder.n_features if self._file_rows is not None or self.encoder.is_dense else None
        name = self._paths[0] if len(self._paths) == 1 else f"{self._paths[0]} ... ({len(self._paths)} files)"
        library, documents = self._library_bytes + self.encoder.nbytes, self.encoder.documents
        work, why = (0, ()) if documents is None else (documents.work_bytes, documents.notes)
        reader = max(self._reader_bytes(), 0 if documents is None else documents.reader_bytes)
        return SourceInfo(
            name=name,
            format=self.format,
            n_bytes=self._n_bytes,
            n_rows=None if self._file_rows is None else sum(self._file_rows),
            n_features=n_features,
            rereadable=self._n_bytes is not None,
            feature_names=None if n_features is None else self.encoder.feature_names,
            first_indicator=self.encoder.first_indicator,
            reader_bytes=library + work + reader,
            library_bytes=library,
            is_dense=self.encoder.is_dense,
            rounding=(self.encoder.rounding,),
            is_table=not any(c.kind in LISTS for c in self.encoder.columns),
            labelled=self.encoder.label is not None,
            fingerprints=self._all_fingerprints,
            file_rows=self._file_rows,
            notes=(*self._notes, *self.encoder.notes, *why),
            encoder=self.encoder,
            describe=self.describe,
            record_batches=None if self._choice.changes_rows else self.record_batches,
            columns=self.columns,
        )

    def schema(self) -> pa.Schema:
        """Return all columns of the first file."""
        return self._full_schema(0)

    def record_batches(self, max_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield the table as it is, all columns but the excluded ones, all files with the first one's types."""
        schema = self._full_schema(0)
        dropped = excluded(self._paths[0], schema.names, self._options)
        index = self._index(schema) if self.format == "csv" else ()
        schema = pa.schema([field for field in schema if field.name not in dropped], schema.metadata)
        has_begun = False
        for number, partition in enumerate(self._partitions):
            names = [name for name in schema.names if name not in partition]
            max_rows = int(np.clip(max_bytes // (8 * _ARROW_ROOM * len(names)), _MIN_ROWS, _MAX_ROWS))
            with self._unchanged(number), self._explaining(number):
                for batch in self._named(number, names, max_rows, max(max_bytes // _ARROW_ROOM, 1)):
                    columns = with_partition(batch, partition, schema.names).select(schema.names).columns
                    types = [column.type for column in columns]
                    if not has_begun and schema.types != types:  # CSV reads whole numbers as floats
                        schema = pa.schema(list(zip(schema.names, types, strict=True)), schema.metadata)
                    has_begun, table = True, pa.record_batch(columns, names=schema.names)
                    table = table if table.schema.equals(schema) else table.cast(schema)
                    yield as_written(table, schema.metadata, index, self.format == "csv")

    def describe(self) -> list[dict[str, Any]]:
        """Describe the first file's columns, by its first rows; see ``described``."""
        schema = self._full_schema(0)
        unread = self._unreadable() | set(self._partitions[0])
        names = [name for name in schema.names if name not in unread and self._paths[0] != STDIN]
        with self._explaining(0):
            batch = first_rows(partial(self._named, 0), names, self._described_together)
        return described(schema, batch, self._partitions, self.encoder)

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the rows, file after file; see BlockSource. To train on, blocks are filled with those of documents:
        every format hands out the same ones. Raises DataError."""
        blocks, documents = self._blocks(max_bytes), self.encoder.documents
        if documents is None or self._predicting:
            return blocks
        return filled(renumbered(blocks, documents, self.encoder.parts[2]), max_bytes)

    def _blocks(self, max_bytes: int) -> Iterator[Block]:
        row, ends, documents, columns = 0, [0], self.encoder.documents, Counter[str]()
        used = tuple(dict.fromkeys((*self.encoder.used, *self._kept_columns)))
        growth = 1 if documents is None else documents.begin()
        for number in range(len(self._paths)):
            with self._unchanged(number):
                read = self._read(number, max_bytes // growth, used, self._reading(number))
                for batch, rows_ahead in with_documents(read, documents):
                    block = self._encoded(number, batch, rows_ahead, row)
                    row += block.n_rows
                    if block.n_rows:
                        self._check_label_kind(number, block)
                        yield from cut(block, max_bytes)
                if self._predicting:
                    there = (f.name for f in self._full_schema(number) if not pa.types.is_null(f.type))
                    columns.update(dict.fromkeys(there, row - ends[-1]))
            ends.append(row)
        if documents is not None:
            documents.rest()
        if row == 0 and (self._need_label or not self._predicting):
            raise DataError(f"{self.info().name}: {self._choice.why_none}")
        if row == 0:
            fields = map(self._full_schema(0).field, self._kept_columns)
            types = [(field.name, self._handed_on(field.name, field.type)) for field in fields]
            yield self._choice.no_row(self.encoder, pa.schema(types))
        self._all_fingerprints = of_all(self._fingerprints)
        for sentence in self._choice.unknown(self.encoder, used, columns, row):
            self._note(f"{self.info().name}: {sentence}")
        if self._file_rows is None:
            self._file_rows = tuple(b - a for a, b in pairwise(ends))
            self.encoder.finish()

    def columns(self, wanted: Sequence[str], max_bytes: int) -> Iterator[ColumnsBatch]:
        """Yield the columns ``wanted`` in batches; see SourceInfo. Raises DataError."""
        for number in range(len(self._paths)):
            with self._unchanged(number):
                yield from self._read(number, _ARROW_ROOM * max_bytes, wanted, None)

    def _excludable(self) -> set[str]:
        """Return the columns that ``--exclude`` can leave out: features that nothing else needs, in training."""
        if self._predicting:
            return set()
        return {column.name for column in self.encoder.columns}.difference(self._choice.needed(()))

    def _read(
        self, number: int, max_bytes: int, used: Sequence[str], reading: Reading | None
    ) -> Iterator[ColumnsBatch]:
        """Yield the rows that count, of file ``number``."""
        path, partition, row = self._paths[number], self._partitions[number], 0
        needed, coded = self._choice.needed(used), self._choice.coded(self.encoder, self._kept_columns)
        names = [name for name in needed if name not in partition]
        if number > 0:
            schema = self._full_schema(number)
            check_as_first(path, schema, self._paths[0], self.encoder, names, self._excludable())
            if not self._predicting and not self._options.features:
                self._notes += more_columns(
                    path, schema, f"{self._paths[0]}, the first file,", self._first_schema, self._left_out
                )
        width = sum(c.width for c in self.encoder.columns) + len(self.encoder.crosses.crosses) + 8
        width += len(set(needed).difference(self.encoder.used))
        max_rows = int(np.clip(max_bytes // (8 * _ARROW_ROOM * width), _MIN_ROWS, _MAX_ROWS))
        with self._explaining(number):
            for batch in self._named(number, names, max_rows, max(max_bytes // _ARROW_ROOM, 1), reading):
                self._check_batch(batch)
                batch = with_partition(batch, partition, needed)
                for piece in pieces(batch, coded, max_bytes, path, row):
                    rows, places = self._choice.chosen(piece, path, row)
                    yield ColumnsBatch(rows, path, row, places)
                    row += piece.num_rows

    def _check_batch(self, batch: pa.RecordBatch) -> None:
        """Raise DataError where a format's batches may have other types than its schema says, and this one's cannot
        be read as those."""

    def _reading(self, number: int) -> Reading:
        """Return the record of one reading of file ``number``."""
        return Reading(self._paths[number], self._fingerprints[number])

    def _encoded(self, number: int, batch: ColumnsBatch, documents: RowsAhead | None, first_id: int) -> Block:
        try:
            rows = self.encoder.encode(
                batch.rows, documents, batch.words, self._read_as, self.numbers_are_text
            )
        except MissingValues as error:
            self._refuse_missing(number, error.name, batch.row(error.row))
        except ValueError as error:
            refuse_cell(batch, error)
        ids = np.arange(first_id, first_id + len(rows.y), dtype=np.int64)
        columns = batch.rows.select(self._kept_columns) if self._kept_columns else None
        return Block(rows.X, rows.y, ids, rows.weight, columns)

    def _check_label_kind(self, number: int, block: Block) -> None:
        text = block.y.dtype.kind in "OU" and self._may_be_text_labels(number)
        self._text_labels = text if self._text_labels is None else self._text_labels
        if text != self._text_labels and not self._predicting:
            refuse_label_kind(self._paths[number], self._paths[0], self.encoder.label, text)

    def _may_be_text_labels(self, number: int) -> bool:
        """Return False where labels of file ``number`` that are handed out as text, as the first file's are, are
        none."""
        return True

    def _refuse_missing(self, number: int, name: str, row: int) -> NoReturn:
        """Raise DataError for missing values, counted over the whole file where it can be read again."""
        count = ""
        if self._paths[number] != STDIN and name not in self._partitions[number]:
            with self._explaining(number):
                count = missing_in(self._named(number, [name], _MAX_ROWS, 1 << 22), self.encoder, name)
        raise missing_value(self._paths[number], name, row, count, self._predicting)

    # -- columns ----------------------------------------------------------------------------------------

    def _planned(self, schema: pa.Schema) -> TableEncoder:
        where, index = self._paths[0], self._index(schema)
        options = with_names(schema.names, self._options)
        spelled = self._spelled(schema, None, (*options.categorical, *options.text))
        schema, options = with_computed_label(where, schema, options, spelled)
        roles = assign_roles(where, schema.names, options, self._need_label, index)
        how = (roles.label, spelled, roles.weight)
        self._choice = RowChoice(where, self._full_schema(0), options, *how)
        others = excluded(where, schema.names, options)
        for name in set(index).difference(roles.features, (roles.label, roles.weight), others):
            self._note(f"{where}: {self._left_out_note(name)}")
        lists = [name for name in roles.features if kind_of(schema.field(name).type) == "list"]
        words = self._first_words(plain_texts(where, schema, roles, options))
        self._read_as, notes = meanings(where, words, roles.weight)
        self._notes += notes + coded_numbers(where, schema, roles, options)
        more = (self._widths(lists), self._has_header(), self._lenient, self._threads, self._read_as)
        return plan(where, schema, roles, options, *more)

    def _bound(self, schema: pa.Schema, encoder: TableEncoder) -> TableEncoder:
        left_out = (*self._options.left_out, *self._index(schema), *self._unreadable())
        options = replace(self._options, label=self._options.label or encoder.label, left_out=left_out)
        spelled = self._spelled(schema, encoder.label, texts_of(encoder))
        bind(self._paths[0], schema, encoder, self._options, self._need_label, spelled)
        self._read_as = read_as(self._paths[0], schema, encoder.columns, self._first_words)
        how = (encoder.label if self._need_label else None, spelled)
        self._choice = RowChoice(self._paths[0], self._full_schema(0), options, *how)
        return encoder

    def _has_header(self) -> bool:
        return True

    def _spelled(self, schema: pa.Schema, label: str | None, texts: Sequence[str]) -> dict[str, pa.DataType]:
        """Return the types that columns of text have in expressions. texts: see ``spelled_types``."""
        return spelled_types(self._first_words(compared_texts(schema, self._options, label)), texts)

    def _first_words(self, names: list[str]) -> Mapping[str, Collection[str]]:
        """Return the different values of columns of text, in the first rows, over as many files as these take."""
        return first_words(self._over_files, names, self._described_together, self._partitions)

    def _over_files(self, names: list[str], max_rows: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
        """Yield the columns ``names``, file after file; a later file need not have all of them."""
        for number, path in enumerate(self._paths):
            if number > 0 and path == STDIN:
                continue
            there = set(self._full_schema(number).names) if number > 0 else set(names)
            with self._explaining(number):
                if stored := [name for name in names if name in there]:
                    yield from self._named(number, stored, max_rows, max_bytes)

    def _widths(self, lists: list[str]) -> dict[str, int]:
        """Return lengths of the first row's lists."""
        if not lists:
            return {}
        with self._explaining(0):
            for batch in self._named(0, lists, 1, 1 << 16):
                return {name: len(batch.column(name)[0].as_py() or ()) for name in lists}
        raise DataError(f"{self._paths[0]}: there is no row in it; give a file with at least one row")


class TextTable(TextSource, TableSource):
    """Files of text as one table; see TableSource."""

    @property
    def _text_options(self) -> tuple[str, bool]:
        return self._options.encoding, self._predicting
