"""The first megabyte of a CSV file: separator, header, names of columns, and what their values are."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from llsvm.data.table import LIBRARY_BYTES
from llsvm.data.table_columns import INDEX_NAME
from llsvm.data.whole_numbers import may_be_alike
from llsvm.errors import DataError, counted
from llsvm.features.spelling import (
    MISSING,
    NULLS,
    OTHERWISE,
    TEXT,
    kind_of_word,
    parsed,
    short,
    type_spelled,
    types_alike,
    words_of,
)
from llsvm.features.table_options import LABEL_NAMES, columns_of, own_names, tidy
from llsvm.features.value_texts import MOST_LABELS
from llsvm.files.decoding import as_utf8
from llsvm.files.inputs import base_suffix, refuse_other_kinds
from llsvm.memory.budget import require_room
from llsvm.process.loading import require_threads

PROBE_BYTES = 1 << 20
_LIBRARY_THREADS = 2  # that pyarrow starts to read CSV
_INFERRED_COLUMNS = 4000  # whose types are inferred at a time
COLUMN_BYTES = 20_000  # held for each column of the file, however small; measured
_READING_COLUMN = 4000  # and when rows are read and columns scaled; measured
READER_BYTES = 24 << 20  # measured: pyarrow's chunks of text, parsed values and type converters
_LEAST_NUMBERED = 3  # columns, whose numbers are not taken for values
_FIRST_WORDS = 20  # of a column, which mostly tell that it is text
_LEAST_ROWS = 10  # that tell whether the first row is a header, where some of its cells are numbers
_SHOWN_CELLS = 4
_COMPARED_ROWS = 100  # in which the first row is compared, to see whether it is a header
_TITLED_BYTES, _MOST_TITLES, _LEAST_BELOW = 1 << 14, 5, 3  # looked at for a title above the header; lines
_MISSING = {word.lower() for word in NULLS}
_DELIMITERS = ",\t;|"
_OF_TABS = (".tsv", ".tab")
_SEPARATOR_LINE = re.compile(rb'"?sep=([^"\r\n])"?[ \t]*\r?\n', re.IGNORECASE)  # which Excel writes and reads
_CODE = re.compile(r"0\d+", re.ASCII)
_SPACED_QUOTES = re.compile(r'\s+".*"\s*', re.DOTALL)
_BOM = b"\xef\xbb\xbf"


class CSVHead:
    """Head of a CSV file: the separator, header, names and types that its first megabyte shows.

    texts: names, positions or patterns of columns that are text, whatever their cells look like.
    wanted: names that count where the file's differ by space alone. asked: names by which options ask for columns.
    first: those of the first file, where this is another one. labels: names or positions of what may be the label.
    """

    def __init__(
        self,
        path: str,
        text: bytes,
        header: str,
        texts: Sequence[str],
        delimiter: str | None,
        predicting: bool,
        wanted: Collection[str] = (),
        asked: Collection[str] = (),
        first_names: Collection[str] = (),
        labels: Sequence[str] = (),
    ) -> None:
        whole = text if len(text) < PROBE_BYTES else text[: text.rfind(b"\n") + 1] or text
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
            refuse_other_kinds(path, text)
            raise DataError(
                f"{path}: zero bytes: this is not CSV text in UTF-8; {as_utf8(first, predicting)}, or name its "
                "format with --format"
            )
        _require_utf8(path, whole, predicting)
        self.longest_line = max(map(len, text.split(b"\n")))  # one that is cut off here, too
        is_guess = delimiter is None or (predicting and delimiter.encode() not in first)
        if delimiter is None or is_guess:  # a given one is that of the training data
            delimiter = said[1].decode() if said else _delimiter(path, first)
        self.delimiter = delimiter
        n_columns = first.count(self.delimiter.encode()) + 1
        require_room(
            path, COLUMN_BYTES * n_columns, LIBRARY_BYTES + READER_BYTES + _READING_COLUMN * n_columns
        )
        written = next(self._records(first), [])
        self.first_line = cells = list(map(tidy, written))
        is_guess = is_guess and said is None and base_suffix(path) not in _OF_TABS
        _refuse_title(path, first, rest, _DELIMITERS if is_guess else self.delimiter, asked)
        as_they_are = list(islice(filter(None, self._records(rest)), _COMPARED_ROWS))
        _refuse_spaced_quotes(path, written, as_they_are)
        first_rows = [list(map(tidy, row)) for row in as_they_are]
        self.decimal_point = _decimal_point(self.delimiter, [cells, *first_rows])
        doubtful = _like_thousands(first_rows) if self.decimal_point == "," else {}
        if header == "yes" and predicting and _number_all(wanted) and not set(wanted).issubset(cells):
            # A model of a data frame that was read from a file without a header; whole numbers may be other names.
            header = "yes" if _number_all(cells) and not set(wanted).isdisjoint(cells) else "auto"
        # a model of rows without a header, whose columns are numbered, may find their numbers above other rows
        self.numbered = (header == "auto" or (predicting and header == "no")) and _are_positions(cells)
        named = set(first_names) - set(map(str, range(len(first_names))))  # names that are no positions
        self.header = (
            header == "yes"
            or self.numbered
            or (header == "auto" and named.issuperset(cells))
            or (
                header == "auto"
                and _is_header(path, cells, first_rows, {*asked, *first_names}, may_refuse=not first_names)
            )
        )
        named_so = not {*asked, *first_names}.isdisjoint(cells)
        self.is_doubtful = self.header and header == "auto" and not named_so and _all_text(cells, first_rows)
        """Is all of it text, and is none of the header's names asked for, or usual for labels?"""
        self.is_without_rows = self.header and not rest.strip()
        if self.header and n_columns > 1:
            _refuse_header_again(path, first, rest, self.header_lines, predicting)
        # a name may be empty, as that of the index which pandas writes is
        names = [name if self.header and name else str(i) for i, name in enumerate(cells)]
        if self.header:
            counts = Counter(names)  # two may differ by space alone
            both = zip(names, written, strict=True)
            names = [own if own and counts[name] > 1 else name for name, own in both]
            known = {name: new for new, name in own_names(names, wanted).items()}
            names = [known.get(name, name) for name in names]
        if names[0] in names[1:] and not cells[0]:
            names[0] = INDEX_NAME
        # doubled names are refused by whoever asks for the schema
        self.index = names[:1] if self.header and not cells[0] else []
        self.alike: set[str] = set()  # columns of numbers, see ``may_be_alike``
        self.spelled: set[str] = set()  # columns of numbers or dates that pyarrow takes for text
        self.schema = pa.schema([(n, pa.string()) for n in names])
        self.like_thousands = {names[place]: cell for place, cell in doubtful.items()}
        """Columns whose decimal commas may separate thousands, and a cell of each."""
        self.codes = {
            name: row[i]
            for row in reversed(first_rows)
            for i, name in enumerate(names)
            if _CODE.fullmatch("".join(row[i : i + 1]))
        }
        self.alike_words: dict[str, tuple[str, str]] = {}
        """Of labels that are no text, two words that are written otherwise, and are one value."""
        if len(set(names)) == len(names):
            rows, as_text = rest if self.header else body[blank:], columns_of(names, texts)
            self.schema = self._inferred(rows, names, as_text)
            for name in columns_of(names, labels) - as_text:
                self._look_at_label(rows, name)
        empty = self.header and not cells[-1] and names[-1] in self.untyped - {*names[:1], *asked}
        self.trailing = names[-1:] if empty else []
        """A last column without a name and, so far, without a value: each line ends with a separator."""

    def _inferred(self, rows: bytes, names: list[str], texts: Collection[str]) -> pa.Schema:
        """Return the columns' types by their values; some columns at a time, since pyarrow holds much for each."""
        require_threads(_LIBRARY_THREADS)
        types = dict.fromkeys(texts, pa.string())
        fields: list[pa.Field] = []
        for first in range(0, len(names), _INFERRED_COLUMNS):
            columns = names[first : first + _INFERRED_COLUMNS]
            read = self._opened(rows, names, columns, types)
            inferred = {field.name: field.type for field in read.schema}
            for batch in read:  # there is one, or none
                if first == 0 and not _may_be_index(batch.column(0)):
                    self.index = []
                self.alike.update(
                    name for name, column in zip(columns, batch.columns, strict=True) if may_be_alike(column)
                )
                strings = [name for name in columns if inferred[name] == pa.string() and name not in types]
                inferred |= {name: self._type_spelled(batch.column(name)) for name in strings}
                self.spelled.update(name for name in strings if inferred[name] != pa.string())
            whole = [name for name in columns if pa.types.is_integer(inferred[name])]
            if whole and b"0x" in rows.lower():  # 0x1F, which pyarrow takes for a whole number
                words = next(iter(self._opened(rows, names, whole, dict.fromkeys(whole, pa.string()))))
                hexadecimal = [name for name in whole if _any_hexadecimal(words.column(name))]
                inferred.update(dict.fromkeys(hexadecimal, pa.string()))
                self.alike.difference_update(hexadecimal)
            fields.extend(pa.field(name, inferred[name]) for name in columns)
        return pa.schema(fields)

    def _look_at_label(self, rows: bytes, name: str) -> None:
        """Record in ``alike_words`` two words of the column that spell one value, if there are such."""
        type_, first_words = self.schema.field(name).type, dict[Any, str]()
        if pa.types.is_null(type_) or pa.types.is_string(type_):
            return
        for batch in self._opened(rows, self.schema.names, [name], {name: pa.string()}):  # there is one
            words = pc.drop_null(words_of(batch.column(0))).unique()
            if len(words) > MOST_LABELS:  # of a regression
                return
            values = self.as_spelled(words, type_).to_pylist()
            for word, value in zip(words.to_pylist(), values, strict=True):
                if first_words.setdefault(value, word) != word:
                    self.alike_words.setdefault(name, (first_words[value], word))

    @property
    def untyped(self) -> set[str]:
        """Columns without a value, whose types are not known."""
        return {field.name for field in self.schema if pa.types.is_null(field.type)}

    def rename(self, names: Sequence[str]) -> None:
        """Rename the columns, which have no names."""
        self.schema = pa.schema([f.with_name(name) for name, f in zip(names, self.schema, strict=True)])

    def take_types(self, other: CSVHead) -> None:
        """Take the types of columns that have no telling value in this file from ``other``, where it has one."""
        new = (self.untyped & set(other.schema.names)) - other.untyped
        fields = (other.schema.field(f.name) if f.name in new else f for f in self.schema)
        self.schema = pa.schema(list(fields))
        self.alike = (self.alike - new) | (other.alike & new)
        self.spelled |= other.spelled & new
        self.codes |= {name: code for name, code in other.codes.items() if name in new}

    def _opened(
        self, rows: bytes, names: list[str], columns: list[str], types: dict[str, pa.DataType]
    ) -> pacsv.CSVStreamingReader:
        """Return the columns ``columns``, of the given types or of those that pyarrow infers, as one batch."""
        return pacsv.open_csv(  # read_csv ends the process where the system starts no thread for it
            io.BytesIO(rows or b"\n"),
            read_options=pacsv.ReadOptions(
                use_threads=False, column_names=names, block_size=max(len(rows) + 1, 1024)
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=lambda row: "skip"
            ),
            convert_options=pacsv.ConvertOptions(
                column_types={name: types[name] for name in columns if name in types},
                include_columns=columns,
                null_values=NULLS,
                decimal_point=self.decimal_point,
            ),
        )

    def _type_spelled(self, column: pa.Array) -> pa.DataType:
        """Return the type that text spells if all of it is numbers, or dates, apart from space around them and
        words for missing values that pyarrow does not know."""
        words = pc.drop_null(self.with_points(column).unique())
        if any(kind_of_word(word) in OTHERWISE for word in words[:_FIRST_WORDS].to_pylist()):
            return column.type
        different = set(words.to_pylist())
        if all(kind_of_word(word) == MISSING for word in different):
            return pa.null()
        return type_spelled(different) or column.type

    def with_points(self, column: pa.Array) -> pa.Array:
        """Return numbers that are text, with decimal points."""
        return column if self.decimal_point == "." else pc.replace_substring(column, self.decimal_point, ".")

    def as_spelled(self, column: pa.Array, type_: pa.DataType) -> pa.Array:
        """Return text as the numbers, bools, dates or times of a type that it spells. Raises ValueError(row,
        reason)."""
        return parsed(
            column if pa.types.is_temporal(type_) else self.with_points(column),
            types_alike(type_, None),
            True,
        )

    def _records(self, text: bytes) -> Iterator[list[str]]:
        """Yield the cells of each record; one within quotes may have line ends."""
        lines = io.StringIO(text.decode("utf-8", "replace").replace("\r", ""))
        return csv.reader(lines, delimiter=self.delimiter)


