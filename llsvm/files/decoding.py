"""Decoding of files: compressed ones, and text in other encodings than UTF-8.

Decompressors hold a window of the text behind them, as the compressed data declare it. Of xz files the indexes say
how much text there is, and the decoder here keeps to what they declared.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import stat
import sys
import zlib
from typing import Any

from llsvm.errors import DataError

MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "lz4"),
)
COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz", ".zst", ".zstd", ".lz4")
# fixed by the format: gzip's 32 kB; bzip2's blocks of 900 kB, sorted; lz4's blocks of 4 MB, in and out
_FIXED = {"gzip": 100_000, "bzip2": 4_000_000, "lz4": 8_500_000}
_XZ_HEADER_BYTES = 12  # of a stream; then come blocks, an index of their sizes, and a footer as long
_LZMA2 = 0x21
_ZSTD_MAGIC, _SKIPPABLE = 0xFD2FB528, 0x184D2A50
_ZSTD_HEADER_BYTES = 18  # of a frame, at most
_ZSTD_WORK_BYTES = 400_000  # blocks of 128 kB, in and out
WINDOW_HEAD_BYTES = 64  # enough for ``declared_window``
_MAX_INDEX_BYTES = 100_000  # of xz files with more blocks the index is not looked at
_MAX_STREAMS = 1000  # the same, with words of padding among them
_WORK_BYTES = 4 << 20  # of an xz decoder, beside its dictionary
UTF_8 = "utf-8"
_OF_BYTES = "latin-1"  # bytes do not tell it from cp1251 and others
_PIECE_BYTES = 1 << 16
DECODING_ERRORS = (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile)


def compression_of(head: bytes) -> str:
    """Return what a file of that beginning is compressed with, or ""."""
    return next((kind for magic, kind in MAGIC if head.startswith(magic)), "")


def declared_window(kind: str, head: bytes) -> int:
    """Return the bytes that a decompressor of ``kind`` holds for a file that begins so; of zstd see
    ``ZstdFrames``."""
    return _xz_dictionary(head) if kind == "xz" else _FIXED.get(kind, 0)


def _xz_dictionary(head: bytes) -> int:
    """Return the dictionary of the first block's LZMA2 filter. Files that are cut off here say 0."""
    at = _XZ_HEADER_BYTES + 2
    if len(head) < at:
        return 0
    flags = head[at - 1]
    for present in (flags & 0x40, flags & 0x80):  # sizes, packed and unpacked, in groups of seven bits
        while present and at < len(head):
            at += 1
            present = head[at - 1] & 0x80
    for _ in range((flags & 3) + 1):  # filters: id, size of properties, properties
        if at + 2 >= len(head):
            return 0
        if head[at] == _LZMA2:
            bits = head[at + 2] & 0x3F
            return (1 << 32) - 1 if bits >= 40 else (2 | bits & 1) << (bits // 2 + 11)
        at += 2 + head[at + 1]
    return 0


class ZstdFrames:
    """Frames of a zstd file, as its bytes go by. largest: bytes that their decoder holds, so far."""

    def __init__(self) -> None:
        self.largest = 0
        self._skip = 0  # bytes of content before the next header
        self._part = b""  # of a header that the bytes so far cut
        self._in_frame = False
        self._checksum_bytes = 0

    def feed(self, data: Any) -> None:
        """Take the next bytes of the file."""
        at, view = 0, memoryview(data)
        while True:
            step = min(self._skip, len(view) - at)
            at, self._skip = at + step, self._skip - step
            if at == len(view):
                return
            head = self._part + bytes(view[at : at + _ZSTD_HEADER_BYTES])
            used = self._block(head) if self._in_frame else self._frame(head)
            if used == 0:
                self._part = head
                return
            at, self._part = at + used - len(self._part), b""

    def _block(self, head: bytes) -> int:
        """Take in a block's header; returns its bytes, or 0 where there are too few."""
        if len(head) < 3:
            return 0
        value = int.from_bytes(head[:3], "little")
        last, kind, size = value & 1, value >> 1 & 3, value >> 3
        self._skip = 1 if kind == 1 else size
        if last:
            self._skip += self._checksum_bytes
            self._in_frame = False
        return 3

    def _frame(self, head: bytes) -> int:
        """Take in a frame's header; returns its bytes, or 0 where there are too few."""
        if len(head) < 5:
            return 0
        magic = int.from_bytes(head[:4], "little")
        if magic & 0xFFFFFFF0 == _SKIPPABLE:
            if len(head) < 8:
                return 0
            self._skip = int.from_bytes(head[4:8], "little")
            return 8
        if magic != _ZSTD_MAGIC:  # damaged, as the decoder will say
            self._skip = 1 << 62
            return 4
        flags = head[4]
        single, size_kind = flags >> 5 & 1, flags >> 6
        window_at, dictionary_bytes = 5, (0, 1, 2, 4)[flags & 3]
        size_at = window_at + (not single) + dictionary_bytes
        size_bytes = (single, 2, 4, 8)[size_kind]
        if len(head) < size_at + size_bytes:
            return 0
        content = int.from_bytes(head[size_at : size_at + size_bytes], "little") + 256 * (size_kind == 1)
        window = content
        if not single:
            base = 1 << (10 + (head[window_at] >> 3))
            window = base + base // 8 * (head[window_at] & 7)
            window = min(window, content) if size_bytes else window
        self.largest = max(self.largest, window + _ZSTD_WORK_BYTES)
        self._in_frame, self._checksum_bytes = True, 4 * (flags >> 2 & 1)
        return size_at + size_bytes


def xz_text_bytes(file: int) -> int | None:
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
        footer = os.pread(file, _XZ_HEADER_BYTES, max(end - _XZ_HEADER_BYTES, 0))
        if footer.endswith(b"\0\0\0\0"):  # padding after a stream
            end -= 4
            continue
        index_bytes = 4 * (int.from_bytes(footer[4:8], "little") + 1)
        begin = end - _XZ_HEADER_BYTES - index_bytes
        if not footer.endswith(b"YZ") or index_bytes > _MAX_INDEX_BYTES or begin < 0:
            return None
        sizes = _sizes(os.pread(file, index_bytes, begin))
        if sizes is None:
            return None
        text_bytes += sizes[1]
        end = begin - sizes[0] - _XZ_HEADER_BYTES
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
    """Text of the xz file ``raw``, as ``lzma.LZMAFile`` gives it.

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


def is_utf8(encoding: str) -> bool:
    """Return whether an encoding is that of UTF-8, by whatever name."""
    return codecs.lookup(encoding).name == UTF_8


def as_utf8(text: bytes = b"", predicting: bool = False) -> str:
    """Return the remedy for text that is not UTF-8. text: some of it, the first bytes at best. predicting: it is
    read for a model that was trained on UTF-8, not to train on it."""
    if predicting:
        return as_trained(UTF_8)
    likely = _likely_encoding(text)
    others = ", or cp1251, shift_jis or what else it is" if likely == _OF_BYTES else ""
    return f"write it as UTF-8, or, to train on it, name its encoding (--encoding {likely}){others}"


def as_trained(encoding: str) -> str:
    """Return the remedy for text that is not in the encoding of a model's training data."""
    name = "UTF-8" if is_utf8(encoding) else encoding
    return f"write it as {name}, as the training data were (iconv converts text)"


def _likely_encoding(text: bytes) -> str:
    """Return the encoding that zero bytes of letters, or the mark that text may begin with, speak for."""
    marked = text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE))
    if b"\0" not in text and not marked:
        return _OF_BYTES
    wide = "utf-32" if b"\0\0\0" in text else "utf-16"
    return wide if marked else f"{wide}-be" if text.startswith(b"\0") else f"{wide}-le"


