"""Quadratic models of a step of the method of multipliers on wide data, without their Hessian.

Coordinate descent on a copy by column keeps h_i x_i·p of every row instead of the model's gradient (newGLMNET:
Yuan, Ho & Lin 2012). Where it crawls, the Hessian over the weights that are not zero finishes it; where these are
too many, or the copy has no room, steps are found by conjugate gradients, since a product of the Hessian with a
vector costs two looks at the rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR
from llsvm.objective.penalty import Penalty
from llsvm.process.work import count_updates
from llsvm.solvers.optim.conjugate_gradients import conjugate_gradients
from llsvm.solvers.optim.newton_system import MOST_PRODUCTS
from llsvm.solvers.optim.row_operator import RowOperator
from llsvm.solvers.smsvm.column_kernels import descend_columns
from llsvm.solvers.smsvm.linesearch import search
from llsvm.solvers.smsvm.newton import ROUGHLY, Dense, minimise, newton_step, violation
from llsvm.solvers.smsvm.tuning import SmSVMTuning
from llsvm.stream.progress import Progress

Vector = NDArray[np.float64]
Index = NDArray[np.int64]

_MAX_ROUNDS = 60
"""The most rounds in which a model without a Hessian is solved, each of sweeps or of a step of all columns, and of
a Newton step on the weights that are not zero. Lower, models may be cut off, and the method of multipliers takes
more steps; higher, models that conjugate gradients hardly move take longer to end."""


class ProductModel:
    """½ Σ_i h_i (x_i·p)² + ½ Σ_j ridge_j p_j² over A columns, by products of its Hessian with vectors.

    Weights leave zero by a step of all columns at once, as long as the line search finds best; conjugate gradients
    then move those that are not zero."""

    def __init__(
        self,
        times: Callable[[Index, Vector, Index], Vector],
        diagonal: Vector,
        ridge: Vector,
        tuning: SmSVMTuning,
        progress: Progress,
    ) -> None:
        """times: from positions of columns, p over these, and other positions: Σ_i h_i (x_i·p) x_i over the latter.
        diagonal: (A,) Σ_i h_i x_ij². ridge: (A,). progress: of the run."""
        self._times, self._diagonal, self.ridge = times, diagonal, ridge
        self._tuning, self._progress = tuning, progress
        self._all = np.arange(len(ridge))

    def minimise(self, g: Vector, w: Vector, l1: Vector, until: float) -> Vector:
        """The weights v, (A,), that nearly minimise g·p + ½ pᵀHp + Σ l1_j |v_j|, p = v − w, zeros among them exact:
        violations sum up to ``until`` times what they are at w.

        g, w, l1: (A,). Where time is over, v is what was found so far."""
        v, slope = w.copy(), g.copy()
        goal = until * float(violation(w, g, l1).sum())
        for _ in range(_MAX_ROUNDS):
            if self._descend(v, slope, l1, goal) or self._progress.out_of_time:
                break
            self._second_order(v, slope, l1)
        return v

    def _descend(self, v: Vector, slope: Vector, l1: Vector, goal: float) -> bool:
        """Move all weights, in place, towards where each would be best by itself. Returns whether violations sum
        up to ``goal`` there."""
        bend = self._diagonal + self.ridge
        bend[bend <= 0] = 1.0
        to = v - slope / bend
        d = np.sign(to) * np.maximum(np.abs(to) - l1 / bend, 0.0) - v
        Hd = self.product(self._all, d)
        step, zeros = search(float(slope @ d), float(d @ Hd), v, d, l1)
        if np.isfinite(step):
            v += step * d
            v[zeros] = 0.0
            slope += step * Hd
        return float(violation(v, slope, l1).sum()) <= goal

    def _second_order(self, v: Vector, slope: Vector, l1: Vector) -> None:
        """Newton's step on the weights that are not zero, in place."""
        newton_step(self, v, slope, l1)

    def solve(self, subset: Index, right: Vector) -> Vector:
        """By conjugate gradients, nearly; any multiple of a descent direction does for the line search."""
        scale = self._diagonal[subset] + self.ridge[subset]
        scale[scale <= 0] = 1.0
        d = conjugate_gradients(
            lambda p: self.product(subset, p),
            right,
            lambda r: r / scale,
            ROUGHLY,
            MOST_PRODUCTS,
            self._progress,
        )
        return d if d.any() else right / scale

    def product(self, subset: Index, d: Vector) -> Vector:
        """Return H d, as ``Quadratic.product`` does."""
        return self._times(subset, d, subset) + self.ridge[subset] * d

    def move(self, subset: Index, p: Vector, slope: Vector) -> None:
        """Change the slope by H p, as ``Quadratic.move`` does."""
        slope += self._times(subset, p, self._all)
        slope[subset] += self.ridge[subset] * p


