"""Survey: what one pass tells of a data set: sizes, classes, and the memory that training on it wants."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block
from llsvm.data.source import BlockSource
from llsvm.errors import DataError
from llsvm.memory import LEAST_WORK_BYTES, RUNTIME_BYTES
from llsvm.model import label_text
from llsvm.predict import block_bytes

_CLASSES_LISTED = 1000
_ROW_BYTES = 40  # of a row held in memory, its values left out: place, number, label, dual variables
_VALUE_BYTES = 8  # of a stored value: float32 and column number
_WORK_BYTES = LEAST_WORK_BYTES
_READING_SHARE = 1.15  # rows held in memory take this times their size while they are being read
_WEIGHT_VECTORS = 4  # weights, the best so far, and those that a pass began with, once more while copied


class Survey:
    """Counts over the blocks of a source; ``add`` each, then ask for ``figures``."""

    def __init__(self) -> None:
        self.n_rows = self.nnz = self.empty_rows = self.other_rows = 0
        self.last_column = -1  # as the source numbers them
        self.largest = 0.0
        self.labels: Counter[Any] = Counter()

    def add(self, block: Block) -> None:
        self.n_rows += block.n_rows
        self._count_labels(block.y)
        if isinstance(block.X, CSR):
            first, last = int(block.X.indptr[0]), int(block.X.indptr[-1])
            values, columns = block.X.data[first:last], block.X.indices[first:last]
            last_column = int(columns.max()) if len(columns) else -1
            self.empty_rows += int(np.count_nonzero(np.diff(block.X.indptr) == 0))
        else:
            values, last_column = block.X, block.X.shape[1] - 1
            self.empty_rows += int(np.count_nonzero(~block.X.any(axis=1)))
        self.nnz += int(np.count_nonzero(values))
        self.last_column = max(self.last_column, last_column)
        if values.size:
            self.largest = max(self.largest, float(np.abs(values).max()))

    def _count_labels(self, y: NDArray[Any]) -> None:
        for label, count in zip(*np.unique(y, return_counts=True), strict=True):
            if label in self.labels or len(self.labels) < _CLASSES_LISTED:
                self.labels[label] += int(count)
            else:
                self.other_rows += int(count)


def survey(source: BlockSource, memory_limit: str | int | None = None) -> dict[str, Any]:
    """Read ``source`` once under a memory limit (None: "50%") and say what is in it, as plain values.

    rows, features (columns up to the last one used), nonzeros, density (share of non-zero cells), empty_rows,
    largest_value (absolute), index_base (0 or 1: the first column number, as the source sees it), bytes,
    classes (label -> rows; up to 1000 of them, the rows of the rest are other_rows),
    smallest_memory_bytes and in_memory_bytes: estimates of the limit that training needs, and of the one from
    which it keeps all rows in memory. Raises BudgetError, DataError.
    """
    counts = Survey()
    for block in source.blocks(block_bytes(0, 2, memory_limit)):
        counts.add(block)
    info = source.info()
    if counts.n_rows == 0:
        raise DataError(f"{info.name}: there is no row in it")
    base = info.index_base or 0
    features = max(counts.last_column + 1 - base, 0)
    cells = counts.n_rows * features
    smallest, whole = _training_bytes(counts, features)
    return {
        "name": info.name,
        "format": info.format,
        "bytes": info.n_bytes,
        "rows": counts.n_rows,
        "features": features,
        "nonzeros": counts.nnz,
        "density": counts.nnz / cells if cells else 0.0,
        "empty_rows": counts.empty_rows,
        "largest_value": counts.largest,
        "index_base": base,
        "classes": {label_text(label): counts.labels[label] for label in sorted(counts.labels)},
        "other_rows": counts.other_rows,
        "smallest_memory_bytes": smallest,
        "in_memory_bytes": whole,
    }


def _training_bytes(counts: Survey, features: int) -> tuple[int, int]:
    """Limits, in bytes, for training from disk and for holding all rows in memory; rough."""
    problems = 1 if len(counts.labels) == 2 else len(counts.labels)
    fixed = RUNTIME_BYTES + _WORK_BYTES + _WEIGHT_VECTORS * 8 * problems * features
    sparse_bytes = _VALUE_BYTES * counts.nnz
    dense_bytes = 4 * counts.n_rows * features
    rows = min(sparse_bytes, dense_bytes) + _ROW_BYTES * counts.n_rows
    return fixed, fixed + int(_READING_SHARE * rows)
