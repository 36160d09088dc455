"""Stream: all that a solver sees of the world.

``all()`` hands out every row once, in random order of pages, from wherever the first reading left them (memory,
the binary cache, or the source again). ``keep`` and ``active`` are the survivors; ``row_state`` holds the
dual variables. The memory limit is spent here, in ``prepare``: weights and dual variables first, the rest
shared between the block being worked on, the next one being read meanwhile, and the survivors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from llsvm.arena import Arena, row_bytes
from llsvm.block import Block
from llsvm.data.source import BlockSource
from llsvm.errors import BudgetError
from llsvm.ingest import Facts, Ingest
from llsvm.memory import MemoryBudget
from llsvm.progress import Progress
from llsvm.spill.rowstate import RowState
from llsvm.spill.store import PageStore, Scratch, open_store
from llsvm.spill.workspace import Workspace
from llsvm.survivors import Survivors

_PAGE_BYTES = (64_000, 4_000_000)  # a page of the cache: the unit of reading, checksums and shuffling
_READING_PAGES = (
    7  # pages that the first reading holds: five in the source, one in hand, one on its way to disk
)
_STATE_SHARE = 4  # dual variables live in memory while they need at most this part (1/4) of what is left
_SMALLEST_BLOCK_BYTES = 256_000


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
    ) -> None:
        """cache: "always", "never" or "auto" keep a binary copy of what does not fit in memory.
        survivors: at most this share of all rows is kept between passes."""
        self.source = source
        self.budget = budget
        self.progress = Progress(limit_bytes=budget.limit_bytes)
        self.note = ""
        self._parent = spill_parent
        self._disk_limit_bytes = disk_limit_bytes
        self._spill_format = spill_format
        self._cache = cache
        self._share = survivors
        self._rng = np.random.default_rng(seed)
        self.workspace: Workspace | None = None  # made when first needed
        self._ingest = Ingest(source, self.progress)
        self._store_bytes_read = 0
        self._facts: Facts | None = None
        self._block_bytes = 1 << 62
        self._survivor_bytes = 0
        self._survivors: Survivors | None = None
        self._buffers: list[Arena] = []
        self.in_one_block = False
        """All rows are in memory and come as one block: survivors save nothing."""

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.workspace is not None:
            self.workspace.close()

    # -- the first reading ------------------------------------------------------------------------------

    @property
    def facts(self) -> Facts:
        assert self._facts is not None, "read() comes first"
        return self._facts

    @property
    def bytes_read(self) -> int:
        """Bytes read from disk so far: the source, the cache and the spill together."""
        return self.source.bytes_read + self._store_bytes_read

    @property
    def place(self) -> str:
        """Where full passes read from: "memory", "cache" or "source"."""
        if self.source.info().in_memory or self._ingest.arena is not None:
            return "memory"
        return "cache" if self._ingest.store is not None else "source"

    def read(self) -> Facts:
        """Read the source once, to its end. Raises DataError, BudgetError, DiskError."""
        low, high = _PAGE_BYTES
        page_bytes = int(min(max(self.budget.available_bytes // 40, low), high))
        info = self.source.info()
        self.budget.reserve("reading", _READING_PAGES * page_bytes)
        if info.in_memory:
            self._facts = self._ingest.run(page_bytes, 0, None, False)
        else:
            must_store = self._cache == "always" or not info.rereadable
            store = None if self._cache == "never" and info.rereadable else self._make_cache
            self._facts = self._ingest.run(page_bytes, self.budget.available_bytes, store, must_store)
        self.budget.release("reading")
        self.note = self._ingest.note
        return self._facts

    def prepare(self, needs: Mapping[str, int], row_work_bytes: int, copy_survivors: bool = False) -> None:
        """Spend the memory limit.

        needs: what the solver holds, in bytes, by name. row_work_bytes: what it holds for each row at hand.
        copy_survivors: survivors are wanted even where all rows are in memory.
        Raises BudgetError with the smallest limit that works.
        """
        for what, nbytes in needs.items():
            self._reserve(what, nbytes)
        self.in_one_block = self._one_block_fits(row_work_bytes, copy_survivors)
        if self.in_one_block:
            left = self.budget.available_bytes if copy_survivors else 0
            self._survivor_bytes = int(left * self._values_share(row_work_bytes))
            return
        if self._ingest.arena is not None:
            self._ingest.move_to_store(self._make_cache, self._cache == "always")
            self.note = self._ingest.note
        self._share_out(row_work_bytes)

    def _one_block_fits(self, row_work_bytes: int, copy_survivors: bool) -> bool:
        """Can all rows be one block? If so, reserve what that takes."""
        facts, arena = self.facts, self._ingest.arena
        if arena is None and not self.source.info().in_memory:
            return False
        rows = int(facts.n_rows * facts.bytes_per_row) if arena is None else arena.used_bytes
        needed = {"all rows": rows, "work on rows": facts.n_rows * row_work_bytes}
        if copy_survivors:
            needed["survivors"] = sum(needed.values())
        try:
            self.budget.require(needed)
        except BudgetError:
            return False
        self.budget.reserve("all rows", needed["all rows"])
        self.budget.reserve("work on rows", needed["work on rows"])
        return True

    def _share_out(self, row_work_bytes: int) -> None:
        """Divide what is left between two blocks (one worked on, one being read) and the survivors."""
        store, page_bytes = self._ingest.store, self._ingest.largest_page_bytes
        work = 1 / self._values_share(row_work_bytes) - 1
        parts = 3 + 2 * work
        smallest = max(_SMALLEST_BLOCK_BYTES, 2 * page_bytes)
        self._reserve("reading", 2 * page_bytes if store is None else store.scratch_bytes)
        self._block_bytes = int(self.budget.available_bytes / parts)
        if self._block_bytes < smallest:
            self.budget.require({"blocks of rows": int(smallest * parts) + 1})
        self._survivor_bytes = self._block_bytes
        self.budget.reserve("blocks of rows", int(self._block_bytes * (2 + work)))
        self.budget.reserve("survivors", int(self._block_bytes * (1 + work)))

    def _values_share(self, row_work_bytes: int) -> float:
        """Of the bytes that rows at hand take, the part that an arena holds (the rest is work on them)."""
        facts = self.facts
        held = facts.bytes_per_row + row_bytes(1, 0, 0, None, facts.weighted)
        return held / (held + row_work_bytes)

    def _reserve(self, what: str, nbytes: int) -> None:
        """Reserve, and if that fails name the limit that would do for the whole run, not just for this line."""
        try:
            self.budget.reserve(what, nbytes)
        except BudgetError:
            least = 3 * max(_SMALLEST_BLOCK_BYTES, 2 * self._ingest.largest_page_bytes)
            self.budget.require({what: nbytes, "blocks of rows": least})
            raise

    def _arena(self, nbytes: int) -> Arena:
        facts = self.facts
        return Arena(nbytes, facts.dtype, facts.n_columns if facts.is_dense else None, facts.weighted)

    # -- passes -----------------------------------------------------------------------------------------

    def all(self) -> Iterator[Block]:
        """Every row once. A block is valid until the next is asked for."""
        self.progress.begin("pass", self.facts.n_rows)
        if self.source.info().in_memory or (self._ingest.arena is None and self._ingest.store is None):
            blocks = self._from_source()
        elif self._ingest.arena is not None:
            blocks = iter([self._ingest.arena.block()])
        else:
            assert self._ingest.store is not None
            blocks = self._from_store(self._ingest.store, None if self._ingest.final_ids else self._rank())
        for block in blocks:
            yield block
            self.progress.rows_done += block.n_rows

    def active(self) -> Iterator[Block]:
        """The survivors that are not in memory (``resident`` has those), a generation of the spill."""
        store = self.survivors.spilled
        if store is not None:
            yield from self._from_store(store, None)

    @property
    def resident(self) -> Block:
        """The survivors in memory; a view that is valid until ``keep``."""
        return self.survivors.resident

    @property
    def survivors(self) -> Survivors:
        if self._survivors is None:
            max_rows = max(1, int(self._share * self.facts.n_rows))
            self._survivors = Survivors(self._arena(self._survivor_bytes), max_rows, self._make_store)
        return self._survivors

    def row_state(self, width: int, dtype: np.dtype) -> RowState:
        """Zeros for every row, (n_rows, width): in memory while that needs no more than a quarter of what is
        left, else on disk."""
        nbytes = self.facts.n_rows * width * np.dtype(dtype).itemsize
        if nbytes <= self.budget.available_bytes // _STATE_SHARE:
            self.budget.reserve("dual variables", nbytes)
            return RowState(self.facts.n_rows, width, dtype)
        return RowState(self.facts.n_rows, width, dtype, self._open_workspace())

    def _rank(self) -> NDArray[np.int32]:
        return self._ingest.labels.rank

    def _from_source(self) -> Iterator[Block]:
        labels = self._ingest.labels
        for block in self.source.blocks(self._block_bytes):
            yield Block(block.X, labels.position(block.y), block.rows, block.weight)

    def _from_store(self, store: PageStore, lut: NDArray[np.int32] | None) -> Iterator[Block]:
        """Blocks made of pages from random places, the next one read by a thread while one is worked on."""
        if not self._buffers:
            self._buffers = [self._arena(self._block_bytes) for _ in range(2)]
        groups = self._groups(store)
        scratch = Scratch(store.scratch_bytes)

        def assemble(number: int) -> Block:
            arena = self._buffers[number % 2]
            arena.clear()
            for page in groups[number]:
                block = store.read(page, scratch)
                arena.append(block)
                self._store_bytes_read += store.pages[page].nbytes
                self.progress.bytes_done += store.pages[page].nbytes
            if lut is not None:
                arena.relabel(lut)
            return arena.block()

        self.progress.bytes_total += store.nbytes
        with ThreadPoolExecutor(1) as reader:
            ahead = reader.submit(assemble, 0) if groups else None
            for number in range(len(groups)):
                assert ahead is not None
                block = ahead.result()
                ahead = reader.submit(assemble, number + 1) if number + 1 < len(groups) else None
                yield block

    def _groups(self, store: PageStore) -> list[list[int]]:
        """The store's pages, shuffled and grouped into blocks that fit a buffer; ascending within each."""
        groups: list[list[int]] = []
        room = self._buffers[0]
        rows = nnz = 0
        for page in self._rng.permutation(len(store.pages)):
            info = store.pages[page]
            if groups and room.would_hold(rows + info.n_rows, nnz + info.nnz):
                groups[-1].append(int(page))
            else:
                groups.append([int(page)])
                rows = nnz = 0
            rows, nnz = rows + info.n_rows, nnz + info.nnz
        return [sorted(group) for group in groups]

    # -- files ------------------------------------------------------------------------------------------

    def _open_workspace(self) -> Workspace:
        if self.workspace is None:
            self.workspace = Workspace(self._parent, self._disk_limit_bytes)
        return self.workspace

    def _make_store(self, name: str) -> PageStore:
        return open_store(self._open_workspace(), name, self._spill_format)

    def _make_cache(self) -> PageStore:
        return self._make_store("cache")
