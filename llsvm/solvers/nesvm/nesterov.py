"""Nesterov's iterations (NESVM, Algorithm 1): from the gradient at w^k to the next points y^k and w^{k+1}.

``GradientPass`` sums the gradients of the smoothed losses over all rows. ``Regulariser`` is ½‖w‖², or ‖w‖₁ smoothed
with μ (eqs. 24, 28).

``PaperSteps`` are eqs. 33-35 with a given Lipschitz constant. ``SearchedSteps`` are the same two sequences with
what makes them fast: steps in a metric, y^k = w^k − (ρ I + τ G)⁻¹ ∇F(w^k), whose τ falls and rises by
the decrease that y^k brought (backtracking; F(y^k) is measured in the pass that measures the gradient at w^{k+1}),
and momentum that starts anew when it points uphill (O'Donoghue and Candès 2015, gradient scheme).

``Metric``: the norm in which the searched step measures lengths; Nesterov's method allows any. With h_i the largest
curvature of row i's loss for μ = 1, c_i/‖x_i‖∞ of the hinge and 2 c_i of squares, the Hessian of all losses is at
most τ G, G = Σ h_i x_i x_iᵀ, for a τ that is searched for; with that of the regulariser the metric is ρ I + τ G.
Where there is no room for G, d² numbers, it is (ρ + τ) I, the paper's.

Steps of both kinds have w, where the gradient is wanted, and y, where the value is, the better solution: (width,)
each; L, the Lipschitz constant as assumed by the last step; and the decrement ½ ∇F·(w − y), what that step promised
to gain. ``advance`` makes a step and returns what comes next, in new arrays. It takes g, the gradient at w, and
whether F is the function of the last call, else w is a warm start for another; the searched step F and F_y too, the
values at w and at y, and ridge, ρ, the curvature of the regulariser. Their fields are what a state has of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block, parts_of
from llsvm.objective.problems import RowCosts
from llsvm.process.threads import Threads
from llsvm.process.work import count_products
from llsvm.solvers.nesvm import kernels as kernel
from llsvm.solvers.optim.lapack import eigenvectors
from llsvm.solvers.optim.line_search import ROUNDING
from llsvm.solvers.optim.row_operator import PIECE_BYTES, RowOperator
from llsvm.stream.progress import Progress
from llsvm.stream.stream import Stream

Array = NDArray[np.float64]

# Columns, the constant feature included, up to which the Gram matrix is made: a larger bound saves passes over wide
# data, for a decomposition whose time grows with the cube of the columns.
MAX_GRAM_COLUMNS = 2000
# Matrices as large as G that making and decomposing it takes: with fewer a run would take more memory than its
# limit; with more it would do without G where there is room for it.
GRAM_MATRICES = 4
# Factor by which the curvature that is searched for falls after a step that kept its promise: nearer to 1, longer
# steps come later, and fewer break their promise.
EASE = 0.98
# Factor by which it grows after a step that did not: a larger one makes shorter steps, and fewer of them break
# theirs; with a smaller one, more steps break their promise before the curvature is large enough.
TIGHTEN = 2.0
# Arrays of a weight each for every problem, its steps, dual points and temporary ones: with fewer a run would take
# more memory than its limit; with more it would ask for a larger limit than it needs.
WEIGHT_VECTORS = 14


@dataclass(frozen=True, slots=True)
class GradientPass:
    """Pass over the rows that sums the gradients of all problems.

    stream: the rows.
    threads: work on the rows.
    costs: the c_i of the rows.
    bias: the constant feature.
    split: rows with y = −1 are summed apart.
    loss: its number for the kernels.
    signs: (k, classes) float64, y of each class in each problem, times a factor of c_i.
    """

    stream: Stream
    threads: Threads
    costs: RowCosts
    bias: float
    split: bool
    loss: int
    signs: Array

    def run(
        self, W: Array, V: Array, mu: Array, todo: NDArray[np.int64] | None = None
    ) -> tuple[Array, Array]:
        """A pass: the sums (k, N_SUMS), see kernels.py, and Σ α_i y_i x_i at W, (k, 1 or 2, width). Threads take
        ranges of rows, and their parts are summed in a fixed order.

        W, V: (k, width) points of the gradient and of the value alone.
        mu: (k,) of the smoothed hinge.
        todo: the problems to work on, None for all.
        """
        k, width = W.shape
        which = np.arange(k) if todo is None else todo
        grads = np.zeros((self.threads.number, k, 2 if self.split else 1, width))
        sums = np.zeros((self.threads.number, k, kernel.N_SUMS))
        vectors = 3 * len(which)  # margins at W and at V, and the gradient

        def add(block: Block, cost: Array, t: int, start: int, stop: int) -> None:
            """Add the contribution of these rows of the block to the sums of thread ``t``."""
            rows = block.slice(start, stop)
            point = (W, V, self.bias, mu, self.loss, self.split, grads[t], sums[t])
            kernel.gradient(*parts_of(rows.X), rows.y, cost[start:stop], self.signs, which, *point)

        for block in self.stream.all():
            count_products(vectors * block.n_rows, vectors * block.nnz, block.is_dense)
            self.threads.over_rows(block.n_rows, partial(add, block, self.costs.of(block)))
        for t in range(1, self.threads.number):
            grads[0] += grads[t]
        return self.stream.sum(sums.sum(axis=0)), self.stream.sum(grads[0])


class Metric:
    """values: (width,) eigenvalues of G, or (1,) that of the identity in its place.
    vectors: (width, width) eigenvectors, in columns; empty for the identity.
    hinge: the loss is; a square has the curvature h_i wherever it has one, so that τ is 1 to begin with."""

    def __init__(self, values: Array, vectors: Array, hinge: bool) -> None:
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

    def first_curvature(self, g: Array, F: float) -> float:
        """τ for the first step from w = 0 on, where F is: a smaller one promises more than there is to gain, since
        F is nowhere below 0. g: (width,) the gradient."""
        if not self._hinge:
            return 1.0
        along = self._along(g)
        seen = self.values > ROUNDING * self.values.max()
        squares = along[seen] ** 2 / self.values[seen] if self._is_gram else along**2
        return 0.5 * float(squares.sum()) / F if F > 0.0 else 1.0

    def solve(self, ridge: float, curvature: float, g: Array) -> Array:
        """(ρ I + τ G)⁻¹ g."""
        along = self._along(g) / (ridge + curvature * self.values)
        return self.vectors @ along if self._is_gram else along

    def square(self, ridge: float, curvature: float, step: Array) -> float:
        """stepᵀ (ρ I + τ G) step."""
        return float((ridge + curvature * self.values) * self._along(step) @ self._along(step))

    def _along(self, g: Array) -> Array:
        return self.vectors.T @ g if self._is_gram else g


def paper_constant(gradient: GradientPass, width: int, hinge: bool) -> float:
    """Return max h_i ‖x_i‖² of the hinge (eqs. 48 and 52, of one row), or Σ h_i ‖x_i‖² of squares, which no
    eigenvalue of G is above. A pass."""
    constant, stream = 0.0, gradient.stream
    for rows, curvature in _curvatures(gradient, width, hinge):
        bounds = curvature * rows.squares(rows.all)
        constant = max(constant, float(bounds.max(initial=0.0))) if hinge else constant + float(bounds.sum())
    return stream.largest(constant) if hinge else stream.sum(constant)


def _curvatures(gradient: GradientPass, width: int, hinge: bool) -> Iterator[tuple[RowOperator, Array]]:
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


class Penalised(NamedTuple):
    """The regulariser at some w.

    value, gradient: as smoothed; u (width,).
    smoothing_gap: what smoothing adds to the gap: ‖w‖₁ − u·w.
    """

    value: float
    gradient: NDArray[np.float64]
    smoothing_gap: float = 0.0


class Regulariser:
    """Exact and smoothed regulariser, see the file's head; w is (width,) everywhere."""

    def __init__(self, l1: bool, free_intercept: bool) -> None:
        """l1: ‖w‖₁ instead of ½‖w‖².
        free_intercept: the last weight is not penalised.
        """
        self.l1 = l1
        self._free_intercept = free_intercept

    def exact(self, w: NDArray[np.float64]) -> float:
        """The value at w."""
        penalised = w[:-1] if self._free_intercept else w
        return float(np.abs(penalised).sum()) if self.l1 else 0.5 * float(penalised @ penalised)

    def at(self, w: NDArray[np.float64], mu: float) -> Penalised:
        """At w; mu: of the smoothing of ‖w‖₁."""
        exact, gradient = self.exact(w), w.copy()
        if self._free_intercept:
            gradient[-1] = 0.0
        if not self.l1:
            return Penalised(exact, gradient)
        gradient = np.clip(gradient / mu, -1.0, 1.0)
        linear = float(gradient @ w)
        return Penalised(linear - 0.5 * mu * float(gradient @ gradient), gradient, exact - linear)

    def ridge(self, mu: float) -> float:
        """ρ: the largest curvature."""
        return 1.0 / mu if self.l1 else 1.0


