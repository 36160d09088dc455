"""Sizes of a Parquet column's pages, by their headers: a page is unpacked whole, and one with a long text in it may
be much larger than others, so that memory must be reserved before. And lengths of texts that are stored without
what they share with the text before.

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
_UNPACKED, _PACKED = 2, 3  # fields: bytes of a page
_KIND = 1  # a field: of a page
FIRST_VERSION, SECOND_VERSION = 0, 3  # kinds: pages of values
_VALUES = 1  # a field of what describes a page of values, or its second version
_OF_VALUES = (5, 8)
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _STRUCT = 0, 1, 2, 3, 7, 8, 12
_INTEGERS = (4, 5, 6)
_LISTS = (9, 10)


class Page(NamedTuple):
    """A page in a file. place: where its bytes begin, behind the header. packed, unpacked: how many there are.
    fields: whole numbers of what describes its values."""

    kind: int
    place: int
    packed: int
    unpacked: int
    fields: dict[int, int]


def largest_page_bytes(
    file: Any, column: Any, known: int, most: int, value_bytes: int = 0
) -> tuple[int, int]:
    """Return (bytes of the largest page of a column of a row group, unpacked, or ``known`` if that is more; how
    many pages were looked at). What cannot be made sense of ends it: the reader will say what is wrong.

    file: to be read and sought in. column: its metadata. known: pages that are no larger are not looked for.
    most: pages that are looked at. value_bytes: of each value, decoded: a page of few bytes may have very many.
    """
    at = first_byte(column)
    end, left, looked_at = at + column.total_compressed_size, column.total_uncompressed_size, 0
    with suppress(IndexError, ValueError, RecursionError, OSError):
        while at < end and max(left, value_bytes * column.num_values) > known and looked_at < most:
            header_bytes, sizes = _header(file, at)
            known = max(known, sizes[_UNPACKED], value_bytes * sizes.get(-_VALUES, 0))
            at += header_bytes + sizes[_PACKED]
            left -= header_bytes + sizes[_UNPACKED]
            looked_at += 1
    return known, looked_at


def pages_of(file: Any, column: Any) -> Iterator[Page]:
    """Yield the pages of a column of a row group, by their headers. Raises ValueError, OSError, RecursionError."""
    at = first_byte(column)
    end = at + column.total_compressed_size
    while at < end:
        header_bytes, sizes = _header(file, at)
        of_values = {-number: value for number, value in sizes.items() if number < 0}
        at += header_bytes
        yield Page(sizes.get(_KIND, -1), at, sizes[_PACKED], sizes[_UNPACKED], of_values)
        at += sizes[_PACKED]


def first_byte(column: Any) -> int:
    """Return the position in the file at which a column of a row group begins. column: its metadata."""
    first = int(column.data_page_offset)
    return min(first, int(column.dictionary_page_offset)) if column.has_dictionary_page else first


def dictionary_bytes(file: Any, column: Any) -> int:
    """Return the bytes of the dictionary of a column of a row group, unpacked; 0 if there is none, or if it cannot
    be decoded."""
    if column.has_dictionary_page:
        with suppress(IndexError, ValueError, RecursionError, OSError):
            return _header(file, column.dictionary_page_offset)[1][_UNPACKED]
    return 0


def _header(file: Any, at: int) -> tuple[int, dict[int, int]]:
    """Return (bytes of the header there, its fields that are whole numbers; those of what describes values below
    0)."""
    for n_bytes in _HEADER_BYTES:
        file.seek(at)
        data = bytes(file.read(n_bytes))
        with suppress(IndexError):
            stop, fields = _struct(data, 0)
            if fields.get(_PACKED, -1) >= 0 and fields.get(_UNPACKED, -1) >= 0:
                return stop, fields
            break
    raise ValueError("no header of a page")


def _struct(data: bytes, at: int) -> tuple[int, dict[int, int]]:
    """Return (the position after a struct, its fields that are whole numbers, true (1) or false (0); those of what
    describes values below 0). Raises IndexError where it goes on, ValueError."""
    fields: dict[int, int] = {}
    number = 0
    while (head := data[at]) != _STOP:
        at, kind = at + 1, head & 15
        if head >> 4:
            number += head >> 4
        else:
            number, at = signed_number_at(data, at)
        if kind in _INTEGERS:
            fields[number], at = signed_number_at(data, at)
        elif kind == _STRUCT:
            at, inner = _struct(data, at)
            if number in _OF_VALUES:
                fields |= {-each: value for each, value in inner.items() if each > 0}
        elif kind in (_TRUE, _FALSE):  # the kind is the value
            fields[number] = int(kind == _TRUE)
        else:
            at = _behind(data, at, kind)
    return at + 1, fields


def _behind(data: bytes, at: int, kind: int) -> int:
    """Return the position after a value, which is skipped."""
    if kind in (_BYTE, _DOUBLE):
        return at + (1 if kind == _BYTE else 8)
    if kind == _BINARY:
        length, at = number_at(data, at)
        return at + length
    if kind in _LISTS:
        n, of = data[at] >> 4, data[at] & 15
        at += 1
        if n == 15:
            n, at = number_at(data, at)
        if n > len(data):
            raise ValueError(n)
        for _ in range(n):
            at = at + 1 if of in (_TRUE, _FALSE) else _behind(data, at, of)
        return at
    if kind in _INTEGERS:
        return number_at(data, at)[1]
    if kind == _STRUCT:
        return _struct(data, at)[0]
    raise ValueError(kind)


def number_at(data: bytes, at: int) -> tuple[int, int]:
    """Return (a number in groups of seven bits, the low ones first; where it ends)."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at
        if shift > 63:
            raise ValueError(value)