class ColumnModel(ProductModel):
    """The same by a copy of the columns, of which there is only what is in rows with h_i > 0, since the method of
    multipliers and losses that end leave few of these. Sweeps of coordinate descent let weights leave zero."""

    def __init__(
        self,
        columns: CSR,
        h: Vector,
        diagonal: Vector,
        ridge: Vector,
        tuning: SmSVMTuning,
        progress: Progress,
        hessian: Callable[[Index], Dense] | None = None,
    ) -> None:
        """columns, diagonal: what ``gather_columns`` returns. h: (n,) curvatures of its rows, positive. hessian:
        over some positions among the columns, ascending, where it may be had."""
        operator = RowOperator(columns, len(h), 0.0, tuning.piece_bytes, progress)
        h = np.append(h, 0.0)  # of the operator's constant feature, which there is not

        def times(subset: Index, p: Vector, onto: Index) -> Vector:
            rows = np.zeros(len(h))
            operator.add(subset, p, rows)
            return operator.dots(onto, h * rows)

        super().__init__(times, diagonal, ridge, tuning, progress)
        self._columns, self._operator, self._h, self._hessian = columns, operator, h, hessian

    def _descend(self, v: Vector, slope: Vector, l1: Vector, goal: float) -> bool:
        """Sweeps until violations sum up to ``goal``, or until a step of second order is worth its price: it is
        cheaper where there is room for a Hessian over the weights that are not zero."""
        tuning, before, bent = self._tuning, v.copy(), np.zeros(len(self._h))
        by_hessian = self._hessian is not None and np.count_nonzero(v) <= tuning.max_active
        max_sweeps = tuning.sweeps_by_hessian if by_hessian else tuning.sweeps
        made = descend_columns(
            *self._columns, self._h, self._diagonal, self.ridge, l1, slope, before, v, bent, goal, max_sweeps
        )
        count_updates(made * len(v), made * len(self._columns.data), False)
        if made == max_sweeps:
            slope += self._operator.dots(self._all, bent) + self.ridge * (v - before)
        return made < max_sweeps

    def _second_order(self, v: Vector, slope: Vector, l1: Vector) -> None:
        """By the Hessian over the weights that are not zero or will soon not be, while these are not too many."""
        subset = np.flatnonzero((v != 0) | (np.abs(slope) > l1))
        if self._hessian is None or len(subset) > self._tuning.max_active:
            super()._second_order(v, slope, l1)
            return
        new, _ = minimise(self._hessian(subset), slope[subset], v[subset], l1[subset], True, self._progress)
        self.move(subset, new - v[subset], slope)
        v[subset] = new


def active_columns(w: Vector, gradient: Vector, max_active: int, penalty: Penalty) -> Index:
    """Return up to ``max_active`` columns for the active set: those of weights that are not zero and of gradients
    above ½ l1, which may be above l1 after the step. A free intercept is always among them.

    w: (n,) and gradient: (n,), of the objective without L1."""
    size, taken, l1 = np.abs(gradient), w != 0, penalty.l1
    taken[-1] |= penalty.intercept
    nonzero = np.flatnonzero(taken)
    if len(nonzero) >= max_active:  # the worst placed
        violations = np.where(w != 0, np.abs(gradient + l1 * np.sign(w)), size - l1)
        if penalty.intercept:
            violations[-1] = np.inf
        return np.sort(np.argpartition(-violations, max_active - 1)[:max_active])
    # A smaller share than half takes more columns whose weights stay zero; a larger one finds some columns a step
    # late.
    others = np.flatnonzero(~taken & (size > 0.5 * l1))
    room = max_active - len(nonzero)
    if len(others) > room:
        others = others[np.argpartition(-size[others], room - 1)[:room]]
    return np.union1d(nonzero, others)
