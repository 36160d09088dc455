"""Newton's step on a quadratic with an L1 norm: minimise g·p + ½ pᵀHp + Σ l1_j |w_j + p_j| without another look
at the data. l1_j is 0 of a weight that is not penalised.

SmSVM's Algorithms 2 to 4 run on the quadratic model until its minimiser is reached: each step is Newton's on
the active set, the line search is exact (section 2.2, Algorithm 4), weights that reach zero leave, and those with
|∂| > l1 enter. The paper takes one such step per pass; here a pass is followed by as many as the model needs, since
they cost no pass.

``Dense`` is the model with its Hessian. ``ProductModel`` and ``ColumnModel`` are models of a step of the method of
multipliers on wide data, without it. Coordinate descent on a copy by column keeps h_i x_i·p of every row instead of
the model's gradient (newGLMNET: Yuan, Ho & Lin 2012). Where it crawls, the Hessian over the weights that are not
zero finishes it; where these are too many, or the copy has no room, steps are found by conjugate gradients, since a
product of the Hessian with a vector costs two looks at the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR
from llsvm.objective.penalty import Penalty
from llsvm.process.work import count_updates
from llsvm.solvers.optim.conjugate_gradients import conjugate_gradients
from llsvm.solvers.optim.lapack import factor_with_ridge
from llsvm.solvers.optim.newton_system import MOST_PRODUCTS
from llsvm.solvers.optim.row_operator import RowOperator
from llsvm.solvers.smsvm.kernels import descend_columns, sweep_dense
from llsvm.solvers.smsvm.tuning import SmSVMTuning
from llsvm.stream.progress import Progress

Vector = NDArray[np.float64]
Index = NDArray[np.int64]

FEW_COLUMNS = 512
"""The most columns whose Hessian is cheap: up to so many all columns are active, however few the rows are, and the
model's minimiser is found exactly. Higher, models are solved further than the next pass can use: without this limit
wide rows with L1 take four times the work. Lower, steps are more."""
_MAX_ROUNDS = 60
"""The most rounds, each of sweeps and of Newton steps on the active set, in which a model is solved. It ends rounds
that rounding keeps going. Lower, models may be cut off, and their steps take more passes; higher, such rounds take
longer to end."""
_EXACTLY = 1e-8
"""The share of the first violations of the optimality conditions at which the minimiser of a model is found, where
it is to be exact. Lower, rounds go on for digits that the next pass cannot use: at 1e-13 models took up to a fifth
more decompositions. Higher, the model's error shows in the next step."""
ROUGHLY = 1e-3
"""Where the minimiser is only a step, as beyond ``FEW_COLUMNS``, it is near enough when the optimality conditions
are violated by no more than this share of what they were, or a round brings no more than this share of the whole
fall. Conjugate gradients (``ProductModel``) reduce the residual's norm to the same share. Lower takes
work that the next model makes worthless, higher takes more steps."""
_MAX_ROUNDS_WITHOUT_HESSIAN = 60
"""The most rounds in which a model without a Hessian is solved, each of sweeps or of a step of all columns, and of
a Newton step on the weights that are not zero. Lower, models may be cut off, and the method of multipliers takes
more steps; higher, models that conjugate gradients hardly move take longer to end."""
_COLUMNS_PER_SWEEP = 24
"""Beyond ``FEW_COLUMNS`` a Newton step on the active set is as dear as one sweep for so many columns, and one sweep
for each so many is made before it. Lower is more sweeps than the step is worth; higher leaves a far larger active
set, which takes far more steps."""


def search(
    slope: float, curvature: float, w: NDArray[np.float64], d: NDArray[np.float64], l1: NDArray[np.float64]
) -> tuple[float, NDArray[np.bool_]]:
    """The step s ≥ 0 that minimises φ(s) = slope s + ½ curvature s² + Σ l1_i |w_i + s d_i| (eq. 2.1), and
    what it makes zero.

    w, d, l1: (n,) float64. curvature ≥ 0, l1 ≥ 0. φ' jumps upwards at the breakpoints −w_i/d_i > 0 and is linear
    between them, so its zero is found by bisection over the sorted breakpoints (eq. 2.3).
    Returns the step (∞ where φ falls for ever) and an (n,) mask of the w_i + s d_i of some l1_i that the step makes
    exactly zero.
    """
    moves = (d != 0) & (l1 > 0)
    breaks = np.full(len(w), -1.0)
    np.divide(-w, d, out=breaks, where=moves & (w != 0))
    crossing = np.flatnonzero(breaks > 0)
    crossing = crossing[np.argsort(breaks[crossing], kind="stable")]
    at = breaks[crossing]
    # φ'(s) just after breakpoint number j is start + curvature s + jumps[j]: those crossed change their sign
    signs = np.where(w != 0, np.sign(w), np.sign(d))
    start = slope + float((l1 * signs) @ d)
    jumps = np.concatenate([[0.0], 2 * np.cumsum(l1[crossing] * np.abs(d[crossing]))])
    none = np.zeros(len(w), bool)
    if start >= 0:
        return 0.0, none
    low, high = 0, len(at)  # the zero of φ' is after breakpoint number low - 1 and not after number high
    while low < high:
        middle = (low + high) // 2
        if start + curvature * at[middle] + jumps[middle + 1] >= 0:
            high = middle
        else:
            low = middle + 1
    before = start + jumps[low]  # φ' between breakpoints low - 1 and low is before + curvature s
    if low < len(at) and before + curvature * at[low] < 0:  # φ' jumps over zero at the breakpoint
        none[crossing[at == at[low]]] = True
        return float(at[low]), none
    if curvature <= 0:
        return (float("inf"), none) if before < 0 else (float(at[low - 1]) if low else 0.0, none)
    return -before / curvature, none


