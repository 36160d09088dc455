"""Facts that the first reading learns of rows, page by page: how they could be held, weights, sizes, lengths."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, ROW_BYTES, TARGET_BYTES, WEIGHT_BYTES, Block, Matrix, running_sum
from llsvm.errors import DataError
from llsvm.features.targets import RowLabels
from llsvm.files.fingerprint import FileFingerprint
from llsvm.row_buffer import row_bytes

DENSE_SHARE = 0.5  # of cells that are filled: dense float32 takes 4 bytes a cell, CSR 8 bytes a value

_MAX_WEIGHT = 1e60  # of a row: times its C, and that squared, it is a 64-bit float
_MAX_WIDENED = 64  # rows in memory are copied each time that columns are added
_INDPTR_BYTES = np.dtype(np.int64).itemsize


_ROWS_LOOKED_AT = 10_000


class RowShape:
    """The rows' number, width, type and layout.

    n_rows, nnz, n_columns: of all rows so far. dtype: the type that holds their values.
    raw_dense: the source handed out the last of them as dense rows.
    width: columns of rows in memory, where these are dense, as the first page was; None where they are sparse.
    mixed: there are rows that cannot be held in memory with those before them, as much wider ones.
    """

    def __init__(self) -> None:
        self.n_rows = self.nnz = self.n_columns = 0
        self.dtype = np.dtype(np.float32)
        self.raw_dense = self.mixed = False
        self.width: int | None = None
        self._kind: tuple[bool, np.dtype] | None = None  # of the first page: weighted, and the values' type
        self._widened = 0  # how often the width has grown

    def widen(self, columns: int) -> None:
        """Take in that the next rows have so many columns."""
        self.n_columns = max(self.n_columns, columns)

    def update(self, raw: Block, page: Block) -> None:
        """Take in rows, after ``widen``. raw: as the source has them. page: as they are kept."""
        X = raw.X
        self.raw_dense = not isinstance(X, CSR)
        self.n_rows += raw.n_rows
        self.nnz += raw.nnz
        self.dtype = np.result_type(self.dtype, X.data.dtype if isinstance(X, CSR) else X.dtype)
        self._look_at_kind(page)

    def merge(self, other: RowShape) -> None:
        """Take in the number, width and type of rows that are held elsewhere."""
        self.n_rows, self.nnz = self.n_rows + other.n_rows, self.nnz + other.nnz
        self.widen(other.n_columns)
        self.dtype = np.result_type(self.dtype, other.dtype)

    def _look_at_kind(self, page: Block) -> None:
        """Set ``mixed`` where the page cannot be held with those before it, even if there is room. Dense rows
        become wider where columns have appeared that the first page did not have, if they still are mostly
        filled."""
        kind = page.weight is not None, self.dtype
        if self._kind is None:
            self._kind = kind
            self.width = None if isinstance(page.X, CSR) else page.X.shape[1]
        elif kind != self._kind:
            self.mixed = True
        elif self.width is not None and self.n_columns > self.width:
            self._widened += 1
            self.mixed |= not self.is_mostly_filled(self.n_columns) or self._widened > _MAX_WIDENED
            self.width = self.n_columns

    def is_mostly_filled(self, n_columns: int) -> bool:
        """Return whether a dense array of so many columns would be smaller than the stored values."""
        return self.nnz > DENSE_SHARE * self.n_rows * n_columns

    def held_bytes(self, weighted: bool, has_targets: bool) -> int:
        """Return what all rows take in memory, unless they are ``mixed``."""
        return row_bytes(self.n_rows, self.nnz, self.dtype.itemsize, self.width, weighted, has_targets)


class SampleWeights:
    """The sample weights s_i of rows, 1 where there are none.

    given: a page had weights. total: Σ s_i. largest: max s_i.
    """

    def __init__(self) -> None:
        self.given = False
        self.total = self.largest = 0.0
        self._by_class = np.zeros((2, 0))  # rows that have weights, and Σ s_i² over these

    def expect(self, raw: Block) -> None:
        """Take in whether the next rows have weights."""
        self.given |= raw.weight is not None

    def update(self, page: Block, source: str) -> None:
        """Take in a page, whose labels are class ids or targets. source: its name, for errors.

        Raises DataError for a weight beyond 1e60, or below 1e-60, but 0.
        """
        weight = page.weight
        self.total = running_sum(self.total, weight, page.n_rows)
        self.largest = max(self.largest, 1.0 if weight is None else float(weight.max(initial=0.0)))
        if weight is None:
            return
        bad = (weight > 0) & ((weight < 1.0 / _MAX_WEIGHT) | (weight > _MAX_WEIGHT))
        if bad.any():
            at = int(np.argmax(bad))
            raise DataError(
                f"{source}: row {int(page.rows[at]) + 1}: a sample weight of {weight[at]:g}: "
                "multiply all of them by one number, and divide -C by it"
            )
        self._add(np.stack([np.ones(page.n_rows), weight**2]), page.class_ids)

    def merge(self, other: SampleWeights, ids: NDArray[np.int32]) -> None:
        """Take in the weights of rows that follow. ids: (k,) of their classes, see LabelEncoder.merge."""
        self.given |= other.given
        self.total, self.largest = self.total + other.total, max(self.largest, other.largest)
        self._add(other._by_class, ids[: other._by_class.shape[1]])

    def _add(self, sums: NDArray[np.float64], ids: NDArray[np.int32]) -> None:
        """Add the columns of ``sums`` to those of the classes ``ids``."""
        before, k = self._by_class, max(self._by_class.shape[1], int(ids.max(initial=-1)) + 1)
        self._by_class = np.array([np.bincount(ids, each, k) for each in sums], np.float64)
        self._by_class[:, : before.shape[1]] += before

    def squares(self, labels: RowLabels) -> NDArray[np.float64]:
        """Return (k,) Σ s_i² over the rows of each class, by position. labels: of the same rows."""
        squares = labels.counts.astype(np.float64)
        for each in (-self._by_class[0], self._by_class[1]):  # in this order: weights may be tiny
            squares[: len(each)] += each
        return squares[np.argsort(labels.rank)]


class PageSizes:
    """The sizes of the pages that were read.

    count: the number of pages. largest_bytes, largest_rows: the largest size of a page. largest_row_bytes: the size
    of a page that has the largest row alone. rows_per_byte: the largest of any page.
    """

    def __init__(self) -> None:
        self.count = self.largest_bytes = self.largest_rows = self.largest_row_bytes = 0
        self.rows_per_byte = 0.0

    def update(self, page: Block) -> None:
        """Take in a page as it is kept."""
        self.count += 1
        self.largest_bytes = max(self.largest_bytes, page.nbytes)
        self.largest_rows = max(self.largest_rows, page.n_rows)
        self.rows_per_byte = max(self.rows_per_byte, page.n_rows / page.nbytes)
        self.largest_row_bytes = max(self.largest_row_bytes, _largest_row_bytes(page))


def _largest_row_bytes(page: Block) -> int:
    """Return ``Block.nbytes`` of the page's largest row, alone."""
    if isinstance(page.X, CSR):
        longest = int(np.diff(page.X.indptr).max(initial=0))
        values = longest * (page.X.indices.itemsize + page.X.data.itemsize)
    else:
        values = page.X.shape[1] * page.X.itemsize
    labels = WEIGHT_BYTES * (page.weight is not None) + TARGET_BYTES * page.has_targets
    return values + ROW_BYTES + _INDPTR_BYTES + labels


