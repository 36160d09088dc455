"""HDF5: a dense data set or the three arrays of a CSR matrix, with labels, as h5py's users and AnnData write.

Found by name: X (or data, features) and y (or label, labels, target), anywhere that is unique; a group with
data, indices and indptr; AnnData's obs/<label>, categorical or not, and the names of var. Others by --features
and --label.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.data.matrix import (
    DAMAGE,
    FEATURE_NAMES,
    LABEL_NAMES,
    DenseRows,
    Flat,
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
from llsvm.files.inputs import check_regular, disk_failed, open_binary, unreadable
from llsvm.files.remote import is_remote, library_bytes
from llsvm.memory.budget import require_room

_CSR = {"data", "indices", "indptr"}
_TEXT_KINDS = "SO"  # of NumPy's types, as h5py gives text of fixed and of variable length
_LIBRARY_BYTES = 14_000_000  # measured, h5py
_COPY = "write a file that holds all of it"
_MAX_CACHE_BYTES = 32 << 20
_MIN_CACHE_BYTES = 1 << 20


class HDF5Source(MatrixSource):
    """One HDF5 file; see the file's head and MatrixSource."""

    format = "hdf5"
    _cache_bytes = _MIN_CACHE_BYTES  # of chunks, for each data set
    _longest_label = 0  # bytes, where they are text of variable length

    def _open(self, files: ExitStack, readings: Mapping[str, Reading]) -> MatrixReader:
        file = files.enter_context(self._opened())
        reader = self._reader(file, readings.get(self._path))
        if not readings:
            self._library_bytes = _LIBRARY_BYTES + library_bytes([self._path])
            self._cache_bytes, self._held_bytes = _chunk_bytes(reader)
            self._names = self._feature_names(file, reader.X.shape[1])
        return reader

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

    def _reader(self, file: Any, reading: Reading | None) -> MatrixReader:
        arrays, groups = _members(self._path, file)
        X = self._matrix(file, arrays, groups)
        y, texts = self._labels(file, arrays, groups)
        self._notes = unasked_weights(self._path, arrays, self._weight)
        weight = find_name(self._path, arrays, self._weight, (), "weight")
        weights = None if weight is None else _flat(arrays[weight])
        parts = (X.values,) if isinstance(X, DenseRows) else (X.indptr, X.indices, X.data)
        for part in (*parts, y, weights):
            self._require_stored(part.values if isinstance(part, Flat) else part)
        stored = y.values if isinstance(y, Flat) else y
        if reading is None and stored is not None and stored.dtype.kind == "O":
            self._longest_label = text_bytes(self._path, stored)[1]
        if reading is not None and texts is not None:
            for part in _plain(texts):
                reading.add(part.view(np.uint8), "label names")
        return MatrixReader(
            self._path,
            _recorded_rows(X, reading),
            recorded(y, "labels", reading),
            recorded(weights, "weights", reading),
            texts,
            self._missing,
            self.rounding,
            self._longest_label,
        )

    def _require_stored(self, array: Any) -> None:
        """Raise DataError where less is stored than the shape says, which HDF5 makes up, or more than there is; and
        for references."""
        import h5py

        if array is None:
            return
        if array.dtype.kind == "O" and h5py.check_string_dtype(array.dtype) is None:
            raise DataError(f"{self._path}: {array.name} has references or lists, not numbers or text")
        if array.chunks is None:
            needed, stored, what = math.prod(array.shape) * array.dtype.itemsize, _stored(array), "bytes"
        else:
            by_axis = (-(-n // chunk) for n, chunk in zip(array.shape, array.chunks, strict=True))
            needed, stored, what = math.prod(by_axis), array.id.get_num_chunks(), "chunks"
        if stored < needed or _stored(array) > array.file.id.get_filesize():
            raise DataError(
                f"{self._path}: {array.name} of shape {array.shape} has {stored:,} {what} of {needed:,}; it is "
                "damaged or was not written to its end"
            )

    def _member(self, group: Any, name: str) -> Any:
        """Return a data set of a group. Raises DataError unless it is in the file, and whole."""
        import h5py

        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise DataError(f"{self._path}: {group.name}: {name} is a link, which may lead anywhere; {_COPY}")
        member = group[name]
        if not isinstance(member, h5py.Dataset):
            raise DataError(f"{self._path}: {member.name} is no data set; fetch or write the file again")
        self._require_stored(member)
        return member

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
        if (text := arrays.get(str(self._features))) is not None and text.dtype.kind in _TEXT_KINDS:
            raise self._is_text(str(self._features))
        flat = {name: array for name, array in arrays.items() if len(array.shape) == 2}
        for name in (self._features,) if self._features else FEATURE_NAMES:
            if name in arrays and name not in flat:
                raise DataError(
                    f"{self._path}: {name} has shape {arrays[name].shape}; a matrix (n, d) is needed"
                )
        name = find_name(self._path, flat, self._features, FEATURE_NAMES, "features")
        if name is None and len({array.name for array in flat.values()}) == 1:
            name = next(iter(flat))
        texts = [
            name for name in sorted(arrays) if name != self._label and arrays[name].dtype.kind in _TEXT_KINDS
        ]
        if texts and (name in texts or name is None):
            raise self._is_text(name or texts[0])
        if name is None:
            raise DataError(
                f"{self._path}: which data set holds the features? pass --features with its name "
                f"({', '.join(sorted(arrays)[:12]) or 'there is none in the file'})"
            )
        return DenseRows(name, flat[name])

    def _is_text(self, name: str) -> DataError:
        return DataError(
            f"{self._path}: {name} is text, and of HDF5 files arrays of numbers are read: write its columns as "
            f"Parquet, Arrow, CSV or JSON Lines, and train on that with --text {name}, or name a matrix of numbers "
            "with --features"
        )

    def _csr(self, name: str, group: Any) -> SparseRows:
        kind = _text(group.attrs.get("encoding-type", group.attrs.get("h5sparse_format", "csr_matrix")))
        if not kind.startswith("csr"):
            raise DataError(
                f"{self._path}: {name} is a {kind}, stored by columns; write it as CSR (X.tocsr())"
            )
        shape = group.attrs.get("shape", group.attrs.get("h5sparse_shape"))
        if shape is None and "shape" in set(group):
            shape = self._member(group, "shape")[:2]
        n_columns = None if shape is None else int(shape[1])
        indptr, indices, data = (self._member(group, part) for part in ("indptr", "indices", "data"))
        rows = SparseRows(name, indptr, indices, data, n_columns)
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
                    categories = self._member(groups[name], "categories")
                    require_texts(self._path, categories)
                    words = categories[()]
                    texts = words
                    if words.dtype.kind in "SO":
                        texts = np.array([_text(word) for word in words], object)
                    return self._member(groups[name], "codes"), texts
                if name in arrays:
                    return _flat(arrays[name]), None
        flat = {name: _flat(array) for name, array in arrays.items()}
        flat = {name: array for name, array in flat.items() if len(array.shape) == 1}
        label_name = find_name(self._path, flat, self._label, LABEL_NAMES, "label")
        if label_name is None and self._need_label:
            choices = [*flat, *(n for n, g in groups.items() if {"codes", "categories"} <= set(g))]
            raise no_labels(self._path, choices)
        return (None if label_name is None else flat[label_name]), None

    def _feature_names(self, file: Any, n_features: int | None) -> tuple[str, ...] | None:
        """Return AnnData's names of the columns."""
        import h5py

        if n_features is None or file.get("var", getclass=True, getlink=True) is not h5py.HardLink:
            return None
        var = file["var"]
        index = _text(var.attrs.get("_index", "_index"))
        if not isinstance(var, h5py.Group) or index not in set(var):
            return None
        names = self._member(var, index)
        if names.shape != (n_features,):
            return None
        require_texts(self._path, names)
        return tuple(_text(name) for name in names[()])


def _recorded_rows(X: DenseRows | SparseRows, reading: Reading | None) -> DenseRows | SparseRows:
    if isinstance(X, DenseRows):
        return DenseRows(X.name, recorded(X.values, X.name, reading))
    parts = ((part, f"{name} of {X.name}") for part, name in ((X.indptr, "indptr"), (X.indices, "indices")))
    indptr, indices = (recorded(part, name, reading) for part, name in parts)
    return SparseRows(X.name, indptr, indices, recorded(X.data, f"data of {X.name}", reading), X.n_columns)


def _plain(texts: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield the texts as an array of characters, all as long as the longest, one at a time; numbers as they are."""
    if texts.dtype != object:
        yield texts
        return
    longest = max(map(len, texts), default=0)
    for text in texts:
        yield np.array([text], f"U{max(longest, 1)}")


def _flat(array: Any) -> Any:
    return Flat(array) if len(array.shape) == 2 and 1 in array.shape else array


def _stored(array: Any) -> int:
    """Return the bytes of a data set in the file."""
    return int(array.id.get_storage_size())


def _members(path: str, file: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the data sets and groups by their path, and by their last name where that is unique. Raises DataError
    where a data set has its values in other files."""
    import h5py

    arrays: dict[str, Any] = {}
    groups: dict[str, Any] = {}
    short: dict[str, list[Any]] = {}

    def visit(name: str, member: Any) -> None:
        if isinstance(member, h5py.Group):
            groups[name] = member
        elif isinstance(member, h5py.Dataset):
            if member.is_virtual or member.external is not None:
                raise DataError(f"{path}: {member.name} has its values in other files; {_COPY}")
            arrays[name] = member
            short.setdefault(name.rsplit("/", 1)[-1], []).append(member)

    file.visititems(visit)
    for name, members in short.items():
        if len(members) == 1 and name not in _CSR:
            arrays.setdefault(name, members[0])
    return arrays, groups


def _chunk_bytes(reader: MatrixReader) -> tuple[int, int]:
    """Return the size of a chunk cache in which no chunk is decompressed twice, if that is affordable; and what is
    held in all."""
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
    """Return the bytes of a data set's chunk, unpacked; 0 where it is not in chunks, or is none."""
    if array is None or array.chunks is None:
        return 0
    return math.prod(array.chunks) * int(array.dtype.itemsize)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


# Lengths of the texts in HDF5's data sets, known before any of them is read: of text of variable length, a data
# set holds for each the number of its bytes and where they are.

_REFERENCE = np.dtype([("length", "<u4"), ("place", "V12")])  # of a text: its bytes, and where they are
_TOGETHER = 1 << 14  # that are looked at
_MAX_CHUNK_BYTES = 16 << 20  # unpacked; larger ones are not looked into
_TEXT_BYTES = 150  # of a text, however short: as bytes, as str, in an array
_UNEVEN = 4  # times the mean: the longest, where it is not to be seen
_COPIES = 5  # of a text while it is read: HDF5's, as bytes, as str, in arrays; measured


def require_texts(path: str, array: Any) -> None:
    """Raise BudgetError where the limit leaves no room for all texts of a data set, read at a time."""
    if array.dtype.kind not in "SO":
        require_room(path, 2 * array.size * array.dtype.itemsize)
        return
    require_room(path, _COPIES * text_bytes(path, array)[0] + _TEXT_BYTES * array.size)


def text_bytes(path: str, array: Any) -> tuple[int, int]:
    """Return (bytes of all texts of a data set, of the longest). Where they cannot be known, all are what the file
    has beside its data sets, and none is much longer than the others."""
    if array.dtype.kind == "S":
        return array.size * array.dtype.itemsize, array.dtype.itemsize
    total = longest = 0
    try:
        for lengths in _lengths(path, array):
            total += int(lengths.sum(dtype=np.int64))
            longest = max(longest, int(lengths.max(initial=0)))
    except (OSError, ValueError, RuntimeError, TypeError, zlib.error):
        total = int(array.file.id.get_filesize()) - _in_data_sets(array.file)
        longest = min(total, _UNEVEN * total // max(array.size, 1))
    return total, longest


def _lengths(path: str, array: Any) -> Iterator[NDArray[np.uint32]]:
    """Raises ValueError where they are not to be seen."""
    if array.chunks is None:
        place = array.id.get_offset()
        if place is None:
            raise ValueError("within its own head")
        with open_binary(path) as file:
            file.seek(place)
            for at in range(0, array.size, _TOGETHER):
                n = min(_TOGETHER, array.size - at)
                yield np.frombuffer(file.read(n * _REFERENCE.itemsize), _REFERENCE)["length"]
        return
    n_bytes = int(np.prod(array.chunks)) * _REFERENCE.itemsize
    packed = array.compression == "gzip"
    others = array.id.get_create_plist().get_nfilters() - packed - array.shuffle
    if n_bytes > _MAX_CHUNK_BYTES or others:
        raise ValueError("stored in another way")
    for i in range(array.id.get_num_chunks()):
        info = array.id.get_chunk_info(i)
        if info.size > _MAX_CHUNK_BYTES:
            raise ValueError(info.size)
        mask, data = array.id.read_direct_chunk(info.chunk_offset)
        if mask:
            raise ValueError("stored in several ways")
        if packed:
            data = zlib.decompressobj().decompress(data, n_bytes)
        if array.shuffle:
            data = np.frombuffer(data, np.uint8).reshape(_REFERENCE.itemsize, -1).T.tobytes()
        yield np.frombuffer(data, _REFERENCE)["length"]


def _in_data_sets(file: Any) -> int:
    """Return the bytes of all data sets of a file; texts of variable length are elsewhere."""
    import h5py

    sizes = [0]

    def visit(name: str, member: Any) -> None:
        if isinstance(member, h5py.Dataset):
            sizes.append(int(member.id.get_storage_size()))

    file.visititems(visit)
    return sum(sizes)
