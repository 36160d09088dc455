"""AllDuals: the dual variables of all rows, with the rows at hand or in a row state."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.objective.costs import RowCosts
from llsvm.objective.losses import Loss
from llsvm.objective.problems import Problems
from llsvm.solvers.llsvm.block_state import BlockState
from llsvm.solvers.state import RowValues, copy_rows
from llsvm.spill.row_state import RowState


class AllDuals:
    """Makes of a block a BlockState, and takes back what a solver has made of its dual variables.

    whole: all rows, where they are one block at hand; None elsewhere, and before they were seen. costs: of rows,
    but for the problems' own factors.
    """

    def __init__(self, problems: Problems, costs: RowCosts, loss: Loss, stored: RowState | None) -> None:
        """stored: α_i / C_i of every row, (n_rows, width); None where all rows are one block, which keeps α_i."""
        self.problems = problems
        self.stored = stored
        self.whole: BlockState | None = None
        self.costs = costs
        self._loss = loss
        self.enough = 0.0
        self._restored: RowValues | None = None  # until the block is there

    def of(self, block: Block) -> BlockState:
        """The block's rows with their dual variables; margins are unknown, all rows active."""
        if self.whole is not None:
            return self.whole
        part = BlockState(
            self.problems,
            block,
            self.cost_of(block),
            np.zeros((self.problems.width, block.n_rows)),
            self._loss,
            self.enough,
        )
        if self.stored is not None:
            part.set_shares(self.stored.get(block.rows).reshape(block.n_rows, self.problems.width))
            return part
        if self._restored is not None:
            copy_rows(self._restored, _DualValues(part))
            self._restored = None
        self.whole = part
        return part

    def cost_of(self, block: Block) -> NDArray[np.float64]:
        """(n,) C_i, but for the problems' own factors."""
        return self.costs.of(block)

    @property
    def by_class(self) -> NDArray[np.float64]:
        """See Sums."""
        cost, problems = self.costs.by_class, self.problems
        weights = problems.variants[0].class_weight if problems.of_rest else None
        return cost if weights is None else np.append(cost * weights, cost[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """In which α_i / C_i are kept."""
        return np.dtype(np.float64) if self.stored is None else self.stored.dtype

    def set_enough(self, enough: float) -> None:
        """See BlockState: from now on."""
        self.enough = enough
        if self.whole is not None:
            self.whole.set_enough(enough)

    def shares(self, start: int, stop: int) -> NDArray[np.floating]:
        """(stop − start, width) α_i / C_i of the rows from ``start`` to ``stop``."""
        if self.stored is None:
            assert self.whole is not None
            return self.whole.shares(slice(start, stop))  # a block of all rows has them in order
        return self.stored.get(np.arange(start, stop)).reshape(stop - start, self.problems.width)

    def close(self) -> None:
        """Let go of them, and of their file."""
        self.whole = None
        if self.stored is not None:
            self.stored.close()

    def store(self, part: BlockState) -> None:
        if self.stored is not None:
            self.stored.set(part.rows, part.shares())

    @property
    def rows(self) -> dict[str, RowValues]:
        """By name, for a SolverState: "share", α_i / C_i as stored; or "alpha", where they are at hand."""
        if self.stored is not None:
            return {"share": self.stored}
        assert self.whole is not None
        return {"alpha": _DualValues(self.whole)}

    @property
    def name(self) -> str:
        """Of these values in ``rows``."""
        return "alpha" if self.stored is None else "share"

    def restore(self, values: RowValues) -> None:
        """Go on from what ``rows`` had, which is copied piece by piece."""
        if self.stored is None:
            self._restored = values
        else:
            copy_rows(values, self.stored)


class AllShares:
    """α_i / C_i of all rows, as RowValues, of which rows that follow each other can be had."""

    def __init__(self, duals: AllDuals, n_rows: int) -> None:
        self.n_rows, self.width = n_rows, duals.problems.width
        self.dtype = duals.dtype
        self._duals = duals

    def get(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        shares = self._duals.shares(int(rows[0]), int(rows[-1]) + 1)
        return shares[:, 0] if self.width == 1 else shares


class _DualValues:
    """The dual variables of all rows at hand, as RowValues."""

    dtype: np.dtype[Any] = np.dtype(np.float64)

    def __init__(self, part: BlockState) -> None:
        self._part = part
        self.width, self.n_rows = part.alpha.shape

    def get(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        values = self._part.alpha[:, self._positions(rows)]
        return values[0] if self.width == 1 else values.T

    def set(self, rows: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        self._part.alpha[:, self._positions(rows)] = values.reshape(len(rows), self.width).T

    def _positions(self, rows: NDArray[np.int64]) -> NDArray[np.intp]:
        return np.searchsorted(self._part.rows, rows)  # a block of all rows has them in order
