"""Reads svmlight (LIBSVM) text: ``label [qid:number] index:value ... [# comment]``, a row a line; labels are
numbers, or words (``svmlight_labels``).

The file is read in chunks of whole lines. A chunk is parsed into one block, or, where its block would be
larger than asked for, is cut into pieces first. The cuts depend on the text and on ``max_bytes`` alone, so
that blocks do not depend on the number of threads.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from llsvm.block import CSR, Block
from llsvm.data.source import CUT_OFF, Parsing, SourceInfo
from llsvm.data.svmlight_labels import (
    PROBE_BYTES,
    TOO_LARGE,
    looks_binary,
    refuse_binary,
    refuse_line,
    take_words,
    words_among,
)
from llsvm.data.text_chunks import TextSource
from llsvm.errors import DataError, LongRowError, UsageError
from llsvm.files.fingerprint import FileFingerprint, Reading
from llsvm.files.inputs import STDIN, Input, TextInput, size_and_mtime, unchanged
from llsvm.files.remote import is_remote, library_bytes
from llsvm.kernels.parse import PADDING_BYTES, parse
from llsvm.objective.rounding import FULL_DIGITS, Rounding, lost_of_text, most_lost
from llsvm.process.threads import Pool

ZeroBased = Literal["auto", "yes", "no"]

# Pieces under way hold at most this times max_bytes, see CHUNKS_PER_BLOCK.
IN_FLIGHT = 3
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(slots=True)
class _Parsed:
    """A block's parts as the kernel fills them, and what it says; see ``llsvm.kernels.parse.parse``. lost: Σ e² of
    what was rounded. rounded: how, as the kernel says."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[np.floating]
    y: NDArray[Any]  # float64, or text as objects
    smallest: int
    largest: int
    bad: int  # where the first bad line starts, or -1
    lost: float
    rounded: int


