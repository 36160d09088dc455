"""Lengths of texts that Parquet stores without what they share with the text before (DELTA_BYTE_ARRAY): by the head
of each page, for the size of a page says nothing of them.

A page has the lengths of what is shared, those of what follows, and then that; both are packed as differences, see
"Delta Encoding" and "Delta Strings" in parquet-format's Encodings.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from llsvm.data.parquet_pages import (
    FIRST_VERSION,
    SECOND_VERSION,
    Page,
    number_at,
    pages_of,
    signed_number_at,
)

ENCODING = "DELTA_BYTE_ARRAY"
LENGTHS_BYTES = 8  # that are held of each text of a page for its two lengths
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd", "LZ4_RAW": "lz4_raw"}
_ENCODING_OF = {FIRST_VERSION: 2, SECOND_VERSION: 4}  # a field of what describes values
_PREFIXES = 7  # its number
_MAX_TOGETHER = 1 << 16  # differences that are packed alike; writers pack 32


def has_prefixes(column: Any) -> bool:
    """Are there such texts in a column of a row group? column: its metadata."""
    return ENCODING in column.encodings


def longest_text(file: Any, column: Any, optional: bool) -> int:
    """Bytes of the longest text of such pages, or at most so many where they cannot be made sense of: a text is no
    longer than all that its page has. optional: values may be missing."""
    found = 0
    try:
        for page in pages_of(file, column):
            if page.packed > column.total_compressed_size or page.unpacked > column.total_uncompressed_size:
                raise ValueError("a page larger than all of them")
            found = max(found, _longest_of(file, page, column.compression, optional))
    except (IndexError, ValueError, RecursionError, OSError, OverflowError, pa.ArrowException):
        return int(column.total_uncompressed_size)
    return found


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
    most = fields.get(1, 0)
    shared, at = _unpacked(data, at, most)
    more, at = _unpacked(data, at, most)
    if len(shared) != len(more) or min(shared.min(initial=0), more.min(initial=0)) < 0:
        raise ValueError("lengths")
    return int((shared + more).max(initial=0))


def _unpacked(data: bytes, at: int, most: int) -> tuple[NDArray[np.int32], int]:
    """(whole numbers packed as differences, at most so many; where they end)."""
    together, at = number_at(data, at)
    parts, at = number_at(data, at)
    n, at = number_at(data, at)
    first, at = signed_number_at(data, at)
    size = together // max(parts, 1)
    if not (0 < size <= _MAX_TOGETHER and size % 8 == 0 and n <= most):
        raise ValueError(size)
    found = np.zeros(n, np.int32)
    found[:1] = first
    done = 1
    while done < n:
        least, at = signed_number_at(data, at)
        widths = data[at : at + parts]
        at += parts
        for width in widths:
            if done >= n:
                break
            n_bytes = width * size // 8
            if width > 32 or at + n_bytes > len(data):
                raise IndexError(width)
            part = found[done : done + size]
            part[:] = least
            if width:
                bits = np.unpackbits(np.frombuffer(data[at : at + n_bytes], np.uint8), bitorder="little")
                values = bits.reshape(size, width) @ (1 << np.arange(width, dtype=np.int64))
                part += values[: len(part)].astype(np.int32)
            at += n_bytes
            done += len(part)
    return np.cumsum(found, dtype=np.int32), at
