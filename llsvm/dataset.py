"""DatasetInfo: what is known of a data set once it has been read."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import ROW_BYTES, TARGET_BYTES, WEIGHT_BYTES
from llsvm.settings.objective import CLASSIFICATION


@dataclass(frozen=True, slots=True)
class Pages:
    """How rows come in pages, the pieces in which they are read, stored and shuffled.

    page_bytes: that pages were cut to; a single row may be larger. n_pages: so many.
    largest_bytes, largest_rows: of a page, at most. rows_per_byte: of the page where that is largest.
    largest_row_bytes: of a single row.
    """

    page_bytes: int = 0
    n_pages: int = 0
    largest_bytes: int = 0
    largest_rows: int = 0
    rows_per_byte: float = 0.0
    largest_row_bytes: int = 0

    def cut_to(self, page_bytes: int, dataset: DatasetInfo) -> Pages:
        """Return the figures of the same rows in pages of another size, with upper bounds on the number of pages
        and on the largest one."""
        if page_bytes == self.page_bytes:
            return self
        # What is counted as a row's bytes where pages are cut leaves out its weight, what a target takes more than
        # a class id, and the end of the last row.
        more = page_bytes // 5 * (dataset.weighted + dataset.has_targets)
        largest = max(page_bytes + more + 8, self.largest_row_bytes)
        return replace(
            self,
            page_bytes=page_bytes,
            n_pages=self.most_pages(page_bytes, dataset) if self.n_pages else 0,
            largest_bytes=largest,
            largest_rows=int(self.rows_per_byte * largest) + 1,
        )

    @staticmethod
    def most_pages(page_bytes: int, dataset: DatasetInfo) -> int:
        """Return an upper bound on the number of pages of a store: any two consecutive pages hold more than one
        page's bytes."""
        return 2 * int(dataset.n_rows * dataset.held_bytes_per_row) // page_bytes + 2


NO_PAGES = Pages()


@dataclass(frozen=True, slots=True)
class ReadingFacts:
    """Memory that reading takes beside the rows themselves, as the first reading measured it; bytes.

    long_row_bytes: of a row much longer than pages are, which blocks of the source must hold; 0 if there is none.
    labels_bytes: of the labels that are stored.
    reader_bytes, library_bytes: of the file format's library, while it reads and when nothing is being read.
    statistics_bytes, scaling_bytes: of the statistics of columns, while they are learned and afterwards.
    held_bytes: of all rows as one block in memory; 0: as many as DatasetInfo says.
    mixed: the rows cannot be held as one block, since rows of another kind, such as much wider ones, follow others.
    views: the rows are the caller's arrays as they are.
    cached: there may be a binary cache of rows that do not fit in memory; else the source is read again.
    begun_bytes: ``reader_bytes`` when reading began.
    """

    long_row_bytes: int = 0
    labels_bytes: int = 0
    reader_bytes: int = 0
    library_bytes: int = 0
    statistics_bytes: int = 0
    scaling_bytes: int = 0
    held_bytes: int = 0
    mixed: bool = False
    views: bool = False
    cached: bool = True
    begun_bytes: int = 0