class SvmlightSource(TextSource):
    """Svmlight text as blocks: X CSR float32, y float64 as written or text as objects, weight None.

    Column indices are handed out as they are written; ``info().index_base`` says what to subtract.

    path: a file, plain or compressed, local or remote, or "-" for standard input.
    zero_based: "no": indices start at 1, and 0 is refused; "yes": they start at 0; "auto": they start at 0 if a 0
        is seen anywhere in the file, else at 1 (known after a complete pass).
    threads: how many threads parse; blocks do not depend on it.
    text_labels: labels are text, whatever they look like; False: they are numbers; None: they are text if there is
        a word among those of the first megabyte.
    first: of the files that are read as one; None: this one. They share ``rounding`` and ``parsing``.

    Raises DataError for a path that is not a readable file, UsageError for an unknown option.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        zero_based: ZeroBased = "auto",
        threads: int = 1,
        text_labels: bool | None = None,
        first: SvmlightSource | None = None,
    ) -> None:
        if zero_based not in ("auto", "yes", "no"):
            raise UsageError(f"zero_based is {zero_based!r}; it must be 'auto', 'yes' or 'no'")
        if threads < 1:
            raise UsageError(f"threads is {threads}; it must be at least 1")
        self.path = os.fsdecode(path)
        self._zero_based = zero_based
        self._threads = threads
        self.bytes_read = 0
        self.rounding: Rounding = Rounding() if first is None else first.rounding
        self.parsing: Parsing = Parsing() if first is None else first.parsing
        self._n_rows: int | None = None
        self._n_features: int | None = None
        self._index_base = {"auto": None, "yes": 0, "no": 1}[zero_based]
        self._size_and_mtime = size_and_mtime(self.path)
        self._fingerprint: FileFingerprint | None = None
        self._notes: list[str] = []
        first_text = self._first_text(self.path, PROBE_BYTES if text_labels is None else 1)
        self.text_labels = self._has_words(first_text) if text_labels is None else text_labels

    def info(self) -> SourceInfo:
        """Return what is known so far: rows with a file's last block, columns and, under "auto", index base only
        after a complete pass."""
        return SourceInfo(
            name=self.path,
            format="svmlight",
            n_bytes=None if self.path == STDIN else self._size_and_mtime[0],
            rereadable=self.path != STDIN,
            n_rows=self._n_rows,
            n_features=self._n_features,
            index_base=self._index_base,
            notes=tuple(self._notes),
            fingerprints=None if self._fingerprint is None else (self._fingerprint,),
            file_rows=None if self._n_rows is None else (self._n_rows,),
            reader_bytes=library_bytes([self.path]) + self._window_bytes,
            library_bytes=library_bytes([self.path]),
            rounding=(self.rounding,),
            parsing=(self.parsing,) if self._may_be_copied else (),
        )

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the rows in file order; see BlockSource. Raises DataError for the first line that is wrong."""
        copies = self.parsing.copies if self._may_be_copied else None
        return self.parse(max_bytes) if copies is None else copies.blocks(self, max_bytes)

    @property
    def _may_be_copied(self) -> bool:
        return not (self.text_labels or self.path == STDIN or is_remote(self.path))

    @property
    def how(self) -> str:
        """Return the options that decide what the rows are; see ParsedFile."""
        return f"svmlight {self._zero_based} {self.rounding.dtype}"

    @property
    def facts(self) -> dict[str, Any]:
        """Return what has been learned of the file; see ParsedFile."""
        return {
            "n_rows": self._n_rows,
            "n_features": self._n_features,
            "index_base": self._index_base,
            "notes": list(self._notes),
            "fingerprint": self._fingerprint,
        }

    def know(self, facts: Mapping[str, Any]) -> None:
        """Take over facts that were learned before; see ParsedFile."""
        self._n_rows, self._n_features = facts["n_rows"], facts["n_features"]
        self._index_base, self._fingerprint = facts["index_base"], facts["fingerprint"]
        for note in facts["notes"]:
            self._note(note)

    def parse(self, max_bytes: int) -> Iterator[Block]:
        """Yield blocks from the text; see ParsedFile."""
        reading = Reading(self.path, self._fingerprint)
        with unchanged(self.path, self._size_and_mtime), self._opened(self.path, reading) as file:
            yield from self._read(file, max_bytes)

    def _read(self, file: TextInput, max_bytes: int) -> Iterator[Block]:
        lowest = 1 if self._zero_based == "no" else 0
        reader = ChunkReader(file, self.path, max_bytes, self.rounding.dtype)
        smallest, largest, n_rows, n_lines = 1, -1, 0, 0
        work = partial(_parse_words if self.text_labels else _parse, arrays=ReusedArrays(), lowest=lowest)
        pieces = _parse_all(reader, work, self._threads, IN_FLIGHT * max_bytes)
        for piece, parsed in self._counted(file, pieces):
            if parsed.bad >= 0:
                number = n_lines + piece.text.count(b"\n", piece.start, parsed.bad) + 1
                end = piece.text.index(b"\n", parsed.bad)
                cut_off = piece.cut_off and end == piece.stop - 1
                line = bytes(piece.text[parsed.bad : end])
                try:
                    refuse_line(self.path, number, line, lowest, cut_off, self.text_labels)
                except DataError as error:
                    self.rounding.count(0.0, overflowed=TOO_LARGE in str(error))
                    raise
            if self._index_base is None and parsed.smallest == 0 < smallest:
                self._note(_note_of_zero(self.path, n_lines, piece))
            n_lines += piece.lines
            if piece.cut_off:
                self._note(CUT_OFF.format(self.path, f"line {n_lines:,}"))
            if piece.ends_chunk:
                reader.give_back(piece.text)
            smallest, largest = min(smallest, parsed.smallest), max(largest, parsed.largest)
            flushed, vanished = parsed.rounded >= 2, parsed.rounded == 3
            self.rounding.count(parsed.lost, flushed=flushed, vanished=vanished)
            n = len(parsed.y)
            if n:
                rows = np.arange(n_rows, n_rows + n, dtype=np.int64)
                n_rows += n
                if piece.is_last:  # whoever takes the block may ask for it
                    self._n_rows = n_rows
                yield Block(CSR(parsed.indptr, parsed.indices, parsed.data), parsed.y, rows)
            del piece, parsed  # else they would be held while the next are waited for
        if n_rows == 0:
            what = "the file is empty" if n_lines == 0 else "no rows, only blank lines and comments"
            raise DataError(f"{self.path}: {what}; give a file with at least one row")
        self._fingerprint = file.finish()
        if self._index_base is None:
            self._index_base = smallest
        self._n_rows, self._n_features = n_rows, max(largest + 1 - self._index_base, 0)

    def _has_words(self, text: bytes) -> bool:
        """Return whether labels are text, by those of the first megabyte."""
        labels = words_among(text if len(text) < PROBE_BYTES else text[: text.rfind(b"\n") + 1] or text)
        if labels is not None and labels[1]:
            self._note(
                f"{self.path}: some labels are words, such as {labels[0]!r}, and others look like numbers, such as "
                f"{labels[1]}: all are taken for text"
            )
        return labels is not None

    def _note(self, sentence: str) -> None:
        if sentence not in self._notes:  # of a pass before
            self._notes.append(sentence)


