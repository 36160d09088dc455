"""CSV and TSV through pyarrow's streaming reader: compressed, piped, with header or without.

Without a header, columns are named by their position: 0, 1, ... Types are inferred from the first megabyte;
whole numbers are read as floats, so that a decimal further down does no harm.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from llsvm.block import Block
from llsvm.data.csv_head import COLUMN_BYTES, PROBE_BYTES, READER_BYTES, CSVHead, header_again
from llsvm.data.csv_streams import TELLING, EndLine, RowsWithin, Tail, row_with_rows
from llsvm.data.source import CUT_OFF, READ_AS_NUMBERS, ColumnsBatch
from llsvm.data.table import TextTable
from llsvm.data.table_columns import is_without_rows
from llsvm.data.table_rows import compared_texts, texts_of
from llsvm.data.whole_numbers import of_any_time, only_features, with_numbers
from llsvm.errors import DataError, MissingColumnError, counted
from llsvm.features.arrow_types import kind_of
from llsvm.features.column import Sort
from llsvm.features.columns import are_plain_numbers
from llsvm.features.encoder import TableEncoder
from llsvm.features.labels import NOT_A_NUMBER
from llsvm.features.spelling import (
    BOOL,
    DATE,
    MISSING,
    NULLS,
    NUMBER,
    as_exact,
    kind_of_word,
    short,
    why_no_time,
    words_of,
)
from llsvm.features.table_options import LABEL_NAMES
from llsvm.features.text.vectorizer import RowsAhead
from llsvm.features.value_texts import value_or_word
from llsvm.files.decoding import as_utf8
from llsvm.files.fingerprint import Reading
from llsvm.files.inputs import STDIN
from llsvm.settings.objective import REGRESSION

_CHUNK_BYTES = (1 << 16, 1 << 20)  # of text, parsed together; a line may not be longer
_CHUNK_LINES = 16  # but so many long lines, for there is work to do for every column of a chunk
_LONG_CHUNK_BYTES = 4 << 20
_HELD_CHUNKS = 6  # as text and as values
_NAMED = {"tab": "\t", "space": " "}
# a header and the rows it is compared with may have cells of any length, which a line's length bounds (this is a
# setting of the module's: there is no other)
csv.field_size_limit(3 * _LONG_CHUNK_BYTES)
_TOO_LONG = (
    f"{{}}: a line of more than {_LONG_CHUNK_BYTES >> 20} MB, or a quote that is never closed; close it, or write "
    "rows that long as svmlight or Parquet"
)


class CSVSource(TextTable):
    """Files of comma, tab, semicolon or bar separated values."""

    format = "csv"
    numbers_are_text = True

    def _begin(self, encoder: TableEncoder | None) -> None:
        self._heads: dict[int, CSVHead] = {}
        self._sorts = {} if encoder is None else {c.name: c.sort for c in encoder.columns}
        header = self._options.header
        if encoder is not None and header == "auto":
            header = "yes" if encoder.header else "no"
        self._header = header
        self._model = encoder

    def _reader_bytes(self) -> int:
        head = self._head(0)
        more = min(_CHUNK_LINES * head.longest_line, _LONG_CHUNK_BYTES) - _CHUNK_BYTES[1]
        held = _HELD_CHUNKS * max(more, 0) + COLUMN_BYTES * len(head.schema)
        return READER_BYTES + self._window_bytes + held

    def _index(self, schema: pa.Schema) -> list[str]:
        """Return a first column without a name, as pandas and R write them, and a last one with nothing in it."""
        head = self._head(0)
        return [*(head.index or super()._index(schema)), *head.trailing]

    def _left_out_note(self, name: str) -> str:
        if name not in self._head(0).trailing:
            return super()._left_out_note(name)
        return f"column {name}, the last one, has neither a name nor a value: left out"

    def _numbers_rows(self, name: str) -> bool:
        return False  # text here is none that means numbers

    def _first_words(self, names: list[str]) -> Mapping[str, Collection[str]]:
        partition = self._partitions[0]  # what the others mean, pyarrow has told
        return super()._first_words([name for name in names if name in partition])

    def _spelled(self, schema: pa.Schema, label: str | None, texts: Sequence[str]) -> dict[str, pa.DataType]:
        """Return the types of text in expressions. Categories and documents are read as text, whatever they spell:
        beside numbers, each row tells."""
        compared = compared_texts(schema, self._options, label)
        read_as_text = [name for name in compared if any(fnmatchcase(name, each) for each in texts)]
        return super()._spelled(schema, label, texts) | dict.fromkeys(read_as_text, pa.float64())

    def _planned(self, schema: pa.Schema) -> TableEncoder:
        head, path = self._head(0), self._paths[0]
        try:
            encoder = super()._planned(schema)
        except DataError as error:
            if isinstance(error, MissingColumnError) and not head.header and error.column in head.first_line:
                hint = "the first line has it as a value; if these are the columns' names, pass --header yes"
                raise error.with_hint(hint) from error
            if len(head.schema) > 1:
                raise
            hint = "if these are several, name what is between them (--delimiter)"
            if isinstance(error, MissingColumnError):
                raise error.with_hint(hint) from error
            raise DataError(f"{error.args[0]}; {hint}") from error
        if head.numbered:
            self._note(
                f"{path}: the first line, 0, 1, 2 and so on, has the columns' names (--header no: values)"
            )
        if head.is_doubtful:
            self._note(
                f"{path}: the first line, {short(head.delimiter.join(head.first_line))}, is taken for the columns' "
                "names, though all is text: --header no makes a row of it (--header yes: names)"
            )
        for name in (name for name in encoder.used if name in head.like_thousands):
            cell = head.like_thousands[name]
            if encoder.kind(name) not in ("text", "document"):
                self._note(
                    f"{path}: column {name}: the comma of values such as {cell!r} is taken for a decimal comma "
                    f"({cell.replace(',', '.')}); write {cell.replace(',', '')} if it separates thousands"
                )
        for name in (c.name for c in encoder.columns if c.kind == "number" and c.name in head.codes):
            reading = f"values such as {head.codes[name]!r} {READ_AS_NUMBERS}"
            self._note(f"{path}: column {name}: {reading}; pass --categorical {name} if they are codes")
        if encoder.label in head.alike_words and not encoder.text_label:
            encoder.label_words.note(*head.alike_words[encoder.label])
        return encoder

    def _bound(self, schema: pa.Schema, encoder: TableEncoder) -> TableEncoder:
        """Bind the encoder to the columns. Numbers that are handed on, too, come as they are written, and are of
        one sort all the same."""
        encoder, names = super()._bound(schema, encoder), self._head(0).schema.names
        # what a folder's name says is no column of the file
        seen = {c.name: self._seen(c.name) for c in encoder.columns if c.name in names}
        numbers = {name: type_ for name, type_ in seen.items() if kind_of(type_) == "number"}
        self._read_as |= {name: type_ for name, type_ in numbers.items() if not pa.types.is_null(type_)}
        return encoder

    def _has_header(self) -> bool:
        head = self._head(0)
        return head.header and not head.numbered  # rows without a header have the same names

    def _schema(self, number: int) -> pa.Schema:
        return self._head(number).schema

    def _head(self, number: int) -> CSVHead:
        if number not in self._heads:
            path = self._paths[number]
            text = self._first_text(path, PROBE_BYTES, partial(_has_two_lines, path))
            texts = self._options.text if self._model is None else texts_of(self._model)
            # Only the first file's head and this one's are kept: there may be very many files.
            self._heads = {index: head for index, head in self._heads.items() if index == 0}
            delimiter = _NAMED.get(self._options.delimiter or "", self._options.delimiter)
            first = self._heads[0].schema.names if 0 in self._heads else ()
            header = self._header
            if number > 0 and header == "yes":  # of a file that was split, only the first part has one
                header = self._options.header
            how = (header, texts, delimiter, self._predicting, (*self._requested, *first))
            labels = () if number > 0 or self._model is not None else self._labels_asked()
            self._heads[number] = head = CSVHead(path, text, *how, self._asked(), first, labels)
            if number > 0 and not head.header:
                self._name_as_first(head, path)
            if number == 0:
                self._typed_as_next(head)
        return self._heads[number]

    def _asked(self) -> set[str]:
        """Return the names by which options ask for columns, and those that labels have where no option does."""
        options = self._options
        names = {
            *options.features,
            *options.exclude,
            *options.categorical,
            *options.text,
            options.weight or "",
        }
        return names.union(self._labels_asked())

    def _labels_asked(self) -> tuple[str, ...]:
        return LABEL_NAMES if self._options.label is None else (self._options.label,)

    def _typed_as_next(self, first: CSVHead) -> None:
        """Take the types of columns that have no value in the first file from the next files, until as many bytes
        have been looked at as decide the types in one file."""
        has_rows, n_bytes = not first.is_without_rows, self._prints[0][0]
        for number in range(1, len(self._paths)):
            is_decided = has_rows and (n_bytes >= PROBE_BYTES or not first.untyped)
            if is_decided or self._paths[number] == STDIN:
                break
            head = self._head(number)
            first.take_types(head)
            has_rows, n_bytes = has_rows or not head.is_without_rows, n_bytes + self._prints[number][0]

    def _name_as_first(self, head: CSVHead, path: str) -> None:
        """Name columns without names as those of the first file (of a file that was split, only that has a
        header)."""
        names = self._head(0).schema.names
        if len(head.schema) != len(names):
            raise DataError(
                f"{path}: {len(head.schema)} columns, where {self._paths[0]} has {len(names)}; give files with the "
                "same columns"
            )
        head.rename(names)

    def _batches(
        self, number: int, names: list[str], max_rows: int, max_bytes: int, reading: Reading | None = None
    ) -> Iterator[pa.RecordBatch]:
        head = self._head(number)
        first = self._head(0).schema
        low, high = _CHUNK_BYTES
        types = {name: self._type(name, first.field(name).type) for name in names}
        others = {*self._kept_columns, *self._choice.needed(())}
        whole = only_features(self._head(0).alike & set(names), self.encoder, others)
        exact = self._choice.compared.union(self._kept_columns if self._groups_rows else ())
        whole += [name for name in names if name in exact and types[name] == pa.float64()]
        types.update(dict.fromkeys(whole, pa.string()))
        if reading is not None:
            types |= {name: of_any_time(types[name]) for name in only_features(names, self.encoder, others)}
        spelled = {
            name: types[name]
            for name in names
            if name in head.spelled | self._head(0).spelled and types[name] != pa.string()
        }
        types.update(dict.fromkeys(spelled, pa.string()))
        looked_at = [name for name in head.trailing if not self._predicting and self._file_rows is None]
        types.update(dict.fromkeys(looked_at, pa.string()))
        row, end = 0, EndLine(head.delimiter, len(head.schema))
        with self._opened(self._paths[number], reading) as stream:
            tail = Tail(stream, end.text)
            try:
                read = [*names, *(name for name in looked_at if name not in names)]
                reader = self._open(tail, head, end, read, types, min(max(max_bytes, low), high))
            except pa.ArrowInvalid as error:
                if not is_without_rows(error):
                    raise
                reader, end.is_met = (), True
            for batch in self._counted(stream, reader):
                for name in looked_at:
                    self._refuse_values_without_name(number, name, batch.column(name), row)
                batch = batch.select(names)
                if self._file_rows is None:  # in the first reading
                    self._refuse_rows_in_values(number, batch, row)
                    if head.header:
                        self._refuse_header_again(number, batch, row)
                batch = self._as_spelled(number, batch, spelled, row)
                batch = with_numbers(batch, whole, self._paths[number], row, NULLS, head.decimal_point)
                row += batch.num_rows
                yield batch
            self._fingerprints[number] = stream.finish() or self._fingerprints[number]
            if not end.is_met:
                raise DataError(
                    f"{self._paths[number]}: the file ends within quotes: row {row} has a value that begins with a "
                    "quote which is not closed; close it, or put the value in quotes and double those within"
                )
            if tail.last not in b"\r\n":
                self._note(CUT_OFF.format(self._paths[number], "the last line"))

    def _refuse_values_without_name(self, number: int, name: str, column: pa.Array, row: int) -> None:
        """Raise DataError where the last column, which has no name, has a value. row: of the first one."""
        words = pc.utf8_trim_whitespace(column)
        if (place := pc.index(pc.not_equal(words, ""), True).as_py()) >= 0:
            raise DataError(
                f"{self._paths[number]}: row {row + place + 1}: column {name}, the last one, has no name, and the "
                f"value {short(words[place].as_py())}, where the rows before it have none: name it in the header, "
                "or leave the value out"
            )

    def _open(
        self,
        source: Any,
        head: CSVHead,
        end: EndLine,
        names: list[str],
        types: dict[str, pa.DataType],
        chunk_bytes: int,
    ) -> Any:
        chunk_bytes = max(chunk_bytes, min(_CHUNK_LINES * head.longest_line, _LONG_CHUNK_BYTES))
        return pacsv.open_csv(
            pa.PythonFile(io.BufferedReader(source), "r"),  # a short read would be a short block
            read_options=pacsv.ReadOptions(
                use_threads=False,
                block_size=chunk_bytes,
                column_names=head.schema.names,
                skip_rows=head.header_lines if head.header else head.other_lines,
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=head.delimiter, newlines_in_values=True, invalid_row_handler=end
            ),
            convert_options=pacsv.ConvertOptions(
                column_types=types,
                include_columns=names,
                null_values=NULLS,
                strings_can_be_null=False,
                decimal_point=head.decimal_point,
            ),
        )

    def _as_it_is(self, name: str) -> bool:
        """Return whether the column comes as it is written: also a feature that is handed on, too, which becomes a
        number in ``_encoded``, but for truth values; and a label that nobody needs."""
        if name not in self._kept_columns or self._groups_rows or name in self._choice.needed(()):
            return super()._as_it_is(name)
        if name == self.encoder.label:
            return not self._need_label
        return self._seen(name) != pa.bool_() or super()._as_it_is(name)

    def _handed_on(self, name: str, type_: pa.DataType) -> pa.DataType:
        return type_ if name in self._partitions[0] else self._type(name, type_)

    def _may_be_text_labels(self, number: int) -> bool:
        """Return whether labels of file ``number`` may be text. All files are read by the first one's types:
        whether others are written in a later one, its head tells."""
        schema, label = self._head(number).schema, self.encoder.label
        if self.encoder.text_label or label not in schema.names:
            return True
        return not are_plain_numbers(schema.field(label).type)

    def _seen(self, name: str) -> pa.DataType:
        return self._head(0).schema.field(name).type

    def _encoded(self, number: int, batch: ColumnsBatch, documents: RowsAhead | None, first_id: int) -> Block:
        rows = batch.rows
        partition = self._partitions[number]  # what a folder's name says is no text of the file
        for name in (name for name in self._kept_columns if name not in partition):
            dates = pa.types.is_temporal(self._seen(name))
            if self.encoder.kind(name) == "number" and self._as_it_is(name) and not dates:
                column = self._head(number).with_points(rows.column(name))
                rows = rows.set_column(rows.schema.get_field_index(name), name, column)
        label = self.encoder.label
        if label is not None and label in rows.schema.names and self._as_it_is(label):  # nobody needs it
            none = pa.nulls(len(rows), pa.float64())
            rows = rows.set_column(rows.schema.get_field_index(label), label, none)
        block = super()._encoded(number, batch._replace(rows=rows), documents, first_id)
        return (
            replace(block, kept=self._as_grouped(number, batch.rows.select(self._kept_columns)))
            if self._kept_columns
            else block
        )

    def _as_grouped(self, number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns that are handed on; those of numbers that group rows as numbers, so that 1.0 is 1, and
        NA missing, as elsewhere; but for codes, and what else is written there."""
        if not self._groups_rows:
            return batch
        for place, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
            codes = name in self._partitions[number] or name in self._head(0).codes
            if not codes and pa.types.is_string(column.type) and kind_of(self._seen(name)) == "number":
                with suppress(pa.ArrowInvalid):
                    column = words_of(self._head(number).with_points(column))
                    column = as_exact(column)
                batch = batch.set_column(place, name, column)
        return batch

    def _refuse_header_again(self, number: int, batch: pa.RecordBatch, row: int) -> None:
        """Raise DataError where a row of text, behind the part that the head has looked at, is the header. row: the
        first one's number, from 0."""
        if batch.num_columns < 2 or not all(map(pa.types.is_string, batch.schema.types)):
            return
        same = np.ones(batch.num_rows, bool)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            same[same] = pc.equal(column.filter(pa.array(same)), name).to_numpy(zero_copy_only=False)
            if not same.any():
                return
        place = f"{self._paths[number]}: row {row + int(np.argmax(same)) + 1}"
        raise header_again(place, self._predicting)

    def _refuse_rows_in_values(self, number: int, batch: pa.RecordBatch, row: int) -> None:
        """Raise DataError for values that hold rows of the table. Documents may be of lines with commas, but hardly
        with tabs, or with what the other columns have. row: the first one's number, from 0."""
        head, within = self._head(number), None
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if not pa.types.is_string(column.type) or not pc.any(pc.match_substring(column, "\n")).as_py():
                continue
            is_document = head.delimiter != "\t" and self.encoder.kind(name) == "document"
            if is_document or len(head.schema) < TELLING:
                within = within or RowsWithin(head.delimiter, self._fits(head, batch))
                at = within.first(column, head.schema.get_field_index(name))
            else:
                at = row_with_rows(column, head.delimiter, len(head.schema))
            if at is not None:
                value = column[at].as_py()
                lines, begin = value.count("\n") + 1, value.partition("\n")[0]
                raise DataError(
                    f"{self._paths[number]}: column {name}: the value in row {row + at + 1}, which begins with a "
                    f"quote before {short(begin)}, is of {lines:,} lines that look like rows; close the quote, or "
                    "double it and put the value in quotes, or, if all these lines are one value, write the "
                    "table as Parquet or JSON Lines"
                )

    def _fits(self, head: CSVHead, batch: pa.RecordBatch) -> list[Callable[[str], bool] | None]:
        """Return for each column a test of whether it can have a cell: by the kind of the cell for numbers, dates
        and truth values, and by the labels of the batch for labels; None where any text fits."""
        tests: list[Callable[[str], bool] | None] = []
        for name, type_ in zip(head.schema.names, head.schema.types, strict=True):
            if name == self.encoder.label and name in batch.schema.names:
                labels = map(str, batch.column(name).unique().to_pylist())
                tests.append(partial(_is_among, frozenset(map(value_or_word, labels)), head.decimal_point))
            elif kind_of(type_) == "text" or pa.types.is_null(type_):
                tests.append(None)
            else:
                kinds = (DATE, MISSING) if pa.types.is_temporal(type_) else (BOOL, NUMBER, MISSING)
                tests.append(partial(_is_of, kinds, head.decimal_point))
        return tests

    def _as_spelled(
        self, number: int, batch: pa.RecordBatch, types: Mapping[str, pa.DataType], row: int
    ) -> pa.RecordBatch:
        """Return the batch with columns of text as what it spells. row: the first one's number, from 0. Raises
        DataError."""
        for name, type_ in types.items():
            place = batch.schema.get_field_index(name)
            try:
                column = self._head(number).as_spelled(batch.column(place), type_)
            except ValueError as error:
                where = f"{self._paths[number]}: column {name}: row {row + error.args[0] + 1}"
                more = (
                    "" if self._predicting else f", or read the column as categories (--categorical {name})"
                )
                raise DataError(f"{where}: {error.args[1]}; correct it{more}") from error
            batch = batch.set_column(place, name, column.cast(type_))
        return batch

    def _type(self, name: str, seen: pa.DataType) -> pa.DataType:
        """Return the type to read a column as, where the first megabyte looks like ``seen``."""
        if self.encoder.kind(name) in ("text", "document") or self._as_it_is(name):
            return pa.string()
        if (
            kind_of(seen) == "text"
        ):  # of decimal commas pyarrow says which cell is no number that a model knows
            commas = self._head(0).decimal_point != "."
            return pa.float64() if commas and self._sorts.get(name) == Sort.NUMBER else pa.string()
        return seen if pa.types.is_temporal(seen) or pa.types.is_boolean(seen) else pa.float64()

    def _explain(self, number: int, error: Exception) -> NoReturn:
        path, text = self._paths[number], str(error)
        if match := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", text):
            line, expected, got = match.groups()
            raise DataError(
                f"{path}:{line}: {counted(int(got), 'value')}, where {expected} are expected; complete the line, "
                "or put quotes around values that contain the separator"
            ) from error
        if match := re.search(r"column #(\d+): Row #(\d+): CSV conversion error to (\w+).*?'(.*)'", text):
            place, line, type_, value = match.groups()
            name = self._name(number, int(place))
            if name == self.encoder.label:
                what = "neither true nor false, as" if type_ == "bool" else "no number, where"
                why = f"it is {what} those before it are; write all as numbers or all as text"
                why = NOT_A_NUMBER if self.encoder.label_kind == REGRESSION else why
                raise DataError(f"{path}:{line}: column {name}: the label {value[:40]!r}: {why}") from error
            what = f"is {'neither true nor false' if type_ == 'bool' else 'not a number'}; correct it"
            what = why_no_time(value) if type_.startswith(("date", "time")) else what
            more = "" if self._predicting else f", or read the column as categories (--categorical {name})"
            raise DataError(f"{path}:{line}: column {name}: {value[:40]!r} {what}{more}") from error
        if is_without_rows(error):
            raise DataError(f"{path}: there is no row in it; give a file with at least one row") from error
        if "invalid UTF8" in text or isinstance(error, UnicodeDecodeError):
            raise DataError(
                f"{path}: text that is not UTF-8: {text}; {as_utf8(predicting=self._predicting)}"
            ) from error
        if "straddling" in text:
            raise DataError(_TOO_LONG.format(path)) from error
        raise DataError(f"{path}: cannot be read as CSV: {text}") from error

    def _name(self, number: int, place: int) -> str:
        names = self._head(number).schema.names  # pyarrow counts the columns of the file
        return names[place] if place < len(names) else str(place)


def _has_two_lines(path: str, text: bytes) -> bool:
    """Return whether the header and a row are there, whole. Raises DataError for lines that are too long."""
    if text.count(b"\n", 0, -1) >= 2:
        return True
    if len(text) > 2 * _LONG_CHUNK_BYTES:
        raise DataError(_TOO_LONG.format(path))
    return False


def _is_among(values: Collection[Any], decimal_point: str, cell: str) -> bool:
    """Return whether a cell spells one of these values."""
    return value_or_word(cell) in values or value_or_word(cell.replace(decimal_point, ".")) in values


def _is_of(kinds: Collection[str], decimal_point: str, cell: str) -> bool:
    """Return whether a cell is of one of these kinds; see ``kind_of_word``."""
    return kind_of_word(cell) in kinds or kind_of_word(cell.replace(decimal_point, ".")) in kinds
