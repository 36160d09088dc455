"""Text in pieces: chunks of whole lines, several of them parsed at a time, and streams that CSV is read from."""

from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from llsvm.errors import DataError, LongRowError
from llsvm.files.text_input import TextInput
from llsvm.process.threads import Pool

MAX_LINE_BYTES = 4 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NEWLINE = ord("\n")
T = TypeVar("T")


class Chunk(NamedTuple):
    """Some whole lines.

    text: their bytes. number: of the first line, from 1.
    """

    text: bytes
    number: int


def cut_lines(
    read: Callable[[int], bytes],
    name: str,
    size: int,
    max_rows: int,
    longest: int = MAX_LINE_BYTES,
    row_factor: int = 1,
) -> Iterator[Chunk]:
    """Yield chunks of about ``size`` bytes, one long line excepted, and of ``max_rows`` lines at most.

    read: the next bytes, so many at most; b"" at the end. name: of the file. longest: bytes of a line. row_factor:
    a longer line asks for blocks of so many times its bytes.
    Raises LongRowError; DataError for a line of more than MAX_LINE_BYTES.
    """
    number, carry, ended = 1, b"", False
    while not ended:
        parts, n_bytes, broken = [carry], len(carry), False
        while not ended and (n_bytes < size or not broken):
            part = read(size - n_bytes if n_bytes < size else size)
            ended = not part
            broken = broken or b"\n" in part
            parts.append(part)
            n_bytes += len(part)
            if not broken and n_bytes > MAX_LINE_BYTES:
                refuse_long(name, number)
        text = b"".join(parts)
        stop = len(text) if ended else text.rfind(b"\n") + 1
        carry = text[stop:]
        ends = np.flatnonzero(np.frombuffer(text, np.uint8, stop) == _NEWLINE) + 1
        if stop > longest:
            _require_no_longer(np.diff(ends, prepend=0, append=stop), name, number, longest, row_factor)
        start = 0
        for end in ends[max_rows - 1 :: max_rows].tolist():
            yield Chunk(text[start:end], number)
            start, number = end, number + max_rows
        if start < stop:
            yield Chunk(text[start:stop], number)
            number += len(ends) % max_rows


def _require_no_longer(
    lengths: NDArray[np.int64], name: str, number: int, longest: int, row_factor: int
) -> None:
    """Raise LongRowError for a line that is too long. lengths: of lines, the first of which is ``number``."""
    length = int(lengths.max())
    if length > longest:
        raise LongRowError(
            f"{name}:{number + int(lengths.argmax())}: a line of {length:,} bytes, too long for the memory limit; "
            "pass a larger --memory-limit",
            row_factor * length,
        )


def refuse_long(name: str, number: int) -> NoReturn:
    """Raise the DataError for a line of more than MAX_LINE_BYTES. number: of the line."""
    raise DataError(
        f"{name}:{number}: a line of more than {MAX_LINE_BYTES >> 20} MB; write one row a line (JSON: jq -c .), "
        "and rows that long as svmlight or Parquet"
    )


def parse_ahead(
    chunks: Iterator[Chunk], work: Callable[[Chunk], T], threads: int, size: int
) -> Iterator[tuple[Chunk, Callable[[], T]]]:
    """Yield each chunk, in order, and a function that waits for what it becomes, while ``threads`` work at those
    after it: as many as if they were of ``size`` bytes each, fewer where they are longer."""
    if threads == 1:
        for each in chunks:
            yield each, partial(work, each)
        return
    waiting: deque[tuple[Chunk, Future[T]]] = deque()
    failed: DataError | None = None
    held = 0  # bytes of those that wait
    with Pool(threads, "llsvm-parse", drop=True) as pool:
        while True:
            chunk: Chunk | None = None
            try:
                chunk = next(chunks, None)
            except DataError as error:  # what is wrong with the lines before it comes first
                failed = error
            more = 0 if chunk is None else len(chunk.text)
            while waiting and (chunk is None or len(waiting) > threads or held + more > (threads + 2) * size):
                done, future = waiting.popleft()
                held -= len(done.text)
                yield done, future.result
                del done, future
            if chunk is None:
                break
            waiting.append((chunk, pool.submit(work, chunk)))
            held += more
    if failed is not None:
        raise failed


# Streams of text that CSV is read from.

