"""MemoryPlan says how a memory limit is spent. It follows from the data's facts, a solver's needs and the limit
alone.

A limit holds, in this order: what the process holds anyway; what the first reading has learned; the solver's own
lines; dual variables, where they leave enough; and then all rows as one block, or two blocks of rows (one worked
on, the next one being read meanwhile), survivors of as many bytes as one block, and the work on their rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from llsvm.dataset import NO_PAGES, DatasetInfo, Pages
from llsvm.memory.budget import LABELS, LIBRARY, STATISTICS, WORKING, MemoryBudget
from llsvm.process.trace import trace

PAGE_BYTES = (64_000, 4_000_000)  # a page: the unit of reading, checksums and shuffling
PAGE_SHARE = 60  # a page is at most this part (1/60) of the memory there is: what each costs Python counts
PAGE_STEP = 1.25  # sizes that are tried where pages must be smaller, one by the other
# What the first reading holds: five blocks in the source and one in hand; a page being joined, one on its way to
# disk and its packed form.
READING_BLOCKS, READING_PAGES = 6, 9
MEASURED_ROWS = 4  # that a reading which only counts holds of a long row: its text, its values, a dense copy
# Where READING_PAGES pages do not fit beside the reader, a page is this part (1/10) of what it leaves.
READING_ROOM = 10
# The source is asked for larger blocks than pages are, if this part of the memory there is allows it.
READ_SHARE, MAX_READ_BYTES = 25, 6_000_000
PAGE_INFO_BYTES = 1100  # what a store remembers of each of its pages
SPILL_PAGES = 4  # that survivors hold while they spill
STATE_SHARE = 4  # dual variables live in memory while they need at most 1/4 of what the smallest blocks leave
SMALLEST_BLOCK_BYTES = 256_000
# Of dual variables on disk: chunks, and what each takes
STATE_CHUNK_BYTES = 1 << 14
STATE_CHECKSUM_BYTES = 16

ALL_ROWS, BLOCKS, SURVIVORS = "all rows", "blocks of rows", "survivors"
STATE = "state being written"  # of a run that is to go on later
WORK_ON_ROWS = "work on rows"  # on the block in memory and, where there are any, on survivors


@dataclass(frozen=True, slots=True)
class Needs:
    """Needs of a solver while it works, beside the rows themselves.

    lines: bytes by name that do not depend on how many rows are in memory.
    row_work_bytes: bytes of work on each row in memory.
    copy_survivors: survivors are copied even where all rows are in memory.
    row_state_bytes: bytes of ``Stream.row_state`` for each row of the data set. They are reserved in memory while
    they take no more than a quarter of what the smallest blocks leave, else they go to disk.
    sparse_state: the solver calls ``Stream.sparse_state`` instead.
    missing_bytes: with so many bytes more the solver could work in a way that takes far less time.
    resident_survivors: survivors stay in memory as far as they fit; else all of them are spilled, and blocks are
    half as large again.
    """

    lines: Mapping[str, int]
    row_work_bytes: int
    copy_survivors: bool = False
    row_state_bytes: int = 0
    sparse_state: bool = False
    missing_bytes: int = 0
    resident_survivors: bool = True

    @property
    def nbytes(self) -> int:
        """Return the sum of all lines."""
        return sum(self.lines.values())

    @property
    def blocks_held(self) -> int:
        """Return how many blocks are in memory, survivors counted as one more."""
        return 2 + self.resident_survivors


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Division of a memory limit. Sizes are in bytes.

    lines: bytes by name that are reserved beside what was held before.
    in_one_block: all rows are in memory, and come as one block.
    pages: how rows are cut into pages.
    block_bytes, block_rows: the largest size of a block.
    survivor_bytes, survivor_rows: the largest size of the survivors in memory.
    state_bytes: the dual variables in memory; 0 where they go to disk, or there are none.
    """

    lines: Mapping[str, int]
    in_one_block: bool
    pages: Pages
    block_bytes: int = sys.maxsize
    block_rows: int = sys.maxsize
    survivor_bytes: int = 0
    survivor_rows: int = 0
    state_bytes: int = 0

    @property
    def rows_bytes(self) -> int:
        """Return what all rows take in memory; 0 where they come in blocks."""
        return self.lines.get(ALL_ROWS, 0)

    @property
    def two_blocks_bytes(self) -> int:
        """Return what the block that is worked on and the one that is read meanwhile take; 0 where there is one."""
        return self.lines.get(BLOCKS, 0)

    @property
    def work_bytes(self) -> int:
        """Return what work on rows takes, beside the rows."""
        return self.lines[WORK_ON_ROWS]

    def reserve(self, budget: MemoryBudget) -> None:
        """Reserve all lines. Raises BudgetError."""
        whole = self.in_one_block
        trace(
            "memory.planned",
            in_one_block=whole,
            page_bytes=self.pages.page_bytes,
            block_bytes=None if whole else self.block_bytes,
            block_rows=None if whole else self.block_rows,
            survivor_bytes=self.survivor_bytes,
            survivor_rows=self.survivor_rows,
            state_bytes=self.state_bytes,
        )
        for what, nbytes in self.lines.items():
            budget.reserve(what, nbytes)


