"""CSV and TSV through pyarrow's streaming reader: compressed, piped, with header or without.

Without a header, columns are named by their position: 0, 1, ... Types are inferred from the first megabyte;
whole numbers are read as floats, so that a decimal further down does no harm.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.csv as pacsv

from llsvm.data.csv_streams import Chained, Tail
from llsvm.data.source import CUT_OFF
from llsvm.data.table import LIBRARY_BYTES, TableSource
from llsvm.data.table_errors import is_without_rows
from llsvm.data.whole_numbers import may_be_alike, only_features, with_numbers
from llsvm.errors import DataError
from llsvm.features.columns import kind_of
from llsvm.features.encoder import TableEncoder
from llsvm.features.spelling import NULLS
from llsvm.features.targets import NOT_A_NUMBER
from llsvm.files.fingerprint import Reading
from llsvm.files.inputs import STDIN, base_suffix, read_up_to
from llsvm.files.text_input import TextInput
from llsvm.memory.opening import require_room
from llsvm.process.threads import require_threads
from llsvm.settings.objective import REGRESSION

_PROBE_BYTES = 1 << 20
_CHUNK_BYTES = (1 << 16, 1 << 20)  # of text, parsed together; a line may not be longer
_CHUNK_LINES = 16  # but so many long lines, for there is work to do for every column of a chunk
_LONG_CHUNK_BYTES = 4 << 20
_LIBRARY_THREADS = 2  # that pyarrow starts to read CSV
_INFERRED_COLUMNS = 4000  # whose types are inferred at a time
_COLUMN_BYTES = 20_000  # held for each column of the file, however small; measured
_READING_COLUMN = 4000  # and when rows are read and columns scaled; measured
_HELD_CHUNKS = 6  # as text and as values
_READER_BYTES = 24 << 20  # measured: pyarrow's chunks of text, parsed values and type converters
_COMPARED_ROWS = 100  # in which the first row is compared, to see whether it is a header
_MISSING = {word.lower() for word in NULLS}
_NAMED = {"tab": "\t", "space": " "}
_DELIMITERS = ",\t;|"
# a header and the rows it is compared with may have cells of any length, which a line's length bounds (this is a
# setting of the module's: there is no other)
csv.field_size_limit(3 * _LONG_CHUNK_BYTES)
_TOO_LONG = (
    f"{{}}: a line of more than {_LONG_CHUNK_BYTES >> 20} MB, or a quote that is never closed; close it, or write "
    "rows that long as svmlight or Parquet"
)
_SEPARATOR_LINE = re.compile(rb'"?sep=([^"\r\n])"?[ \t]*\r?\n', re.IGNORECASE)  # which Excel writes and reads
_CODE = re.compile(r"0\d+", re.ASCII)
_BOM = b"\xef\xbb\xbf"


class CSVSource(TableSource):
    """Files of comma, tab, semicolon or bar separated values."""

    format = "csv"

    def _begin(self, encoder: TableEncoder | None) -> None:
        self._types: dict[str, pa.DataType] = {}
        self._heads: dict[int, _Head] = {}
        self._stdin: TextInput | None = None
        self._window_bytes = 0  # of the decompressor, the largest so far
        self._dates = {} if encoder is None else {c.name: c.dates for c in encoder.columns}
        header = self._options.header
        if encoder is not None and header == "auto":
            header = "yes" if encoder.header else "no"
        self._header = header
        self._model = encoder

    def _reader_bytes(self) -> int:
        head = self._head(0)
        more = min(_CHUNK_LINES * head.longest_line, _LONG_CHUNK_BYTES) - _CHUNK_BYTES[1]
        held = _HELD_CHUNKS * max(more, 0) + _COLUMN_BYTES * len(head.schema)
        return _READER_BYTES + self._window_bytes + held

    def _index(self, schema: pa.Schema) -> list[str]:
        """A first column without a name, as pandas and R write them."""
        return self._head(0).index

    def _first_words(self, names: list[str]) -> Mapping[str, Collection[str]]:
        return {}  # what columns mean, pyarrow has told

    def _planned(self, schema: pa.Schema) -> TableEncoder:
        head, path = self._head(0), self._paths[0]
        try:
            encoder = super()._planned(schema)
        except DataError as error:
            if len(head.schema) > 1:
                raise
            raise DataError(
                f"{error.args[0]}; if these are several, name what is between them (--delimiter)"
            ) from error
        for name in (c.name for c in encoder.columns if c.kind == "number" and c.name in head.codes):
            told = f"values such as {head.codes[name]!r} are read as numbers"
            self._note(f"{path}: column {name}: {told}; pass --categorical {name} if they are codes")
        return encoder

    def _has_header(self) -> bool:
        return self._head(0).header

    def _schema(self, number: int) -> pa.Schema:
        return self._head(number).schema

    def _head(self, number: int) -> _Head:
        if number not in self._heads:
            path = self._paths[number]
            stream = TextInput(path, self._of_stdin if path == STDIN else None, self._options.encoding)
            text = read_up_to(stream, _PROBE_BYTES)
            while len(text) >= _PROBE_BYTES and text.count(b"\n", 0, -1) < 2:  # the header and a row, whole
                if len(text) > 2 * _LONG_CHUNK_BYTES:
                    raise DataError(_TOO_LONG.format(path))
                more = read_up_to(stream, _PROBE_BYTES)
                text += more
                if not more:
                    break
            self._window_bytes = max(self._window_bytes, stream.window_bytes)
            if path == STDIN:
                self._stdin = stream
            else:
                stream.close()
            kinds = dict.fromkeys(self._options.text, "document")  # whatever their first cells look like
            if self._model is not None:
                kinds = {c.name: c.kind for c in self._model.columns}
            # Only the first file's head and this one's are kept: there may be very many files.
            self._heads = {kept: head for kept, head in self._heads.items() if kept == 0}
            delimiter = _NAMED.get(self._options.delimiter or "", self._options.delimiter)
            self._heads[number] = _Head(path, text, self._header, kinds, delimiter, self._predicting)
            if number > 0 and not self._heads[number].header:
                self._name_as_first(self._heads[number], path)
        return self._heads[number]

    def _name_as_first(self, head: _Head, path: str) -> None:
        """Columns without names are those of the first file (of a file that was split, only that has a header)."""
        names = self._head(0).schema.names
        if len(head.schema) != len(names):
            raise DataError(
                f"{path}: {len(head.schema)} columns, where {self._paths[0]} has {len(names)}; give files with the "
                "same columns"
            )
        fields = zip(names, head.schema, strict=True)
        head.schema = pa.schema([field.with_name(name) for name, field in fields])

    def _batches(
        self, number: int, names: list[str], max_rows: int, max_bytes: int, reading: Reading | None = None
    ) -> Iterator[pa.RecordBatch]:
        head = self._head(number)
        first = self._head(0).schema
        low, high = _CHUNK_BYTES
        types = {name: self._type(name, first.field(name).type) for name in names}
        others = {*self._kept, *self._choice.needed(())}
        whole = only_features(self._head(0).alike & set(names), self.encoder, others)
        types.update(dict.fromkeys(whole, pa.string()))
        if self._paths[number] == STDIN:
            if self._stdin is None:
                raise DataError("-: standard input can be read once only; write the data to a file")
            stream, self._stdin = self._stdin, None
            source: Any = Chained(head.text, stream)
            head.text = b""
        else:
            source = stream = TextInput(self._paths[number], reading, self._options.encoding)
        seen = 0
        source = tail = Tail(source)
        try:
            try:
                reader = self._open(source, head, names, types, min(max(max_bytes, low), high))
            except pa.ArrowInvalid as error:
                if self._need_label or not self._predicting or not is_without_rows(error):
                    raise
                reader = ()
            for batch in reader:
                self._window_bytes = max(self._window_bytes, stream.window_bytes)
                self.bytes_read += stream.raw_bytes_read - seen
                seen = stream.raw_bytes_read
                yield with_numbers(batch, whole, self._paths[number], NULLS, head.decimal_point)
            self._fingerprints[number] = stream.finish() or self._fingerprints[number]
            if tail.last not in b"\r\n":
                self._note(CUT_OFF.format(self._paths[number], "the last line"))
        finally:
            stream.close()

    def _open(
        self, source: Any, head: _Head, names: list[str], types: dict[str, pa.DataType], chunk_bytes: int
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
            parse_options=pacsv.ParseOptions(delimiter=head.delimiter, newlines_in_values=True),
            convert_options=pacsv.ConvertOptions(
                column_types=types,
                include_columns=names,
                null_values=NULLS,
                strings_can_be_null=False,
                decimal_point=head.decimal_point,
            ),
        )

    def _type(self, name: str, seen: pa.DataType) -> pa.DataType:
        """The type to read a column as, where the first megabyte looks like ``seen``."""
        if self.encoder.kind(name) in ("text", "document") or self._as_it_is(name):
            return pa.string()
        if kind_of(seen) == "text":  # where a model knows numbers pyarrow says which cell is none
            return pa.float64() if self._dates.get(name) is False else pa.string()
        return seen if pa.types.is_temporal(seen) or pa.types.is_boolean(seen) else pa.float64()

    def _explain(self, number: int, error: Exception) -> NoReturn:
        path, text = self._paths[number], str(error)
        if match := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", text):
            line, expected, got = match.groups()
            raise DataError(
                f"{path}:{line}: {got} values, where {expected} are expected; complete the line, or put quotes "
                "around values that contain the separator"
            ) from error
        if match := re.search(r"column #(\d+): Row #(\d+): CSV conversion error to (\w+).*?'(.*)'", text):
            place, line, type_, value = match.groups()
            name = self._name(number, int(place))
            if name == self.encoder.label:
                why = "it is no number, where those before it are; write all as numbers or all as text"
                why = NOT_A_NUMBER if self.encoder.label_kind == REGRESSION else why
                raise DataError(f"{path}:{line}: column {name}: the label {value[:40]!r}: {why}") from error
            dates = type_.startswith(("date", "time"))
            what = "is no date or time, as those before it are; write 2024-01-31 or 13:05"
            what = what if dates else "is not a number; correct it"
            more = "" if self._predicting else f", or read the column as categories (--categorical {name})"
            raise DataError(f"{path}:{line}: column {name}: {value[:40]!r} {what}{more}") from error
        if is_without_rows(error):
            raise DataError(f"{path}: there is no row in it; give a file with at least one row") from error
        if "invalid UTF8" in text or isinstance(error, UnicodeDecodeError):
            raise DataError(
                f"{path}: text that is not UTF-8: {text}; name its encoding (--encoding latin-1), or convert it"
            ) from error
        if "straddling" in text:
            raise DataError(_TOO_LONG.format(path)) from error
        raise DataError(f"{path}: cannot be read as CSV: {text}") from error

    def _name(self, number: int, place: int) -> str:
        names = self._head(number).schema.names  # pyarrow counts the columns of the file
        return names[place] if place < len(names) else str(place)


class _Head:
    """What the first megabyte of a CSV file tells: separator, header, names and types."""

    def __init__(
        self,
        path: str,
        text: bytes,
        header: str,
        kinds: dict[str, str],
        delimiter: str | None,
        predicting: bool,
    ) -> None:
        self.text = text if path == STDIN else b""  # which cannot be read again
        whole = text if len(text) < _PROBE_BYTES else text[: text.rfind(b"\n") + 1] or text
        body = whole.removeprefix(_BOM)
        blank = len(body) - len(body.lstrip(b"\r\n"))
        said = _SEPARATOR_LINE.match(body, blank)
        blank = said.end() if said else blank
        first, rest = _first_record(body[blank:])
        self.header_lines = body.count(b"\n", 0, blank + len(first)) + 1
        self.other_lines = body.count(b"\n", 0, blank) if said else 0
        if b"\r" in body and b"\n" not in body:
            raise DataError(f"{path}: lines end with carriage returns alone; convert it (tr '\\r' '\\n')")
        if not body.strip():
            raise DataError(f"{path}: the file is empty; give a file with at least one row")
        if b"\0" in first:
            raise DataError(
                f"{path}: zero bytes: this is not CSV text in UTF-8; name its encoding (--encoding utf-16), "
                "or its format with --format"
            )
        _require_utf8(path, whole)
        self.longest_line = max(map(len, text.split(b"\n")))  # one that is cut off here, too
        if delimiter is None or (predicting and delimiter.encode() not in first):  # that of the training data
            delimiter = said[1].decode() if said else _delimiter(path, first)
        self.delimiter = delimiter
        n_columns = first.count(self.delimiter.encode()) + 1
        require_room(
            path, _COLUMN_BYTES * n_columns, LIBRARY_BYTES + _READER_BYTES + _READING_COLUMN * n_columns
        )
        cells = self._cells(first)
        some = [
            self._cells(line) for line in rest.split(b"\n", _COMPARED_ROWS)[:_COMPARED_ROWS] if line.strip()
        ]
        self.decimal_point = _decimal_point(self.delimiter, [cells, *some])
        self.header = header == "yes" or (header == "auto" and _is_header(cells, some))
        # a name may be empty, as that of the index which pandas writes is
        names = [name if self.header and name else str(i) for i, name in enumerate(cells)]
        # doubled names are refused by whoever asks for the schema
        self.index = names[:1] if self.header and not cells[0] else []
        self.alike: set[str] = set()  # columns of numbers, see ``may_be_alike``
        self.schema = pa.schema([(n, pa.string()) for n in names])
        self.codes = {
            name: row[i]
            for row in reversed(some)
            for i, name in enumerate(names)
            if _CODE.fullmatch("".join(row[i : i + 1]))
        }
        if len(set(names)) == len(names):
            self.schema = self._inferred(rest if self.header else body[blank:], names, kinds)

    def _inferred(self, rows: bytes, names: list[str], kinds: dict[str, str]) -> pa.Schema:
        """The columns' types by their values; some columns at a time, since pyarrow holds much for each."""
        require_threads(_LIBRARY_THREADS)
        types = {name: pa.string() for name in names if kinds.get(name) in ("text", "document")}
        fields: list[pa.Field] = []
        for first in range(0, len(names), _INFERRED_COLUMNS):
            some = names[first : first + _INFERRED_COLUMNS]
            read = pacsv.open_csv(  # read_csv ends the process where the system starts no thread for it
                io.BytesIO(rows or b"\n"),
                read_options=pacsv.ReadOptions(
                    use_threads=False, column_names=names, block_size=max(len(rows) + 1, 1024)
                ),
                parse_options=pacsv.ParseOptions(
                    delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=lambda row: "skip"
                ),
                convert_options=pacsv.ConvertOptions(
                    column_types={name: types[name] for name in some if name in types},
                    include_columns=some,
                    null_values=NULLS,
                    decimal_point=self.decimal_point,
                ),
            )
            fields.extend(read.schema)
            for batch in read:  # there is one, or none
                self.alike.update(
                    name for name, column in zip(some, batch.columns, strict=True) if may_be_alike(column)
                )
        return pa.schema(fields)

    def _cells(self, line: bytes) -> list[str]:
        text = line.decode("utf-8", "replace").replace("\r", "").rstrip("\n")
        cells = next(csv.reader(io.StringIO(text), delimiter=self.delimiter), [])
        return [" ".join(cell.split()) for cell in cells]