@dataclass(frozen=True, slots=True)
class PaperSteps:
    """Algorithm 1 with constant L: y = w − ∇/L, z = w* − Σ (i+1)/2 ∇_i / L, w = 2/(k+3) z + (k+1)/(k+3) y.

    The guess w* is 0 at first, and the warm start for each next function of a homotopy. sum: Σ (i+1)/2 ∇_i.
    """

    w: Array
    y: Array
    guess: Array
    sum: Array
    L: float
    decrement: float = math.inf
    k: int = 0

    @classmethod
    def begin(cls, width: int, L: float) -> PaperSteps:
        zero = np.zeros(width)
        return cls(w=zero, y=zero, guess=zero, sum=zero, L=L)

    def advance(self, g: Array, same: bool) -> PaperSteps:
        k, guess, weighted = (self.k, self.guess, self.sum) if same else (0, self.w, np.zeros_like(g))
        y, weighted = self.w - g / self.L, weighted + (k + 1) / 2 * g
        z, decrement = guess - weighted / self.L, 0.5 * float(g @ g) / self.L
        w = 2 / (k + 3) * z + (k + 1) / (k + 3) * y
        return replace(self, w=w, y=y, guess=guess, sum=weighted, decrement=decrement, k=k + 1)

    def warm_start(self, L: float) -> PaperSteps:
        """Return the start of the next function, with its L, where this one ended, at y (before ``advance``)."""
        return replace(self, w=self.y, L=L)