NOTHING_READ = ReadingFacts()


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """Statistics of a regression's targets; all rows count the same.

    mean, std, smallest, largest: of the targets before scaling; std is over n, not n − 1.
    scaled: blocks have the targets with mean 0 and variance 1.
    rest: the part of the mean beyond a 64-bit float, which counts where targets differ in their last digits only.
    """

    mean: float
    std: float
    smallest: float
    largest: float
    scaled: bool = False
    rest: float = 0.0

    @property
    def shift(self) -> float:
        """Return the number that is subtracted from targets, before the division by ``unit``, to make those of
        blocks."""
        return self.mean if self.scaled else 0.0

    @property
    def shift_rest(self) -> float:
        """Return the number that is subtracted from targets in addition to ``shift``."""
        return self.rest if self.scaled else 0.0

    @property
    def unit(self) -> float:
        return self.std if self.scaled else 1.0

    @property
    def spread(self) -> float:
        """Return the standard deviation of what blocks have."""
        return self.std / self.unit

    @property
    def size(self) -> float:
        """Return the root of the mean square of what blocks have."""
        return math.hypot(self.spread, self.level)

    @property
    def level(self) -> float:
        """Return the mean of what blocks have."""
        return (self.mean - self.shift) / self.unit

    def scale(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (n,) targets as blocks have them."""
        return (y - self.shift - self.shift_rest) / self.unit


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """Shape, labels, types and memory figures of a data set, known once it has been read.

    n_columns: columns of the blocks, which are numbered as in the source. first_column: the column that is
    feature 0 (1 where svmlight indices start at 1: column 0 is then empty). nnz: stored values.
    kind: what labels are, a name of llsvm.settings.objective. target: of a regression's.
    class_sums: (k,) of the weights of each class's rows, as they count in what is learned of all rows.
    classes: (k,) labels, ascending; counts: (k,) rows of each. Where labels are no classes there are none of them,
    and counts has one number, of all rows. is_dense: blocks are dense arrays.
    dtype: of the values. weighted: rows have sample weights. weight_sum: of these; rows without have 1.
    squared_norm: about how large ‖x_i‖² is, as solvers see the rows: what scaling leaves, else that of the first.
    largest_value: absolute, of the first rows as the source has them.
    digest: what tells it from other data of the same shape, as far as llsvm/stream/row_facts.py says; "": unknown.
    pages, reading: what the memory plan follows from, beside the sizes.
    """

    name: str
    n_rows: int
    n_columns: int
    first_column: int
    nnz: int
    classes: NDArray[Any]
    counts: NDArray[np.int64]
    is_dense: bool
    dtype: np.dtype
    weighted: bool
    weight_sum: float = 0.0
    squared_norm: float = 0.0
    largest_value: float = 0.0
    digest: str = ""
    pages: Pages = NO_PAGES
    reading: ReadingFacts = NOTHING_READ
    kind: str = CLASSIFICATION
    target: TargetFacts | None = None
    class_sums: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    @property
    def n_features(self) -> int:
        return self.n_columns - self.first_column

    @property
    def n_classes(self) -> int:
        """Return the number of classes; 1 where labels are none, and all rows are alike: ``Block.class_ids``."""
        return len(self.counts)

    @property
    def has_targets(self) -> bool:
        """Return whether the labels of blocks are float64 targets (0 for unlabelled rows), not class ids."""
        return self.kind != CLASSIFICATION

    def as_float64(self) -> DatasetInfo:
        """Return figures of the same data with values kept as 64-bit floats: what they would take, at most."""
        wide = replace(self, dtype=np.dtype(np.float64))
        share = wide.bytes_per_row / self.bytes_per_row if self.nnz else 1.0
        pages, reading = self.pages, self.reading
        return replace(
            wide,
            pages=replace(
                pages,
                largest_bytes=math.ceil(share * pages.largest_bytes),
                largest_row_bytes=math.ceil(share * pages.largest_row_bytes),
            ),
            reading=replace(
                reading,
                held_bytes=math.ceil(share * reading.held_bytes),
                long_row_bytes=math.ceil(share * reading.long_row_bytes),
            ),
        )

    @property
    def bytes_per_row(self) -> float:
        """Return the mean bytes of a row's values (and column numbers)."""
        if self.is_dense:
            return self.n_columns * self.dtype.itemsize
        return self.nnz / self.n_rows * (4 + self.dtype.itemsize)

    @property
    def held_bytes_per_row(self) -> float:
        """Return the mean bytes of a row in memory, with its label and sample weight."""
        more = WEIGHT_BYTES * self.weighted + TARGET_BYTES * self.has_targets
        return self.bytes_per_row + ROW_BYTES + more
