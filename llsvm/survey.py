"""Survey: what one pass tells of a data set: sizes, classes, and what training on it would do with the memory."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block
from llsvm.data.source import BlockSource, DerivedSource, SourceInfo
from llsvm.errors import BudgetError, DataError, LongRowError
from llsvm.features.labels import look_alike
from llsvm.features.scaling import UNSCALED_ABOVE
from llsvm.features.targets import Targets
from llsvm.memory.budget import LIBRARY, READING, RUNTIME
from llsvm.memory.plan import MemoryPlan
from llsvm.memory.process import MIN_WORK_BYTES, RUNTIME_BYTES, resident_bytes
from llsvm.models.record import label_text
from llsvm.settings.objective import CLASSIFICATION, REGRESSION
from llsvm.settings.settings import Settings, said_of_defaults
from llsvm.training.memory_limit import limit_of
from llsvm.training.training import Training

_CLASSES_LISTED = 1000
_VALUE_BYTES = 8  # of a stored value: float32 and column number
_STORED_ROW_BYTES = 20  # of a row on disk: place, number, label
_PASSES_IN_MEMORY, _PASSES_FROM_DISK = 4, 5
_UPDATES_A_PASS = 4  # of each stored value, sweeps over survivors included
_STARTING_SECONDS = 1.5
_PIECE_BYTES = 1_000_000  # of a reading that only counts
_BLOCKS_HELD = 6  # by such a reading
_LOADED_BYTES = 60_000_000  # of libraries and kernels, that this process has not loaded yet
_UPDATES_PER_SECOND, _DENSE_UPDATES_PER_SECOND, _DISK_BYTES_PER_SECOND = 1e8, 4e8, 5e8


class SurveyCounts:
    """Over the blocks of a source; ``add`` each."""

    def __init__(self, labelled: bool = True, label_kind: str = CLASSIFICATION) -> None:
        self.labelled = labelled
        self.targets = Targets() if labelled and label_kind == REGRESSION else None
        self.count_classes = labelled and label_kind == CLASSIFICATION
        self.n_rows = self.nnz = self.empty_rows = self.other_rows = 0
        self.last_column = -1  # as the source numbers them
        self.largest = 0.0
        self.is_dense = False
        self.labels: Counter[Any] = Counter()

    def add(self, block: Block) -> None:
        self.n_rows += block.n_rows
        if self.count_classes:
            self._count_labels(block.y)
        if self.targets is not None:
            self.targets.encode(block.y)
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

    def features(self, index_base: int) -> int:
        """Return the number of columns up to the last one used. index_base: the first column's number."""
        return max(self.last_column + 1 - index_base, 0)

    def _count_labels(self, y: NDArray[Any]) -> None:
        for label, count in zip(*np.unique(y, return_counts=True), strict=True):
            if label in self.labels or len(self.labels) < _CLASSES_LISTED:
                self.labels[label] += int(count)
            else:
                self.other_rows += int(count)


class CountedSource(DerivedSource):
    """A source whose blocks are counted as they go by; ``counts`` are those of the last reading from its start.

    Where rows have no labels they get two by turns, so that they can be read as training would."""

    def __init__(self, source: BlockSource) -> None:
        super().__init__(source)
        self.counts = SurveyCounts()
        self.complete = False
        """Has a reading come to its end?"""

    def info(self) -> SourceInfo:
        return replace(self.source.info(), labelled=True)

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        labelled = self.source.info().labelled
        self.counts, self.complete = SurveyCounts(labelled, self.source.info().label_kind), False
        for block in self.source.blocks(max_bytes):
            self.counts.add(block)
            yield (
                block
                if labelled
                else Block(block.X, (block.rows % 2).astype(float), block.rows, block.weight)
            )
        if self.counts.n_rows == 0:
            raise DataError(f"{self.source.info().name}: there is no row in it")
        self.complete = True


