"""The augmented Lagrangian method (optim/augmented_lagrangian.py) on the dual of the direct multi-class problems.

With the dual variables p of the rows at hand (problem.py), the weights W₀ that other rows add, σ > 0 and p^j as
they are, Yan & Li's (2020) proximal points of binary SVMs become

    p(W) = argmax over S of ⟨p, ∂D/∂p⟩ − ‖p − p^j‖² / 2σ at the scores X W,
    ∇ψ(W) = W − W₀ − Xᵀ v(p(W)),      ∇²ψ(W) = I + σ Σ_i P_i ⊗ x_i x_iᵀ

and the rows' part of the gap is Σ_i (C_i loss_i(W) − ⟨e_i, p_i⟩ + ⟨v_i, X_i W⟩).

``FaceRows``: P_i is the derivative of row i's prox on its face, P_i = Σ q qᵀ with as many q as the face has
dimensions. So Newton's system (I + σ Σ_i P_i ⊗ x_i x_iᵀ) s = −g over (d + 1) · k weights is one of rows q ⊗ x_i,
each with the curvature σ, which optim/newton_system.py solves.

``JointRows``: the shares of the rows are the proximal point p^j, and p(W) is made of them at the scores X W. Rows
come in parts, in memory or read anew for each look at them (rounds.py). Of a row that is read nothing is kept but
its shares, so that a step takes some three readings, for the matrix and two points of a line search, however many
rows there are. Rows in memory also keep their scores X W, and the change of these along a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import FLOAT64_BYTES
from llsvm.objective.problems import Positions
from llsvm.solvers.optim.augmented_lagrangian import AugmentedLagrangian, LagrangianPoint
from llsvm.solvers.optim.conjugate_gradients import Way
from llsvm.solvers.optim.lapack import dot, mirror
from llsvm.solvers.optim.newton_system import (
    MATRICES,
    MOST_ORDER,
    NewtonPrices,
    NewtonSystem,
    solve_by_columns,
)
from llsvm.solvers.optim.row_operator import RowProducts, pieces_bytes, weights_bytes
from llsvm.solvers.sequential_dual.kernels import N_TOTALS
from llsvm.solvers.sequential_dual.problem import LISTED_BYTES, BlockShares, JointProblem, Mask
from llsvm.solvers.state import Value
from llsvm.stream.progress import OutOfTime

Array = NDArray[np.float64]
Totals = Sequence[float] | Array
Work = Callable[[BlockShares, RowProducts, slice, Array], Totals]

# Dimensions of a row's face that there is room to list, on average; in all there is room for MOST_ORDER at least.
# With fewer, Newton's method ends at a step on wide data whose faces have more; each takes LISTED_BYTES of a row.
ROW_DIMENSIONS = 2
# Steps of Newton's method between two measurements, at most: with many more, rounding of columns of all scales
# leads it astray before the weights and D are summed anew. It begins when loops have cost as much as so many steps
# would: at the price of 25 steps, not of 45, up to a third of the work is saved at a large C.
STAGE_STEPS = 25
_WEIGHTS = "newton weights"


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


class JointRows:
    """Rows with their p^j, the weights W, and a step along which these change: ``LagrangianRows`` of
    optim/augmented_lagrangian.py.

    rest: (d + 1, k), the weights that other rows add. first_sigma: of σ. D: of all shares as they are.
    ``point`` finds p(W) at W + length · step, and sums it up for ``weights`` and ``move_base``, which come after;
    ``newton_step`` and ``move_base`` make p(W) again, at W as ``take`` has left it.
    """

    def __init__(
        self,
        problem: JointProblem,
        parts: Callable[[], Iterable[BlockShares]],
        store: Callable[[BlockShares], None],
        W: Array,
        prices: NewtonPrices | None = None,
        w: Array | None = None,
    ) -> None:
        """parts: the rows, each once. store: called with a part whose shares have changed. W: (d + 1, k), which the
        method moves. prices: of ways to solve a system; None: by columns, as the rows are not all in memory. w:
        (d + 1, k), the weights that all shares make, those of other rows too; None: there are no others."""
        self._problem, self._parts, self._store, self._prices = problem, parts, store, prices
        self._W, self._step = W, np.zeros_like(W)
        self._scores = None if prices is None else self._times(W)  # of rows in memory, (n, k)
        self._change = np.zeros_like(W if self._scores is None else self._scores)  # of these along the step
        (linear, squares, n_rows, _), sums = self._over(self._begin)
        self.rest = np.zeros_like(W) if w is None else w - sums
        self.n_rows = int(n_rows)
        self.first_sigma = n_rows / squares if squares > 0.0 else 1.0  # 1 over the mean of ‖x_i‖²
        self._sum, self.D = sums, self._dual_at(linear, sums)
        self._point_dual = self.D  # D at the last point

    def set_step(self, step: Array) -> None:
        self._step = step
        if self._scores is not None:
            self._times(step, self._change)

    def take(self, length: float) -> None:
        """Move the scores: W is the array that the method moves. The step is used up."""
        if self._scores is not None:
            self._change *= length
            self._scores += self._change

    def point(self, sigma: float, length: float = 0.0) -> LagrangianPoint:
        def work(part: BlockShares, products: RowProducts, rows: slice, sums: Array) -> Totals:
            _, v, totals = self._prox(part, products, rows, sigma, length)
            products.add(products.matrix(rows), v, sums)
            return totals

        (linear, coupling, moved, loss), sums = self._over(work)
        self._point_dual, self._of_point = self._dual_at(linear, sums), self.rest + sums
        return LagrangianPoint(linear, loss - linear + coupling, moved, dot(sums, self._step))

    def weights(self) -> Array:
        return self._of_point

    def newton_step(self, gradient: Array, sigma: float) -> Array:
        """Raises OutOfTime, too, where neither lists of all dimensions of faces have room nor the matrix that is
        made without these."""
        if self._prices is None:
            return solve_by_columns(lambda H: self._add_matrices(H, sigma), gradient)
        (part,) = self._parts()
        rows = self._face_rows(part, sigma)
        if rows.number > MOST_ORDER and self._prices.has_room(self._prices.columns):
            return solve_by_columns(lambda H: rows.add_matrix(sigma, H), gradient)
        if rows.number > max(ROW_DIMENSIONS * self.n_rows, MOST_ORDER):
            raise OutOfTime
        curvature = np.full(len(rows.all), sigma)
        return NewtonSystem(rows, rows.all, curvature, self._prices, MATRICES).solve(gradient)

    def move_base(self, sigma: float) -> None:
        """p^{j+1} = p(W), at the last point, unless D falls by it; by the rounding of shares it may."""
        if not self._point_dual >= self.D:
            return

        def work(part: BlockShares, products: RowProducts, rows: slice, sums: Array) -> Totals:
            p, (y, cost) = self._prox(part, products, rows, sigma)[0], part.labels(rows)
            part.share[rows] = self._problem.dual.shares(p, y, cost, self._problem.grid)
            return (self._problem.add_shares(part, products, rows, sums),)

        (linear, *_), self._sum = self._over(work, self._store)
        self.D = self._dual_at(linear, self._sum)

    def finish(self, w: Array) -> float:
        """Set w to the weights that belong to all shares; returns D of these."""
        np.add(self.rest, self._sum, out=w)
        return self.D

    def _begin(self, part: BlockShares, products: RowProducts, rows: slice, sums: Array) -> Totals:
        counting = rows.start + np.flatnonzero(part.cost[rows])  # rows without a weight may have any values
        squares = float(products.operator.squares(counting).sum())
        return self._problem.add_shares(part, products, rows, sums), squares, len(counting)

    def _times(self, W: Array, out: Array | None = None) -> Array:
        """Return X W of rows in memory, (n, k). out: to have it; None: an array of its own."""
        (part,) = self._parts()
        scores = np.empty(part.share.shape) if out is None else out

        def work(part: BlockShares, products: RowProducts, rows: slice, sums: Array) -> Totals:
            scores[rows] = products.scores(products.matrix(rows), W)
            return ()

        self._over(work)
        return scores

    def _prox(
        self, part: BlockShares, products: RowProducts, rows: slice, sigma: float, length: float = 0.0
    ) -> tuple[Array, Array, Array]:
        """Return the prox of these rows at W + length · step, its coefficients, and totals."""
        if self._scores is None:
            W = self._W + length * self._step if length else self._W
            scores = products.scores(products.matrix(rows), W)
        elif length:
            scores = self._scores[rows] + length * self._change[rows]
        else:
            scores = self._scores[rows]
        y, cost = part.labels(rows)
        base = self._problem.dual.of_shares(part.share[rows], y, cost)
        return self._problem.dual.prox(base, scores, sigma, y, cost)

    def _face_rows(self, part: BlockShares, sigma: float) -> FaceRows:
        """Return the rows of Newton's system at the last point."""
        products, face = self._problem.products(part), np.empty(part.share.shape, bool)

        def find(t: int, start: int, stop: int) -> None:
            for rows in products.pieces(start, stop):
                p = self._prox(part, products, rows, sigma)[0]
                face[rows] = self._problem.dual.face(p, part.cost[rows])

        self._problem.threads.over_rows(part.n_rows, find)
        return FaceRows(self._problem, part, face)

    def _add_matrices(self, H: Array, sigma: float) -> None:
        for part in self._parts():
            self._face_rows(part, sigma).add_matrix(sigma, H)

    def _dual_at(self, linear: float, sums: Array) -> float:
        w = self.rest + sums
        return linear - 0.5 * dot(w, w)

    def _over(
        self, work: Work, store: Callable[[BlockShares], None] = lambda _: None
    ) -> tuple[list[float], Array]:
        """Return the sums of what ``work`` returns of all pieces of rows, and of what it adds to arrays as large as
        the weights. store: called with each part."""
        totals, sums = np.zeros(N_TOTALS), np.zeros(self._problem.shape)
        for part in self._parts():
            products = self._problem.products(part)

            def of_range(t: int, start: int, stop: int, part=part, products=products) -> tuple[Array, Array]:  # type: ignore[no-untyped-def]
                range_totals, range_sums = np.zeros(N_TOTALS), np.zeros(self._problem.shape)
                for rows in products.pieces(start, stop):
                    of_piece = work(part, products, rows, range_sums)
                    range_totals[: len(of_piece)] += of_piece
                return range_totals, range_sums

            for range_totals, range_sums in self._problem.threads.over_rows(part.n_rows, of_range):
                totals += range_totals
                sums += range_sums
            store(part)
        return totals.tolist(), sums