def _may_be_index(column: pa.Array) -> bool:
    """Return whether these are dates or times, or whole numbers that are all different."""
    if pa.types.is_temporal(column.type):
        return True
    return bool(pa.types.is_integer(column.type)) and len(column.unique()) == len(column)


def _any_hexadecimal(column: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring_regex(column, r"^\s*[+-]?0[xX]")).as_py())


def _first_record(text: bytes) -> tuple[bytes, bytes]:
    """Return the first line, up to the end that is not within quotes; and the rest."""
    end = text.find(b"\n")
    while end >= 0 and text.count(b'"', 0, end) % 2:
        end = text.find(b"\n", end + 1)
    if end < 0:
        end = text.find(b"\n")  # a quote that is not closed
    return (text, b"") if end < 0 else (text[:end], text[end + 1 :])


def _decimal_point(delimiter: str, rows: list[list[str]]) -> str:
    """Return a comma where numbers are written so, as in much of Europe; values are then separated otherwise. rows:
    the first one may be of names. Columns of numbers alone tell, if there are such: among documents may be a
    3.14."""
    columns = [
        column[len(column) > 1 :]
        for column in zip(*(row for row in rows if len(row) == len(rows[0])), strict=True)
    ]
    numbers = [
        column for column in columns if all(_is_number(cell) or cell.lower() in _MISSING for cell in column)
    ]
    points = [set(map(_point, column)) - {""} for column in numbers]
    if not any(points):
        points = [{point for row in rows for point in map(_point, row) if point}]
    if delimiter == "," or {","} not in points or {",", "."} in points:
        return "."
    # thousands are text then, and refused with the remedy; a column of decimal points is read beside commas
    points_of_thousands = any(map(_all_of_three, numbers, points))
    return "." if points_of_thousands or any(map(_has_thousands, numbers)) else ","


