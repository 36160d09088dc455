"""Rows of a table: which of them count (``--where``, ``--missing-label drop``, rows of weight 0), labels that are
computed of columns (``--label`` with an expression), and batches cut by what their rows take once decoded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.errors import DataError, LongRowError, UsageError
from llsvm.features.arrow_types import is_plain_text, kind_of
from llsvm.features.columns import are_plain_numbers, codes_of, empty_as_null, nulls, numbers, plain
from llsvm.features.encoder import TableEncoder
from llsvm.features.expressions import Expression, Numerals
from llsvm.features.schema import check_columns
from llsvm.features.spelling import as_exact, parsed, type_spelled, types_alike, words_of
from llsvm.features.table_options import (
    MISSING_LABEL_DROP,
    TableOptions,
    columns_of,
    find_column,
    own_names,
    unknown_columns,
    usual_label,
)
from llsvm.objective.rounding import beyond_floats

_NUMBER = pa.float64()


def computed_label(names: Sequence[str], wanted: str | None) -> Expression | None:
    """Return the expression that ``--label`` is, where it names no column. names: of the columns. Raises
    UsageError."""
    if (
        wanted is None
        or wanted in names
        or own_names(names, [wanted])
        or wanted == "last"
        or wanted.lstrip("-").isdigit()
    ):
        return None
    try:
        expression = Expression(wanted, "label")
    except UsageError:
        if any(sign in wanted for sign in "<>=(`"):
            raise
        return None  # whoever looks for the column says that there is none
    return None if expression.is_column else expression


def columns_of_expressions(options: TableOptions, label: str | None) -> tuple[str, ...]:
    """Return the columns that expressions need beside a table's features. label: that of a model."""
    texts = [text for text in (options.where, options.label or label) if text is not None]
    names: list[str] = []
    for text in texts:
        with suppress(UsageError):  # of the label it is a column's name, else it is refused where it is used
            names += Expression(text, "where").columns
    return tuple(names)


def with_computed_label(
    where: str, schema: pa.Schema, options: TableOptions, spelled: Mapping[str, pa.DataType]
) -> tuple[pa.Schema, TableOptions]:
    """Return the schema and the options with a label that is computed as one more column; those that it is computed
    of are no features, unless they are asked for by name. spelled: see RowChoice. Raises UsageError, DataError."""
    computed = computed_label(schema.names, options.label)
    if computed is None:
        return schema, options
    computed.require(where, schema.names)
    columns = tuple(name for name in computed.columns if name not in options.features)
    label = pa.field(computed.text, value_of(computed, no_rows(schema), spelled, where, 0).type)
    return schema.append(label), replace(options, exclude=(*options.exclude, *columns))


def bind(
    where: str,
    schema: pa.Schema,
    encoder: TableEncoder,
    options: TableOptions,
    need_label: bool,
    spelled: Mapping[str, pa.DataType],
) -> None:
    """Find the label and the weights of a model's encoder in a table with that schema. spelled: see RowChoice.
    Raises DataError where a column is missing, or holds what the model cannot read."""
    label, weight = encoder.label, encoder.weight
    label_option = options.label or label
    if need_label and computed_label(schema.names, label_option) is not None:
        schema, _ = with_computed_label(where, schema, replace(options, label=label_option), spelled)
        label = label_option
    elif options.label is not None and (need_label or columns_of(schema.names, [options.label])):
        label = find_column(where, schema.names, options.label, "label")
    elif label is None:  # the model was trained on something else than a table
        label = usual_label([name for name in schema.names if encoder.kind(name) is None])
    if options.weight is not None:
        weight = find_column(where, schema.names, options.weight, "weight")
    check_columns(where, schema, encoder)
    if need_label and label is None:
        raise DataError(f"{where}: which column has the labels? name it with --label")
    if need_label and label not in schema.names:
        raise DataError(f"{where}: there is no column {label!r} with the labels; name it with --label")
    encoder.bind(label if label in schema.names else None, weight, labels_may_be_missing=not need_label)


def texts_of(encoder: TableEncoder) -> list[str]:
    """Return the columns that are categories or documents."""
    return [column.name for column in encoder.columns if column.kind in ("text", "document")]


