"""Survivors: the rows that a solver wants to see again before the next full pass.

Those with the least slack stay in memory, as many as fit; rows that do not fit, and whose slack is within a
threshold, go to a spill file, if there is one. The spill is read as generation g while generation g + 1 is written.

Rows are selected by a thread while their solver goes on with the next block; whatever asks for the outcome waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.errors import DiskError
from llsvm.process.trace import is_tracing, trace
from llsvm.row_buffer import RowBuffer
from llsvm.spill.store import PageStore
from llsvm.spill.writer import PageWriter, row_sizes


class Survivors:
    """Rows kept between passes, in a buffer of fixed size and, beyond it, in spill files."""

    def __init__(
        self,
        buffer: RowBuffer,
        max_rows: int,
        max_resident: int,
        spills: bool,
        page_bytes: int,
        make_store: Callable[[str], PageStore],
    ) -> None:
        """buffer: for those in memory, empty.
        max_rows: at most so many rows are kept, in memory and on disk together.
        max_resident: in memory.
        spills: rows that leave memory go to disk; not where all rows are in memory, as one block.
        page_bytes: of the pages that rows are spilled in; four of them are held (SPILL_PAGES).
        make_store: of a name, for a generation of the spill."""
        self._buffer = buffer
        self._max_rows = max_rows
        self.max_resident = min(max_rows, max_resident)
        """At most so many rows stay in memory, if none is larger than the mean."""
        self._spills = spills
        self._slack: NDArray[np.float32] = np.zeros(0, np.float32)
        self._all_or_nothing = False
        self.note = ""
        self._crowded = False  # more rows violate than fit in memory
        numbers = count(1)
        # names nothing of this object, which would then wait for the collector of garbage with all its rows
        self._writer = PageWriter(page_bytes, lambda: make_store(f"spill-{next(numbers)}"))
        self.spilled: PageStore | None = None  # the generation that may be read now
        self._thread = ThreadPoolExecutor(1, "llsvm-select")
        self._selecting: Future[None] | None = None
        self.spilled_bytes = 0  # written so far, in all generations
        # while events are traced: rows since the last generation, and the largest slack of those to be spilled
        self._counts = Counter[str]()
        self._spilled_up_to: float | None = None

    def require_all(self) -> None:
        """Make a full disk an error from now on, for a solver that never sees again what is not kept. Else the rows
        that it refuses wait for the next full pass, and ``note`` says so."""
        self._all_or_nothing = True

    def __len__(self) -> int:
        """Return the number of rows in memory and in the generation that may be read."""
        self._wait()
        return self._buffer.n_rows + (0 if self.spilled is None else self.spilled.n_rows)

    @property
    def resident(self) -> Block:
        """Return the rows in memory, a view that is valid until rows are added or dropped."""
        self._wait()
        return self._buffer.block()

    @property
    def slack(self) -> NDArray[np.float32]:
        """Return the slack (n,) float32 of the resident rows: how far from violating they are, 0 where they do."""
        self._wait()
        return self._slack

    def retain(self, mask: NDArray[np.bool_]) -> None:
        """Keep only the resident rows in ``mask``."""
        self._wait()
        self._retain(mask)

    def _retain(self, mask: NDArray[np.bool_]) -> None:
        self._buffer.keep(mask)
        self._slack = self._slack[mask]
        self._crowded &= bool(mask.all())

    def clear(self) -> None:
        """Forget all rows, in memory and on disk."""
        self._wait()
        self._buffer.clear()
        self._slack = np.zeros(0, np.float32)
        self._crowded = False
        if self.spilled is not None:
            self.spilled.retire()
            self.spilled = None

    def drop(self, buffer: RowBuffer) -> None:
        """Forget the rows in memory, and give that up. buffer: for others, empty."""
        self._wait()
        self._buffer, self._slack, self._crowded = buffer, np.zeros(0, np.float32), False

    def set_slack(self, slack: NDArray[np.float32]) -> None:
        """Set that of the resident rows, (n,) float32: 0 for those that violate."""
        self._wait()
        self._slack, self._crowded = slack, False

    def add(self, block: Block, slack: NDArray[np.float32], threshold: float | None) -> None:
        """Offer rows; the nearest of them and of the resident ones stay in memory.

        slack: (n,) float32, how far from violating rows are: 0 for those that do, ∞ for those never to keep.
        threshold: rows up to this slack that must leave memory go to disk; None leaves them to the next full pass.
        The block is not to change before ``wait_for_selection`` returns. A DiskError may come with any later call.
        """
        self._wait()
        self._selecting = self._thread.submit(self._select, block, slack, threshold)

    def wait_for_selection(self) -> None:
        """Return when all blocks that were given may change."""
        selecting = self._selecting
        if selecting is not None:
            selecting.exception()

    def _wait(self) -> None:
        if self._selecting is not None:
            try:
                self._selecting.result()
            finally:  # and no earlier: the thread in ``wait_for_selection`` must not take it for done
                self._selecting = None

    def _select(self, block: Block, slack: NDArray[np.float32], threshold: float | None) -> None:
        if is_tracing():
            self._count(slack, threshold)
        if self._crowded and threshold is None:
            return  # none would be kept
        candidates = np.flatnonzero(slack < np.inf)
        keep_old, keep_new = self._choose(block, candidates, slack[candidates])
        if threshold is not None:
            self._spill(self._buffer.block(), np.flatnonzero(~keep_old & (self._slack <= threshold)))
            self._spill(block, candidates[~keep_new & (slack[candidates] <= threshold)])
        self._retain(keep_old)
        added = candidates[keep_new]
        self._buffer.append_rows(block, added)
        self._slack = np.concatenate([self._slack, slack[added]])

    def _count(self, slack: NDArray[np.float32], threshold: float | None) -> None:
        """Count the rows of a block by what they are, for the trace."""
        if not self._counts:
            self._counts["in_memory_before"], self._spilled_up_to = self._buffer.n_rows, threshold
        elif threshold is not None:
            self._spilled_up_to = max(threshold, self._spilled_up_to or 0.0)
        free, never_kept = int(np.count_nonzero(slack <= 0)), int(np.count_nonzero(slack == np.inf))
        self._counts.update(free_or_violating=free, settled=never_kept, near=len(slack) - free - never_kept)

    def swap_generation(self) -> None:
        """Let the generation written so far be read; the one before is gone."""
        self._wait()
        self._swap()
        if is_tracing():
            in_memory, spilled = self._buffer.n_rows, 0 if self.spilled is None else self.spilled.n_rows
            counts, before = self._counts, self._counts["in_memory_before"]
            unsettled = counts["free_or_violating"] + counts["near"]
            trace(
                "survivors.selected",
                in_memory_before=before,
                free_or_violating=counts["free_or_violating"],
                near=counts["near"],
                settled=counts["settled"],
                in_memory=in_memory,
                spilled=spilled,
                left_to_next_pass=before + unsettled - in_memory - spilled,
                kept_up_to_slack=self._slack.max(initial=0.0),
                spilled_up_to_slack=self._spilled_up_to,
                most_rows=self._max_rows,
            )
            self._counts.clear()

    def _swap(self) -> None:
        old, self.spilled = self.spilled, None
        try:
            self.spilled = self._writer.finish()
            if self.spilled is not None:
                self.spilled_bytes += sum(page.nbytes for page in self.spilled.pages)
        except DiskError as error:
            self._disable_spill(error)
        finally:
            if old is not None:
                old.retire()

    def close(self) -> None:
        """Return when nothing is being written any more."""
        self.wait_for_selection()
        self._thread.shutdown()
        self._writer.close()

    def _choose(
        self, block: Block, candidates: NDArray[np.intp], slack: NDArray[np.float32]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Choose which resident and which of the ``candidates`` rows stay in memory."""
        both = np.concatenate([self._slack, slack])
        old = len(self._slack)
        resident = row_sizes(self._buffer.block(), self._buffer)
        sizes = np.concatenate([resident, row_sizes(block, self._buffer)[candidates]])
        keep = np.ones(len(both), bool)
        if sizes.sum() > self._buffer.capacity_bytes or len(both) > self.max_resident:
            nearest = np.flatnonzero(
                both <= 0
            )  # often there are more violating rows than fit: nothing to sort
            self._crowded = (
                len(nearest) > self.max_resident or sizes[nearest].sum() > self._buffer.capacity_bytes
            )
            if not self._crowded:
                nearest = np.argsort(both, kind="stable")
            fitting = np.searchsorted(np.cumsum(sizes[nearest]), self._buffer.capacity_bytes, side="right")
            keep[:] = False
            keep[nearest[: min(int(fitting), self.max_resident)]] = True
        return keep[:old], keep[old:]

    def _spill(self, block: Block, rows: NDArray[np.intp]) -> None:
        """Write rows, unless the disk has refused some before."""
        room = max(self._max_rows - self._buffer.n_rows - self._writer.n_rows, 0)
        if not self._spills or self.note or not len(rows) or not room:
            return
        try:
            self._writer.append_rows(block, rows[:room])
        except DiskError as error:
            self._disable_spill(error)

    def _disable_spill(self, error: DiskError) -> None:
        self._writer.discard()
        trace("spill.refused", why=str(error), all_or_nothing=self._all_or_nothing)
        if self._all_or_nothing:
            raise error
        self.note = f"survivors beyond memory are not spilled, which takes more passes: {error}"