def _all_of_three(column: Sequence[str], points: set[str]) -> bool:
    """Return whether points may separate thousands: whether all of them have three digits behind."""
    return points == {"."} and all(
        re.fullmatch(r"[+-]?\d{1,3}\.\d{3}", cell) for cell in column if "." in cell
    )


def _has_thousands(column: Sequence[str]) -> bool:
    """Return whether commas separate thousands rather than decimals: each number with a comma has three digits
    behind it, and others, of no more digits, have none."""
    parts = [cell.lstrip("+-").partition(",") for cell in column if cell]
    with_comma = [(before, after) for before, comma, after in parts if comma]
    whole = any(not comma and len(before) <= 3 and before.isdecimal() for before, comma, _ in parts)
    return (
        whole
        and bool(with_comma)
        and all(
            len(after) == 3 and 1 <= len(before) <= 3 and before[0] != "0" for before, after in with_comma
        )
    )


def _like_thousands(rows: list[list[str]]) -> dict[int, str]:
    """Return a cell of each column of numbers with commas, by its place, where all commas have three digits
    behind."""
    examples: dict[int, str] = {}
    for place, column in enumerate(zip(*(row for row in rows if len(row) == len(rows[0])), strict=True)):
        there = [cell for cell in column if cell.lower() not in _MISSING]
        commas = [cell for cell in there if "," in cell]
        if not commas or not all(map(_is_number, there)):
            continue
        if not all(re.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}", cell) for cell in commas):
            return {}
        examples[place] = commas[0]
    return examples


