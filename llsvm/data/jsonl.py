"""JSON Lines: an object a line, in UTF-8; compressed, piped. See ``jsonl_parse`` for what becomes of the keys.

The columns are the keys of the first file's first megabyte; keys that come up later are no columns, which a note
says. A key that a line does not have is missing there, as null is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.types as types

from llsvm.block import Block
from llsvm.data.jsonl_parse import (
    Leaf,
    Seen,
    has_values,
    is_nan,
    is_whole_table,
    keys_of,
    late_columns,
    named_as,
    parse,
    parse_whole,
    parsed_schema,
    possible_paths,
    read_type,
)
from llsvm.data.source import ColumnsBatch
from llsvm.data.table import TextTable
from llsvm.data.table_columns import numbers_rows
from llsvm.data.text_chunks import MAX_LINE_BYTES, Chunk, refuse_long
from llsvm.data.whole_numbers import of_any_time, only_features
from llsvm.errors import DataError, MissingColumnError
from llsvm.features.column import LISTS
from llsvm.features.encoder import TableEncoder
from llsvm.features.labels import NOT_A_NUMBER
from llsvm.features.table_options import listed, matching
from llsvm.features.text.vectorizer import RowsAhead
from llsvm.features.value_texts import MOST_LABELS
from llsvm.files.decoding import as_utf8
from llsvm.files.fingerprint import Reading
from llsvm.files.inputs import STDIN
from llsvm.memory.budget import require_room
from llsvm.settings.objective import REGRESSION

_PROBE_BYTES = 1 << 20
_CHUNK_BYTES = (1 << 18, 1 << 20)  # of text, parsed together
_TOLD_KEYS = 20  # that are no columns
_READER_BYTES = 24 << 20  # measured: a chunk of long lines as text and as values
_HELD_BYTES = 5 << 20  # for each chunk that is parsed meanwhile; measured
_COLUMN_BYTES = 10_000  # held for each column of the file, however small; measured


class JSONLinesSource(TextTable):
    """Files of JSON Lines."""

    format = "jsonl"
    numbers_are_text = True

    def _begin(self, encoder: TableEncoder | None) -> None:
        self._model = encoder
        self._heads: dict[int, list[Leaf]] = {}
        self._first_row: dict[str, Any] | None = None
        self._unseen = set[str]()  # the model's columns of which no row so far has a value

    def _reader_bytes(self) -> int:
        more = _HELD_BYTES * (self._threads if self._threads > 1 else 0)
        return _READER_BYTES + more + self._window_bytes + _COLUMN_BYTES * len(self._head(0))

    # -- columns ----------------------------------------------------------------------------------------

    def _schema(self, number: int) -> pa.Schema:
        leaves = [(leaf.name, leaf.type) for leaf in self._head(number)]
        there = {name for name, _ in leaves}
        absent = [name for name in self._may_be_absent(number) if name not in there]
        return pa.schema([*leaves, *((name, pa.null()) for name in absent)])

    def _may_be_absent(self, number: int) -> list[str]:
        """Return the columns that this file need not have: what its lines do not have is missing."""
        if number > 0:
            return self._schema(0).names
        if self._model is not None and self._first_row is None:  # a night without rows: what is asked for
            return list(dict.fromkeys((*self._model.used, *self._options.keep.names)))
        if self._model is None or self._model.missing == "refuse":
            return []
        return [column.name for column in self._model.columns if column.kind not in LISTS]

    def _field_paths(self) -> Mapping[str, Sequence[str]]:
        return {leaf.name: leaf.path for leaf in self._head(0) if len(leaf.path) > 1}

    def _unreadable(self) -> set[str]:
        """Return the columns of several types, which are refused where they are needed."""
        return {leaf.name for leaf in self._head(0) if leaf.mixed}

    def _head(self, number: int) -> list[Leaf]:
        """Return the columns of a file, by its first megabyte; what the first file's are, the next ones tell, too,
        until they have a megabyte together."""
        if number not in self._heads:
            path = self._paths[number]
            text, seen = self._head_text(path), Seen()
            self._take_in(number, text, seen)
            leaves = list(seen.leaves())
            self._heads = {
                k: head for k, head in self._heads.items() if k == 0
            }  # there may be very many files
            if number == 0:
                leaves = self._as_more_files_tell(leaves, seen, len(text))
                if self._first_row is None and (self._need_label or self._model is None):
                    what = "there is no row in it" if text else "the file is empty"
                    raise DataError(f"{path}: {what}; give a file with at least one row")
            names = (*self._requested, *(leaf.name for leaf in self._heads.get(0, ())))
            self._heads[number] = named_as(leaves, names)
        return self._heads[number]

    def _as_more_files_tell(self, leaves: list[Leaf], seen: Seen, n_bytes: int) -> list[Leaf]:
        """Return the first file's columns, or those of the first one with rows, with the types that one file of the
        same rows would have. Values of another type are refused where they stand."""
        for number in range(1, len(self._paths)):
            if self._paths[number] == STDIN or (self._first_row is not None and n_bytes >= _PROBE_BYTES):
                break
            text, is_first = self._head_text(self._paths[number]), self._first_row is None
            self._take_in(number, text, seen)
            n_bytes += len(text)
            leaves = list(seen.leaves()) if is_first else leaves
        mixed = {leaf.path: leaf.mixed for leaf in leaves}
        return [
            leaf._replace(mixed=mixed.get(leaf.path, leaf.mixed))
            for leaf in seen.leaves()
            if any(leaf.path[:end] in mixed for end in range(1, len(leaf.path) + 1))
        ]

    def _head_text(self, path: str) -> bytes:
        """Return the first megabyte of a file, or its first line."""
        text = self._first_text(path, _PROBE_BYTES, lambda text: b"\n" in text or len(text) > MAX_LINE_BYTES)
        if len(text) > MAX_LINE_BYTES and b"\n" not in text:
            refuse_long(path, 1)
        return text

    def _take_in(self, number: int, text: bytes, seen: Seen) -> None:
        """Take in the whole lines of a file's first text."""
        whole = text if len(text) < _PROBE_BYTES else text[: text.rfind(b"\n") + 1] or text
        if not whole.strip():
            return
        for place, line in enumerate(whole.split(b"\n"), 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line.decode())  # json would take bytes for UTF-16, too
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict):
                self._refuse_line(
                    number, Chunk(line, place), pa.schema([]), lambda chunk: json.loads(chunk.text)
                )
            require_room(self._paths[number], _COLUMN_BYTES * len(row))
            if place == 1 and is_whole_table(row):
                raise DataError(
                    f"{self._paths[number]}:1: one object holds all rows, where one JSON object a line is "
                    "wanted; write each row so, in a line of its own (pandas: to_json(orient='records', "
                    "lines=True))"
                )
            seen.take_in(row)
            if self._first_row is None:
                self._first_row = row

    def _numbers_rows(self, name: str) -> bool:
        leaf = self._head(0)[0]
        return leaf.once and numbers_rows(pa.array(sorted(leaf.words), pa.string()))

    def _first_words(self, names: list[str]) -> Mapping[str, Collection[str]]:
        partition = self._partitions[0]
        stored, given = set(names).difference(partition), [name for name in names if name in partition]
        words = {leaf.name: leaf.words for leaf in self._head(0) if leaf.name in stored}
        return {**super()._first_words(given), **words}

    def _planned(self, schema: pa.Schema) -> TableEncoder:
        try:
            documents: set[str] = set()
            for each in self._options.text:
                documents |= matching(self._paths[0], schema.names, each, "text")
            encoder = super()._planned(self._as_written(schema, documents))
        except MissingColumnError as error:
            raise error.with_hint("the columns are the keys of the first megabyte") from error
        for leaf in self._head(0):  # dates and times are labels as CSV has them
            if leaf.name == encoder.label and pa.types.is_temporal(leaf.type) and not encoder.text_label:
                encoder.label_words.note_alike(sorted(leaf.words)[:MOST_LABELS])
        return encoder

    def _bound(self, schema: pa.Schema, encoder: TableEncoder) -> TableEncoder:
        documents = {column.name for column in encoder.columns if column.kind == "document"}
        there = {leaf.name for leaf in self._head(0)}
        self._unseen = {column.name for column in encoder.columns if column.name not in there}
        encoder = super()._bound(self._as_written(schema, documents), encoder)
        features = {column.name for column in encoder.columns if column.kind == "number"}
        times = {leaf.name: leaf.type for leaf in self._head(0) if pa.types.is_temporal(leaf.type)}
        self._read_as |= {
            name: times[name] for name in features & times.keys()
        }  # where they are handed on, too
        return encoder

    def _comes_as_text(self, name: str, type_: pa.DataType) -> bool:
        """Return whether that column is handed on, with dates or times as they are written. A feature becomes a
        number in ``_encoded``; a label that is needed, and what rows are chosen by, are dates and times already."""
        needed = name in self._choice.needed(()) or (name == self.encoder.label and self._need_label)
        return (
            pa.types.is_temporal(type_) and name in self._kept_columns and not (self._groups_rows or needed)
        )

    def _handed_on(self, name: str, type_: pa.DataType) -> pa.DataType:
        return pa.string() if self._comes_as_text(name, type_) else type_

    def _encoded(self, number: int, batch: ColumnsBatch, documents: RowsAhead | None, first_id: int) -> Block:
        rows, label = batch.rows, self.encoder.label
        if (
            label in self._kept_columns and not self._need_label and label in rows.schema.names
        ):  # nobody needs it
            none = pa.nulls(len(rows), pa.float64())
            rows = rows.set_column(rows.schema.get_field_index(label), label, none)
        block = super()._encoded(number, batch._replace(rows=rows), documents, first_id)
        return replace(block, kept=batch.rows.select(self._kept_columns)) if self._kept_columns else block

    def _as_written(self, schema: pa.Schema, documents: set[str]) -> pa.Schema:
        """Return the schema with the ``documents`` as text: dates and times are that in the file, and a number is
        refused where it stands."""
        single = {leaf.name for leaf in self._head(0) if not pa.types.is_nested(leaf.type)}
        for place in (schema.get_field_index(name) for name in single & documents):
            schema = schema.set(place, schema.field(place).with_type(pa.string()))
        return schema

    def _widths(self, lists: list[str]) -> dict[str, int]:
        widths = {}
        for leaf in self._head(0):
            if leaf.name in lists:
                value: Any = self._first_row
                for key in leaf.path:
                    value = (value or {}).get(key)
                widths[leaf.name] = len(value or ())
        return widths

    # -- rows -------------------------------------------------------------------------------------------

    def _batches(
        self, number: int, names: list[str], max_rows: int, max_bytes: int, reading: Reading | None = None
    ) -> Iterator[pa.RecordBatch]:
        path = self._paths[number]
        leaves = self._leaves(number, names)
        whole = set(only_features(names, self.encoder, {*self._kept_columns, *self._choice.needed(())}))
        categories = (name for name in names if self.encoder.kind(name) == "text")
        exact = {*self._kept_columns, *self._choice.compared, *categories}
        if reading is not None:
            leaves = [
                leaf._replace(type=of_any_time(leaf.type)) if leaf.name in whole else leaf for leaf in leaves
            ]
        schema = parsed_schema(leaves)
        size = min(max(max_bytes, _CHUNK_BYTES[0]), _CHUNK_BYTES[1])
        looks = reading is not None and self._file_rows is None and not self._predicting
        known = [*self._head(0), *self._head(number)] if looks else []
        keys, columns = keys_of(known), {*self._full_schema(0).names, *(leaf.written for leaf in known)}
        with self._opened(path, reading) as stream:
            work = lambda chunk: parse_whole(chunk, schema, leaves, whole, exact)  # noqa: E731
            for chunk, parsed in self._parsed(stream, work, size, max_rows):
                try:
                    batch = parsed()
                except (pa.ArrowException, ValueError) as error:
                    again: Callable[[Chunk], Any] = lambda each: parse(each, schema, leaves)  # noqa: E731
                    self._refuse_line(number, chunk, schema, again, error)
                if looks:
                    self._look_for_keys(number, chunk, keys, columns)
                self._unseen -= {name for name in self._unseen if has_values(batch, name)}
                yield batch
            if reading is not None and number == len(self._paths) - 1:
                self._tell_unseen(names)
            self._fingerprints[number] = stream.finish() or self._fingerprints[number]

    def _leaves(self, number: int, names: list[str]) -> list[Leaf]:
        """Return how to read the columns ``names``: as the first file has them."""
        first = {leaf.name: leaf for leaf in self._head(0)}
        stored = {leaf.name: leaf for leaf in self._head(number)}
        known = {
            name: (stored.get(name) or first[name]).path for name in names if name in stored or name in first
        }
        leaves = []
        for name in names:
            seen = first[name].type if name in first else pa.null()
            type_ = seen if self._as_it_is(name) else read_type(seen, self.encoder.kind(name))
            type_ = self._handed_on(name, type_)
            paths = [known[name]] if name in known else possible_paths(name, names, known.values())
            leaves += [Leaf(path, type_, called=name) for path in paths]
        return leaves

    def _look_for_keys(self, number: int, chunk: Chunk, keys: set[bytes], names: set[str]) -> None:
        """Note keys that are no columns; they join ``names``, and those of further files are not looked for."""
        for name, place in late_columns(chunk.text, keys, names).items():
            names.add(name)
            if name not in self._left_out and len(self._left_out) < _TOLD_KEYS:
                self._note(
                    f"{self._paths[number]}: the key {name!r} (line {chunk.number + place:,}) is no column: the "
                    "columns are the keys of the first megabyte; write it in one of the first lines to have it read"
                )
            self._left_out.add(name)

    def _tell_unseen(self, names: Collection[str]) -> None:
        """Note the model's columns of which no row has a value, though a row need not have each."""
        unseen = sorted(self._unseen.intersection(names))
        if unseen and self._first_row is not None:
            which = (
                f"column {unseen[0]}: it is" if len(unseen) == 1 else f"columns {listed(unseen)}: they are"
            )
            self._note(
                f"{self.info().name}: no row has the model's {which} missing in every row (are the keys written "
                "otherwise than in the training data?)"
            )

    # -- what is wrong ----------------------------------------------------------------------------------

    def _refuse_line(
        self,
        number: int,
        chunk: Chunk,
        schema: pa.Schema,
        again: Callable[[Chunk], Any],
        error: Exception | None = None,
    ) -> NoReturn:
        path = self._paths[number]
        result = complaint(chunk, schema, self._remedy, again, self._predicting)
        if result is None:
            raise DataError(
                f"{path}: cannot be read as JSON Lines, in line {chunk.number:,} or after: {error}"
            ) from error
        line, what = result
        raise DataError(f"{path}:{line}: {what}") from error

    def _remedy(self, name: str) -> str:
        """Return what to do about a value of another type than its column's."""
        if name == self.encoder.label:
            if self.encoder.label_kind == REGRESSION:
                return NOT_A_NUMBER
            return "write the labels as one type, all as numbers or all as text"
        if self._predicting:
            return "write the column as one type, that of the training data"
        leaves = (each for each in self._head(0) if not pa.types.is_nested(each.type))
        path = next((each.path for each in leaves if each.written == name), ())
        keys = "".join(f"[{json.dumps(key, ensure_ascii=False)}]" for key in path)
        as_text = f" (all of it as text: jq -c '.{keys} |= tostring')" if path else ""
        return f"write the column as one type{as_text}, or leave it out (--exclude {name})"

    def _explain(self, number: int, error: Exception) -> NoReturn:
        raise DataError(f"{self._paths[number]}: cannot be read as JSON Lines: {error}") from error


