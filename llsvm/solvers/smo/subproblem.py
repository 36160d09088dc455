"""The dual of a kernel machine over some of its rows, the others as they are, and Newton's method for it.

    max over β_W of  yᵀβ − ½ βᵀ(K + D) β,   lower ≤ β ≤ upper,   Σ β unchanged where an intercept is not penalised

β = α y; D is the loss's, see KernelObjective. f = Kβ of all rows, so that f of the rows in W knows of the others.
Row i adds c φ(y (f + b)) + β (f + b) − y β + ½ D β² to the gap between primal and dual, whatever b is.

Newton's method is the augmented Lagrangian one (optim/augmented_lagrangian.py; Rockafellar 1976; Yan and Li 2020)
on rows known by their kernel. Weights w = Σ v_i φ(x_i) are known by v and f = Kv + f of the other rows. An
intercept that is not penalised moves with them; its gradient is what Σ β lacks. So points and steps are (2, m +
1) float64, of which sums of products, ``inner``, are needed alone:

    w = [v, b; f, Σ β wanted]      step = [δ, δb; Kδ, 0]      weights of β = [β, ·; Kβ + f of the others, Σ β]

β(w, b) = clip((y − f − b + β^k/σ) / (D + 1/σ)). A step of Newton's method puts v on β where that is at a bound, and
for J, the other rows, solves

    (K_JJ + D + 1/σ) δ_J + δb = y − f − b + β^k/σ − (D + 1/σ) v − (Kδ of the rows not in J),   Σ (v + δ) as it was.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.kernel_machine.matrix import not_definite
from llsvm.solvers.kernel_machine.problem import KernelObjective
from llsvm.solvers.optim.augmented_lagrangian import AugmentedLagrangian, LagrangianPoint
from llsvm.solvers.optim.lapack import Cholesky
from llsvm.solvers.optim.line_search import BEYOND_ROUNDING
from llsvm.solvers.smo.kernels import add_rows
from llsvm.stream.progress import Progress

Array = NDArray[np.float64]

# The first σ lets a proximal point move β by about so many times what it still moves. A larger one takes fewer
# proximal points, with more steps of Newton's method to each; a smaller one takes more points, each of few steps.
FIRST_MOVE = 3.0
# Violation of the optimality conditions, in units of the scores, that counts at least in the first σ: without it, σ
# would have no bound where β is almost solved. Lower lets σ grow until systems are nearly singular, higher keeps σ
# small near the solution, which takes more proximal points.
LEAST_VIOLATION = 1e-6


class WorkingSetProblem:
    """Dual of a kernel machine over the working set W, see the file's head. Arrays are (m,), for the rows in W.

    K: (m, m) float64, C order. objective: of the rows in W. beta, f: as they are now.
    total: Σ β, which is to be kept.
    """

    def __init__(
        self,
        K: NDArray[np.float64],
        objective: KernelObjective,
        beta: Array,
        f: Array,
        dual: float,
        allowed: float,
    ) -> None:
        """beta, f: copied. dual: the objective, of all rows, at β. allowed: it is solved where the gap is at most
        this share of the primal."""
        self.K, self.objective = K, objective
        self.beta, self.f = beta.copy(), f.copy()
        self.total = float(beta.sum())
        self._start, self._f_start, self._dual_start = beta, f, dual
        self._allowed = allowed

    def __len__(self) -> int:
        return len(self.beta)

    def take(self, beta: Array, f: Array) -> None:
        """β and its f."""
        self.beta[:], self.f[:] = beta, f

    def times(self, v: Array) -> Array:
        """K v, by the rows where v is not 0."""
        out, rows = np.zeros(len(v)), np.flatnonzero(v)
        if 2 * len(rows) > len(v):
            return np.asarray(self.K @ v)
        add_rows(self.K, rows, v[rows], out)
        return out

    def dual(self, beta: Array, f: Array) -> float:
        """The objective, of all rows."""
        change = beta - self._start
        quadratic = float(change @ (f + self._f_start + self.objective.ridge * (beta + self._start)))
        return self._dual_start + float(self.objective.sign @ change) - 0.5 * quadratic

    def gap(self, beta: Array, f: Array) -> float:
        """Return what the rows add to the gap, with the best b."""
        of, score = self.objective, f + self.objective.intercept(f, self.total)
        losses = float(of.cost @ of.loss.value(of.sign * score))
        return losses + float(beta @ (score - of.sign + 0.5 * of.ridge * beta))

    def is_solved(self, beta: Array, f: Array) -> bool:
        gap = self.gap(beta, f)
        return gap <= self._allowed * max(self.dual(beta, f) + gap, 0.0)


class NoRoom(Exception):
    """A system of Newton's method is larger than there is room for."""