def _first_record(text: bytes) -> tuple[bytes, bytes]:
    """The first line, up to the end that is not within quotes; and the rest."""
    end = text.find(b"\n")
    while end >= 0 and text.count(b'"', 0, end) % 2:
        end = text.find(b"\n", end + 1)
    if end < 0:
        end = text.find(b"\n")  # a quote that is not closed
    return (text, b"") if end < 0 else (text[:end], text[end + 1 :])


def _decimal_point(delimiter: str, rows: list[list[str]]) -> str:
    """A comma where numbers are written so, as in much of Europe; values are then separated otherwise."""
    cells = [cell for row in rows for cell in row]
    comma = any(re.fullmatch(r"[+-]?\d*,\d+", cell) for cell in cells)
    return "," if delimiter != "," and comma and not any(map(_is_fraction, cells)) else "."


def _is_fraction(cell: str) -> bool:
    return re.fullmatch(r"[+-]?\d*\.\d+", cell) is not None


def _require_utf8(path: str, text: bytes) -> None:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        if len(text) - error.start < 4 and error.reason == "unexpected end of data":  # cut here, by us
            return
        line = text.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}:{line}: byte {text[error.start]:#04x} is not UTF-8; name its encoding "
            "(--encoding latin-1), or convert it"
        ) from error


def _delimiter(path: str, line: bytes) -> str:
    if base_suffix(path) in (".tsv", ".tab"):
        return "\t"
    text = re.sub(r'"[^"]*"', "", line.decode("utf-8", "replace"))
    return max(_DELIMITERS, key=text.count)


def _is_header(cells: list[str], rows: list[list[str]]) -> bool:
    """Is the first row one of names? Where one has text above a column of numbers, yes. Else only where all are
    text, each there once; a row of values has a number somewhere."""
    whole = [row for row in rows if len(row) == len(cells)]
    for place, cell in enumerate(cells):
        below = [row[place] for row in whole if row[place].lower() not in _MISSING]
        if below and cell.lower() not in _MISSING and not _is_number(cell) and all(map(_is_number, below)):
            return True
    return len(set(cells)) == len(cells) and all(cell and not _is_number(cell) for cell in cells)


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True
