"""Newton's step of the method of multipliers: (I + σ Σ_i P_i ⊗ x_i x_iᵀ) s = g over (d + 1) · k weights.

P_i is the derivative of row i's prox on its face (duals.py), of rank r_i. Let r = Σ r_i. Three ways, the first that
has room and is cheap: Cholesky's factors of an r × r system (Sherman, Morrison & Woodbury) where few rows are on a
face; those of the whole system; conjugate gradients, with the blocks of one class each as the preconditioner.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from llsvm.process.threads import Threads
from llsvm.solvers.optim.conjugate_gradients import Way, conjugate_gradients
from llsvm.solvers.optim.lapack import factor_with_ridge, mirror
from llsvm.solvers.row_products import RowProducts
from llsvm.solvers.sequential_dual.duals import JointDual, Mask

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

    def __init__(self, dual: JointDual, shape: tuple[int, ...], threads: Threads) -> None:
        """shape: (d + 1, k)."""
        d, k = shape
        self._dual, self._threads = dual, threads
        self._H = np.zeros((k, d, k, d))

    def add(self, products: RowProducts, rows: Positions, face: Mask, y: NDArray[np.int32]) -> None:
        """Add these rows. face: (n, k) of all rows of the products; y: (n,). Raises OutOfTime."""
        k, d = self._H.shape[:2]
        face, y = face[rows], y[rows]

        def add(a: int) -> None:
            for b in range(a + 1):
                block = np.zeros((d, d))
                add_pair(products, rows, self._dual.pair(face, y, a, b), block)
                mirror(block)
                self._H[a, :, b, :] += block

        self._threads.map(add, range(k))

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


def add_pair(products: RowProducts, rows: Positions, weight: Array, block: Array) -> None:
    """Add the lower triangle of Σ_i P_i[a, b] x_i x_iᵀ of these rows to block (d + 1, d + 1).

    weight: (r,) P_i[a, b]. Raises OutOfTime."""
    some = np.flatnonzero(weight)
    products.operator.outer(rows[some], weight[some], block)


class JointNewtonSystem:
    """matrix_numbers: so many float64 that the matrices of a step may take."""

    def __init__(
        self,
        products: RowProducts,
        dual: JointDual,
        y: NDArray[np.int32],
        threads: Threads,
        matrix_numbers: int,
    ) -> None:
        self._products, self._dual, self._y, self._threads = products, dual, y, threads
        self._room = matrix_numbers
        self._progress = products.operator.progress

    def solve(self, face: Mask, g: Array, sigma: float) -> Array:
        """s, (d + 1, k); face: (n, k). Raises OutOfTime."""
        self._face, self._sigma = face, sigma
        rank = self._dual.rank(face)
        self._rows = np.flatnonzero(rank)
        r, whole = int(rank.sum()), g.size
        if r == 0:
            return g.copy()
        copied = len(self._rows) * self._products.row_numbers  # of the rows on a face
        solve = {Way.COLUMNS: self._whole, Way.ROWS: self._by_rank, Way.PRODUCTS: self._by_products}
        way = way_of(whole, r, copied, self._room)
        s = solve[way](g)
        if way is Way.ROWS and whole * whole <= self._room and not self._is_solved(s, g):
            s = self._whole(g)  # rows are nearly parallel: of their products rounding leaves too little
        return s

    def _is_solved(self, s: Array, g: Array) -> bool:
        left = g - self.times(s)
        return _dot(left, left) <= ACCURACY**2 * _dot(g, g)

    # -- the whole system ---------------------------------------------------------------------------------

    def _whole(self, g: Array) -> Array:
        whole = WholeSystem(self._dual, g.shape, self._threads)
        whole.add(self._products, self._rows, self._face, self._y)
        return whole.solve(g, self._sigma)

    # -- as many unknowns as the faces have dimensions ------------------------------------------------------

    def _by_rank(self, g: Array) -> Array:
        """With M = (q ⊗ x): s = g − M (I/σ + MᵀM)⁻¹ Mᵀ g, and once more for what rounding has left."""
        rows, sigma = self._rows, self._sigma
        row, q = self._dual.factors(self._face[rows], self._y[rows])
        gram = np.empty((len(rows), len(rows)))
        self._products.operator.inner(rows, gram)
        mirror(gram)
        system = gram[np.ix_(row, row)]
        del gram
        step = max(1, len(row) // 16)
        for at in range(0, len(row), step):
            self._progress.check()
            system[at : at + step] *= q[at : at + step] @ q.T
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
        s += solve(g - self.times(s))
        return s

    # -- conjugate gradients --------------------------------------------------------------------------------

    def times(self, s: Array) -> Array:
        """(I + σ Σ P ⊗ x xᵀ) s."""
        step = self._products.piece_rows

        def work(t: int, start: int, stop: int) -> Array:
            out = np.zeros_like(s)
            for at in range(start, stop, step):
                rows = self._rows[at : min(at + step, stop)]
                X = self._products.matrix(rows)
                scores = self._products.scores(X, s)
                self._products.add(X, self._dual.derivative(self._face[rows], scores, self._y[rows]), out)
            return out

        total = sum(self._threads.over_rows(len(self._rows), work))
        return s + self._sigma * total

    def _by_products(self, g: Array) -> Array:
        def times(p: Array) -> Array:
            self._progress.check()
            return self.times(p)

        given = self._preconditioner(g.shape), ACCURACY, MAX_PRODUCTS, self._progress
        return conjugate_gradients(times, g, *given)

    def _preconditioner(self, shape: tuple[int, int]) -> Callable[[Array], Array]:
        """Return the inverse of the blocks of one class each; where these have no room, nothing is changed."""
        d, k = shape
        if k * d * d > self._room:
            return np.copy
        face, y, factors = self._face[self._rows], self._y[self._rows], []
        for a in range(k):
            block = np.zeros((d, d))
            add_pair(self._products, self._rows, self._dual.pair(face, y, a, a), block)
            block *= self._sigma
            _add_identity(block)
            factors.append(factor_with_ridge(block))

        def solve(r: Array) -> Array:
            each = [r[:, a] if factor is None else factor.solve(r[:, a]) for a, factor in enumerate(factors)]
            return np.ascontiguousarray(np.array(each).T)

        return solve


def _add_identity(H: Array) -> None:
    """I, and what rounding may have made of zero."""
    diagonal = np.einsum("ii->i", H)  # a view
    diagonal *= 1.0 + RIDGE * len(H)
    diagonal += 1.0


def _dot(a: Array, b: Array) -> float:
    return float(np.einsum("ij,ij", a, b))
