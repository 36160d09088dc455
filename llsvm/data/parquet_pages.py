"""Pages of a Parquet column, by their headers: a page is unpacked whole, and one with a long text in it may be much
larger than others, so that memory must be reserved before. And lengths of texts that are stored without what they
share with the text before. pyarrow hands out what a file's footer says, but neither of these.

A header is a struct in Thrift's compact protocol (parquet.thrift, PageHeader; thrift-compact-protocol.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_HEADER_BYTES = (1 << 8, 1 << 13, 1 << 20)  # that are read for one; those with long statistics are longer
_KIND, _UNCOMPRESSED, _COMPRESSED = 1, 2, 3  # fields of a header
_FIRST_VERSION, _SECOND_VERSION = 0, 3  # kinds: pages of values
_OF_VALUES, _N_VALUES = (5, 8), 1  # the field that describes them, in either version, and a field of it
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _STRUCT = 0, 1, 2, 3, 7, 8, 12
_INTEGERS = (4, 5, 6)
_LISTS = (9, 10)
# Errors of headers that cannot be made sense of, among them a field of another type than it should have.
_DAMAGE = (IndexError, OSError, RecursionError, TypeError, ValueError)


class Page(NamedTuple):
    """Page of a column chunk. place: where its bytes begin in the file, behind the header. compressed_bytes,
    uncompressed_bytes: how many there are. values: fields of what describes its values."""

    kind: int
    place: int
    compressed_bytes: int
    uncompressed_bytes: int
    values: dict[int, Any]


def largest_page_bytes(
    file: Any, chunk: Any, known: int, max_pages: int, value_bytes: int = 0
) -> tuple[int, int]:
    """Return (uncompressed bytes of the largest page of a column chunk, or ``known`` if that is more; how many
    pages were looked at). What cannot be made sense of ends it: the reader will say what is wrong.

    file: to be read and sought in. chunk: its metadata. known: pages that are no larger are not looked for.
    value_bytes: of each value, decoded: a page of few bytes may have very many.
    """
    left, looked_at = chunk.total_uncompressed_size, 0
    with suppress(StopIteration, *_DAMAGE):
        pages = pages_of(file, chunk)
        while max(left, value_bytes * chunk.num_values) > known and looked_at < max_pages:
            page = next(pages)
            known = max(known, page.uncompressed_bytes, value_bytes * page.values.get(_N_VALUES, 0))
            left -= page.uncompressed_bytes
            looked_at += 1
    return known, looked_at


def dictionary_bytes(file: Any, chunk: Any) -> int:
    """Return the uncompressed bytes of the dictionary of a column chunk; 0 if there is none, or if it cannot be
    decoded."""
    if chunk.has_dictionary_page:
        with suppress(StopIteration, *_DAMAGE):
            return next(pages_of(file, chunk)).uncompressed_bytes
    return 0


def first_byte(chunk: Any) -> int:
    """Return the position in the file at which a column chunk begins. chunk: its metadata."""
    first = int(chunk.data_page_offset)
    return min(first, int(chunk.dictionary_page_offset)) if chunk.has_dictionary_page else first


def pages_of(file: Any, chunk: Any) -> Iterator[Page]:
    """Yield the pages of a column chunk, by their headers. Raises ValueError, OSError, RecursionError."""
    place = first_byte(chunk)
    end = place + chunk.total_compressed_size
    while place < end:
        header_bytes, header = _header(file, place)
        place += header_bytes
        structs = (header[field] for field in _OF_VALUES if isinstance(header.get(field), dict))
        values: dict[int, Any] = next(structs, {})
        sizes = header[_COMPRESSED], header[_UNCOMPRESSED]
        yield Page(header.get(_KIND, -1), place, *sizes, values)
        place += header[_COMPRESSED]


def _header(file: Any, place: int) -> tuple[int, dict[int, Any]]:
    """Return (bytes of the header there, its fields by number)."""
    for n_bytes in _HEADER_BYTES:
        file.seek(place)
        data = bytes(file.read(n_bytes))
        with suppress(IndexError):
            header, end = _value(data, 0, _STRUCT)
            if header.get(_COMPRESSED, -1) >= 0 and header.get(_UNCOMPRESSED, -1) >= 0:
                return end, header
            break
    raise ValueError("no header of a page")


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    """Return (a value of that kind, where it ends): a whole number, a bool, or the fields of a struct by their
    numbers; None for others, which are skipped. Raises IndexError where it goes on, ValueError."""
    if kind in _INTEGERS:
        return _signed_number(data, at)
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, at
    if kind == _BINARY:
        length, at = _number(data, at)
        return None, at + length
    if kind in (_BYTE, _DOUBLE):
        return None, at + (1 if kind == _BYTE else 8)
    if kind in _LISTS:
        n, of = data[at] >> 4, data[at] & 15
        n, at = _number(data, at + 1) if n == 15 else (n, at + 1)
        if n > len(data):
            raise ValueError(n)
        for _ in range(n):
            at = _value(data, at, _BYTE if of in (_TRUE, _FALSE) else of)[1]
        return None, at
    if kind != _STRUCT:
        raise ValueError(kind)
    fields: dict[int, Any] = {}
    number = 0
    while (head := data[at]) != _STOP:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _signed_number(data, at)
        fields[number], at = _value(data, at, head & 15)
    return fields, at + 1


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return (a number in groups of seven bits, the low ones first; where it ends)."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at
        if shift > 63:
            raise ValueError(value)


def _signed_number(data: bytes, at: int) -> tuple[int, int]:
    """Return (a number in zigzag encoding, with the sign in its lowest bit; where it ends); see ``_number``."""
    value, at = _number(data, at)
    return value >> 1 ^ -(value & 1), at


# Lengths of texts that Parquet stores without what they share with the text before (DELTA_BYTE_ARRAY): by the
# head of each page, for the size of a page says nothing of them. A page has the lengths of what is shared,
# those of what follows, and then that; both are packed as differences, see "Delta Encoding" and "Delta Strings"
# in parquet-format's Encodings.md.

_ENCODING = "DELTA_BYTE_ARRAY"
LENGTHS_BYTES = 8  # that are held of each text of a page for its two lengths
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd", "LZ4_RAW": "lz4_raw"}
_ENCODING_OF = {_FIRST_VERSION: 2, _SECOND_VERSION: 4}  # a field of what describes values
_PREFIXES = 7  # its number
_LEVELS, _IS_COMPRESSED = (5, 6), 7  # fields of the second version: bytes before the values, which are apart
_MAX_TOGETHER = 1 << 16  # differences that are packed alike; writers pack 32


def has_prefixes(chunk: Any) -> bool:
    """Return whether a column chunk has texts without the prefixes that they share. chunk: its metadata."""
    return _ENCODING in chunk.encodings


def longest_text(file: Any, chunk: Any, optional: bool) -> int:
    """Return the bytes of the longest text of such pages, or at most so many where they cannot be made sense of: a
    text is no longer than all that its page has. optional: values may be missing."""
    longest = 0
    try:
        for page in pages_of(file, chunk):
            if (
                page.compressed_bytes > chunk.total_compressed_size
                or page.uncompressed_bytes > chunk.total_uncompressed_size
            ):
                raise ValueError("a page larger than all of them")
            if page.values.get(_ENCODING_OF.get(page.kind, 0)) == _PREFIXES:
                longest = max(longest, _longest_of(file, page, chunk.compression, optional))
    except (*_DAMAGE, OverflowError, pa.ArrowException):
        return int(chunk.total_uncompressed_size)
    return longest


def _longest_of(file: Any, page: Page, compression: str, optional: bool) -> int:
    second = page.kind == _SECOND_VERSION
    levels = sum(page.values.get(field, 0) for field in _LEVELS) if second else 0
    if not 0 <= levels <= page.compressed_bytes:
        raise ValueError(levels)
    file.seek(page.place + levels)
    data = file.read(page.compressed_bytes - levels)
    if compression != "UNCOMPRESSED" and page.values.get(_IS_COMPRESSED, True):
        codec = _CODECS.get(compression, compression)
        data = pa.decompress(data, page.uncompressed_bytes - levels, codec, asbytes=True)
    at = 4 + int.from_bytes(data[:4], "little") if optional and not second else 0
    n_texts = page.values.get(_N_VALUES, 0)
    shared, at = _unpacked(data, at, n_texts)
    more, at = _unpacked(data, at, n_texts)
    if len(shared) != len(more) or min(shared.min(initial=0), more.min(initial=0)) < 0:
        raise ValueError("lengths")
    return int((shared + more).max(initial=0))


def _unpacked(data: bytes, at: int, max_numbers: int) -> tuple[NDArray[np.int32], int]:
    """Return (whole numbers packed as differences, at most so many; where they end)."""
    block_size, at = _number(data, at)
    parts, at = _number(data, at)
    n, at = _number(data, at)
    first, at = _signed_number(data, at)
    size = block_size // max(parts, 1)
    if not (0 < size <= _MAX_TOGETHER and size % 8 == 0 and n <= max_numbers):
        raise ValueError(size)
    differences = np.zeros(n, np.int32)
    differences[:1] = first
    done = 1
    while done < n:
        smallest, at = _signed_number(data, at)
        widths = data[at : at + parts]
        at += parts
        for width in widths:
            if done >= n:
                break
            if width > 32:
                raise ValueError(width)
            n_bytes = width * size // 8
            bits = np.unpackbits(np.frombuffer(data, np.uint8, n_bytes, at), bitorder="little")
            values = smallest + bits.reshape(size, width) @ (1 << np.arange(width, dtype=np.int64))
            differences[done : done + size] = values[: n - done]
            at += n_bytes
            done += size
    return np.cumsum(differences, dtype=np.int32), at