def _point(cell: str) -> str:
    """Return the decimal point of a number with decimals, else ""."""
    match = re.fullmatch(r"[+-]?\d*([.,])\d+", cell)
    return match[1] if match else ""


def _require_utf8(path: str, text: bytes, predicting: bool) -> None:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        if len(text) - error.start < 4 and error.reason == "unexpected end of data":  # cut here, by us
            return
        line = text.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}:{line}: byte {text[error.start]:#04x} is not UTF-8; {as_utf8(text, predicting)}"
        ) from error


def _delimiter(path: str, line: bytes) -> str:
    if base_suffix(path) in _OF_TABS:
        return "\t"
    text = re.sub(r'"[^"]*"', "", line.decode("utf-8", "replace"))
    return max(_DELIMITERS, key=text.count)


def _refuse_title(path: str, first: bytes, rest: bytes, signs: str, asked: Collection[str]) -> None:
    """Raise DataError where a title stands above the header, as spreadsheets have them: where the first line has
    another number of cells than the next ones, which have the same number, but for a few at most that belong to it,
    and the first of these looks like the header of the others. With as many cells it is a title where it has no
    names alone, or the names ``asked`` are in that line and not in the first. signs: what the delimiter may be."""
    below = rest[: rest.rfind(b"\n", 0, _TITLED_BYTES) + 1]
    for sign in signs:
        bare = first.rstrip().rstrip(sign.encode())
        title = bare if sign.encode() not in bare and len(first.rstrip()) > len(bare) + 1 else first
        lines = (title + b"\n" + below).decode("utf-8", "replace").replace("\r", "")
        records = list(filter(None, islice(csv.reader(io.StringIO(lines), delimiter=sign), _COMPARED_ROWS)))
        if len(records) > 1 and len(below) < len(rest):
            records.pop()  # which may be cut off
        counts = list(map(len, records))
        for above in range(1, min(_MOST_TITLES, len(counts) - _LEAST_BELOW) + 1):
            if len(set(counts[above:])) > 1 or counts[above] == 1:
                continue
            cells, names = (list(map(tidy, records[at])) for at in (0, above))
            alike = counts[above] == counts[0] and all(kind_of_word(cell) == TEXT for cell in cells)
            if alike and (set(asked) & set(cells) or not set(asked) & set(names)):
                continue
            if _is_header_of_numbers(names, records[above + 1 :]):
                raise DataError(
                    f"{path}: the first line has {counted(counts[0], 'value')}, and the rows have "
                    f"{counts[above]} below what looks like their header, {short(sign.join(records[above]))}: "
                    f"remove a title above the header (tail -n +{above + 1}), or name every column in it"
                )


