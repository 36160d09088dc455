"""Arrays that the caller has, as blocks: held by him, as views where they can be, or given in batches."""

from __future__ import annotations

import mmap
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from llsvm.block import CSR, WEIGHT_BYTES, Block, Matrix, refuse_damaged
from llsvm.data.batches import Batches
from llsvm.data.source import BlockSource, SourceInfo
from llsvm.errors import DataError
from llsvm.features.array_labels import as_array, labels_of, weights_of
from llsvm.features.frames import column_names
from llsvm.features.scaling import filled
from llsvm.objective.rounding import Rounding, is_long

MAX_COLUMNS = 2**31 - 1
STEP = 1 << 20  # values looked at together while a sparse matrix is checked


class ArraySource:
    """X, y and perhaps sample weights as blocks.

    X: (n, d) dense (anything ``np.asarray`` takes) or SciPy sparse; bool, integers or floats. The columns of a data
        frame keep their names.
    y: (n,) labels: bool, integers, finite floats or text; None: there are none.
    sample_weight: (n,) numbers, finite, not negative; factors of C. None: all 1.
    missing: "refuse", "zero" or "mean": NaN is refused, becomes 0, or stays.

    A block is a view where X is float32 or float64, writeable, and C-contiguous or CSR with int32 indices.
    Otherwise each block is a copy, made anew in each pass: float32 if that holds every value of X's type,
    else float64; duplicates in a sparse row are summed. X is never altered. It is copied whole only where it
    cannot be read by rows: lists, data frames, and sparse formats other than CSR. Rows of a mapped file
    (np.memmap) are read block by block, as those of files are.

    Raises DataError for shapes that do not fit, values that are not finite (found as the blocks go by) and
    types that are not numbers.
    """

    def __init__(
        self, X: Any, y: ArrayLike | None, sample_weight: ArrayLike | None = None, missing: str = "refuse"
    ) -> None:
        self.bytes_read = 0  # from disk, where X is mapped from there
        self._missing = missing
        self._names = column_names(X)
        self.rounding = Rounding()  # float32 arrays are exact, but what scaling makes of them may not be
        self._X: _Dense | _Sparse = _Sparse(X) if _is_sparse(X) else _Dense(X)
        self._mapped = _mapped(X)
        n, d = self._X.shape
        if n == 0:
            raise DataError(
                f"Found array with 0 sample(s) (shape=({n}, {d})) while a minimum of 1 is required."
            )
        if d == 0:
            raise DataError(
                f"Found array with 0 feature(s) (shape=({n}, {d})) while a minimum of 1 is required."
            )
        if d > MAX_COLUMNS:
            raise DataError(f"X has {d} columns; at most {MAX_COLUMNS} are supported, hash the features")
        self._labelled = y is not None
        self._y = labels_of(np.zeros(n) if y is None else y, n)
        self._weight = None if sample_weight is None else weights_of(sample_weight, n)
        self._checked = 0  # X's values in the rows before this one are known to be fit for training

    def info(self) -> SourceInfo:
        """Return what is known of the arrays: everything is known from the start."""
        n, d = self._X.shape
        n_bytes = self._X.nbytes + self._y.nbytes + (0 if self._weight is None else self._weight.nbytes)
        return SourceInfo(
            "arrays",
            "arrays",
            n_bytes=n_bytes,
            n_rows=n,
            n_features=d,
            in_memory=self._mapped is None,
            labelled=self._labelled,
            feature_names=self._names,
            rounding=(self.rounding,),
        )

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the rows in order; see BlockSource. Raises DataError for inf and NaN that is refused, with the
        cell."""
        n = self._X.shape[0]
        row_bytes = self._y.itemsize + 8 + (0 if self._weight is None else WEIGHT_BYTES)
        if self.rounding.double:
            max_bytes //= 2
        start = 0
        while start < n:
            stop = self._X.stop(start, row_bytes, max_bytes)
            X = self._X.rows(start, stop)
            if stop > self._checked:
                _check_finite(X, start, self._missing)
                self._checked = stop
            X = filled(X, None, 0) if self._missing == "zero" else X
            if self._mapped is not None and not isinstance(X, CSR):
                X = X.copy() if X.base is not None else X
                self._mapped.madvise(mmap.MADV_DONTNEED)
                self.bytes_read += X.nbytes
            if self.rounding.double:
                X = _wide(X)
            self._X.note(self.rounding, start, stop)
            weight = None if self._weight is None else self._weight[start:stop].astype(np.float64, copy=False)
            yield Block(X, self._y[start:stop], np.arange(start, stop, dtype=np.int64), weight)
            start = stop


class _Dense:
    """Rows of a dense array."""

    def __init__(self, X: Any) -> None:
        self._X = as_array("X", X)
        if self._X.ndim != 2:
            raise DataError(
                f"Expected 2D array, got {self._X.ndim}D array instead (shape {self._X.shape}). Reshape your "
                "data: X.reshape(-1, 1) if it has one feature, X.reshape(1, -1) if it is one row."
            )
        self._dtype = _value_type(self._X.dtype)
        self.shape: tuple[int, int] = self._X.shape
        self.nbytes: int = self._X.nbytes

    def stop(self, start: int, row_bytes: int, max_bytes: int) -> int:
        """Return the row at which a block that begins with row ``start`` ends."""
        n, d = self.shape
        return min(start + max(max_bytes // (row_bytes + d * self._dtype.itemsize), 1), n)

    def rows(self, start: int, stop: int) -> NDArray[np.floating]:
        part = self._X[start:stop]
        # a read-only array is copied, for each kernel would have to be compiled once more for it
        if part.dtype == self._dtype and part.flags.c_contiguous and part.flags.writeable:
            return part
        with np.errstate(over="ignore"):  # becomes inf, which is refused
            return part.astype(self._dtype, order="C")

    def note(self, rounding: Rounding, start: int, stop: int) -> None:
        """Note in ``rounding`` what the whole numbers of rows ``start`` to ``stop`` lose as floats."""
        if is_long(self._X.dtype):
            rounding.note(self._X[start:stop], self._X[start:stop].astype(self._dtype), 0)


class _Sparse:
    """Rows of a SciPy sparse matrix."""

    def __init__(self, X: Any) -> None:
        if X.ndim != 2:
            raise DataError(
                f"Expected 2D array, got {X.ndim}D array instead (shape {X.shape}). Reshape your data."
            )
        self._dtype = _value_type(X.dtype)
        X = X.tocsr()
        self._indptr, self._indices, self._data = X.indptr, X.indices, X.data
        self.shape: tuple[int, int] = X.shape
        self.nbytes: int = self._indptr.nbytes + self._indices.nbytes + self._data.nbytes
        refuse_damaged(X)
        self._sorted = _rows_ascend(self._indptr, self._indices)

    def stop(self, start: int, row_bytes: int, max_bytes: int) -> int:
        """Return the row at which a block that begins with row ``start`` ends."""
        n = self.shape[0]
        value_bytes = 4 + self._dtype.itemsize
        first = int(self._indptr[start])

        def nbytes(stop: int) -> int:
            n_rows = stop - start
            return value_bytes * (int(self._indptr[stop]) - first) + 8 * (n_rows + 1) + row_bytes * n_rows

        return start + 1 + bisect_right(range(start + 2, n + 1), max_bytes, key=nbytes)

    def rows(self, start: int, stop: int) -> CSR:
        indptr = self._indptr[start : stop + 1].astype(np.int64)
        if self._sorted and _fits(self._indices, np.dtype(np.int32)) and _fits(self._data, self._dtype):
            return CSR(indptr, self._indices, self._data)
        values = slice(indptr[0], indptr[-1])
        indptr -= indptr[0]
        with np.errstate(over="ignore"):  # becomes inf, which is refused
            data = self._data[values].astype(self._dtype)
        indices = self._indices[values].astype(np.int32)
        return (
            CSR(indptr, indices, data) if self._sorted else _canonical(indptr, indices, data, self.shape[1])
        )

    def note(self, rounding: Rounding, start: int, stop: int) -> None:
        """Note in ``rounding`` what the whole numbers of rows ``start`` to ``stop`` lose as floats."""
        if is_long(self._data.dtype):
            values = self._data[self._indptr[start] : self._indptr[stop]]
            rounding.note(values, values.astype(self._dtype), None)


def _wide(X: Matrix) -> Matrix:
    """Return the rows with float64 values."""
    if not isinstance(X, CSR):
        return X.astype(np.float64, copy=False)
    first, last = int(X.indptr[0]), int(X.indptr[-1])
    return CSR(X.indptr - first, X.indices[first:last], X.data[first:last].astype(np.float64))


def _mapped(X: Any) -> mmap.mmap | None:
    """Return the mapping of a file, whose pages count as memory once they were looked at, until it is told
    otherwise; None for what is none, or has changes of its own (mode "c"), which that would lose."""
    while isinstance(X, np.ndarray):
        if isinstance(X, np.memmap) and X.mode == "c":
            return None
        X = X.base
    return X if isinstance(X, mmap.mmap) else None


def _is_sparse(X: Any) -> bool:
    sparse = sys.modules.get("scipy.sparse")  # who holds a sparse matrix has imported it
    return sparse is not None and bool(sparse.issparse(X))


def _value_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return float32 where it holds every value of ``dtype``, else float64."""
    if dtype.kind == "c":
        raise DataError(f"Complex data not supported: X has dtype {dtype}; use its real and imaginary part")
    if dtype.kind not in "biuf":
        raise DataError(f"X has dtype {dtype}; it must hold numbers, convert it with X.astype(float)")
    return np.dtype(np.float32 if np.can_cast(dtype, np.float32) else np.float64)


