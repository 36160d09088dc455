"""HDF5: a dense data set or the three arrays of a CSR matrix, with labels, as h5py's users and AnnData write.

Found by name: X (or data, features) and y (or label, labels, target), anywhere that is unique; a group with
data, indices and indptr; AnnData's obs/<label>, categorical or not, and the names of var. Others by --features
and --label.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.data.matrix import (
    DAMAGE,
    FEATURE_NAMES,
    LABEL_NAMES,
    DenseRows,
    Flat,
    MatrixReader,
    SparseRows,
    find_name,
    no_labels,
    one_name,
    unasked_weights,
)
from llsvm.data.source import SourceInfo
from llsvm.errors import DataError
from llsvm.files.inputs import check_regular, disk_failed, fingerprint, open_binary, unchanged, unreadable
from llsvm.files.remote import is_remote, library_bytes
from llsvm.objective.rounding import Rounding

_CSR = {"data", "indices", "indptr"}
_LIBRARY_BYTES = 14_000_000  # measured, h5py
_MAX_CACHE_BYTES = 32 << 20
_MIN_CACHE_BYTES = 1 << 20


class HDF5Source:
    """One HDF5 file; see the file's head and BlockSource."""

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
        self._cache_bytes = _MIN_CACHE_BYTES
        with self._opened() as file:
            reader = self._reader(file)
            self._n_rows = reader.n_rows
            self._n_features = reader.X.shape[1]
            self._is_dense = isinstance(reader.X, DenseRows)
            self._labelled = reader.y is not None
            self._names = _feature_names(file, self._n_features)
            self._cache_bytes, self._held_bytes = _chunk_bytes(reader)

    def info(self) -> SourceInfo:
        """Rows and columns are known from the start, but for CSR without a shape."""
        library = _LIBRARY_BYTES + library_bytes([self._path])
        return SourceInfo(
            self._path,
            "hdf5",
            n_bytes=self._print[0],
            n_rows=self._n_rows,
            n_features=self._n_features,
            feature_names=self._names,
            reader_bytes=library + self._held_bytes,
            library_bytes=library,
            notes=self._notes,
            is_dense=self._is_dense,
            labelled=self._labelled,
            rounding=(self.rounding,),
        )

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """The rows in order; see BlockSource."""
        counted, largest = 0, -1
        with unchanged(self._path, self._print), self._opened() as file:
            for block in self._reader(file).blocks(max_bytes):
                share = self._print[0] * (int(block.rows[-1]) + 1) // self._n_rows
                self.bytes_read += share - counted
                counted = share
                if self._n_features is None and not isinstance(block.X, np.ndarray):
                    largest = max(largest, int(block.X.indices.max(initial=-1)))
                yield block
        if self._n_features is None:
            self._n_features = largest + 1

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        import h5py

        where: Any = self._path
        options = {"locking": False}
        if is_remote(self._path):
            where, options = open_binary(self._path), {}
        else:
            check_regular(self._path)
        try:
            with h5py.File(where, "r", rdcc_nbytes=self._cache_bytes, **options) as file:
                yield file
        except DAMAGE as error:
            if isinstance(error, DataError):
                raise
            if disk_failed(error):
                raise unreadable(self._path, error) from error
            reason = " ".join(str(error).split()).replace(
                "Unable to synchronously open file", "cannot be opened"
            )
            raise DataError(
                f"{self._path}: not a readable HDF5 file, cut off or damaged: {reason}; fetch or write it again"
            ) from error

    def _reader(self, file: Any) -> MatrixReader:
        arrays, groups = _members(file)
        X = self._matrix(file, arrays, groups)
        y, texts = self._labels(file, arrays, groups)
        self._notes = unasked_weights(self._path, arrays, self._weight)
        weight = find_name(self._path, arrays, self._weight, (), "weight")
        weights = None if weight is None else _flat(arrays[weight])
        parts = (X.values,) if isinstance(X, DenseRows) else (X.indptr, X.indices, X.data)
        for part in (*parts, y, weights):
            self._require_stored(part)
        return MatrixReader(self._path, X, y, weights, texts, self._missing, self.rounding)

    def _require_stored(self, part: Any) -> None:
        """Raise DataError where a contiguous data set has fewer bytes than its shape says: HDF5 reads zeros."""
        array: Any = part.values if isinstance(part, Flat) else part
        if array is None or array.chunks is not None or array.is_virtual or array.external is not None:
            return
        needed, stored = math.prod(array.shape) * array.dtype.itemsize, array.id.get_storage_size()
        if stored < needed:
            raise DataError(
                f"{self._path}: {array.name} of shape {array.shape} has {stored:,} bytes of {needed:,}; it is "
                "damaged or was not written to its end"
            )

    def _matrix(self, file: Any, arrays: dict[str, Any], groups: dict[str, Any]) -> DenseRows | SparseRows:
        sparse = {name: group for name, group in groups.items() if set(group) >= _CSR}
        if set(file) >= _CSR:
            sparse["/"] = file
        if self._features in sparse:
            return self._csr(str(self._features), sparse[str(self._features)])
        if self._features is None:
            name = next((name for name in (*FEATURE_NAMES, "/") if name in sparse), None)
            if name is None and len(sparse) == 1 and not any(n in arrays for n in FEATURE_NAMES):
                name = next(iter(sparse))
            if name is not None:
                return self._csr(name, sparse[name])
        flat = {name: array for name, array in arrays.items() if len(array.shape) == 2}
        for name in (self._features,) if self._features else FEATURE_NAMES:
            if name in arrays and name not in flat:
                raise DataError(
                    f"{self._path}: {name} has shape {arrays[name].shape}; a matrix (n, d) is needed"
                )
        name = find_name(self._path, flat, self._features, FEATURE_NAMES, "features")
        if name is None and len({array.name for array in flat.values()}) == 1:
            name = next(iter(flat))
        if name is None:
            raise DataError(
                f"{self._path}: which data set holds the features? pass --features with its name "
                f"({', '.join(sorted(arrays)[:12]) or 'there is none in the file'})"
            )
        return DenseRows(name, flat[name])

    def _csr(self, name: str, group: Any) -> SparseRows:
        kind = _text(group.attrs.get("encoding-type", group.attrs.get("h5sparse_format", "csr_matrix")))
        if not kind.startswith("csr"):
            raise DataError(
                f"{self._path}: {name} is a {kind}, stored by columns; write it as CSR (X.tocsr())"
            )
        shape = group.attrs.get("shape", group.attrs.get("h5sparse_shape"))
        if shape is None and "shape" in group:
            shape = group["shape"][()]
        n_columns = None if shape is None else int(shape[1])
        rows = SparseRows(name, group["indptr"], group["indices"], group["data"], n_columns)
        if shape is not None and int(shape[0]) != rows.shape[0]:
            raise DataError(
                f"{self._path}: {name} has shape {tuple(map(int, shape))}, but pointers for {rows.shape[0]} rows; "
                "the file is damaged or was not written to its end"
            )
        return rows

    def _labels(
        self, file: Any, arrays: dict[str, Any], groups: dict[str, Any]
    ) -> tuple[Any, NDArray[Any] | None]:
        if self._label is not None:
            for name in (self._label, f"obs/{self._label}"):
                if name in groups and {"codes", "categories"} <= set(groups[name]):
                    words = groups[name]["categories"][()]
                    texts = np.array([_text(word) for word in words]) if words.dtype.kind in "SO" else words
                    return groups[name]["codes"], texts
                if name in arrays:
                    return _flat(arrays[name]), None
        flat = {name: _flat(array) for name, array in arrays.items()}
        flat = {name: array for name, array in flat.items() if len(array.shape) == 1}
        found = find_name(self._path, flat, self._label, LABEL_NAMES, "label")
        if found is None and self._need_label:
            choices = [*flat, *(n for n, g in groups.items() if {"codes", "categories"} <= set(g))]
            raise no_labels(self._path, choices)
        return (None if found is None else flat[found]), None