def _note_of_zero(path: str, n_lines: int, piece: Piece) -> str:
    """Return the note on the first index 0, which decides for the whole file; n_lines: before the piece."""
    match = re.compile(rb"^[^#\n]*?[ \t]0+:", re.MULTILINE).search(piece.text, piece.start, piece.stop)
    line = n_lines + 1 + (0 if match is None else piece.text.count(b"\n", piece.start, match.start()))
    return (
        f"{path}:{line}: an index 0, so the columns of the whole file are counted from 0; if it is a mistake, "
        "--zero-based no refuses it"
    )


def _parse(piece: Piece, arrays: ReusedArrays, lowest: int) -> _Parsed:
    capacity = max_values(piece.stop - piece.start)  # memory that is not written to costs nothing
    indptr, y = arrays.take(piece.lines + 1, np.int64), arrays.take(piece.lines, np.float64)
    indices, data = arrays.take(capacity, np.int32), arrays.take(capacity, piece.dtype)
    text = np.frombuffer(piece.text, np.uint8)
    n, m, smallest, largest, bad, rounded = parse(
        text, piece.start, piece.stop, lowest, indptr, indices, data, y
    )
    indptr, indices, data, y = indptr[: n + 1], indices[:m], data[:m], y[:n]
    narrow = data.dtype == np.float32
    if rounded and narrow:
        lost = most_lost(data)
    else:
        beyond = lost_of_text(data, FULL_DIGITS)
        with np.errstate(over="ignore"):
            lost = 0.0 if beyond is None else float(np.square(beyond).sum())
    return _Parsed(indptr, indices, data, y, smallest, largest, bad, lost, rounded if narrow else 0)


def _parse_words(piece: Piece, arrays: ReusedArrays, lowest: int) -> _Parsed:
    """Parse a piece as ``_parse`` does, with labels that are words."""
    words = take_words(piece.text, piece.start, piece.stop)
    parsed = _parse(piece, arrays, lowest)
    if parsed.bad >= 0:
        words.put_back(piece.text, len(parsed.y))
    parsed.y = words.labels[: len(parsed.y)]
    return parsed


def _parse_all(
    reader: ChunkReader, work: Callable[[Piece], _Parsed], threads: int, max_bytes: int
) -> Iterator[tuple[Piece, _Parsed]]:
    """Parse the pieces, in order; those under way hold at most ``max_bytes`` (or are one). A file of one chunk is
    not worth the threads: there may be many such files."""
    pieces = iter(reader)
    first = next(pieces, None)
    pieces = pieces if first is None else chain([first], pieces)
    if threads == 1 or reader.ended:
        return ((piece, work(piece)) for piece in pieces)
    return _parse_in_threads(pieces, work, threads, max_bytes)


def _parse_in_threads(
    pieces: Iterable[Piece], work: Callable[[Piece], _Parsed], threads: int, max_bytes: int
) -> Iterator[tuple[Piece, _Parsed]]:
    """Yield the parsed pieces in order, as ``_parse_all`` says; another thread reads the piece after those under
    way."""
    waiting: deque[tuple[Piece, Future[_Parsed]]] = deque()
    held_bytes = 0
    unread: DataError | None = None
    reading = iter(pieces)
    with Pool(threads, "llsvm-parse", drop=True) as pool, Pool(1, "llsvm-read", drop=True) as reader:
        next_piece = reader.submit(next, reading, None)
        while True:
            try:
                piece = next_piece.result()
                next_piece = reader.submit(next, reading, None)
            except DataError as error:
                piece, unread = None, error  # what is wrong with the lines before it comes first
            # with the text of the piece that is being read
            needed = 0 if piece is None else piece.nbytes + len(piece.text)
            while waiting and (piece is None or len(waiting) > threads or held_bytes + needed > max_bytes):
                done, parsed = waiting.popleft()
                yield done, parsed.result()
                held_bytes -= done.nbytes
                del done, parsed
            if piece is None:
                break
            held_bytes += piece.nbytes
            waiting.append((piece, pool.submit(work, piece)))
    if unread:
        raise unread


# Svmlight text cut into pieces of whole lines, each of which is parsed into one block.
#
# ReusedArrays has arrays for the blocks of one reading, used again once nobody looks at a block any more: fresh
# arrays are memory that the system takes back when they go, and clears page by page when the next are made, a
# tenth of the time that it takes to parse a text into them.

