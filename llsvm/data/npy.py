"""NumPy ``.npy`` and ``.npz`` files, and SciPy's sparse ``.npz``: read from front to back, never mapped.

.npy   one matrix; --label says which column is the label (last, or a position from 0), or names
       another .npy file that has the labels
.npz   arrays X and y, or those that --features and --label name; weights where --weight names them
       SciPy's save_npz (CSR), with y beside it in the archive, or --label labels.npy
"""

from __future__ import annotations

import math
import os
import struct
import zipfile
from collections.abc import Mapping
from contextlib import ExitStack
from tokenize import TokenError
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from llsvm.data.matrix import (
    DAMAGE,
    FEATURE_NAMES,
    LABEL_NAMES,
    DenseRows,
    MatrixReader,
    MatrixSource,
    SparseRows,
    find_name,
    no_labels,
    recorded,
    unasked_weights,
)
from llsvm.errors import DataError
from llsvm.files.fingerprint import Reading
from llsvm.files.inputs import disk_failed, open_binary, unreadable
from llsvm.files.remote import is_remote

_MAGIC = b"\x93NUMPY"
_ONLY = "the array"  # of a file with one
_HELD_BYTES = 2 << 20  # buffers of files, and of zlib


class NumpySource(MatrixSource):
    """One .npy or .npz file; see the file's head and MatrixSource."""

    format = "numpy"

    def _files(self) -> list[str]:
        labels = [self._label] if self._label is not None and _is_file(self._label) else []
        return [self._path, *labels]

    def _open(self, files: ExitStack, readings: Mapping[str, Reading]) -> MatrixReader:
        self._held_bytes = _HELD_BYTES
        stream = files.enter_context(open_binary(self._path))
        try:
            start = stream.read(len(_MAGIC))
            stream.seek(0)
            if start == _MAGIC:
                return self._plain(stream, files, readings)
            return self._archive(zipfile.ZipFile(stream), files, readings)
        except DataError:
            raise
        except DAMAGE as error:
            if disk_failed(error):
                raise unreadable(self._path, error) from error
            raise DataError(f"{self._path}: cut off or damaged: {error}; fetch or write it again") from error

    def _plain(self, stream: Any, files: ExitStack, readings: Mapping[str, Reading]) -> MatrixReader:
        array = NpyArray(self._path, _ONLY, stream, self._prints[self._path][0])
        values = self._matrix(array, stream, stream.tell(), files)
        values = recorded(values, _ONLY, readings.get(self._path))
        if self._label is None and not self._need_label:
            return self._reader(DenseRows(_ONLY, values), None, None)
        if self._label is None:
            raise DataError(
                f"{self._path}: where are the labels? pass --label last, --label with a column's position "
                "from 0, or --label with the name of a .npy file"
            )
        if _is_file(self._label):
            return self._reader(DenseRows(_ONLY, values), self._labels_of_file(files, readings), None)
        place = _position(self._path, self._label, values.shape[1])
        split = Split(values, place)
        return self._reader(split.features, split.labels, None)

    def _archive(
        self, archive: zipfile.ZipFile, files: ExitStack, readings: Mapping[str, Reading]
    ) -> MatrixReader:
        reading = readings.get(self._path)
        names = {name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")}
        if "header.json" in archive.namelist():
            raise DataError(f"{self._path}: this is a model of llsvm, not svmlight text or other data")
        if not names:
            held = ", ".join(sorted(archive.namelist())[:5])
            raise DataError(
                f"{self._path}: this is a ZIP archive without arrays of NumPy, or an Excel workbook; unpack it, or "
                f"save it as CSV (it holds {held or 'nothing'})"
            )

        def member(name: str) -> NpyArray:
            stream = files.enter_context(archive.open(f"{name}.npy"))
            return NpyArray(self._path, name, stream, archive.getinfo(f"{name}.npy").file_size)

        def vector(name: str) -> Any:
            return recorded(member(name).vector(), name, reading)

        y: Any = None
        if self._label is not None and _is_file(self._label):
            y = self._labels_of_file(files, readings)
        else:
            label = find_name(self._path, names, self._label, LABEL_NAMES, "label")
            if label is not None:
                y = vector(label)
            elif self._need_label:
                raise no_labels(self._path, names)
        self._notes = unasked_weights(self._path, names, self._weight)
        weight = find_name(self._path, names, self._weight, (), "weight")
        weights = None if weight is None else vector(weight)
        if self._features is None and "format" in names:
            kind = member("format").scalar()
            if kind not in (b"csr", "csr"):
                kind = kind.decode() if isinstance(kind, bytes) else kind
                raise DataError(f"{self._path}: a sparse matrix stored as {kind}; save X.tocsr() instead")
        if {"indptr", "indices", "data"} <= names and self._features is None:
            n_columns = int(member("shape").vector()[0:2][1]) if "shape" in names else None
            indptr, indices, data = map(vector, ("indptr", "indices", "data"))
            X = SparseRows("the sparse matrix", indptr, indices, data, n_columns)
            return self._reader(X, y, weights)
        name = find_name(self._path, names, self._features, FEATURE_NAMES, "features")
        if name is None:
            raise DataError(
                f"{self._path}: which array holds the features? pass --features with its name "
                f"({', '.join(sorted(names)[:12])})"
            )
        array = member(name)
        info = archive.getinfo(f"{name}.npy")
        stored = info.compress_type == zipfile.ZIP_STORED
        begin = info.file_size - array.n_bytes  # of the array within the member
        values = self._matrix(array, None, member_start(archive, info) + begin if stored else 0, files)
        return self._reader(DenseRows(name, recorded(values, name, reading)), y, weights)

    def _matrix(self, array: NpyArray, stream: Any, begin: int, files: ExitStack) -> Any:
        """Return the rows of an array, stored by rows or by columns (as pandas hands its values out). stream,
        begin: of the file's own bytes and where the array begins in them; 0 where it is compressed."""
        if not array.by_columns:
            return array.matrix()
        if not begin:
            raise DataError(
                f"{self._path}: {array.name}: compressed and stored by columns; save np.ascontiguousarray(X), "
                "or without compression (np.savez)"
            )
        return ByColumns(array.matrix(), stream or files.enter_context(open_binary(self._path)), begin)

    def _reader(self, X: Any, y: Any, weight: Any) -> MatrixReader:
        return MatrixReader(self._path, X, y, weight, missing=self._missing, rounding=self.rounding)

    def _labels_of_file(self, files: ExitStack, readings: Mapping[str, Reading]) -> Any:
        """Return the labels in a file of their own."""
        path = str(self._label)
        stream = files.enter_context(open_binary(path))
        labels = NpyArray(path, _ONLY, stream, self._prints[path][0]).vector()
        return recorded(labels, _ONLY, readings.get(path))


def _is_file(label: str) -> bool:
    return label.endswith(".npy") and (is_remote(label) or os.path.exists(label))


def _position(path: str, label: str, n_columns: int) -> int:
    if label == "last":
        return n_columns - 1
    if label.isdigit() and int(label) < n_columns:
        return int(label)
    raise DataError(
        f"{path}: --label {label}: pass last, a column's position from 0 to {n_columns - 1}, or a .npy file"
    )


# Arrays in .npy files and in members of .npz archives, read in slices from front to back.

_SKIP_BYTES = 1 << 16
_WORD_BYTES = 1 << 10
_MAX_HEAD_BYTES = 10_000  # NumPy reads no longer ones either, but into memory first
# in the local head of a zip member: two bytes each for the lengths of its name and its extra field
_LENGTHS_AT = 26


class NpyArray:
    """The header of a .npy stream, and its values in slices from front to back.

    where: the file's name, name: the array's, for messages.
    stream: at the header's beginning.
    n_bytes: of the stream, head and all.
    Raises DataError for a damaged head, an array of objects, and one that needs more bytes than there are.
    """

    def __init__(self, where: str, name: str, stream: Any, n_bytes: int) -> None:
        self.name, self._where, self._stream = name, where, stream
        npy = np.lib.format
        try:
            first = npy.read_magic(stream) == (1, 0)
            if not first and (n := int.from_bytes(stream.read(4), "little")) > _MAX_HEAD_BYTES:
                raise ValueError(f"it has {n:,} bytes")
            if not first:
                stream.seek(-4, os.SEEK_CUR)
            read = npy.read_array_header_1_0 if first else npy.read_array_header_2_0
            self.shape, self._fortran, self.dtype = read(stream)
        except (*DAMAGE, SyntaxError, TokenError, TypeError) as error:
            raise DataError(
                f"{where}: {name}: cut off or damaged: its head cannot be read "
                f"({' '.join(str(error).split())}); fetch or write it again"
            ) from error
        if self.dtype.hasobject or self.dtype.names:
            raise DataError(
                f"{where}: {name}: an array of objects or records; save numbers or text as plain arrays"
            )
        self._row_items = math.prod(self.shape[1:])
        self._at = 0  # rows read
        there = n_bytes - stream.tell()
        if min(self.shape, default=0) < 0 or self.n_bytes > there:
            self._cut_off(there // max(self._row_items * self.dtype.itemsize, 1))

    def _cut_off(self, n_rows: int) -> NoReturn:
        raise DataError(
            f"{self._where}: cut off: {self.name} of shape {self.shape} ends after {n_rows:,} rows; "
            "fetch or write it again"
        )

    def matrix(self) -> NpyArray:
        if len(self.shape) != 2:
            raise DataError(
                f"{self._where}: {self.name}: an array of shape {self.shape}; a matrix (n, d) is needed"
            )
        return self

    @property
    def by_columns(self) -> bool:
        return bool(self._fortran) and len(self.shape) == 2 and min(self.shape) > 1

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def vector(self) -> NpyArray:
        if len(self.shape) == 2 and 1 in self.shape:
            self.shape = (max(self.shape),)
        if len(self.shape) != 1:
            raise DataError(
                f"{self._where}: {self.name}: an array of shape {self.shape}; one value a row is needed"
            )
        return self

    def scalar(self) -> Any:
        """Return a short word. Raises DataError for another array."""
        if self.dtype.itemsize > _WORD_BYTES or len(self.shape) > 1:
            raise DataError(
                f"{self._where}: {self.name}: an array of type {self.dtype} where a word is needed"
            )
        return self[0:1][0] if self.shape else np.frombuffer(self._bytes(self.dtype.itemsize), self.dtype)[0]

    def __getitem__(self, key: slice) -> NDArray[Any]:
        start, stop, _ = key.indices(self.shape[0])
        size = self._row_items * self.dtype.itemsize
        skip = (start - self._at) * size
        assert skip >= 0, "arrays are read from front to back"
        while skip > 0:
            skip -= len(self._bytes(min(skip, _SKIP_BYTES)))
        values = np.frombuffer(self._bytes((stop - start) * size), self.dtype)
        self._at = stop
        return values.reshape(stop - start, *self.shape[1:])

    def _bytes(self, n: int) -> bytearray:
        out = bytearray(n)
        view, at = memoryview(out), 0
        while at < n:
            got = self._stream.readinto(view[at:])
            if not got:
                self._cut_off(self._at + at // max(self._row_items * self.dtype.itemsize, 1))
            at += got
        return out


class ByColumns:
    """Rows of a matrix that lies column after column in a file.

    array: its shape and type. stream: the file. begin: where its bytes begin there.
    """

    def __init__(self, array: NpyArray, stream: Any, begin: int) -> None:
        self.shape, self.dtype = array.shape, array.dtype
        self._array, self._stream, self._begin = array, stream, begin

    def __getitem__(self, key: slice) -> NDArray[Any]:
        n, d = self.shape
        start, stop, _ = key.indices(n)
        values = np.empty((stop - start, d), self.dtype)
        for j in range(d):
            self._stream.seek(self._begin + (j * n + start) * self.dtype.itemsize)
            part = self._stream.read((stop - start) * self.dtype.itemsize)
            if len(part) < (stop - start) * self.dtype.itemsize:
                raise EOFError(f"it ends within column {j}")
            values[:, j] = np.frombuffer(part, self.dtype)
        return values


def member_start(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> int:
    """Return the position in the file at which the bytes of a member begin: behind its local header, which alone
    has its own length."""
    stream: Any = archive.fp
    place = stream.tell()
    stream.seek(info.header_offset + _LENGTHS_AT)
    name, extra = struct.unpack("<HH", stream.read(4))
    stream.seek(place)
    return int(info.header_offset + _LENGTHS_AT + 4 + name + extra)


class Split:
    """A matrix one of whose columns is the label: features and labels, read together.

    values: (n, d) numbers in a file. place: the label's column, from 0.
    """

    def __init__(self, values: Any, place: int) -> None:
        self._values, self._place = values, place
        n, d = values.shape
        self._rows: tuple[int, int, NDArray[Any]] | None = None
        self.features = DenseRows("the array", _View((n, d - 1), values.dtype, self._features))
        self.labels = _View((n,), values.dtype, self._labels)

    def _slab(self, key: slice) -> NDArray[Any]:
        if self._rows is None or self._rows[:2] != (key.start, key.stop):
            self._rows = (key.start, key.stop, self._values[key])
        return self._rows[2]

    def _features(self, key: slice) -> NDArray[Any]:
        slab, place = self._slab(key), self._place
        if place == slab.shape[1] - 1:
            return slab[:, :place]
        return np.delete(slab, place, axis=1)

    def _labels(self, key: slice) -> NDArray[Any]:
        return self._slab(key)[:, self._place].copy()


class _View:
    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], read: Any) -> None:
        self.shape, self.dtype, self._read = shape, dtype, read

    def __getitem__(self, key: slice) -> NDArray[Any]:
        values: NDArray[Any] = self._read(key)
        return values
