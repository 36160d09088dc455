"""NumPy ``.npy`` and ``.npz`` files, and SciPy's sparse ``.npz``: read from front to back, never mapped.

.npy   one matrix; --label says which column is the label (last, or a position from 0), or names
       another .npy file that has the labels
.npz   arrays X and y, or those that --features and --label name; weights where --weight names them
       SciPy's save_npz (CSR), with y beside it in the archive, or --label labels.npy
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from llsvm.data.array_names import FEATURE_NAMES, LABEL_NAMES, find_name, no_labels, unasked_weights
from llsvm.data.matrix import DAMAGE, DenseRows, MatrixReader, SparseRows, recorded
from llsvm.data.matrix_source import MatrixSource
from llsvm.data.npy_arrays import ByColumns, NpyArray, Split, member_start
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
        beside = [self._label] if self._label is not None and _is_file(self._label) else []
        return [self._path, *beside]

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
            return self._reader(DenseRows(_ONLY, values), self._beside(files, readings), None)
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
            y = self._beside(files, readings)
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
        """The rows of an array, stored by rows or by columns (as pandas hands its values out). stream, begin: of
        the file's own bytes and where the array begins in them; 0 where it is compressed."""
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

    def _beside(self, files: ExitStack, readings: Mapping[str, Reading]) -> Any:
        """The labels in a file of their own."""
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
