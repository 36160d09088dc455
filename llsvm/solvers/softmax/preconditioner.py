"""SampledHessian: the Hessian of a sample of the rows, at hand, as a preconditioner of that of all rows.

It is nearly solved by conjugate gradients of its own, whose preconditioner is one Hessian for all classes, of the
mean of their curvatures (classes' gradients sum up to 0, and so steps do), or, where memory has no room for that,
the Hessian's diagonal. A product with all rows, which is a pass where they are not in memory, then serves as dozens
would.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.optim.conjugate_gradients import conjugate_gradients
from llsvm.solvers.optim.lapack import Cholesky, factor_with_ridge
from llsvm.solvers.optim.rounding import ROUNDING
from llsvm.solvers.softmax.passes import Passes
from llsvm.solvers.softmax.sample import RowSample
from llsvm.solvers.softmax.tuning import SoftmaxTuning

Array = NDArray[np.float64]


class SampledHessian:
    """At weights W, (d + 1, k)."""

    def __init__(
        self,
        passes: Passes,
        sample: RowSample,
        W: Array,
        identity: Array,
        diagonal: Array,
        shared: bool,
        tuning: SoftmaxTuning,
    ) -> None:
        """identity: (d + 1, 1), the penalty's Hessian. diagonal: of the whole one, as W. shared: is there room for
        the one that classes share?"""
        self._passes, self._W, self._identity, self._diagonal = passes, W, identity, diagonal
        self._tuning = tuning
        self._rows = passes.rows(sample.block, sample.cost, W)
        self._shared: Cholesky | None = None
        if shared:
            H = passes.stream.sum(self._rows.shared_hessian(W))
            H.flat[:: len(H) + 1] += np.maximum(identity[:, 0], ROUNDING * H.diagonal())
            self._shared = factor_with_ridge(H)

    def _roughly(self, right: Array) -> Array:
        if self._shared is None:
            return right / self._diagonal
        return np.ascontiguousarray(self._shared.solve(right))

    def solve(self, right: Array) -> Array:
        """Nearly its inverse times ``right``, as W."""
        tuning, threads, n_rows = self._tuning, self._passes.threads, self._rows.block.n_rows

        def times(d: Array) -> Array:
            parts = threads.over_rows(n_rows, self._rows.product(self._W, d))
            return self._passes.stream.sum(sum(parts, np.zeros_like(d))) + self._identity * d

        most, progress = tuning.max_products, self._passes.stream.progress
        x = conjugate_gradients(times, right, self._roughly, tuning.accuracy, most, progress)
        return x if x.any() else self._roughly(right)