class RowLengths:
    """Lengths and values of the first rows.

    first_unscaled: columns from this one on (n-grams, categories) keep their values where columns are scaled; None:
    all columns are scaled. largest_value: the largest absolute value."""

    def __init__(self, first_unscaled: int | None) -> None:
        self._first_unscaled = first_unscaled
        self.largest_value = 0.0
        self._n_rows = self._n_values = self._n_unscaled = 0
        self._squares = self._unscaled_squares = 0.0  # sums

    def look_at(self, X: Matrix, n_rows: int) -> None:
        """Measure the next rows, unless enough rows have been measured."""
        values = X.data[X.indptr[0] : X.indptr[-1]] if isinstance(X, CSR) else X
        if self._n_rows >= _ROWS_LOOKED_AT:
            return
        self._n_rows += n_rows
        if not values.size:
            return
        largest = max(abs(float(np.nanmin(values))), abs(float(np.nanmax(values))))
        self.largest_value = max(self.largest_value, largest)
        self._n_values += values.size
        self._squares += _sum_of_squares(values)
        if self._first_unscaled is not None and isinstance(X, CSR):
            unscaled = values[X.indices[X.indptr[0] : X.indptr[-1]] >= self._first_unscaled]
            self._n_unscaled += len(unscaled)
            self._unscaled_squares += _sum_of_squares(unscaled)

    @property
    def squared_norm(self) -> float:
        """Return the mean of ‖x_i‖²."""
        return self._squares / max(self._n_rows, 1)

    def scaled_squared_norm(self, values_per_row: float) -> float:
        """Return ‖x_i‖² of a row with so many values. Squares of values in scaled columns are taken to be 1 on
        average; the other values are as they are."""
        scaled = 1.0 - self._n_unscaled / max(self._n_values, 1)
        return scaled * values_per_row + self._unscaled_squares / max(self._n_rows, 1)