def compared_texts(schema: pa.Schema, options: TableOptions, label: str | None) -> list[str]:
    """Return the columns of plain text that expressions need. label: of a model."""
    expressions = [None if options.where is None else Expression(options.where, "where")]
    expressions.append(computed_label(schema.names, options.label or label))
    asked = [name for each in expressions if each is not None for name in each.columns]
    stored_names = own_names(schema.names, asked)
    names = {stored_names.get(name, name) for name in asked}.intersection(schema.names)
    return [name for name in schema.names if name in names and is_plain_text(schema.field(name).type)]


def spelled_types(words: Mapping[str, Collection[str]], texts: Collection[str]) -> dict[str, pa.DataType]:
    """Return the types that columns of text have in expressions, where they mean numbers (beside numbers), dates,
    times, or true and false. words: their first ones. texts: names and patterns of categories and documents, which
    mean numbers at most."""
    spelled = dict[str, pa.DataType]()
    for name, values in words.items():
        type_ = type_spelled(values)
        if type_ == _NUMBER or (type_ is not None and not any(fnmatchcase(name, each) for each in texts)):
            spelled[name] = type_
    return spelled


def value_of(
    expression: Expression, batch: pa.RecordBatch, spelled: Mapping[str, pa.DataType], where: str, first: int
) -> pa.Array:
    """Return the values (n,) of the rows of a batch: text is what it spells, and missing where it is empty.
    spelled: see RowChoice. where, first: the table and the number of the first row, for messages. Raises
    DataError."""
    numerals = dict[str, Numerals]()
    for name in expression.columns:
        column = empty_as_null(batch.column(name))
        if name in spelled and kind_of(column.type) == "text":
            read = partial(_read, column, spelled[name], f"{where}: column {name}", first)
            if spelled[name] == _NUMBER:
                numerals[name] = Numerals(column, read)
            else:
                column = read()
        batch = batch.set_column(batch.schema.get_field_index(name), name, column)
    return expression.value(batch, numerals)


