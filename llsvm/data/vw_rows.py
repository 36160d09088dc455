"""Rows of Vowpal Wabbit text, some at a time: ``label weight 'tag|namespace:2 feature:value feature |other ...``.

https://github.com/VowpalWabbit/vowpal_wabbit/wiki/Input-format. A feature is named ``namespace^feature``, as VW's
own --invert_hash and audits have it, or ``feature`` in a namespace without a name.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from llsvm.data.svmlight_labels import shorten
from llsvm.errors import DataError
from llsvm.features.crosses import MARK
from llsvm.features.table_options import listed

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