@dataclass(frozen=True, slots=True)
class StoredPages:
    """Pages of a store: how many there are, the rows of the largest, and what reading one takes beside two
    pages."""

    n_pages: int
    largest_rows: int
    scratch_bytes: int = 0


@dataclass(frozen=True, slots=True)
class MemoryLeft:
    """Part of a memory limit that is left for a solver once the data have been read.

    dataset: the facts of the data.
    limit_bytes: the limit.
    lines: bytes by name that are held already.
    place: where the rows are now: "memory", "cache" or "source".
    rows_bytes: bytes of all rows as one block; None where they are not in memory.
    pages: how the rows were cut into pages under this limit.
    stored: the pages of the cache, once it is written.
    """

    dataset: DatasetInfo
    limit_bytes: int
    lines: Mapping[str, int] = field(default_factory=dict)
    place: str = "cache"
    rows_bytes: int | None = None
    pages: Pages = NO_PAGES
    stored: StoredPages | None = None

    @property
    def available_bytes(self) -> int:
        return self.limit_bytes - sum(self.lines.values())

    @property
    def keeps_state(self) -> bool:
        """Return whether the state of the run is written while it goes on."""
        return STATE in self.lines

    @property
    def in_memory(self) -> bool:
        """Return whether all rows are in memory."""
        return self.place == "memory"

    def fits_in_one_block(self, needs: Needs) -> bool:
        """Return whether all rows come as one block, without row state and copies of survivors."""
        return self.spare_bytes(needs) >= 0

    def spare_bytes(self, needs: Needs) -> int:
        """Return the bytes that all rows as one block leave, without row state and copies of survivors; negative
        where they do not fit as one."""
        whole = self._one_block(needs.row_work_bytes, False)
        return -1 if whole is None else self.available_bytes - sum(whole.values()) - needs.nbytes

    def has_room(self, needs: Needs) -> bool:
        """Return whether the memory limit is large enough."""
        return self.plan(needs) is not None

    def plan(self, needs: Needs) -> MemoryPlan | None:
        """Return how the limit is spent, or None where it is too small."""
        lines, work = dict(needs.lines), needs.row_work_bytes
        state_bytes = needs.row_state_bytes * self.dataset.n_rows
        if state_bytes and not needs.sparse_state:
            lines["checksums of dual variables"] = checksum_bytes(state_bytes)
        left = self.available_bytes - sum(lines.values())
        whole = self._one_block(work, needs.copy_survivors)
        is_room = whole is not None and sum(whole.values()) <= left
        pages = self.pages if is_room else self._pages_with_room(needs, left)
        if pages is None:
            return None
        free_bytes = left - self._smallest_blocks_bytes(pages, needs)
        if needs.sparse_state:
            state_bytes = min(state_bytes, max(0, free_bytes // STATE_SHARE))
        if state_bytes > free_bytes // STATE_SHARE:
            state_bytes = 0
        if state_bytes:
            lines["dual variables"] = state_bytes
        left -= state_bytes
        if whole is None or sum(whole.values()) > left:
            return self._in_blocks(lines, needs, left, pages, state_bytes)
        lines |= whole
        if not needs.copy_survivors:
            return MemoryPlan(lines, True, pages, state_bytes=state_bytes)
        rows, n_rows = whole[ALL_ROWS], self.dataset.n_rows
        return MemoryPlan(
            lines, True, pages, survivor_bytes=rows, survivor_rows=n_rows, state_bytes=state_bytes
        )

    def _one_block(self, row_work_bytes: int, copy_survivors: bool) -> dict[str, int] | None:
        """Return the bytes, by name, of work on all rows as one block; None where they are not in memory."""
        if self.rows_bytes is None:
            return None
        needed = {ALL_ROWS: self.rows_bytes, WORK_ON_ROWS: self.dataset.n_rows * row_work_bytes}
        if copy_survivors:
            needed[SURVIVORS] = sum(needed.values())
        return needed

    def _pages_with_room(self, needs: Needs, left: int) -> Pages | None:
        """Return the largest pages whose smallest blocks fit in ``left``: the pages as they are, or smaller ones.
        None where no pages are small enough."""
        sizes = []
        size = float(PAGE_BYTES[0])
        while size < self.pages.page_bytes:
            sizes.append(int(size))
            size *= PAGE_STEP
        candidates = [self.pages, *(self.pages.cut_to(size, self.dataset) for size in reversed(sizes))]
        return next((p for p in candidates if self._smallest_blocks_bytes(p, needs) <= left), None)

    def _smallest_blocks_bytes(self, pages: Pages, needs: Needs) -> int:
        """Return the least bytes that work on blocks of rows takes."""
        page_bytes = pages.largest_bytes
        page_rows = int(pages.rows_per_byte * page_bytes) + 1
        block_bytes = max(SMALLEST_BLOCK_BYTES, 2 * page_bytes)
        rows = block_bytes / self.dataset.held_bytes_per_row
        worked_on = needs.resident_survivors * rows + max(rows, page_rows)
        blocks = needs.blocks_held * block_bytes + worked_on * needs.row_work_bytes
        n_pages = pages.n_pages
        if n_pages:
            n_pages = min(n_pages, Pages.most_pages(pages.page_bytes, self.dataset))
        listed = PAGE_INFO_BYTES * n_pages
        return int(blocks) + (READING_PAGES + SPILL_PAGES) * page_bytes + listed + 1

    def _in_blocks(
        self, lines: dict[str, int], needs: Needs, left: int, pages: Pages, state_bytes: int
    ) -> MemoryPlan | None:
        """Divide what is left between two blocks (one worked on, one being read) and the survivors.

        Rows may be short or long, so bytes and rows of a block are limited both: rows cost the work on them."""
        page_bytes, page_rows, reading = pages.largest_bytes, pages.largest_rows, READING_PAGES
        excess, reads_store = 0, self.dataset.reading.cached and not self.dataset.reading.views
        if self.stored is not None or (reads_store and self.place != "source"):
            stored = StoredPages(pages.n_pages, page_rows)
            if self.stored is not None and pages == self.pages:  # else the store's pages are cut anew
                stored = self.stored
            page_rows, reading = stored.largest_rows, 2
            excess = max(0, stored.scratch_bytes - 2 * page_bytes)
            lines["list of pages"] = PAGE_INFO_BYTES * stored.n_pages
            left -= lines["list of pages"]
        lines["reading and spilling"] = (reading + SPILL_PAGES) * page_bytes + excess
        left -= lines["reading and spilling"]
        held = self.dataset.held_bytes_per_row
        work = needs.row_work_bytes / held
        n_held, resident = needs.blocks_held, needs.resident_survivors
        block_bytes = int(left / (n_held + (resident + 1) * work))
        if block_bytes < page_rows * held:  # a page of short rows is more work than an average block
            block_bytes = int((left - page_rows * needs.row_work_bytes) / (n_held + resident * work))
        if block_bytes <= 0:
            return None
        survivor_rows = int(block_bytes / held) + 1
        block_rows = max(survivor_rows, page_rows)
        lines |= {BLOCKS: 2 * block_bytes, WORK_ON_ROWS: left - n_held * block_bytes}
        if not resident:
            return MemoryPlan(lines, False, pages, block_bytes, block_rows, 0, 0, state_bytes)
        lines[SURVIVORS] = block_bytes
        return MemoryPlan(
            lines, False, pages, block_bytes, block_rows, block_bytes, survivor_rows, state_bytes
        )


def checksum_bytes(nbytes: int) -> int:
    """Return the largest bytes of checksums in memory, for dual variables of ``nbytes`` on disk."""
    return -(-nbytes // (STATE_CHUNK_BYTES // 2)) * STATE_CHECKSUM_BYTES


def page_bytes_for(available_bytes: int, reader_bytes: int) -> int:
    """Return the bytes of a page for a first reading that has ``available_bytes``: a share of these, or a smaller
    page where READING_PAGES of them do not fit beside ``reader_bytes``, what the reader takes at its start."""
    low, high = PAGE_BYTES
    page_bytes, left = available_bytes // PAGE_SHARE, available_bytes - reader_bytes
    if READING_PAGES * page_bytes > left:
        page_bytes = left // READING_ROOM
    return int(min(max(page_bytes, low), high))


def read_bytes_for(available_bytes: int, reader_bytes: int, page_bytes: int, long_row_bytes: int) -> int:
    """Return the bytes of a block that the first reading asks the source for."""
    min_bytes, left = max(page_bytes, long_row_bytes), available_bytes - reader_bytes
    read_bytes = max(min_bytes, min(MAX_READ_BYTES, available_bytes // READ_SHARE))
    fits = READING_BLOCKS * read_bytes + (READING_PAGES - READING_BLOCKS) * min_bytes <= left
    return read_bytes if fits else min_bytes


def reading_bytes_for(available_bytes: int, reader_bytes: int, page_bytes: int, long_row_bytes: int) -> int:
    """Return the bytes that the first reading holds at a time, beside the reader and the rows that it keeps."""
    pages = (READING_PAGES - READING_BLOCKS) * max(page_bytes, long_row_bytes)
    return READING_BLOCKS * read_bytes_for(available_bytes, reader_bytes, page_bytes, long_row_bytes) + pages


def left_after_reading(dataset: DatasetInfo, limit_bytes: int, held: Mapping[str, int]) -> MemoryLeft | None:
    """Return what a limit would leave for a solver, had the data been read under it; None where reading them does
    not fit.

    held: bytes by name that are held before the data are read, as those of the process itself."""
    facts, available = dataset.reading, limit_bytes - sum(held.values())
    page_bytes = page_bytes_for(available, facts.begun_bytes)
    left = available - facts.reader_bytes - facts.labels_bytes - facts.statistics_bytes
    left -= reading_bytes_for(available, facts.begun_bytes, page_bytes, facts.long_row_bytes)
    if left < 0:
        return None
    rows_bytes: int | None = facts.held_bytes or int(dataset.n_rows * dataset.held_bytes_per_row)
    place = "memory"
    if not facts.views and (facts.mixed or left < (rows_bytes or 0)):
        rows_bytes, place = None, "cache" if facts.cached else "source"
    library_bytes = facts.library_bytes if facts.cached else facts.reader_bytes
    learned = {LIBRARY: library_bytes, LABELS: facts.labels_bytes, STATISTICS: facts.scaling_bytes}
    lines = {**held, **{what: nbytes for what, nbytes in learned.items() if nbytes}}
    pages = dataset.pages.cut_to(page_bytes, dataset)
    return MemoryLeft(dataset, limit_bytes, lines, place, rows_bytes, pages)


def smallest_limit(takes: Callable[[int], bool], floor_bytes: int) -> int:
    """Return the smallest limit, in bytes, that is enough; at least ``floor_bytes``.

    takes: returns whether a limit is enough. Any limit above one that is enough must be enough."""
    low = high = max(floor_bytes, 1)
    if takes(low):
        return low
    while not takes(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if takes(middle):
            high = middle
        else:
            low = middle
    return high


@dataclass(frozen=True, slots=True)
class SmallestLimit:
    """Smallest limit that works. nbytes: the limit. lines: the bytes that it is spent on, by name."""

    nbytes: int
    lines: Mapping[str, int]


def smallest_for(
    dataset: DatasetInfo,
    held: Mapping[str, int],
    needs: Callable[[MemoryLeft], Needs],
    floor_bytes: int,
    in_one_block: bool = False,
    at_best: bool = False,
) -> SmallestLimit:
    """Return the smallest limit that a solver can train with; with ``in_one_block``, the smallest that keeps all
    rows in memory; with ``at_best``, the smallest with which ``Needs.missing_bytes`` is 0.

    held: bytes by name that are held before the data are read. needs: returns the solver's needs for what is left.
    floor_bytes: the answer is no less."""

    def spent(limit_bytes: int) -> Mapping[str, int] | None:
        left = left_after_reading(dataset, limit_bytes, held)
        needed = None if left is None else needs(left)
        plan = None if left is None or needed is None else left.plan(needed)
        if left is None or needed is None or plan is None or plan.in_one_block < in_one_block:
            return None
        if at_best and needed.missing_bytes:
            return None
        return {**left.lines, **plan.lines}

    smallest = smallest_limit(lambda limit_bytes: spent(limit_bytes) is not None, floor_bytes)
    lines = spent(smallest) or {}
    if smallest == floor_bytes and spent(smallest - 1) is not None:  # it is not the solver that needs more
        lines = {**held, WORKING: floor_bytes - sum(held.values())}
    trace("memory.smallest", bytes=smallest, in_one_block=in_one_block, lines=lines)
    return SmallestLimit(smallest, lines)