def _read(column: pa.Array, type_: pa.DataType, where: str, first: int) -> pa.Array:
    """Return the values that text spells, whole numbers with all digits; see ``value_of``."""
    try:
        values = parsed(column, types_alike(type_, None), True)
        long = types.is_floating(values.type) and bool(beyond_floats(numbers(values)).any())
        return as_exact(words_of(column)) if long else values
    except ValueError as error:
        row, reason = error.args
        quotes = ", or compare the column with text, in quotes" if type_ == _NUMBER else ""
        raise DataError(f"{where}: row {first + row}: {reason}; correct it{quotes}") from error


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of no row."""
    return pa.record_batch([pa.nulls(0, field.type) for field in schema], schema=schema)


class RowChoice:
    """Steps that the batches of a table take before its rows are encoded: rows are left out, and a label is
    computed.

    where: the table's name. schema: of all its columns. label: a column or an expression; None: no label is read.
    spelled: the types of columns of text that expressions take for numbers (beside numbers),
    dates or truth values. weight: the column of sample weights, whose rows of weight 0 are left out; None: there is
    none, or they stay. Raises UsageError, DataError for expressions that do not fit.
    """

    def __init__(
        self,
        where: str,
        schema: pa.Schema,
        options: TableOptions,
        label: str | None,
        spelled: Mapping[str, pa.DataType],
        weight: str | None = None,
    ) -> None:
        self._left_out = options.left_out
        self._condition = None if options.where is None else Expression(options.where, "where")
        self._label, self._weight = label, weight
        self._computed = computed_label(schema.names, label)
        self._drop = label is not None and options.missing_label == MISSING_LABEL_DROP
        self._spelled = dict(spelled)
        for expression in filter(None, (self._condition, self._computed)):
            expression.require(where, schema.names)
            for name in expression.columns:  # numbers of CSV come as text where they are categories
                if are_plain_numbers(schema.field(name).type):
                    self._spelled[name] = _NUMBER
        if self._condition is not None:
            none = value_of(self._condition, no_rows(schema), spelled, where, 0)
            if not types.is_boolean(none.type):
                raise UsageError(
                    f"--where {self._condition.text!r} is neither true nor false: compare it with something"
                )

    @property
    def compared(self) -> set[str]:
        """The columns that expressions need."""
        return {
            name for each in (self._condition, self._computed) if each is not None for name in each.columns
        }

    @property
    def changes_rows(self) -> bool:
        """Return whether rows are left out, or a label is computed."""
        return self._drop or self._condition is not None or self._computed is not None

    def coded(self, encoder: TableEncoder, kept: Sequence[str]) -> set[str]:
        """Return the columns of categories and labels that nobody decodes. kept: columns that are handed on."""
        texts = (column.name for column in encoder.columns if column.kind == "text")
        return {*texts, encoder.label or ""}.difference(kept, self.compared)

    @property
    def why_none(self) -> str:
        """Return what to say where no row is left."""
        if self._condition is not None:
            return f"there is no row for which --where {self._condition.text!r} is true" + self._dropping
        if self._drop:
            return "there is no row with a label (--missing-label drop)"
        if self._weight is not None:
            return f"there is no row whose weight (column {self._weight}) is above 0"
        return "there is no row in it; give a file with at least one row"

    @property
    def _dropping(self) -> str:
        return ", and whose label is there (--missing-label drop)" if self._drop else ""

    def unknown(
        self, encoder: TableEncoder, used: Sequence[str], columns: Mapping[str, int], n_rows: int
    ) -> list[str]:
        """Return what to say of categories and columns that a model does not know, after all ``n_rows`` have been
        read. used: columns, see ``needed``. columns: in how many rows each of the data's is."""
        sentences = encoder.categories.tell_unknown()
        if encoder.predicting:
            sentences += unknown_columns(columns, self.needed(used), self._left_out, n_rows)
        return sentences

    def no_row(self, encoder: TableEncoder, kept: pa.Schema) -> Block:
        """Return a block of no row, which tells the types of the columns that are kept."""
        nothing = no_rows(kept) if len(kept) else None
        X = np.empty((0, encoder.n_features), np.float32)
        return Block(X, np.empty(0), np.empty(0, np.int64), None, nothing)

    def needed(self, used: Sequence[str]) -> list[str]:
        """Return the columns to be read where ``used`` are wanted of the rows that count."""
        names = [name for name in used if self._computed is None or name != self._label]
        if self._computed is not None and (self._label in used or self._drop):
            names += self._computed.columns
        elif self._drop and self._label is not None:
            names.append(self._label)
        names += () if self._weight is None else (self._weight,)
        return list(dict.fromkeys((*names, *(() if self._condition is None else self._condition.columns))))

    def chosen(
        self, batch: pa.RecordBatch, path: str, first_row: int
    ) -> tuple[pa.RecordBatch, NDArray[np.int64] | None]:
        """Return the rows that count, with the label that is computed; and their places in the batch, None for all.
        path, first_row: where the batch begins, from 0. Raises DataError."""
        how = batch, self._spelled, path, first_row + 1
        if self._computed is not None and set(self._computed.columns) <= set(batch.schema.names):
            batch = batch.append_column(self._computed.text, value_of(self._computed, *how))
        counts = None if self._condition is None else value_of(self._condition, *how)
        if self._drop and self._label in batch.schema.names:
            there = pc.invert(missing_labels(batch.column(self._label)))
            counts = there if counts is None else pc.and_kleene(counts, there)
        if self._weight in batch.schema.names:
            has_weight = _has_weight(batch.column(self._weight))
            counts = has_weight if counts is None else pc.and_kleene(counts, has_weight)
        if counts is None:
            return batch, None
        places = np.flatnonzero(counts.fill_null(False).to_numpy(zero_copy_only=False))
        return (batch, None) if len(places) == batch.num_rows else (_taken(batch, places), places)


def _taken(batch: pa.RecordBatch, places: NDArray[np.int64]) -> pa.RecordBatch:
    columns = (  # of views no rows can be taken
        column.cast(pa.large_string()) if types.is_string_view(column.type) else column
        for column in batch.columns
    )
    return pa.record_batch([column.take(pa.array(places)) for column in columns], batch.schema.names)


