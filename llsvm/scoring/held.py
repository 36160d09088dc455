"""Rows that the caller holds in memory, arrays or data frames, as a source of blocks that a model scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.data.relabel import OneAgainstRest
from llsvm.data.source import BlockSource, SourceInfo
from llsvm.data.table_columns import (
    first_unnamed_text,
    index_columns,
    is_unnamed,
    numbers_rows,
    pandas_index,
)
from llsvm.data.table_rows import computed_label, missing_labels, spelled_types, value_of
from llsvm.data.text_meanings import LOOKED_AT_ROWS
from llsvm.errors import DataError, UsageError
from llsvm.features.array_labels import label_array, labels_of, refuse_records, refuse_times, weights_of
from llsvm.features.columns import is_plain_text
from llsvm.features.dictionaries import decoded
from llsvm.features.fields import with_fields
from llsvm.features.frames import (
    as_table,
    column_names,
    columns,
    holding_fields,
    holding_objects,
    refuse_objects,
    rows,
    taken,
    text_types,
)
from llsvm.features.label_columns import label_column
from llsvm.features.table_options import (
    NOTHING_KEPT,
    KeptColumns,
    TableOptions,
    find_column,
    in_order,
    own_names,
    unknown_columns,
    usual_label,
    with_objects,
)
from llsvm.models.model import Model, n_rows_of
from llsvm.models.tables import (
    drops_unlabelled,
    given_names,
    label_against_rest,
    rows_for,
    table_columns,
    table_of,
)
from llsvm.scoring.opening import left_out_in_training

_VALUE_BYTES = 12  # of a sparse value with its column; a dense one takes 8


class HeldRows:
    """A BlockSource over X as ``model`` reads it: an (n, d) array, SciPy sparse matrix or data frame (pandas,
    Polars, a table of pyarrow), see ``as_rows``, whose columns are found by name where the model knows names.

    y: (n,) labels, or None. sample_weight: (n,) numbers, not negative, or None. keep: columns of a data frame that
    come with the rows. label: the column of the labels, if they are in one."""

    bytes_read = 0

    def __init__(
        self,
        model: Model,
        X: Any,
        y: NDArray[Any] | None = None,
        keep: KeptColumns = NOTHING_KEPT,
        sample_weight: Any = None,
        label: str | None = None,
    ) -> None:
        self._model = model
        self._X = X
        names = column_names(X, table_columns(model.extra))
        if keep.names and names is None:
            raise UsageError(
                f"--{keep.option} names columns, and X has none: give a data frame, or leave it out"
            )
        self._kept = _kept(X, names or (), keep)
        refuse_objects(X, self._kept)
        self._n_rows = int(self._X.shape[0])
        if y is not None and y.shape != (self._n_rows,):
            raise DataError(
                f"X has {self._n_rows:,} rows, and y the shape {y.shape}; give each row its label"
                + (", as np.ravel(y) has them" if y.shape == (self._n_rows, 1) else "")
            )
        self._y = y
        self._weight = None if sample_weight is None else weights_of(sample_weight, self._n_rows)
        self._notes: tuple[str, ...] = ()
        table = None if names is None or not model.named_columns else table_of(model.extra)
        self._types = None if table is None else text_types(X, table)
        if names is not None and model.named_columns:
            known = {*(given_names(model) or ()), *table_columns(model.extra)}
            own = own_names(names, known).values()
            objects = holding_fields(X, known)
            used = {*known, *own, *objects, *self._kept, label or ""}
            left_out = (*left_out_in_training(model), *_index(X, names))
            rows = dict.fromkeys(names, self._n_rows)
            told = unknown_columns(rows, used, left_out, self._n_rows)
            self._notes = tuple(f"X: {sentence}" for sentence in told)

    def info(self) -> SourceInfo:
        return SourceInfo(
            "X",
            "arrays",
            n_rows=self._n_rows,
            in_memory=True,
            labelled=self._y is not None,
            notes=self._notes,
        )

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        n, width = self._n_rows, self._X.shape[1]
        row_bytes = 8 * width
        if hasattr(self._X, "nnz"):
            row_bytes = _VALUE_BYTES * -(-self._X.nnz // max(n, 1))
        step = max(1, max_bytes // max(row_bytes, 1))
        for start in range(0, n, step):
            done, part = start, rows(self._X, start, start + step)
            kept = _batch_of(columns(part, self._kept)) if self._kept else None
            for matrix in self._model.matrices(part, start, self._types):
                ids = np.arange(done, done + n_rows_of(matrix))
                y = np.zeros(len(ids)) if self._y is None else self._y[ids]
                own = None if kept is None else kept.slice(done - start, len(ids))
                done += len(ids)
                weight = None if self._weight is None else self._weight[ids].astype(np.float64, copy=False)
                yield Block(matrix, y, ids, weight, own)
        if n == 0:  # as of a file without rows: nothing is predicted, once the columns are known to be there
            list(self._model.matrices(self._X))
            kept = _batch_of(columns(self._X, self._kept)) if self._kept else None
            none = np.zeros((0, self._model.n_features_in_))
            yield Block(none, np.zeros(0), np.zeros(0, np.int64), None, kept)


def _index(X: Any, names: Sequence[str]) -> list[str]:
    """Columns that are an index, as pandas writes it, and which training leaves out."""
    found = pandas_index(X.schema) if isinstance(X, pa.Table) else []
    if is_unnamed(names[:1]):
        first = as_table(columns(rows(X, 0, LOOKED_AT_ROWS), list(names[:1])))
        text = first_unnamed_text(first.schema)
        found += names[:1] if text is not None and numbers_rows(first[text]) else index_columns(first.schema)
    return found


def _kept(X: Any, names: Sequence[str], keep: KeptColumns) -> list[str]:
    """The columns that are kept; fields of objects are columns of their own, as in files."""
    asked = {each.partition(".")[0] for each in keep.names}
    if objects := holding_objects(X, names if asked.difference(names) else asked):
        schema, paths = with_fields(as_table(columns(X, list(objects))).schema)
        within = {each: [n for n in schema.names if paths.get(n, (n,))[0] == each] for each in objects}
        names = [each for name in names for each in within.get(name, [name])]
        keep = with_objects(TableOptions(keep=keep), names, paths).keep
    return in_order("X", names, *keep)


def _batch_of(frame: Any) -> pa.RecordBatch:
    """A data frame of some rows. Raises DataError."""
    table = as_table(frame).combine_chunks()
    none = pa.record_batch([pa.nulls(0, field.type) for field in table.schema], table.schema)
    return next(iter(table.to_batches()), none)


def held_rows(
    model: Model,
    X: Any,
    y: Any = None,
    label: str | int | None = None,
    need_label: bool = False,
    keep: KeptColumns = NOTHING_KEPT,
    sample_weight: Any = None,
) -> BlockSource:
    """X and its labels: y, or where that is None the column ``label`` of a data frame, the one that the model's
    training data had, or the one that is named as labels are. Rows without a label are left out where those of the
    training data were. keep, sample_weight: see HeldRows. Raises UsageError, DataError."""
    X, own = rows_for(model.extra, X), None
    if y is None and need_label:
        own = _label_name(model, X, label)
        column = _label_column(model, X, own)
        gone = missing_labels(column).to_numpy(zero_copy_only=False)
        if drops_unlabelled(model) and gone.any():
            there = np.flatnonzero(~gone)
            if len(there) == 0:
                raise DataError("X: there is no row with a label (--missing-label drop)")
            if sample_weight is not None:
                sample_weight = weights_of(sample_weight, len(gone))[there]
            X, column = taken(X, there), decoded(column).take(pa.array(there))
        y = _labels(model, column, own)
    elif y is not None:
        if model.is_regression:
            refuse_times(y)
        y = label_array(y) if model.is_regression else labels_of(y, X.shape[0])
    held = HeldRows(model, X, y, keep, sample_weight, own)
    positive = label_against_rest(model)
    return held if positive is None or y is None else OneAgainstRest(held, positive, must_occur=False)


def _names(model: Model, X: Any) -> tuple[str, ...]:
    """Of a frame's columns, and of its index, which may hold the labels."""
    names = column_names(X, table_columns(model.extra)) or ()
    index = X.index.names if hasattr(X, "reset_index") else ()
    return names + tuple(name for name in index if isinstance(name, str) and name not in names)


