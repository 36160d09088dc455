"""Sources of rows to score, read as a model's training data was: files, and arrays or data frames of the caller.

Columns that the model does not know count nothing. An svmlight row begins with a label; where it is not known, any
number or word does (a dummy such as 0), and predictions ignore it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from llsvm.block import CSR, Block
from llsvm.data import DEFAULT_FORMAT, open_source
from llsvm.data.derived import OneAgainstRest
from llsvm.data.source import BlockSource, DerivedSource, SourceInfo
from llsvm.data.table_columns import (
    LOOKED_AT_ROWS,
    first_unnamed_text,
    index_columns,
    is_unnamed,
    numbers_rows,
    pandas_index,
)
from llsvm.data.table_rows import (
    columns_of_expressions,
    computed_label,
    missing_labels,
    spelled_types,
    value_of,
)
from llsvm.errors import DataError, ModelError, UsageError
from llsvm.features.array_labels import label_array, labels_of, refuse_records, refuse_times, weights_of
from llsvm.features.arrow_types import decoded, is_plain_text, with_fields
from llsvm.features.columns import label_column
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
from llsvm.features.labels import is_text
from llsvm.features.spelling import NUMBER, kind_of_word
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
from llsvm.memory.process import default_threads
from llsvm.models.model import Model, n_rows_of
from llsvm.models.tables import (
    drops_unlabelled,
    given_names,
    known_labels,
    label_against_rest,
    rows_for,
    table_columns,
    table_of,
)
from llsvm.objective.rounding import keep_double
from llsvm.scoring.predictions import column_base
from llsvm.settings.objective import CLASSIFICATION, REGRESSION
from llsvm.settings.settings import Settings

_FEWEST_ROWS = 20  # from which the index base of a file is doubted


def left_out_in_training(model: Model) -> tuple[str, ...]:
    """Return names and patterns of columns that are no features of the model because of its options, or they have
    another role: no note names them."""
    settings = model.settings
    if settings.get("features"):
        return ("*",)
    table = model.extra.get("table", {})
    label = table.get("label") or settings.get("label")
    asked = TableOptions(label=label, where=settings.get("where"))
    names = (label, settings.get("weight"), *(settings.get("exclude") or ()), *table.get("excluded", ()))
    return tuple(name for name in (*names, *columns_of_expressions(asked, None)) if name is not None)


class NumberedColumns(DerivedSource):
    """The rows of a source whose columns have numbers, not names; see BlockSource.

    model: that scores them. doubted: a file that seems to count its columns from 1, where the model's training data
    counted from 0, is refused once its number of rows is known: before its last block, if the source knows it then.
    """

    def __init__(self, source: BlockSource, model: Model, doubted: bool) -> None:
        super().__init__(source)
        self._model, self._doubted = model, doubted
        self._notes: tuple[str, ...] = ()

    def info(self) -> SourceInfo:
        """Return the facts of the source, with notes on columns that the model does not know."""
        info = self.source.info()
        return replace(info, notes=(*info.notes, *self._notes))

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the rows in order. Raises DataError."""
        end = column_base(self._model, self.source) + self._model.n_features_in_
        n_rows = n_beyond = n_values = n_next = 0
        for block in self.source.blocks(max_bytes):
            n_rows += block.n_rows
            if isinstance(block.X, CSR):
                indptr, indices, _ = block.X
                last = indices[indptr[1:][indptr[1:] > indptr[:-1]] - 1]  # of each row that has values
                if beyond := int(np.count_nonzero(last >= end)):
                    used = indices[indptr[0] : indptr[-1]]
                    n_beyond += beyond
                    n_values += int(np.count_nonzero(used >= end))
                    n_next += int(np.count_nonzero(used == end))
            if self.source.info().n_rows == n_rows:  # nothing has been made of a file of one block
                self._refuse_shifted(n_rows, n_next, end)
            yield block
        self._refuse_shifted(n_rows, n_next, end)
        name = self.source.info().name
        if n_values:
            self._notes = (
                f"{name}: {n_values:,} values in {n_beyond:,} of {n_rows:,} rows are in columns that the model "
                f"does not know, from index {end} on; they count nothing",
            )

    def _refuse_shifted(self, n_rows: int, n_next: int, end: int) -> None:
        """Raise DataError where the columns seem to count from 1. n_next: rows with the index ``end``, the one
        behind the model's last."""
        if self._doubted and n_rows >= _FEWEST_ROWS and 2 * n_next > n_rows:
            name = self.source.info().name
            raise DataError(
                f"{name}: {n_next:,} of {n_rows:,} rows have the index {end}, and the model knows the columns 0 to "
                f"{end - 1}: its training data counted columns from 0, and this file seems to count from 1; pass "
                f"--zero-based no (or --zero-based yes, if column {end} is a new one)"
            )