# A block of n rows and m values is 8 (n + 1) + 8 n + 8 n + (4 + 4 or 8) m bytes: indptr, y, rows; indices and data.
BLOCK_BYTES, ROW_BYTES, INDEX_BYTES = 8, 24, 4
# A chunk's text is about as large as its block, and the block at most twice as large; with a third of max_bytes
# each, three threads fit into the 3 * max_bytes that pieces in flight may hold.
CHUNKS_PER_BLOCK = 3
# Larger chunks gain nothing: they leave the processor's cache.
MAX_CHUNK_BYTES = 8 << 20
# A line is read whole. It may take this times max_bytes, and more only if that is next to nothing.
MAX_LINE_FACTOR = 2
MIN_LONGEST_LINE_BYTES = 1 << 20
_SHORT_BYTES = 1 << 16  # files that are shorter get a buffer of their size
# In a buffer, beyond the text: an end of line that may have to be added, and what the parser looks at.
SPARE_BYTES = 1 + PADDING_BYTES
MIN_VALUE_BYTES = 4
_BLANKS, _ENDS_DATA = re.compile(rb"[ \t\r]{2,}"), re.compile(rb"[\n#]")
_COUNTED_BYTES = 1 << 18  # lines are counted in steps that stay in the processor's cache
NEWLINE = ord("\n")


