"""Conjugate gradients on the face of a joint problem: what Newton's method is for few columns, for many.

Loops find the face, which shares of a row are inside their bounds, and creep along it where C_i ‖x_i‖² is large. In
the p of duals.py, with Π_i the projection on the directions u_i that row i can move in without leaving its face,

    (Π A + 1/σ) u = Π g over the face,   g_im = e_im + s_im − s_iy = ∂D/∂p_im,   A u: by how much g falls along u
    p ← the nearest feasible point to p + t u,  t the first of 1, ½, ¼, ... that raises D

(Moré & Toraldo 1991, with Levenberg and Marquardt's 1/σ, which keeps u short where rows contradict each other; σ
grows while whole steps are taken.) A product with A costs what two measurements of the rows do.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from llsvm.process.threads import Threads
from llsvm.solvers.row_products import RowProducts
from llsvm.solvers.sequential_dual.duals import JointDual
from llsvm.solvers.sequential_dual.shares import BlockShares, squared_norm
from llsvm.stream.progress import Progress

Array = NDArray[np.float64]
FACE_NUMBERS = 10  # of float64 that a step takes for each share of a row
FIRST_SIGMA, MAX_SIGMA = 100.0, 1e8  # in units of 1 over the mean of ‖x_i‖²
GROWTH, SHORT = 10.0, 0.25  # of σ; steps of less than this share let it fall
MAX_PRODUCTS, ACCURACY = 300, 0.03  # of conjugate gradients
HALVINGS = 11


class Face:
    """sigma: σ; 0 before the first step. grid: shares are multiples of 1/grid."""

    def __init__(self, dual: JointDual, bias: float, threads: Threads, grid: float) -> None:
        self.sigma = 0.0
        self._dual, self._bias, self._threads, self._grid = dual, bias, threads, grid

    def step(self, part: BlockShares, w: Array, progress: Progress) -> float:
        """Move the part's shares, and the weights w (d + 1, k) that belong to all shares, along the face; returns
        what D gains, 0 where it does not and nothing has moved."""
        rows = _OnFace(part, self._dual, w, self._bias, self._threads)
        if not len(rows.rows):
            return 0.0
        unit = part.n_rows / max(rows.total_squares, 1e-300)
        self.sigma = self.sigma or FIRST_SIGMA * unit
        way = rows.solve(self.sigma, progress)
        length = 1.0
        for _ in range(HALVINGS):
            share, sums, gain = rows.after(way, length, self._grid)
            if gain > 0.0:
                break
            length *= 0.5
        else:
            length, gain = 0.0, 0.0
        if length == 1.0:
            self.sigma = min(GROWTH * self.sigma, MAX_SIGMA * unit)
        elif length < SHORT:
            self.sigma = max(self.sigma / GROWTH, unit)
        if length > 0.0:
            part.share[rows.rows] = share
            w += sums
        return gain


class _OnFace:
    """Rows that can move: rows (r,) positions, p and gradient g, (r, k)."""

    def __init__(self, part: BlockShares, dual: JointDual, w: Array, bias: float, threads: Threads) -> None:
        self._products = RowProducts(part.block, bias, *w.shape)
        self._dual, self._threads, self._shape = dual, threads, w.shape
        y, cost = part.block.y, part.cost
        step = max(1, self._products.piece_rows)
        found, self.total_squares = [], 0.0
        for at in range(0, part.n_rows, step):
            piece = slice(at, min(at + step, part.n_rows))
            face = dual.face(dual.of_shares(part.share[piece], y[piece], cost[piece]), y[piece], cost[piece])
            found.append(at + np.flatnonzero(face.any(axis=1)))
            self.total_squares += self._products.squares(self._products.matrix(piece))
        self.rows = np.concatenate(found)
        self._y, self._cost = y[self.rows], cost[self.rows]
        self._p = dual.of_shares(part.share[self.rows], self._y, self._cost)
        self._face = dual.face(self._p, self._y, self._cost)
        self._g, self._squares = np.empty_like(self._p), np.empty(len(self.rows))

        def gradient(piece: slice, sums: Array) -> float:
            X = self._products.matrix(self.rows[piece])
            self._squares[piece] = self._products.row_squares(X)
            self._g[piece] = self._gradient(self._products.scores(X, w), piece)
            own = np.arange(piece.stop - piece.start), self._y[piece]
            self._g[piece] += 1.0
            self._g[piece][own] = 0.0
            return 0.0

        self._over(gradient)

    def solve(self, sigma: float, progress: Progress) -> Array:
        """u, (r, k), by conjugate gradients."""
        u, residual = np.zeros_like(self._p), self._dual.tangent(self._face, self._g, self._y)
        diagonal = (self._squares + 1.0 / sigma)[:, None]
        direction = residual / diagonal
        product = np.empty_like(u)
        size = float(np.einsum("ij,ij", residual, direction))
        enough = ACCURACY * ACCURACY * size
        for _ in range(MAX_PRODUCTS):
            if size <= enough or progress.out_of_time:
                break
            length = size / self._multiply(direction, sigma, product)
            u += length * direction
            product *= length
            residual -= product
            np.divide(residual, diagonal, out=product)
            before, size = size, float(np.einsum("ij,ij", residual, product))
            direction *= size / before
            direction += product
        return u

    def after(self, way: Array, length: float, grid: float) -> tuple[Array, Array, float]:
        """Shares after so much of the way, what they add to the weights, and what D gains."""
        dual = self._dual
        share = np.empty_like(self._p)

        def move(piece: slice, sums: Array) -> float:
            y, cost, p = self._y[piece], self._cost[piece], self._p[piece]
            ahead = p + length * way[piece]
            new = dual.shares(dual.prox(ahead, np.zeros_like(p), 0.0, y, cost), y, cost, grid)
            share[piece] = new
            moved = dual.of_shares(new, y, cost)
            moved -= p
            self._products.add(
                self._products.matrix(self.rows[piece]), dual.coefficients(moved, y, cost), sums
            )
            return float(np.einsum("ij,ij", moved, self._g[piece]))

        gain, sums = self._over(move)
        return share, sums, gain - 0.5 * squared_norm(sums)

    def _multiply(self, direction: Array, sigma: float, out: Array) -> float:
        """Set out to (Π A + 1/σ) times the direction; returns the product of both."""
        change = self._sum(direction)

        def work(piece: slice, _: Array) -> float:
            X = self._products.matrix(self.rows[piece])
            rise = self._gradient(self._products.scores(X, change), piece)
            tangent = self._dual.tangent(self._face[piece], rise, self._y[piece])
            out[piece] = direction[piece] / sigma - tangent
            return float(np.einsum("ij,ij", direction[piece], out[piece]))

        return self._over(work)[0]

    def _gradient(self, scores: Array, piece: slice) -> Array:
        """s_m − s_y."""
        return scores - scores[np.arange(len(scores)), self._y[piece]][:, None]

    def _sum(self, direction: Array) -> Array:
        """What it adds to the weights."""

        def add(piece: slice, sums: Array) -> float:
            v = self._dual.coefficients(direction[piece], self._y[piece], self._cost[piece])
            self._products.add(self._products.matrix(self.rows[piece]), v, sums)
            return 0.0

        return self._over(add)[1]

    def _over(self, work: Callable[[slice, Array], float]) -> tuple[float, Array]:
        """The sums over all pieces of the rows of what ``work`` returns, and of what it adds to weights."""

        def of_range(t: int, start: int, stop: int) -> tuple[float, Array]:
            total, sums = 0.0, np.zeros(self._shape)
            for at in range(start, stop, self._products.piece_rows):
                total += work(slice(at, min(at + self._products.piece_rows, stop)), sums)
            return total, sums

        results = self._threads.over_rows(len(self.rows), of_range)
        total, sums = results[0]
        for other, more in results[1:]:
            total += other
            sums += more
        return total, sums
