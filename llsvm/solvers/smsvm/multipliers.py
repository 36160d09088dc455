"""The method of multipliers with semismooth Newton steps and an L1 norm, over rows at hand (Yan & Li 2020; Li,
Sun & Toh 2018): where SmSVM's smoothing crawls, since classes are nearly separable, C is large or columns are raw.

Primal:  P(w) = Σ_i C_i φ(m_i, t_i) + (l2/2) ‖w‖² + l1 ‖w‖₁ over these rows (``AtHand``), the dual variables of
all others fixed: their part is linear (``Rest``). Proximal points (Rockafellar 1976) of its dual, from α^k on,
are found in the primal: with σ > 0,

    α_i(w) = argmax over a of  a (t_i − m_i(w)) − epsilon |a| − ½ ridge a²/C_i − (a − α_i^k)²/(2σ)
    ψ(w) = (l2/2) ‖w‖² + l1 ‖w‖₁ + Σ of these maxima

ψ is piecewise quadratic but for its L1 norm, as SmSVM's model is, whose minimiser (newton.py) is the step, with a
line search. Once that has led to the proximal point, α^k = α(w), and σ grows. The smoothing has α = C ψ'_a(1 − m),
so that with a large C the last digits of a margin decide; here α is a variable of its own, and σ moderate: the dual
is known to as many digits as the primal. Margins are kept, and moved by what each step adds to them, never summed
anew: what rounding they have is then the same in every step.

With many columns steps are on working sets of columns: weights that are not zero, and the worst of the others. A
step copies its columns of the rows that bend, or where that copy has no room makes do with products (newton.py).
The logistic loss, and smooth losses without bounds on α, need no proximal points by column: with σ = ∞ the steps
are Newton's on the primal (newGLMNET: Yuan, Ho & Lin 2012).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix, parts_of
from llsvm.objective.losses import Loss, PLQLoss
from llsvm.objective.penalty import Penalty
from llsvm.solvers.optim.augmented_lagrangian import KAPPA, MOST_STANDING, MOST_STEPS, growth_after
from llsvm.solvers.optim.kernels import DUAL, GAP, MOVED, N_TOTALS, SLOPE, logistic_point, proximal
from llsvm.solvers.optim.lapack import mirror
from llsvm.solvers.optim.line_search import step_length
from llsvm.solvers.optim.row_operator import RowOperator
from llsvm.solvers.smsvm.descent import LEAST_CURVATURE, SAFEGUARD
from llsvm.solvers.smsvm.kernels import gather_columns
from llsvm.solvers.smsvm.newton import (
    FEW_COLUMNS,
    ColumnModel,
    Dense,
    ProductModel,
    active_columns,
    minimise,
    violation,
)
from llsvm.solvers.smsvm.sums import Labels, RowsLeftOut, dual_value, place_of
from llsvm.solvers.smsvm.tuning import SmSVMTuning
from llsvm.stream.progress import Progress

Vector = NDArray[np.float64]
Index = NDArray[np.int64]

MULTIPLIER_ROW_BYTES = 104
"""Bytes that the method takes for each row of a problem at hand, mostly for 64-bit vectors of rows. Too low, a run
takes more memory than its limit; too high, limits that have room for all rows count as too small for it."""
_MODEL_ACCURACY = 0.05
"""The share of the violations that may be left of each step's model by columns. Lower takes more sweeps per step,
higher more steps."""
_NEW_COLUMNS = 200
"""The columns of a step's working set beside those in proportion to the weights that are not zero: the set grows by
them while such weights are few. With fewer, more steps go by until all columns that get a weight are found; with
more, steps work on columns whose weights stay zero."""
_COLUMNS_GROWTH = 2
"""The columns of a step's working set for each weight that is not zero, its own included. More and fewer trade what
they do of ``_NEW_COLUMNS``, where weights are many."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Sums over the rows that the method of multipliers does not work on, their α_i being fixed.

    v: (d + 1,) Σ α_i y_i x_i.
    total: Σ C_i b(α_i / C_i).
    loss: their loss at the weights ``at``, (d + 1,), from where it goes on along −v.
    """

    v: Vector
    total: float
    loss: float
    at: Vector

    @classmethod
    def of(cls, rows: RowsLeftOut) -> Rest:
        """Return the sums of rows as SmSVM leaves them out, at the α_i that they have."""
        sums = rows.sums
        return cls(sums.v, sums.alpha - sums.smoothing_gap, sums.loss, rows.at)

    @classmethod
    def nothing(cls, n_columns: int) -> Rest:
        """Return the sums of rows without a loss."""
        none = np.zeros(n_columns)
        return cls(none, 0.0, 0.0, none)


class AtHand:
    """n rows of one binary problem. labels: y_i, t_i, and C_i > 0. max_active: columns of the largest Hessian that
    has room."""

    def __init__(
        self,
        X: Matrix,
        labels: Labels,
        bias: float,
        n_weights: int,
        copied_values: int,
        tuning: SmSVMTuning,
        progress: Progress,
    ) -> None:
        """bias: value of the constant feature, and n_weights: d + 1 with its weight. copied_values: that a step may
        copy by column. progress: of the run."""
        # rows without a cost get one by which can be divided
        self.labels = labels._replace(cost=np.maximum(labels.cost, np.finfo(np.float64).tiny))
        self.n_weights, self.max_active = n_weights, tuning.max_active
        self._bias, self._tuning, self.progress = bias, tuning, progress
        self._rows = RowOperator(X, n_weights - 1, bias, tuning.piece_bytes, progress)
        self._copied_values = copied_values

    def margins(self, w: Vector) -> Vector:
        """(n,) y_i w·x_i."""
        return self.labels.sign * self._rows.dots(self._rows.all, w)

    def weights(self, alpha: Vector) -> Vector:
        """(d + 1,) Σ α_i y_i x_i."""
        out = np.zeros(self.n_weights)
        self._rows.add(self._rows.all, alpha * self.labels.sign, out)
        return out

    def squares(self, factor: Vector) -> Vector:
        """(d + 1,) Σ factor_i x_i²; factor: (n,)."""
        out = np.zeros(self.n_weights)
        self._rows.add_squares(self._rows.all, factor, out)
        return out

    def model_by_products(self, h: Vector, active: Index, ridge: Vector, full: bool) -> ProductModel:
        """½ Σ h_i (x_i·p)² + ½ Σ ridge_j p_j² over the active columns, by a copy of these where it has room, else
        by products with the rows. full: enough rows bend for a Hessian that is far from singular. Raises OutOfTime.
        """
        self.progress.check()
        n, bent = self.n_weights, np.flatnonzero(h)
        given, max_values = (ridge, self._tuning, self.progress), self._copied_values
        if max_values:
            rows = *parts_of(self._rows.X), self._bias, bent, h[bent], place_of(active, n)
            *columns, diagonal = gather_columns(*rows, len(active), max_values)
            if columns[0][-1] <= max_values:
                hessian = (lambda subset: self.model(h, active[subset], ridge[subset])) if full else None
                return ColumnModel(CSR(*columns), h[bent], diagonal, *given, hessian)

        def times(subset: Index, p: Vector, onto: Index) -> Vector:
            """Return Xᵀ diag(h) X p at the columns ``onto``, where p has the columns ``subset``. Both are positions
            among the active columns; the ridge is not part of it."""
            whole = np.zeros(n)
            whole[active[subset]] = p
            return self.weights(h * self.margins(whole))[active[onto]]

        return ProductModel(times, self.squares(h)[active], *given)

    def model(self, h: Vector, active: Index, ridge: Vector) -> Dense:
        """The same with its Hessian. Raises OutOfTime."""
        self.progress.check()
        H = np.zeros((len(active), len(active)))
        bent = np.flatnonzero(h)
        self._rows.outer(bent, h[bent], H, place_of(active, self.n_weights))
        mirror(H)
        H.flat[:: len(H) + 1] += ridge
        return Dense(H)


class RowDuals(NamedTuple):
    """α_i(w) and the curvatures of ψ's terms, (n,) each, and totals of rows, whose positions ``proximal`` names."""

    alpha: Vector
    curvature: Vector
    totals: Vector


