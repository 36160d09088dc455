"""Survey: what NESVM learns of the rows before it begins, in one pass or some: the metric, the paper's constant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block
from llsvm.objective.costs import RowCosts
from llsvm.objective.losses import PLQLoss
from llsvm.process.work import count_matrix, count_products
from llsvm.solvers.nesvm import kernels as kernel
from llsvm.solvers.nesvm.gradient_pass import GradientPass
from llsvm.solvers.nesvm.metric import GramMetric, Metric, ScalarMetric
from llsvm.solvers.saved_numbers import SavedNumbers
from llsvm.solvers.state import SolverState, Value

Array = NDArray[np.float64]

_STEP_ROWS = 512
_SAFETY = 1.05  # of the largest eigenvalue as power iteration finds it, from below


@dataclass(frozen=True, slots=True)
class Survey:
    """What was learnt.

    metric: of all problems.
    steepest: max h_i ‖x_i‖², h_i the curvature of row i's loss (for μ = 1).
    passes: that were made.
    """

    metric: Metric
    steepest: float
    passes: int

    def numbers(self) -> dict[str, Value]:
        """What there is to know beside the metric's arrays."""
        return {"largest": self.metric.largest, "steepest": self.steepest, "passes": self.passes}

    @classmethod
    def restored(cls, state: SolverState, saved: SavedNumbers) -> Survey:
        """As it was when the state was saved; saved: its ``numbers``."""
        metric = GramMetric.restored(state.arrays) or ScalarMetric(saved.real("largest"))
        return cls(metric, saved.real("steepest"), saved.whole("passes"))


def survey(
    gradient: GradientPass, loss: PLQLoss, width: int, gram: bool, power_passes: int, seed: int
) -> Survey:
    """One pass for G = Σ h_i x_i x_iᵀ, h the curvature of the loss (smoothed with μ = 1), or for its trace, which
    bounds its eigenvalues.

    gradient: over the rows.
    width: of weights.
    gram: G itself is wanted, (width, width).
    power_passes: where it is not, λ_max by so many passes of power iteration; 0 for none.
    seed: of what that begins with.
    """
    gradient = replace(gradient, costs=RowCosts(gradient.costs.largest))  # of any problem
    G = np.zeros((width, width)) if gram else None
    trace = steepest = 0.0
    for block in gradient.stream.all():
        cost = gradient.costs.of(block)
        norms = _norms(block, gradient.bias)
        curvature = loss.smoothness * cost if np.isfinite(loss.smoothness) else cost / norms[:, 1]
        trace += float(curvature @ norms[:, 0])
        steepest = max(steepest, float((curvature * norms[:, 0]).max(initial=0.0)))
        if G is not None:
            _add_gram(block, curvature, gradient.bias, G)
    if G is not None:
        return Survey(GramMetric.of(G), steepest, 1)
    if power_passes:
        largest = _SAFETY * _largest(gradient, width, power_passes, seed)
        return Survey(ScalarMetric(largest), steepest, 2 + power_passes)
    return Survey(ScalarMetric(trace), steepest, 1)


def _largest(gradient: GradientPass, width: int, passes: int, seed: int) -> float:
    """λ_max of Σ 2 c x xᵀ by power iteration; each step is a pass of least squares: 2 c (1 − q·x) x at q and 0."""
    rng = np.random.default_rng(seed)
    ones = np.ones((1, gradient.signs.shape[1]))
    squares = replace(gradient, signs=ones, split=False, loss=kernel.LEAST_SQUARES)
    zero, mu = np.zeros((1, width)), np.ones(1)
    start = squares.run(zero, zero, mu)[1][0, 0]
    q, value = rng.standard_normal(width), 0.0
    for _ in range(passes):
        q /= np.linalg.norm(q)
        q = start - squares.run(q[None], zero, mu)[1][0, 0]
        value = float(np.linalg.norm(q))
    return value


def _norms(block: Block, bias: float) -> Array:
    """(n, 2): ‖x_i‖² and ‖x_i‖∞ with the constant feature."""
    out = np.empty((block.n_rows, 2))
    X = block.X
    count_products(block.n_rows, block.nnz, block.is_dense)
    if isinstance(X, CSR):
        kernel.norms_csr(X.indptr, X.indices, X.data, bias, out)
        return out
    np.einsum("ij,ij->i", X, X, out=out[:, 0], dtype=np.float64, casting="same_kind")
    out[:, 0] += bias * bias
    out[:, 1] = np.maximum(np.maximum(X.max(axis=1), -X.min(axis=1)), bias)
    out[out[:, 1] <= 0, 1] = 1.0
    return out


def _add_gram(block: Block, weight: NDArray[Any], bias: float, G: Array) -> None:
    """Add Σ weight_i x_i x_iᵀ to the lower triangle of G (d + 1, d + 1)."""
    X, n = block.X, block.n_rows
    columns = len(G) if block.is_dense else block.nnz // max(n, 1) + 1
    count_matrix(n * columns * (columns + 1) // 2, block.is_dense)
    if isinstance(X, CSR):
        kernel.gram_csr(X.indptr, X.indices, X.data, weight, bias, G)
        return
    d = X.shape[1]
    for start in range(0, block.n_rows, _STEP_ROWS):
        rows = np.full((min(_STEP_ROWS, block.n_rows - start), len(G)), bias)
        rows[:, :d] = X[start : start + len(rows)]
        rows[:, d:-1] = 0.0
        rows *= np.sqrt(weight[start : start + len(rows), None])
        G += rows.T @ rows
