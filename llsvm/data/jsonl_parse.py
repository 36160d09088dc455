"""The parsing of JSON Lines by pyarrow: which columns there are, by a file's first lines, and their rows.

A column is a key of the objects; of objects within objects it is named by its path, ``user.country``. Its type is
that of its first value that is not null (whole numbers become decimals); text that CSV would take for dates or
times is taken for them here too. An object of two lists, ``indices`` and ``values``, is one column, a sparse
vector.

pyarrow is given no text that has not been looked at: a line that is no object, such as ``null``, would end the
process; and an object that goes on in the next line must not be cut in two.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.types as types

from llsvm.data.text_chunks import Chunk
from llsvm.data.whole_numbers import may_be_alike
from llsvm.features.columns import numbers
from llsvm.features.spelling import (
    BOOL,
    DATE,
    DECIMALS,
    FIRST_DAY,
    MISSING,
    NUMBER,
    WHOLE_TYPES,
    kind_of_word,
    on_first_day,
    short,
    why_no_time,
    words_of,
)
from llsvm.features.table_options import own_names
from llsvm.objective.rounding import beyond_floats

_TEMPORAL = re.compile(r"\d{4}-\d\d-\d\d([T ][\d:.]+)?(Z|[+-]\d\d:?\d\d)?|\d\d:\d\d(:\d\d)?", re.ASCII)
_LOOKED_AT_BYTES = 1 << 16  # of lines, at a time
_KEY = re.compile(rb'"([^"]*)"[ \t]*:')
_KINDS = {bool: "bool", int: "int", float: "float", str: "text", list: "list", dict: "object"}
_TYPES = {"": pa.null(), "bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "text": pa.string()}


class Leaf(NamedTuple):
    """A column.

    path: the keys that lead to it. type: of its values. mixed: there are values of other types. words: text that
    means numbers, dates or times, all that was seen; else nothing. called: its name, where that is not its path.
    once: whether no text of it was seen twice.
    """

    path: tuple[str, ...]
    type: pa.DataType
    mixed: bool = False
    words: frozenset[str] = frozenset()
    called: str = ""
    once: bool = True

    @property
    def name(self) -> str:
        return self.called or self.written

    @property
    def written(self) -> str:
        return ".".join(self.path)


def is_nan(value: Any) -> bool:
    """Return whether the value is NaN, which Python writes for a missing value, whatever the type of its column."""
    return isinstance(value, float) and value != value


def is_whole_table(row: Mapping[str, Any]) -> bool:
    """Return whether the row is a data frame as pandas writes it by default, objects of values by the numbers of
    rows, or by one of its other orientations: index, split and table."""
    keys = [list(each) if isinstance(each, dict) else [] for each in row.values()]
    first = keys[0] if keys else []
    if len(first) > 1 and _are_rows(first) and keys.count(first) == len(row):
        return True
    if len(row) > 1 and _are_rows(list(row)) and first and keys.count(first) == len(row):
        return True
    rows = row.get("data")
    if not isinstance(rows, list) or len(rows) < 2:
        return False
    if row.keys() == {"schema", "data"}:
        return all(isinstance(each, dict) for each in rows)
    names, known = row.get("columns"), {"columns", "index", "data"}
    return isinstance(names, list) and known >= row.keys() and all(isinstance(each, list) for each in rows)


def _are_rows(keys: list[str]) -> bool:
    """Return whether these are the numbers of rows, as pandas writes its default index."""
    return keys == list(map(str, range(len(keys))))


class Seen:
    """Kinds of the values of a key that have been seen so far: also of whole lines."""

    def __init__(self) -> None:
        self._kind = ""
        self._mixed = False
        self._fields: dict[str, Seen] = {}  # of objects, in order of appearance
        self._item: Seen | None = None  # of lists
        self._once = True  # no text twice
        self._words: set[str] | None = set()  # text while all of it means numbers, bools, dates or times

    def take_in(self, value: Any) -> None:
        """Take in a value, as ``json`` reads it; those of another kind than the first do not count."""
        if value is None:
            return
        kind = _KINDS[type(value)]
        if self._kind == "" or (self._kind, kind) == ("int", "float"):
            self._kind = kind
        elif self._kind != kind and (self._kind, kind) != ("float", "int"):
            self._mixed = True
            return
        if kind == "text" and self._words is not None:
            self._once = self._once and value not in self._words
            if value in self._words or kind_of_word(value) in (MISSING, NUMBER, DATE, BOOL):
                self._words.add(value)
            else:
                self._words = None
        elif kind == "object":
            for key, each in value.items():
                self._fields.setdefault(key, Seen()).take_in(None if is_nan(each) else each)
        elif kind == "list":
            self._item = self._item or Seen()
            for each in value:
                self._item.take_in(each)

    def leaves(self, path: tuple[str, ...] = (), mixed: bool = False) -> Iterator[Leaf]:
        """Yield the columns, in order of appearance; of blank lines there is none. mixed: an object around it
        is."""
        mixed = mixed or self._mixed
        if self._kind != "object" and not path:
            return
        if self._kind != "object" or self._is_sparse_vector or (path and not self._fields):
            yield Leaf(path, self._type, mixed, frozenset(self._words or ()), once=self._once)
            return
        for key, seen in self._fields.items():
            yield from seen.leaves((*path, key), mixed)

    @property
    def _is_sparse_vector(self) -> bool:
        parts = [self._fields.get(key) for key in ("indices", "values")]
        return all(part is not None and part._kind == "list" for part in parts)

    @property
    def _type(self) -> pa.DataType:
        if self._kind == "object":
            return pa.struct([(key, seen._type) for key, seen in self._fields.items()])
        if self._kind == "list":
            return pa.list_(pa.null() if self._item is None else self._item._type)
        if self._kind == "text" and self._words and all(map(_TEMPORAL.fullmatch, self._words)):
            return _as_csv_takes(self._words)
        return _TYPES[self._kind]


def _as_csv_takes(times: Iterable[str]) -> pa.DataType:
    """Return the type of a column of CSV with that text; text where it is no date or time."""
    text = io.BytesIO("\n".join(["column", *sorted(times)]).encode())
    options = pacsv.ReadOptions(use_threads=False, block_size=max(text.getbuffer().nbytes + 1, 1024))
    type_ = pacsv.open_csv(text, read_options=options).schema.types[0]
    return type_ if types.is_temporal(type_) else pa.string()


def named_as(leaves: Sequence[Leaf], wanted: Collection[str]) -> list[Leaf]:
    """Return the columns with the names ``wanted`` where their own differ by space alone."""
    names = {stored: name for name, stored in own_names([leaf.name for leaf in leaves], wanted).items()}
    return [leaf._replace(called=names.get(leaf.name, "")) for leaf in leaves]


def keys_of(leaves: Iterable[Leaf]) -> set[bytes]:
    """Return the keys of the columns, and of objects within their lists, as they are written."""
    keys: set[str] = set()
    for leaf in leaves:
        keys.update(leaf.path)
        kinds = [leaf.type]
        while kinds:
            kind = kinds.pop()
            if types.is_list(kind) or types.is_struct(kind):
                kinds += [kind.field(i).type for i in range(kind.num_fields)]
            if types.is_struct(kind):
                keys.update(field.name for field in kind)
    return {json.dumps(key, ensure_ascii=ascii)[1:-1].encode() for key in keys for ascii in (True, False)}


def late_columns(text: bytes, keys: set[bytes], names: Collection[str]) -> dict[str, int]:
    """Return the columns of whole lines that are not among ``names``, and the place of the line in which each first
    is. keys: those known, see ``keys_of``."""
    first_lines: dict[str, int] = {}
    start = place = 0
    while start < len(text):
        stop = text.find(b"\n", start + _LOOKED_AT_BYTES) + 1 or len(text)
        lines, start = text[start:stop], stop
        # those behind a backslash are text within a value
        new = [key for key in _written(lines) - keys if (len(key) - len(key.rstrip(b"\\"))) % 2 == 0]
        for at, line in enumerate(lines.split(b"\n") if new else ()):
            if any(key in line for key in new):
                for name in _columns_in(line).difference(names):
                    first_lines.setdefault(name, place + at)
        place += lines.count(b"\n")
    return first_lines


def _written(lines: bytes) -> set[bytes]:
    """Return the parts of the lines that look like a key."""
    if b'" :' in lines or b'"\t:' in lines:
        return set(_KEY.findall(lines))
    return {before.rpartition(b'"')[2] for before in lines.split(b'":')[:-1]}


def _columns_in(line: bytes) -> set[str]:
    """Return the names of the columns that a line has values of."""
    seen = Seen()
    with suppress(ValueError, RecursionError):
        seen.take_in(json.loads(line))
    return {leaf.name for leaf in seen.leaves() if leaf.type != pa.null()}


def read_type(seen: pa.DataType, kind: str | None) -> pa.DataType:
    """Return the type that a column is read as where its first values are ``seen``. kind: of the feature that it
    becomes, see ``Column``; numbers are read as decimals but where they are categories, or indices of sparse
    rows."""
    if kind == "document" and not types.is_nested(seen):
        return pa.string()
    if kind == "text":
        return pa.string() if types.is_null(seen) or types.is_temporal(seen) else seen
    if types.is_list(seen):
        return seen if kind == "indices" else pa.list_(read_type(seen.value_type, None))
    if types.is_struct(seen):
        return pa.struct(
            [
                (field.name, read_type(field.type, field.name)) for field in seen
            ]  # "indices" stay whole numbers
        )
    return pa.float64() if types.is_integer(seen) or types.is_null(seen) else seen


def parsed_schema(leaves: Sequence[Leaf]) -> pa.Schema:
    """Return the schema that pyarrow parses by: objects within objects again, and dates and times as text."""
    tree: dict[str, Any] = {}
    for leaf in leaves:
        *folders, last = leaf.path
        node = tree
        for key in folders:
            node = node.setdefault(key, {})
        node[last] = pa.string() if types.is_temporal(leaf.type) else leaf.type
    return pa.schema(_fields(tree))


def _fields(tree: Mapping[str, Any]) -> list[tuple[str, pa.DataType]]:
    return [(key, pa.struct(_fields(each)) if isinstance(each, dict) else each) for key, each in tree.items()]


def possible_paths(
    name: str, names: Iterable[str], known: Iterable[tuple[str, ...]]
) -> list[tuple[str, ...]]:
    """Return the paths at which a column may stand whose key the first lines lack: by a key of that name, and
    within objects. names: of all columns. known: the paths of those that the first lines have."""
    whole, parts = (name,), tuple(name.split("."))
    others = [*known, *((other,) for other in names), *(tuple(other.split(".")) for other in names)]
    clash = any(
        parts[: len(other)] == other or other[: len(parts)] == parts for other in others if other != parts
    )
    return [whole] if clash or parts == whole or not all(parts) else [whole, parts]


def has_values(batch: pa.RecordBatch, name: str) -> bool:
    """Return whether the batch has a column of that name with a value in it."""
    place = batch.schema.get_field_index(name)
    return place >= 0 and batch.column(place).null_count < batch.num_rows


def flat(parsed: pa.RecordBatch, leaves: Sequence[Leaf]) -> pa.RecordBatch:
    """Return the columns by their names; of one with several places, each row's value is in one of these. Raises
    ArrowInvalid for text that is no date or time where one is expected."""
    columns: dict[str, pa.Array] = {}
    for leaf in leaves:
        try:
            column = _typed(_at(parsed, leaf.path), leaf.type)
            columns[leaf.name] = pc.coalesce(columns[leaf.name], column) if leaf.name in columns else column
        except pa.ArrowInvalid as error:
            word = str(error).partition("'")[2].rpartition("'")[0].removeprefix(FIRST_DAY)
            raise pa.ArrowInvalid(
                f"column {leaf.name}: {short(word)} {why_no_time(word)}, or read them as categories "
                f"(--categorical {leaf.name})"
            ) from error
    return pa.record_batch(columns) if columns else parsed


def _at(parsed: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    column = parsed.column(path[0])
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column


def _typed(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if not types.is_temporal(type_):
        return column
    words = words_of(column)
    if types.is_time(type_):  # which text is not cast to
        words = on_first_day(words).cast(pa.timestamp(type_.unit))
    return words.cast(type_)


_SPACE = b" \t\r"
_NEWLINE, _OPEN, _CLOSE = b"\n{}"
_TEXT_OR_NAN = re.compile(rb'("[^"\\]*(?:\\.[^"\\]*)*")|:[ \t]*NaN\b')
_NULL_BETWEEN = re.compile(rb"\}[ \t\r]*null")


def parse(chunk: Chunk, schema: pa.Schema, leaves: Sequence[Leaf]) -> pa.RecordBatch:
    """Return the columns ``leaves`` of the rows in a chunk. schema: of what pyarrow parses, see ``parsed_schema``.

    Raises ArrowInvalid or ValueError where a line is not what it should be; ``jsonl`` tells which and why.
    """
    text = chunk.text
    if not text.isascii():
        text.decode()
    n_rows = _count_objects(text)
    try:
        table = _table(text, schema)
    except pa.ArrowInvalid:
        if b"NaN" not in text:  # which pyarrow takes for a number, and Python writes for any missing value
            raise
        table = _table(_TEXT_OR_NAN.sub(lambda match: match[1] or b":null", text), schema)
    if table.num_rows != n_rows:
        raise ValueError("there is more than one object in a line")
    batches = table.to_batches()
    return flat(batches[0] if batches else pa.RecordBatch.from_pylist([], schema), leaves)


def _table(text: bytes, schema: pa.Schema) -> pa.Table:
    options = pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    read = pajson.ReadOptions(use_threads=False, block_size=len(text) + 1)
    return pajson.read_json(pa.BufferReader(text), read_options=read, parse_options=options)


def parse_whole(
    chunk: Chunk, schema: pa.Schema, leaves: Sequence[Leaf], names: Set[str], exact: Set[str]
) -> pa.RecordBatch:
    """Parse as ``parse`` does, and parse some columns again: those of ``names`` that may be whole numbers which
    64-bit floats do not tell apart, and those ``exact`` beyond these, as whole numbers, where they are such, and
    those ``exact`` as decimals, where they are not; also whole numbers of more than 64 bits."""
    try:
        batch = parse(chunk, schema, leaves)
    except pa.ArrowInvalid:
        wide = [
            leaf._replace(type=WHOLE_TYPES[1]) if leaf.type == WHOLE_TYPES[0] else leaf for leaf in leaves
        ]
        if wide == list(leaves):
            raise
        batch = parse(chunk, parsed_schema(wide), wide)
    for name in {leaf.name for leaf in leaves} & (names | exact):
        place = batch.schema.get_field_index(name)
        column = batch.column(place)
        long = name in exact and types.is_floating(column.type) and beyond_floats(numbers(column)).any()
        if not (long or may_be_alike(column)):
            continue
        for whole in (*WHOLE_TYPES, *((DECIMALS,) if long else ())):
            again = [
                leaf._replace(type=pa.list_(whole) if types.is_list(leaf.type) else whole)
                for leaf in leaves
                if leaf.name == name
            ]
            try:
                parsed = parse(chunk, parsed_schema(again), again)
            except pa.ArrowInvalid:
                continue
            batch = batch.set_column(place, name, parsed.column(0))
            break
    return batch


def _count_objects(text: bytes) -> int:
    """Count the lines that are not blank. Raises ValueError unless each looks like one object."""
    data = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(data == _NEWLINE)
    if data[-1] != _NEWLINE:
        ends = np.append(ends, len(data))
    starts = np.concatenate([[0], ends[:-1] + 1])
    odd = np.flatnonzero((data[starts] != _OPEN) | (data[ends - 1] != _CLOSE))
    n_rows = len(ends)
    for start, end in zip(starts[odd].tolist(), ends[odd].tolist(), strict=True):
        line = text[start:end].strip(_SPACE)
        if not line:
            n_rows -= 1
        elif line[0] != _OPEN or line[-1] != _CLOSE:
            raise ValueError("a line is no object")
    for match in _NULL_BETWEEN.finditer(text):
        start = text.rfind(b"\n", 0, match.start()) + 1
        json.loads(text[start : (text.find(b"\n", start) + 1) or len(text)])
    return n_rows
