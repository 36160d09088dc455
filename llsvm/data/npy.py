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
from collections.abc import Iterator
from contextlib import ExitStack
from tokenize import TokenError
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.data.matrix import (
    DAMAGE,
    FEATURE_NAMES,
    LABEL_NAMES,
    DenseRows,
    MatrixReader,
    SparseRows,
    find_name,
    no_labels,
    one_name,
    unasked_weights,
)
from llsvm.data.source import SourceInfo
from llsvm.errors import DataError
from llsvm.files.inputs import disk_failed, fingerprint, open_binary, unchanged, unreadable
from llsvm.files.remote import is_remote, library_bytes
from llsvm.objective.rounding import Rounding

_MAGIC = b"\x93NUMPY"
_SKIP_BYTES = 1 << 16
_LENGTHS_AT = (
    26  # in the local head of a zip member: two bytes each for the lengths of its name and its extra field
)


class NumpySource:
    """One .npy or .npz file; see the file's head and BlockSource."""

    def __init__(
        self,
        path: str,
        label: str | None = None,
        features: Any = None,
        weight: str | None = None,
        missing: str | None = None,
        need_label: bool = True,
    ) -> None:
        self.bytes_read = 0
        self.rounding = Rounding()
        self._path = path
        self._label, self._features, self._weight = label, one_name(path, features), weight
        self._missing = missing or "refuse"
        self._need_label = need_label
        self._notes: tuple[str, ...] = ()
        self._print = fingerprint(path)
        self._prints = {path: self._print}
        if label is not None and _is_file(label):
            self._prints[label] = fingerprint(label)
        with ExitStack() as files:
            reader = self._open(files)
            self._n_rows = reader.n_rows
            self._n_features = reader.X.shape[1]
            self._is_dense = isinstance(reader.X, DenseRows)
            self._labelled = reader.y is not None

    def info(self) -> SourceInfo:
        """Rows and columns are known from the start."""
        library = library_bytes([self._path])
        return SourceInfo(
            self._path,
            "numpy",
            self._print[0],
            self._n_rows,
            self._n_features,
            reader_bytes=library + (2 << 20),
            library_bytes=library,
            notes=self._notes,
            is_dense=self._is_dense,
            labelled=self._labelled,
            rounding=(self.rounding,),
        )

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """The rows in order; see BlockSource."""
        with ExitStack() as files:
            counted = 0
            for path, found in self._prints.items():
                files.enter_context(unchanged(path, found))
            for block in self._open(files).blocks(max_bytes):
                share = self._print[0] * (int(block.rows[-1]) + 1) // self._n_rows
                self.bytes_read += share - counted
                counted = share
                yield block

    def _open(self, files: ExitStack) -> MatrixReader:
        """The file's arrays, open until ``files`` closes."""
        stream = files.enter_context(open_binary(self._path))
        try:
            start = stream.read(len(_MAGIC))
            stream.seek(0)
            if start == _MAGIC:
                return self._plain(stream, files)
            return self._archive(zipfile.ZipFile(stream), files)
        except DataError:
            raise
        except DAMAGE as error:
            if disk_failed(error):
                raise unreadable(self._path, error) from error
            raise DataError(f"{self._path}: cut off or damaged: {error}; fetch or write it again") from error

    def _plain(self, stream: Any, files: ExitStack) -> MatrixReader:
        array = _Array(self._path, "the array", stream, self._print[0])
        values = self._matrix(array, stream, stream.tell(), files)
        if self._label is None and not self._need_label:
            return self._reader(DenseRows("the array", values), None, None)
        if self._label is None:
            raise DataError(
                f"{self._path}: where are the labels? pass --label last, --label with a column's position "
                "from 0, or --label with the name of a .npy file"
            )
        if _is_file(self._label):
            return self._reader(DenseRows("the array", values), self._beside(files), None)
        place = _position(self._path, self._label, values.shape[1])
        split = _Split(values, place)
        return self._reader(split.features, split.labels, None)

    def _archive(self, archive: zipfile.ZipFile, files: ExitStack) -> MatrixReader:
        names = {name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")}
        if "header.json" in archive.namelist():
            raise DataError(f"{self._path}: this is a model of llsvm, not svmlight text or other data")

        def member(name: str) -> _Array:
            stream = files.enter_context(archive.open(f"{name}.npy"))
            return _Array(self._path, name, stream, archive.getinfo(f"{name}.npy").file_size)

        y: Any = None
        if self._label is not None and _is_file(self._label):
            y = self._beside(files)
        else:
            label = find_name(self._path, names, self._label, LABEL_NAMES, "label")
            if label is not None:
                y = member(label).vector()
            elif self._need_label:
                raise no_labels(self._path, names)
        self._notes = unasked_weights(self._path, names, self._weight)
        weight = find_name(self._path, names, self._weight, (), "weight")
        weights = None if weight is None else member(weight).vector()
        if self._features is None and "format" in names:
            kind = member("format").scalar()
            if kind not in (b"csr", "csr"):
                kind = kind.decode() if isinstance(kind, bytes) else kind
                raise DataError(f"{self._path}: a sparse matrix stored as {kind}; save X.tocsr() instead")
        if {"indptr", "indices", "data"} <= names and self._features is None:
            return self._reader(self._sparse(member, names), y, weights)
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
        values = self._matrix(array, None, _member_start(archive, info) + begin if stored else 0, files)
        return self._reader(DenseRows(name, values), y, weights)

    def _matrix(self, array: _Array, stream: Any, begin: int, files: ExitStack) -> Any:
        """The rows of an array, stored by rows or by columns (as pandas hands its values out). stream, begin: of
        the file's own bytes and where the array begins in them; 0 where it is compressed."""
        if not array.by_columns:
            return array.matrix()
        if not begin:
            raise DataError(
                f"{self._path}: {array.name}: compressed and stored by columns; save np.ascontiguousarray(X), "
                "or without compression (np.savez)"
            )
        return _ByColumns(array.matrix(), stream or files.enter_context(open_binary(self._path)), begin)

    def _sparse(self, member: Any, names: set[str]) -> SparseRows:
        n_columns = int(member("shape").vector()[0:2][1]) if "shape" in names else None
        indptr, indices, data = (member(name).vector() for name in ("indptr", "indices", "data"))
        return SparseRows("the sparse matrix", indptr, indices, data, n_columns)

    def _reader(self, X: Any, y: Any, weight: Any) -> MatrixReader:
        return MatrixReader(self._path, X, y, weight, missing=self._missing, rounding=self.rounding)

    def _beside(self, files: ExitStack) -> Any:
        path = str(self._label)
        stream = files.enter_context(open_binary(path))
        return _Array(path, "the array", stream, self._prints[path][0]).vector()


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


class _Array:
    """The header of a .npy stream, and its values in slices from front to back."""

    def __init__(self, where: str, name: str, stream: Any, n_bytes: int) -> None:
        """n_bytes: of the stream, head and all. Raises DataError where the array needs more."""
        self.name, self._where, self._stream = name, where, stream
        npy = np.lib.format
        try:
            first = npy.read_magic(stream) == (1, 0)
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

    def matrix(self) -> _Array:
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

    def vector(self) -> _Array:
        if len(self.shape) == 2 and self.shape[1] == 1:
            self.shape = self.shape[:1]
        if len(self.shape) != 1:
            raise DataError(
                f"{self._where}: {self.name}: an array of shape {self.shape}; one value a row is needed"
            )
        return self

    def scalar(self) -> Any:
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


class _ByColumns:
    """Rows of a matrix that lies column after column in a file, from ``begin`` on."""

    def __init__(self, array: _Array, stream: Any, begin: int) -> None:
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


def _member_start(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> int:
    """Where the bytes of a member begin in the file: behind its local head, whose lengths only itself knows."""
    stream: Any = archive.fp
    place = stream.tell()
    stream.seek(info.header_offset + _LENGTHS_AT)
    name, extra = struct.unpack("<HH", stream.read(4))
    stream.seek(place)
    return int(info.header_offset + _LENGTHS_AT + 4 + name + extra)


class _Split:
    """A matrix whose column ``place`` is the label: features and labels, read together."""

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