# What is wrong with a line, in a sentence: slow and exact, as it runs once.

_SHOWN = 40
_PLACE = re.compile(r" in row \d+$")  # where pyarrow says it is, in the few lines it was given
_NAMES = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
}


class _TwiceError(ValueError):
    """A key stands twice in an object."""


def complaint(
    chunk: Chunk,
    schema: pa.Schema,
    remedy: Callable[[str], str],
    parse: Callable[[Chunk], Any],
    predicting: bool,
) -> tuple[int, str] | None:
    """Return (line, what is wrong with it) of the first bad line of a chunk; None where no line is bad.

    schema: see ``parsed_schema``. remedy: what to do about a value of another type in a column. parse: a chunk,
    as it is parsed; it raises ValueError (as ArrowInvalid is) where that fails. predicting: see ``as_utf8``.
    """
    lines = chunk.text.split(b"\n")
    for place, line in enumerate(lines):
        if line.strip() and (sentence := _about(line, schema, remedy, predicting)):
            return chunk.number + place, sentence
    good, bad = 0, len(lines)  # so many lines can be parsed, and cannot
    error = _error_of(lines, chunk.number, parse)
    while error is not None and bad > good + 1:
        middle = (good + bad) // 2
        nearer = _error_of(lines[good:middle], chunk.number, parse)
        good, bad, error = (middle, bad, error) if nearer is None else (good, middle, nearer)
    if error is None:
        return None
    reason = _PLACE.sub("", " ".join(str(error).split())).rstrip(".")
    return chunk.number + good, reason if "--" in reason else f"not readable: {reason}; correct the line"


