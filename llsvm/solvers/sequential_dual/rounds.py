"""Rounds: full passes of the sequential dual method over blocks, and the epochs over survivors between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block
from llsvm.objective.costs import RowCosts
from llsvm.solvers.sequential_dual.loops import Loops
from llsvm.solvers.sequential_dual.resum import terms
from llsvm.solvers.sequential_dual.shares import BlockShares, squared_norm
from llsvm.solvers.sequential_dual.tuning import SequentialDualTuning
from llsvm.spill.row_state import RowState
from llsvm.stream.sparse_state import SparseState
from llsvm.stream.stream import Stream

# Arrays of a SolverState that hold the survivors in memory: rows' numbers and class ids, their slack, and the rows.
_ROWS, _IDS, _SLACK, _WEIGHT = "survivors", "survivors_y", "survivors_slack", "survivors_weight"
_CSR = ("survivors_indptr", "survivors_indices", "survivors_data")
_DENSE = "survivors_X"


class JointRounds:
    """shares: of all rows. start: (d + 1, k) float64, the weights as the pass at hand began. n_active: rows that
    were free or violating in the last full pass; before the first, all. terms: of all rows, see resum.py, once they
    were seen."""

    def __init__(
        self,
        stream: Stream,
        loops: Loops,
        shares: RowState | SparseState,
        costs: RowCosts,
        tuning: SequentialDualTuning,
    ) -> None:
        self.loops = loops
        self.shares = shares
        self.start = np.empty_like(loops.w)
        self.n_active = stream.dataset.n_rows
        self.terms: float | None = None
        self._stream = stream
        self._costs = costs
        self._tuning = tuning

    def full_pass(
        self, measure: bool, epochs: bool = True, enough: Callable[[], bool] | None = None
    ) -> float:
        """Measure the primal at the weights it begins with, which it returns, and update. epochs: over the
        survivors are to follow; else none are spilled. enough: asked before each block, which is not trained if
        so."""
        loops, stream, survivors = self.loops, self._stream, self._stream.survivors
        self.start[...] = loops.w
        spill = epochs and self.n_active < self._tuning.spill_share * stream.dataset.n_rows
        primal, n_active, of_terms = 0.5 * squared_norm(self.start), 0, 0.0
        for block in stream.all():
            part = self.part(block)
            if self.terms is None:
                of_terms += terms(part, loops.bias, loops.w.shape)
            primal += loops.measure(part, self.start) if measure else loops.loss_at_zero(part)
            newer = np.isin(survivors.resident.rows, part.rows)  # a copy of these rows is at hand
            survivors.retain(~newer)
            if enough is None or not enough():
                self._train_with_survivors(part)
            survivors.add(block, part.slack, 0.0 if spill else None)
            n_active += int(np.count_nonzero(part.slack <= 0))
            stream.progress.survivors = n_active
        survivors.swap_generation()
        self.n_active = n_active
        if self.terms is None:
            self.terms = of_terms
        return primal

    def measure(self, w: NDArray[np.float64]) -> float:
        """The primal at the weights w, with which ``start`` is then the same."""
        self.start[...] = w
        losses, self.n_active = 0.0, 0
        for part in self.parts():
            losses += self.loops.measure(part, self.start)
            self.n_active += len(part.active)
        return 0.5 * squared_norm(self.start) + losses

    def parts(self) -> Iterator[BlockShares]:
        """All rows with their shares, read once more."""
        return map(self.part, self._stream.all())

    def epochs(self, primal: float, passes: int) -> int:
        """Epochs over the survivors, in memory and spilled, until their part of the gap is small; returns how many
        there are. primal: as last measured. passes: so many were made."""
        loops, survivors = self.loops, self._stream.survivors
        if passes > 1:
            loops.tighten()
        self._stream.progress.begin("survivors", len(survivors))
        enough = self._tuning.survivors_until * (primal - loops.dual)
        for _ in range(self._tuning.max_spill_epochs):
            resident = self.part(survivors.resident)
            loops.settle(resident, np.arange(resident.n_rows), enough)
            self._put_back(resident)
            late = self._stream.progress.out_of_time
            if survivors.spilled is None or late or self._spilled_epoch() <= enough:
                break
        return len(survivors)

    def _spilled_epoch(self) -> float:
        """Train each spilled block with the survivors in memory; returns the blocks' gap as met."""
        survivors = self._stream.survivors
        met = 0.0
        for block in self._stream.active():
            if self._stream.progress.out_of_time:
                break  # the next pass, if there is one, sees all rows
            part = self.part(block)
            met += self._train_with_survivors(part)
            survivors.add(block, part.slack, 0.0)
        survivors.swap_generation()
        return met

    def _train_with_survivors(self, part: BlockShares) -> float:
        """Train a block together with the survivors in memory; returns the block's gap as met."""
        resident = self.part(self._stream.survivors.resident)
        met = self.loops.train([part, resident], self._tuning.block_until, self._tuning.block_loops)
        self._put_back(resident)
        self.shares.set(part.rows, part.share)
        return met

    def _put_back(self, resident: BlockShares) -> None:
        self.shares.set(resident.rows, resident.share)
        self._stream.survivors.set_slack(resident.slack)

    def part(self, block: Block) -> BlockShares:
        """Its rows with their shares."""
        return BlockShares(block, self._costs.of(block), self.shares.get(block.rows))

    # -- what a SolverState holds of it -----------------------------------------------------------------

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The survivors in memory; views."""
        survivors = self._stream.survivors
        block = survivors.resident
        arrays: dict[str, NDArray[Any]] = {_ROWS: block.rows, _IDS: block.y, _SLACK: survivors.slack}
        if block.weight is not None:
            arrays[_WEIGHT] = block.weight
        if isinstance(block.X, CSR):
            return arrays | dict(zip(_CSR, block.X, strict=True))
        return arrays | {_DENSE: block.X}

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_active: int) -> None:
        """Go on from what these were."""
        self.n_active = n_active
        X = CSR(*(arrays[name] for name in _CSR)) if _DENSE not in arrays else arrays[_DENSE]
        block = Block(X, arrays[_IDS], arrays[_ROWS], arrays.get(_WEIGHT))
        survivors, slack = self._stream.survivors, arrays[_SLACK]
        survivors.add(block, np.zeros_like(slack), None)  # there was room for all, and there is
        survivors.set_slack(slack)
