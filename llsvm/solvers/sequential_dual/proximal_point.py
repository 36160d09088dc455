"""The rows of the method of multipliers (multipliers.py): their p^j, and p(W) at their scores. Those at hand are
here; those that are read each time, in all_rows.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from llsvm.process.threads import Threads
from llsvm.solvers.row_products import RowProducts
from llsvm.solvers.sequential_dual.duals import NO_CHANGE, JointDual, Mask
from llsvm.solvers.sequential_dual.newton_system import NewtonSystem
from llsvm.solvers.sequential_dual.prox_kernel import N_TOTALS
from llsvm.solvers.sequential_dual.shares import BlockShares, squared_norm
from llsvm.stream.progress import Progress

Array = NDArray[np.float64]
Totals = Sequence[float] | Array


@dataclass(slots=True)
class Point:
    """Of p(W): linear: ⟨e, p⟩. coupling: Σ ⟨v_i, X_i W⟩. moved: ‖p − p^j‖². loss: Σ C_i loss_i(W). slope: Σ ⟨v_i,
    X_i s⟩, s being the step whose scores are the change; 0 where none of it is made. sum: Xᵀ v."""

    linear: float
    coupling: float
    moved: float
    loss: float
    slope: float
    sum: Array

    @classmethod
    def of(cls, totals: list[float], sums: Array) -> Point:
        """totals: as of ``prox_rows``."""
        linear, coupling, moved, loss, slope = totals
        return cls(linear, coupling, moved, loss, slope, sums)


class JointRows(Protocol):
    """Rows as the method of multipliers sees them, with their p^j, the weights W, and a step along which these
    change.

    W0: (d + 1, k), the weights that other rows add. first_sigma: of σ."""

    W0: Array
    first_sigma: float

    def set_weights(self, W: Array) -> None: ...

    def set_change(self, step: Array) -> None: ...

    def take(self, length: float) -> None:
        """So much of the change; it is 0 then."""
        ...

    def point(self, sigma: float, length: float = 0.0) -> Point:
        """At the weights after so much of the change."""
        ...

    def newton_step(self, g: Array, sigma: float) -> Array:
        """∇²ψ(W)⁻¹ g. Raises OutOfTime."""
        ...

    def move_base(self, sigma: float) -> None:
        """p^{j+1} = p(W)."""
        ...

    def finish(self, w: Array) -> float:
        """Take p^j as shares, and the weights w that belong to all shares, if D gains from it; returns what it
        does."""
        ...


class RowsAtHand:
    """Rows in memory, with their scores X W, and the change of these."""

    def __init__(
        self,
        part: BlockShares,
        dual: JointDual,
        w: Array,
        bias: float,
        threads: Threads,
        matrix_numbers: int,
        grid: float,
        progress: Progress,
    ) -> None:
        """matrix_numbers: see newton_system.py. grid: shares are multiples of 1/grid."""
        shape, self._grid = (part.n_rows, w.shape[1]), grid
        self.products = RowProducts(part.block, bias, *w.shape)
        self._part, self._dual, self._threads, self._shape = part, dual, threads, w.shape
        self._base, self._scores, self._change = np.empty(shape), np.empty(shape), np.zeros(shape)
        self._face = np.empty(shape, bool)
        tail = threads, matrix_numbers, progress
        self._system = NewtonSystem(self.products, dual, part.block.y, *tail)
        (self._linear, squares, *_), own = self._over(self._begin)
        self.W0 = w - own
        self.first_sigma = part.n_rows / max(squares, 1e-300)  # 1 over the mean of ‖x_i‖²

    def set_weights(self, W: Array) -> None:
        self._set_scores(self._scores, W)

    def set_change(self, step: Array) -> None:
        self._set_scores(self._change, step)

    def _set_scores(self, scores: Array, W: Array) -> None:
        def work(rows: slice, sums: Array) -> Totals:
            scores[rows] = self.products.scores(self.products.matrix(rows), W)
            return ()

        self._over(work)

    def take(self, length: float) -> None:
        self._scores += length * self._change
        self._change[...] = 0.0

    def point(self, sigma: float, length: float = 0.0) -> Point:
        def work(rows: slice, sums: Array) -> Totals:
            y, cost, base = self._y(rows), self._part.cost[rows], self._base[rows]
            change = self._change[rows] if length else NO_CHANGE
            _, v, totals = self._dual.prox_along(base, self._scores[rows], change, length, sigma, y, cost)
            self.products.add(self.products.matrix(rows), v, sums)
            return totals

        totals, sums = self._over(work)
        return Point.of(totals, sums)

    def newton_step(self, g: Array, sigma: float) -> Array:
        return self._system.solve(self._find_face(sigma), g, sigma)

    def _find_face(self, sigma: float) -> Mask:
        def work(rows: slice, sums: Array) -> Totals:
            y, cost = self._y(rows), self._part.cost[rows]
            p = self._dual.prox(self._base[rows], self._scores[rows], sigma, y, cost)
            self._face[rows] = self._dual.face(p, y, cost)
            return ()

        self._over(work)
        return self._face

    def move_base(self, sigma: float) -> None:
        def work(rows: slice, sums: Array) -> Totals:
            y, cost = self._y(rows), self._part.cost[rows]
            self._base[rows] = self._dual.prox(self._base[rows], self._scores[rows], sigma, y, cost)
            return ()

        self._over(work)

    def finish(self, w: Array) -> float:
        def work(rows: slice, sums: Array) -> Totals:
            y, cost = self._y(rows), self._part.cost[rows]
            share = self._dual.shares(self._base[rows], y, cost, self._grid)
            self._base[rows] = share
            p = self._dual.of_shares(share, y, cost)
            self.products.add(self.products.matrix(rows), self._dual.coefficients(p, y, cost), sums)
            return (self._dual.linear(p, y),)

        (linear, *_), sums = self._over(work)
        sums += self.W0
        gain = linear - self._linear - 0.5 * (squared_norm(sums) - squared_norm(w))
        if gain <= 0.0:
            return 0.0
        w[...] = sums
        self._part.share[...] = self._base
        return gain

    def _begin(self, rows: slice, sums: Array) -> Totals:
        y, cost = self._y(rows), self._part.cost[rows]
        self._base[rows] = base = self._dual.of_shares(self._part.share[rows], y, cost)
        X = self.products.matrix(rows)
        self.products.add(X, self._dual.coefficients(base, y, cost), sums)
        return self._dual.linear(base, y), self.products.squares(X)

    def _y(self, rows: slice) -> NDArray[np.int32]:
        return self._part.block.y[rows]

    def _over(self, work: Callable[[slice, Array], Totals]) -> tuple[list[float], Array]:
        """Of all pieces: what ``work`` returns, and what it adds to sums as large as the weights."""

        def of_range(t: int, start: int, stop: int) -> tuple[Array, Array]:
            totals, sums = np.zeros(N_TOTALS), np.zeros(self._shape)
            for rows in self.products.pieces(start, stop):
                found = work(rows, sums)
                totals[: len(found)] += found
            return totals, sums

        results = self._threads.over_rows(self._part.n_rows, of_range)
        totals, sums = results[0]
        for other_totals, other_sums in results[1:]:
            totals += other_totals
            sums += other_sums
        return totals.tolist(), sums
