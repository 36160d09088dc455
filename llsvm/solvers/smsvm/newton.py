"""Newton's step on a quadratic with an L1 norm: minimise g·p + ½ pᵀHp + Σ l1_j |w_j + p_j| without another look
at the data. l1_j is 0 of a weight that is not penalised.

SmSVM's Algorithms 2 to 4 run on the quadratic model until its minimiser is reached: each step is Newton's on
the active set, the line search is exact, weights that reach zero leave, and those with |∂| > l1 enter. The
paper takes one such step per pass; here a pass is followed by as many as the model needs, since they cost no
pass.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.optim.lapack import factor_with_ridge
from llsvm.solvers.smsvm.column_kernels import sweep_dense
from llsvm.solvers.smsvm.linesearch import search
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
fall. Conjugate gradients for such a step (columns.py) reduce the residual's norm to the same share. Lower takes
work that the next model makes worthless, higher takes more steps."""
_COLUMNS_PER_SWEEP = 24
"""Beyond ``FEW_COLUMNS`` a Newton step on the active set is as dear as one sweep for so many columns, and one sweep
for each so many is made before it. Lower is more sweeps than the step is worth; higher leaves a far larger active
set, which takes far more steps."""


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