def _refuse_header_again(path: str, first: bytes, rest: bytes, lines: int, predicting: bool) -> None:
    """Raise DataError where the header is a row, too. lines: that come before ``rest``."""
    for match in re.finditer(rb"^" + re.escape(first.rstrip()) + rb"[ \t\r]*$", rest, re.MULTILINE):
        if rest.count(b'"', 0, match.start()) % 2 == 0:  # within quotes it is text
            line = lines + 1 + rest.count(b"\n", 0, match.start())
            raise header_again(f"{path}:{line}", predicting)


def header_again(place: str, predicting: bool) -> DataError:
    """Return the error for a row that is the header. predicting: the model says whether there is one."""
    no_header = "" if predicting else "; where the first line is no header, pass --header no"
    return DataError(
        f"{place}: the header stands here again, as in files that were put behind each other: remove the line, or "
        f"name these files one by one{no_header}"
    )


def _is_header_of_numbers(cells: list[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether these are surely names: text, all different, with a column of numbers below one of them."""
    named = cells[not cells[0] :]  # an index has no name
    if len(set(named)) < len(named) or any(not cell or kind_of_word(cell) != TEXT for cell in named):
        return False
    columns = (
        [cell for cell in map(tidy, column) if cell.lower() not in _MISSING]
        for column in zip(*rows, strict=True)
    )
    return any(column and all(map(_is_number, column)) for column in columns)


def _refuse_spaced_quotes(path: str, first: list[str], rows: list[list[str]]) -> None:
    """Raise DataError where a space stands between separator and quote: in the first line, or in all that a column
    has. Such quotes would become part of names, labels and values."""
    columns = zip(*(row for row in rows if len(row) == len(first)), strict=True)
    filled = [[cell for cell in column if cell.strip()] for column in columns]
    several = [cells[0] for cells in filled if cells and all(map(_SPACED_QUOTES.fullmatch, cells))]
    for cell in (*filter(_SPACED_QUOTES.fullmatch, first), *several):
        raise DataError(
            f"{path}: a space stands between a separator and a quote, in {short(cell)}: quotes mean nothing there; "
            "leave the space out, or the quotes"
        )


def _is_header(
    path: str, cells: list[str], rows: list[list[str]], asked: Collection[str], may_refuse: bool
) -> bool:
    """Return whether the first row is one of names. It is if one cell has text above a column of numbers. Otherwise
    it is if all cells are text and all different, for a row of values has a number somewhere, or if they are
    distinct whole numbers, one of them above a column that has none: above columns of decimals alone, they may be
    either. A year among names is recognized by the options, which name one (asked), or by the rows. Raises
    DataError where nothing decides it."""
    whole = [row for row in rows if len(row) == len(cells)]
    columns = [[row[at] for row in whole if row[at].lower() not in _MISSING] for at in range(len(cells))]
    for cell, below in zip(cells, columns, strict=True):
        if below and cell.lower() not in _MISSING and not _is_number(cell) and all(map(_is_number, below)):
            return True
    if len(set(cells)) < len(cells):
        return False
    if all(cell.isdecimal() for cell in cells) and len(whole) >= _LEAST_ROWS:  # years, say
        if any(below and not any(map(_is_number, below)) for below in columns):
            return True
        return _may_be_either(path, cells, may_refuse and sum(map(_all_have_decimals, columns)) > 1)
    if all(cell and not _is_number(cell) for cell in cells):
        return True
    places = range(not cells[0], len(cells))  # an index has no name
    texts = [place for place in places if kind_of_word(cells[place]) == TEXT]
    if not texts or not all(place in texts or cells[place].isdecimal() for place in places):
        return False
    if any(cells[place] in asked and (place in texts or int(cells[place]) >= len(cells)) for place in places):
        return True  # a smaller number is a position
    counts = {place: Counter(row[place] for row in whole) for place in places}
    if len(whole) < _LEAST_ROWS or any(cells[place] in counts[place] for place in places):
        return False
    if any(min(counts[place].values()) > 1 for place in texts):  # few values, of which the first row has none
        return True
    return _may_be_either(path, cells, may_refuse)


def _all_text(cells: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether all of it is text, and no cell is a usual name for labels."""
    named = any(cell.lower() in LABEL_NAMES for cell in cells)
    filled = [cell for row in (cells, *rows) for cell in row if cell.lower() not in _MISSING]
    return bool(rows) and not named and all(kind_of_word(cell) == TEXT for cell in filled)


def _may_be_either(path: str, cells: list[str], refuse: bool) -> bool:
    """Return False, for no header; or, where nothing tells, raise DataError."""
    if refuse:
        start = ", ".join(cells[:_SHOWN_CELLS])
        raise DataError(
            f"{path}: is the first line ({start}) a header, or a row? --header yes or --header no says so"
        )
    return False


def _all_have_decimals(column: Sequence[str]) -> bool:
    return all(map(_point, column)) and bool(column)


def _are_positions(cells: list[str]) -> bool:
    """Return whether the cells are 0, 1, 2 and so on, as pandas names columns, with the empty name of an index in
    front or without."""
    numbered = cells[not cells[0] :]
    return len(numbered) >= _LEAST_NUMBERED and numbered == [str(i) for i in range(len(numbered))]


def _number_all(names: Collection[str]) -> bool:
    """Return whether there are names, and all are whole numbers, as positions of columns are."""
    return bool(names) and all(name.isdecimal() for name in names)


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True