def _sum_of_squares(values: NDArray[np.floating]) -> float:
    with np.errstate(over="ignore"):  # of columns that are scaled nobody asks
        return float(np.nansum(np.square(values, dtype=np.float64)))


# RowsDigest: what tells a data set from others of the same shape, taken as its rows go by.
#
# Of files it takes the fingerprints, where their readers have them; of the first rows values, labels and sample
# weights, of the others labels and weights of some. It does not depend on how rows are cut into blocks, so not on
# the memory limit; and it costs less than a hundredth of reading the rows.

FIRST_ROWS = 10_000  # all of which count
EVERY = 16  # of the rows after them
_GOLDEN, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(44)  # 20 bits of a row's number, mixed


class RowsDigest:
    """Digest of the rows of one reading."""

    def __init__(self) -> None:
        self._by_class: NDArray[np.float64] = np.zeros(
            0
        )  # sums of mixed row numbers, whole numbers below 2^53, by class id
        self._values = [0, 0, 0]  # checksums of the first rows' values, columns and lengths
        self._weights = self._targets = 0
        self._n_rows = 0

    def add(self, block: Block, y: NDArray[Any]) -> None:
        """Take in the next rows, as the source has them. y: (n,) int32, ids of their labels in any order of labels;
        or float64 targets."""
        first = min(max(FIRST_ROWS - self._n_rows, 0), block.n_rows)
        if first:
            self._add_values(block.slice(0, first))
            self._add_labels(block, y, slice(0, first))
        if first < block.n_rows:
            self._add_labels(block, y, slice(first + -(self._n_rows + first) % EVERY, None, EVERY))
        self._n_rows += block.n_rows

    def _add_labels(self, block: Block, y: NDArray[Any], rows: slice) -> None:
        if y.dtype.kind == "f":
            self._targets = _checksum(y[rows], self._targets)
        else:
            mixed = (block.rows[rows].astype(np.uint64) * _GOLDEN) >> _SHIFT
            sums = np.bincount(y[rows], mixed, len(self._by_class)).astype(np.float64)
            sums[: len(self._by_class)] += self._by_class
            self._by_class = sums
        if block.weight is not None:
            self._weights = _checksum(block.weight[rows], self._weights)

    def _add_values(self, block: Block) -> None:
        X = block.X
        parts: list[NDArray[Any]] = [X] if not isinstance(X, CSR) else []
        if isinstance(X, CSR):
            stored = slice(X.indptr[0], X.indptr[-1])
            parts = [X.data[stored], X.indices[stored], np.diff(X.indptr)]
        for number, part in enumerate(parts):  # each by itself: else it would matter where rows are cut
            self._values[number] = _checksum(part, self._values[number])

    def of(self, rank: NDArray[np.int32], fingerprints: Sequence[FileFingerprint] | None) -> str:
        """Return the digest, 32 hexadecimal digits.

        rank: (n_classes,) the position of each id's label among the labels in ascending order. fingerprints: of the
        files, None where there are none."""
        by_class = np.zeros(len(rank))
        by_class[rank[: len(self._by_class)]] = self._by_class  # ids that no row that counts has are the last
        whole = hashlib.blake2b(by_class.tobytes(), digest_size=16)
        whole.update(f"{self._n_rows} {self._values} {self._weights}".encode())
        if self._targets:
            whole.update(f" {self._targets}".encode())
        for each in fingerprints or ():
            whole.update(each.digest.encode())
        return whole.hexdigest()


def _checksum(part: NDArray[Any], before: int) -> int:
    return crc32(np.ascontiguousarray(part).data, before) if part.size else before
