"""The spill in Arrow IPC, the default: a page is a record batch, its arrays are views of the bytes as read.

The file is an Arrow stream that any Arrow reader opens (``pyarrow.ipc.open_stream``). A page is a batch of one
row: each of its arrays (see ``packing``) is the one list in a column of its name.

When a page's columns differ from the page's before, the stream ends and another one with its own schema
follows; ``open_stream`` on the same open file, called again, reads on there.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from llsvm.spill.packing import PageChecksum
from llsvm.spill.store import Arrays, Layout, PageInfo, PageStore, Segment
from llsvm.spill.workspace import Workspace, write_pieces_at

_SMALL_BYTES = 2048  # of a piece that is copied, to be written with what comes before and after it


class ArrowStore(PageStore):
    """A PageStore in Arrow's streaming format."""

    OVERWRITES = True

    def __init__(self, workspace: Workspace, name: str) -> None:
        super().__init__(workspace, name)
        self._layout: Layout | None = None  # of the stream that is being written
        self._sink = _Sink()
        # where a page's arrays begin among its bytes, once Arrow has been asked, which takes as long as a tenth of
        # all the work on a page
        self._places: dict[int, NDArray[np.int64]] = {}
        self._writer: Any = None  # pyarrow's, of that stream

    def _write(self, layout: Layout, arrays: Arrays) -> tuple[tuple[Segment, ...], int]:
        if layout != self._layout:
            self._end_stream()
            self._writer = pa.ipc.new_stream(pa.PythonFile(self._sink, "w"), _schema(layout))
            self._layout = layout
        batch = _record_batch(layout, arrays)
        self._writer.write_batch(batch)
        nbytes = pa.ipc.get_record_batch_size(batch)
        pieces = self._put()
        offset = self.nbytes - nbytes  # before it lies the schema, if the stream begins here
        checksum = PageChecksum()
        for piece in _last(pieces, nbytes):
            checksum.add(piece)
        return (Segment(offset, nbytes, 0),), checksum.value

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
        write_pieces_at(self._file, pieces, offset)
        return pieces

    def _arrays(self, page: PageInfo, buffer: NDArray[np.uint8]) -> Arrays:
        offset = page.segments[0].offset
        places = self._places.get(offset)
        if places is None:
            places = self._places[offset] = _places(page, buffer)
        # Views of our buffer, not of Arrow's read-only one: kernels are compiled for writable arrays.
        return {
            name: np.frombuffer(buffer, dtype, n, place) if n else np.zeros(0, dtype)
            for (name, dtype), n, place in zip(page.layout, page.lengths, places.tolist(), strict=True)
        }


def _places(page: PageInfo, buffer: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the place of each array of the page, 0 for empty ones."""
    message = pa.py_buffer(buffer[: page.nbytes])
    batch = pa.ipc.read_record_batch(message, _schema(page.layout))
    # A list's buffers: its validity, its offsets, its values' validity, its values.
    values = [column.buffers()[3] for column in batch.columns]
    return np.array([0 if array is None else array.address - message.address for array in values])


@lru_cache
def _schema(layout: Layout) -> pa.Schema:
    kinds = [(name, pa.from_numpy_dtype(np.dtype(dtype))) for name, dtype in layout]
    return pa.schema([_required(name, pa.large_list(_required("item", kind))) for name, kind in kinds])


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def _record_batch(layout: Layout, arrays: Arrays) -> pa.RecordBatch:
    """Return the page around the arrays' own memory: nothing is copied."""
    schema = _schema(layout)
    columns = [
        pa.Array.from_buffers(
            field.type,
            1,
            [None, pa.py_buffer(np.array([0, array.size], np.int64))],
            children=[pa.Array.from_buffers(field.type.value_type, array.size, [None, pa.py_buffer(array)])],
        )
        for field, array in zip(schema, arrays.values(), strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class _Sink:
    """File that Arrow writes to: it keeps what it is given, arrays as they are, until the store takes it.

    So no copy of a page is ever made, and errors of the disk do not pass through Arrow. What lies between two
    arrays comes in many pieces of some bytes, which become one.
    """

    closed = False

    def __init__(self) -> None:
        self._pieces: list[NDArray[np.uint8]] = []
        self._small: list[bytes] = []  # since the last of them

    def write(self, data: bytes | pa.Buffer) -> int:
        n = len(data)
        if n < _SMALL_BYTES:
            self._small.append(bytes(data))
        else:
            self._join()
            self._pieces.append(np.frombuffer(data, np.uint8))
        return n

    def _join(self) -> None:
        if self._small:
            self._pieces.append(np.frombuffer(b"".join(self._small), np.uint8))
            self._small = []

    def flush(self) -> None:
        """Ignore the call of Arrow: the store decides when to write."""

    def close(self) -> None:
        """Ignore the call of Arrow: the file stays open for the next stream."""

    def take(self) -> list[NDArray[np.uint8]]:
        self._join()
        pieces, self._pieces = self._pieces, []
        return pieces


def _last(pieces: list[NDArray[np.uint8]], nbytes: int) -> list[NDArray[np.uint8]]:
    """Return the last ``nbytes`` of the pieces."""
    skip = sum(map(len, pieces)) - nbytes
    while skip > 0:
        first = pieces[0][skip:]
        skip -= len(pieces[0])
        pieces = [first, *pieces[1:]] if len(first) else pieces[1:]
    return pieces
