"""FirstReading reads a source for the first time. It learns the facts, and puts the rows where later passes find
them.

Rows go into memory while they fit and, from the first that does not, all of them into a page store (the binary
cache). Labels become class ids, and pages that are mostly filled become dense."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from llsvm.block import CSR, Block, Matrix
from llsvm.data.source import BlockSource
from llsvm.dataset import DatasetInfo
from llsvm.errors import DataError, DiskError
from llsvm.features.scaling import MAX_UNSCALED, ColumnStatistics, ScaleError
from llsvm.features.targets import RowLabels, labels_of
from llsvm.objective.rounding import ValuesRounded, lost_squares
from llsvm.process.trace import trace
from llsvm.row_buffer import RowBuffer, densify, sparsify, steps
from llsvm.settings.objective import CLASSIFICATION
from llsvm.spill.store import PageSink, PageStore, Scratch
from llsvm.spill.writer import CountingStore, PageWriter
from llsvm.stream.progress import Progress
from llsvm.stream.row_facts import DENSE_SHARE, PageSizes, RowLengths, RowsDigest, RowShape, SampleWeights

_MEASURED_LABEL_BYTES = 10_000_000


class FirstReading:
    """One reading of a source. Afterwards ``buffer`` has all rows (in memory), or ``store`` has them (on disk),
    or both are None and later passes read the source again.

    labels, lengths, digest, shape, weights, pages: what was learned of the rows. statistics: what was learned of
    the columns, or None. note: why there is no binary cache, or "".
    """

    def __init__(
        self,
        source: BlockSource,
        progress: Progress,
        statistics: ColumnStatistics | None = None,
        measuring: bool = False,
    ) -> None:
        """source: is read from its start to its end.
        progress: counts what was read.
        statistics: take in the columns while rows are read; None where columns are used as they are.
        measuring: only count rows; numbers stand for labels where these take much memory."""
        info = source.info()
        self._source, self._progress, self._measuring = source, progress, measuring
        self.labels: RowLabels = labels_of(info.label_kind, info.scale_targets)
        self.lengths, self.digest = RowLengths(info.first_indicator), RowsDigest()
        self.shape, self.weights, self.pages = RowShape(), SampleWeights(), PageSizes()
        self.statistics = statistics
        self.buffer: RowBuffer | None = None
        self.store: PageSink | None = None
        self._writer: PageWriter[PageSink] | None = None  # to the store, while there is one to be written
        self.note = ""
        # are the pages' class ids positions in ``classes``, not the order of appearance?
        self.final_ids = False

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

        read_bytes: the size of blocks that the source is asked for, at least ``page_bytes``: fewer blocks are
        faster.
        page_bytes: the largest size of a page; a single row may be larger.
        sign: reserves memory for what was learned, or is about to be, and returns the bytes that are left for rows.
        hold: rows may be held in memory.
        make_store: makes the store for rows that do not fit in memory, or None for no store.
        must_store: a full disk is an error; else the reading goes on without a store.
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
        with ThreadPoolExecutor(1, "llsvm-statistics") as executor:
            for raw in (page for block in blocks for page in _pages(block, page_bytes)):
                if refuse_rounding and lost_squares(info.rounding) > lost_before:
                    raise ValuesRounded
                columns = _columns(raw.X)
                self.shape.widen(columns)
                self.weights.expect(raw)
                adding = self._begin_statistics(raw, sign, executor)
                page = self._learn(raw, max(columns, known))
                room = sign()
                if holding and not self._hold(page, room):
                    why = "pages of several kinds" if self.shape.mixed else "no room"
                    trace("rows.left_memory", why=why, rows=self.shape.n_rows, room_bytes=room)
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
        """Copy, after ``run``, the rows of ``store`` into another one, whose pages are smaller, in its place.

        page_bytes: the largest size of its pages. make_store: returns an empty store. must_store: see ``run``.
        """
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
        """Move, after ``run``, all rows out of memory, in pages, since a solver needs that memory."""
        self.final_ids = True
        trace("rows.left_memory", why="a solver needs their room", rows=self.shape.n_rows, room_bytes=None)
        if make_store is not None:
            self._spill_buffer(page_bytes, make_store, must_store)
            self._finish_store(must_store)
        self.buffer = None

    @property
    def stored(self) -> PageStore:
        """Return the store that has the rows, from which they can be read."""
        assert isinstance(self.store, PageStore), "pages were counted, and none is kept"
        return self.store

    def end_statistics(self) -> ColumnStatistics | None:
        """Return the statistics of the columns, or None, and keep them here no longer."""
        statistics, self.statistics = self.statistics, None
        return statistics

    def _begin_statistics(
        self, raw: Block, sign: Callable[[], int], executor: ThreadPoolExecutor
    ) -> Future[None] | None:
        """Let another thread add the rows to the columns' statistics, if there are any: these are a table that does
        not fit into the processor's cache."""
        if self.statistics is None:
            return None
        sign()  # before the table grows to as many columns
        return executor.submit(self.statistics.add, raw.X, raw.counts)

    def _learn(self, raw: Block, columns: int) -> Block:
        """Take in the rows, and return them with class ids or targets for labels, dense if they are mostly filled.
        columns: the width of dense rows."""
        X = raw.X
        self.lengths.look_at(X, raw.n_rows)
        if self.statistics is None and not self._measuring:
            self._require_products(X)
        info = self._source.info()
        try:
            y = self.labels.encode(raw.y, raw.counts)
        except DataError as error:
            raise DataError(f"{info.name}: {error}") from error
        page = Block(_fitting(X, columns), y, raw.rows, raw.weight)
        self.digest.add(raw, y)
        self.weights.update(page, info.name)
        self.pages.update(page)
        self.shape.update(raw, page)
        return page

    def _require_products(self, X: Matrix) -> None:
        """Raise ScaleError for a value that is too large to be trained on without a scale."""
        values = X.data[X.indptr[0] : X.indptr[-1]] if isinstance(X, CSR) else X
        if values.dtype == np.float64 and values.size and (largest := np.abs(values).max()) > MAX_UNSCALED:
            place = int(np.argmax(np.abs(values)))
            column = X.indices[X.indptr[0] + place] if isinstance(X, CSR) else place % X.shape[1]
            raise ScaleError(int(column), -float(largest), float(largest))

    def _hold(self, page: Block, buffer_bytes: int) -> bool:
        """Take the page into memory, if its size and kind fit; return whether they do."""
        if self.buffer is None:
            width = None if isinstance(page.X, CSR) else page.X.shape[1]
            self.buffer = RowBuffer(
                buffer_bytes, self.shape.dtype, width, self.weights.given, self._has_targets
            )
        buffer = self.buffer
        buffer.capacity_bytes = min(buffer.capacity_bytes, buffer_bytes)
        if self.shape.mixed:
            return False
        n_columns = self.shape.n_columns
        if buffer.width is not None and n_columns > buffer.width:
            if not buffer.could_widen(n_columns, page.n_rows):
                return False
            buffer.widen(n_columns)
        if buffer.width is None and not isinstance(page.X, CSR):
            page = Block(sparsify(page.X), page.y, page.rows, page.weight)
        if not buffer.fits(page.n_rows, page.nnz):
            return False
        buffer.append(page)
        return True

    @property
    def held_bytes(self) -> int:
        """Return what all rows take in memory, unless they are of several kinds."""
        return self.shape.held_bytes(self.weights.given, self._has_targets)

    @property
    def _has_targets(self) -> bool:
        return self.labels.kind != CLASSIFICATION

    def _spill_buffer(self, page_bytes: int, make_store: Callable[[], PageSink], must_store: bool) -> None:
        """Move the rows in memory to a store, to which all later rows go."""
        self._writer = PageWriter(page_bytes, make_store)
        buffer, self.buffer = self.buffer, None
        if buffer is not None:
            self._append(_pages(buffer.block(), page_bytes), must_store)

    def _append(self, pages: Iterable[Block], must_store: bool) -> None:
        """Put rows into the store, whose writer joins small pages of a source."""
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
        """Forget all rows, those on disk too: the reading has failed and begins anew."""
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
        info, shape, weights = self._source.info(), self.shape, self.weights
        stand_in = self._measuring and self.labels.nbytes > _MEASURED_LABEL_BYTES
        classes = np.arange(float(len(self.labels))) if stand_in else self.labels.classes
        table = info.encoder if info.is_table else None
        self.labels.require_variety(
            info.name, None if table is None else table.label, "" if table is None else table.label_note
        )
        if self.buffer is not None and self.labels.finisher is not None:
            self.buffer.relabel(self.labels.finisher)
        first_column, order = info.index_base or 0, np.argsort(self.labels.rank)
        n_columns = max(shape.n_columns, first_column + (info.n_features or 0), first_column + 1)
        # Sparse pages must not swell when they become dense, else they no longer fit where pages are put.
        swollen = self.pages.largest_rows * n_columns * shape.dtype.itemsize > 2 * self.pages.largest_bytes
        filled = shape.is_mostly_filled(n_columns) and not swollen
        if self.buffer is not None:
            filled = self.buffer.width is not None
        elif self.store is None and not self._measuring:
            filled = shape.raw_dense
        return DatasetInfo(
            name=info.name,
            n_rows=self.shape.n_rows,
            n_columns=n_columns,
            first_column=first_column,
            nnz=shape.nnz,
            classes=classes,
            counts=self.labels.counts[order],
            class_sums=self.labels.sums[order],
            is_dense=filled,
            dtype=shape.dtype,
            weighted=weights.given,
            weight_sum=weights.total,
            largest_value=self.lengths.largest_value,
            kind=self.labels.kind,
            target=self.labels.target,
        )


def _columns(X: Matrix) -> int:
    """Return the number of columns up to the last one in which sparse rows have a value, or the width of dense
    rows."""
    if isinstance(X, CSR):
        return int(X.indices[X.indptr[0] : X.indptr[-1]].max(initial=-1)) + 1
    return X.shape[1]


def _fitting(X: Matrix, columns: int) -> Matrix:
    """Return sparse rows as a dense array where that takes less memory."""
    if not isinstance(X, CSR):
        return X
    n, nnz = len(X.indptr) - 1, int(X.indptr[-1] - X.indptr[0])
    if nnz <= DENSE_SHARE * n * columns:
        return X
    dense = np.empty((n, columns), X.data.dtype)
    densify(X, dense)
    return dense


def _pages(block: Block, page_bytes: int) -> Iterator[Block]:
    """Yield the block in pieces of at most ``page_bytes``."""
    for start, stop in steps(block.X, page_bytes):
        yield block.slice(start, stop)