def zero_based(model: Model) -> str:
    """Return how the svmlight files that ``model`` scores count their columns, as an option of ``open_source``."""
    return "yes" if model.index_base == 0 else "no"


def open_for(model: Model, data: Any, need_label: bool = False, **options: Any) -> BlockSource:
    """Return the data to score, read as the model's training data was: same columns, categories, positive label,
    and values rounded to 32-bit floats or not.

    options: what ``open_source`` takes, to read it otherwise.
    """
    doubted = model.index_base == 0 and "zero_based" not in options
    options.setdefault("zero_based", zero_based(model))
    table, label = table_of(model.extra), None
    text = need_label and is_text(known_labels(model))
    as_trained: dict[str, Any] = {"text_labels": True} if text else {}
    if table is not None and text and any(kind_of_word(each) == NUMBER for each in known_labels(model)):
        table["text_label"] = True  # CSV would have numbers there
    as_trained |= {name: model.settings.get(name) for name in ("encoding", "delimiter")}
    if table is None and given_names(model) is not None:
        as_trained["names"] = given_names(model)
    if table is None:
        label = model.settings.get("label")
        if options.get("options", {}).get("label") or (label or "").endswith(".npy"):
            label = (
                None  # another is asked for; the file that had the labels of the training data has no others
            )
        as_trained |= {
            name: model.settings.get(name) for name in ("features", "missing", "cross", "hash_bits")
        }
        if given_names(model) is not None:
            table = _numbers_table(model)
    table_options = dict(options.pop("options", {})) | {"left_out": left_out_in_training(model)}
    if need_label and drops_unlabelled(model):
        table_options["missing_label"] = "drop"
    opened = partial(
        open_source,
        data,
        positive=label_against_rest(model),
        table=table,
        need_label=need_label,
        label_kind=REGRESSION if need_label and model.is_regression else CLASSIFICATION,
        options=table_options,
        **options,
    )
    source = opened(told={**as_trained, "label": label if need_label else None})
    info = source.info()
    if label and not need_label and info.is_dense and info.n_features == model.n_features_in_ + 1:
        source = opened(told={**as_trained, "label": label})  # one of the columns is the label
    _require_same_kind(model, source)
    if model.extra.get("double"):
        keep_double(source.info().rounding)
    names = source.info().feature_names
    if (
        source.info().encoder is None
        and None not in (names, given_names(model))
        and names != given_names(model)
    ):
        from llsvm.data.derived import ColumnsByName

        return ColumnsByName(source, given_names(model) or (), table_options["left_out"])
    if info.encoder is None and not info.is_dense and None in (names, given_names(model)):
        return NumberedColumns(source, model, doubted and info.format == DEFAULT_FORMAT)
    return source


def open_validation(model: Model, data: Any, settings: Settings) -> BlockSource:
    """Return labelled files to judge a model on while others are trained, in the format of the training data.
    settings: of the training."""
    threads = settings.threads or default_threads()
    return open_for(model, data, True, format=settings.format, threads=threads)


