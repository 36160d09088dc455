"""A table that the caller holds, with columns of text among others, as blocks; labels and weights are arrays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from llsvm.block import Block
from llsvm.data.batches import in_batches
from llsvm.data.source import SourceInfo
from llsvm.data.table import TableSource
from llsvm.data.table_columns import pandas_index
from llsvm.errors import DataError
from llsvm.features.array_labels import labels_of, weights_of
from llsvm.features.columns import are_plain_numbers, can_be_text, kind_of, numbers
from llsvm.features.frames import as_table, is_frame, rows
from llsvm.features.table_options import TableOptions, find_column, with_names
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
        """The name under which the values are a column of the table now."""
        while name in self._table.column_names:
            name += "_"
        self._table = self._table.append_column(name, pa.array(values))
        return name

    def info(self) -> SourceInfo:
        """See TableSource."""
        return replace(
            super().info(), is_table=False, labelled=self._y is not None, record_batches=None, describe=None
        )

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """The rows in order; see BlockSource. Raises DataError."""
        for block in super().blocks(max_bytes):
            own = slice(int(block.rows[0]), int(block.rows[-1]) + 1)
            y = block.y if self._y is None else self._y[own]
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
    """Has a data frame columns of text, dates, nullable numbers or the like, which no array of numbers has?
    Raises DataError for what gives its rows in batches."""
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
    """The columns of a data frame that become features other than as numbers: text, categories, dates and the like.
    None of what is no data frame."""
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
    """The columns of a data frame that can hold documents."""
    return [field.name for field in _first_fields(X) if can_be_text(field.type)]


def _first_fields(X: Any) -> list[pa.Field]:
    """The columns of a data frame as Arrow has their first rows, but for pandas' sparse ones, which only arrays
    have; beside text they are refused by name."""
    if isinstance(X, pa.Table):
        return list(X.schema)
    if not hasattr(X, "dtypes"):  # neither of pandas nor of Polars
        return []
    some = rows(X, 0, _LOOKED_AT_ROWS)
    if hasattr(X, "iloc") and any(sparse := [_is_sparse(each) for each in X.dtypes]):
        some = some.loc[:, [not each for each in sparse]]
    table = as_table(some)
    return [table.schema.field(place) for place in range(len(some.columns))]  # behind them is pandas' index


def _is_sparse(type_: Any) -> bool:
    return str(type_).startswith("Sparse")
