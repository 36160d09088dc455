"""Columns of a table as people are told of them before training: types, examples, what could be a label; and text
that means numbers or dates; and errors of tables, in sentences."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types
from numpy.typing import NDArray

from llsvm.data.arrow_memory import wide_columns
from llsvm.data.source import BlockSource, ColumnsBatch
from llsvm.errors import DataError
from llsvm.features.arrow_types import decoded, is_plain_text, kind_of
from llsvm.features.columns import categories, empty_as_null, labels, numbers, vectors
from llsvm.features.encoder import TableEncoder
from llsvm.features.spelling import MISSING, NUMBER, kind_of_word, may_be_codes, short, type_spelled
from llsvm.features.table_options import Roles, TableOptions, listed, matching, own_names
from llsvm.features.value_texts import as_text
from llsvm.files.inputs import disk_failed, open_seekable, unreadable

INDEX_NAME, _INDEX = "__index_level_0__", re.compile(r"__index_level_\d+__")  # of one without a name
_UNNAMED = ("Unnamed: 0", "")  # as pandas and Polars name it
DESCRIBED_ROWS = 10_000
_MAX_LABELS = 50
_EXAMPLES = 3


def described(
    schema: pa.Schema,
    batch: pa.RecordBatch | None,
    partitions: Sequence[Mapping[str, pa.Scalar]],
    encoder: TableEncoder,
) -> list[dict[str, Any]]:
    """Return per column: name, type, use ("label", "weight", what it is as features, or "-"); and, where its values
    are known, examples, distinct (how many differ in the first rows) and label_candidate (whether it could be one).

    schema: of all columns. batch: the first rows, or None. partitions: of each file, its values of the columns
    that its folders give.
    """
    columns = []
    for name in schema.names:
        kind = kind_of(schema.field(name).type)
        use = "label" if name == encoder.label else "weight" if name == encoder.weight else ""
        column = {
            "name": name,
            "type": str(schema.field(name).type),
            "use": use or encoder.kind(name) or "-",
        }
        values = None
        if name in partitions[0]:
            values = pa.array([each[name].as_py() for each in partitions])
        elif batch is not None and kind in ("text", "number") and name in batch.schema.names:
            values = batch.column(name).slice(0, DESCRIBED_ROWS)
        if values is not None:
            distinct, kind = values.unique().drop_null(), kind_of(values.type)
            if kind == "text":
                distinct = distinct.cast(pa.large_string())  # of views few functions are there
                distinct = distinct.filter(pc.not_equal(distinct, ""))
            whole = kind == "text" or _whole(numbers(distinct))
            examples = distinct[:_EXAMPLES]
            examples = (
                as_text(examples) if pa.types.is_temporal(examples.type) else examples
            )  # of all times, Python has not all
            column["examples"] = ", ".join(map(_example, examples.to_pylist()))
            column["distinct"] = len(distinct)
            column["label_candidate"] = bool(2 <= len(distinct) <= _MAX_LABELS and whole)
        columns.append(column)
    return columns


def named_as(
    path: str, schema: pa.Schema, wanted: Collection[str], within: Mapping[str, Sequence[str]]
) -> tuple[pa.Schema, dict[str, str]]:
    """Return the schema of a file with the names ``wanted`` where its own differ by space alone, and these. within:
    the paths of columns that are fields of structs. Raises DataError where two columns have the same name."""
    twice = sorted(name for name, count in Counter(schema.names).items() if count > 1)
    if twice:
        struct = within.get(twice[0], ("",))[0]
        which = f", of which one is a field of column {struct!r}" if struct else ""
        raise DataError(f"{path}: two columns are named {twice[0]!r}{which}; rename one of them")
    stored = own_names(schema.names, wanted)
    names = {name: new for new, name in stored.items()}
    fields = (field.with_name(names.get(field.name, field.name)) for field in schema)
    return (pa.schema(fields, schema.metadata) if stored else schema), stored


def pandas_index(schema: pa.Schema) -> list[str]:
    """Return the columns that were the index of a frame of pandas, which says so in the schema."""
    entries: Any = ()
    with suppress(ValueError, AttributeError, RecursionError):
        entries = json.loads((schema.metadata or {}).get(b"pandas", b"{}")).get("index_columns", ())
    named = {name for name in entries if isinstance(name, str)} if isinstance(entries, list) else set()
    return [name for name in schema.names if name in named or _INDEX.fullmatch(name)]


def index_columns(schema: pa.Schema) -> list[str]:
    """Return ``pandas_index``, and a first column that was one of a CSV file, and that readers of these have
    named."""
    first = [field.name for field in list(schema)[:1] if field.name in _UNNAMED and _may_number(field.type)]
    return list(dict.fromkeys([*pandas_index(schema), *first]))


def _may_number(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        return _may_number(type_.value_type)
    return bool(pa.types.is_integer(type_)) or pa.types.is_temporal(type_)


def is_unnamed(names: Sequence[str]) -> bool:
    """Return whether the first column is one of a CSV file without a name there, as its readers name it."""
    return bool(names) and names[0] in _UNNAMED


def first_unnamed_text(schema: pa.Schema) -> str | None:
    """Return a first column of text, or of categories, that was one of a CSV file, and that readers of these have
    named: an index, where its values number the rows, see ``numbers_rows``."""
    return next((f.name for f in list(schema)[:1] if f.name in _UNNAMED and kind_of(f.type) == "text"), None)


def numbers_rows(words: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether a column of text has whole numbers, each there once, or dates or times. words: of the first
    rows."""
    words = pc.drop_null(decoded(words.combine_chunks() if isinstance(words, pa.ChunkedArray) else words))
    different = words.unique()
    try:
        type_ = type_spelled(different.to_pylist())
    except UnicodeDecodeError:  # which whoever encodes the rows refuses by its place
        return False
    if type_ is None or not pa.types.is_floating(type_):
        return type_ is not None and bool(pa.types.is_temporal(type_))
    whole = pc.all(pc.match_substring_regex(different.cast(pa.large_string()), r"^\s*-?[0-9]+\s*$"))
    return len(different) == len(words) and bool(whole.as_py())


