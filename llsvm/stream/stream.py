"""Stream gives a solver its rows, its memory and its disk space; a solver uses nothing else of the outside.

``all()`` hands out every row once, in random order of pages, from wherever the first reading left them (memory,
the binary cache, or the source again). ``active`` and ``survivors`` are the rows kept for epochs between passes;
``row_state`` holds the dual variables. The memory limit is spent in ``prepare``, see llsvm/memory/plan.py.

What solvers learn from rows by themselves goes through ``sum``, ``largest`` and ``any``. A stream that has all rows
of the data returns what it is given. Where each of several shards has a stream and a solver of its own, these make
the same calls in the same order, a subclass of Stream combines what the shards know, and all solvers go on with the
same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, count
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.data.source import BlockSource
from llsvm.dataset import DatasetInfo, Pages
from llsvm.features.scaling import Scaling
from llsvm.memory.budget import LIBRARY, MemoryBudget, refused
from llsvm.memory.plan import MemoryLeft, MemoryPlan, Needs, smallest_for
from llsvm.memory.process import trim_freed_memory
from llsvm.objective.losses import JointLoss, Loss
from llsvm.objective.rounding import RoundingBound
from llsvm.row_buffer import RowBuffer
from llsvm.spill.row_state import RowState
from llsvm.spill.store import PageSink, PageStore
from llsvm.spill.workspace import RESERVE_BYTES, Workspace, is_memory_backed, remove_abandoned
from llsvm.spill.writer import CountingStore, open_store
from llsvm.stream.passes import (
    Ahead,
    Assembler,
    PagesOnDisk,
    from_arrays,
    from_source,
    from_store,
    stored_pages,
)
from llsvm.stream.progress import Progress
from llsvm.stream.reading import DataReader, ReadingOptions
from llsvm.stream.sparse_state import SparseState
from llsvm.stream.survivors import Survivors

_FREE_PARTS = 4  # values of rows beside a training stay in memory up to this part (1/4) of what is free

Numbers = TypeVar("Numbers", float, NDArray[np.float64])


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
        dry: bool = False,
    ) -> None:
        """source: has the rows. budget: everything large is reserved in it before it is held.
        spill_parent: the folder to spill into. disk_limit_bytes: the limit on all files there, None for no limit.
        spill_format: a key of llsvm/spill/store.py.
        cache: whether rows that do not fit in memory are kept in a binary copy: "always", "never" or "auto".
        seed: decides the order of pages.
        survivors: at most this share of all rows is kept between passes.
        scale: one of ``llsvm.settings.settings.SCALES``; blocks come scaled.
        has_bias: there is a constant feature, which can take a shift.
        fill_missing: NaN becomes the column's mean.
        refuse_rounding: ``read`` raises ValuesRounded where values are no 32-bit floats.
        progress: counts what was read.
        dry: write no rows to disk; ``read`` and ``prepare`` only find out what they would do."""
        self.source = source
        self.budget = budget
        self.progress = progress or Progress(limit_bytes=budget.limit_bytes)
        self.workspace: Workspace | None = None  # made when first needed
        self._plan: MemoryPlan | None = None
        """How the limit is spent; known after ``prepare``."""
        self._parent = spill_parent
        self._disk_limit_bytes = disk_limit_bytes
        self._spill_format = spill_format
        self._share = survivors
        self._dry = dry
        self._rng = np.random.default_rng(seed)
        self._spills_into_memory = False
        self._store_bytes_read = 0
        options = ReadingOptions(scale, has_bias, fill_missing, cache, refuse_rounding)
        self._reader = DataReader(source, budget, self.progress, options, self._make_cache)
        self._dataset: DatasetInfo | None = None
        self._measured: DatasetInfo | None = None
        self._pages = Pages()  # as the rows are cut now
        self._cache_names = (f"cache-{number}" for number in count(2))  # of rows that are cut anew
        self._scaled_in_place = False
        self._survivors: Survivors | None = None
        self._spilled_before = 0  # bytes, of solvers that were at their end
        self._assembler: Assembler | None = None  # made when first needed
        self._before: Mapping[str, int] = {}  # the budget's lines before ``prepare``

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.close()
        if self._survivors is not None:
            self._survivors.close()
        if self.workspace is not None:
            self.workspace.close()

    # -- the data -----------------------------------------------------------------------------------------

    def read(self) -> DatasetInfo:
        """Read the source once, to its end. Raises DataError, BudgetError, DiskError.

        First removes what killed processes left in the folder to spill into: this run may not need it.
        """
        remove_abandoned(self._parent)
        self._dataset = self._reader.read()
        self._pages = self._dataset.pages
        return self._dataset

    def measure(self) -> DatasetInfo:
        """Return the facts of the data, also where the limit has refused ``read``: see ``DataReader.measure``."""
        if self._measured is None:
            self._measured = self._dataset or self._reader.measure()
        return self._measured

    @property
    def dataset(self) -> DatasetInfo:
        assert self._dataset is not None, "read() comes first"
        return self._dataset

    @property
    def scaling(self) -> Scaling | None:
        """Return the scale that was applied to the columns; known after ``read``."""
        return self._reader.scaling

    @property
    def _scaling_left(self) -> Scaling | None:
        """Return the scale that is still to be applied to rows before they are handed out."""
        return None if self._scaled_in_place else self.scaling

    @property
    def place(self) -> str:
        """Return where full passes read from: "memory", "cache" or "source"."""
        return self._reader.place

    @property
    def bytes_read(self) -> int:
        """Return the bytes read from disk so far: of the source, the cache and the spill together."""
        return self.source.bytes_read + self._store_bytes_read

    @property
    def bytes_spilled(self) -> int:
        """Return the bytes of survivors written to disk so far."""
        return self._spilled_before + (0 if self._survivors is None else self._survivors.spilled_bytes)

    @property
    def rounded(self) -> bool:
        """Return whether values differ from those of the source, as they are kept as float32."""
        return self._reader.lost > 0

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
        """Return the bound that makes certificates hold for the data before values were rounded.

        loss: of the objective. cost: (k,) float64 C of a row of weight 1, by class. constant: the value of the
        constant feature. pairs, l1, l2, free_bias: see RoundingBound."""
        lost = self._reader.losses(cost, self.dataset.squared_norm + constant * constant, self.dataset.n_rows)
        pairs = pairs and len(cost) > 2
        of_data = lost.root, lost.squares, lost.largest
        return RoundingBound(*of_data, loss, pairs, l1, l2, free_bias, lost.noise, self.dataset.n_rows)

    @property
    def note(self) -> str:
        """Return what users should know of where the rows went and of their scale, or ""."""
        notes = [*self.source.info().notes, self._reader.rows.note, self._reader.note]
        notes.append(self._survivors.note if self._survivors else "")
        if self._spills_into_memory:
            notes.append(
                f"spilling into memory: {self._parent} is a tmpfs; pass --spill-dir with a folder on disk"
            )
        return "; ".join(filter(None, notes))

    # -- the memory limit -----------------------------------------------------------------------------------

    @property
    def memory_left(self) -> MemoryLeft:
        """Return the memory that a solver may use; call it before ``prepare``."""
        rows, rows_bytes, stored = self._reader.rows, None, None
        if rows.buffer is not None:
            rows_bytes = rows.buffer.used_bytes
        elif self._reader.views:
            rows_bytes = int(self.dataset.n_rows * self.dataset.held_bytes_per_row)
        if rows.store is not None:
            stored = stored_pages(rows.store)
        lines, limit = dict(self.budget.lines), self.budget.limit_bytes
        return MemoryLeft(self.dataset, limit, lines, self.place, rows_bytes, self._pages, stored)

    def prepare(self, needs: Needs) -> None:
        """Spend the memory limit on what a solver needs. Raises BudgetError with the smallest limit that works."""
        self._before = self.budget.mark()
        plan = self._plan_for(needs)
        if not plan.in_one_block and self._put_rows_away(plan):
            plan = self._plan_for(needs)  # of the pages as they are on disk
        plan.reserve(self.budget)
        self._plan = plan
        buffer, scaling = self._reader.rows.buffer, self._scaling_left
        if plan.in_one_block and scaling is not None and buffer is not None:
            scaling.apply(buffer.block().X)
            self._scaled_in_place = True

    def reset(self) -> None:
        """Release all memory that ``prepare`` has given to a solver that has ended, so that another one may
        begin."""
        if self._survivors is not None:
            self._survivors.clear()
            self._survivors.close()
            self._spilled_before += self._survivors.spilled_bytes
        self._survivors, self._assembler, self._plan = None, None, None
        self.budget.return_to(self._before, but=(LIBRARY,))  # what the reader holds is not the solver's
        trim_freed_memory()

    @property
    def in_one_block(self) -> bool:
        """Return whether all rows are in memory and come as one block, so that survivors save nothing."""
        return self._plan is not None and self._plan.in_one_block

    def _plan_for(self, needs: Needs) -> MemoryPlan:
        plan, dataset, held = self.memory_left.plan(needs), self.dataset, self._reader.held
        if plan is not None:
            return plan
        limit = self.budget.limit_bytes
        smallest = smallest_for(dataset, held, lambda left: needs, limit + 1)
        raise refused("this data and solver", limit, smallest.nbytes, smallest.lines)

    def _put_rows_away(self, plan: MemoryPlan) -> bool:
        """Move rows to disk that cannot stay in memory, and cut pages anew that are too large there. Return whether
        anything was done."""
        reader, page_bytes = self._reader, plan.pages.largest_bytes
        if plan.pages.page_bytes < self._pages.page_bytes:
            page_bytes = plan.pages.page_bytes
            self._pages = plan.pages
            reader.cut_anew(page_bytes, lambda: self.make_store(next(self._cache_names)))
        elif reader.rows.buffer is None:
            return False
        if reader.rows.buffer is not None:
            reader.rows.move_to_store(page_bytes, reader.cache_maker, reader.must_store)
        if self.place == "source":  # the disk is full, or not to be used
            reader.hold_library(self.source.info().reader_bytes)
        return True

    # -- passes -----------------------------------------------------------------------------------------

    def all(self) -> Iterator[Block]:
        """Yield every row once. A block is valid until the next is asked for."""
        self.progress.begin("pass", self.dataset.n_rows)
        for block in self.again():
            self.progress.check_measuring()
            yield block
            self.progress.count(block.n_rows)

    def again(self, begin: Ahead | None = None, endless: bool = False) -> Iterator[Block]:
        """Return blocks as ``all`` does, for epochs between two passes. endless: begin again after the last row,
        see ``Rereading``."""
        plan, reader, rows = self.plan, self._reader, self._reader.rows
        if (cached := self.cached) is not None:
            return from_store(cached, self._blocks, self.progress, begin=begin, endless=endless)
        if endless:
            return chain.from_iterable(iter(self.again, None))
        if reader.views:
            return from_arrays(
                self.source, rows.labels, plan.block_bytes, plan.block_rows, self._wait_for_selection
            )
        if rows.buffer is not None:
            return iter([rows.buffer.block()])
        return from_source(self.source, rows.labels, reader.source_bytes, self._blocks, self.scaling)

    @property
    def cached(self) -> PagesOnDisk | None:
        """Return all rows in the binary cache, or None where full passes do not read that."""
        rows = self._reader.rows
        if rows.store is None:
            return None
        finisher = None if rows.final_ids else rows.labels.finisher
        return PagesOnDisk(rows.stored, self.count_bytes, finisher, self._scaling_left)

    def active(self, begin: Ahead | None = None, shuffle: bool = True) -> Iterator[Block]:
        """Yield the survivors that are not in memory (``resident`` has those), a generation of the spill. shuffle:
        in random order; else the blocks are the same each time."""
        if (store := self.survivors.spilled) is not None:
            spilled = PagesOnDisk(store, self.count_bytes)
            yield from from_store(spilled, self._blocks, self.progress, shuffle, begin)

    @property
    def resident(self) -> Block:
        """Return the survivors in memory, a view that is valid until they change."""
        return self.survivors.resident

    @property
    def survivors(self) -> Survivors:
        if self._survivors is None:
            plan = self.plan
            self._survivors = Survivors(
                self.new_buffer(plan.survivor_bytes),
                max_rows=max(1, int(self._share * self.dataset.n_rows)),
                max_resident=plan.survivor_rows,
                spills=not plan.in_one_block,
                page_bytes=plan.pages.largest_bytes,
                make_store=self.make_store,
            )
        return self._survivors

    def row_state(self, width: int, dtype: np.dtype) -> RowState:
        """Return zeros for every row, (n_rows, width): in memory where ``prepare`` reserved that, else on disk."""
        n_rows = self.dataset.n_rows
        if n_rows * width * np.dtype(dtype).itemsize <= self.plan.state_bytes:
            return RowState(n_rows, width, dtype)
        return RowState(n_rows, width, dtype, self.open_workspace())

    def reserved_state(self, n_rows: int, width: int, line: str, name: str) -> RowState:
        """Return zeros (n_rows, width) float64: in memory while they take at most a quarter of what is free,
        which is reserved as ``line``, else in the file ``name`` beside the spill. Raises DiskError."""
        nbytes = n_rows * width * np.dtype(np.float64).itemsize
        if nbytes <= self.budget.available_bytes // _FREE_PARTS:
            return RowState(n_rows, width, np.float64, reservation=self.budget.reserve(line, nbytes))
        return RowState(n_rows, width, np.float64, self.open_workspace(), name)

    def sparse_state(self, width: int, dtype: np.dtype) -> SparseState:
        """Return zeros as ``row_state`` does, for values most of which stay zero: they are packed in the memory
        that ``prepare`` reserved, and move to disk when they outgrow it."""
        n_rows = self.dataset.n_rows

        def on_disk() -> RowState:
            return RowState(n_rows, width, dtype, self.open_workspace())

        return SparseState(n_rows, width, dtype, self.plan.state_bytes, on_disk)

    @property
    def plan(self) -> MemoryPlan:
        """Return how ``prepare`` has divided the memory limit."""
        assert self._plan is not None, "prepare() comes first"
        return self._plan

    def new_buffer(self, nbytes: int) -> RowBuffer:
        """Return an empty buffer for so many bytes of these rows."""
        dataset = self.dataset
        width = dataset.n_columns if dataset.is_dense else None
        return RowBuffer(nbytes, dataset.dtype, width, dataset.weighted, dataset.has_targets)

    @property
    def _blocks(self) -> Assembler:
        """Return the assembler of blocks, whose two buffers are made when it is first asked for."""
        if self._assembler is None:
            plan = self.plan
            self._assembler = Assembler(
                lambda: self.new_buffer(plan.block_bytes),
                plan.block_rows,
                self._rng,
                self._wait_for_selection,
            )
        return self._assembler

    def drop_blocks(self) -> None:
        """Free the buffers of blocks, until blocks are read again."""
        self._wait_for_selection()
        self._assembler = None

    @property
    def random_state(self) -> dict[str, Any]:
        """Return the state of the generator that shuffles pages: the same state gives the same order of blocks."""
        return dict(self._rng.bit_generator.state)

    def restore_random_state(self, state: Mapping[str, Any]) -> None:
        """Shuffle pages from now on as after ``random_state``."""
        self._rng.bit_generator.state = state

    def _wait_for_selection(self) -> None:
        """Wait until rows of the last block have been selected, so that its buffer may be used again."""
        if self._survivors is not None:
            self._survivors.wait_for_selection()

    # -- numbers of all rows ------------------------------------------------------------------------------

    def sum(self, x: Numbers) -> Numbers:
        """Return the sum over all shards of the data of x, a number or an array, which is not to be used again."""
        return x

    def largest(self, x: Numbers) -> Numbers:
        """Return the largest x of all shards, element by element; x as in ``sum``."""
        return x

    def any(self, x: bool) -> bool:
        """Return whether x holds on any shard of the data."""
        return x

    # -- files ------------------------------------------------------------------------------------------

    def open_workspace(self) -> Workspace:
        if self.workspace is None:
            self.workspace = Workspace(self._parent, self._disk_limit_bytes)
            self._spills_into_memory = is_memory_backed(self._parent)
        return self.workspace

    def disk_room(self) -> tuple[int, str]:
        """Return how many bytes may still be spilled, and what limits them: a folder, or the disk limit."""
        workspace = self.open_workspace()
        free, limit = workspace.free_bytes() - RESERVE_BYTES, workspace.disk_limit_bytes
        used = workspace.used_bytes + workspace.elsewhere_bytes
        if limit is not None and limit - used < free:
            return limit - used, "the disk limit"
        return free, str(workspace.folder.parent)

    def make_store(self, name: str) -> PageStore:
        """Return a store for data of the solver's own. Report the bytes that you read from it to
        ``count_bytes``."""
        return open_store(self.open_workspace(), name, self._spill_format)

    def count_bytes(self, nbytes: int) -> None:
        self._store_bytes_read += nbytes

    def _make_cache(self) -> PageSink:
        return CountingStore() if self._dry else self.make_store("cache")
