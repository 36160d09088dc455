"""Packing: the arrays that a page is stored as, smaller than in memory where that loses nothing, and checksums.

Column numbers become 16-bit differences, and values become codes of 8 or 16 bits into a table, where the page has
few different ones (counts, indicators, decimals of few digits); where most values of a row are the same
(those of text), one code for the row, and places and codes of the others. Row offsets are stored as lengths.
Reading less is faster than reading more, even from memory: see ``python -m tools.bench read``.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block, Matrix

Arrays = dict[str, NDArray[Any]]
Layout = tuple[tuple[str, str], ...]  # the names of a page's arrays, and their dtypes' names

MAX_CODES = 1 << 16
_VALUES_PER_CODE = 8  # a table pays where each value comes about so often

_WORD = 1 << 64
_BITS: dict[int, type[np.integer[Any]]] = {4: np.uint32, 8: np.uint64}  # of values of so many bytes
_DTYPES = {
    "index": ("int32",),
    "value": ("float32", "float64"),
    "X": ("float32", "float64"),
    "y": ("int32", "float64"),
    "rows": ("int64",),
    "weight": ("float64",),
}


class Shape(NamedTuple):
    """Facts of a block that its packed arrays do not hold. width: of dense rows, None for sparse ones.
    first_row: the first row's number if rows are consecutive, so that they are not stored, else None."""

    n_rows: int
    nnz: int
    width: int | None
    first_row: int | None