class L1Multipliers:
    """Solves the problem of rows at hand; see the file's head.

    w: (d + 1,) weights, zeros among them exact; primal: theirs; dual: the largest that was met, of all rows; steps:
    Newton's, so far."""

    def __init__(
        self, rows: AtHand, rest: Rest, loss: Loss, penalty: Penalty, w: Vector, by_columns: bool
    ) -> None:
        """w: (d + 1,) weights to begin with, which are copied. by_columns: steps are on working sets of columns,
        without a Hessian over all of these."""
        self._rows, self._rest, self._loss, self._penalty = rows, rest, loss, penalty
        self._least_curvature = LEAST_CURVATURE
        n = len(rows.labels.sign)
        # at w after ``_point(residual, 0.0)``, which each round of ``solve`` begins with; a line search moves it
        self._duals = RowDuals(np.empty(n), np.empty(n), np.zeros(N_TOTALS))
        self._base, self._inverse = np.zeros(n), 0.0  # α^k and 1/σ
        self._residual = rows.labels.target - rows.margins(w)
        self._by_columns = by_columns
        self._largest = rows.squares(np.ones(n))  # the Hessian's diagonal, were all rows inside, but for σ
        if self._direct:
            self._largest *= loss.smoothness * float(rows.labels.cost.max(initial=0.0))
        self.w, self.steps = w.copy(), 0
        self.primal, self.dual = np.inf, -np.inf

    @property
    def _direct(self) -> bool:
        """Return whether steps are on the primal itself, σ being ∞."""
        return self._loss.bends_everywhere and self._by_columns

    def solve(self, unit: float, gap: float) -> None:
        """Move on until P − D ≤ gap · P, or where nothing is left to gain. Raises OutOfTime.
        unit: what margins are measured in."""
        if not self._direct:
            self._inverse = self._first_inverse(unit)
        in_point = standing = 0
        for _ in range(MOST_STEPS):
            self._point(self._residual, 0.0)
            v = self._rows.weights(self._duals.alpha) + self._rest.v
            self._measure(v)
            if self.primal - self.dual <= gap * abs(self.primal):
                return
            gradient, length = self._penalty.l2_of(len(self.w)) * self.w - v, 0.0
            if self._direct or not in_point or not self._is_solved(gradient, gap):
                length = self._step(gradient)
                self.steps, in_point = self.steps + 1, in_point + 1
                standing += length == 0.0  # rounding is all that is left of the step
            if standing > MOST_STANDING:
                return
            if length == 0.0:
                self._inverse /= growth_after(in_point)
                self._base[:], in_point = self._duals.alpha, 0

    def _first_inverse(self, unit: float) -> float:
        """1/σ, so that α moves by a tenth of what it comes to if all rows share the objective: D ≤ Σ α_i t_i."""
        losses = float(np.sum(self._rows.labels.cost * self._loss.value(-self._residual, 0.0)))
        primal = losses + self._penalty.value(self.w) + self._rest.loss
        # 1e-300 keeps quotients finite where the objective is 0
        return max(len(self._residual) * unit * unit / max(0.1 * primal, 1e-300), 1e-300)

    def _step(self, gradient: Vector) -> float:
        """Move on by Newton's step, and return how much of it the line search has taken. Raises OutOfTime."""
        p, zeros = self._newton(gradient)
        change = self._rows.margins(p)
        length = self._line_search(change, p, zeros)
        # Where few rows are inside their bounds the Hessian is singular without L2, and its least curvature is all
        # that keeps steps short.
        self._least_curvature *= SAFEGUARD if length < 1.0 else 1.0 / SAFEGUARD
        self._least_curvature = min(max(self._least_curvature, LEAST_CURVATURE), 1.0)
        self.w += length * p
        if length == 1.0:
            self.w[zeros] = 0.0
        self._residual -= length * change
        return length

    def _is_solved(self, gradient: Vector, gap: float) -> bool:
        """Return whether the proximal point is near enough (criterion B of Rockafellar 1976). With L2 the gradient
        tells; without, the conditions must hold well enough for the whole problem's."""
        violations = violation(self.w, gradient, self._penalty.l1_of(len(self.w)))
        if self._penalty.intercept:
            # balancing α then costs the dual of the hinge no more than a tenth of the gap
            if violations[-1] > 0.1 * gap * float(np.abs(self._duals.alpha).sum()):
                return False
            violations = violations[:-1]
        if self._penalty.l2 == 0:
            # α is scaled down by the share by which a gradient is beyond l1: by a fifth of the gap at most
            return float(violations.max(initial=0.0)) <= 0.2 * gap * self._penalty.l1
        moved = float(self._duals.totals[MOVED])
        return float(violations @ violations) / self._penalty.l2 <= KAPPA * moved * self._inverse

    def _measure(self, v: Vector) -> None:
        """Primal and dual at w."""
        rows, rest, penalty, alpha, w = self._rows, self._rest, self._penalty, self._duals.alpha, self.w
        losses = self._duals.totals[GAP] + float(alpha @ self._residual) + self._duals.totals[DUAL]
        self.primal = float(losses + penalty.value(w) + rest.loss - rest.v @ (w - rest.at))
        if penalty.intercept:
            balanced = self._balanced()
            if balanced is None:
                return
            alpha = balanced
            v = rows.weights(alpha) + rest.v
            v[-1] = 0.0
        total, squares = dual_value(self._loss, alpha, rows.labels)
        longest = 1.0 if math.isfinite(self._loss.upper) else math.inf
        self.dual = max(self.dual, penalty.dual(total + rest.total, v, squares, longest))

    def _balanced(self) -> Vector | None:
        """(n,) α with Σ α_i y_i = 0: those of the side that has too much are made smaller.
        None where that is not enough."""
        signed = self._duals.alpha * self._rows.labels.sign
        plus = float(signed[signed > 0].sum())
        minus = float(signed[signed < 0].sum())
        rest = float(self._rest.v[-1])
        over = plus + minus + rest
        side, other = (plus, minus + rest) if over > 0 else (minus, plus + rest)
        if over == 0.0:
            return self._duals.alpha
        if abs(over) > abs(side):
            return None
        # not 1 − over / side, of which nothing is left where one side is much larger
        return np.where(signed * over > 0, self._duals.alpha * (-other / side), self._duals.alpha)

    def _newton(self, gradient: Vector) -> tuple[Vector, NDArray[np.int64]]:
        """The step to the minimiser of the model where ψ's gradient without L1 is this, and which weights it makes
        zero."""
        w, n, max_active = self.w, len(self.w), self._rows.max_active
        if not self._by_columns and n <= min(FEW_COLUMNS, max_active):
            active = np.arange(n)
        else:
            size = min(n, _NEW_COLUMNS + _COLUMNS_GROWTH * int(np.count_nonzero(w)))
            active = active_columns(w, gradient, size, self._penalty)
        largest = self._largest if self._direct else self._largest / self._inverse
        l2 = self._penalty.l2_of(n)
        ridge = np.where(l2 > 0, l2, self._least_curvature * np.where(largest > 0, largest, 1.0))
        now, slope, l1 = w[active], gradient[active], self._penalty.l1_of(n)[active]
        h, ridge_of_active = self._duals.curvature, ridge[active]
        if self._by_columns or len(active) > max_active:
            products = self._rows.model_by_products(h, active, ridge_of_active, self._direct)
            new = products.minimise(slope, now, l1, _MODEL_ACCURACY)
        else:
            roughly = len(active) > FEW_COLUMNS
            new, _ = minimise(
                self._rows.model(h, active, ridge_of_active), slope, now, l1, roughly, self._rows.progress
            )
        p = np.zeros(n)
        p[active] = new - now
        return p, active[(new == 0) & (l1 > 0)]

    def _point(self, change: Vector, step: float) -> None:
        """Set α, curvatures and totals to those at the weights after so much of a step, which changes margins by so
        much."""
        loss, (_, target, cost) = self._loss, self._rows.labels
        if isinstance(loss, PLQLoss):
            residual, base, inverse = self._residual, self._base, self._inverse
            lower, upper, epsilon = float(loss.lower), float(loss.upper), float(loss.epsilon)
            ridge, duals = loss.ridge, self._duals
            proximal(residual, change, step, base, cost, inverse, lower, upper, ridge, epsilon, *duals)
            return
        logistic_point(self._residual - target, change, step, cost, *self._duals)
        self._duals.totals[DUAL] -= self._duals.alpha @ target

    def _line_search(self, change: Vector, p: Vector, zeros: NDArray[np.int64]) -> float:
        """The step along p, as ψ' tells."""
        moving = np.flatnonzero(p)  # few weights move, where there are columns
        w, n = self.w[moving], len(self.w)
        l1, l2 = self._penalty.l1_of(n)[moving], self._penalty.l2_of(n)[moving]
        rest = float(self._rest.v @ p)
        p = p[moving]
        at_w, square = float((l2 * w) @ p), float((l2 * p) @ p)
        is_zero = np.isin(moving, zeros)

        def derivative(t: float) -> float:
            self._point(change, t)
            there = w + t * p
            if t == 1.0:
                there[is_zero] = 0.0
            kinks = np.where(there == 0, np.abs(p) if t == 0 else -np.abs(p), np.sign(there) * p)
            return at_w + t * square + float(l1 @ kinks) - float(self._duals.totals[SLOPE]) - rest

        return step_length(derivative, derivative(0.0))