class Recoded(io.RawIOBase):
    """Text of a stream of bytes, in UTF-8. Raises DataError for bytes that the encoding does not have."""

    def __init__(self, stream: Any, path: str, encoding: str, predicting: bool) -> None:
        """stream: has ``read``. path: for messages. encoding: of the stream. predicting: see ``as_utf8``."""
        self._predicting = predicting
        self._stream, self._path, self._encoding = stream, path, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._marked = codecs.lookup(encoding).name == "utf-8-sig"  # has such a mark
        self._pending = b""
        self._taken = 0  # bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        while not self._pending:
            part = bytes(self._stream.read(_PIECE_BYTES) or b"")
            if self._taken == 0 and part.startswith(codecs.BOM_UTF8) and not self._marked:
                raise DataError(
                    f"{self._path}: the file begins with the byte order mark of UTF-8: it is no {self._encoding} "
                    f"text; {as_trained(self._encoding) if self._predicting else 'leave --encoding out'}"
                )
            try:
                self._pending = self._decoder.decode(part, final=not part).encode()
            except UnicodeError as error:
                place = error.start if isinstance(error, UnicodeDecodeError) else 0
                raise DataError(
                    f"{self._path}: byte {self._taken + place + 1:,} or near it is no {self._encoding} text; "
                    f"{as_trained(self._encoding) if self._predicting else 'name its encoding with --encoding'}"
                ) from error
            self._taken += len(part)
            if not part:
                break
        n = min(len(view), len(self._pending))
        view[:n] = self._pending[:n]
        self._pending = self._pending[n:]
        return n


def decompressed(raw: io.RawIOBase, kind: str) -> Any:
    """Return the stream of text in a file of that compression, but for xz, see ``Xz``."""
    if kind == "gzip":
        return gzip.GzipFile(fileobj=raw, mode="rb")
    if kind == "bzip2":
        return bz2.BZ2File(raw)
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(raw, "r"), kind)