def _label_name(model: Model, X: Any, label: str | int | None) -> str:
    """The column of labels, or the expression of them."""
    names = _names(model, X)
    if not names:
        refuse_records(X)
        raise UsageError("y is missing: arrays need their labels, pass X and y (or the path of a file)")
    wanted = None if label is None else str(label)
    if wanted is None:
        known = model.extra.get("table", {}).get("label") or model.settings.get("label")
        there = known in names or own_names(names, [known or ""]) or computed_label(names, known)
        wanted = known if there else usual_label(names)
    if wanted is None:
        raise UsageError(
            "y is missing: no column of X is named as labels are; pass y, or --label with its name"
        )
    return wanted if computed_label(names, wanted) else find_column("X", names, wanted, "label")


def _label_column(model: Model, X: Any, wanted: str) -> pa.Array:
    """A column of a frame, or the values of the expression that ``wanted`` is."""
    names = _names(model, X)
    if (computed := computed_label(names, wanted)) is not None:
        computed.require("X", names)
        batch = _batch_of(columns(X, computed.columns))
        texts = [field.name for field in batch.schema if is_plain_text(field.type)]
        words = {name: set(batch.column(name).unique().drop_null().to_pylist()) for name in texts}
        return value_of(computed, batch, spelled_types(words, ()), "X", 1)
    return _batch_of(columns(X, [wanted])).column(0)


def _labels(model: Model, column: pa.Array, name: str) -> NDArray[Any]:
    """(n,) of a column. Raises DataError where one is missing, or is no label."""
    try:
        return label_column(column, name, as_numbers=model.is_regression, may_be_missing=False)
    except ValueError as error:
        if len(error.args) != 2:  # of pyarrow
            raise
        raise DataError(f"X: row {error.args[0] + 1}: {error.args[1]}") from error
