"""Tables that the caller's program has: data frames, which it holds, and tables that come in batches. They are read
as the files of tables are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from llsvm.block import Block
from llsvm.data.batches import Batches, in_batches
from llsvm.data.source import SourceInfo
from llsvm.data.table import TableSource
from llsvm.data.table_columns import first_words, index_columns, more_columns, pandas_index
from llsvm.errors import DataError
from llsvm.features.array_labels import labels_of, weights_of
from llsvm.features.arrow_types import kind_of
from llsvm.features.columns import are_plain_numbers, can_be_text, numbers
from llsvm.features.encoder import TableEncoder
from llsvm.features.frames import as_table, is_frame, rows
from llsvm.features.schema import check_as_first, without_column
from llsvm.features.table_options import TableOptions, find_column, own_names, with_names
from llsvm.files.fingerprint import Reading

_LABEL, _WEIGHT = "label", "weight"
_LOOKED_AT_ROWS = 1000  # of a data frame, to see what its columns hold


class HeldTable(TableSource):
    """A data frame (pandas, Polars, a table of pyarrow) and labels, read as the files of tables are.

    X: n rows; what is no number is encoded. Numbers are not scaled unless one asks for it, as those of arrays.
    y: (n,) labels, see ArraySource; None: there are none. sample_weight: (n,) factors of C, not negative, or None.
    threads: that analyse text.
    Raises DataError for what cannot be read as a table, and shapes that do not fit.
    """

    format = "arrays"

    def __init__(
        self,
        X: Any,
        y: ArrayLike | None,
        sample_weight: ArrayLike | None,
        options: TableOptions,
        threads: int,
    ) -> None:
        self._table = as_table(X)
        if not options.features:
            # Beside labels apart nobody takes an index for a column, nor needs a note on it.
            self._table = self._table.drop_columns(pandas_index(self._table.schema))
        n = self._table.num_rows
        if n == 0:
            raise DataError(
                f"Found array with 0 sample(s) (shape={self._table.shape}) while a minimum of 1 is required."
            )
        self._y = None if y is None else labels_of(y, n)
        if sample_weight is not None:
            options = replace(options, weight=self._added(_WEIGHT, weights_of(sample_weight, n)))
        elif options.weight is not None:
            options = replace(
                options, weight=find_column("X", self._table.column_names, options.weight, "weight")
            )
        options = with_names(self._table.column_names, options)
        # labels: a column of nothing, so that no other is taken for it
        options = replace(options, label=self._added(_LABEL, np.zeros(n, np.int8)), labels_apart=True)
        super().__init__(["X"], options, threads=threads)
        if self._y is not None and options.weight is not None:  # rows of weight 0 are left out
            self._y = self._y[numbers(self._table[options.weight].combine_chunks()) != 0]

    def _added(self, name: str, values: NDArray[Any]) -> str:
        """Return the name under which the values are a column of the table now."""
        while name in self._table.column_names:
            name += "_"
        self._table = self._table.append_column(name, pa.array(values))
        return name

    def info(self) -> SourceInfo:
        """Return what is known of the table; see TableSource."""
        return replace(
            super().info(), is_table=False, labelled=self._y is not None, record_batches=None, describe=None
        )

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the rows in order; see BlockSource. Raises DataError."""
        for block in super().blocks(max_bytes):
            span = slice(int(block.rows[0]), int(block.rows[-1]) + 1)
            y = block.y if self._y is None else self._y[span]
            yield Block(block.X, y, block.rows, block.weight)

    def _schema(self, number: int) -> pa.Schema:
        return self._table.schema

    def _batches(
        self, number: int, names: list[str], max_rows: int, max_bytes: int, reading: Reading | None = None
    ) -> Iterator[pa.RecordBatch]:
        table = self._table.select(names)
        step = max(1, min(max_rows, max_bytes * table.num_rows // max(table.nbytes, 1)))
        yield from table.to_batches(max_chunksize=step)

    def _print_of(self, path: str) -> tuple[int, int]:
        return self._table.nbytes, 0

    def _unchanged(self, number: int) -> AbstractContextManager[None]:
        return nullcontext()


def holds_more_than_numbers(X: Any) -> bool:
    """Return whether a data frame has columns of text, dates, nullable numbers or the like, which no array of
    numbers has. Raises DataError for what gives its rows in batches."""
    if in_batches(X):
        raise DataError(
            f"X is a {type(X).__name__}, which gives its rows in batches: make a data frame of it (collect it, or "
            "fetch all), or give it to llsvm.train with the name of its column of labels"
        )
    if hasattr(X, "iloc") and hasattr(X, "dtypes"):  # does NumPy make objects of pandas' own types?
        types = [] if any(map(_is_sparse, X.dtypes)) else list(X.dtypes)
        kinds = {each.kind if isinstance(each, np.dtype) else "O" for each in types}
        if "O" in kinds or ("b" in kinds and len(kinds) > 1):
            return True
    return not all(are_plain_numbers(each.type) for each in _first_fields(X))


def columns_of_no_numbers(X: Any) -> list[str]:
    """Return the columns of a data frame that become features other than as numbers: text, categories, dates and
    the like; none for what is no data frame."""
    if not is_frame(X):
        return []
    return [
        field.name
        for field in _first_fields(X)
        if pa.types.is_dictionary(field.type)
        or pa.types.is_temporal(field.type)
        or kind_of(field.type) != "number"
    ]


def columns_of_text(X: Any) -> list[str]:
    """Return the columns of a data frame that can hold documents."""
    return [field.name for field in _first_fields(X) if can_be_text(field.type)]


def _first_fields(X: Any) -> list[pa.Field]:
    """Return the columns of a data frame as Arrow has their first rows, but for pandas' sparse ones, which only
    arrays have; beside text they are refused by name."""
    if isinstance(X, pa.Table):
        return list(X.schema)
    if not hasattr(X, "dtypes"):  # neither of pandas nor of Polars
        return []
    head = rows(X, 0, _LOOKED_AT_ROWS)
    if hasattr(X, "iloc") and any(sparse := [_is_sparse(each) for each in X.dtypes]):
        head = head.loc[:, [not each for each in sparse]]
    table = as_table(head)
    return [table.schema.field(place) for place in range(len(head.columns))]  # behind them is pandas' index


def _is_sparse(type_: Any) -> bool:
    return str(type_).startswith("Sparse")


class StreamedTable(TableSource):
    """Table that a caller hands over in batches; see TableSource. batches: whose first, or schema, says which
    columns there are."""

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
        """Return what is known of the table; see TableSource."""
        info = replace(super().info(), n_bytes=None, rereadable=self._source.rereadable)
        return (
            info
            if self._source.rereadable
            else replace(info, describe=None, record_batches=None, columns=None)
        )

    def _schema(self, number: int) -> pa.Schema:
        return self._source.schema

    def _reader_bytes(self) -> int:
        """Return the bytes held while reading: a batch is held while it is used, and the next one is made."""
        return (4 << 20) + self._source.library_bytes + 2 * self._largest

    def _widths(self, lists: list[str]) -> dict[str, int]:
        first = self._source.first
        if lists and not self._source.rereadable and first is not None:
            batch = next(self._of_first(lists))
            return {name: len(batch.column(name)[0].as_py() or ()) for name in lists}
        return super()._widths(lists)

    def _of_first(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield the columns ``names`` of the first batch."""
        for batch in self._source.first.select(self._stored_names(0, names)).to_batches():
            yield self._by_names(0, batch, names)

    def _first_words(self, names: list[str]) -> Mapping[str, Collection[str]]:
        first = self._source.first
        if self._source.rereadable or first is None:
            return super()._first_words(names) if self._source.rereadable else {}
        return first_words(lambda columns, *_: self._of_first(columns), names, len(names) or 1, [{}])

    def _over_files(self, names: list[str], max_rows: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
        if self._source.rereadable:
            yield from super()._over_files(names, max_rows, max_bytes)
        elif self._source.first is not None:
            yield from self._of_first(names)

    def _batches(
        self, number: int, names: list[str], max_rows: int, max_bytes: int, reading: Reading | None = None
    ) -> Iterator[pa.RecordBatch]:
        for table in self._source.read(names):
            stored_names = own_names(table.column_names, self._source.schema.names)
            back = {name: new for new, name in stored_names.items()}
            table = table.rename_columns([back.get(name, name) for name in table.column_names])
            self._note_left_out(table.schema)
            if missing := [name for name in names if name not in table.column_names]:
                reason = without_column(missing[0], "the first one", self._excludable())
                raise DataError(f"{self._source.name}: a batch {reason}")
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
    """Return a source of a table in batches. options: the fields of TableOptions. table: what a model knows of its
    columns, or None. more: see TableSource."""
    encoder = None if table is None else TableEncoder.from_dict(table)
    return StreamedTable(batches, TableOptions(**options), encoder, **more)
