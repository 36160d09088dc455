"""Newton's step of the augmented Lagrangian method: (I + σ Σ_i P_i ⊗ x_i x_iᵀ) s = −g over (d + 1) · k weights.

P_i is the derivative of row i's prox on its face (duals.py): a row moves what it adds to the weights between pairs
of classes, P_i = Σ h (e_a − e_b)(e_a − e_b)ᵀ. So the system is one of rows (e_a − e_b) ⊗ x_i with a curvature σ h
each, which optim/newton_system.py solves.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Matrix
from llsvm.objective.problems import Positions
from llsvm.solvers.optim.lapack import mirror
from llsvm.solvers.sequential_dual.duals import Mask
from llsvm.solvers.sequential_dual.problem import JointProblem
from llsvm.solvers.sequential_dual.shares import BlockShares

Array = NDArray[np.float64]


class PairRows:
    """The rows (e_a − e_b) ⊗ x_i of a Newton system: ``SystemRows`` of optim/newton_system.py.

    all: (r,) the positions of all of them. weight: (r,) float64 h of each. Weights are (d + 1, k)."""

    def __init__(self, problem: JointProblem, part: BlockShares, face: Mask) -> None:
        """part: the rows x_i. face: (n, k) which of their dual variables are free, see ``JointDual.face``."""
        self.progress = problem.progress
        self._threads, self._products, self._n_rows = problem.threads, problem.products(part), part.n_rows
        self._row, self._a, self._b, self.weight = problem.dual.pairs(face, part.block.y)
        self.all = np.arange(len(self._row))

    def dots(self, rows: Positions, w: Array) -> Array:
        """Return x_i·(w_a − w_b), (r,)."""
        out = np.empty(len(rows))
        for where, X, place in self._pieces(rows):
            scores, some = self._products.scores(X, w), rows[where]
            out[where] = scores[place, self._a[some]] - scores[place, self._b[some]]
        return out

    def add(self, rows: Positions, factor: Array, out: Array) -> None:
        """Add Σ factor x_i to column a of out, and take it from column b."""
        for where, X, place in self._pieces(rows):
            to_a, to_b = self._coefficients(rows[where], place, factor[where])
            self._products.add(X, to_a - to_b, out)

    def add_squares(self, rows: Positions, factor: Array, out: Array) -> None:
        """Add Σ factor x_i², of each feature, to columns a and b of out."""
        for where, X, place in self._pieces(rows):
            to_a, to_b = self._coefficients(rows[where], place, factor[where])
            self._products.add_squares(X, to_a + to_b, out)

    def outer(self, rows: Positions, factor: Array, out: Array) -> None:
        """Add the matrix of these rows to out, over weights (d + 1, k) raveled. Raises OutOfTime."""
        row, a, b = self._row[rows], self._a[rows], self._b[rows]
        d, k = self._products.width, self._products.n_classes
        blocks, operator = out.reshape(d, k, d, k), self._products.operator

        def add(m: int) -> None:
            for other in range(m + 1):
                if m == other:
                    chosen, sign = (a == m) | (b == m), 1.0
                else:
                    chosen, sign = ((a == m) & (b == other)) | ((a == other) & (b == m)), -1.0
                weight = np.bincount(row[chosen], sign * factor[chosen], self._n_rows).astype(np.float64)
                some, block = np.flatnonzero(weight), np.zeros((d, d))
                operator.outer(some, weight[some], block)
                mirror(block)
                blocks[:, m, :, other] += block
                if m != other:
                    blocks[:, other, :, m] += block

        self._threads.map(add, range(k))

    def inner(self, rows: Positions, out: Array) -> None:
        """Set the lower triangle of out (r, r) to the products of these rows with each other."""
        a, b = self._a[rows], self._b[rows]
        self._products.operator.inner(self._row[rows], out)
        for t in range(len(rows)):
            same = (a == a[t]).astype(np.int8) + (b == b[t])
            out[t] *= same - (a == b[t]).astype(np.int8) - (b == a[t])

    def _pieces(self, rows: Positions) -> Iterator[tuple[slice, Matrix, Positions]]:
        """Yield some at a time: where they are, their x_i, and the place of each one's among these."""
        for start in range(0, len(rows), self._products.piece_rows):
            where = slice(start, min(start + self._products.piece_rows, len(rows)))
            on_face, place = np.unique(self._row[rows[where]], return_inverse=True)
            yield where, self._products.matrix(on_face), place

    def _coefficients(self, rows: Positions, place: Positions, factor: Array) -> tuple[Array, Array]:
        """Return the sums of ``factor`` by the place of x_i and the class, a or b: (p, k) each."""
        shape = int(place.max()) + 1, self._products.n_classes

        def sums(classes: Positions) -> Array:
            flat = np.bincount(place * shape[1] + classes[rows], factor, shape[0] * shape[1])
            return flat.astype(np.float64, copy=False).reshape(shape)

        return sums(self._a), sums(self._b)
