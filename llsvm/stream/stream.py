"""Stream: all that a solver sees of the world.

``all()`` hands out every row once, in random order of pages, from wherever the first reading left them (memory,
the binary cache, or the source again). ``keep`` and ``active`` are the survivors; ``row_state`` holds the
dual variables. The memory limit is spent here, in ``prepare``: weights and dual variables first, the rest
shared between the block being worked on, the next one being read meanwhile, and the survivors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.data.source import BlockSource
from llsvm.dataset import DatasetInfo
from llsvm.errors import LongRowError
from llsvm.features.scaling import ROW_SCALE, UNSCALED_ABOVE, ColumnStatistics, Scaling
from llsvm.memory import plan
from llsvm.memory.budget import COMPILING, RUNTIME, MemoryBudget
from llsvm.memory.plan import READING_PAGES, SPILL_PAGES, MemoryLeft, Needs
from llsvm.memory.process import MIN_WORK_BYTES, resident_bytes, trim_freed_memory
from llsvm.objective.losses import JointLoss, Loss
from llsvm.objective.rounding import NOISE, RoundingBound
from llsvm.row_buffer import RowBuffer
from llsvm.spill.row_state import RowState
from llsvm.spill.store import PageStore
from llsvm.spill.stores import open_store
from llsvm.spill.workspace import RESERVE_BYTES, Workspace, is_memory_backed, remove_abandoned
from llsvm.stream.assembly import READERS, Assembler
from llsvm.stream.first_reading import FirstReading
from llsvm.stream.progress import Progress
from llsvm.stream.sparse_state import SparseState
from llsvm.stream.survivors import Survivors

_PAGE_BYTES = (64_000, 4_000_000)  # a page of the cache: the unit of reading, checksums and shuffling
_PAGE_SHARE = 100  # a page is at most this part (1/100) of the memory there is
# What the first reading holds: five blocks in the source and one in hand; a page being joined, one on its way to
# disk and its packed form.
READING_BLOCKS = 6
# The source is asked for larger blocks than pages are, if this part of the memory there is allows it.
_READ_SHARE, _MAX_READ_BYTES = 50, 4_000_000
_STATE_SHARE = 4  # dual variables live in memory while they need at most this part (1/4) of what is left
_LIBRARY = "the file format's library"
_STATISTICS = "scaling of columns"
_BEFORE_READING = (RUNTIME, COMPILING, "feature map")


class LimitFound(Exception):
    """The limit that was supposed is enough."""


class Stream:
    """The rows of one source under one memory budget. A context manager: its files vanish on every exit.

    Order of use: ``read`` (once), ``prepare`` (once), then any number of passes.
    """

    def __init__(
        self,
        source: BlockSource,
        budget: MemoryBudget,
        spill_parent: Path,
        *,
        disk_limit_bytes: int | None = None,
        spill_format: str = "arrow",
        cache: str = "auto",
        seed: int = 0,
        survivors: float = 1.0,
        scale: str = "none",
        has_bias: bool = False,
        fill_missing: bool = False,
        refuse_rounding: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """cache: "always", "never" or "auto" keep a binary copy of what does not fit in memory.
        survivors: at most this share of all rows is kept between passes.
        scale: one of ``llsvm.settings.settings.SCALES``; blocks come scaled. has_bias: there is a constant feature,
        which can take a shift. fill_missing: NaN becomes the column's mean.
        refuse_rounding: ``read`` raises ValuesRounded where values are no 32-bit floats. progress: to count in."""
        self.source = source
        self.budget = budget
        self.progress = progress or Progress(limit_bytes=budget.limit_bytes)
        self._refuse_rounding = refuse_rounding
        self._lost = 0.0
        self._spills_into_memory = False
        self._parent = spill_parent
        self._disk_limit_bytes = disk_limit_bytes
        self._spill_format = spill_format
        self._cache = cache
        self._share = survivors
        self._rng = np.random.default_rng(seed)
        self.workspace: Workspace | None = None  # made when first needed
        self.scaling: Scaling | None = None
        """What was done to the columns; known after ``read``."""
        self._scale = scale
        self._has_bias = has_bias
        self._scaling_note = ""
        self._transforms = scale != "none" or fill_missing
        self._measuring = False
        self._row_bytes = 0  # of a row much longer than pages are, once there has been one
        self._ingest = self._new_ingest()
        self._store_bytes_read = 0
        self._dataset: DatasetInfo | None = None
        self._block_bytes = 1 << 62
        self._state_bytes = 0
        self._block_rows = 1 << 62
        self._page_bytes = 0
        self._survivor_bytes = self._survivor_rows = 0
        self._survivors: Survivors | None = None
        self._blocks: Assembler | None = None  # made when first needed
        self._before: Mapping[str, int] = {}  # the ledger as ``prepare`` found it
        self._before_reading: Mapping[str, int] = {}  # the ledger as ``read`` found it
        self._learned: Mapping[str, int] = {}  # see _what_was_learned
        self._supposing = False
        self._scaled_in_place = False
        self._bytes_asked = -1  # that the source had read when it was last asked what it holds
        self.in_one_block = False
        """All rows are in memory and come as one block: survivors save nothing."""

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ingest.close()
        if self._survivors is not None:
            self._survivors.close()
        if self.workspace is not None:
            self.workspace.close()

    # -- the first reading ------------------------------------------------------------------------------

    @property
    def dataset(self) -> DatasetInfo:
        assert self._dataset is not None, "read() comes first"
        return self._dataset

    @property
    def bytes_read(self) -> int:
        """Bytes read from disk so far: the source, the cache and the spill together."""
        return self.source.bytes_read + self._store_bytes_read

    @property
    def bytes_spilled(self) -> int:
        """Bytes of survivors written to disk so far."""
        return 0 if self._survivors is None else self._survivors.spilled_bytes

    @property
    def rounded(self) -> bool:
        """Are values other than those of the source, since they are kept as float32?"""
        return self._lost > 0

    def rounding_bound(
        self,
        loss: Loss | JointLoss,
        cost: NDArray[np.float64],
        constant: float,
        pairs: bool = False,
        l1: float = 0.0,
        l2: float = 1.0,
        free_bias: bool = False,
    ) -> RoundingBound:
        """What makes certificates hold for the data before values were rounded.

        cost: (k,) C of a row of weight 1, by class. constant: the constant feature's value; for the rest see
        RoundingBound."""
        squares, largest = self._ingest.weight_squares * cost * cost, cost * self._ingest.largest_weight
        weights = any(each.weights for each in self.source.info().rounding)
        pairs = pairs and len(cost) > 2
        size = self.dataset.squared_norm + constant * constant
        if self.scaling is not None:  # the model's weights are for the rows as they were, far from 0 maybe
            moved = self.scaling.shift * self.scaling.scale
            size += float(moved @ moved)
        noise = NOISE * math.sqrt(self.dataset.n_rows * size)
        return RoundingBound(self._lost, weights, squares, largest, loss, pairs, l1, l2, free_bias, noise)

    @property
    def note(self) -> str:
        """What people should know of where the rows went and of their scale, or ""."""
        notes = [*self.source.info().notes, self._ingest.note, self._scaling_note]
        notes.append(self._survivors.note if self._survivors else "")
        if self._spills_into_memory:
            notes.append(
                f"spilling into memory: {self._parent} is a tmpfs; pass --spill-dir with a folder on disk"
            )
        return "; ".join(filter(None, notes))

    @property
    def place(self) -> str:
        """Where full passes read from: "memory", "cache" or "source"."""
        if self._views or self._ingest.arena is not None:
            return "memory"
        return "cache" if self._ingest.store is not None else "source"

    @property
    def _views(self) -> bool:
        """The rows are the caller's arrays as they are."""
        return self.source.info().in_memory and not self._transforms

    def read(self) -> DatasetInfo:
        """Read the source once, to its end. Raises DataError, BudgetError, DiskError.

        First removes what killed processes left in the folder to spill into: this run may not need it.
        """
        remove_abandoned(self._parent)
        page_bytes = self._page_bytes = _page_bytes(self.budget.available_bytes)
        self._before_reading = self.budget.mark()
        make_store, must_store = (None, False) if self._views else (self._cache_maker(), self._must_store)
        hold, refuse = not self._views, self._refuse_rounding
        while self._dataset is None:
            self.budget.reserve("reading", self._reading_bytes)
            self._reserve_reader(self.source.info().reader_bytes)
            sizes = (self._read_bytes, page_bytes)
            try:
                self._dataset = self._ingest.run(
                    *sizes, self._sign_learned, hold, make_store, must_store, refuse
                )
            except LongRowError as error:  # begin anew, with blocks that hold it
                self._make_room_for(error)
                self.budget.return_to(self._before_reading)
        self._lost = self._ingest.lost_squares**0.5
        self._learned = self._what_was_learned()
        self.budget.release("reading")
        trim_freed_memory()
        if self.place != "source" and self._cache_maker() is not None:  # the source will hardly be read again
            self._reserve_reader(self.source.info().library_bytes)
        self._learn_scaling(self._dataset)
        self._dataset = replace(self._dataset, squared_norm=self._squared_norm(self._dataset))
        return self._dataset

    def _squared_norm(self, dataset: DatasetInfo) -> float:
        """See DatasetInfo."""
        if self._scale == ROW_SCALE:
            return 1.0
        if self._scale in ("maxabs", "minmax", "standard"):
            return dataset.nnz / dataset.n_rows
        return self._ingest.squared_norm

    @property
    def _read_bytes(self) -> int:
        """Of the blocks that the source is asked for in the first reading."""
        usual = min(_MAX_READ_BYTES, self.budget.available_bytes // _READ_SHARE)
        return max(self._page_bytes, usual, self._row_bytes)

    @property
    def _reading_bytes(self) -> int:
        pages = (READING_PAGES - READING_BLOCKS) * max(self._page_bytes, self._row_bytes)
        return READING_BLOCKS * self._read_bytes + pages

    def _new_ingest(self) -> FirstReading:
        statistics = None
        if self._transforms and not self._measuring:
            statistics = ColumnStatistics(self.source.info().first_indicator)
        return FirstReading(self.source, self.progress, statistics, self._measuring)

    def _make_room_for(self, error: LongRowError) -> None:
        """Let the reading begin anew with blocks that hold such a row. Raises the error where it cannot."""
        if not self.source.info().rereadable or error.row_bytes <= self._row_bytes:
            raise error
        self._row_bytes = error.row_bytes
        self._ingest.abandon()
        self._ingest = self._new_ingest()
        self._bytes_asked = -1

    # -- the smallest limit that works ------------------------------------------------------------------

    def measure(self) -> None:
        """Learn what ``suppose`` wants to know, where the limit has refused the first reading: read the source once
        more and keep nothing. Raises BudgetError where not even that fits, or the source can be read once only."""
        self._ingest.close()
        if self._dataset is not None:
            return
        if self.source.bytes_read and not self.source.info().rereadable:
            self.budget.require({"reading": self.budget.limit_bytes})
        self._measuring = True
        self._ingest = self._new_ingest()
        self._before_reading = {what: n for what, n in self.budget.lines.items() if what in _BEFORE_READING}
        self._page_bytes = _PAGE_BYTES[0]

        room = max(MIN_WORK_BYTES, self.budget.limit_bytes - sum(self._before_reading.values()))
        most = resident_bytes() + room
        info = self.source.info()
        batches = info.reader_bytes - info.library_bytes  # the library itself has been loaded by now
        if batches > max(room, self.budget.limit_bytes - resident_bytes()):
            self.budget.require({_LIBRARY: info.reader_bytes, "reading": self._reading_bytes})

        def go_on() -> int:
            if resident_bytes() > most:  # what is counted cannot be held
                self.budget.require({"reading": self.budget.limit_bytes})
            return 0

        while self._dataset is None:
            sizes = (max(self._page_bytes, self._row_bytes), self._page_bytes)
            try:
                self._dataset = self._ingest.run(*sizes, go_on, False, None, False)
            except LongRowError as error:
                self._make_room_for(error)
                if self._reading_bytes > room:
                    self.budget.require({"reading": self._reading_bytes + self.budget.limit_bytes})
        self._learned = self._what_was_learned()
        self._dataset = replace(self._dataset, squared_norm=self._squared_norm(self._dataset))

    def _what_was_learned(self) -> dict[str, int]:
        """Bytes of what the first reading holds at its end, beside rows, by name."""
        learned = {_LIBRARY: self.source.info().reader_bytes, "labels": self._ingest.labels.nbytes}
        if self._transforms:
            learned[_STATISTICS] = ColumnStatistics.work_bytes(self._scaled_columns(self._ingest.n_columns))
        return learned

    def suppose(self, limit_bytes: int) -> None:
        """Go on as if the data had been read under that limit. ``prepare`` then says what it would say there, and
        raises LimitFound where it has nothing to say. Raises BudgetError where the reading itself does not fit."""
        self._supposing = True
        self.budget = MemoryBudget(limit_bytes, 0)
        self.budget.require(self._before_reading)
        for what, nbytes in self._before_reading.items():
            self.budget.reserve(what, nbytes)
        self._page_bytes = _page_bytes(self.budget.available_bytes)
        self.budget.require({**self._learned, "reading": self._reading_bytes})
        for what, nbytes in self._learned.items():
            self.budget.resize(what, nbytes)
        if self._transforms:
            self.budget.resize(_STATISTICS, Scaling.bytes_for(self._scaled_columns(self.dataset.n_columns)))

    def _sign_learned(self) -> int:
        """Sign for what the reading has learned, or is about to; returns what is left. Raises BudgetError."""
        ingest, budget = self._ingest, self.budget
        if self.source.bytes_read != self._bytes_asked:  # else the reader holds what it held
            self._bytes_asked = self.source.bytes_read
            budget.resize(_LIBRARY, max(self.source.info().reader_bytes, budget.lines.get(_LIBRARY, 0)))
        budget.resize("labels", ingest.labels.nbytes)
        if ingest.statistics is not None:
            budget.resize(_STATISTICS, ingest.statistics.work_bytes(self._scaled_columns(ingest.n_columns)))
        return budget.available_bytes

    def _reserve_reader(self, nbytes: int) -> None:
        """What the file format's library holds, from now on."""
        self.budget.resize(_LIBRARY, nbytes)

    def _scaled_columns(self, n_columns: int) -> int:
        """Of so many columns, those whose scale is learned: not the indicators of categories."""
        first = self.source.info().first_indicator
        return n_columns if first is None else min(n_columns, first)

    def _learn_scaling(self, dataset: DatasetInfo) -> None:
        statistics, self._ingest.statistics = self._ingest.statistics, None
        if statistics is None:
            if self._ingest.largest_value > UNSCALED_ABOVE:
                self._scaling_note = (
                    f"values as large as {self._ingest.largest_value:.3g}: training on unscaled columns is slow "
                    "and may not converge (--scale minmax, maxabs or standard)"
                )
            return
        self.budget.resize(_STATISTICS, statistics.work_bytes(self._scaled_columns(dataset.n_columns)))
        self.scaling = statistics.scaling(self._scale, dataset.n_rows, dataset.n_columns, dataset.is_dense)
        self.budget.resize(_STATISTICS, self.scaling.nbytes)
        if dataset.dtype == np.float32:
            encoder = self.source.info().encoder
            # Of what is not scaled, indicators of categories are exact; values of lists are not.
            unscaled = (
                len(self.scaling.scale) < dataset.n_columns and encoder is not None and encoder.has_lists
            )
            beyond = self._lost if unscaled else 0.0
            self._lost = statistics.lost_by_scaling(self.scaling, self._lost, dataset.n_rows) + beyond
        if self.scaling.left_out and not self._has_bias:
            self._scaling_note = (
                f"{self.scaling.left_out} columns with zeros are scaled but not shifted, as the rows are sparse: "
                "the bias takes the shift (--bias 1 gives it one)"
            )

    def prepare(self, needs: Needs) -> None:
        """Spend the memory limit on what a solver needs. Raises BudgetError with the smallest limit that works."""
        self._before = self.budget.mark()
        lines = dict(needs.lines)
        if needs.row_state_bytes and not needs.sparse_state:
            on_disk = RowState.held_bytes(needs.row_state_bytes * self.dataset.n_rows)
            lines["checksums of dual variables"] = on_disk
        needs = replace(needs, lines=lines)
        self._require(needs)
        if self._supposing:
            raise LimitFound
        for what, nbytes in lines.items():
            self.budget.reserve(what, nbytes)
        self._set_state_aside(needs)
        whole = self.memory_left.one_block(needs.row_work_bytes, needs.copy_survivors)
        self.in_one_block = whole is not None and sum(whole.values()) <= self.budget.available_bytes
        if self.in_one_block and whole is not None:
            for what, nbytes in whole.items():
                self.budget.reserve(what, nbytes)
            if self.scaling is not None and self._ingest.arena is not None and not self._scaled_in_place:
                self.scaling.apply(self._ingest.arena.block().X)
                self._scaled_in_place = True
            if needs.copy_survivors:
                self._survivor_bytes, self._survivor_rows = whole["all rows"], self.dataset.n_rows
            return
        if self._ingest.arena is not None:
            self._ingest.move_to_store(self._largest_page_bytes, self._cache_maker(), self._must_store)
            if self.place == "source":  # the disk is full
                self._reserve_reader(self.source.info().reader_bytes)
        self._allocate(needs.row_work_bytes)

    @property
    def memory_left(self) -> MemoryLeft:
        """What a solver may spend now; before ``prepare``."""
        return MemoryLeft(
            self.dataset,
            self.budget.available_bytes,
            self.place == "memory",
            self._rows_bytes,
            self._largest_page_bytes,
            self._ingest.rows_per_byte,
            0 if self.source.info().in_memory else self._ingest.n_pages,
        )

    @property
    def _rows_bytes(self) -> int | None:
        """What all rows take as one block, None where they cannot be one."""
        arena = self._ingest.arena
        if arena is not None:
            return arena.used_bytes
        rows = int(self.dataset.n_rows * self.dataset.held_bytes_per_row)
        if self._views:
            return rows
        if self._supposing and rows + self._reading_bytes <= self.budget.available_bytes:
            return rows
        return None

    def reset(self) -> None:
        """Take back all that ``prepare`` has given to a solver that is at its end, so that another may begin."""
        if self._survivors is not None:
            self._survivors.clear()
            self._survivors.close()
        self._survivors, self._blocks, self._state_bytes = None, None, 0
        self._block_bytes = self._block_rows = 1 << 62
        self.budget.return_to(self._before, but=(_LIBRARY,))  # what the reader holds is not the solver's
        trim_freed_memory()

    def _set_state_aside(self, needs: Needs) -> None:
        nbytes, left = needs.row_state_bytes * self.dataset.n_rows, self.memory_left
        blocks = left.smallest_blocks_bytes(left.page_bytes, needs.row_work_bytes)
        spare = left.available_bytes - blocks
        if needs.sparse_state:
            nbytes = min(nbytes, max(0, spare // _STATE_SHARE))
        if nbytes <= spare // _STATE_SHARE:
            self._state_bytes = self.budget.reserve("dual variables", nbytes)

    def _allocate(self, row_work_bytes: int) -> None:
        """Divide what is left between two blocks (one worked on, one being read) and the survivors.

        Rows may be short or long, so bytes and rows of a block are limited both: rows cost the work on them.
        """
        store, page_bytes, page_rows = (
            self._ingest.store,
            self._largest_page_bytes,
            self._ingest.largest_page_rows,
        )
        reading = READING_PAGES * page_bytes
        if store is not None:
            page_rows = max(page.n_rows for page in store.pages)
            reading = max(store.scratch_bytes, READERS * store.buffer_bytes, 2 * page_bytes)
            self.budget.reserve("list of pages", plan.PAGE_INFO_BYTES * len(store.pages))
        self.budget.reserve("reading and spilling", reading + SPILL_PAGES * page_bytes)
        held = self.dataset.held_bytes_per_row
        left, work = self.budget.available_bytes, row_work_bytes / held
        block_bytes = int(left / (3 + 2 * work))
        if block_bytes < page_rows * held:  # a page of short rows is more work than an average block
            block_bytes = int((left - page_rows * row_work_bytes) / (3 + work))
        self._block_bytes = self._survivor_bytes = block_bytes
        self._survivor_rows = int(block_bytes / held) + 1
        self._block_rows = max(self._survivor_rows, page_rows)
        self.budget.reserve("blocks of rows", 2 * block_bytes)
        self.budget.reserve("survivors", block_bytes)
        self.budget.reserve("work on rows", self.budget.available_bytes)

    def _require(self, needs: Needs) -> None:
        """Raise BudgetError, which names the smallest limit that works, unless there is enough for ``needs``
        and the smallest blocks, or all rows as one."""
        memory, work = self.memory_left, needs.row_work_bytes
        whole = memory.one_block(work, needs.copy_survivors)
        blocks = memory.smallest_blocks_bytes(memory.page_bytes, work)
        left = memory.available_bytes - needs.nbytes
        if blocks <= left or (whole is not None and sum(whole.values()) <= left):
            return
        if whole is not None:
            whole["reading"] = READING_PAGES * memory.page_bytes
            if sum(whole.values()) < blocks:
                self.budget.require({**needs.lines, **whole})
        # Under a larger limit pages are larger too: look for one that has room for blocks of its own pages.
        while blocks > left:
            left = blocks
            page_bytes = _page_bytes(left + needs.nbytes)
            blocks = memory.smallest_blocks_bytes(max(page_bytes, memory.page_bytes), work)
        self.budget.require({**needs.lines, "blocks of rows": left})

    @property
    def _largest_page_bytes(self) -> int:
        return max(self._page_bytes, self._ingest.largest_page_bytes)

    @property
    def _must_store(self) -> bool:
        return self._cache == "always" or not self.source.info().rereadable

    def _cache_maker(self) -> Callable[[], PageStore] | None:
        """What makes the binary cache, or None where there must be none."""
        return None if self._cache == "never" and not self._must_store else self._make_cache

    def _arena(self, nbytes: int) -> RowBuffer:
        dataset = self.dataset
        return RowBuffer(
            nbytes, dataset.dtype, dataset.n_columns if dataset.is_dense else None, dataset.weighted
        )

    # -- passes -----------------------------------------------------------------------------------------

    def all(self) -> Iterator[Block]:
        """Every row once. A block is valid until the next is asked for."""
        self.progress.begin("pass", self.dataset.n_rows)
        if self._views:
            blocks = self._from_arrays()
        elif self._ingest.arena is not None:
            blocks = iter([self._ingest.arena.block()])
        elif self._ingest.store is not None:
            id_map = None if self._ingest.final_ids else self._rank()
            blocks = self._from_store(
                self._ingest.store, id_map, None if self._scaled_in_place else self.scaling
            )
        else:
            blocks = self._from_source()
        for block in blocks:
            yield block
            self.progress.rows_done += block.n_rows

    def active(self) -> Iterator[Block]:
        """The survivors that are not in memory (``resident`` has those), a generation of the spill."""
        store = self.survivors.spilled
        if store is not None:
            yield from self._from_store(store)

    @property
    def resident(self) -> Block:
        """The survivors in memory; a view that is valid until ``keep``."""
        return self.survivors.resident

    @property
    def survivors(self) -> Survivors:
        if self._survivors is None:
            max_rows = max(1, int(self._share * self.dataset.n_rows))
            arena = self._arena(self._survivor_bytes)
            page_bytes = self._largest_page_bytes
            self._survivors = Survivors(arena, max_rows, self._survivor_rows, page_bytes, self._make_store)
        return self._survivors

    def row_state(self, width: int, dtype: np.dtype) -> RowState:
        """Zeros for every row, (n_rows, width): in memory where ``prepare`` has set that aside, else on disk."""
        if self.dataset.n_rows * width * np.dtype(dtype).itemsize <= self._state_bytes:
            return RowState(self.dataset.n_rows, width, dtype)
        return RowState(self.dataset.n_rows, width, dtype, self._open_workspace())

    def sparse_state(self, width: int, dtype: np.dtype) -> SparseState:
        """As ``row_state``, for values most of which are zero: packed in what ``prepare`` has set aside,
        on disk when they outgrow it."""
        n_rows = self.dataset.n_rows
        return SparseState(
            n_rows,
            width,
            dtype,
            self._state_bytes,
            lambda: RowState(n_rows, width, dtype, self._open_workspace()),
        )

    def _rank(self) -> NDArray[np.int32]:
        return self._ingest.labels.rank

    def _from_arrays(self) -> Iterator[Block]:
        labels = self._ingest.labels
        for block in self.source.blocks(self._block_bytes):
            whole = Block(block.X, labels.position(block.y), block.rows, block.weight)
            for start in range(0, block.n_rows, self._block_rows):
                yield whole.slice(start, min(start + self._block_rows, block.n_rows))
            self._settle_survivors()

    def _from_source(self) -> Iterator[Block]:
        """Blocks made of the source's pages, in its order."""
        labels = self._ingest.labels
        pages = (
            Block(page.X, labels.position(page.y), page.rows, page.weight)
            for page in self.source.blocks(max(self._page_bytes, self._row_bytes))
        )
        for arena in self._assembler().in_order(pages):
            if self.scaling is not None:
                self.scaling.apply(arena.block().X)
            yield arena.block()

    def _from_store(
        self, store: PageStore, id_map: NDArray[np.int32] | None = None, scaling: Scaling | None = None
    ) -> Iterator[Block]:
        """Blocks made of pages from random places."""

        def finish(arena: RowBuffer, nbytes: int) -> None:
            self._store_bytes_read += nbytes
            self.progress.bytes_done += nbytes
            if id_map is not None:
                arena.relabel(id_map)
            if scaling is not None:
                scaling.apply(arena.block().X)

        self.progress.bytes_total += store.nbytes
        return self._assembler().shuffled(store, finish)

    def _assembler(self) -> Assembler:
        if self._blocks is None:
            self._blocks = Assembler(
                lambda: self._arena(self._block_bytes), self._block_rows, self._rng, self._settle_survivors
            )
        return self._blocks

    def _settle_survivors(self) -> None:
        """Wait while they still look at a block whose place is wanted."""
        if self._survivors is not None:
            self._survivors.settle()

    @property
    def random_state(self) -> dict[str, Any]:
        """Of the generator that shuffles pages, as NumPy gives it: with the same one, the same order of blocks."""
        return dict(self._rng.bit_generator.state)

    @random_state.setter
    def random_state(self, state: Mapping[str, Any]) -> None:
        self._rng.bit_generator.state = state

    # -- files ------------------------------------------------------------------------------------------

    def _open_workspace(self) -> Workspace:
        if self.workspace is None:
            self.workspace = Workspace(self._parent, self._disk_limit_bytes)
            self._spills_into_memory = is_memory_backed(self._parent)
        return self.workspace

    def disk_room(self) -> tuple[int, str]:
        """Bytes that may still be spilled, and where."""
        workspace = self._open_workspace()
        free = workspace.free_bytes() - RESERVE_BYTES
        limit = workspace.disk_limit_bytes
        if limit is not None and limit - workspace.used_bytes < free:
            return limit - workspace.used_bytes, "the disk limit"
        return free, str(workspace.folder.parent)

    def make_store(self, name: str) -> PageStore:
        """A store for something of the solver's own, which reports what it reads to ``count_bytes``."""
        return self._make_store(name)

    def count_bytes(self, nbytes: int) -> None:
        self._store_bytes_read += nbytes

    def _make_store(self, name: str) -> PageStore:
        return open_store(self._open_workspace(), name, self._spill_format)

    def _make_cache(self) -> PageStore:
        return self._make_store("cache")


def _page_bytes(available_bytes: int) -> int:
    low, high = _PAGE_BYTES
    return int(min(max(available_bytes // _PAGE_SHARE, low), high))