def _flat(array: Any) -> Any:
    return Flat(array) if len(array.shape) == 2 and array.shape[1] == 1 else array


def _members(file: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Data sets and groups by their path, and by their last name where that is unique."""
    import h5py

    arrays: dict[str, Any] = {}
    groups: dict[str, Any] = {}
    short: dict[str, list[Any]] = {}

    def visit(path: str, member: Any) -> None:
        if isinstance(member, h5py.Dataset):
            arrays[path] = member
            short.setdefault(path.rsplit("/", 1)[-1], []).append(member)
        else:
            groups[path] = member

    file.visititems(visit)
    for name, members in short.items():
        if len(members) == 1 and name not in _CSR:
            arrays.setdefault(name, members[0])
    return arrays, groups


def _feature_names(file: Any, n_features: int | None) -> tuple[str, ...] | None:
    """AnnData's names of the columns."""
    var = file.get("var")
    if var is None or n_features is None or not hasattr(var, "attrs"):
        return None
    index = _text(var.attrs.get("_index", "_index"))
    if not hasattr(var, "keys") or index not in var or var[index].shape != (n_features,):
        return None
    return tuple(_text(name) for name in var[index][()])


def _chunk_bytes(reader: MatrixReader) -> tuple[int, int]:
    """A chunk cache in which no chunk is decompressed twice, if that is affordable; and what is held in all."""
    X = reader.X
    parts: tuple[Any, ...] = (X.values,) if isinstance(X, DenseRows) else (X.data, X.indices, X.indptr)
    one = max(map(_chunk_of, parts))
    stripe = one
    if isinstance(X, DenseRows) and one:
        stripe = one * -(-X.shape[1] // parts[0].chunks[1])
    cache = _MIN_CACHE_BYTES
    if one:
        cache = min(max(stripe + one, _MIN_CACHE_BYTES), _MAX_CACHE_BYTES)
    of_rows = [
        _chunk_of(part.values if isinstance(part, Flat) else part) for part in (reader.y, reader.weight)
    ]
    n_sets = sum(map(bool, (*map(_chunk_of, parts), *of_rows)))
    return cache, n_sets * cache + 2 * (one + max(of_rows))  # packed and not, one at a time


def _chunk_of(array: Any) -> int:
    """Bytes of a data set's chunk, unpacked; 0 where it is not in chunks, or is none."""
    if array is None or array.chunks is None:
        return 0
    return math.prod(array.chunks) * int(array.dtype.itemsize)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