def _error_of(lines: list[bytes], number: int, parse: Callable[[Chunk], Any]) -> ValueError | None:
    try:
        parse(Chunk(b"\n".join([*lines, b""]), number))
    except ValueError as error:
        return error
    return None


def _about(line: bytes, schema: pa.Schema, remedy: Callable[[str], str], predicting: bool) -> str:
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        byte = f"byte {line[error.start]:#04x} is not UTF-8"
        return f"{byte}; {as_utf8(line, predicting)}"
    if "\0" in text:
        return f"zero bytes: this is no JSON text in UTF-8; {as_utf8(line, predicting)}"
    text = text.strip()
    if text.startswith("["):
        return "an array, where one object a line is wanted; jq -c '.[]' writes it so"
    if not text.startswith("{"):
        return (
            f"{_short(text)}, where one JSON object a line is wanted; write each row so, in a line of its own"
        )
    try:
        value = json.loads(text, object_pairs_hook=_without_doubles)
    except _TwiceError as error:
        return f"the key {error.args[0]!r} is there twice in one object; rename one of them"
    except json.JSONDecodeError as error:
        return _about_syntax(text, error)
    except ValueError:  # so many digits are no whole number that Python reads
        return "a whole number of thousands of digits; write it as a decimal, or as text"
    except RecursionError:
        return "objects or lists within each other, too deep; flatten the row"
    return _about_types(value, schema, remedy)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise _TwiceError(key)
        members[key] = value
    return members


