"""Metric: the norm in which the searched step measures lengths. Nesterov's method allows any.

With h_i the largest curvature of row i's loss for μ = 1, c_i/‖x_i‖∞ of the hinge and 2 c_i of squares, the Hessian
of all losses is at most τ G, G = Σ h_i x_i x_iᵀ, for a τ that is searched for; with that of the regulariser the
metric is ρ I + τ G. Where there is no room for G, d² numbers, it is (ρ + τ) I, the paper's.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from llsvm.block import parts_of
from llsvm.objective.costs import RowCosts
from llsvm.solvers.nesvm import kernels as kernel
from llsvm.solvers.nesvm.gradient_pass import GradientPass
from llsvm.solvers.optim.lapack import eigenvectors
from llsvm.solvers.optim.line_search import ROUNDING
from llsvm.solvers.optim.row_operator import PIECE_BYTES, RowOperator
from llsvm.stream.progress import Progress

Vector = NDArray[np.float64]

# Columns, the constant feature included, up to which the Gram matrix is made: a larger bound saves passes over wide
# data, for a decomposition whose time grows with the cube of the columns.
MAX_GRAM_COLUMNS = 2000
# Matrices as large as G that making and decomposing it takes: with fewer a run would take more memory than its
# limit; with more it would do without G where there is room for it.
GRAM_MATRICES = 4


class Metric:
    """values: (width,) eigenvalues of G, or (1,) that of the identity in its place.
    vectors: (width, width) eigenvectors, in columns; empty for the identity.
    hinge: the loss is; a square has the curvature h_i wherever it has one, so that τ is 1 to begin with."""

    def __init__(self, values: Vector, vectors: Vector, hinge: bool) -> None:
        self._hinge = hinge
        self.values, self.vectors = values, np.asfortranarray(vectors)  # the layout decides the last bits
        self._is_gram = vectors.size > 0

    @classmethod
    def identity(cls) -> Metric:
        return cls(np.ones(1), np.empty((0, 0)), hinge=True)

    @classmethod
    def gram(cls, gradient: GradientPass, width: int, hinge: bool) -> Metric:
        """In a pass over the rows. width: of weights."""
        G = np.zeros((width, width))
        for rows, curvature in _curvatures(gradient, width, hinge):
            rows.outer(rows.all, curvature, G)
        values, vectors = eigenvectors(gradient.stream.sum(G))
        return cls(np.maximum(values, 0.0), vectors, hinge)

    def first_curvature(self, g: Vector, F: float) -> float:
        """τ for the first step from w = 0 on, where F is: a smaller one promises more than there is to gain, since
        F is nowhere below 0. g: (width,) the gradient."""
        if not self._hinge:
            return 1.0
        along = self._along(g)
        seen = self.values > ROUNDING * self.values.max()
        squares = along[seen] ** 2 / self.values[seen] if self._is_gram else along**2
        return 0.5 * float(squares.sum()) / F if F > 0.0 else 1.0

    def solve(self, ridge: float, curvature: float, g: Vector) -> Vector:
        """(ρ I + τ G)⁻¹ g."""
        along = self._along(g) / (ridge + curvature * self.values)
        return self.vectors @ along if self._is_gram else along

    def square(self, ridge: float, curvature: float, step: Vector) -> float:
        """stepᵀ (ρ I + τ G) step."""
        return float((ridge + curvature * self.values) * self._along(step) @ self._along(step))

    def _along(self, g: Vector) -> Vector:
        return self.vectors.T @ g if self._is_gram else g


def paper_constant(gradient: GradientPass, width: int, hinge: bool) -> float:
    """Return max h_i ‖x_i‖² of the hinge (eqs. 48 and 52, of one row), or Σ h_i ‖x_i‖² of squares, which no
    eigenvalue of G is above. A pass."""
    constant, stream = 0.0, gradient.stream
    for rows, curvature in _curvatures(gradient, width, hinge):
        bounds = curvature * rows.squares(rows.all)
        constant = max(constant, float(bounds.max(initial=0.0))) if hinge else constant + float(bounds.sum())
    return stream.largest(constant) if hinge else stream.sum(constant)


def _curvatures(gradient: GradientPass, width: int, hinge: bool) -> Iterator[tuple[RowOperator, Vector]]:
    """Yield rows and their h_i, with the largest cost that they have in any problem."""
    costs = RowCosts(gradient.costs.largest)
    for block in gradient.stream.all():
        rows = RowOperator(block.X, width - 1, gradient.bias, PIECE_BYTES, Progress())
        curvature = costs.of(block)
        if hinge:
            sizes = np.empty(block.n_rows)
            kernel.sizes(*parts_of(block.X), gradient.bias, sizes)
            yield rows, curvature / sizes
        else:
            yield rows, 2.0 * curvature