def row_bytes(n_classes: int) -> int:
    """Return what a row at hand takes here: scores, their change, the face and lists of its dimensions."""
    return (2 * FLOAT64_BYTES + 1) * n_classes + ROW_DIMENSIONS * LISTED_BYTES


def list_bytes(n_rows: int, n_classes: int) -> int:
    """Return what lists of all dimensions of these rows take, with their factors, or of the most that a step lists
    of few rows."""
    return (LISTED_BYTES + FLOAT64_BYTES * n_classes) * min(n_rows * (n_classes - 1), MOST_ORDER)


def line_bytes(shape: tuple[int, int], threads: int, matrix_bytes: int) -> int:
    """Return what the rest takes; shape: of the weights."""
    d, k = shape
    of_pair = FLOAT64_BYTES * d * d  # each thread makes the part of a pair of classes
    pairs = min(threads, k) * of_pair if of_pair * k * k <= matrix_bytes else 0
    return weights_bytes(shape, threads) + pairs + matrix_bytes + pieces_bytes(d, threads)


def newton_prices(is_dense: bool, shape: tuple[int, int], values: float, room_bytes: int) -> NewtonPrices:
    """Return the prices of work on rows with so many values each; shape: (d + 1, k) of the weights. room_bytes: for
    the matrices of a step."""
    return NewtonPrices(is_dense, shape[0] * shape[1], values, room_bytes, shape[0])