@dataclass(slots=True)
class Piece:
    """Whole lines, to be parsed into one block.

    text: bytes of a chunk, of which ``start:stop`` are the piece.
    lines: how many.
    dtype: of the values.
    ends_chunk: the chunk's buffer is free afterwards.
    cut_off: the file ended without an end of line, which has been added.
    is_last: nothing of the file is left.
    """

    text: bytearray
    start: int
    stop: int
    lines: int
    dtype: np.dtype[Any]
    ends_chunk: bool = False
    cut_off: bool = False
    is_last: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of the text and of the block that it becomes (at most)."""
        return (
            self.stop - self.start + _block_bytes(self.lines, max_values(self.stop - self.start), self.dtype)
        )


class ChunkReader:
    """Cuts a file into pieces whose blocks have at most ``max_bytes`` each; a single line may be larger.

    A buffer is filled and cut after its last end of line; the rest is carried over to the next buffer. Of a line
    that is longer than a buffer, blanks and the comment are left out as it is read.

    file: the text. name: for messages. max_bytes: of a block. dtype: of its values. ended: the file has been read.
    Raises DataError for control bytes, LongRowError for a line that no buffer holds.
    """

    def __init__(self, file: Input, name: str, max_bytes: int, dtype: np.dtype[Any]) -> None:
        self._file = file
        self._dtype = dtype
        self._name = name
        self._max_bytes = max_bytes
        self._size = max(min(max_bytes // CHUNKS_PER_BLOCK, MAX_CHUNK_BYTES), 1)
        self._longest = max(MAX_LINE_FACTOR * max_bytes, MIN_LONGEST_LINE_BYTES)
        self._free: list[bytearray] = []
        self._n_lines = 0
        self.ended = False

    def give_back(self, text: bytearray) -> None:
        """Take back a buffer that nobody looks at any more: the next chunk is read into it."""
        if len(text) == self._size + SPARE_BYTES:
            self._free.append(text)

    def __iter__(self) -> Iterator[Piece]:
        carry = b""
        n_bytes = len(self._file.peek(_SHORT_BYTES))
        if n_bytes < _SHORT_BYTES:
            self._size = min(self._size, n_bytes + 1)
        while not self.ended:
            text, filled, self.ended = self._fill(carry)
            cut_off = self.ended and filled > 0 and text[filled - 1] != NEWLINE
            if cut_off:
                text[filled] = NEWLINE
                filled += 1
            stop = text.rfind(b"\n", 0, filled) + 1
            carry = bytes(text[stop:filled])
            if stop:
                yield from self._cut(text, stop, cut_off)

    def _cut(self, text: bytearray, stop: int, cut_off: bool) -> Iterator[Piece]:
        """Yield the pieces of one chunk."""
        bounds = [(0, stop)]
        while bounds:
            start, stop = bounds.pop()
            lines = _count_lines(text, start, stop)
            if lines > 1 and _block_bytes(lines, max_values(stop - start), self._dtype) > self._max_bytes:
                middle = _line_end_near_middle(text, start, stop)
                bounds += [(middle, stop), (start, middle)]
            else:
                self._n_lines += lines
                ends = (not bounds, cut_off and not bounds, self.ended and not bounds)
                yield Piece(text, start, stop, lines, self._dtype, *ends)

    def _fill(self, carry: bytes) -> tuple[bytearray, int, bool]:
        """Return a buffer that holds the carry and at least one end of line after it (or the file's end)."""
        size = max(self._size, min(2 * len(carry), self._longest))
        text = self._buffer(size)
        text[: len(carry)] = carry
        filled = len(carry)
        while True:
            seen = filled
            filled = self._read_into(text, filled, size)
            if filled < size:
                return text, filled, True
            if text.find(b"\n", seen, filled) >= 0:
                return text, filled, False
            if looks_binary(memoryview(text)[:filled]):
                refuse_binary(self._name, self._n_lines + 1)
            if (comment := text.find(b"#", 0, filled)) >= 0:
                text[comment] = NEWLINE
                ends = self._file.skip_line()
                return text, comment + ends, not ends
            shorter = _BLANKS.sub(b" ", memoryview(text)[:filled])
            if 2 * len(shorter) <= filled:
                text[: len(shorter)] = shorter
                filled = len(shorter)
                continue
            del shorter
            if filled >= self._longest:
                self._refuse_long_line(text, filled)
            size = self._max_bytes if size < self._max_bytes else self._longest
            longer = self._buffer(size)
            longer[:filled] = memoryview(text)[:filled]
            text = longer

    def _read_into(self, text: bytearray, filled: int, size: int) -> int:
        """Fill ``text[filled:size]``, less only at the file's end. Returns up to where it is filled."""
        with memoryview(text) as view:
            while filled < size:
                got = self._file.readinto(view[filled:size])
                if got == 0:
                    break
                filled += got
        return filled

    def _refuse_long_line(self, text: bytearray, filled: int) -> NoReturn:
        length = filled + self._rest_of_line(text)
        raise LongRowError(
            f"{self._name}:{self._n_lines + 1}: a line of {length:,} bytes, too long for the memory limit; "
            "pass a larger --memory-limit, or check that the file has ends of line",
            length,
        )

    def _rest_of_line(self, text: bytearray) -> int:
        """Return the bytes of data up to the next end of line, read over ``text``."""
        length = 0
        while filled := self._read_into(text, 0, self._size):
            end = _ENDS_DATA.search(text, 0, filled)
            length += len(_BLANKS.sub(b" ", memoryview(text)[: filled if end is None else end.end()]))
            if end is not None:
                break
        return length

    def _buffer(self, size: int) -> bytearray:
        if size == self._size and self._free:
            return self._free.pop()
        return bytearray(size + SPARE_BYTES)


def _block_bytes(rows: int, values: int, dtype: np.dtype[Any]) -> int:
    return BLOCK_BYTES + ROW_BYTES * rows + (INDEX_BYTES + dtype.itemsize) * values


def _count_lines(text: bytearray, start: int, stop: int) -> int:
    """Count the ends of lines as ``text.count(b"\\n", start, stop)`` does, while other threads go on."""
    array = np.frombuffer(text, np.uint8)
    steps = range(start, stop, _COUNTED_BYTES)
    return sum(int(np.count_nonzero(array[i : min(i + _COUNTED_BYTES, stop)] == NEWLINE)) for i in steps)


def max_values(nbytes: int) -> int:
    """Return the most values that a text may have: the shortest is ``1:1`` and a space or an end of line."""
    return nbytes // MIN_VALUE_BYTES + 1


def _line_end_near_middle(text: bytearray, start: int, stop: int) -> int:
    """Return the position at which to cut two or more lines into two parts, neither of them empty."""
    middle = (start + stop) // 2
    end = text.find(b"\n", middle, stop - 1) + 1
    return end or text.rfind(b"\n", start, middle) + 1


_MOST = 32  # arrays that are remembered; those of blocks that are kept are forgotten
_GRAIN = 512  # lengths are multiples of it: pieces of a text differ a little
_UNUSED = 3  # references to one that only we have: ours, the loop's, and that of the call that counts them


class ReusedArrays:
    """Threads may take arrays at the same time. What is handed out is a view, and so is what is made of it: while
    there is one, the array is in use."""

    def __init__(self) -> None:
        self._arrays: deque[NDArray[Any]] = deque(maxlen=_MOST)
        self._mutex = threading.Lock()

    def take(self, n: int, dtype: DTypeLike) -> NDArray[Any]:
        """Return an array (n,) of any values."""
        with self._mutex:
            for array in self._arrays:
                if array.dtype == dtype and len(array) >= n and sys.getrefcount(array) == _UNUSED:
                    return array[:n]
            array = np.empty(-(-n // _GRAIN) * _GRAIN, dtype)
            self._arrays.append(array)
            return array[:n]