def _has_weight(column: pa.Array) -> pa.Array:
    """Return the mask (n,) of weights that are not 0; what is no weight is refused when the row is read."""
    try:
        return pa.array(numbers(column) != 0)
    except (ValueError, pa.ArrowException):
        return pa.repeat(True, len(column))


def missing_labels(column: pa.Array) -> pa.Array:
    """Return the mask (n,) of rows without a label."""
    if kind_of(column.type) != "text":
        return pc.is_null(column, nan_is_null=types.is_floating(column.type))
    if types.is_dictionary(column.type):
        return missing_labels(column.dictionary).take(column.indices).fill_null(True)
    if types.is_string_view(column.type):  # for which there are no kernels
        column = column.cast(pa.large_string())
    return pc.equal(pc.utf8_trim_whitespace(column.fill_null("")), "")


# Batches cut by what their rows take once they are decoded: a category's code stands for a text, and a list may
# be a million times as long as the one before it.

_VALUE_BYTES = 16  # of a list's value: as a 64-bit float, and its column
_MIN_LONG_ROW_BYTES = 8 << 20  # a shorter row may be larger than a block


def pieces(
    batch: pa.RecordBatch, coded: Collection[str], max_bytes: int, where: str, first: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows, in pieces of about ``max_bytes`` or of one row.

    coded: columns of which nobody decodes categories. where, first: the file and the row in it, from 0, for
    messages. Raises LongRowError for lists that are much longer than a piece.
    """
    lists, texts = _row_bytes(batch, coded)
    if lists is not None and (longest := int(lists.max(initial=0))) > max(2 * max_bytes, _MIN_LONG_ROW_BYTES):
        raise LongRowError(
            f"{where}: row {first + int(lists.argmax()) + 1}: its lists take {longest:,} bytes, too long for the "
            "memory limit; pass a larger --memory-limit",
            longest,
        )
    sizes = texts if lists is None else lists if texts is None else lists + texts
    if sizes is None or not batch.num_rows or (ends := np.cumsum(sizes))[-1] <= max_bytes:
        yield batch
        return
    start = 0
    while start < batch.num_rows:
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + max_bytes, "right")), start + 1)
        yield batch.slice(start, stop - start)
        start = stop


def _row_bytes(
    batch: pa.RecordBatch, coded: Collection[str]
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """Return the bytes (n,) of lists, and of texts; None where there are none."""
    lists: NDArray[np.int64] | None = None
    texts: NDArray[np.int64] | None = None
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for part in column.flatten() if types.is_struct(column.type) else (column,):
            if _is_list(part.type):
                n_bytes = _VALUE_BYTES * _known(pc.list_value_length(part))
                lists = n_bytes if lists is None else lists + n_bytes
        if types.is_dictionary(column.type):
            if name in coded or not _is_text(column.type.value_type):
                continue
            n_bytes = np.append(_lengths(column.dictionary), 0)[codes_of(column)]
        elif _is_text(column.type):
            n_bytes = _lengths(column)
        else:
            continue
        texts = n_bytes if texts is None else texts + n_bytes
    return lists, texts


def _is_list(type_: pa.DataType) -> bool:
    return bool(types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_))


def _is_text(type_: pa.DataType) -> bool:
    large = types.is_large_string(type_) or types.is_large_binary(type_)
    view = types.is_string_view(type_) or types.is_binary_view(type_)
    return bool(types.is_string(type_) or types.is_binary(type_) or large or view)


def _lengths(texts: pa.Array) -> NDArray[np.int64]:
    """Return the bytes (n,) of each text. Of views pyarrow has no lengths: the first four of the 16 bytes of each
    are its."""
    if not (types.is_string_view(texts.type) or types.is_binary_view(texts.type)):
        return _known(pc.binary_length(texts))
    buffer = texts.buffers()[1]
    if buffer is None or not len(texts):
        return np.zeros(len(texts), np.int64)
    lengths = np.frombuffer(buffer, np.int32, 4 * len(texts), 16 * texts.offset)[::4].astype(np.int64)
    return np.where(nulls(texts), 0, lengths)


def _known(lengths: pa.Array) -> NDArray[np.int64]:
    return plain(lengths.cast(pa.int64()).fill_null(0))