@dataclass(frozen=True, slots=True)
class SearchedSteps:
    """Nesterov's sequences in a metric, with backtracking and restarts of the momentum; see the file's head.

    curvature: τ, 0 before the first step.
    ridge: ρ at the last step, which began at last_w, with last_F and its gradient last_g.
    y_before: y of the step before.
    t: Nesterov's momentum counter, t_{k+1} = (1 + √(1 + 4 t_k²))/2.
    """

    w: Array
    y: Array
    y_before: Array
    last_w: Array
    last_g: Array
    last_F: float = math.nan
    L: float = 0.0
    decrement: float = math.inf
    curvature: float = 0.0
    ridge: float = 0.0
    t: float = 1.0

    @classmethod
    def begin(cls, width: int) -> SearchedSteps:
        zero = np.zeros(width)
        return cls(w=zero, y=zero, y_before=zero, last_w=zero, last_g=zero)

    def advance(
        self, F: float, g: Array, F_y: float, ridge: float, same: bool, metric: Metric
    ) -> SearchedSteps:
        w, t_before, curvature = self.w, self.t, self.curvature * EASE
        if not self.curvature:
            curvature = metric.first_curvature(g, F)
        elif same and not self._promise_kept(F_y, metric):
            curvature = self.curvature * TIGHTEN
            if F_y > self.last_F:  # the step led uphill: take it back, and again with the larger L
                F, g, w, t_before = self.last_F, self.last_g, self.last_w, 1.0
        if g @ (self.y - self.y_before) > 0:
            t_before = 1.0
        step = metric.solve(ridge, curvature, g)
        y, t = w - step, (1.0 + math.sqrt(1.0 + 4.0 * t_before**2)) / 2.0
        next_w = y + (t_before - 1.0) / t * (y - self.y)
        L, decrement = ridge + curvature * float(metric.values.max()), 0.5 * float(g @ step)
        began = replace(self, last_w=w, last_g=g, last_F=F, y_before=self.y, curvature=curvature, ridge=ridge)
        return replace(began, w=next_w, y=y, L=L, decrement=decrement, t=t)

    def _promise_kept(self, F_y: float, metric: Metric) -> bool:
        """F(y) ≤ F(w) + ∇·(y − w) + ½ ‖y − w‖² in the metric for the last step?"""
        step = self.y - self.last_w
        square = metric.square(self.ridge, self.curvature, step)
        promise = self.last_F + float(self.last_g @ step) + 0.5 * square
        return F_y <= promise + ROUNDING * abs(self.last_F)


Steps = PaperSteps | SearchedSteps