def _about_syntax(text: str, error: json.JSONDecodeError) -> str:
    if error.msg == "Extra data":
        trailing = _short(text[error.pos :].strip())
        return f"{trailing} after the object; write one object a line, and nothing between them"
    if error.pos >= len(text) or "Unterminated" in error.msg:
        return (
            "the object does not end in its line; write one whole object a line (jq -c .), or fetch the file again "
            "if it is cut off here"
        )
    near = _short(text[error.pos : error.pos + _SHOWN])
    return f"broken JSON: {error.msg} at character {error.pos + 1}, near {near}; correct the line"


def _about_types(value: dict[str, Any], schema: pa.Schema, remedy: Callable[[str], str]) -> str:
    for field in schema:
        if field.name in value and (misfit := _misfit(value[field.name], field.type, field.name)):
            name, wrong, expected = misfit
            what = f"{_short(json.dumps(wrong, ensure_ascii=False), False)} is {_NAMES[type(wrong)]}"
            return f"column {name}: {what}, where {expected} expected; {remedy(name)}"
    return ""


def _misfit(value: Any, type_: pa.DataType, name: str) -> tuple[str, Any, str] | None:
    """Return (column, value, what it is not) of the first value that is not of its column's type."""
    if value is None or is_nan(value):
        return None
    if types.is_struct(type_):
        if not isinstance(value, dict):
            return name, value, "objects are"
        parts = ((value.get(field.name), field.type, f"{name}.{field.name}") for field in type_)
        return next(filter(None, (_misfit(*part) for part in parts)), None)
    if types.is_list(type_):
        if not isinstance(value, list):
            return name, value, "a list is"
        return next(filter(None, (_misfit(each, type_.value_type, name) for each in value)), None)
    good, expected = _EXPECTED[type_.id]
    fits = isinstance(value, good) and (isinstance(value, bool) == (good is bool))
    return None if fits else (name, value, expected)


_EXPECTED: dict[int, tuple[Any, str]] = {
    pa.string().id: (str, "text is"),
    pa.bool_().id: (bool, "true or false is"),
    pa.int64().id: (int, "a whole number is"),
    pa.float64().id: (int | float, "a number is"),
    pa.null().id: ((), "null is"),
}


def _short(text: str, quoted: bool = True) -> str:
    text = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
    return repr(text) if quoted else text
