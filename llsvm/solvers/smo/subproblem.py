"""Subproblem: the dual of a kernel machine over some of its rows, the others as they are.

    max over β_W of  yᵀβ − ½ βᵀ(K + D) β,   lower ≤ β ≤ upper,   Σ β unchanged where an intercept is not penalised

β = α y; D is the loss's, see KernelObjective. f = Kβ of all rows, so that f of the rows in W knows of the others.
Row i adds c φ(y (f + b)) + β (f + b) − y β + ½ D β² to the gap between primal and dual, whatever b is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.kernel_machine.objective import KernelObjective
from llsvm.solvers.smo.kernels import add_rows

Vector = NDArray[np.float64]


class WorkingSetProblem:
    """Dual of a kernel machine over the working set W, see the file's head. Arrays are (m,), for the rows in W.

    K: (m, m) float64, C order. objective: of the rows in W. beta, f: as they are now.
    total: Σ β, which is to be kept.
    """

    def __init__(
        self,
        K: NDArray[np.float64],
        objective: KernelObjective,
        beta: Vector,
        f: Vector,
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

    def take(self, beta: Vector, f: Vector) -> None:
        """β and its f."""
        self.beta[:], self.f[:] = beta, f

    def times(self, v: Vector) -> Vector:
        """K v, by the rows where v is not 0."""
        out, rows = np.zeros(len(v)), np.flatnonzero(v)
        if 2 * len(rows) > len(v):
            return np.asarray(self.K @ v)
        add_rows(self.K, rows, v[rows], out)
        return out

    def dual(self, beta: Vector, f: Vector) -> float:
        """The objective, of all rows."""
        change = beta - self._start
        quadratic = float(change @ (f + self._f_start + self.objective.ridge * (beta + self._start)))
        return self._dual_start + float(self.objective.sign @ change) - 0.5 * quadratic

    def gap(self, beta: Vector, f: Vector) -> float:
        """Return what the rows add to the gap, with the best b."""
        of, score = self.objective, f + self.objective.intercept(f, self.total)
        losses = float(of.cost @ of.loss.value(of.sign * score))
        return losses + float(beta @ (score - of.sign + 0.5 * of.ridge * beta))

    def is_solved(self, beta: Vector, f: Vector) -> bool:
        gap = self.gap(beta, f)
        return gap <= self._allowed * max(self.dual(beta, f) + gap, 0.0)