class KernelRows:
    """LagrangianRows of a subproblem, whose β is α^k.

    rest: see LagrangianRows. start: w to begin with.
    ``point`` finds β at w, which ``weights``, ``newton_step`` and ``move_base`` are then about; ``move_base`` and
    ``is_solved`` also need the ``weights`` of that point.
    """

    def __init__(self, sub: WorkingSetProblem, most_rows: int, progress: Progress) -> None:
        """most_rows: of a system, for which there is room."""
        self._sub, self._most_rows, self._progress = sub, most_rows, progress
        b = sub.objective.intercept(sub.f, sub.total)
        self.start = np.array([np.append(sub.beta, b), np.append(sub.f, sub.total)])
        self.rest = np.zeros_like(self.start)
        self.rest[1, :-1] = sub.f - sub.times(sub.beta)
        self._w, self._step = self.start.copy(), self.rest
        # of the last point: its β, which of them are within their bounds, and its weights
        self._beta, self._inside = sub.beta.copy(), np.zeros(len(sub), bool)
        self._weights = self.start

    @property
    def n_rows(self) -> int:
        return len(self._sub)

    def set_step(self, step: Array) -> None:
        self._step = step

    def take(self, length: float) -> None:
        self._w += length * self._step

    def point(self, sigma: float, length: float = 0.0) -> LagrangianPoint:
        """The dual and the gap of the point are 0 here: ``is_solved`` measures them at its weights."""
        of, b = self._sub.objective, self._w[0, -1] + length * self._step[0, -1]
        f = self._w[1, :-1] + length * self._step[1, :-1]
        point = (of.sign + self._sub.beta / sigma - f - b) / (of.ridge + 1.0 / sigma)
        self._beta = np.clip(point, of.lower, of.upper)
        self._inside = (point > of.lower) & (point < of.upper)
        moved = self._beta - self._sub.beta
        slope = float(self._step[1, :-1] @ self._beta) + self._step[0, -1] * float(self._beta.sum())
        return LagrangianPoint(0.0, 0.0, float(moved @ moved), slope)

    def weights(self) -> Array:
        v, total = self._w[0, :-1], float(self._beta.sum())
        f = self._w[1, :-1] + self._sub.times(self._beta - v)
        b = self._w[0, -1] - (self._sub.total - total)  # so that what Σ β lacks counts in ‖∇ψ‖²
        self._weights = np.array([np.append(self._beta, b), np.append(f, total)])
        return self._weights

    def newton_step(self, gradient: Array, sigma: float) -> Array:
        """Raises OutOfTime, NoRoom, and DataError where K is not definite."""
        sub, of, J = self._sub, self._sub.objective, np.flatnonzero(self._inside)
        if len(J) > self._most_rows:
            raise NoRoom
        self._progress.check()
        (v, f), b, weight = self._w[:, :-1], self._w[0, -1], of.ridge + 1.0 / sigma
        step = np.zeros_like(gradient)
        delta = step[0, :-1]
        delta[:] = np.where(self._inside, 0.0, -gradient[0, :-1])
        if len(J):
            right = of.sign + sub.beta / sigma - f - b - weight * v - sub.times(delta)
            factor = self._factor(J, weight[J])
            if of.free_intercept:
                both = factor.solve(np.stack([right[J], np.ones(len(J))], axis=1))
                missing = sub.total - float(v.sum()) - float(delta.sum())
                step[0, -1] = (float(both[:, 0].sum()) - missing) / float(both[:, 1].sum())
                delta[J] = both[:, 0] - step[0, -1] * both[:, 1]
            else:
                delta[J] = factor.solve(right[J])
        step[1, :-1] = sub.times(delta)
        return step

    def _factor(self, J: NDArray[np.intp], weight: Array) -> Cholesky:
        # with a ridge beyond rounding, where rounding has made a definite K indefinite
        for more in (0.0, BEYOND_ROUNDING):
            A = self._sub.K[np.ix_(J, J)]
            A.flat[:: len(J) + 1] += weight + more * (A.diagonal().max() + weight)
            try:
                return Cholesky(A)
            except np.linalg.LinAlgError:
                pass
        raise not_definite()

    def move_base(self, sigma: float) -> None:
        """The subproblem's β stays where the last point's cannot be made feasible, or is worse."""
        feasible, sub = self._feasible(), self._sub
        if feasible is not None and sub.dual(*feasible) > sub.dual(sub.beta, sub.f):
            sub.take(*feasible)

    def is_solved(self, gap: float, dual: float, weights: Array) -> bool:
        """Return whether the subproblem is solved once the last point's β is made feasible."""
        if not self._sub.is_solved(weights[0, :-1], weights[1, :-1]):
            return False
        feasible = self._feasible()
        return feasible is not None and self._sub.is_solved(*feasible)

    def _feasible(self) -> tuple[Array, Array] | None:
        """β of the last point, with the sum that it is to have, and its f."""
        beta, f = self._weights[:, :-1]
        even = self._sub.objective.balanced(beta, self._sub.total, self._inside)
        return None if even is None else (even, f if even is beta else f + self._sub.times(even - beta))


def newton(sub: WorkingSetProblem, most_rows: int, most_steps: int, progress: Progress) -> tuple[int, bool]:
    """Move the subproblem's β on by so many steps at least, unless it is solved before. Returns how many were made,
    and whether it was. Raises NoRoom, and DataError where K is not definite.

    most_rows: of a system, for which there is room."""
    rows = KernelRows(sub, most_rows, progress)
    method = AugmentedLagrangian(rows, rows.start, _first_sigma(sub), progress, _inner)
    solved = method.solve(rows.is_solved, most_steps)
    return method.steps, solved


def _inner(a: Array, b: Array) -> float:
    """Return the inner product of two points or steps, see the file's head."""
    return float(np.einsum("i,i", a[0], b[1]))


def _first_sigma(sub: WorkingSetProblem) -> float:
    """σ with which a proximal point moves β by a few times what it still moves; ∞ where β has no bounds."""
    of = sub.objective
    if math.isinf(of.loss.lower):
        return math.inf
    g = of.gradient(sub.beta, sub.f) - of.intercept(sub.f, sub.total)
    ascent = np.maximum(np.where(sub.beta < of.upper, g, 0.0), np.where(sub.beta > of.lower, -g, 0.0))
    violation = float(ascent.max(initial=0.0))
    size = float(np.sqrt(np.mean(sub.beta * sub.beta))) or float(of.cost.mean())
    return FIRST_MOVE * size / max(violation, LEAST_VIOLATION)