class Quadratic(Protocol):
    """½ pᵀHp over n columns. Vectors are (n,) float64; ``subset`` are positions among them, v = w + p, and
    slope = g + Hp is changed in place."""

    def solve(self, subset: Index, right: Vector) -> Vector:
        """A descent direction near H⁻¹ right, H and right over ``subset`` alone."""
        ...

    def product(self, subset: Index, d: Vector) -> Vector:
        """H d, H and d over ``subset`` alone."""
        ...

    def move(self, subset: Index, p: Vector, slope: Vector) -> None:
        """Take in that v has changed by p over ``subset``."""
        ...


class Dense:
    """H as a symmetric, positive semidefinite matrix (n, n)."""

    def __init__(self, H: Vector) -> None:
        self.H = H
        self._subset, self._part_of_subset = np.empty(0, np.int64), np.empty((0, 0))

    def sweep(self, v: Vector, slope: Vector, l1: Vector) -> float:
        """One sweep of coordinate descent over v, in place: weights enter and leave. Returns how much the model
        fell."""
        subset = np.flatnonzero((v != 0) | (np.abs(slope) > l1))
        return float(sweep_dense(self.H, subset, l1, v, slope))

    def solve(self, subset: Index, right: Vector) -> Vector:
        """Solve with the Hessian, or, where it is singular, with a ridge: a share of its diagonal (its mean where
        that is 0), as large as it takes."""
        H = self._part(subset)
        factor = factor_with_ridge(H.copy())
        return right / np.maximum(H.diagonal(), 1e-300) if factor is None else factor.solve(right)

    def product(self, subset: Index, d: Vector) -> Vector:
        return np.asarray(self._part(subset) @ d)

    def move(self, subset: Index, p: Vector, slope: Vector) -> None:
        slope += p @ self.H[subset]

    def _part(self, subset: Index) -> Vector:
        if len(subset) == len(self.H):
            return self.H
        if not np.array_equal(subset, self._subset):
            self._subset, self._part_of_subset = subset, self.H[np.ix_(subset, subset)]
        return self._part_of_subset


def minimise(
    model: Dense, g: Vector, w: Vector, l1: Vector, roughly: bool = False, progress: Progress | None = None
) -> tuple[Vector, float]:
    """The weights v that minimise g·p + ½ pᵀHp + Σ l1_j |v_j|, p = v − w, the zeros among them exact; and how much
    the model falls from w to there.

    g, w, l1: (n,). roughly: the minimiser may be missed by a little. progress: of the run; where time is over, v is
    what was found so far.
    """
    progress = progress or Progress()
    share = ROUGHLY if roughly else _EXACTLY
    sweeps = max(1, len(w) // _COLUMNS_PER_SWEEP) if roughly else 1
    v, slope = w.copy(), g.copy()  # slope: the quadratic's gradient at v
    first, total, fall = 0.0, 0.0, np.inf
    for _ in range(_MAX_ROUNDS):
        largest = float(np.max(violation(v, slope, l1), initial=0.0))
        first = first or largest
        if largest <= share * first or progress.out_of_time:
            break
        last, fall, solved = fall, 0.0, False
        for _ in range(sweeps if l1.any() else 0):
            more = model.sweep(v, slope, l1)
            fall += more
            solved = float(np.max(violation(v, slope, l1), initial=0.0)) <= share * first
            if solved or more <= share * max(total, fall):
                break
        while not solved:
            before = np.count_nonzero(v)
            more = newton_step(model, v, slope, l1)
            fall += more
            is_settled = np.count_nonzero(v) == before or more <= share * (total + fall)
            if is_settled or roughly or progress.out_of_time:
                break  # each further step has a weight less, so this ends
        total += fall
        # Without L1 one step minimises the model: others correct its rounding, as long as each brings at most half
        # of what the one before it did.
        if fall <= share * total or (not l1.any() and fall > 0.5 * last):
            break
    p = v - w
    return v, float(-0.5 * (p @ (g + slope)) + _norm(l1, w) - _norm(l1, v))


def _norm(l1: Vector, v: Vector) -> float:
    return float((l1 * np.abs(v)).sum())


def violation(v: Vector, slope: Vector, l1: Vector) -> Vector:
    """|smallest subgradient| of each weight."""
    return np.where(v != 0, np.abs(slope + l1 * np.sign(v)), np.maximum(np.abs(slope) - l1, 0.0))


def newton_step(model: Quadratic, v: Vector, slope: Vector, l1: Vector) -> float:
    """Newton's step on the weights that are not zero, in place, with the exact line search. Returns how much the
    model fell, 0 where v has to stay."""
    active = np.flatnonzero((v != 0) | (l1 == 0))
    s, now, l1 = slope[active], v[active], l1[active]
    d = -model.solve(active, s + l1 * np.sign(now))
    Hd = model.product(active, d)
    step, zeros = search(float(s @ d), float(d @ Hd), now, d, l1)
    step = step if np.isfinite(step) else 1.0
    to = now + step * d
    to[zeros] = 0.0
    p = to - now
    fall = float(-(s @ p) - 0.5 * step * (p @ Hd)) + _norm(l1, now) - _norm(l1, to)
    if not fall > 0:
        return 0.0
    v[active] = to
    model.move(active, p, slope)
    return fall


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
        for _ in range(_MAX_ROUNDS_WITHOUT_HESSIAN):
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
