"""The method of multipliers on a subproblem, with a semismooth Newton method inside.

Rockafellar 1976; Yan and Li 2020; with D = 0 and all at once Chapelle 2007. From β^k, with σ > 0:

    maximise  tᵀβ − ½ βᵀ(K + D) β − ‖β − β^k‖² / 2σ   over the bounds (and Σ β),

by its dual in w = Σ v_i φ(x_i) and b, which is smooth: β(w, b) = clip((t − f − b + β^k/σ) / (D + 1/σ)), f = Kv;
the gradient is w − w(β). A step of Newton's method puts v on β where that is at a bound, and for J, the other rows,
solves

    (K_JJ + D + 1/σ) δ_J + δb = t − f − b + β^k/σ − (D + 1/σ) v − (Kδ of the rows not in J),   Σ (v + δ) as it was.

β is within its bounds all along, so the gap is known at each step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.kernel_machine.objective import not_definite
from llsvm.solvers.optim.augmented_lagrangian import GROWTH, KAPPA
from llsvm.solvers.optim.lapack import Cholesky
from llsvm.solvers.optim.line_search import step_length
from llsvm.solvers.smo.subproblem import WorkingSetProblem
from llsvm.solvers.smo.tuning import SMOTuning
from llsvm.stream.progress import OutOfTime, Progress

Vector = NDArray[np.float64]

_UNEVEN = 1e-3  # of Σ |β|: so far Σ β may be from where it should be at a solution
_REGULAR = (
    1e-2  # of the diagonal: a matrix that is not definite with so much more on its diagonal is not K's doing
)


@dataclass(frozen=True, slots=True)
class NewtonWork:
    """sigma: σ of the next prox, None to begin with: chosen by what still moves. ns: spent. steps: Newton's."""

    sigma: float | None = None
    ns: float = 0.0
    steps: int = 0


