"""The rows of a binary problem of a kernel machine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.costs import RowCosts
from llsvm.solvers.kernel_machine.matrix import KernelMatrix
from llsvm.stream.stream import Stream

Vector = NDArray[np.float64]


class ProblemRows(NamedTuple):
    """The rows that take part in a problem.

    rows: (n,) their numbers.
    sign, cost: (n,) y and c > 0.
    sizes: (2, n) what tells how exactly the kernel is known, see ``KernelFunction.sizes``.
    """

    rows: NDArray[np.intp]
    sign: Vector
    cost: Vector
    sizes: Vector

    @classmethod
    def of(cls, signs: Vector, rows: AllRows) -> ProblemRows:
        """Of all rows those that take part. signs: (n_classes,) y of each class, 0 where it takes no part."""
        sign = signs[rows.ids]
        part = np.flatnonzero((sign != 0) & (rows.cost > 0))
        return cls(part, sign[part], rows.cost[part], rows.sizes[:, part])


class AllRows(NamedTuple):
    """ids, cost: (n_rows,) class ids and c. sizes: (2, n_rows) ``KernelMatrix.sizes``."""

    ids: NDArray[np.int32]
    cost: Vector
    sizes: Vector

    @classmethod
    def read(cls, stream: Stream, matrix: KernelMatrix, costs: RowCosts) -> AllRows:
        """In a pass over the data."""
        n_rows = stream.dataset.n_rows
        rows = cls(np.empty(n_rows, np.int32), np.empty(n_rows), np.empty((2, n_rows)))
        for block in stream.all():
            rows.ids[block.rows] = block.y
            rows.cost[block.rows] = costs.of(block)
            rows.sizes[:, block.rows] = matrix.sizes(block)
        return rows