def signed_number_at(data: bytes, at: int) -> tuple[int, int]:
    """Return (a number in zigzag encoding, with the sign in its lowest bit; where it ends); see ``number_at``."""
    value, at = number_at(data, at)
    return value >> 1 ^ -(value & 1), at


# Lengths of texts that Parquet stores without what they share with the text before (DELTA_BYTE_ARRAY): by the
# head of each page, for the size of a page says nothing of them. A page has the lengths of what is shared,
# those of what follows, and then that; both are packed as differences, see "Delta Encoding" and "Delta Strings"
# in parquet-format's Encodings.md.

ENCODING = "DELTA_BYTE_ARRAY"
LENGTHS_BYTES = 8  # that are held of each text of a page for its two lengths
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd", "LZ4_RAW": "lz4_raw"}
_ENCODING_OF = {FIRST_VERSION: 2, SECOND_VERSION: 4}  # a field of what describes values
_PREFIXES = 7  # its number
_MAX_TOGETHER = 1 << 16  # differences that are packed alike; writers pack 32


def has_prefixes(column: Any) -> bool:
    """Return whether a column of a row group has texts without the prefixes that they share. column: its
    metadata."""
    return ENCODING in column.encodings


def longest_text(file: Any, column: Any, optional: bool) -> int:
    """Return the bytes of the longest text of such pages, or at most so many where they cannot be made sense of: a
    text is no longer than all that its page has. optional: values may be missing."""
    longest = 0
    try:
        for page in pages_of(file, column):
            if page.packed > column.total_compressed_size or page.unpacked > column.total_uncompressed_size:
                raise ValueError("a page larger than all of them")
            longest = max(longest, _longest_of(file, page, column.compression, optional))
    except (IndexError, ValueError, RecursionError, OSError, OverflowError, pa.ArrowException):
        return int(column.total_uncompressed_size)
    return longest


def _longest_of(file: Any, page: Page, compression: str, optional: bool) -> int:
    fields = page.fields
    if fields.get(_ENCODING_OF.get(page.kind, 0)) != _PREFIXES:
        return 0
    file.seek(page.place)
    second = page.kind == SECOND_VERSION
    levels = fields.get(5, 0) + fields.get(6, 0) if second else 0
    file.read(levels)
    data = file.read(page.packed - levels)
    if compression != "UNCOMPRESSED" and fields.get(7, 1):
        data = pa.decompress(
            data, page.unpacked - levels, _CODECS.get(compression, compression), asbytes=True
        )
    at = 4 + int.from_bytes(data[:4], "little") if optional and not second else 0
    n_texts = fields.get(1, 0)
    shared, at = _unpacked(data, at, n_texts)
    more, at = _unpacked(data, at, n_texts)
    if len(shared) != len(more) or min(shared.min(initial=0), more.min(initial=0)) < 0:
        raise ValueError("lengths")
    return int((shared + more).max(initial=0))


def _unpacked(data: bytes, at: int, max_numbers: int) -> tuple[NDArray[np.int32], int]:
    """Return (whole numbers packed as differences, at most so many; where they end)."""
    block_size, at = number_at(data, at)
    parts, at = number_at(data, at)
    n, at = number_at(data, at)
    first, at = signed_number_at(data, at)
    size = block_size // max(parts, 1)
    if not (0 < size <= _MAX_TOGETHER and size % 8 == 0 and n <= max_numbers):
        raise ValueError(size)
    differences = np.zeros(n, np.int32)
    differences[:1] = first
    done = 1
    while done < n:
        smallest, at = signed_number_at(data, at)
        widths = data[at : at + parts]
        at += parts
        for width in widths:
            if done >= n:
                break
            n_bytes = width * size // 8
            if width > 32 or at + n_bytes > len(data):
                raise IndexError(width)
            part = differences[done : done + size]
            part[:] = smallest
            if width:
                bits = np.unpackbits(np.frombuffer(data[at : at + n_bytes], np.uint8), bitorder="little")
                values = bits.reshape(size, width) @ (1 << np.arange(width, dtype=np.int64))
                part += values[: len(part)].astype(np.int32)
            at += n_bytes
            done += len(part)
    return np.cumsum(differences, dtype=np.int32), at
