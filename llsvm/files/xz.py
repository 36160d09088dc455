"""xz files: what their indexes say of the text in them, and a decoder that keeps to what they declared."""

from __future__ import annotations

import io
import lzma
import os
import stat
import sys
import zlib
from typing import Any

_HEADER_BYTES = (
    12  # of a stream; then come blocks, an index of their sizes, and a footer as long as the header
)
_MAX_INDEX_BYTES = 100_000  # of files with more blocks the index is not looked at
_MAX_STREAMS = 1000  # the same, with words of padding among them
_WORK_BYTES = 4 << 20  # of a decoder, beside its dictionary


def text_bytes_of(file: int) -> int | None:
    """Return the bytes of text in an xz file, by the indexes at the ends of its streams.

    file: a descriptor, whose place is not moved.

    None where they do not tell: of a pipe, of a damaged file, and of one with very many blocks.
    """
    status, text_bytes = os.fstat(file), 0
    if not stat.S_ISREG(status.st_mode):
        return None
    end = status.st_size
    for _ in range(_MAX_STREAMS):
        if end == 0:
            return text_bytes
        footer = os.pread(file, _HEADER_BYTES, max(end - _HEADER_BYTES, 0))
        if footer.endswith(b"\0\0\0\0"):  # padding after a stream
            end -= 4
            continue
        index_bytes = 4 * (int.from_bytes(footer[4:8], "little") + 1)
        begin = end - _HEADER_BYTES - index_bytes
        if not footer.endswith(b"YZ") or index_bytes > _MAX_INDEX_BYTES or begin < 0:
            return None
        sizes = _sizes(os.pread(file, index_bytes, begin))
        if sizes is None:
            return None
        text_bytes += sizes[1]
        end = begin - sizes[0] - _HEADER_BYTES
        if end < 0:
            return None
    return None


def _sizes(index: bytes) -> tuple[int, int] | None:
    """Return the bytes of the blocks in a stream's index, and of the text in them, or None where it is damaged."""
    if index[0] != 0 or zlib.crc32(index[:-4]) != int.from_bytes(index[-4:], "little"):
        return None
    numbers, number, shift = [], 0, 0
    for byte in index[1:-4]:  # in groups of seven bits, the low ones first
        number, shift = number | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            numbers.append(number)
            number = shift = 0
    n_blocks = numbers[0] if numbers else 0
    if len(numbers) < 1 + 2 * n_blocks:
        return None
    blocks, texts = numbers[1 : 1 + 2 * n_blocks : 2], numbers[2 : 2 + 2 * n_blocks : 2]
    return sum(-(-size // 4) * 4 for size in blocks), sum(texts)


class Xz(io.RawIOBase):
    """The text of the xz file ``raw``, as ``lzma.LZMAFile`` gives it.

    But no block may have a larger dictionary than the first declared, and no file more text than ``text_bytes``,
    where its indexes tell.
    """

    def __init__(self, raw: io.RawIOBase, dictionary_bytes: int, text_bytes: int | None) -> None:
        self._raw, self._limit = raw, dictionary_bytes + _WORK_BYTES
        self._left = sys.maxsize - 1 if text_bytes is None else text_bytes
        self._decoder = self._new()
        self._ended = False

    def _new(self) -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, self._limit)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        while not self._ended:
            text = b""
            if self._decoder.eof:
                text = self._next_stream(self._decoder.unused_data)
                if self._ended:
                    break
            elif self._decoder.needs_input:
                text = self._raw.read(io.DEFAULT_BUFFER_SIZE) or b""
                if not text:
                    raise EOFError("the file ends before the compressed data do")
            got = self._decoder.decompress(text, min(len(view), self._left + 1))
            if got:
                self._left -= len(got)
                if self._left < 0:
                    raise ValueError("there is more text than its index says")
                view[: len(got)] = got
                return len(got)
        return 0

    def _next_stream(self, text: bytes) -> bytes:
        """Return the first bytes of the stream after one that has ended; padding before it is zeros."""
        while not (text := text.lstrip(b"\0")):
            text = self._raw.read(io.DEFAULT_BUFFER_SIZE) or b""
            if not text:
                self._ended = True
                return b""
        self._decoder = self._new()
        return text
