"""GradientPass: the products X w and Xᵀ α over all rows, for all problems at once, on several threads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block, parts_of
from llsvm.objective.costs import RowCosts
from llsvm.process.threads import Threads
from llsvm.process.work import count_products
from llsvm.solvers.nesvm import kernels as kernel
from llsvm.stream.stream import Stream

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GradientPass:
    """Pass over the rows that sums the gradients of all problems.

    stream: the rows.
    threads: work on the rows.
    costs: the c_i of the rows.
    bias: the constant feature.
    split: rows with y = −1 are summed apart.
    loss: its number for the kernels.
    signs: (k, classes) float64, y of each class in each problem, times a factor of c_i.
    """

    stream: Stream
    threads: Threads
    costs: RowCosts
    bias: float
    split: bool
    loss: int
    signs: Array

    def run(
        self, W: Array, V: Array, mu: Array, todo: NDArray[np.int64] | None = None
    ) -> tuple[Array, Array]:
        """A pass: the sums (k, N_SUMS), see kernels.py, and Σ α_i y_i x_i at W, (k, 1 or 2, width). Threads take
        ranges of rows, and their parts are summed in a fixed order.

        W, V: (k, width) points of the gradient and of the value alone.
        mu: (k,) of the smoothed hinge.
        todo: the problems to work on, None for all.
        """
        k, width = W.shape
        which = np.arange(k) if todo is None else todo
        grads = np.zeros((self.threads.number, k, 2 if self.split else 1, width))
        sums = np.zeros((self.threads.number, k, kernel.N_SUMS))
        vectors = 3 * len(which)  # margins at W and at V, and the gradient

        def add(block: Block, cost: Array, t: int, start: int, stop: int) -> None:
            """Add the contribution of these rows of the block to the sums of thread ``t``."""
            rows = block.slice(start, stop)
            point = (W, V, self.bias, mu, self.loss, self.split, grads[t], sums[t])
            kernel.gradient(*parts_of(rows.X), rows.y, cost[start:stop], self.signs, which, *point)

        for block in self.stream.all():
            count_products(vectors * block.n_rows, vectors * block.nnz, block.is_dense)
            self.threads.over_rows(block.n_rows, partial(add, block, self.costs.of(block)))
        for t in range(1, self.threads.number):
            grads[0] += grads[t]
        return self.stream.sum(sums.sum(axis=0)), self.stream.sum(grads[0])
