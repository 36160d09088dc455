"""SampledHessian: the Hessian of a sample of the rows, at hand, as a preconditioner of that of all rows.

It is nearly solved by conjugate gradients of its own, whose preconditioner is one Hessian for all classes, of the
mean of their curvatures (classes' gradients sum up to 0, and so steps do), or, where memory has no room for that,
the Hessian's diagonal. A product with all rows, which is a pass where they are not in memory, then serves as dozens
would.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.lapack import Cholesky, factor_with_ridge
from llsvm.solvers.softmax.passes import Passes
from llsvm.solvers.softmax.sample import RowSample
from llsvm.solvers.softmax.tuning import SoftmaxTuning

Array = NDArray[np.float64]
LEAST = 1e-10  # of a free weight, on a diagonal


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
            H = self._rows.shared_hessian(W)
            H.flat[:: len(H) + 1] += np.maximum(identity[:, 0], LEAST * H.diagonal())
            self._shared = factor_with_ridge(H)

    def _roughly(self, right: Array) -> Array:
        if self._shared is None:
            return right / self._diagonal
        return np.ascontiguousarray(self._shared.solve(right))

    def solve(self, right: Array) -> Array:
        """Nearly its inverse times ``right``, as W."""
        x, r = np.zeros_like(right), right.copy()
        d = z = self._roughly(r)
        first = rz = _dot(r, z)
        for _ in range(self._tuning.max_sampled_products):
            if rz <= self._tuning.sampled_accuracy**2 * first or self._passes.stream.progress.out_of_time:
                break
            Hd = self._identity * d
            for part in self._passes.threads.over_rows(
                self._rows.block.n_rows, self._rows.product(self._W, d)
            ):
                Hd += part
            length = rz / _dot(d, Hd)
            x += length * d
            r -= length * Hd
            z = self._roughly(r)
            before, rz = rz, _dot(r, z)
            d = z + rz / before * d
        return x if x.any() else z


def _dot(a: Array, b: Array) -> float:
    return float(np.einsum("ij,ij", a, b))
