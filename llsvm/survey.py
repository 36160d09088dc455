"""Survey: what one pass tells of a data set: sizes, classes, and the memory that training on it wants."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block
from llsvm.data.source import BlockSource, SourceInfo
from llsvm.errors import DataError
from llsvm.features.scaling import UNSCALED_ABOVE
from llsvm.memory.process import MIN_WORK_BYTES, RUNTIME_BYTES
from llsvm.memory.sizes import memory_limit_bytes
from llsvm.models.model import label_text
from llsvm.scoring.room import DEFAULT_MEMORY, block_bytes

_CLASSES_LISTED = 1000
_ROW_BYTES = 40  # of a row held in memory, its values left out: place, number, label, dual variables
_VALUE_BYTES = 8  # of a stored value: float32 and column number
_WORK_BYTES = MIN_WORK_BYTES
_READING_SHARE = 1.15  # rows held in memory take this times their size while they are being read
_WEIGHT_VECTORS = 4  # weights, the best so far, and those that a pass began with, once more while copied
_STORED_ROW_BYTES = 20  # of a row on disk: place, number, label
_ROW_WORK_BYTES = 100  # that the solver holds for each row of a block
_PASSES_IN_MEMORY, _PASSES_FROM_DISK = 4, 5
_UPDATES_A_PASS = 4  # of each stored value, sweeps over survivors included
_STARTING_SECONDS = 1.5
_UPDATES_PER_SECOND, _DENSE_UPDATES_PER_SECOND, _DISK_BYTES_PER_SECOND = 1e8, 4e8, 5e8


class Survey:
    """Counts over the blocks of a source; ``add`` each, then ask for ``figures``."""

    def __init__(self, labelled: bool = True) -> None:
        self.labelled = labelled
        self.n_rows = self.nnz = self.empty_rows = self.other_rows = 0
        self.last_column = -1  # as the source numbers them
        self.largest = 0.0
        self.is_dense = False
        self.labels: Counter[Any] = Counter()

    def add(self, block: Block) -> None:
        self.n_rows += block.n_rows
        if self.labelled:
            self._count_labels(block.y)
        if isinstance(block.X, CSR):
            first, last = int(block.X.indptr[0]), int(block.X.indptr[-1])
            values, columns = block.X.data[first:last], block.X.indices[first:last]
            last_column = int(columns.max()) if len(columns) else -1
            self.empty_rows += int(np.count_nonzero(np.diff(block.X.indptr) == 0))
        else:
            self.is_dense = True
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
    labelled; classes (label -> rows; up to 1000 of them, the rows of the rest are other_rows; none without labels),
    smallest_memory_bytes and in_memory_bytes: estimates of the limit that training needs, and of the one from
    which it keeps all rows in memory; unscaled: are values so large that scaling is called for? Never for tables,
    whose columns training scales unasked; is_table, notes: see SourceInfo.
    columns: of a table, see TableSource.describe, and missing, the rows without a value in a feature; else None.
    plan: see _plan. Raises BudgetError, DataError.
    """
    counts = Survey(source.info().labelled)
    describe = source.info().describe
    columns = None if describe is None else describe()
    began = time.monotonic()
    for block in source.blocks(block_bytes(0, 2, memory_limit, source.info().reader_bytes)):
        counts.add(block)
    seconds = time.monotonic() - began
    info = source.info()
    for column in columns or []:
        column["missing"] = None if info.encoder is None else info.encoder.missing_counts.get(column["name"])
    if counts.n_rows == 0:
        raise DataError(f"{info.name}: there is no row in it")
    base = info.index_base or 0
    features = max(counts.last_column + 1 - base, 0)
    cells = counts.n_rows * features
    smallest, whole = _training_bytes(counts, features, info)
    freed = info.reader_bytes - info.library_bytes
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
        "labelled": info.labelled,
        "classes": {label_text(label): counts.labels[label] for label in sorted(counts.labels)},
        "other_rows": counts.other_rows,
        "smallest_memory_bytes": smallest,
        "in_memory_bytes": whole,
        "unscaled": counts.largest > UNSCALED_ABOVE and not info.is_table,
        "is_table": info.is_table,
        "columns": columns,
        "notes": list(info.notes),
        "plan": _plan(counts, features, memory_limit, (smallest, whole), freed, seconds),
    }


def _plan(
    counts: Survey,
    features: int,
    memory_limit: str | int | None,
    needed: tuple[int, int],
    freed_bytes: int,
    read_seconds: float,
) -> dict[str, Any]:
    """What training under the limit would do; an estimate, mostly right within a factor of two. Sizes in bytes.

    needed: see _training_bytes. freed_bytes: what the reader holds in the first reading only.
    cache_bytes: the binary copy on disk, 0 where all rows stay in memory; what packs well takes less.
    spill_bytes: survivors on disk, hardly more. passes: full passes, as measured on common data sets.
    """
    fixed, whole = needed
    limit = memory_limit_bytes(DEFAULT_MEMORY if memory_limit is None else memory_limit)
    row_bytes = _values_bytes(counts, features, False) / counts.n_rows + _STORED_ROW_BYTES
    rows_bytes = int(row_bytes * counts.n_rows)
    room = max(limit - fixed, 0) + freed_bytes
    in_memory = limit >= whole
    # two blocks and the survivors, and twice the work on the rows of a block
    fitting = int(room / (3 * row_bytes + 2 * _ROW_WORK_BYTES))
    block_rows = counts.n_rows if in_memory else max(1, min(fitting, counts.n_rows))
    passes = _PASSES_IN_MEMORY if in_memory else _PASSES_FROM_DISK
    filled = 4 * features < _VALUE_BYTES * counts.nnz / counts.n_rows
    updates_per_second = _DENSE_UPDATES_PER_SECOND if filled else _UPDATES_PER_SECOND
    work = passes * _UPDATES_A_PASS * counts.nnz / updates_per_second
    disk = 0.0 if in_memory else passes * rows_bytes / _DISK_BYTES_PER_SECOND
    return {
        "memory_limit_bytes": limit,
        "enough": limit >= fixed,
        "in_memory": in_memory,
        "block_rows": block_rows,
        "passes": passes,
        "cache_bytes": 0 if in_memory else rows_bytes,
        "spill_bytes": 0 if in_memory else rows_bytes,
        "minutes": (_STARTING_SECONDS + read_seconds + work + disk) / 60,
    }


def _training_bytes(counts: Survey, features: int, info: SourceInfo) -> tuple[int, int]:
    """Limits, in bytes, for training from disk and for holding all rows in memory; rough."""
    problems = 1 if len(counts.labels) <= 2 else len(counts.labels)
    fixed = RUNTIME_BYTES + _WORK_BYTES + _WEIGHT_VECTORS * 8 * problems * features + info.reader_bytes
    rows = _values_bytes(counts, features, counts.is_dense) + _ROW_BYTES * counts.n_rows
    return fixed, fixed + int(_READING_SHARE * rows)


def _values_bytes(counts: Survey, features: int, dense: bool) -> int:
    """Of all rows, as training keeps them: dense, or whatever is smaller (on disk it is)."""
    dense_bytes = 4 * counts.n_rows * features
    return dense_bytes if dense else min(_VALUE_BYTES * counts.nnz, dense_bytes)