def index_left_out(name: str) -> str:
    """Return a sentence on that column."""
    shown = name or "''"
    return f"column {shown} is an index, as pandas writes it: left out (--features with its name takes it)"


def as_written(
    batch: pa.RecordBatch, metadata: Any, index: Sequence[str], empty_is_missing: bool
) -> pa.RecordBatch:
    """Return a batch of a table as it is to be read again from another format. index: columns of CSV without a name
    that number the rows. empty_is_missing: empty text is no value."""
    columns = [empty_as_null(column) if empty_is_missing else column for column in batch.columns]
    names = [INDEX_NAME if name in index else name for name in batch.schema.names]
    return pa.record_batch(columns, pa.schema(zip(names, batch.schema.types, strict=True), metadata))


def first_rows(
    read: Callable[[list[str], int, int], Iterator[pa.RecordBatch]], names: list[str], together: int
) -> pa.RecordBatch | None:
    """Return the columns ``names`` of a file's first rows. read: columns, in batches of so many rows and bytes.
    together: columns that are read at a time, no more than a reading of the rows may hold."""
    columns = dict[str, pa.Array]()
    for group in (names[start : start + together] for start in range(0, len(names), together)):
        batch = next(iter(read(group, DESCRIBED_ROWS, 1 << 20)), None)
        if batch is None:
            return None
        columns |= dict(zip(group, batch.columns, strict=True))
    n_rows = min(map(len, columns.values()), default=0)
    return pa.record_batch({name: column[:n_rows] for name, column in columns.items()})


def _whole(values: NDArray[np.float64]) -> bool:
    finite = values[np.isfinite(values)]
    return len(finite) == len(values) and bool(np.all(finite % 1 == 0))


