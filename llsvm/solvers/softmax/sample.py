"""RowSample: some rows that stand for all in the Hessian, taken as a pass goes by, and kept at hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block
from llsvm.dataset import DatasetInfo
from llsvm.row_buffer import RowBuffer

Array = NDArray[np.float64]
ROOM = 1.25  # rows that bend may be longer than the mean


def sample_bytes(n_rows: int, dataset: DatasetInfo) -> int:
    """Room for so many rows, of the mean length."""
    values = dataset.nnz * (dataset.dtype.itemsize + 4 * (not dataset.is_dense))
    return int(ROOM * n_rows * (values / max(dataset.n_rows, 1) + 40)) + 1


class RowSample:
    """Each block gives its share of the rows: those that are met at even steps of what its rows bend, each for as
    much as all between (of importance sampling the variant with the least variance; systematic sampling)."""

    def __init__(self, n_rows: int, dataset: DatasetInfo) -> None:
        """n_rows: wanted, of all."""
        self._share = min(1.0, n_rows / max(dataset.n_rows, 1))
        width = dataset.n_columns if dataset.is_dense else None
        self._rows = RowBuffer(sample_bytes(n_rows, dataset), dataset.dtype, width)
        self._costs: list[Array] = []

    def clear(self) -> None:
        self._rows.clear()
        self._costs = []

    def add(self, block: Block, cost: Array, bend: Array) -> None:
        """Take rows of a block. cost: (n,) C_i. bend: (n,) C_i (1 − Σ_m p_im²), the trace of a row's part."""
        bend = np.maximum(bend, 0.0)
        sums = np.cumsum(bend)
        most = math.ceil(self._share * block.n_rows)
        while most and sums[-1] > 0.0:
            step = sums[-1] / most
            met = np.searchsorted(sums, step * (np.arange(most) + 0.5))
            some, times = np.unique(np.minimum(met, len(bend) - 1), return_counts=True)
            some, times = some[bend[some] > 0.0], times[bend[some] > 0.0]
            if self._rows.fits(len(some), _values(block, some)):
                self._rows.append_rows(block, some)
                self._costs.append(cost[some] * (step * times / bend[some]))
                return
            most //= 2

    @property
    def block(self) -> Block:
        """Valid until the next pass."""
        return self._rows.block()

    @property
    def cost(self) -> Array:
        """(n,) C_i, and for how much more the rows stand."""
        return np.concatenate([np.zeros(0), *self._costs])

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What it holds, for a SolverState."""
        X = self.block.X
        if not isinstance(X, CSR):
            return {"sample cost": self.cost, "sample data": X}
        of_rows: dict[str, NDArray[Any]] = {
            "sample indptr": X.indptr,
            "sample indices": X.indices,
            "sample data": X.data,
        }
        return {"sample cost": self.cost, **of_rows}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what ``arrays`` were."""
        cost, X = np.array(arrays["sample cost"]), arrays["sample data"]
        none = np.zeros(len(cost), np.int64)
        sparse = self._rows.width is None
        rows = CSR(arrays["sample indptr"], arrays["sample indices"], X) if sparse else X
        self.clear()
        self._rows.append(Block(rows, none.astype(np.int32), none))
        self._costs = [cost]


def _values(block: Block, some: NDArray[np.int64]) -> int:
    if isinstance(block.X, CSR):
        return int((block.X.indptr[some + 1] - block.X.indptr[some]).sum())
    return len(some) * block.X.shape[1]