@dataclass(frozen=True, slots=True)
class NewtonRoom:
    """Memory for Newton's method.

    matrix_bytes: for the matrices of a step. of_all_rows: all rows have room, not only some of them. values: of
    these, that may be copied."""

    matrix_bytes: int
    of_all_rows: bool
    values: int = 0


class JointMultipliers:
    """Newton's method over all rows.

    room: that there is. W: (d + 1, k) the weights as they are; None before the first ``solve``. sigma: σ; 0 before
    it."""

    def __init__(self, room: NewtonRoom, prices: NewtonPrices, in_memory: bool) -> None:
        """in_memory: all rows are; else a system is solved by its columns."""
        self.room, self._prices, self._in_memory = room, prices, in_memory
        self.W: Array | None = None
        self.sigma = 0.0

    def price(self, n_rows: int, n_active: int, reading: float = 0.0) -> float:
        """Return the seconds of work that it would take; infinite where its matrices have no room. n_active: rows
        on a face, or that may be. reading: of all rows, where they are read for each step."""
        if not self.room.of_all_rows:
            return math.inf
        prices, n_classes = self._prices, self._prices.columns // self._prices.width
        ways = MATRICES if self._in_memory else (Way.COLUMNS,)
        system = min(prices.system(way, n_active) for way in ways)
        return STAGE_STEPS * (reading + prices.products(2 * n_classes * n_rows) + system)

    def solve(
        self,
        problem: JointProblem,
        parts: Callable[[], Iterable[BlockShares]],
        store: Callable[[BlockShares], None],
        w: Array,
        accuracy: float,
    ) -> float:
        """Make proximal points until the gap is at most ``accuracy`` · D, or ``STAGE_STEPS`` steps. Changes the
        shares of the rows, and the weights w that belong to them, if D is larger then; returns the D of these.

        parts, store: see ``JointRows``."""
        self.W = w.copy() if self.W is None else self.W
        rows = JointRows(problem, parts, store, self.W, self._prices if self._in_memory else None)
        newton = AugmentedLagrangian(rows, self.W, self.sigma or rows.first_sigma, problem.progress)
        newton.solve(lambda gap, dual, _: gap <= accuracy * dual, STAGE_STEPS)
        self.sigma = newton.sigma
        return rows.finish(w)

    # -- what a SolverState holds of it -----------------------------------------------------------------

    @property
    def arrays(self) -> dict[str, Array]:
        return {} if self.W is None else {_WEIGHTS: self.W}

    @property
    def numbers(self) -> dict[str, Value]:
        return {"sigma": self.sigma}

    def restore(self, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> None:
        """Go on from what these were; begin where there was no room for Newton's method."""
        if "sigma" not in numbers:
            return
        self.W = np.array(arrays[_WEIGHTS]) if _WEIGHTS in arrays else None
        self.sigma = numbers["sigma"]