def _fits(values: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    # a read-only array is copied, for each kernel would have to be compiled once more for it
    return bool(values.dtype == dtype and values.flags.c_contiguous and values.flags.writeable)


def _rows_ascend(indptr: NDArray[Any], indices: NDArray[Any]) -> bool:
    """Return whether the indices of every row ascend, none repeated."""
    for at in range(int(indptr[0]), int(indptr[-1]) - 1, STEP):
        stop = min(at + STEP + 1, int(indptr[-1]))
        falls = at + 1 + np.flatnonzero(indices[at + 1 : stop] <= indices[at : stop - 1])
        # an index may be below the one before it only where a row begins
        if (indptr[np.searchsorted(indptr, falls)] != falls).any():
            return False
    return True


def _canonical(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], data: NDArray[np.floating], n_columns: int
) -> CSR:
    """Return the same rows with ascending indices, duplicates summed. The arrays given are used up."""
    from scipy.sparse import csr_matrix

    X = csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, n_columns))
    X.sum_duplicates()
    return CSR(X.indptr.astype(np.int64), X.indices.astype(np.int32, copy=False), X.data)


def _check_finite(X: CSR | NDArray[np.floating], first_row: int, missing: str) -> None:
    values = X.data[X.indptr[0] : X.indptr[-1]] if isinstance(X, CSR) else X
    finite = np.isfinite(values) if missing == "refuse" else ~np.isinf(values)
    if finite.all():
        return
    place = int(np.argmin(finite))
    if isinstance(X, CSR):
        place += int(X.indptr[0])
        value, column = X.data[place], X.indices[place]
        row = int(np.searchsorted(X.indptr, place, "right")) - 1
    else:
        row, column = divmod(place, X.shape[1])
        value = X[row, column]
    what = "NaN" if np.isnan(value) else "infinity or a value too large (inf)"
    more = "pass --missing zero or --missing mean, " * bool(np.isnan(value))
    raise DataError(
        f"Input X contains {what}: X[{first_row + row}, {column}]; {more}replace it, or leave its row or column out"
    )