class Packer:
    """Packer of blocks; what does not pay for one is not tried for others that are no larger.

    It packs into arrays that are used again for the next block: the system would take new ones back, and give them
    again, page by page."""

    def __init__(self) -> None:
        self._no_codes = self._no_row_codes = 0  # values of the largest block for which these did not pay
        self._scratch: Arrays = {}

    def pack(self, block: Block) -> tuple[Shape, Arrays]:
        """Return the block's arrays as they are stored, contiguous, valid until the next is packed. Raises
        TypeError for other dtypes."""
        first_row = _first_row(block.rows)
        X = block.X
        arrays: Arrays
        if isinstance(X, CSR):
            start, stop = int(X.indptr[0]), int(X.indptr[-1])
            arrays = {"index": X.indices[start:stop], "value": X.data[start:stop]}
            width = None
        else:
            arrays, width = {"X": X}, X.shape[1]
        arrays |= {"y": block.y, "rows": block.rows}
        if block.weight is not None:
            arrays["weight"] = block.weight
        for name, array in arrays.items():
            if _name(array.dtype) not in _DTYPES[name]:
                known = " or ".join(_DTYPES[name])
                raise TypeError(f"cannot spill {name} of type {array.dtype}: must be {known}")
        shape = Shape(block.n_rows, block.nnz, width, first_row)
        if first_row is not None:
            del arrays["rows"]
        if isinstance(X, CSR):
            indptr = X.indptr if start == 0 else X.indptr - start
            arrays = {"lengths": _small(np.diff(indptr))} | arrays
            arrays["index"] = self._packed_indices(indptr, arrays["index"])
            packed = self._pack_rows(indptr, arrays)
        else:
            packed = False
        if not packed:
            self._pack_values("value" if isinstance(X, CSR) else "X", arrays)
        return shape, {name: np.ascontiguousarray(array) for name, array in arrays.items()}

    def _pack_rows(self, indptr: NDArray[np.int64], arrays: Arrays) -> bool:
        """Replace the values of sparse rows by a code for each row, the codes of others, and a table, where that is
        no larger than a code of 8 bits for each value."""
        values, n_rows = arrays["value"], len(indptr) - 1
        max_codes = min(MAX_CODES, len(values) // _VALUES_PER_CODE)
        if len(values) <= self._no_row_codes or not max_codes:
            return False
        from llsvm.kernels.pages import pack_rows

        usual, n_odd = self._room("usual", n_rows, np.uint16), self._room("n_odd", n_rows, np.uint16)
        odd = self._room(
            "odd", max(0, len(values) - 4 * n_rows) // 2, np.uint16
        )  # a byte for each value, at most
        bits = values.view(_BITS[values.itemsize])
        table, slots = self._table(max_codes, bits.dtype)
        n, n_codes = pack_rows(indptr, bits, usual, n_odd, odd, table, slots)
        if n < 0:
            self._no_row_codes = len(values)
            return False
        del arrays["value"]
        arrays |= {"usual": usual, "n_odd": n_odd, "odd": odd[:n]}
        arrays["table"] = table[:n_codes].view(values.dtype)
        return True

    def _table(self, max_codes: int, dtype: np.dtype) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Return a table for the bits of so many values, and empty slots to find them by."""
        slots = self._room("slots", 1 << (2 * max_codes).bit_length(), np.int32)
        slots[:] = 0
        return self._room(f"table of {dtype}", max_codes, dtype.type), slots

    def _pack_values(self, name: str, arrays: Arrays) -> None:
        """Replace the array ``name`` by codes and a table, where that is smaller."""
        values = np.ascontiguousarray(arrays[name]).reshape(-1)
        max_codes = min(MAX_CODES, len(values) // _VALUES_PER_CODE)
        if len(values) <= self._no_codes or not max_codes:
            return
        from llsvm.kernels.pages import pack_values

        codes = self._room("codes", len(values), np.uint16)
        bits = values.view(_BITS[values.itemsize])
        table, slots = self._table(max_codes, bits.dtype)
        n = pack_values(bits, codes, table, slots)
        if n < 0:
            self._no_codes = len(values)
        else:
            arrays[name] = codes.astype(np.uint8) if n <= 256 else codes
            arrays["table"] = table[:n].view(values.dtype)

    def _packed_indices(self, indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> NDArray[Any]:
        from llsvm.kernels.pages import pack_indices

        packed = self._room("index", 2 * len(indices), np.uint16)  # more would not be smaller
        n = pack_indices(indptr, indices, packed)
        return indices if n < 0 else packed[:n]

    def _room(self, name: str, n: int, dtype: type[np.integer[Any]]) -> NDArray[Any]:
        """Return an array (n,) to be filled."""
        room = self._scratch.get(name)
        if room is None or len(room) < n:
            room = self._scratch[name] = np.empty(n, dtype)
        return room[:n]


def layout_of(arrays: Arrays) -> Layout:
    """Return the names of a page's arrays and of their dtypes."""
    return tuple((name, _name(array.dtype)) for name, array in arrays.items())


@cache
def _name(dtype: np.dtype) -> str:
    return dtype.name  # numpy works it out anew each time


def unpack(shape: Shape, arrays: Arrays, room: NDArray[np.uint8]) -> Block:
    """Return the block. What was packed is written into ``room``, see ``room_bytes``; the rest are views of
    arrays."""
    n, nnz = shape.n_rows, shape.nnz
    cuts = iter(np.split(room, np.cumsum(_rooms(shape, arrays))))
    rows = _rows(shape, arrays, next(cuts).view(np.int64)) if shape.first_row is not None else arrays["rows"]
    value: NDArray[Any] | None = arrays.get("value", arrays.get("X"))
    if "table" in arrays:
        value = next(cuts).view(arrays["table"].dtype)[:nnz]
    assert value is not None
    X: Matrix
    if shape.width is not None:
        if "table" in arrays:
            _values(arrays, None, value)
        X = value.reshape(n, shape.width)
    else:
        indptr, index = next(cuts).view(np.int64), arrays["index"]
        _offsets(arrays, indptr)
        if "table" in arrays:
            _values(arrays, indptr, value)
        if index.dtype == np.uint16:
            index = next(cuts).view(np.int32)[:nnz]
            _columns(arrays, indptr, index)
        X = CSR(indptr, index, value)
    return Block(X, arrays["y"], rows, arrays.get("weight"))


def unpack_into(into: Block, shape: Shape, arrays: Arrays) -> None:
    """Write the block's rows into a buffer's room for them, see ``RowBuffer.extend``; they are CSR of its dtype."""
    assert isinstance(into.X, CSR)
    _rows(shape, arrays, into.rows)
    into.y[:] = arrays["y"]
    if into.weight is not None:
        into.weight[:] = arrays.get("weight", 1.0)
    indptr = np.empty(shape.n_rows + 1, np.int64)
    _offsets(arrays, indptr)
    _values(arrays, indptr, into.X.data)
    _columns(arrays, indptr, into.X.indices)
    indptr += into.X.indptr[0]
    into.X.indptr[1:] = indptr[1:]


# The page's checksum vouches for its numbers: no kernel looks whether they are in range.


def _rows(shape: Shape, arrays: Arrays, out: NDArray[np.int64]) -> NDArray[np.int64]:
    """Write row numbers to ``out``, and return it, without a temporary array."""
    if shape.first_row is None:
        out[:] = arrays["rows"]
    else:
        out[:] = 1
        out[:1] = shape.first_row
        np.cumsum(out, out=out)
    return out


def _values(arrays: Arrays, indptr: NDArray[np.int64] | None, out: NDArray[np.floating]) -> None:
    """Write the unpacked values to ``out``. indptr: of sparse rows, from 0 on."""
    if "usual" in arrays:
        from llsvm.kernels.pages import unpack_rows

        unpack_rows(indptr, arrays["usual"], arrays["n_odd"], arrays["odd"], arrays["table"], out)
        return
    value = arrays["value"] if "value" in arrays else arrays["X"]
    if "table" in arrays:
        from llsvm.kernels.pages import unpack_values

        unpack_values(value, arrays["table"], out)
    else:
        out[:] = value


def _offsets(arrays: Arrays, out: NDArray[np.int64]) -> None:
    """Write indptr, (n + 1,), from 0 on, to ``out``."""
    out[0] = 0
    np.cumsum(arrays["lengths"], out=out[1:])


def _columns(arrays: Arrays, indptr: NDArray[np.int64], out: NDArray[np.int32]) -> None:
    index = arrays["index"]
    if index.dtype == np.uint16:
        from llsvm.kernels.pages import unpack_indices

        unpack_indices(indptr, index, out)
    else:
        out[:] = index


def csr_dtype(layout: Layout) -> str | None:
    """Return the dtype of the values that ``unpack`` makes of arrays laid out so; None for dense rows."""
    arrays = dict(layout)
    if "index" not in arrays:
        return None
    return arrays["table"] if "table" in arrays else arrays["value"]


def room_bytes(shape: Shape, arrays: Arrays) -> int:
    """Return the bytes of what ``unpack`` makes of a block stored as ``arrays``."""
    return sum(_rooms(shape, arrays))


def _rooms(shape: Shape, arrays: Arrays) -> list[int]:
    """Return the bytes of each array that ``unpack`` makes, in its order, multiples of 8."""
    rooms = [] if shape.first_row is None else [8 * shape.n_rows]
    if "table" in arrays:
        rooms.append(-(-arrays["table"].itemsize * shape.nnz // 8) * 8)
    if shape.width is None:
        rooms.append(8 * (shape.n_rows + 1))
        if arrays["index"].dtype == np.uint16:
            rooms.append(-(-4 * shape.nnz // 8) * 8)
    return rooms


def _small(lengths: NDArray[np.int64]) -> NDArray[Any]:
    return lengths.astype(np.uint16 if lengths.max(initial=0) <= 0xFFFF else np.int64)


def _first_row(rows: NDArray[np.int64]) -> int | None:
    if not is_consecutive(rows):
        return None
    return int(rows[0]) if len(rows) else 0


def is_consecutive(rows: NDArray[np.int64]) -> bool:
    """Return whether ``rows`` counts up by one."""
    n = len(rows)
    return n == 0 or (int(rows[-1]) - int(rows[0]) == n - 1 and bool(np.all(rows[1:] - rows[:-1] == 1)))


class PageChecksum:
    """Checksum of the bytes of a page, in whatever pieces they come: add bytes, then look at ``value``.

    It is Fletcher's: the sum of all words, and the sum of these sums as they grew, which depends on the words'
    order. Words are of 64 bits, so it is as fast as memory; CRC-32 took a twentieth of a run's processor time.
    """

    def __init__(self) -> None:
        self._state = np.zeros(4, np.uint64)  # see the kernel

    def add(self, data: NDArray[np.uint8]) -> None:
        """Go on with ``data`` (n,), contiguous."""
        from llsvm.kernels.checksum import fletcher

        data = data[:]
        data.setflags(write=False)  # some arrays are: the kernel is compiled for these, once
        fletcher(data, self._state)

    @property
    def value(self) -> int:
        """Return the checksum, 128 bits."""
        total, sums, rest, n_rest = map(int, self._state)
        if n_rest:  # an unfinished word counts as if zeros followed
            total = (total + rest) % _WORD
            sums = (sums + total) % _WORD
        return sums * _WORD | total


def chunk_checksums(data: NDArray[np.uint8], chunk_bytes: int) -> NDArray[np.uint64]:
    """Return (k, 2) Fletcher's two sums of every ``chunk_bytes`` of contiguous ``data`` (n,); the last may be
    shorter."""
    from llsvm.kernels.checksum import fletcher

    data = data[:]
    data.setflags(write=False)
    states = np.zeros((-(-len(data) // chunk_bytes), 4), np.uint64)
    for i, state in enumerate(states):
        fletcher(data[i * chunk_bytes : (i + 1) * chunk_bytes], state)
    unfinished = states[:, 3] > 0
    states[unfinished, 0] += states[unfinished, 2]
    states[unfinished, 1] += states[unfinished, 0]
    return states[:, :2]
