"""What solvers need of the memory limit, and what is left for them: plain numbers, from which a plan follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llsvm.dataset import DatasetInfo

PAGE_INFO_BYTES = 800  # what a store remembers of each of its pages
READING_PAGES = 9  # that the first reading holds, see llsvm/stream/stream.py
SPILL_PAGES = 4  # that survivors hold while they spill
SMALLEST_BLOCK_BYTES = 256_000


@dataclass(frozen=True, slots=True)
class Needs:
    """What a solver holds while it works, beside the rows themselves.

    lines: bytes by name, for the ledger, whatever the rows at hand. row_work_bytes: for each row at hand.
    copy_survivors: survivors are wanted even where all rows are in memory.
    row_state_bytes: what ``Stream.row_state`` will be asked for, of each row of the data set: set aside in memory
    while that takes no more than a quarter of what the smallest blocks leave, else it goes to disk.
    sparse_state: ``Stream.sparse_state`` will be asked for instead.
    """

    lines: Mapping[str, int]
    row_work_bytes: int
    copy_survivors: bool = False
    row_state_bytes: int = 0
    sparse_state: bool = False

    @property
    def nbytes(self) -> int:
        """Of all lines."""
        return sum(self.lines.values())


@dataclass(frozen=True, slots=True)
class MemoryLeft:
    """The part of the memory limit that is left for a solver once the data have been read.

    dataset: the facts. available_bytes: of the limit. in_memory: are all rows in memory?
    rows_bytes: what all rows take as one block, None where they cannot be one.
    page_bytes: of the largest page of rows. page_rows_per_byte: of the page where that is largest.
    n_pages: that a list is kept of.
    """

    dataset: DatasetInfo
    available_bytes: int
    in_memory: bool = False
    rows_bytes: int | None = None
    page_bytes: int = 0
    page_rows_per_byte: float = 0.0
    n_pages: int = 0

    def fits_in_one_block(self, needs: Needs) -> bool:
        """Will all rows come as one block, if there is no row state and no copy of survivors?"""
        whole = self.one_block(needs.row_work_bytes, False)
        return whole is not None and sum(whole.values()) + needs.nbytes <= self.available_bytes

    def has_room(self, needs: Needs) -> bool:
        """Is the memory limit large enough?"""
        blocks = self.smallest_blocks_bytes(self.page_bytes, needs.row_work_bytes)
        return self.fits_in_one_block(needs) or blocks + needs.nbytes <= self.available_bytes

    def one_block(self, row_work_bytes: int, copy_survivors: bool) -> dict[str, int] | None:
        """Bytes by name that it takes to work on all rows as one block; None where they cannot be one."""
        if self.rows_bytes is None:
            return None
        needed = {"all rows": self.rows_bytes, "work on rows": self.dataset.n_rows * row_work_bytes}
        if copy_survivors:
            needed["survivors"] = sum(needed.values())
        return needed

    def smallest_blocks_bytes(self, page_bytes: int, row_work_bytes: int) -> int:
        """That working on blocks of rows takes, at least, with pages of ``page_bytes``."""
        page_rows = int(self.page_rows_per_byte * page_bytes) + 1
        block_bytes = max(SMALLEST_BLOCK_BYTES, 2 * page_bytes)
        rows = block_bytes / self.dataset.held_bytes_per_row
        blocks = 3 * block_bytes + (rows + max(rows, page_rows)) * row_work_bytes
        pages = PAGE_INFO_BYTES * self.n_pages
        return int(blocks) + (READING_PAGES + SPILL_PAGES) * page_bytes + pages + 1