class ArrayBatches:
    """Source of the arrays that a caller hands over in batches; see BlockSource. batches: of (X, y) or (X, y,
    sample_weight). make: a source over such a batch."""

    def __init__(self, batches: Batches, make: Callable[..., BlockSource]) -> None:
        self.bytes_read = 0
        self._batches = batches
        self._make = make
        first = make(*batches.first)
        self._info = first.info()
        self._largest = self._info.n_bytes or 0
        self._n_rows: int | None = None
        self._rounding = Rounding()

    def info(self) -> SourceInfo:
        """Return what is known of the batches: columns from the start, rows when all batches have been read."""
        return replace(
            self._info,
            name=self._batches.name,
            n_bytes=None,
            n_rows=self._n_rows,
            rereadable=self._batches.rereadable,
            in_memory=False,
            reader_bytes=2 * self._largest,
            rounding=(self._rounding,),
        )

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the rows in order; see BlockSource. Raises DataError."""
        row = 0
        for batch in self._batches.read():
            source = self._make(*batch)
            info = source.info()
            if info.n_features != self._info.n_features:
                raise DataError(
                    f"{self._batches.name}: {info.n_features} columns in the batch that begins with row {row + 1}, "
                    f"where the first one has {self._info.n_features}"
                )
            self._largest = max(self._largest, info.n_bytes or 0)
            for rounding in info.rounding:
                rounding.handle_as(self._rounding)
            try:
                for block in source.blocks(max_bytes):
                    yield Block(_copied(block.X), block.y.copy(), block.rows + row, block.weight)
            finally:
                for rounding in info.rounding:
                    self._rounding.take_in(rounding)
            row += info.n_rows or 0
        self._n_rows = row


def _copied(X: Matrix) -> Matrix:
    """Return a copy: the caller may fill the arrays of a batch anew for the next one."""
    if not isinstance(X, CSR):
        return X.copy()
    first, last = int(X.indptr[0]), int(X.indptr[-1])
    return CSR(X.indptr - first, X.indices[first:last].copy(), X.data[first:last].copy())
