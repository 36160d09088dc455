"""Matrices in files: what HDF5 and NumPy files have in common. Rows in slices, by their own or usual names."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, WEIGHT_BYTES, Block, Matrix
from llsvm.data.source import SourceInfo
from llsvm.errors import DataError, LongRowError, MissingColumnError, UsageError
from llsvm.features.labels import WHOLE_BELOW
from llsvm.files.fingerprint import FileFingerprint, Reading
from llsvm.files.inputs import disk_failed, size_and_mtime, unchanged, unreadable
from llsvm.files.remote import library_bytes
from llsvm.objective.rounding import Rounding

MAX_COLUMNS = 2**31 - 1
_INDEX_ROWS = 1 << 16  # row pointers looked at together
_LONG_ROW_FACTOR, _MIN_LONG_ROW_BYTES = 2, 8 << 20  # a shorter row may be larger than a block
DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, NotImplementedError),
    *(ValueError, RuntimeError, LookupError, TypeError, OverflowError),
)  # what libraries raise for files that are cut off or damaged


class Vector(Protocol):
    """An array in a file: ``[a:b]`` reads that slice."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __getitem__(self, key: slice) -> NDArray[Any]: ...


class Flat:
    """A matrix of one column, or of one row as MATLAB writes vectors, as a vector.

    values: (n, 1) or (1, n), in a file.
    """

    def __init__(self, values: Any) -> None:
        self.values = values
        self._is_column = values.shape[1] == 1
        self.shape, self.dtype = (max(values.shape),), values.dtype

    def __getitem__(self, key: slice) -> NDArray[Any]:
        part: NDArray[Any] = self.values[key] if self._is_column else self.values[0, key]
        return part.reshape(-1)


class Recorded:
    """An array in a file that a reading takes in as it is read from front to back.

    values: the array. name: of the part of the fingerprint. reading: what takes it in.
    """

    def __init__(self, values: Vector, name: str, reading: Reading) -> None:
        self.values, self._name, self._reading = values, name, reading
        self.shape, self.dtype = values.shape, values.dtype
        self._at = 0  # rows taken in

    def __getitem__(self, key: slice) -> NDArray[Any]:
        part = self.values[key]
        if key.start == self._at and len(part):
            self._at += len(part)
            self._reading.add(_bytes_of(part), self._name)
        return part


def recorded(values: Any, name: str, reading: Reading | None) -> Any:
    """Return ``values``, taken in by ``reading`` if there is one; None stays None."""
    return values if values is None or reading is None else Recorded(values, name, reading)


def _bytes_of(values: NDArray[Any]) -> Any:
    """Return the values as a buffer."""
    if values.dtype.kind == "O":  # text
        return b"".join(
            b"%s\0" % (each if isinstance(each, bytes) else str(each).encode()) for each in values
        )
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


@dataclass(slots=True)
class DenseRows:
    """A dense matrix in a file.

    name: of the array. values: (n, d) numbers.
    """

    name: str
    values: Vector

    @property
    def shape(self) -> tuple[int, int]:
        n, d = self.values.shape
        return n, d


@dataclass(slots=True)
class SparseRows:
    """CSR in a file: row i has ``indices[indptr[i]:indptr[i+1]]``.

    name: of the three arrays together.
    indptr: (n + 1,) integers, from 0. indices: (nnz,) integers, from 0. data: (nnz,) numbers.
    n_columns: d; None where the file does not say.
    """

    name: str
    indptr: Vector
    indices: Vector
    data: Vector
    n_columns: int | None

    @property
    def shape(self) -> tuple[int, int | None]:
        return self.indptr.shape[0] - 1, self.n_columns


