"""Rows: the rows of a training, read from their source as often as they are wanted, in blocks that a memory limit
has room for. Columns are scaled by what the rows themselves tell."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO

import numpy as np

from llsvm.block import CSR, Block, Matrix, running_sum
from llsvm.data.source import BlockSource, column_name, growing_blocks, table_block_bytes
from llsvm.dataset import DatasetInfo
from llsvm.errors import BudgetError, DataError, DiskError, ModelError
from llsvm.features.scaling import ROW_SCALE, ColumnStatistics, ScaleError, Scaling
from llsvm.features.targets import RowLabels, labels_of
from llsvm.memory.budget import LABELS, LIBRARY, READING, STATISTICS, MemoryBudget
from llsvm.memory.process import MIN_WORK_BYTES, resident_bytes, trim_freed_memory
from llsvm.settings.settings import Settings
from llsvm.verification.products import UNIT, dense

BLOCK_BYTES = (64_000, 8 << 20)  # that the source is asked for, at least and at most
_BLOCKS_HELD = 10  # five in the source, one at hand, and the work on its scaled copy
_BLOCK_SHARE = 4  # blocks are this part (1/4) of the memory there is; half of the rest may hold all rows
_FILLED = 0.5  # training keeps rows with a larger share of values than this as dense arrays, mostly
_MAYBE_FILLED = 0.25
SHIFTED = ("minmax", "standard")  # scales by which zeros become other values
HELD = "all rows"


class Rows:
    """Rows of a training, read as often as they are needed.

    scaling: what is done to the columns, or None. dataset: what is known of the rows, once they have been read."""

    def __init__(
        self,
        source: BlockSource,
        budget: MemoryBudget,
        settings: Settings,
        needs: Callable[[DatasetInfo], int],
        most_bytes: int | None = None,
    ) -> None:
        """Begin with no rows read. settings: of the training. budget: asked before anything large is held. needs:
        bytes of the sums of dual variables. most_bytes: rows are only looked at, in the smallest blocks, while the
        process holds no more than this."""
        self.source, self.budget = source, budget
        self.scaling: Scaling | None = None
        self.dataset: DatasetInfo
        self._settings, self._needs, self._most_bytes = settings, needs, most_bytes
        self._held: list[Block] | None = None
        self._spool: IO[bytes] | None = None  # the rows, where the source can be read once only
        self._labels: RowLabels
        self._block_bytes = 0
        self._filled = False  # are scaled rows dense arrays?
        self._is_doubtful = False  # were they, or were they not, in training?
        self._instead: Scaling | None = None  # then
        for each in source.info().rounding:
            each.judge_rows(settings.scale == ROW_SCALE)

    def close(self) -> None:
        if self._spool is not None:
            self._spool.close()

    @property
    def in_memory(self) -> bool:
        return self._held is not None or self.source.info().in_memory

    def read(self) -> None:
        """Read the source once, to its end. Raises BudgetError, DataError, DiskError, ModelError."""
        before, info, (low, high) = self.budget.mark(), self.source.info(), BLOCK_BYTES
        left = self.budget.available_bytes - info.reader_bytes
        block_bytes = min(left // (_BLOCK_SHARE * _BLOCKS_HELD), high)
        room_bytes = 0 if info.in_memory or not info.rereadable else left // 2
        attempts = [(table_block_bytes(info), 0)]  # before the smallest blocks: larger ones are faster
        if self._most_bytes is None:
            attempts.insert(0, (block_bytes, room_bytes))
        for size, room in attempts:
            if size <= low:
                continue
            try:
                return self._read(size, room)
            except BudgetError:
                if not info.rereadable:
                    raise
                self._release()
                self.budget.return_to(before)
        self._read(low)

    def scale_otherwise(self) -> bool:
        """Scale mostly filled rows as sparse ones, whose zeros stay, or the other way round, as training may
        have done under its own memory limit. Returns whether there is another way."""
        if self._instead is None:
            return False
        self.scaling, self._instead, self._filled = self._instead, self.scaling, not self._filled
        return True

    def _release(self) -> None:
        """Let go of all rows, so that their memory may have another use."""
        self._held = None
        self.budget.resize(HELD, 0)
        trim_freed_memory()

    def all(self) -> Iterator[Block]:
        """Yield every row once, in the order of the source. Labels are class ids or targets, see ``Block``."""
        for block in self._again():
            X = block.X
            if self.scaling is not None:
                X = self._copied(X)
                self.scaling.apply(X)
            yield Block(X, block.y, block.rows, block.weight)

    def _again(self) -> Iterator[Block]:
        if self._held is not None:
            yield from self._held
        elif self._spool is not None:
            self._spool.seek(0)
            with suppress(EOFError):
                while True:
                    yield self._finished(pickle.load(self._spool))
        else:
            for block in growing_blocks(self.source, self._block_bytes, self._grow):
                yield Block(block.X, self._labels.final(block.y), block.rows, block.weight)

    def _copied(self, X: Matrix) -> Matrix:
        dtype = self.dataset.dtype
        if self._filled or not isinstance(X, CSR):
            return dense(X, 0, self.dataset.n_columns).astype(dtype)
        begin, end = int(X.indptr[0]), int(X.indptr[-1])  # of a larger matrix, perhaps
        return CSR(X.indptr - begin, X.indices[begin:end], X.data[begin:end].astype(dtype))

    def _finished(self, block: Block) -> Block:
        """Return labels as blocks have them, of those that were known while rows were read."""
        finish = self._labels.finisher
        return block if finish is None else Block(block.X, finish(block.y), block.rows, block.weight)

    def _grow(self, row_bytes: int) -> int:
        """Make blocks so large. Raises BudgetError."""
        self._block_bytes = row_bytes
        self.budget.resize(READING, _BLOCKS_HELD * row_bytes)
        self._require_room(_BLOCKS_HELD * row_bytes)
        return row_bytes

    def _require_room(self, nbytes: int) -> None:
        """Raise BudgetError where rows that are only looked at take too much."""
        if self._most_bytes is not None and resident_bytes() + nbytes > self._most_bytes:
            self.budget.require({READING: self.budget.limit_bytes})

    def _read(self, block_bytes: int, room_bytes: int = 0) -> None:
        """Read the rows. room_bytes: of memory, for all rows."""
        source, budget, settings = self.source, self.budget, self._settings
        info = source.info()
        self._labels = labels = labels_of(info.label_kind, info.scale_targets)
        statistics = ColumnStatistics(info.first_indicator)
        transforms = settings.scale != "none" or settings.missing == "mean"
        n_rows = n_columns = nnz = n_dense = 0
        weighted, weight_sum, dtype = False, 0.0, np.dtype(np.float32)
        self._grow(block_bytes)
        self._held = [] if room_bytes else None
        for block in growing_blocks(source, block_bytes, self._grow):
            if not block.n_rows:
                continue
            X = block.X
            n_columns = max(n_columns, _columns(X))
            weighted |= block.weight is not None
            budget.resize(LIBRARY, max(source.info().reader_bytes, budget.lines.get(LIBRARY, 0)))
            if transforms:
                budget.resize(STATISTICS, statistics.work_bytes(self._scaled(n_columns), weighted))
            if transforms and self._most_bytes is None:
                statistics.add(X, block.counts)
            try:
                y = labels.encode(block.y, block.counts)
            except DataError as error:
                raise DataError(f"{info.name}: {error}") from error
            budget.resize(LABELS, labels.nbytes)
            self._require_room(0)
            n_rows, nnz = n_rows + block.n_rows, nnz + block.nnz
            n_dense += not isinstance(X, CSR)
            weight_sum = running_sum(weight_sum, block.weight, block.n_rows)
            dtype = np.result_type(dtype, X.data.dtype if isinstance(X, CSR) else X.dtype)
            self._keep(Block(X, y, block.rows, block.weight), room_bytes)
        info = source.info()
        labels.require_variety(info.name, info.encoder.label if info.is_table and info.encoder else None)
        if self._held is not None:
            self._held = [self._finished(block) for block in self._held]
        base, order = info.index_base or 0, np.argsort(labels.rank)
        n_columns = max(n_columns, base + (info.n_features or 0), base + 1)
        self._filled = n_dense > 0 or nnz > _FILLED * n_rows * n_columns
        self.dataset = DatasetInfo(
            name=info.name,
            n_rows=n_rows,
            n_columns=n_columns,
            first_column=base,
            nnz=nnz,
            classes=labels.classes,
            counts=labels.counts[order],
            class_sums=labels.sums[order],
            is_dense=n_dense > 0 or (transforms and self._filled),
            dtype=dtype,
            weighted=weighted,
            weight_sum=weight_sum,
            kind=labels.kind,
            target=labels.target,
        )
        if transforms:
            budget.resize(STATISTICS, statistics.work_bytes(self._scaled(n_columns), weighted))
        cells = n_rows * n_columns
        self._is_doubtful = settings.scale in SHIFTED and not n_dense and nnz > _MAYBE_FILLED * cells
        if transforms and self._most_bytes is None:
            self._learn_scaling(statistics)
        if (sums_bytes := self._needs(self.dataset)) > budget.available_bytes:
            self._release()
        budget.resize("rows with dual variables", sums_bytes)

    def _keep(self, block: Block, room_bytes: int) -> None:
        """Keep rows in memory while there is room, or in a file if the source cannot be read again. Raises
        DiskError."""
        if not self.source.info().rereadable:
            try:
                self._spool = self._spool or tempfile.TemporaryFile(  # noqa: SIM115
                    dir=self._settings.spill_dir
                )
                pickle.dump(block, self._spool, pickle.HIGHEST_PROTOCOL)
                self._spool.flush()
            except OSError as error:
                raise DiskError(
                    f"keeping what can be read once only: {error}; pass another --spill-dir"
                ) from error
        elif self._held is not None:
            self._held.append(block)
            nbytes = self.budget.lines.get(HELD, 0) + block.nbytes
            if nbytes > room_bytes:
                self._release()
            else:
                self.budget.resize(HELD, nbytes)

    def _scaled(self, n_columns: int) -> int:
        """Return how many of the columns have a scale that is learned: not n-grams and indicators of categories."""
        first = self.source.info().first_indicator
        return n_columns if first is None else min(n_columns, first)

    def _learn_scaling(self, statistics: ColumnStatistics) -> None:
        info, facts, scale = self.source.info(), self.dataset, self._settings.scale
        half_ulp = {} if facts.dtype == np.float32 else {"half_ulp": UNIT}
        if statistics.blurred(scale, facts.n_rows, info.rounding, **half_ulp) is not None:
            raise ModelError(
                f"{info.name}: values are too near to 0, or to each other, for 32-bit floats, and this model was "
                "trained on such: train again"
            )
        try:
            self.scaling = statistics.scaling(scale, facts.n_rows, facts.n_columns, self._filled)
            if self._is_doubtful:
                self._instead = statistics.scaling(scale, facts.n_rows, facts.n_columns, not self._filled)
        except ScaleError as error:
            column = column_name(info, error.column)
            raise DataError(
                f"{info.name}: {column}: its values, from {error.smallest:.3g} to {error.largest:.3g}, differ by "
                "too little or too much to be scaled in 64-bit floats"
            ) from error
        self.budget.resize(STATISTICS, self.scaling.nbytes * (1 + self._is_doubtful))


def looking_at(
    source: BlockSource, settings: Settings, needs: Callable[[DatasetInfo], int], most_bytes: int
) -> Rows:
    """Return rows without a limit, of which reading tells what they take: see ``Rows``."""
    budget = MemoryBudget(1 << 62)
    most_bytes = max(most_bytes, budget.reserved_bytes) + MIN_WORK_BYTES
    return Rows(source, budget, settings, needs, most_bytes)


def _columns(X: Matrix) -> int:
    """Return the columns in which a row has a value, or as many as rows are wide."""
    if isinstance(X, CSR):
        return int(X.indices[X.indptr[0] : X.indptr[-1]].max(initial=-1)) + 1
    return X.shape[1]
