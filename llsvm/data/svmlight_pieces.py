"""Svmlight text cut into pieces of whole lines, each of which is parsed into one block.

ReusedArrays has arrays for the blocks of one reading, used again once nobody looks at a block any more: fresh
arrays are memory that the system takes back when they go, and clears page by page when the next are made, a tenth
of the time that it takes to parse a text into them.
"""

from __future__ import annotations

import re
import sys
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from llsvm.data.svmlight_labels import looks_binary, refuse_binary
from llsvm.errors import LongRowError
from llsvm.files.inputs import Input
from llsvm.kernels.parse import PADDING_BYTES

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