class MatrixReader:
    """Blocks of rows from arrays in a file.

    where: the file's name, for messages.
    X: n rows of features.
    y: (n,) numbers or text, labels; None: there are none.
    weight: (n,) numbers, sample weights; None: all 1.
    label_texts: (k,) labels that y holds positions in; None: y has the labels themselves.
    missing: "refuse", "zero" or "mean": NaN is refused, becomes 0, or stays.
    rounding: how values are kept; None: as 32-bit floats.
    longest_label: its bytes, of labels that are text of variable length.
    Raises DataError where lengths do not match.
    """

    def __init__(
        self,
        where: str,
        X: DenseRows | SparseRows,
        y: Vector | None,
        weight: Vector | None,
        label_texts: NDArray[Any] | None = None,
        missing: str = "refuse",
        rounding: Rounding | None = None,
        longest_label: int = 0,
    ) -> None:
        self.where, self.X, self.y, self.weight = where, X, y, weight
        # objects: as an array of text all rows would be as long as the longest label
        self.label_texts = None if label_texts is None else label_texts.astype(object)
        self.missing = missing
        self.rounding = rounding or Rounding()
        self._longest_label = longest_label
        if isinstance(X, SparseRows):
            for name, numbers in (("indptr", X.indptr), ("indices", X.indices), ("data", X.data)):
                if len(numbers.shape) != 1 or (name != "data" and numbers.dtype.kind not in "iu"):
                    raise DataError(
                        f"{where}: {name} of {X.name} has shape {numbers.shape} and type {numbers.dtype}; "
                        "a CSR matrix has vectors there, indptr and indices integers"
                    )
        self.n_rows = X.shape[0]
        for name, values in (("labels", y), ("weights", weight)):
            if values is not None and (len(values.shape) != 1 or values.shape[0] != self.n_rows):
                raise DataError(
                    f"{where}: {self.n_rows} rows in {X.name}, but {name} of shape {values.shape}; "
                    "there must be one for each row"
                )
        if isinstance(X, SparseRows) and X.indices.shape != X.data.shape:
            raise DataError(
                f"{where}: {X.indices.shape[0]} indices, but {X.data.shape[0]} values in {X.name}; "
                "the file is damaged or was not written to its end"
            )
        if self.n_rows <= 0:
            raise DataError(f"{where}: there is no row in {X.name}; give a file with at least one row")
        columns = X.shape[1]
        if columns is not None and not 0 < columns <= MAX_COLUMNS:
            raise DataError(
                f"{where}: {X.name} has {columns} columns; 1 to {MAX_COLUMNS} are supported: hash the features, "
                "or write the file again if it is damaged"
            )

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield all rows; the file's arrays are read from front to back."""
        if isinstance(self.X, SparseRows):
            start = 0
            for indptr in self._pieces(self.X, max_bytes):
                stop = start + len(indptr) - 1
                yield self._block(self._sparse_rows(self.X, indptr, start), start, stop)
                start = stop
        else:
            for start, stop in self._bounds(self.X, max_bytes):
                values = self._part(self.X.name, self.X.values, start, stop)
                X = self._finite_dense(self._floats(values), start)
                yield self._block(X, start, stop)

    def _block(self, X: Matrix, start: int, stop: int) -> Block:
        rows = np.arange(start, stop, dtype=np.int64)
        return Block(X, self._labels(start, stop), rows, self._weights(start, stop))

    def _part(self, name: str, values: Vector, start: int, stop: int) -> NDArray[Any]:
        """Return ``values[start:stop]``. Raises DataError where the file is damaged there."""
        try:
            return np.asarray(values[start:stop])
        except DataError:
            raise
        except DAMAGE as error:
            if disk_failed(error):
                raise unreadable(self.where, error) from error
            reason = " ".join(str(error).split())
            raise DataError(
                f"{self.where}: {name}: rows or values {start:,} to {stop:,} cannot be read, "
                f"the file is cut off or damaged: {reason}; fetch or write it again"
            ) from error

    def _row_bytes(self) -> int:
        label = 8
        if self.label_texts is not None:
            label = max(8, self.label_texts.dtype.itemsize)
        elif self.y is not None and self.y.dtype.kind in "SUO":
            label = 4 * max(self.y.dtype.itemsize, self._longest_label, 16)
        return label + 8 + 8 + (WEIGHT_BYTES if self.weight is not None else 0)

    def _bounds(self, X: DenseRows, max_bytes: int) -> Iterator[tuple[int, int]]:
        """Yield row ranges of a dense matrix. Values of another type than float32 are read before they are cast."""
        dtype = self.rounding.dtype
        wide = dtype.itemsize + (X.values.dtype.itemsize if X.values.dtype != dtype else 0)
        row_bytes = X.shape[1] * wide + self._row_bytes()
        self._require_no_longer(0, row_bytes, max_bytes)
        step = max(1, max_bytes // row_bytes)
        for start in range(0, self.n_rows, step):
            yield start, min(start + step, self.n_rows)

    def _pieces(self, X: SparseRows, max_bytes: int) -> Iterator[NDArray[np.int64]]:
        """Yield row pointers of blocks with at most ``max_bytes``; the last of a piece is the first of the next."""
        row_bytes, n_values = self._row_bytes() + 8, X.indices.shape[0]
        pending = self._part(f"indptr of {X.name}", X.indptr, 0, 1).astype(np.int64)
        if pending[0] != 0:
            self._bad(0, f"the row pointers begin with {pending[0]} instead of 0")
        for at in range(0, self.n_rows, _INDEX_ROWS):
            stop = min(at + _INDEX_ROWS, self.n_rows) + 1
            ends = self._part(f"indptr of {X.name}", X.indptr, at + 1, stop).astype(np.int64)
            bad = (ends < 0) | (ends > n_values) | (np.diff(ends, prepend=pending[-1]) < 0)
            if bad.any():
                row = at + int(np.argmax(bad))
                self._bad(row, f"its row pointers do not ascend up to {n_values}, the values that there are")
            pending = np.concatenate([pending, ends])
            while len(pending) > 1:
                value_bytes = 4 + self.rounding.dtype.itemsize
                sizes = value_bytes * (pending - pending[0]) + 8 + row_bytes * np.arange(len(pending))
                fits = max(1, int(np.searchsorted(sizes, max_bytes, "right")) - 1)
                self._require_no_longer(stop - len(pending), int(sizes[1]), max_bytes)
                if fits == len(pending) - 1:  # as far as is known: the next rows may fit too
                    break
                yield pending[: fits + 1]
                pending = pending[fits:]
        if len(pending) > 1:
            yield pending

    def _require_no_longer(self, row: int, row_bytes: int, max_bytes: int) -> None:
        if row_bytes > max(_LONG_ROW_FACTOR * max_bytes, _MIN_LONG_ROW_BYTES):
            raise LongRowError(
                f"{self.where}: {self.X.name}: row {row + 1} takes {row_bytes:,} bytes, too long for the memory "
                "limit; pass a larger --memory-limit",
                row_bytes,
            )

    def _sparse_rows(self, X: SparseRows, indptr: NDArray[np.int64], start: int) -> CSR:
        first, last = int(indptr[0]), int(indptr[-1])
        raw = self._part(f"indices of {X.name}", X.indices, first, last)
        data = self._part(f"data of {X.name}", X.data, first, last)
        indptr = indptr - first
        n_columns = X.n_columns if X.n_columns is not None else MAX_COLUMNS
        bad = (raw < 0) | (raw >= n_columns)  # as they are stored: in 32 bits they would wrap
        if bad.any():
            place = int(np.argmax(bad))
            row = start + int(np.searchsorted(indptr, place, "right")) - 1
            self._bad(row, f"column index {raw[place]}, but there are {n_columns} columns")
        indptr, indices, data = _ascending(CSR(indptr, raw.astype(np.int32), data))
        return self._finite_sparse(CSR(indptr, indices, self._floats(data)), start)

    def _floats(self, values: NDArray[Any]) -> NDArray[np.floating]:
        if values.dtype.kind not in "biuf":
            raise DataError(f"{self.where}: {self.X.name} has type {values.dtype}; it must hold numbers")
        return self.rounding.values(values)  # what is too large becomes infinite, which is refused

    def _finite_dense(self, X: NDArray[np.floating], start: int) -> NDArray[np.floating]:
        if not self._clean(X):
            row, column = divmod(int(np.argmin(self._good(X))), X.shape[1])
            self._bad_value(start + row, column, float(X[row, column]))
        return X

    def _finite_sparse(self, X: CSR, start: int) -> CSR:
        if not self._clean(X.data):
            place = int(np.argmin(self._good(X.data)))
            row = start + int(np.searchsorted(X.indptr, place, "right")) - 1
            self._bad_value(row, int(X.indices[place]), float(X.data[place]))
        return X

    def _clean(self, values: NDArray[np.floating]) -> bool:
        """Replace missing values where that is wanted; are all values fit for training then?"""
        if np.isfinite(values).all():
            return True
        if self.missing == "zero":
            values[np.isnan(values)] = 0
        return bool(self._good(values).all())

    def _good(self, values: NDArray[np.floating]) -> NDArray[np.bool_]:
        return ~np.isinf(values) if self.missing == "mean" else np.isfinite(values)

    def _bad_value(self, row: int, column: int, value: float) -> NoReturn:
        if np.isnan(value):
            self._bad(
                row,
                f"the value in column {column} is missing (NaN); train with --missing zero or --missing mean, "
                "or fill it in",
            )
        what = f"is infinite, or too large for {self.rounding.kind}; write a finite number"
        self._bad(row, f"the value in column {column} {what}")

    def _bad(self, row: int, what: str) -> NoReturn:
        raise DataError(f"{self.where}: {self.X.name}: row {row + 1}: {what}")

    def _labels(self, start: int, stop: int) -> NDArray[Any]:
        if self.y is None:
            return np.zeros(stop - start)
        y = self._part("labels", self.y, start, stop)
        if self.label_texts is not None:
            if len(y) and (y.min() < 0 or y.max() >= len(self.label_texts)):
                self._bad(
                    start + int(np.argmax((y < 0) | (y >= len(self.label_texts)))), "the label is missing"
                )
            return self.label_texts[y]
        if y.dtype.kind in "SO":
            return np.array([each.decode() if isinstance(each, bytes) else str(each) for each in y], object)
        if y.dtype.kind in "Ub":
            return y
        if y.dtype.kind not in "iuf":
            raise DataError(f"{self.where}: labels of type {y.dtype}; they must be numbers or text")
        if y.dtype.kind in "iu" and len(y) and max(-int(y.min()), int(y.max())) >= WHOLE_BELOW:
            return y
        with np.errstate(invalid="ignore"):  # what is not a number is refused
            y = y.astype(np.float64)
        if not np.isfinite(y).all():
            self._bad(
                start + int(np.argmin(np.isfinite(y))),
                "the label is missing (NaN) or infinite; give it a finite number, or leave the row out",
            )
        return y

    def _weights(self, start: int, stop: int) -> NDArray[np.float64] | None:
        if self.weight is None:
            return None
        weight = np.asarray(self._part("weights", self.weight, start, stop), np.float64)
        good = np.isfinite(weight) & (weight >= 0)
        if not good.all():
            at = int(np.argmin(good))
            self._bad(start + at, f"weight {weight[at]}; weights are 0 or more")
        return weight


def _ascending(X: CSR) -> CSR:
    """Return the same rows with ascending columns, doubled ones summed."""
    row = np.repeat(np.arange(len(X.indptr) - 1), np.diff(X.indptr))
    if len(row) == 0 or np.all((row[1:] != row[:-1]) | (X.indices[1:] > X.indices[:-1])):
        return X
    from llsvm.block import from_cells

    return from_cells(row, X.indices, X.data, len(X.indptr) - 1)


# What readers of matrices in files share. A format adds how its arrays are found.


class MatrixSource(ABC):
    """One file of arrays as blocks: X float32 or float64, dense or CSR; see BlockSource.

    path: of the file. label, features, weight: names of arrays; None: see the format's own file.
    missing: "refuse", "zero" or "mean": what becomes of NaN; None: "refuse".
    need_label: refuse a file without labels.
    first: of the files that are read as one; None: this one. They share ``rounding``.
    Raises DataError for a file that cannot be read, or lacks an array; UsageError for several features.
    """

    format: str

    def __init__(
        self,
        path: str,
        label: str | None = None,
        features: Any = None,
        weight: str | None = None,
        missing: str | None = None,
        need_label: bool = True,
        first: MatrixSource | None = None,
    ) -> None:
        self.bytes_read = 0
        self.rounding: Rounding = Rounding() if first is None else first.rounding
        self._path = path
        self._label, self._features, self._weight = label, one_name(path, features), weight
        self._missing = missing or "refuse"
        self._need_label = need_label
        self._notes: tuple[str, ...] = ()
        self._names: tuple[str, ...] | None = None
        self._library_bytes, self._held_bytes = library_bytes([path]), 0
        self._prints = {each: size_and_mtime(each) for each in self._files()}
        self._fingerprints: dict[str, FileFingerprint] = {}  # by path, once all have been read to their end
        with ExitStack() as files:
            reader = self._open(files, {})
            self._n_rows = reader.n_rows
            self._n_features = reader.X.shape[1]
            self._is_dense = isinstance(reader.X, DenseRows)
            self._labelled = reader.y is not None

    def _files(self) -> list[str]:
        """Return the paths of all files that are read, the matrix's first."""
        return [self._path]

    @abstractmethod
    def _open(self, files: ExitStack, readings: Mapping[str, Reading]) -> MatrixReader:
        """Return the file's arrays, open until ``files`` closes. readings: by path, to be shown what is read of a
        file; none for the first look, before any row is read. Raises DataError."""

    def info(self) -> SourceInfo:
        """Return what is known of the matrix: rows and columns from the start, but for CSR without a shape."""
        prints = tuple(self._fingerprints[path] for path in self._prints if path in self._fingerprints)
        return SourceInfo(
            name=self._path,
            format=self.format,
            n_bytes=self._prints[self._path][0],
            n_rows=self._n_rows,
            n_features=self._n_features,
            feature_names=self._names,
            reader_bytes=self._library_bytes + self._held_bytes,
            library_bytes=self._library_bytes,
            notes=self._notes,
            is_dense=self._is_dense,
            labelled=self._labelled,
            rounding=(self.rounding,),
            fingerprints=prints or None,
            file_rows=(self._n_rows,) if len(self._prints) == 1 else None,
        )

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the rows in order; see BlockSource."""
        counted, largest, n_bytes = 0, -1, self._prints[self._path][0]
        readings = {path: Reading(path, self._fingerprints.get(path)) for path in self._prints}
        with ExitStack() as files:
            for path, size_and_mtime in self._prints.items():
                files.enter_context(unchanged(path, size_and_mtime))
            for block in self._open(files, readings).blocks(max_bytes):
                share = n_bytes * (int(block.rows[-1]) + 1) // self._n_rows
                self.bytes_read += share - counted
                counted = share
                if self._n_features is None and isinstance(block.X, CSR):
                    largest = max(largest, int(block.X.indices.max(initial=-1)))
                yield block
            self._fingerprints = {
                path: reading.finish(self._prints[path][0]) for path, reading in readings.items()
            }
        if self._n_features is None:
            self._n_features = largest + 1


# Names of arrays in files: which one holds the features, the labels, the sample weights.

FEATURE_NAMES = ("X", "x", "data", "features", "X_train", "train")
LABEL_NAMES = ("y", "Y", "label", "labels", "target", "targets", "class", "y_train")
WEIGHT_NAMES = ("weight", "weights", "sample_weight")


def find_name(
    where: str, names: Collection[str], wanted: str | None, usual: tuple[str, ...], option: str
) -> str | None:
    """Return the array that is meant: the one asked for, else one with a usual name, else None. Raises
    DataError."""
    if wanted:
        if wanted in names:
            return wanted
        raise MissingColumnError(
            f"{where}: there is no array", wanted, option, f"it has {', '.join(sorted(names)[:12])}"
        )
    return next((name for name in usual if name in names), None)


def unasked_weights(where: str, names: Collection[str], wanted: str | None) -> tuple[str, ...]:
    """Return a note on an array that could be sample weights, where none is asked for."""
    name = next((name for name in WEIGHT_NAMES if name in names), None)
    if wanted or name is None:
        return ()
    return (f"{where}: the array {name!r} is left aside (--weight {name} takes it for sample weights)",)


def one_name(where: str, features: Any) -> str | None:
    """Return the one array that --features names in such a file."""
    if not features:
        return None
    if len(features) != 1:
        raise UsageError(
            f"{where}: --features names the one array of features in such a file, not {len(features)}"
        )
    return str(features[0])


def no_labels(where: str, names: Collection[str]) -> DataError:
    return DataError(
        f"{where}: no labels: none of the arrays is named {', '.join(LABEL_NAMES[:5])}; "
        f"pass --label with the name of one ({', '.join(sorted(names)[:12])})"
    )
