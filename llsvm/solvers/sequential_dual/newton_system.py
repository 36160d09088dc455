"""Newton's step of the augmented Lagrangian method: (I + σ Σ_i P_i ⊗ x_i x_iᵀ) s = −g over (d + 1) · k weights.

P_i is the derivative of row i's prox on its face (duals.py), P_i = Σ q qᵀ with as many q as the face has
dimensions. So the system is one of rows q ⊗ x_i, each with the curvature σ, which optim/newton_system.py solves.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.problems import Positions
from llsvm.solvers.optim.lapack import mirror
from llsvm.solvers.sequential_dual.duals import Mask
from llsvm.solvers.sequential_dual.problem import JointProblem
from llsvm.solvers.sequential_dual.shares import BlockShares

Array = NDArray[np.float64]


class FaceRows:
    """The rows q ⊗ x_i of a Newton system: ``SystemRows`` of optim/newton_system.py. Weights are (d + 1, k).

    number: of them. They are listed where they are first asked for. all: (r,) the positions of all of them."""

    def __init__(self, problem: JointProblem, part: BlockShares, face: Mask) -> None:
        """part: the rows x_i. face: (n, k) which of their dual variables are free, see ``JointDual.face``."""
        self.progress = problem.progress
        self._problem, self._face, self._y = problem, face, part.block.y
        self._products = problem.products(part)
        pieces = self._products.pieces(0, len(face))
        self.number = sum(int(problem.dual.n_dimensions(face[rows]).sum()) for rows in pieces)

    @cached_property
    def all(self) -> Positions:
        return np.arange(len(self._listed[0]))

    @cached_property
    def _listed(self) -> tuple[Positions, Positions]:
        """The row and the class of each."""
        listed = []
        for rows in self._products.pieces(0, len(self._face)):
            row, m = self._problem.dual.dimensions(self._face[rows])
            listed.append((row + rows.start, m))
        row, m = (np.concatenate(each) for each in zip(*listed, strict=True))
        return row, m

    def dots(self, rows: Positions, w: Array) -> Array:
        """Return x_i·(w q), (r,)."""
        out = np.empty(len(rows))
        for where, x, place, q in self._pieces(rows):
            out[where] = np.einsum("ij,ij->i", self._products.scores(self._products.matrix(x), w)[place], q)
        return out

    def add(self, rows: Positions, factor: Array, out: Array) -> None:
        """Add Σ factor x_i qᵀ to out."""
        for where, x, place, q in self._pieces(rows):
            coefficients = np.zeros((len(x), out.shape[1]))
            np.add.at(coefficients, place, factor[where, None] * q)
            self._products.add(self._products.matrix(x), coefficients, out)

    def add_squares(self, rows: Positions, factor: Array, out: Array) -> None:
        """Add Σ factor of the squares of x_i qᵀ to out."""
        for where, x, place, q in self._pieces(rows):
            coefficients = np.zeros((len(x), out.shape[1]))
            np.add.at(coefficients, place, factor[where, None] * q * q)
            self._products.add_squares(self._products.matrix(x), coefficients, out)

    def outer(self, rows: Positions, factor: Array, out: Array) -> None:
        """Add the matrix of all rows to out, over weights (d + 1, k) raveled; factor is the same for all of them.
        Raises OutOfTime."""
        self.add_matrix(factor[:1].sum(), out)

    def add_matrix(self, sigma: float, out: Array) -> None:
        """The same with the factor sigma; nothing need be listed. Raises OutOfTime."""
        on_face, problem = np.flatnonzero(self._face.any(axis=1)), self._problem
        face, y, operator = self._face[on_face], self._y[on_face], self._products.operator
        d, k = problem.shape
        blocks = out.reshape(d, k, d, k)

        def add(a: int) -> None:
            for b in range(a + 1):
                weight = sigma * problem.dual.pair(face, y, a, b)
                counting, block = np.flatnonzero(weight), np.zeros((d, d))
                operator.outer(on_face[counting], weight[counting], block)
                mirror(block)
                blocks[:, a, :, b] += block
                if a != b:
                    blocks[:, b, :, a] += block

        problem.threads.map(add, range(k))

    def inner(self, rows: Positions, out: Array) -> None:
        """Set the lower triangle of out (r, r), contiguous, to the products of these rows with each other."""
        q = np.empty((len(rows), self._problem.shape[1]))
        for where, *_, q_of_piece in self._pieces(rows):
            q[where] = q_of_piece
        # The products of each x_i, once, are where the last rows of out, which are filled first, do not need them.
        x, place = np.unique(self._listed[0][rows], return_inverse=True)
        gram = out.reshape(-1)[: len(x) ** 2].reshape(len(x), len(x))
        self._products.operator.inner(x, gram)
        for t in reversed(range(len(rows))):
            out[t, : t + 1] = gram[place[t], place[: t + 1]] * (q[: t + 1] @ q[t])

    def _pieces(self, rows: Positions) -> Iterator[tuple[slice, Positions, Positions, Array]]:
        """Yield some at a time: where they are, their x_i, the place of each one's among these, and its q."""
        for start in range(0, len(rows), self._products.piece_rows):
            where = slice(start, min(start + self._products.piece_rows, len(rows)))
            row, m = self._listed[0][rows[where]], self._listed[1][rows[where]]
            x, place = np.unique(row, return_inverse=True)
            yield where, x, place, self._problem.dual.factors(self._face[row], self._y[row], m)
