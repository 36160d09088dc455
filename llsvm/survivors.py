"""Survivors: the rows that a solver wants to see again before the next full pass.

Those nearest to moving stay in memory, as many as fit; rows that are still moving and do not fit go to a spill
file, if there is one. The spill is read as generation g while generation g + 1 is written.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from llsvm.arena import Arena, row_bytes, take
from llsvm.block import CSR, Block, concat
from llsvm.errors import DiskError
from llsvm.spill.store import PageStore


class Survivors:
    """Rows kept between passes, in an arena of fixed size and, beyond it, in spill files."""

    def __init__(
        self,
        arena: Arena,
        max_rows: int,
        max_resident: int,
        page_bytes: int,
        make_store: Callable[[str], PageStore],
    ) -> None:
        """max_rows: at most so many rows are kept, in memory and on disk together. max_resident: in memory.
        page_bytes: spilled rows are collected to pages of about this size, at most four of them are held."""
        self._arena = arena
        self._max_rows = max_rows
        self._max_resident = min(max_rows, max_resident)
        self._page_bytes = page_bytes
        self._make_store = make_store
        self.distance: NDArray[np.float32] = np.zeros(
            0, np.float32
        )  # of the resident rows, 0 where they move
        self._generation = 0
        self.all_or_nothing = False
        """Set by a solver that never sees again what is not kept: then a full disk is an error. Else the rows
        that it refuses wait for the next full pass, and ``note`` says so."""
        self.note = ""
        self._pending: list[Block] = []
        self._pending_bytes = 0
        self._writing: PageStore | None = None
        self.spilled: PageStore | None = None  # the generation that may be read now

    def __len__(self) -> int:
        """Rows in memory and in the generation that may be read."""
        return self._arena.n_rows + (0 if self.spilled is None else self.spilled.n_rows)

    @property
    def resident(self) -> Block:
        """The rows in memory, a view that is valid until rows are added or dropped."""
        return self._arena.block()

    def retain(self, mask: NDArray[np.bool_]) -> None:
        """Keep only the resident rows in ``mask``."""
        self._arena.keep(mask)
        self.distance = self.distance[mask]

    def clear(self) -> None:
        """Forget all rows, in memory and on disk."""
        self._arena.clear()
        self.distance = np.zeros(0, np.float32)
        if self.spilled is not None:
            self.spilled.delete()
            self.spilled = None

    def renew(self, distance: NDArray[np.float32]) -> None:
        """Set how far from moving the resident rows are, (n,): 0 for moving ones."""
        self.distance = distance

    def add(self, block: Block, distance: NDArray[np.float32], reach: float | None) -> None:
        """Offer rows; the nearest of them and of the resident ones stay in memory.

        distance: (n,) float32, 0 for rows that are moving, ∞ for those never to keep. reach: rows up to this
        distance that must leave memory go to disk; None leaves them to the next full pass.
        """
        wanted = np.flatnonzero(distance < np.inf)
        keep_old, keep_new = self._choose(block, wanted, distance[wanted])
        if reach is not None and not self.note:
            self._spill(self.resident, np.flatnonzero(~keep_old & (self.distance <= reach)))
            self._spill(block, wanted[~keep_new & (distance[wanted] <= reach)])
        self.retain(keep_old)
        chosen = wanted[keep_new]
        for part in take(block, chosen):
            self._arena.append(part)
        self.distance = np.concatenate([self.distance, distance[chosen]])

    def turn(self) -> None:
        """The generation written so far may now be read; the one before is gone."""
        self._flush()
        if self.spilled is not None:
            self.spilled.delete()
        self.spilled, self._writing = self._writing, None
        if self.spilled is not None:
            self.spilled.finish()

    def _choose(
        self, block: Block, wanted: NDArray[np.intp], distance: NDArray[np.float32]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which resident and which of the ``wanted`` rows stay in memory."""
        both = np.concatenate([self.distance, distance])
        old = len(self.distance)
        lengths = np.concatenate([_lengths(self.resident), _lengths(block)[wanted]])
        arena = self._arena
        per_value = row_bytes(0, 1, arena.dtype.itemsize, None, False) if arena.width is None else 0
        per_row = row_bytes(1, 0, arena.dtype.itemsize, arena.width, arena.weighted)
        sizes = lengths * per_value + per_row
        keep = np.ones(len(both), bool)
        if sizes.sum() > arena.capacity_bytes or len(both) > self._max_resident:
            nearest = np.argsort(both, kind="stable")
            fitting = np.searchsorted(np.cumsum(sizes[nearest]), arena.capacity_bytes, side="right")
            keep[nearest[min(int(fitting), self._max_resident) :]] = False
        return keep[:old], keep[old:]

    def _spill(self, block: Block, chosen: NDArray[np.intp]) -> None:
        room = self._max_rows - self._arena.n_rows - self._spilling_rows()
        chosen = chosen[: max(room, 0)]
        for part in take(block, chosen, self._page_bytes // 4):
            self._pending.append(part)
            self._pending_bytes += part.nbytes
            if self._pending_bytes >= self._page_bytes:
                self._flush()

    def _spilling_rows(self) -> int:
        written = 0 if self._writing is None else self._writing.n_rows
        return written + sum(part.n_rows for part in self._pending)

    def _flush(self) -> None:
        if not self._pending or self.note:
            self._pending, self._pending_bytes = [], 0
            return
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        try:
            if self._writing is None:
                self._generation += 1
                self._writing = self._make_store(f"spill-{self._generation}")
            self._writing.append(concat(pending))
        except DiskError as error:
            if self.all_or_nothing:
                raise
            self.note = f"survivors beyond memory are not spilled, which takes more passes: {error}"
            if self._writing is not None:
                self._writing.delete()
            self._writing = None


def _lengths(block: Block) -> NDArray[np.int64]:
    if isinstance(block.X, CSR):
        return np.diff(block.X.indptr)
    return np.full(block.n_rows, block.X.shape[1], np.int64)
