"""Columns of the data that a model does not know: they count nothing, and how many values they have is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from llsvm.block import CSR, Block
from llsvm.data.source import BlockSource, SourceInfo
from llsvm.data.table_rows import columns_of_expressions
from llsvm.errors import DataError
from llsvm.features.table_options import TableOptions
from llsvm.models.model import Model
from llsvm.scoring.scores import column_base

_FEWEST_ROWS = 20  # from which the index base of a file is doubted


def left_out_in_training(model: Model) -> tuple[str, ...]:
    """Names and patterns of columns that are no features of the model because it was told so, or they have another
    role: nothing is said of them."""
    settings = model.settings
    if settings.get("features"):
        return ("*",)
    table = model.extra.get("table", {})
    label = table.get("label") or settings.get("label")
    asked = TableOptions(label=label, where=settings.get("where"))
    names = (label, settings.get("weight"), *(settings.get("exclude") or ()), *table.get("excluded", ()))
    return tuple(name for name in (*names, *columns_of_expressions(asked, None)) if name is not None)


class NumberedColumns:
    """The rows of a source whose columns have numbers, not names; see BlockSource.

    model: that scores them. doubted: a file that seems to count its columns from 1, where the model's training data
    counted from 0, is refused once its number of rows is known: before its last block, if the source knows it then.
    """

    def __init__(self, source: BlockSource, model: Model, doubted: bool) -> None:
        self._source, self._model, self._doubted = source, model, doubted
        self._notes: tuple[str, ...] = ()

    @property
    def bytes_read(self) -> int:
        return self._source.bytes_read

    def info(self) -> SourceInfo:
        """See BlockSource."""
        info = self._source.info()
        return replace(info, notes=(*info.notes, *self._notes))

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """The rows in order. Raises DataError."""
        end = column_base(self._model, self._source) + self._model.n_features_in_
        n_rows = n_beyond = n_values = n_next = 0
        for block in self._source.blocks(max_bytes):
            n_rows += block.n_rows
            if isinstance(block.X, CSR):
                indptr, indices, _ = block.X
                last = indices[indptr[1:][indptr[1:] > indptr[:-1]] - 1]  # of each row that has values
                if beyond := int(np.count_nonzero(last >= end)):
                    own = indices[indptr[0] : indptr[-1]]
                    n_beyond += beyond
                    n_values += int(np.count_nonzero(own >= end))
                    n_next += int(np.count_nonzero(own == end))
            if self._source.info().n_rows == n_rows:  # nothing has been made of a file of one block
                self._refuse_shifted(n_rows, n_next, end)
            yield block
        self._refuse_shifted(n_rows, n_next, end)
        name = self._source.info().name
        if n_values:
            self._notes = (
                f"{name}: {n_values:,} values in {n_beyond:,} of {n_rows:,} rows are in columns that the model "
                f"does not know, from index {end} on; they count nothing",
            )

    def _refuse_shifted(self, n_rows: int, n_next: int, end: int) -> None:
        """n_next: rows with the index ``end``, the one behind the model's last. Raises DataError."""
        if self._doubted and n_rows >= _FEWEST_ROWS and 2 * n_next > n_rows:
            name = self._source.info().name
            raise DataError(
                f"{name}: {n_next:,} of {n_rows:,} rows have the index {end}, and the model knows the columns 0 to "
                f"{end - 1}: its training data counted columns from 0, and this file seems to count from 1; pass "
                f"--zero-based no (or --zero-based yes, if column {end} is a new one)"
            )
