"""DataReader reads a data set for the first time, under the memory limit. It reserves what FirstReading needs,
begins anew where rows are longer than pages, and then sets the columns' scale and the facts that plans follow
from."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.data.source import BlockSource, column_name, table_block_bytes
from llsvm.dataset import DatasetInfo, Pages, ReadingFacts
from llsvm.errors import DataError, LongRowError
from llsvm.features.scaling import ROW_SCALE, UNSCALED_ABOVE, ColumnStatistics, ScaleError, Scaling
from llsvm.memory import plan
from llsvm.memory.budget import LABELS, LIBRARY, READING, STATISTICS, MemoryBudget
from llsvm.memory.process import MIN_WORK_BYTES, peak_resident_bytes, resident_bytes, trim_freed_memory
from llsvm.objective.rounding import HALF_ULP, HALF_ULP64, NOISE, ValuesRounded, lost_squares
from llsvm.spill.store import PageSink
from llsvm.stream.first_reading import FirstReading
from llsvm.stream.progress import Progress

_LAST_STEPS = 32  # of a reading that only counts
_KERNELS_BYTES = (
    40_000_000  # measured: Numba and the first kernel, which reading loads where nothing else has
)
_BLURRED = (
    "its values are too near to 0, or to each other, for 32-bit floats: that is known once they have been read; "
    "write the data to a file, or pass --tol 1e-6, which keeps 64-bit floats"
)
_BLURRED64 = (
    "its values are too near to each other for the 64-bit floats that they are read as (whole numbers beyond 2^53, "
    "decimals, dates): subtract the same from all of them, or leave the column out"
)
_TOO_LARGE = (
    "a value of size {1:.3g}: products of such values are no 64-bit floats; multiply the column by a power of ten, "
    "or leave it out, or scale the columns (--scale standard, minmax or maxabs, which kernels do not take)"
)
_UNSCALABLE = (
    "its values, from {:.3g} to {:.3g}, differ by too little or too much to be scaled in 64-bit floats (1e-301 to "
    "1.7e308); multiply the column by a power of ten, or leave it out"
)


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """Options of a first reading.

    scale: a choice of the option ``scale``, but "auto".
    has_bias: there is a constant feature, which can take a shift.
    fill_missing: NaN becomes the column's mean.
    cache: whether rows that do not fit in memory are kept in a binary copy: "always", "never" or "auto".
    refuse_rounding: raise ValuesRounded where values are no 32-bit floats.
    """

    scale: str = "none"
    has_bias: bool = False
    fill_missing: bool = False
    cache: str = "auto"
    refuse_rounding: bool = False

    @property
    def transforms(self) -> bool:
        """Return whether rows are scaled, or their missing values filled, before they are used."""
        return self.scale != "none" or self.fill_missing


class Losses(NamedTuple):
    """Sizes of what rounding has lost, for ``llsvm.objective.rounding.RoundingBound``.

    root: the root of Σ e² over the errors of all values. squares: (k,) Σ C_i² over the rows of each class.
    largest: (k,) the largest C_i of each class. noise: what sums in 64 bits may have lost of a weight."""

    root: float
    squares: NDArray[np.float64]
    largest: NDArray[np.float64]
    noise: float


class _Steps:
    """Memory of the process, measured from step to step: some of what a step needs it holds for a moment only."""

    def __init__(self) -> None:
        self._resident, self._peak = 0, 0
        self._grown: deque[int] = deque(maxlen=_LAST_STEPS)

    def next_peak(self) -> int:
        """Return the bytes held after two more steps like the largest of the last ones. The first step, which loads
        libraries, does not count."""
        resident, peak = resident_bytes(), peak_resident_bytes()
        if self._peak:
            self._grown.append((peak if peak > self._peak else resident) - self._resident)
        self._resident, self._peak = resident, peak
        return resident + 2 * max(self._grown, default=0)


class DataReader:
    """The first reading of a source, and what it has found.

    rows: the FirstReading, which has the rows (buffer, store) and their labels; known after ``read``.
    scaling: the scale that is applied to the columns, or None.
    lost: the root of Σ e² over the rounding errors e of the values.
    page_bytes: the size of the pages that the source was read in.
    held: the budget's lines before ``read`` reserved any.
    """

    def __init__(
        self,
        source: BlockSource,
        budget: MemoryBudget,
        progress: Progress,
        options: ReadingOptions,
        make_cache: Callable[[], PageSink],
    ) -> None:
        """source: is read.
        budget: memory is reserved in it before it is used.
        progress: counts what was read.
        options: see ReadingOptions.
        make_cache: returns an empty store for the binary cache."""
        self.source, self.budget, self.options = source, budget, options
        for each in source.info().rounding:
            each.judge_rows(options.scale == ROW_SCALE)
        self.scaling: Scaling | None = None
        self.lost = 0.0
        self.page_bytes = 0
        self.held: Mapping[str, int] = budget.mark()
        self._scale_note = ""
        self._progress = progress
        self._make_cache = make_cache
        # of a row much longer than pages are, once there has been one; or of some rows of a wide table
        self._long_row_bytes = table_block_bytes(source.info())
        self._begun_bytes: int | None = None  # of the reader, as it was asked for rows first
        self._bytes_asked = -1  # that the source had read when it was last asked what it holds
        self.rows = self._new_reading()

    @property
    def note(self) -> str:
        """Return what users should know of the labels and of the columns' scale, or ""."""
        return "; ".join(filter(None, (self.rows.labels.doubt, self._scale_note)))

    @property
    def views(self) -> bool:
        """Return whether rows are the caller's arrays, unchanged."""
        return self.source.info().in_memory and not self.options.transforms

    @property
    def must_store(self) -> bool:
        return self.options.cache == "always" or not self.source.info().rereadable

    @property
    def cache_maker(self) -> Callable[[], PageSink] | None:
        """Return what makes the binary cache, or None where there must be none."""
        return None if self.options.cache == "never" and not self.must_store else self._make_cache

    def cut_anew(self, page_bytes: int, make_store: Callable[[], PageSink]) -> None:
        """Let pages have, after ``read``, ``page_bytes`` from now on, fewer than before, and cut those of a store
        anew."""
        self.page_bytes = page_bytes
        if self.rows.store is not None:
            self.rows.cut_anew(page_bytes, make_store, self.must_store)

    @property
    def place(self) -> str:
        """Return where full passes read from: "memory", "cache" or "source"."""
        if self.views or self.rows.buffer is not None:
            return "memory"
        return "cache" if self.rows.store is not None else "source"

    @property
    def source_bytes(self) -> int:
        """Return the size of the blocks that later passes ask the source for."""
        return max(self.page_bytes, self._long_row_bytes)

    def read(self) -> DatasetInfo:
        """Read the source once, to its end. Raises DataError, BudgetError, DiskError; ValuesRounded where rounding
        values to 32-bit floats leaves the scale of a column unknown, and the source can be read again."""
        budget, options = self.budget, self.options
        self.rows = self._new_reading()  # since the first one was made, columns may have been learnt
        scaling = self._known_statistics_bytes
        begun = self._begun_bytes = self.source.info().reader_bytes + scaling
        self.page_bytes = plan.page_bytes_for(budget.available_bytes, begun)
        self.held = budget.mark()
        make_store, must_store = (None, False) if self.views else (self.cache_maker, self.must_store)
        while True:
            lost_before = lost_squares(self.source.info().rounding)
            page_bytes, long = self.page_bytes, self._long_row_bytes
            budget.reserve(READING, plan.reading_bytes_for(budget.available_bytes, begun, page_bytes, long))
            budget.resize(STATISTICS, scaling)
            self.hold_library(self.source.info().reader_bytes)
            read_bytes = plan.read_bytes_for(budget.available_bytes, 0, page_bytes, long)
            if self.cache_maker is None:  # later passes must hold what this one does
                read_bytes = self.source_bytes
            try:
                dataset = self.rows.run(
                    read_bytes,
                    page_bytes,
                    self._sign_learned,
                    not self.views,
                    make_store,
                    must_store,
                    options.refuse_rounding,
                )
                break
            except LongRowError as error:  # begin anew, with blocks that hold it
                self._make_room_for(error)
                budget.return_to(self.held)
            except ScaleError as error:
                raise self._refusal(error) from error
        self.lost = (lost_squares(self.source.info().rounding) - lost_before) ** 0.5
        dataset = self._with_facts(dataset)
        budget.release(READING)
        trim_freed_memory()
        if self.place != "source" and self.cache_maker is not None:  # the source will hardly be read again
            self.hold_library(self.source.info().library_bytes)
        self._learn_scaling(dataset)
        return dataset

    def measure(self) -> DatasetInfo:
        """Learn the facts where the limit has refused the first reading: read the source once more and keep
        nothing. Raises BudgetError where not even that fits, or the source can be read once only."""
        budget = self.budget
        self.rows.close()
        if self.source.bytes_read and not self.source.info().rereadable:
            budget.require({READING: budget.limit_bytes})
        self.rows = self._new_reading(measuring=True)
        self.page_bytes = plan.PAGE_BYTES[0]
        held = sum(self.held.values())
        room = max(MIN_WORK_BYTES, budget.limit_bytes - held)
        max_bytes = max(resident_bytes() + MIN_WORK_BYTES, held + room)
        info = self.source.info()
        self._begun_bytes = info.reader_bytes if self._begun_bytes is None else self._begun_bytes
        batches = info.reader_bytes - info.library_bytes  # the library itself has been loaded by now
        if batches > max(room, budget.limit_bytes - resident_bytes() - _KERNELS_BYTES):
            budget.require({LIBRARY: info.reader_bytes, READING: self._measuring_bytes})

        steps = _Steps()

        def go_on() -> int:
            next_peak = steps.next_peak() if room > MIN_WORK_BYTES else resident_bytes()
            if next_peak > max_bytes:  # what is counted cannot be held
                budget.require({READING: budget.limit_bytes})
            return 0

        while True:
            free = (budget.limit_bytes - resident_bytes()) // 2
            if self._long_row_bytes and self._measuring_bytes > max(room, free):
                budget.require({READING: self._measuring_bytes + budget.limit_bytes})
            try:
                return self._with_facts(
                    self.rows.run(self.source_bytes, self.page_bytes, go_on, False, None, False)
                )
            except LongRowError as error:
                self._make_room_for(error, measuring=True)

    def _refusal(self, error: ScaleError) -> DataError:
        what = _TOO_LARGE if self.options.scale in ("none", ROW_SCALE) else _UNSCALABLE
        what = what.format(error.smallest, error.largest)
        info = self.source.info()
        return DataError(f"{info.name}: {column_name(info, error.column)}: {what}")

    def losses(self, cost: NDArray[np.float64], squared_norm: float, n_rows: int) -> Losses:
        """Return what rounding has lost. cost: (k,) C of a row of weight 1, by class. squared_norm: ‖x‖² of a row,
        about."""
        if self.scaling is not None:  # the model's weights are for the rows as they were, far from 0 maybe
            moved = (self.scaling.shift - self.scaling.center) * self.scaling.scale
            squared_norm += float(moved @ moved)
        weights = self.rows.weights
        squares, largest = weights.squares(self.rows.labels) * cost * cost, cost * weights.largest
        return Losses(self.lost, squares, largest, NOISE * math.sqrt(n_rows * squared_norm))

    def hold_library(self, nbytes: int) -> None:
        """Reserve what the file format's library holds from now on, in place of what it held."""
        self.budget.resize(LIBRARY, nbytes)

    def close(self) -> None:
        self.rows.close()

    @property
    def _measuring_bytes(self) -> int:
        return plan.READING_PAGES * self.page_bytes + plan.MEASURED_ROWS * self._long_row_bytes

    def _new_reading(self, measuring: bool = False) -> FirstReading:
        statistics = None
        if self.options.transforms and not measuring:
            statistics = ColumnStatistics(self.source.info().first_indicator)
        return FirstReading(self.source, self._progress, statistics, measuring)

    def _make_room_for(self, error: LongRowError, measuring: bool = False) -> None:
        """Let the reading begin anew with blocks that hold such a row. Raises the error where it cannot."""
        if not self.source.info().rereadable or error.row_bytes <= self._long_row_bytes:
            raise error
        self._long_row_bytes = error.row_bytes
        self.rows.abandon()
        self.rows = self._new_reading(measuring)
        self._bytes_asked = -1

    def _sign_learned(self) -> int:
        """Reserve memory for what the reading has learned, or is about to; return the bytes left. Raises
        BudgetError."""
        rows, budget = self.rows, self.budget
        if self.source.bytes_read != self._bytes_asked:  # else the reader holds what it held
            self._bytes_asked = self.source.bytes_read
            self.hold_library(max(self.source.info().reader_bytes, budget.lines.get(LIBRARY, 0)))
        budget.resize(LABELS, rows.labels.nbytes)
        if rows.statistics is not None:
            budget.resize(
                STATISTICS,
                rows.statistics.work_bytes(self._scaled_columns(rows.shape.n_columns), rows.weights.given),
            )
        return budget.available_bytes

    @property
    def _known_statistics_bytes(self) -> int:
        """Return the bytes of statistics of the columns that are known before they are read."""
        info = self.source.info()
        known = self.options.transforms and info.is_dense and info.n_features is not None
        return ColumnStatistics.work_bytes(self._scaled_columns(info.n_features or 0)) if known else 0

    def _scaled_columns(self, n_columns: int) -> int:
        """Return of how many columns the scale is learned: those of so many that are not indicators of
        categories."""
        first = self.source.info().first_indicator
        return n_columns if first is None else min(n_columns, first)

    def _with_facts(self, dataset: DatasetInfo) -> DatasetInfo:
        """Return the data set with what a memory plan follows from."""
        info, rows, n_columns = self.source.info(), self.rows, self._scaled_columns(dataset.n_columns)
        statistics = ColumnStatistics.work_bytes(n_columns, rows.weights.given)
        learns = self.options.transforms
        facts = ReadingFacts(
            long_row_bytes=self._long_row_bytes,
            labels_bytes=rows.labels.nbytes,
            reader_bytes=info.reader_bytes,
            library_bytes=info.library_bytes,
            statistics_bytes=statistics if learns else 0,
            scaling_bytes=Scaling.bytes_for(n_columns) if learns else 0,
            held_bytes=0 if self.views else rows.held_bytes,
            mixed=rows.shape.mixed and not self.views,
            views=self.views,
            cached=self.cache_maker is not None,
            begun_bytes=self._begun_bytes or 0,
        )
        pages = Pages(
            page_bytes=self.page_bytes,
            n_pages=0 if info.in_memory else rows.pages.count,
            largest_bytes=max(self.page_bytes, rows.pages.largest_bytes),
            largest_rows=rows.pages.largest_rows,
            rows_per_byte=rows.pages.rows_per_byte,
            largest_row_bytes=rows.pages.largest_row_bytes,
        )
        norm = self._squared_norm(dataset)
        digest = rows.digest.of(rows.labels.rank, info.fingerprints)
        return replace(dataset, squared_norm=norm, digest=digest, pages=pages, reading=facts)

    def _squared_norm(self, dataset: DatasetInfo) -> float:
        """Return ``DatasetInfo.squared_norm``."""
        if self.options.scale == ROW_SCALE:
            return 1.0
        if self.options.scale in ("maxabs", "minmax", "standard"):
            return self.rows.lengths.scaled_squared_norm(dataset.nnz / dataset.n_rows)
        return self.rows.lengths.squared_norm

    def _learn_scaling(self, dataset: DatasetInfo) -> None:
        statistics = self.rows.end_statistics()
        if statistics is None:
            largest = self.rows.lengths.largest_value
            if largest > UNSCALED_ABOVE:
                self._scale_note = (
                    f"values as large as {largest:.3g}: training on unscaled columns is slow "
                    "and may not converge (--scale minmax, maxabs or standard)"
                )
            return
        self.budget.resize(
            STATISTICS, statistics.work_bytes(self._scaled_columns(dataset.n_columns), dataset.weighted)
        )
        options, info = self.options, self.source.info()
        narrow = dataset.dtype == np.float32
        half_ulp = HALF_ULP if narrow else HALF_ULP64
        blurred = statistics.blurred(options.scale, dataset.n_rows, info.rounding, half_ulp)
        if blurred is not None and narrow and info.rereadable:
            raise ValuesRounded
        if blurred is not None:
            what = _BLURRED if narrow else _BLURRED64
            raise DataError(f"{info.name}: {column_name(info, blurred)}: {what}")
        try:
            self.scaling = statistics.scaling(
                options.scale, dataset.n_rows, dataset.n_columns, dataset.is_dense
            )
        except ScaleError as error:
            raise self._refusal(error) from error
        self.budget.resize(STATISTICS, self.scaling.nbytes)
        if narrow:
            encoder = info.encoder
            # Of what is not scaled, indicators of categories are exact; values of lists are not.
            unscaled = (
                len(self.scaling.scale) < dataset.n_columns and encoder is not None and encoder.has_lists
            )
            beyond = self.lost if unscaled else 0.0
            self.lost = statistics.lost_by_scaling(self.scaling, self.lost, dataset.n_rows) + beyond
        elif self.lost and options.scale != "none":
            self.lost = statistics.lost_by_doubles(self.scaling, info.rounding, dataset.n_rows)
        if self.scaling.left_out and not options.has_bias:
            self._scale_note = (
                f"{self.scaling.left_out} columns with zeros are scaled but not shifted, as the rows are sparse: "
                "the bias takes the shift (--bias 1 gives it one)"
            )