def _numbers_table(model: Model) -> dict[str, Any]:
    """Return the table that a model reads whose columns have names, though it was not trained on one."""
    from llsvm.features.encoder import TableEncoder

    encoder = TableEncoder.of_numbers(given_names(model) or ())
    encoder.missing = model.settings.get("missing", "refuse")
    if "fill" in model.extra:
        encoder.set_fill(model.extra["fill"])
    return encoder.as_dict()


def _require_same_kind(model: Model, source: BlockSource) -> None:
    """Raise ModelError where columns would be taken for other columns: they are found by name or by number."""
    info, table = source.info(), model.extra.get("table")
    by_name = given_names(model) is not None and info.feature_names is not None
    if table is not None and info.encoder is None and not by_name:
        names = ", ".join(column["name"] for column in table["columns"][:6])
        raise ModelError(
            f"{info.name}: {info.format} is no table of named columns, but the model was trained on one, with "
            f"columns {names}{', ...' if len(table['columns']) > 6 else ''}; give it CSV, "
            "JSON Lines, Parquet or Arrow (or pass --format, if that is what it is)"
        )
    if given_names(model) is None and table is None and info.first_indicator is not None:
        raise ModelError(
            f"{info.name}: has text columns, but the model was not trained on a table; give it numbers only"
        )
    if info.format == "vw" and (table is not None or given_names(model) is None):
        raise ModelError(
            f"{info.name}: features have names, but the model was not trained on Vowpal Wabbit text; give it data "
            "of the format that it was trained on"
        )
    width, known = info.n_features, model.n_features_in_
    if info.is_dense and table is None and not by_name and width is not None and width != known:
        raise ModelError(f"{info.name}: {width} columns of features, but the model was trained on {known}")


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
        self._columns_kept = _kept_columns(X, names or (), keep)
        refuse_objects(X, self._columns_kept)
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
            names_of_known = own_names(names, known).values()
            objects = holding_fields(X, known)
            used = {*known, *names_of_known, *objects, *self._columns_kept, label or ""}
            left_out = (*left_out_in_training(model), *_index(X, names))
            rows = dict.fromkeys(names, self._n_rows)
            sentences = unknown_columns(rows, used, left_out, self._n_rows)
            self._notes = tuple(f"X: {sentence}" for sentence in sentences)

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
            batch = _batch_of(columns(part, self._columns_kept)) if self._columns_kept else None
            for matrix in self._model.matrices(part, start, self._types):
                ids = np.arange(done, done + n_rows_of(matrix))
                y = np.zeros(len(ids)) if self._y is None else self._y[ids]
                kept_rows = None if batch is None else batch.slice(done - start, len(ids))
                done += len(ids)
                weight = None if self._weight is None else self._weight[ids].astype(np.float64, copy=False)
                yield Block(matrix, y, ids, weight, kept_rows)
        if n == 0:  # as of a file without rows: nothing is predicted, once the columns are known to be there
            list(self._model.matrices(self._X))
            batch = _batch_of(columns(self._X, self._columns_kept)) if self._columns_kept else None
            none = np.zeros((0, self._model.n_features_in_))
            yield Block(none, np.zeros(0), np.zeros(0, np.int64), None, batch)


def _index(X: Any, names: Sequence[str]) -> list[str]:
    """Return columns that are an index, as pandas writes it, and which training leaves out."""
    index = pandas_index(X.schema) if isinstance(X, pa.Table) else []
    if is_unnamed(names[:1]):
        first = as_table(columns(rows(X, 0, LOOKED_AT_ROWS), list(names[:1])))
        text = first_unnamed_text(first.schema)
        index += names[:1] if text is not None and numbers_rows(first[text]) else index_columns(first.schema)
    return index