def survey(source: BlockSource, settings: Settings | None = None) -> dict[str, Any]:
    """Read ``source`` once, as training with these settings would, and say what is in it, as plain values.

    rows, features (columns up to the last one used), nonzeros, density (share of non-zero cells), empty_rows,
    largest_value (absolute), index_base (0 or 1: the first column number, as the source sees it), bytes,
    labelled, label_kind: see SourceInfo; target: of a regression's labels, see TargetFacts; classes (label -> rows;
    up to 1000 of them, the rows of the rest are other_rows; none without labels),
    unscaled: are values so large that scaling is called for, and training would not scale them? is_table, notes:
    see SourceInfo. defaults: see ``said_of_defaults``.
    columns: of a table, see TableSource.describe, and missing, the rows without a value in a feature; else None.
    smallest_memory_bytes and in_memory_bytes: the smallest limit that training works with, and the one from which
    all rows stay in memory; None where data could not be trained on, for which untrainable is the reason, else "";
    and in_memory_bytes where filled rows come before much wider ones, which are never held with them.
    at_least: under this limit the data cannot be read, so that more may be needed. plan: see ``planned``; None
    where there is none. Raises DataError.
    """
    settings = settings or Settings()
    limit_bytes = limit_of(settings)
    _require(source, limit_bytes)
    describe = source.info().describe
    columns = None if describe is None else describe()
    counted, began = CountedSource(source), time.monotonic()
    answer: dict[str, Any] = {"smallest_memory_bytes": None, "in_memory_bytes": None, "plan": None}
    answer |= {"untrainable": "", "at_least": False}
    try:
        with Training(counted, settings, dry=True) as training:
            answer |= planned(training, counted, began)
    except DataError as error:
        if not counted.complete and (counted.counts.n_rows == 0 or not source.info().rereadable):
            raise
        answer["untrainable"] = str(error)
    except BudgetError as error:  # the data, or a sample for a feature map, cannot be read under the limit
        encoder = source.info().encoder
        if encoder is not None and not encoder.ready:
            raise  # without its n-grams, and what is crossed, there are no rows to count
        plan = {"memory_limit_bytes": error.limit_bytes, "enough": False}
        answer |= {"plan": plan, "smallest_memory_bytes": error.smallest_bytes, "at_least": True}
    if not counted.complete:
        _count(counted, limit_bytes)
    info, counts = source.info(), counted.counts
    if settings.positive is not None and info.labelled and 1.0 not in counts.labels:
        answer["untrainable"] = f"{info.name}: no row has the label {settings.positive!r} (--positive)"
    for column in columns or []:
        column["missing"] = None if info.encoder is None else info.encoder.missing_counts.get(column["name"])
    base = info.index_base or 0
    features = counts.features(base)
    cells = counts.n_rows * features
    words = [label for label in counts.labels if isinstance(label, str)]
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
        "label_kind": info.label_kind,
        "target": None if counts.targets is None else asdict(counts.targets.target),
        "classes": {label_text(label): counts.labels[label] for label in sorted(counts.labels)},
        "other_rows": counts.other_rows,
        "unscaled": counts.largest > UNSCALED_ABOVE
        and settings.resolved(info.is_table).scale == "none"
        and not settings.takes_rows_as_they_are,
        "defaults": said_of_defaults(settings, info.is_table),
        "is_table": info.is_table,
        "columns": columns,
        "notes": [*info.notes, *filter(None, [look_alike(words)])],
        **answer,
    }


def _require(source: BlockSource, limit_bytes: int, block_bytes: int = _PIECE_BYTES) -> None:
    """Raise BudgetError unless the source can be read under the limit, in such blocks, and the limit is one that
    any run could keep."""
    runtime, reader = RUNTIME_BYTES, source.info().reader_bytes
    work = max(_BLOCKS_HELD * block_bytes, MIN_WORK_BYTES - reader)
    held = min(runtime, resident_bytes() + _LOADED_BYTES)
    encoder = source.info().encoder
    at_least = block_bytes > _PIECE_BYTES or not (encoder is None or encoder.ready)
    if limit_bytes < max(held + reader + work, runtime + MIN_WORK_BYTES):
        lines = {RUNTIME: runtime, LIBRARY: reader, READING: work}
        raise BudgetError("reading this data", limit_bytes, sum(lines.values()), lines, at_least=at_least)


