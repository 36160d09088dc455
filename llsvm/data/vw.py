"""Vowpal Wabbit text: sparse rows whose columns have names, each with a column of its own, in order of appearance.

The names are learned in the first reading and kept in the model; predictions look up the model's, and what it does
not know counts nothing. Nothing is hashed, but pairs of features where that is asked for.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from sys import getsizeof
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from llsvm.block import Block, from_cells
from llsvm.data.arrow_memory import use_system_memory
from llsvm.data.source import FILE_BYTES, SourceInfo, cut
from llsvm.data.svmlight_labels import shorten
from llsvm.data.table import LIBRARY_BYTES
from llsvm.data.text_chunks import TextSource
from llsvm.errors import DataError
from llsvm.features.crosses import MARK
from llsvm.features.table_options import listed
from llsvm.files.fingerprint import FileFingerprint, Reading, of_all
from llsvm.files.inputs import STDIN, size_and_mtime, unchanged
from llsvm.files.remote import library_bytes
from llsvm.objective.rounding import FULL_DIGITS, Rounding, lost_of_text

_PROBE_BYTES = 1 << 16
_CHUNK_BYTES = (1 << 14, 1 << 18)  # of text, parsed together
_TEXT_FACTOR = 40  # bytes held for each byte of a chunk while it is parsed; measured
_ROW_FACTOR = 8  # of which blocks a reader may hold five: that much for a line longer than a chunk
_NAME_BYTES = 120  # held for each name beside its text: its place in the dictionary; measured
_NAME_COPIES = 2  # of its text: here and while the model is written
_MAX_ROWS = 1 << 14  # of a chunk
_SHOWN = 3


class VWSource(TextSource):
    """Files of Vowpal Wabbit text as blocks: X CSR float32, y float64, weight where rows have importance weights.

    paths: of the files, or "-" for standard input; read as one.
    need_label: refuse rows without a label.
    names: of the columns of a model, to read for prediction; None: they are learned.
    threads: that parse; blocks do not depend on it.
    cross: pairs of namespaces, "A:B". hash_bits: pairs are hashed into 2^hash_bits columns
        for each.
    Raises DataError for a path that is not a readable file, and while reading for the first line that is wrong.
    """

    def __init__(
        self,
        paths: Sequence[str],
        need_label: bool = True,
        names: Sequence[str] | None = None,
        threads: int = 1,
        cross: Sequence[str] = (),
        hash_bits: int | None = None,
    ) -> None:
        use_system_memory()
        self._paths, self._need_label, self._threads = list(paths), need_label, threads
        self._learning = names is None
        self._pairs, self._hash_bits = chosen(str(paths[0]), cross), hash_bits
        self._spaces: set[str] = set()  # namespaces that rows have
        self._numbers: dict[str, int] = {name: i for i, name in enumerate(names or ())}
        self._names: tuple[str, ...] | None = None if names is None else tuple(names)
        self._name_bytes = _NAME_BYTES * len(names or ())  # a model has the text itself
        self._n_unknown = [
            0,
            0,
        ]  # values of features that a model does not know, in a pass; and rows with such
        self._unknown: list[str] = []  # some of these features
        self._notes: list[str] = []
        self._n_rows: int | None = None
        self._file_rows: tuple[int, ...] | None = None
        self._prints = [size_and_mtime(path) for path in self._paths]
        self._n_bytes = None if STDIN in self._paths else sum(size for size, _ in self._prints)
        self._library_bytes = LIBRARY_BYTES + library_bytes(paths) + FILE_BYTES * len(paths)
        self._fingerprints: list[FileFingerprint | None] = [None] * len(self._paths)
        self._all_fingerprints: tuple[FileFingerprint, ...] | None = None  # once there are all
        self.bytes_read = 0
        self.rounding = Rounding()
        self._weighted, self._labelled = _probed(self._first_text(self._paths[0], _PROBE_BYTES))

    def info(self) -> SourceInfo:
        """Return what is known of the source: rows, columns and names after a complete pass."""
        library = self._library_bytes + self._name_bytes
        held = _TEXT_FACTOR * _CHUNK_BYTES[1] * (self._threads + 1 if self._threads > 1 else 1)
        held += CELL_BYTES * MAX_CELLS if self._pairs else 0
        return SourceInfo(
            name=self._paths[0]
            if len(self._paths) == 1
            else f"{self._paths[0]} ... ({len(self._paths)} files)",
            format="vw",
            n_bytes=self._n_bytes,
            rereadable=self._n_bytes is not None,
            n_rows=self._n_rows,
            n_features=None if self._names is None else len(self._names),
            feature_names=self._names,
            reader_bytes=library + held + self._window_bytes,
            library_bytes=library,
            labelled=self._labelled,
            fingerprints=self._all_fingerprints,
            file_rows=self._file_rows,
            notes=tuple(self._notes),
            rounding=(self.rounding,),
        )

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the rows, file after file; see BlockSource. Raises DataError."""
        n_rows, self._n_unknown = 0, [0, 0]
        ends = [0]  # of the files, in rows
        for number, path in enumerate(self._paths):
            with unchanged(path, self._prints[number]):
                for rows, line in self._read(number, max_bytes):
                    block = self._block(number, rows, line, n_rows)
                    n_rows += block.n_rows
                    if block.n_rows:
                        yield from cut(block, max_bytes)
            ends.append(n_rows)
        if n_rows == 0:
            raise DataError(f"{self.info().name}: there is no row in it; give a file with at least one row")
        self._n_rows, self._file_rows = n_rows, tuple(b - a for a, b in pairwise(ends))
        self._all_fingerprints = of_all(self._fingerprints)
        if self._learning:
            require_met(self.info().name, self._pairs, self._spaces)
            self._learning, self._names = False, tuple(self._numbers)
        if self._unknown:
            shown = ", ".join(self._unknown)
            values, rows_with = self._n_unknown
            what = f"{values:,} values in {rows_with:,} of {n_rows:,} rows are of features that the model does not"
            self._note(f"{self.info().name}: {what} know, such as {shown}; they count nothing")

    def _read(self, number: int, max_bytes: int) -> Iterator[tuple[Examples, int]]:
        """Yield the rows of a file, and the number of the line that each part begins with."""
        path = self._paths[number]
        size = min(max(max_bytes // 2, _CHUNK_BYTES[0]), _CHUNK_BYTES[1])
        longest = max(_CHUNK_BYTES[1], max_bytes // _ROW_FACTOR)
        with self._opened(path, Reading(path, self._fingerprints[number])) as file:
            work = lambda chunk: parse_rows(chunk.text)  # noqa: E731
            for chunk, parsed in self._parsed(file, work, size, _MAX_ROWS, longest, _ROW_FACTOR):
                try:
                    rows = parsed()
                except BadLineError as error:
                    raise DataError(f"{path}:{chunk.number + error.line}: {error.reason}") from error
                if not self._pairs:
                    yield rows, chunk.number
                    continue
                if self._learning:
                    self._spaces.update(rows.spaces)
                for part in with_crosses(rows, self._pairs, self._hash_bits):
                    yield part, chunk.number
            self._fingerprints[number] = file.finish() or self._fingerprints[number]

    def _block(self, number: int, rows: Examples, line: int, first_row: int) -> Block:
        unlabelled = np.isnan(rows.label)
        if self._need_label and unlabelled.any():
            at = line + int(rows.line[np.argmax(unlabelled)])
            raise DataError(
                f"{self._paths[number]}:{at}: the row has no label; write one before the bar, or leave the row out"
            )
        columns = self._columns(rows.names)[rows.name]
        known = columns >= 0
        self._n_unknown[0] += int(np.count_nonzero(~known))
        self._n_unknown[1] += len(np.unique(rows.row[~known]))
        X = from_cells(rows.row[known], columns[known], rows.value[known], len(rows.label))
        values = self.rounding.values(X.data, lost_of_text(X.data, FULL_DIGITS))
        if not np.isfinite(values).all():
            row = np.searchsorted(X.indptr, np.argmax(~np.isfinite(values)), "right") - 1
            raise DataError(
                f"{self._paths[number]}:{line + int(rows.line[row])}: a value is too large for "
                f"{self.rounding.kind}; scale the data"
            )
        weight = None
        if self._weighted or (rows.weight != 1).any():
            weight = rows.weight
        ids = np.arange(first_row, first_row + len(rows.label), dtype=np.int64)
        return Block(X._replace(data=values), np.where(unlabelled, 0.0, rows.label), ids, weight)

    def _columns(self, names: list[str]) -> NDArray[np.int64]:
        """Return the columns of some names; -1 for those that are not known."""
        if not self._learning:
            columns = np.array([self._numbers.get(name, -1) for name in names], np.int64)
            if len(self._unknown) < _SHOWN and (columns < 0).any():
                new = (name for name, at in zip(names, columns.tolist(), strict=True) if at < 0)
                self._unknown = list(dict.fromkeys([*self._unknown, *new]))[:_SHOWN]
            return columns
        for name in names:
            if name not in self._numbers:
                self._numbers[name] = len(self._numbers)
                self._name_bytes += _NAME_BYTES + _NAME_COPIES * getsizeof(name)
        return np.array([self._numbers[name] for name in names], np.int64)

    def _note(self, sentence: str) -> None:
        if sentence not in self._notes:
            self._notes.append(sentence)


def _probed(text: bytes) -> tuple[bool, bool]:
    """Return whether rows have importance weights, and labels, by the first ones. What is wrong is said later."""
    whole = text if len(text) < _PROBE_BYTES else text[: text.rfind(b"\n") + 1]
    try:
        rows = parse_rows(whole) if whole.strip() else None
    except BadLineError:
        rows = None
    if rows is None:
        return False, True
    return bool((rows.weight != 1).any()), not bool(np.isnan(rows.label).all())


# Rows of Vowpal Wabbit text, some at a time: ``label weight 'tag|namespace:2 feature:value feature |other ...``.
#
# https://github.com/VowpalWabbit/vowpal_wabbit/wiki/Input-format. A feature is named ``namespace^feature``, as
# VW's own --invert_hash and audits have it, or ``feature`` in a namespace without a name.

_NEWLINE, _BAR, _COLON = b"\n|:"
_SEPARATES = np.isin(np.arange(256), list(b" \t\r\n|"))


class BadLineError(Exception):
    """Error in a line of the text.

    line: in the chunk, from 0. reason: a sentence.
    """

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)
        self.line, self.reason = line, reason


class ExampleHead(NamedTuple):
    """Part of a row before its features. label: NaN where there is none. weight: 1 where there is none."""

    label: float
    weight: float


class Examples(NamedTuple):
    """Some rows.

    label, weight: (n,) float64, as in ExampleHead. line: (n,) where each stands in the chunk, from 0.
    row, name: (m,) of each feature of each row, in the file's order: its row, and which of ``names`` it is.
    value: (m,) float64, the namespace's included. names: distinct, in order of appearance. spaces: the namespace
    of each of these.
    """

    label: NDArray[np.float64]
    weight: NDArray[np.float64]
    line: NDArray[np.int64]
    row: NDArray[np.int64]
    name: NDArray[np.int64]
    value: NDArray[np.float64]
    names: list[str]
    spaces: list[str]


def parse_rows(text: bytes) -> Examples:
    """Return the rows of whole lines. Raises BadLineError."""
    if text[-1] != _NEWLINE:
        text += b"\n"
    if not text.isascii():
        _require_utf8(text)
    data = np.frombuffer(text, np.uint8)
    separates = _SEPARATES[data]
    starts = np.flatnonzero(~separates & np.concatenate([[True], separates[:-1]]))
    stops = np.flatnonzero(separates & np.concatenate([[False], ~separates[:-1]]))
    newlines, bars = np.flatnonzero(data == _NEWLINE), np.flatnonzero(data == _BAR)
    line_of, bar_line = np.searchsorted(newlines, starts), np.searchsorted(newlines, bars)
    lines = np.union1d(line_of, bar_line)  # that are not blank
    barred, first = np.unique(bar_line, return_index=True)
    if len(barred) < len(lines):
        line = int(np.setdiff1d(lines, barred)[0])
        raise BadLineError(line, "no bar (|) before the features; write 'label |namespace feature:value ...'")
    label, weight = _heads(text, newlines, lines, bars[first])
    first_bar = np.full(len(newlines), len(data))
    first_bar[barred] = bars[first]
    is_feature = (starts > first_bar[line_of]) & ~np.isin(starts - 1, bars)
    starts_of, stops_of = starts[is_feature], stops[is_feature]
    prefixes, space, factor = _namespaces(text, bars, bar_line, starts, stops)
    bar = np.searchsorted(bars, starts_of) - 1
    feature, words, value = _features(text, data, starts_of, stops_of, line_of[is_feature])
    pair, at, name = np.unique(
        space[bar] * max(len(words), 1) + feature, return_index=True, return_inverse=True
    )
    order = np.argsort(at)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    of_name = [divmod(p, len(words)) for p in pair[order].tolist()]
    names = [prefixes[s] + words[w] for s, w in of_name]
    spaces = [prefixes[s].removesuffix("^") for s, _ in of_name]
    row = np.searchsorted(lines, line_of[is_feature])
    return Examples(label, weight, lines, row, rank[name], value * factor[bar], names, spaces)


def head_of_line(text: bytes) -> ExampleHead:
    """Parse what stands before a line's first bar. Raises ValueError(reason)."""
    words = text.decode().split()
    if words and not text[-1:].isspace():
        tag = words.pop()
        if not words and _number(tag) is not None:
            raise ValueError(
                f"{tag} touches the bar, so that VW takes it for the row's tag, and the row for unlabelled; put a "
                "space after it"
            )
    elif words and words[-1].startswith("'"):
        words.pop()
    if not words:
        return ExampleHead(math.nan, 1.0)
    label = _number(words[0])
    if label is None:
        what = "costs of classes (class:cost) are not read" if ":" in words[0] else "it is not a number"
        raise ValueError(f"label {shorten(words[0])}: {what}; write one finite number, such as -1 or 1")
    weight = 1.0 if len(words) == 1 else _number(words[1])
    if weight is None or weight < 0:
        raise ValueError(f"importance weight {shorten(words[1])}; weights are numbers, 0 or more")
    if len(words) > 3 or (len(words) == 3 and _number(words[2]) != 0):
        raise ValueError(
            f"{shorten(words[2])} after label and weight: initial predictions are not supported, and a tag touches "
            "the bar or begins with '"
        )
    return ExampleHead(label, weight)


def _heads(
    text: bytes, newlines: NDArray[np.int64], lines: NDArray[np.int64], bars: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the labels and weights of lines. bars: the first of each of the lines."""
    begins = np.concatenate([[0], newlines[:-1] + 1])[lines]
    known: dict[bytes, ExampleHead] = {}
    heads = []
    for i, (begin, bar) in enumerate(zip(begins.tolist(), bars.tolist(), strict=True)):
        raw = text[begin:bar]
        head = known.get(raw)
        if head is None:
            try:
                head = known[raw] = head_of_line(raw)
            except ValueError as error:
                raise BadLineError(int(lines[i]), str(error)) from error
        heads.append(head)
    both = np.array(heads, np.float64).reshape(-1, 2)
    return both[:, 0].copy(), both[:, 1].copy()


def _namespaces(
    text: bytes,
    bars: NDArray[np.int64],
    bar_line: NDArray[np.int64],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
) -> tuple[list[str], NDArray[np.int64], NDArray[np.float64]]:
    """Return what names in each namespace begin with; and for each bar its namespace and the factor of its
    values."""
    at = np.minimum(np.searchsorted(starts, bars + 1), max(len(starts) - 1, 0))
    named = starts[at] == bars + 1 if len(starts) else np.zeros(len(bars), bool)
    ends = np.where(named, stops[at], bars + 1) if len(starts) else bars + 1
    numbers: dict[str, int] = {}
    known: dict[bytes, tuple[int, float]] = {}
    parsed = []
    for i, (bar, end) in enumerate(zip(bars.tolist(), ends.tolist(), strict=True)):
        raw = text[bar + 1 : end]
        each = known.get(raw)
        if each is None:
            name, colon, factor = raw.decode().partition(":")
            times = _number(factor) if colon else 1.0
            if times is None or (colon and not name):
                what = f"namespace {shorten(raw.decode())}: its value is not a number, or it has no name"
                raise BadLineError(int(bar_line[i]), f"{what}; write |name:2.0")
            each = known[raw] = numbers.setdefault(f"{name}^" if name else "", len(numbers)), times
        parsed.append(each)
    both = np.array(parsed, np.float64).reshape(-1, 2)
    return list(numbers), both[:, 0].astype(np.int64), both[:, 1].copy()


def _features(
    text: bytes,
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    line: NDArray[np.int64],
) -> tuple[NDArray[np.int64], list[str], NDArray[np.float64]]:
    """Parse the features ``text[starts:stops]``: return for each the number of its name, the names, and the
    values."""
    colons = np.append(np.flatnonzero(data == _COLON), [len(data), len(data)])
    at = np.searchsorted(colons, starts)
    ends = np.minimum(colons[at], stops)
    bad = np.flatnonzero((colons[at + 1] < stops) | (ends == starts))
    if len(bad):
        shown = shorten(text[starts[bad[0]] : stops[bad[0]]].decode())
        raise BadLineError(
            int(line[bad[0]]), f"{shown}: write a feature as name or name:value, with one colon"
        )
    encoded = _gathered(data, starts, ends).cast(pa.large_string()).dictionary_encode()
    value = np.ones(len(starts))
    valued = np.flatnonzero(ends < stops)
    if len(valued):
        first = ends[valued] + 1
        try:
            parsed = _gathered(data, first, stops[valued]).cast(pa.string()).cast(pa.float64())
            value[valued] = np.frombuffer(parsed.buffers()[1], np.float64, len(parsed))
        except pa.ArrowInvalid:  # a form that Python reads, or none
            spans = zip(first.tolist(), stops[valued].tolist(), strict=True)
            numbers = [_number(text[begin:end].decode()) for begin, end in spans]
            value[valued] = [math.nan if each is None else each for each in numbers]
        wrong = np.flatnonzero(~np.isfinite(value))
        if len(wrong):
            shown = shorten(text[starts[wrong[0]] : stops[wrong[0]]].decode())
            raise BadLineError(
                int(line[wrong[0]]), f"{shown}: the value is not a finite number; write name:value"
            )
    codes = np.zeros(0, np.int32)
    if len(encoded):
        codes = np.frombuffer(encoded.indices.buffers()[1], np.int32, len(encoded))
    return codes.astype(np.int64), encoded.dictionary.to_pylist(), value


def _gathered(data: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64]) -> pa.Array:
    """Return parts of a text, as an Arrow array of bytes."""
    lengths = stops - starts
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    where = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data[where])]
    return pa.Array.from_buffers(pa.binary(), len(starts), buffers)


def _number(word: str) -> float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in word else None


def _require_utf8(text: bytes) -> None:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start)
        byte = f"byte {text[error.start]:#04x} is not UTF-8"
        raise BadLineError(
            line, f"{byte}; convert the text, perhaps with iconv -f latin1 -t utf-8"
        ) from error


# Crosses of namespaces, as VW's -q: a feature for each pair of a feature of one and a feature of the other,
# whose value is the product of the two values. Such a feature is named ``user^ann & item^shoe``, or ``user &
# item#17`` where pairs are hashed; they follow the row's own features, pair of namespaces by pair.

CELL_BYTES = 150  # held of a crossed feature while its row is made; measured
MAX_CELLS = 1 << 17  # of rows that are crossed together, unless one has more

Pair = tuple[str, str]


def chosen(where: str, wanted: Sequence[str]) -> list[Pair]:
    """Return the namespaces that ``--cross`` asks for, "A:B" each. Raises DataError."""
    pairs: list[Pair] = []
    for each in wanted:
        a, colon, b = each.partition(":")
        if not colon or ":" in b:
            raise DataError(f"{where}: --cross {each} names no two namespaces; write A:B")
        if a == b:
            raise DataError(f"{where}: --cross {each} crosses namespace {a!r} with itself; name two")
        if (a, b) in pairs or (b, a) in pairs:
            raise DataError(f"{where}: --cross {each}: these namespaces are crossed twice; name them once")
        pairs.append((a, b))
    return pairs


def require_met(where: str, pairs: Sequence[Pair], met: set[str]) -> None:
    """Raise DataError for a namespace that no row has. met: those that rows have."""
    for a, b in pairs:
        for name in (a, b):
            if name not in met:
                raise DataError(
                    f"{where}: no row has the namespace {name!r} (--cross {a}:{b}); there are "
                    f"{listed([repr(each) for each in sorted(met)])}"
                )


def with_crosses(rows: Examples, pairs: Sequence[Pair], hash_bits: int | None) -> Iterator[Examples]:
    """Yield the rows with what is crossed, some at a time."""
    n = len(rows.label)
    space = np.array(rows.spaces, object)[rows.name] if len(rows.name) else np.zeros(0, object)
    cells = np.zeros(n, np.int64)
    for a, b in pairs:
        cells += np.bincount(rows.row[space == a], minlength=n) * np.bincount(
            rows.row[space == b], minlength=n
        )
    start, total = 0, np.cumsum(cells)
    while start < n:
        before = int(total[start - 1]) if start else 0
        stop = max(int(np.searchsorted(total, before + MAX_CELLS, "right")), start + 1)
        first, last = np.searchsorted(rows.row, [start, stop])
        part = Examples(
            rows.label[start:stop],
            rows.weight[start:stop],
            rows.line[start:stop],
            rows.row[first:last] - start,
            rows.name[first:last],
            rows.value[first:last],
            rows.names,
            rows.spaces,
        )
        yield _crossed(part, space[first:last], pairs, hash_bits)
        start = stop


def _crossed(
    rows: Examples, space: NDArray[np.object_], pairs: Sequence[Pair], hash_bits: int | None
) -> Examples:
    """Return the rows with the pairs of their features. space: of each feature of each row."""
    n, m = len(rows.label), len(rows.names)
    row, key, value = [rows.row], [rows.name], [rows.value]
    for a, b in pairs:
        left, right = np.flatnonzero(space == a), np.flatnonzero(space == b)
        counts = np.bincount(rows.row[right], minlength=n)
        starts = np.cumsum(counts) - counts
        times = counts[rows.row[left]]
        one = np.repeat(left, times)
        within = np.arange(len(one)) - np.repeat(np.cumsum(times) - times, times)
        other = right[starts[rows.row[one]] + within] if len(one) else one
        row.append(rows.row[one])
        key.append(m + rows.name[one] * m + rows.name[other])
        value.append(rows.value[one] * rows.value[other])
    all_rows, keys = np.concatenate(row), np.concatenate(key)
    order = np.argsort(all_rows, kind="stable")  # a row's own features first
    keys = keys[order]
    distinct, at, which = np.unique(keys, return_index=True, return_inverse=True)
    by_place = np.argsort(at)
    rank = np.empty(len(by_place), np.int64)
    rank[by_place] = np.arange(len(by_place))
    names = [_name(each, rows, hash_bits) for each in distinct[by_place].tolist()]
    return rows._replace(
        row=all_rows[order], name=rank[which], value=np.concatenate(value)[order], names=names, spaces=[]
    )


def _name(key: int, rows: Examples, hash_bits: int | None) -> str:
    m = len(rows.names)
    if key < m:
        return rows.names[key]
    a, b = divmod(key - m, m)
    name = f"{rows.names[a]}{MARK}{rows.names[b]}"
    if hash_bits is None:
        return name
    return f"{rows.spaces[a]}{MARK}{rows.spaces[b]}#{zlib.crc32(name.encode()) & ((1 << hash_bits) - 1)}"