def _kept_columns(X: Any, names: Sequence[str], keep: KeptColumns) -> list[str]:
    """Return the columns that are kept; fields of objects are columns of their own, as in files."""
    asked = {each.partition(".")[0] for each in keep.names}
    if objects := holding_objects(X, names if asked.difference(names) else asked):
        schema, paths = with_fields(as_table(columns(X, list(objects))).schema)
        within = {each: [n for n in schema.names if paths.get(n, (n,))[0] == each] for each in objects}
        names = [each for name in names for each in within.get(name, [name])]
        keep = with_objects(TableOptions(keep=keep), names, paths).keep
    return in_order("X", names, *keep)


def _batch_of(frame: Any) -> pa.RecordBatch:
    """Return a data frame of few rows as a batch. Raises DataError."""
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
    """Return X and its labels as a source: y, or where that is None the column ``label`` of a data frame, the one
    that the model's training data had, or the one that is named as labels are. Rows without a label are left out
    where those of the training data were. keep, sample_weight: see HeldRows. Raises UsageError, DataError."""
    X, label_name = rows_for(model.extra, X), None
    if y is None and need_label:
        label_name = _label_name(model, X, label)
        column = _label_column(model, X, label_name)
        gone = missing_labels(column).to_numpy(zero_copy_only=False)
        if drops_unlabelled(model) and gone.any():
            labelled = np.flatnonzero(~gone)
            if len(labelled) == 0:
                raise DataError("X: there is no row with a label (--missing-label drop)")
            if sample_weight is not None:
                sample_weight = weights_of(sample_weight, len(gone))[labelled]
            X, column = taken(X, labelled), decoded(column).take(pa.array(labelled))
        y = _labels(model, column, label_name)
    elif y is not None:
        if model.is_regression:
            refuse_times(y)
        y = label_array(y) if model.is_regression else labels_of(y, X.shape[0])
    held = HeldRows(model, X, y, keep, sample_weight, label_name)
    positive = label_against_rest(model)
    return held if positive is None or y is None else OneAgainstRest(held, positive, must_occur=False)


def _names(model: Model, X: Any) -> tuple[str, ...]:
    """Return the names of a frame's columns, and of its index, which may hold the labels."""
    names = column_names(X, table_columns(model.extra)) or ()
    index = X.index.names if hasattr(X, "reset_index") else ()
    return names + tuple(name for name in index if isinstance(name, str) and name not in names)


def _label_name(model: Model, X: Any, label: str | int | None) -> str:
    """Return the column of labels, or the expression of them."""
    names = _names(model, X)
    if not names:
        refuse_records(X)
        raise UsageError("y is missing: arrays need their labels, pass X and y (or the path of a file)")
    name = None if label is None else str(label)
    if name is None:
        known = model.extra.get("table", {}).get("label") or model.settings.get("label")
        known_here = known in names or own_names(names, [known or ""]) or computed_label(names, known)
        name = known if known_here else usual_label(names)
    if name is None:
        raise UsageError(
            "y is missing: no column of X is named as labels are; pass y, or --label with its name"
        )
    return name if computed_label(names, name) else find_column("X", names, name, "label")


def _label_column(model: Model, X: Any, label: str) -> pa.Array:
    """Return a column of a frame, or the values of the expression ``label``."""
    names = _names(model, X)
    if (computed := computed_label(names, label)) is not None:
        computed.require("X", names)
        batch = _batch_of(columns(X, computed.columns))
        texts = [field.name for field in batch.schema if is_plain_text(field.type)]
        words = {name: set(batch.column(name).unique().drop_null().to_pylist()) for name in texts}
        return value_of(computed, batch, spelled_types(words, ()), "X", 1)
    return _batch_of(columns(X, [label])).column(0)


def _labels(model: Model, column: pa.Array, name: str) -> NDArray[Any]:
    """Return the labels (n,) of a column. Raises DataError where one is missing, or is no label."""
    try:
        return label_column(column, name, as_numbers=model.is_regression, may_be_missing=False)
    except ValueError as error:
        if len(error.args) != 2:  # of pyarrow
            raise
        raise DataError(f"X: row {error.args[0] + 1}: {error.args[1]}") from error