_END = "llsvm: end of file"
TELLING = 3  # columns: a line of fewer values may be anything
_MOST_CELLS = 50  # of a line, that are looked for


class Tail(io.RawIOBase):
    """Bytes that go by, and the last of them; ``end`` follows these."""

    def __init__(self, stream: io.RawIOBase, end: bytes) -> None:
        self._stream, self._end, self.last = stream, end, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if n := self._stream.readinto(view) or 0:
            self.last = bytes(view[n - 1 : n])
            return n
        n = min(len(view), len(self._end))
        view[:n], self._end = self._end[:n], self._end[n:]
        return n


class EndLine:
    """A line that follows the last one of a file, with a value too many, so that pyarrow asks what to do with it.

    It does not ask where the file ends within quotes, which then go on: the line is part of a value.
    """

    def __init__(self, delimiter: str, n_columns: int) -> None:
        self._text = _END + delimiter * n_columns
        self.text = f"\n{self._text}\n".encode()
        self.is_met = False

    def __call__(self, row: Any) -> str:
        """Return how to treat a row of too few or too many values: pyarrow's "skip" or "error"."""
        if row.text.rstrip("\r\n") != self._text:
            return "error"
        self.is_met = True
        return "skip"


def row_with_rows(column: pa.Array, delimiter: str, n_columns: int) -> int | None:
    """Return the first row whose value is of several lines, of which one looks like a row of the table, as where a
    value begins with a quote that is not meant as one, and ends at the next such quote; None where there is
    none."""
    if n_columns < TELLING or not pc.any(pc.match_substring(column, "\n")).as_py():
        return None
    cell, many = f"[^{re.escape(delimiter)}\n]*", min(n_columns - 1, _MOST_CELLS)
    row = rf"\n(?:{cell}{re.escape(delimiter)}){{{many}}}{cell}"
    index = pc.index(pc.match_substring_regex(column, row), True).as_py()
    return None if index < 0 else index


class RowsWithin:
    """Tells values that are rows of the table, since a quote that was not meant as one began them, from those of
    several lines: where each line has the columns' values, and one of these says something. Of two columns a value
    of two lines is taken for what it is, if its quotes can be in pairs: there is but one row to tell it by.

    delimiter: between values. fits: for each column, whether it can have a value; None: any.
    """

    def __init__(self, delimiter: str, fits: Sequence[Callable[[str], bool] | None]) -> None:
        self._delimiter, self._fits = delimiter, fits

    def first(self, column: pa.Array, place: int) -> int | None:
        """Return the first row with such a value; None where there is none. place: of the column in the file."""
        for row in np.flatnonzero(pc.match_substring_regex(column, self._first_line(place)).fill_null(False)):
            if self._are_rows(column[int(row)].as_py(), place):
                return int(row)
        return None

    def _first_line(self, place: int) -> str:
        """Return a pattern of values whose first line has as many cells as a row from that place on."""
        rest, delimiter = len(self._fits) - place - 1, re.escape(self._delimiter)
        cell = f"[^{delimiter}\n]*"
        end = "" if rest <= _MOST_CELLS else "[^\n]*"
        return rf"\A(?:{cell}{delimiter}){{{min(rest, _MOST_CELLS)}}}{cell}{end}\n"

    def _are_rows(self, value: str, place: int) -> bool:
        n, lines, n_checked = len(self._fits), value.split("\n"), 0
        if n < TELLING and len(lines) < TELLING and value.count('"') % 2 == 0:
            return False
        for at, line in enumerate(lines):
            begin, end = place if at == 0 else 0, place + 1 if at == len(lines) - 1 else n
            cells = line.removesuffix("\r").split(self._delimiter)
            if len(cells) != end - begin:
                return False
            for i, cell in enumerate(cells, begin):
                fit = self._fits[i]
                if i != place and (cell[:1] == " " or (fit is not None and not fit(cell))):
                    return False
                n_checked += i != place and fit is not None
        return n_checked > 0


class Chained(io.RawIOBase):
    """Bytes that have been read already, and then the rest."""

    def __init__(self, head: bytes, rest: TextInput) -> None:
        self._head = memoryview(head)
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if len(self._head):
            n = min(len(view), len(self._head))
            view[:n] = self._head[:n]
            self._head = self._head[n:]
            return n
        return self._rest.readinto(view)