def _count(counted: CountedSource, limit_bytes: int) -> None:
    """Read all rows, to count them. Raises BudgetError for a row too long for the limit."""
    block_bytes = _PIECE_BYTES
    while not counted.complete:
        _require(counted, limit_bytes, block_bytes)  # categories have been learned
        try:
            for _ in counted.blocks(block_bytes):
                _require(counted, limit_bytes, block_bytes)
        except LongRowError as error:
            if error.row_bytes <= block_bytes:
                raise
            block_bytes = error.row_bytes


def planned(training: Training, counted: CountedSource, began: float) -> dict[str, Any]:
    """Return the memory plan that training would go by. Sizes in bytes.

    plan: memory_limit_bytes; enough: is it? Then solver and why; in_memory: all rows stay in memory, as one
    block; place: where full passes read from ("memory", "cache" or "source"); block_rows, block_bytes: of a block;
    survivor_rows, survivor_bytes: kept in memory between passes; page_bytes: the unit of reading; state_in_memory:
    are dual variables (where they are not with the rows)?; lines: what the limit is spent on, by name; and
    estimates, mostly right within a factor of two: cache_bytes on disk, spill_bytes of survivors there,
    passes over the data, minutes.
    began: by ``time.monotonic``, when reading began.
    """
    plan, smallest = None, None
    try:
        plan = training.plan()
    except BudgetError as error:
        if error.at_least:  # the data cannot be read at all
            raise
        smallest = error.smallest_bytes
    seconds, limit = time.monotonic() - began, training.limit_bytes
    answer: dict[str, Any] = {"memory_limit_bytes": limit, "enough": plan is not None}
    if plan is not None:
        smallest = training.smallest_limit(1).nbytes
        answer |= _spent(plan, training) | _estimates(plan, training, counted.counts, seconds)
    mixed = training.stream.measure().reading.mixed
    whole = None if mixed else training.smallest_limit(1, in_one_block=True).nbytes
    return {"smallest_memory_bytes": smallest, "in_memory_bytes": whole, "plan": answer}


def _spent(plan: MemoryPlan, training: Training) -> dict[str, Any]:
    n_rows = training.stream.dataset.n_rows
    survivors = not plan.in_one_block or plan.survivor_rows > 0
    return {
        "solver": training.solver,
        "why": training.why,
        "in_memory": plan.in_one_block,
        "place": training.stream.place,
        "block_rows": n_rows if plan.in_one_block else min(plan.block_rows, n_rows),
        "block_bytes": plan.rows_bytes if plan.in_one_block else plan.block_bytes,
        "survivor_rows": min(plan.survivor_rows, n_rows) if survivors else 0,
        "survivor_bytes": plan.survivor_bytes,
        "page_bytes": plan.pages.page_bytes,
        "state_in_memory": plan.state_bytes > 0,
        "lines": dict(training.stream.budget.lines),
    }


def _estimates(
    plan: MemoryPlan, training: Training, counts: SurveyCounts, read_seconds: float
) -> dict[str, Any]:
    """Return the estimates of a plan. read_seconds: that the first reading took."""
    dataset = training.stream.dataset
    per_row = min(_VALUE_BYTES * dataset.nnz / dataset.n_rows, 4 * dataset.n_columns)
    rows_bytes = int((per_row + _STORED_ROW_BYTES) * dataset.n_rows)
    passes = _PASSES_IN_MEMORY if plan.in_one_block else _PASSES_FROM_DISK
    filled = 4 * dataset.n_features < _VALUE_BYTES * dataset.nnz / dataset.n_rows
    updates_per_second = _DENSE_UPDATES_PER_SECOND if filled else _UPDATES_PER_SECOND
    work = passes * _UPDATES_A_PASS * counts.nnz / updates_per_second
    disk = 0.0 if plan.in_one_block else passes * rows_bytes / _DISK_BYTES_PER_SECOND
    return {
        "passes": passes,
        "cache_bytes": rows_bytes if training.stream.place == "cache" else 0,
        "spill_bytes": 0 if plan.in_one_block else rows_bytes,
        "minutes": (_STARTING_SECONDS + read_seconds + work + disk) / 60,
    }
