"""What a first reading learns of its rows as their pages go by: sizes, sample weights, and whether memory can hold
them as one block."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, ROW_BYTES, TARGET_BYTES, WEIGHT_BYTES, Block, running_sum
from llsvm.errors import DataError
from llsvm.row_buffer import row_bytes

_MAX_WEIGHT = 1e60  # of a row: times its C, and that squared, it is a 64-bit float
_MAX_WIDENED = 64  # rows in memory are copied each time that columns are added
DENSE_SHARE = 0.5  # dense float32 takes 4 bytes a cell, CSR 8 bytes a value


class PageSizes:
    """How many pages there are, and the largest of them.

    rows_per_byte: of the page where it is largest.
    largest_row_bytes: ``Block.nbytes`` of the largest row, alone."""

    def __init__(self) -> None:
        self.n_pages = self.largest_bytes = self.largest_rows = self.largest_row_bytes = 0
        self.rows_per_byte = 0.0

    def add(self, page: Block) -> None:
        """Take in the next page."""
        self.n_pages += 1
        self.largest_bytes = max(self.largest_bytes, page.nbytes)
        self.largest_rows = max(self.largest_rows, page.n_rows)
        self.largest_row_bytes = max(self.largest_row_bytes, _largest_row_bytes(page))
        self.rows_per_byte = max(self.rows_per_byte, page.n_rows / page.nbytes)


class SampleWeights:
    """The weights s_i of the rows, which are 1 where a page has none.

    total: Σ s_i. largest: s_i, or 1."""

    def __init__(self) -> None:
        self.total = self.largest = 0.0
        self._of_classes = np.zeros(
            (2, 0)
        )  # of each class: rows that have weights s_i, and Σ s_i² over these

    def add(self, page: Block, name: str) -> None:
        """Take in the next page, with class ids. Raises DataError for a weight beyond ``_MAX_WEIGHT``, or one over
        it. name: of the source."""
        weight = page.weight
        self.total = running_sum(self.total, weight, page.n_rows)
        self.largest = max(self.largest, 1.0 if weight is None else float(weight.max(initial=0.0)))
        if weight is None:
            return
        bad = (weight > 0) & ((weight < 1.0 / _MAX_WEIGHT) | (weight > _MAX_WEIGHT))
        if bad.any():
            at = int(np.argmax(bad))
            raise DataError(
                f"{name}: row {int(page.rows[at]) + 1}: a sample weight of {weight[at]:g}: "
                "multiply all of them by one number, and divide -C by it"
            )
        ids, before = page.class_ids, self._of_classes
        k = max(before.shape[1], int(ids.max(initial=-1)) + 1)
        self._of_classes = np.stack([np.bincount(ids, None, k), np.bincount(ids, weight**2, k)])
        self._of_classes[:, : before.shape[1]] += before

    def squares(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Σ s_i² over the rows of each class id, (k,). counts: (k,) of their rows."""
        squares = counts.astype(np.float64)
        for each in (-self._of_classes[0], self._of_classes[1]):  # in this order: weights may be tiny
            squares[: len(each)] += each
        return squares


class RowKinds:
    """Whether one buffer can hold all rows, were there room: pages with weights or without, of one type of values,
    sparse or dense as the first page was. Dense rows are made wider where columns have appeared that the first page
    did not have, if they are mostly filled all the same.

    n_rows, nnz, n_columns: of all rows so far. dtype: that holds all their values. weighted: some have weights.
    come_dense: the source hands them out dense.
    mixed: they cannot be held together, as some are much wider than those before them, say."""

    def __init__(self) -> None:
        self.n_rows = self.nnz = self.n_columns = 0
        self.dtype = np.dtype(np.float32)
        self.weighted = self.come_dense = self.mixed = False
        self._first: tuple[bool, np.dtype] | None = None  # weighted, and the values' type
        self._width: int | None = None  # of rows in memory, where they are dense
        self._widened = 0  # how often that has grown

    def add(self, page: Block, raw: Block) -> None:
        """Take in the next page. raw: as the source has it."""
        self.n_rows += raw.n_rows
        self.nnz += raw.nnz
        self.come_dense = not isinstance(raw.X, CSR)
        values = raw.X.data if isinstance(raw.X, CSR) else raw.X
        self.dtype = np.result_type(self.dtype, values.dtype)
        kind = page.weight is not None, self.dtype
        if self._first is None:
            self._first = kind
            self._width = None if isinstance(page.X, CSR) else page.X.shape[1]
        elif kind != self._first:
            self.mixed = True
        elif self._width is not None and self.n_columns > self._width:
            self._widened += 1
            self.mixed |= not self.mostly_filled(self.n_columns) or self._widened > _MAX_WIDENED
            self._width = self.n_columns

    def begin(self, columns: int, weighted: bool) -> None:
        """Take in that the next page has so many columns, and weights or none."""
        self.n_columns = max(self.n_columns, columns)
        self.weighted |= weighted

    def mostly_filled(self, n_columns: int) -> bool:
        """Return whether dense rows of so many columns would take less than sparse ones."""
        return self.nnz > DENSE_SHARE * self.n_rows * n_columns

    def held_bytes(self, has_targets: bool) -> int:
        """Return what all rows take in memory, unless they are ``mixed``."""
        return row_bytes(self.n_rows, self.nnz, self.dtype.itemsize, self._width, self.weighted, has_targets)


def _largest_row_bytes(page: Block) -> int:
    if isinstance(page.X, CSR):
        longest = int(np.diff(page.X.indptr).max(initial=0))
        values = longest * (page.X.indices.itemsize + page.X.data.itemsize)
    else:
        values = page.X.shape[1] * page.X.itemsize
    return values + ROW_BYTES + 8 + WEIGHT_BYTES * (page.weight is not None) + TARGET_BYTES * page.has_targets
