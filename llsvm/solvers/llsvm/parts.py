"""Parts: the blocks of a full pass, and those of an epoch over spilled rows, with their dual variables and margins;
where there is memory for it (LLSVMTuning.ahead), the next is made by the thread that reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.solvers.llsvm.block_state import BlockState
from llsvm.solvers.llsvm.run import Run
from llsvm.stream.assembly import Ahead, prepared


class Parts:
    """Of one run. What comes out does not depend on timing: the weights that are looked at ahead do not move
    meanwhile."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._seen: NDArray[np.float64] | None = None  # (k, d + 1) weights that a scan ahead is by

    def of_pass(self, w: NDArray[np.floating] | None) -> Iterator[BlockState]:
        """All rows, their margins at ``w`` (k, d + 1), which stays until the pass is over; None is zero."""

        def measured(block: Block) -> BlockState:
            part = self._run.duals.of(block)
            self._run.sweeps.measure(part, w)
            return part

        return self._prepared(self._run.stream.all, lambda: measured)

    def spilled(self, scan: bool) -> Iterator[BlockState]:
        """The spilled survivors. scan: only rows that are free or violate are active, by margins at the weights as
        they are; made ahead, as they were before the block before it was worked on."""
        begin = self._scan if scan else lambda: self._run.duals.of
        return self._prepared(self._run.stream.active, begin)

    def _prepared(
        self,
        blocks: Callable[[Ahead | None], Iterator[Block]],
        begin: Callable[[], Callable[[Block], BlockState]],
    ) -> Iterator[BlockState]:
        return prepared(blocks if self._run.tuning.ahead else lambda _: blocks(None), begin)

    def _scan(self) -> Callable[[Block], BlockState]:
        run, w = self._run, self._run.sweeps.w
        if run.tuning.ahead:
            if self._seen is None:
                self._seen = np.empty_like(w)
            self._seen[...] = w
            w = self._seen

        def scan(block: Block) -> BlockState:
            part = run.duals.of(block)
            run.sweeps.measure(part, w)

            def find(c: int) -> None:
                part.active[c] = part.violating(c)

            run.sweeps.each(find)
            return part

        return scan
