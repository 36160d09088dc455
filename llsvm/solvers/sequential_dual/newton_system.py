"""Newton's step of the method of multipliers: (I + σ Σ_i P_i ⊗ x_i x_iᵀ) s = g over (d + 1) · k weights.

P_i is the derivative of row i's prox on its face (duals.py), of rank r_i. Let r = Σ r_i. Three ways, the first that
has room and is cheap: Cholesky's factors of an r × r system (Sherman, Morrison & Woodbury) where few rows are on a
face; those of the whole system; else conjugate gradients, which cost
more than loops, so that Newton's method never begins with them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.optim.augmented_lagrangian import dot
from llsvm.solvers.optim.conjugate_gradients import Way, conjugate_gradients
from llsvm.solvers.optim.lapack import factor_with_ridge, mirror
from llsvm.solvers.sequential_dual.duals import Mask
from llsvm.solvers.sequential_dual.problem import JointProblem
from llsvm.solvers.sequential_dual.shares import BlockShares

Array = NDArray[np.float64]
Positions = NDArray[np.int64]
MAX_PRODUCTS = 200  # of conjugate gradients in a step
ACCURACY = 0.03  # to which they solve, and the second way at least
SMALL = 400  # weights: so few are solved for as they are, which loses least in rounding
RIDGE = 1e-15  # of the largest curvature: below that, rounding would make the system indefinite


def way_of(whole: int, rank: int, copied: float, room: int) -> Way:
    """To solve for so many weights with faces of so many dimensions in all. copied: float64 numbers of their rows.
    room: for matrices, in float64."""
    if whole <= SMALL or (whole * whole <= room and whole <= 2 * rank):
        return Way.COLUMNS
    if 2 * (rank * rank + copied) <= room and 2 * rank <= whole:
        return Way.ROWS
    return Way.COLUMNS if whole * whole <= room else Way.PRODUCTS


class WholeSystem:
    """H = Σ_i P_i ⊗ x_i x_iᵀ as a matrix, of which the blocks of a pair of classes b ≤ a are set."""

    def __init__(self, problem: JointProblem) -> None:
        d, k = problem.shape
        self._problem = problem
        self._H = np.zeros((k, d, k, d))

    def add(self, part: BlockShares, face: Mask) -> None:
        """Add these rows. face: (n, k). Raises OutOfTime."""
        problem, operator = self._problem, self._problem.products(part).operator
        on_face = np.flatnonzero(problem.dual.rank(face))
        face, y = face[on_face], part.block.y[on_face]
        d, k = problem.shape

        def add(a: int) -> None:
            for b in range(a + 1):
                weight = problem.dual.pair(face, y, a, b)
                some, block = np.flatnonzero(weight), np.zeros((d, d))
                operator.outer(on_face[some], weight[some], block)
                mirror(block)
                self._H[a, :, b, :] += block

        problem.threads.map(add, range(k))

    def solve(self, g: Array, sigma: float) -> Array:
        """(I + σ H)⁻¹ g; H is overwritten."""
        d, k = g.shape
        flat = self._H.reshape(k * d, k * d)
        flat *= sigma
        _add_identity(flat)
        factor = factor_with_ridge(flat)
        if factor is None:
            return g
        s = factor.solve(g.T.ravel())
        return np.ascontiguousarray(s.reshape(k, d).T)


class JointNewtonSystem:
    """Newton's step over rows in memory. matrix_numbers: so many float64 that the matrices of a step may take."""

    def __init__(self, problem: JointProblem, part: BlockShares, matrix_numbers: int) -> None:
        self._problem, self._part, self._room = problem, part, matrix_numbers
        self._products = problem.products(part)

    def solve(self, face: Mask, g: Array, sigma: float) -> Array:
        """s, (d + 1, k); face: (n, k). Raises OutOfTime."""
        rank = self._problem.dual.rank(face)
        r, whole, rows = int(rank.sum()), g.size, np.flatnonzero(rank)
        if r == 0:
            return g.copy()
        copied = len(rows) * self._products.row_numbers  # of the rows on a face
        way = way_of(whole, r, copied, self._room)
        if way is Way.PRODUCTS:
            return self._by_products(rows, face, g, sigma)
        if way is Way.ROWS:
            s = self._by_rank(rows, face, g, sigma)
            left = g - self.times(rows, face, s, sigma)
            if whole * whole > self._room or dot(left, left) <= ACCURACY**2 * dot(g, g):
                return s  # else rows are nearly parallel: of their products rounding leaves too little
        system = WholeSystem(self._problem)
        system.add(self._part, face)
        return system.solve(g, sigma)

    def _by_rank(self, rows: Positions, face: Mask, g: Array, sigma: float) -> Array:
        """As many unknowns as the faces have dimensions: with M = (q ⊗ x), s = g − M (I/σ + MᵀM)⁻¹ Mᵀ g, and once
        more for what rounding has left."""
        row, q = self._problem.dual.factors(face[rows], self._part.block.y[rows])
        gram = np.empty((len(rows), len(rows)))
        self._products.operator.inner(rows, gram)
        mirror(gram)
        system = gram[np.ix_(row, row)]
        del gram
        self._problem.progress.check()
        system *= q @ q.T
        system *= sigma
        _add_identity(system)
        factor = factor_with_ridge(system, upper=True)
        if factor is None:
            return g
        X = self._products.matrix(rows)

        def solve(right: Array) -> Array:
            along = self._products.scores(X, right)[row]
            z = factor.solve(np.einsum("ij,ij->i", along, q))
            coefficients = np.zeros((len(rows), g.shape[1]))
            np.add.at(coefficients, row, (sigma * z)[:, None] * q)
            out = np.zeros(g.shape)
            self._products.add(X, coefficients, out)
            return right - out

        s = solve(g)
        s += solve(g - self.times(rows, face, s, sigma))
        return s

    def _by_products(self, rows: Positions, face: Mask, g: Array, sigma: float) -> Array:
        """Conjugate gradients, with the diagonal as the preconditioner."""
        problem, diagonal = self._problem, np.zeros(g.shape)
        y, k = self._part.block.y[rows], g.shape[1]
        curvature = np.column_stack([problem.dual.pair(face[rows], y, a, a) for a in range(k)])
        self._products.add_squares(self._products.matrix(rows), curvature, diagonal)
        diagonal *= sigma
        diagonal += 1.0

        def times(p: Array) -> Array:
            problem.progress.check()
            return self.times(rows, face, p, sigma)

        return conjugate_gradients(times, g, lambda r: r / diagonal, ACCURACY, MAX_PRODUCTS, problem.progress)

    def times(self, rows: Positions, face: Mask, s: Array, sigma: float) -> Array:
        """(I + σ Σ P ⊗ x xᵀ) s. rows: that are on a face."""
        step, products, dual = self._products.piece_rows, self._products, self._problem.dual

        def work(t: int, start: int, stop: int) -> Array:
            out = np.zeros_like(s)
            for at in range(start, stop, step):
                piece = rows[at : min(at + step, stop)]
                X = products.matrix(piece)
                scores = products.scores(X, s)
                products.add(X, dual.derivative(face[piece], scores, self._part.block.y[piece]), out)
            return out

        total = sum(self._problem.threads.over_rows(len(rows), work))
        return s + sigma * total


def _add_identity(H: Array) -> None:
    """I, and what rounding may have made of zero."""
    diagonal = np.einsum("ii->i", H)  # a view
    diagonal *= 1.0 + RIDGE * len(H)
    diagonal += 1.0