def _example(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def missing_in(batches: Iterable[pa.RecordBatch], encoder: TableEncoder, name: str) -> str:
    """Return how many rows of a feature column have no value, for a message. batches: of that column alone."""
    with suppress(ValueError):  # which another row is refused for
        total = sum(_count_missing(batch.column(0), encoder, name) for batch in batches)
        return f" ({total:,} missing in that column)"
    return ""


def _count_missing(column: pa.Array, encoder: TableEncoder, name: str) -> int:
    feature = next(each for each in encoder.columns if each.name == name)
    if feature.kind == "number":
        return int(np.isnan(numbers(column, feature.sort)).sum())
    if feature.kind == "vector":
        return int(np.isnan(vectors(column, name, feature.width)).any(axis=1).sum())
    return int(np.count_nonzero(categories(column, encoder.categories.empty_is_missing(name))[0] < 0))


# Columns of text that mean numbers or dates, by the first rows of a table; see ``llsvm.features.spelling``.

_READ_AS = {pa.float64(): "numbers", pa.bool_(): "true or false"}  # else dates or times
LOOKED_AT_ROWS, LOOKED_AT_BYTES = 10_000, 1 << 20


def plain_texts(where: str, schema: pa.Schema, roles: Roles, options: TableOptions) -> list[str]:
    """Return the features and weights whose text may mean something else: no documents, and none that are
    categories by their type or by an option. Raises DataError."""
    named = _named(where, roles, "text", options.text)
    named |= _categorical(where, schema, roles, options)
    return [
        name
        for name in (*roles.features, *filter(None, [roles.weight]))
        if name not in named and is_plain_text(schema.field(name).type)
    ]


def _named(where: str, roles: Roles, option: str, patterns: Collection[str]) -> set[str]:
    """Return the features that an option names. Raises DataError."""
    named: set[str] = set()
    for each in patterns:
        named |= matching(where, roles.features, each, option)
    return named


def _categorical(where: str, schema: pa.Schema, roles: Roles, options: TableOptions) -> set[str]:
    """Return the features that are categories by an option; it may name other columns, too. Raises DataError."""
    others = set(schema.names).difference(roles.features)
    return _named(where, roles, "categorical", set(options.categorical) - others)


def first_words(
    read: Callable[[list[str], int, int], Iterator[pa.RecordBatch]],
    names: list[str],
    together: int,
    partitions: Sequence[Mapping[str, pa.Scalar]],
) -> dict[str, set[str]]:
    """Return the different values of columns of text in the first rows, or in the first that have any, if they mean
    something else. read: columns, in batches of so many rows and bytes. together: columns that are read at a time.
    partitions: of each file, its values of the columns that its folders give."""
    words: dict[str, set[str]] = {name: set() for name in names}
    for name in partitions[0].keys() & words.keys():
        words[name] = {each[name].as_py() or "" for each in partitions}
    stored = [name for name in names if name not in partitions[0]]
    for group in (stored[start : start + together] for start in range(0, len(stored), together)):
        _look(read, group, words, set())
        if empty := [name for name in group if _are_missing(words[name])]:
            _look(read, empty, words, set(empty))
        for name in group:  # there may be very many columns
            if type_spelled(words[name]) is None:
                del words[name]
    return words


def _look(
    read: Callable[[list[str], int, int], Iterator[pa.RecordBatch]],
    names: list[str],
    words: Mapping[str, set[str]],
    awaited: set[str],
) -> None:
    """Take in the values of the first rows, counted once each of the columns ``awaited`` has one."""
    rows = held = 0
    for batch in read(names, LOOKED_AT_ROWS, LOOKED_AT_BYTES):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if not is_plain_text(column.type):  # of a later batch, which is checked when its rows are encoded
                nothing_yet = _are_missing(words[name])  # but a type
                if nothing_yet and kind_of(column.type) == "number":
                    words[name].update(map(str, numbers(pc.drop_null(column.unique()))))
                continue
            try:
                words[name].update(pc.drop_null(column.unique()).to_pylist())
            except UnicodeDecodeError:  # which whoever encodes the rows refuses by its place
                words[name].add("\ufffd")
        awaited = {name for name in awaited if _are_missing(words[name])}
        if not awaited:
            rows, held = rows + batch.num_rows, held + batch.nbytes
        if rows >= LOOKED_AT_ROWS or held >= LOOKED_AT_BYTES:
            break


def _are_missing(words: Collection[str]) -> bool:
    return all(kind_of_word(word) == MISSING for word in words)


def meanings(
    where: str, words: Mapping[str, Collection[str]], weight: str | None
) -> tuple[dict[str, pa.DataType], list[str]]:
    """Return the types that columns are read as, of their first words, see ``type_spelled``; and sentences for
    their user, but for the column of weights."""
    read_as, notes = dict[str, pa.DataType](), []
    for name, texts in words.items():
        if (type_ := type_spelled(texts)) is None:
            continue
        if name == weight:
            read_as[name] = type_
        elif type_ == pa.float64() and may_be_codes(texts):
            code = min(word for word in texts if kind_of_word(word) == NUMBER)
            notes.append(
                f"{where}: column {name}: numbers written as text, such as {short(code)}, are taken for codes, "
                "which become categories (write them as numbers if they are quantities)"
            )
        else:
            read_as[name] = type_
            what = _READ_AS.get(type_, "dates or times")
            notes.append(
                f"{where}: column {name}: text that means {what} is read as such (--categorical {name} makes "
                "categories of it)"
            )
    return read_as, notes


def coded_numbers(where: str, schema: pa.Schema, roles: Roles, options: TableOptions) -> list[str]:
    """Return a sentence for each feature whose type is that of categories, but whose values are numbers or
    dates."""
    categorical = _categorical(where, schema, roles, options)
    return [
        f"{where}: column {name}: its type is that of categories, but its values are no text: they are read as "
        f"numbers (--categorical {name} makes categories of them)"
        for name in roles.features
        if types.is_dictionary(schema.field(name).type)
        and kind_of(schema.field(name).type) == "number"
        and name not in categorical
    ]


def more_columns(
    where: str, schema: pa.Schema, first: str, first_schema: pa.Schema, known: set[str]
) -> list[str]:
    """Return a sentence for each column that a later file has and ``first`` has not, but for those ``known``, which
    they join."""
    there = known.union(first_schema.names)
    new = [name for name in schema.names if name not in there]
    known.update(new)
    return [f"{where}: column {name} is left out: {first} has none of that name" for name in new]


# Errors of tables in sentences: files that pyarrow could not read, and all that training would refuse.


class TableFormat(Protocol):
    """format: its name. magic: what its files begin with. no_footer: what the library says of a file that lacks
    its end."""

    format: str
    magic: bytes
    no_footer: tuple[str, ...]


def refuse_damage(path: str, n_bytes: int, kind: TableFormat, place: str, error: Exception) -> NoReturn:
    """Raise the DataError for ``error``, what the library said. n_bytes: of the file. place: where in the file,
    such as "row group 3", or "". Errors that are not the file's pass."""
    if isinstance(error, DataError) or (isinstance(error, MemoryError) and not _is_absurd(error)):
        raise error
    if disk_failed(error):
        raise unreadable(path, error) from error
    reason = " ".join(str(error).split()).rstrip(".")
    if not place and any(sign in reason for sign in kind.no_footer):
        try:
            with open_seekable(path) as file:
                begins = file.read(len(kind.magic))
        except OSError as failed:
            raise unreadable(path, failed) from error
        if begins != kind.magic:
            raise DataError(
                f"{path}: not a {kind.format} file, by its first bytes {begins!r}; unpack it where it is "
                "compressed, or name its format with --format"
            ) from error
        raise DataError(
            f"{path}: the file ends at byte {n_bytes:,} without the footer that {kind.format} files end with: "
            "it is cut off or damaged, or was not written to its end; fetch or write it again"
        ) from error
    where = f"{path}: {place}" if place else path
    if "Invalid UTF8" in reason:
        raise DataError(
            f"{where}: text that is not UTF-8: {reason}; write it as UTF-8; documents may also be "
            "bytes (binary), in the encoding that llsvm train names (--encoding latin-1)"
        ) from error
    if "more than 64 bits" in reason:
        raise DataError(
            f"{where}: {_wide(path)} whole numbers of more than 64 bits (Int128 in Polars), which Arrow does "
            "not read; write the file with 64-bit numbers or text there (Polars: pl.col(NAME).cast(pl.Int64))"
        ) from error
    raise DataError(
        f"{where}: not readable as {kind.format}, cut off or damaged: {reason}; fetch or write it again"
    ) from error


def _wide(path: str) -> str:
    """Return the names of the columns that are too wide, as the beginning of a sentence ("column a has")."""
    with open_seekable(path) as file:
        names = wide_columns(file)
    if len(names) == 1:
        return f"column {names[0]} has"
    return f"columns {listed(names)} have" if names else "a column has"


def _is_absurd(error: MemoryError) -> bool:
    """Return whether more memory was asked for than the machine has: a length in the file is wrong."""
    asked = re.search(r"size (\d+)", str(error))
    return asked is not None and int(asked[1]) > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def missing_value(path: str, name: str, row: int, count: str, predicting: bool) -> DataError:
    """Return the error for a value that is missing where that is refused. row: from 0. count: of all in that
    column, in words."""
    remedy = f"pass --missing zero or --missing mean, or leave the column out (--exclude {name})"
    if predicting:
        remedy = "fill it in, or train with --missing zero or --missing mean"
    return DataError(f"{path}: column {name}: the value is missing in row {row + 1}{count}; {remedy}")


def refuse_cell(batch: ColumnsBatch, error: ValueError) -> NoReturn:
    """Raise the DataError for a ValueError(row, reason) of a batch, or for an error of pyarrow or NumPy."""
    if isinstance(error, DataError):
        raise error if batch.path in str(error) else DataError(f"{batch.path}: {error}")
    if len(error.args) != 2:
        raise DataError(f"{batch.path}: row {batch.first_row + 1} or after: {error}") from error
    raise DataError(f"{batch.path}: row {batch.row(error.args[0]) + 1}: {error.args[1]}") from error


def refuse_label_kind(path: str, first: str, name: str | None, is_text: bool) -> NoReturn:
    """Raise DataError for labels of another kind than those of the file ``first``."""
    kinds = ("text", "numbers") if is_text else ("numbers", "text")
    there = "before" if path == first else f"in {first}"  # batches have one name
    raise DataError(
        f"{path}: column {name}: the labels are {kinds[0]}, but {kinds[1]} {there}; write them as one type, or "
        f"keep all as text (--categorical {name})"
    )


def is_without_rows(error: Exception) -> bool:
    """Return whether pyarrow says that nothing follows the header."""
    return "Could not skip initial" in str(error) or "Empty CSV file" in str(error)


# What training would refuse of a table whose rows cannot be read as they are: per column how many values, where
# the first of them is, and the remedy.

_PIECE_BYTES = 1_000_000


@dataclass(slots=True)
class _Count:
    """Count of one kind of value in one column. place: of the first, in words."""

    rows: int = 0
    place: str = ""

    def add(self, batch: ColumnsBatch, refused: NDArray[np.bool_]) -> None:
        if refused.any() and not self.rows:
            self.place = f"{batch.path}: row {batch.row(int(np.argmax(refused))) + 1}"
        self.rows += int(np.count_nonzero(refused))


class _Column:
    """missing, infinite: of a column's rows so far."""

    def __init__(self, name: str, kind: str | None) -> None:
        self.name, self.kind = name, kind  # None: the label's
        self.missing, self.infinite = _Count(), _Count()

    def add(self, batch: ColumnsBatch, values: pa.Array) -> None:
        if self.kind is None:
            _, gone = labels(values)
        elif kind_of(values.type) == "number":
            array = numbers(values)
            gone = np.isnan(array)
            self.infinite.add(batch, np.isinf(array))
        else:  # text without a value is a category less
            return
        self.missing.add(batch, gone)

    def refusals(self, missing: str) -> list[str]:
        """Return a sentence for each reason to refuse the column. missing: as TableOptions has it."""
        exclude = f"leave the column out (--exclude {self.name})"
        cases = []
        if self.missing.rows and self.kind is None:
            cases.append(("the label is missing", self.missing, "fill it in, or pass --missing-label drop"))
        elif self.missing.rows and missing == "refuse":
            cases.append(("the value is missing", self.missing, f"pass --missing zero or mean, or {exclude}"))
        if self.infinite.rows:
            what = "the value is infinite, or too large for a 64-bit float"
            cases.append((what, self.infinite, f"write a finite number or none at all, or {exclude}"))
        return [
            f"column {self.name}: {what} in {_rows(count.rows)}, first in {count.place}: {remedy}"
            for what, count, remedy in cases
        ]


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def refusals(source: BlockSource, missing: str) -> dict[str, Any] | None:
    """Return what is refused of a table that can be read again: name, format, bytes, rows, columns (see
    TableSource.describe, and missing, the rows without a value) and refused, sentences; None where nothing is
    refused, or the source is no such table. missing: as TableOptions has it. Raises DataError where not even its
    columns can be read."""
    info = source.info()
    encoder = info.encoder
    if info.columns is None or info.describe is None or encoder is None:
        return None
    columns = [_Column(each.name, each.kind) for each in encoder.columns if each.kind in ("number", "text")]
    columns += [] if encoder.label is None else [_Column(encoder.label, None)]
    n_rows = 0
    for batch in info.columns([each.name for each in columns], _PIECE_BYTES):
        n_rows += batch.rows.num_rows
        for each in columns:
            each.add(batch, batch.rows.column(each.name))
    refused = [sentence for each in columns for sentence in each.refusals(missing)]
    if not refused:
        return None
    counts = {each.name: each.missing.rows for each in columns}
    described = [{**each, "missing": counts.get(each["name"])} for each in info.describe()]
    about = {"name": info.name, "format": info.format, "bytes": info.n_bytes, "rows": n_rows}
    return {**about, "columns": described, "refused": refused}