class KernelMultipliers:
    """See the file's head. Work on one subproblem; work: on this problem so far."""

    def __init__(
        self, sub: WorkingSetProblem, most_rows: int, tuning: SMOTuning, progress: Progress, work: NewtonWork
    ) -> None:
        """most_rows: of J, for which there is room."""
        self.work = work
        self._sub, self._most_rows, self._tuning, self._progress = sub, most_rows, tuning, progress
        self._v, self._f = sub.beta.copy(), sub.f.copy()
        self._b = sub.intercept(sub.f)

    def run(self, allowed: float, budget: float) -> bool:
        """Go on until the subproblem is solved, or work has taken ``budget`` ns, or time is over; the subproblem
        holds the β reached. Returns False where that does not get on: systems are too large, or never solved."""
        tuning, cuts = self._tuning, 0
        until = self.work.ns + budget
        sigma = self.work.sigma or self._first_sigma()
        while True:
            try:
                solved = self._prox(sigma, allowed)
            except OutOfTime:
                return True
            if solved is None:
                return False
            cuts = 0 if solved else cuts + 1
            sigma *= GROWTH if solved else tuning.sigma_cut
            self.work = replace(self.work, sigma=sigma)
            if self._sub.missing(self._sub.beta, self._sub.f, allowed) <= 1.0 or self.work.ns >= until:
                return True
            if cuts > 8:
                return False

    def _first_sigma(self) -> float:
        """So that a proximal point moves β by a few times what it still moves."""
        sub = self._sub
        if math.isinf(sub.loss.lower):
            return math.inf  # one system is all
        g = sub.gradient - self._b
        ascent = np.where(g > 0, np.minimum(g, np.where(sub.beta < sub.upper, np.inf, 0.0)), 0.0)
        descent = np.where(g < 0, np.where(sub.beta > sub.lower, g, 0.0), 0.0)
        violation = float(ascent.max(initial=0.0) - descent.min(initial=0.0))
        size = float(np.sqrt(np.mean(sub.beta * sub.beta))) or float(sub.cost.mean())
        return GROWTH * size / max(violation, 1e-12)

    def _prox(self, sigma: float, allowed: float) -> bool | None:
        """One prox from the subproblem's β, to which it is put. False where it was not solved in so many steps, and
        β is what it was; None where J has no room. Raises OutOfTime."""
        sub, tuning = self._sub, self._tuning
        start = sub.beta.copy()
        inverse = 1.0 / sigma
        weight = sub.ridge + inverse
        from_start = sub.sign + start * inverse
        for step in range(tuning.inner_steps + 1):
            point = (from_start - self._f - self._b) / weight
            beta = np.clip(point, sub.lower, sub.upper)
            inside = (point > sub.lower) & (point < sub.upper)
            off = beta - self._v
            f = self._f + sub.times(off)
            if self._is_enough(beta, f, inside, allowed):
                return True
            moved, uneven = beta - start, abs(float(beta.sum()) - sub.total)
            if step and off @ (f - self._f) <= KAPPA * inverse * float(moved @ moved):
                even = not sub.free_intercept or uneven <= _UNEVEN * float(np.abs(beta).sum())
                if even and self._put(beta, f, inside):
                    return True
            if step == tuning.inner_steps or not inside.any():
                return False
            self._progress.check()
            if np.count_nonzero(inside) > self._most_rows:
                return None
            ns = self.work.ns + newton_price(int(np.count_nonzero(inside)), len(sub), tuning)
            self.work = replace(self.work, ns=ns, steps=self.work.steps + 1)
            change = self._direction(from_start, weight, off, inside)
            if change is None:
                if inverse > _REGULAR * float(sub.diagonal.max()):
                    raise not_definite()
                return False
            self._move(*change, from_start, weight)
        return False

    def _is_enough(self, beta: Vector, f: Vector, inside: NDArray[np.bool_], allowed: float) -> bool:
        """Is the subproblem solved here? Then it is put there."""
        if self._sub.missing(beta, f, allowed) > 1.0:
            return False
        before = self._sub.beta.copy(), self._sub.f.copy()
        if self._put(beta, f, inside) and self._sub.missing(self._sub.beta, self._sub.f, allowed) <= 1.0:
            return True
        self._sub.take(*before)
        return False

    def _put(self, beta: Vector, f: Vector, inside: NDArray[np.bool_]) -> bool:
        """Let the subproblem be at β, made feasible, if that can be."""
        even = self._sub.balanced(beta, inside)
        if even is None:
            return False
        self._sub.take(even, f if even is beta else f + self._sub.times(even - beta))
        return True

    def _direction(
        self, from_start: Vector, weight: Vector, off: Vector, inside: NDArray[np.bool_]
    ) -> tuple[Vector, float] | None:
        """δ and δb; None where the matrix is not definite."""
        sub, J = self._sub, np.flatnonzero(inside)
        delta = np.where(inside, 0.0, off)
        right = from_start[J] - self._f[J] - self._b - weight[J] * self._v[J] - sub.times(delta)[J]
        A = sub.K[np.ix_(J, J)]
        A.flat[:: len(J) + 1] += weight[J]
        try:
            factor = Cholesky(A, upper=True)
        except np.linalg.LinAlgError:
            return None
        if not sub.free_intercept:
            delta[J] = factor.solve(right)
            return delta, 0.0
        both = factor.solve(np.stack([right, np.ones(len(J))], axis=1))
        missing = sub.total - float(self._v.sum()) - float(delta.sum())
        b = (float(both[:, 0].sum()) - missing) / float(both[:, 1].sum())
        delta[J] = both[:, 0] - b * both[:, 1]
        return delta, b

    def _move(self, delta: Vector, delta_b: float, from_start: Vector, weight: Vector) -> None:
        """Along the direction, to about where the slope vanishes; the whole of it where it is downhill so far."""
        sub, f_delta = self._sub, self._sub.times(delta)
        z, dz = from_start - self._f - self._b, f_delta + delta_b
        first, bend, tied = float(delta @ self._f), float(delta @ f_delta), delta_b * sub.total

        def slope(step: float) -> float:
            beta = np.clip((z - step * dz) / weight, sub.lower, sub.upper)
            return first + step * bend + tied - float(beta @ dz)

        step = step_length(slope, slope(0.0)) or 1.0
        self._v += step * delta
        self._f += step * f_delta
        self._b += step * delta_b


def newton_price(free: int, n: int, tuning: SMOTuning) -> float:
    """ns of a step of Newton's method with so many rows in J, of n."""
    return tuning.factor_price * float(free) ** 3 + 2.0 * float(free) ** 2 + 1.5 * float(n) * free + 200.0 * n
