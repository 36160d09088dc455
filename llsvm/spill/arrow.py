"""The spill in Arrow IPC, the default: a page is a record batch, its arrays are views of the bytes as read.

The file is an Arrow stream that any Arrow reader opens (``pyarrow.ipc.open_stream``), with the columns

    X       sparse: large_list<struct<index: int32, value: float32 | float64>>
            dense: fixed_size_list<float32 | float64>[width]
    y       int32 | float64
    row     int64; only for pages whose row numbers are not consecutive
    weight  float32; only for pages with weights

When a page's columns differ from the page's before, the stream ends and another one with its own schema
follows; ``open_stream`` on the same open file, called again, reads on there.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from llsvm.spill.rawfile import write_at
from llsvm.spill.store import Arrays, Layout, PageInfo, PageStore, Segment
from llsvm.spill.workspace import Workspace


class ArrowStore(PageStore):
    """A PageStore in Arrow's streaming format."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        super().__init__(workspace, name)
        self._layout: Layout | None = None  # of the stream that is being written
        self._sink = _Sink()
        self._writer: Any = None  # pyarrow's, of that stream

    def _write(
        self, layout: Layout, arrays: Arrays, first_row: int | None
    ) -> tuple[tuple[Segment, ...], int]:
        if layout != self._layout:
            self._end_stream()
            self._writer = pa.ipc.new_stream(pa.PythonFile(self._sink, "w"), _schema(layout))
            self._layout = layout
        batch = _record_batch(layout, arrays)
        self._writer.write_batch(batch)
        nbytes = pa.ipc.get_record_batch_size(batch)
        pieces = self._put()
        offset = self.nbytes - nbytes  # before it lies the schema, if the stream begins here
        checksum = 0
        for piece in _last(pieces, nbytes):
            checksum = zlib.crc32(piece.data, checksum)
        return (Segment(offset, nbytes, 0),), checksum

    def _complete(self) -> None:
        self._end_stream()

    def _end_stream(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._put()

    def _put(self) -> list[NDArray[np.uint8]]:
        """Write what Arrow gave to the sink at the file's end, and return it."""
        pieces = self._sink.take()
        offset = self.nbytes
        self._claim(sum(map(len, pieces)))
        for piece in pieces:
            write_at(self._file, piece, offset)
            offset += len(piece)
        return pieces

    def _arrays(self, page: PageInfo, buffer: NDArray[np.uint8]) -> Arrays:
        n, layout = page.n_rows, page.layout
        message = pa.py_buffer(buffer[: page.nbytes])
        columns = iter(pa.ipc.read_record_batch(message, _schema(layout)).columns)

        def view(part: pa.Buffer | None, dtype: str, count: int) -> NDArray[Any]:
            if part is None or count == 0:
                return np.zeros(count, dtype)  # Arrow leaves out the offsets of a list without rows
            # A view of our buffer, not of Arrow's read-only one: kernels are compiled for writable arrays.
            return np.frombuffer(buffer, dtype, count, part.address - message.address)

        # A list's buffers come with its children's: each has its validity (None, all are valid), then values.
        X = next(columns).buffers()
        if layout.width is None:
            arrays = {
                "indptr": view(X[1] if n else None, "int64", n + 1),
                "index": view(X[4], "int32", page.nnz),
                "value": view(X[6], layout.value, page.nnz),
            }
        else:
            arrays = {"X": view(X[-1], layout.value, page.nnz).reshape(n, layout.width)}
        arrays["y"] = view(next(columns).buffers()[1], layout.y, n)
        if layout.has_rows:
            arrays["rows"] = view(next(columns).buffers()[1], "int64", n)
        if layout.has_weight:
            arrays["weight"] = view(next(columns).buffers()[1], "float32", n)
        return arrays


@lru_cache
def _schema(layout: Layout) -> pa.Schema:
    value = pa.from_numpy_dtype(np.dtype(layout.value))
    if layout.width is None:
        entry = pa.struct([_required("index", pa.int32()), _required("value", value)])
        X = pa.large_list(_required("entry", entry))
    else:
        X = pa.list_(_required("value", value), layout.width)
    fields = [_required("X", X), _required("y", pa.from_numpy_dtype(np.dtype(layout.y)))]
    if layout.has_rows:
        fields.append(_required("row", pa.int64()))
    if layout.has_weight:
        fields.append(_required("weight", pa.float32()))
    return pa.schema(fields)


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def _record_batch(layout: Layout, arrays: Arrays) -> pa.RecordBatch:
    """The page around the arrays' own memory: nothing is copied."""
    schema = _schema(layout)
    X_type = schema.field("X").type
    n = len(arrays["y"])
    if layout.width is None:
        columns = [_wrap(arrays["index"]), _wrap(arrays["value"])]
        entries = pa.Array.from_buffers(X_type.value_type, len(arrays["index"]), [None], children=columns)
        X = pa.Array.from_buffers(X_type, n, [None, pa.py_buffer(arrays["indptr"])], children=[entries])
    else:
        X = pa.Array.from_buffers(X_type, n, [None], children=[_wrap(arrays["X"].reshape(-1))])
    rest = [_wrap(arrays[name]) for name in ("y", "rows", "weight") if name in arrays]
    return pa.RecordBatch.from_arrays([X, *rest], schema=schema)


def _wrap(array: NDArray) -> pa.Array:
    return pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), len(array), [None, pa.py_buffer(array)])


class _Sink:
    """The file that Arrow writes to: it keeps what it is given, arrays as they are, until the store takes it.

    So no copy of a page is ever made, and errors of the disk do not pass through Arrow.
    """

    closed = False

    def __init__(self) -> None:
        self._pieces: list[NDArray[np.uint8]] = []

    def write(self, data: bytes | pa.Buffer) -> int:
        self._pieces.append(np.frombuffer(data, np.uint8))
        return len(data)

    def flush(self) -> None:
        """Arrow calls it; the store decides when to write."""

    def close(self) -> None:
        """Arrow calls it; the file stays open for the next stream."""

    def take(self) -> list[NDArray[np.uint8]]:
        pieces, self._pieces = self._pieces, []
        return pieces


def _last(pieces: list[NDArray[np.uint8]], nbytes: int) -> list[NDArray[np.uint8]]:
    """The pieces that make up the last ``nbytes``; a message begins with a piece of its own."""
    skip = sum(map(len, pieces)) - nbytes
    while skip > 0:
        skip -= len(pieces[0])
        pieces = pieces[1:]
    return pieces
