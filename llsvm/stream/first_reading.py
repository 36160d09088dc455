"""FirstReading: the first reading of a source. It learns the facts, and puts the rows where later passes find them.

Rows go into memory while they fit and, from the first that does not, all of them into a page store (the binary
cache). Labels become class ids, and pages that are mostly filled become dense."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block, Matrix
from llsvm.data.source import BlockSource
from llsvm.dataset import DatasetInfo
from llsvm.errors import DataError, DiskError
from llsvm.features.column_statistics import ColumnStatistics, ScaleError
from llsvm.features.scaling import MAX_UNSCALED
from llsvm.features.targets import RowLabels, labels_of
from llsvm.objective.rounding import ValuesRounded, lost_squares
from llsvm.process.trace import trace
from llsvm.row_buffer import RowBuffer, densify, sparsify, steps
from llsvm.settings.objective import CLASSIFICATION
from llsvm.spill.counting import CountingStore
from llsvm.spill.store import PageSink, PageStore, Scratch
from llsvm.spill.writer import PageWriter
from llsvm.stream.digest import RowsDigest
from llsvm.stream.progress import Progress
from llsvm.stream.row_lengths import RowLengths
from llsvm.stream.seen_rows import DENSE_SHARE, PageSizes, RowKinds, SampleWeights

_MEASURED_LABEL_BYTES = 10_000_000


class FirstReading:
    """One reading of a source. Afterwards ``buffer`` has all rows (in memory), or ``store`` has them (on disk),
    or both are None and later passes read the source again.

    sizes: of the pages. weights: of the rows. kinds: whether memory can hold them as one block."""

    def __init__(
        self,
        source: BlockSource,
        progress: Progress,
        statistics: ColumnStatistics | None = None,
        measuring: bool = False,
    ) -> None:
        """source: to be read, from its start to its end.
        progress: to count in.
        statistics: of the columns, learned as the rows go by; None where rows are taken as they are.
        measuring: rows are counted only; many or long labels are stood for by numbers."""
        self._measuring = measuring
        self.labels: RowLabels = labels_of(source.info().label_kind, source.info().scale_targets)
        self.digest = RowsDigest()
        self.buffer: RowBuffer | None = None
        self.store: PageSink | None = None
        self.sizes, self.weights, self.kinds = PageSizes(), SampleWeights(), RowKinds()
        self.note = ""
        # are the pages' class ids positions in ``classes``, not the order of appearance?
        self.final_ids = False
        self.lengths = RowLengths(source.info().first_indicator)
        self.statistics = statistics
        self._source = source
        self._progress = progress
        self._writer: PageWriter[PageSink] | None = None  # to the store, while there is one to be written

    def run(
        self,
        read_bytes: int,
        page_bytes: int,
        sign: Callable[[], int],
        hold: bool,
        make_store: Callable[[], PageSink] | None,
        must_store: bool,
        refuse_rounding: bool = False,
    ) -> DatasetInfo:
        """Read everything, in pages of ``page_bytes``. Raises ValuesRounded, if that is asked for, as soon as the
        source has rounded a value.

        read_bytes: of the blocks that the source is asked for, at least ``page_bytes``: fewer are faster.
        page_bytes: of a page, at most; a single row may be larger.
        sign: has the ledger sign for what was learned, or is about to be, and returns how much is left for rows in
        memory, in bytes.
        hold: rows may be held there.
        make_store: makes the store for what does not fit in memory, or None for none.
        must_store: a full disk is an error, not a reason to go without.
        refuse_rounding: raise ValuesRounded.
        """
        info = self._source.info()
        known = (info.index_base or 0) + (info.n_features or 0)  # the last may have no values in any row
        self._progress.begin("reading", info.n_rows or 0, info.n_bytes or 0)
        before, lost_before = self._source.bytes_read, lost_squares(info.rounding)
        room = sign()
        holding = hold and room > 0
        if not holding and make_store is not None:
            self._spill_buffer(page_bytes, make_store, must_store)
        blocks = self._source.blocks(read_bytes)
        with ThreadPoolExecutor(1, "llsvm-statistics") as beside:
            for raw in (page for block in blocks for page in _pages(block, page_bytes)):
                if refuse_rounding and lost_squares(info.rounding) > lost_before:
                    raise ValuesRounded
                columns = _columns(raw.X)
                self.kinds.begin(columns, raw.weight is not None)
                adding = self._begin_statistics(raw, sign, beside)
                page = self._learn(raw, max(columns, known))
                room = sign()
                if holding and not self._hold(page, room):
                    why = "pages of several kinds" if self.kinds.mixed else "no room"
                    trace("rows.left_memory", why=why, rows=self.kinds.n_rows, room_bytes=room)
                    holding = False
                    if make_store is not None:
                        self._spill_buffer(page_bytes, make_store, must_store)
                    self.buffer = None
                if not holding:
                    self._append([page], must_store)
                if adding is not None:
                    adding.result()  # before the rows may change
                self._progress.count(page.n_rows, self._source.bytes_read - before)
        self._finish_store(must_store)
        return self._finish()

    def cut_anew(self, page_bytes: int, make_store: Callable[[], PageSink], must_store: bool) -> None:
        """After ``run``: cut the store's pages to ``page_bytes``, less than they were cut to."""
        if isinstance(self.store, CountingStore):
            self.store = self.store.cut(page_bytes)
            return
        old, self.store = self.stored, None
        self._writer, scratch = PageWriter(page_bytes, make_store), Scratch()
        for number in range(len(old.pages)):
            self._append(_pages(old.read(number, scratch), page_bytes), must_store)
        self._finish_store(must_store)
        old.delete()

    def move_to_store(
        self, page_bytes: int, make_store: Callable[[], PageSink] | None, must_store: bool
    ) -> None:
        """After ``run``: take all rows out of memory, in pages, since something else needs it."""
        self.final_ids = True
        trace("rows.left_memory", why="a solver needs their room", rows=self.kinds.n_rows, room_bytes=None)
        if make_store is not None:
            self._spill_buffer(page_bytes, make_store, must_store)
            self._finish_store(must_store)
        self.buffer = None

    @property
    def stored(self) -> PageStore:
        """The store that has the rows, to be read."""
        assert isinstance(self.store, PageStore), "pages were counted, and none is kept"
        return self.store

    @property
    def n_columns(self) -> int:
        """Columns seen so far."""
        return self.kinds.n_columns

    def end_statistics(self) -> ColumnStatistics | None:
        """What columns have been learned to be, if that was asked for: it is let go here."""
        statistics, self.statistics = self.statistics, None
        return statistics

    def _begin_statistics(
        self, raw: Block, sign: Callable[[], int], beside: ThreadPoolExecutor
    ) -> Future[None] | None:
        """Have the columns' statistics, if there are any, take the rows in, by another thread: they are a table
        that the processor's cache does not hold."""
        if self.statistics is None:
            return None
        sign()  # before the table grows to as many columns
        return beside.submit(self.statistics.add, raw.X, raw.counts)

    def _learn(self, raw: Block, columns: int) -> Block:
        """The rows with class ids or targets for labels, dense if they are mostly filled. columns: of these."""
        X = raw.X
        self.lengths.look_at(X, raw.n_rows)
        if self.statistics is None and not self._measuring:
            self._require_products(X)
        try:
            y = self.labels.encode(raw.y, raw.counts)
        except DataError as error:
            raise DataError(f"{self._source.info().name}: {error}") from error
        page = Block(_fitting(X, columns), y, raw.rows, raw.weight)
        self.digest.add(raw, y)
        self.weights.add(page, self._source.info().name)
        self.sizes.add(page)
        self.kinds.add(page, raw)
        return page

    def _require_products(self, X: Matrix) -> None:
        """Raise ScaleError for a value that is too large to be trained on without a scale."""
        values = X.data[X.indptr[0] : X.indptr[-1]] if isinstance(X, CSR) else X
        if values.dtype == np.float64 and values.size and (most := np.abs(values).max()) > MAX_UNSCALED:
            place = int(np.argmax(np.abs(values)))
            column = X.indices[X.indptr[0] + place] if isinstance(X, CSR) else place % X.shape[1]
            raise ScaleError(int(column), -float(most), float(most))

    @property
    def weight_squares(self) -> NDArray[np.float64]:
        """Σ s_i² over the rows of each class, (k,), by position; s_i is 1 where there are no sample weights."""
        return self.weights.squares(self.labels.counts)[np.argsort(self.labels.rank)]

    def _hold(self, page: Block, buffer_bytes: int) -> bool:
        """Take the page into memory, if it fits there by size and by kind."""
        if self.buffer is None:
            width = None if isinstance(page.X, CSR) else page.X.shape[1]
            self.buffer = RowBuffer(
                buffer_bytes, self.kinds.dtype, width, self.kinds.weighted, self._has_targets
            )
        buffer = self.buffer
        buffer.capacity_bytes = min(buffer.capacity_bytes, buffer_bytes)
        if self.kinds.mixed:
            return False
        if buffer.width is not None and self.n_columns > buffer.width:
            if not buffer.could_widen(self.n_columns, page.n_rows):
                return False
            buffer.widen(self.n_columns)
        if buffer.width is None and not isinstance(page.X, CSR):
            page = Block(sparsify(page.X), page.y, page.rows, page.weight)
        if not buffer.fits(page.n_rows, page.nnz):
            return False
        buffer.append(page)
        return True

    @property
    def held_bytes(self) -> int:
        """That all rows take in memory, unless they are ``mixed``."""
        return self.kinds.held_bytes(self._has_targets)

    @property
    def _has_targets(self) -> bool:
        return self.labels.kind != CLASSIFICATION

    def _spill_buffer(self, page_bytes: int, make_store: Callable[[], PageSink], must_store: bool) -> None:
        """From now on rows go to the store; those in memory first."""
        self._writer = PageWriter(page_bytes, make_store)
        buffer, self.buffer = self.buffer, None
        if buffer is not None:
            self._append(_pages(buffer.block(), page_bytes), must_store)

    def _append(self, pages: Iterable[Block], must_store: bool) -> None:
        """Put rows into the store; sources may hand out pages much smaller than it likes to have them."""
        if self._writer is None:
            return
        try:
            for page in pages:
                self._writer.append(page)
        except DiskError as error:
            self._disable_cache(error, must_store)

    def _disable_cache(self, error: DiskError, must_store: bool) -> None:
        assert self._writer is not None
        self._writer.discard()
        self.close()
        if must_store:
            raise error
        self.note = f"no binary cache: {error}"

    def _finish_store(self, must_store: bool) -> None:
        if self._writer is None:
            return
        try:
            self.store = self._writer.finish()
        except DiskError as error:
            self._disable_cache(error, must_store)
        self.close()

    def abandon(self) -> None:
        """Forget all rows, those on disk too: the reading has failed, and is to begin anew."""
        self.buffer = None
        if self._writer is not None:
            self._writer.discard()
        self.close()

    def close(self) -> None:
        """Return when nothing is being written any more."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _finish(self) -> DatasetInfo:
        info = self._source.info()
        stand_in = self._measuring and self.labels.nbytes > _MEASURED_LABEL_BYTES
        classes = np.arange(float(len(self.labels))) if stand_in else self.labels.classes
        table = info.encoder if info.is_table else None
        self.labels.require_variety(
            info.name, None if table is None else table.label, "" if table is None else table.label_note
        )
        if self.buffer is not None and self.labels.finisher is not None:
            self.buffer.relabel(self.labels.finisher)
        first_column, order = info.index_base or 0, np.argsort(self.labels.rank)
        kinds = self.kinds
        n_columns = max(kinds.n_columns, first_column + (info.n_features or 0), first_column + 1)
        # Sparse pages must not swell when they become dense, else they no longer fit where pages are put.
        swollen = self.sizes.largest_rows * n_columns * kinds.dtype.itemsize > 2 * self.sizes.largest_bytes
        filled = kinds.mostly_filled(n_columns) and not swollen
        if self.buffer is not None:
            filled = self.buffer.width is not None
        elif self.store is None and not self._measuring:
            filled = kinds.come_dense
        return DatasetInfo(
            name=info.name,
            n_rows=kinds.n_rows,
            n_columns=n_columns,
            first_column=first_column,
            nnz=kinds.nnz,
            classes=classes,
            counts=self.labels.counts[order],
            class_sums=self.labels.sums[order],
            is_dense=filled,
            dtype=kinds.dtype,
            weighted=kinds.weighted,
            weight_sum=self.weights.total,
            largest_value=self.lengths.largest_value,
            kind=self.labels.kind,
            target=self.labels.target,
        )


def _columns(X: Matrix) -> int:
    """That some rows have a value in, or are as wide."""
    if isinstance(X, CSR):
        return int(X.indices[X.indptr[0] : X.indptr[-1]].max(initial=-1)) + 1
    return X.shape[1]


def _fitting(X: Matrix, columns: int) -> Matrix:
    """Sparse rows as a dense array where that takes less memory."""
    if not isinstance(X, CSR):
        return X
    n, nnz = len(X.indptr) - 1, int(X.indptr[-1] - X.indptr[0])
    if nnz <= DENSE_SHARE * n * columns:
        return X
    dense = np.empty((n, columns), X.data.dtype)
    densify(X, dense)
    return dense


def _pages(block: Block, page_bytes: int) -> Iterator[Block]:
    """The block in pieces of at most ``page_bytes``."""
    for start, stop in steps(block.X, page_bytes):
        yield block.slice(start, stop)
