"""Subproblem: the dual of a kernel machine over some of its rows, the others as they are.

    max over β_W of  tᵀβ − ½ βᵀ(K + D) β,   lower ≤ β ≤ upper,   Σ β unchanged where an intercept is not penalised

β = α y; D = ridge/c is the loss's. f = Kβ of all rows, so that f of the rows in W knows of the others. Row i adds
c φ(y (f + b)) + β (f + b) − t β + ½ D β² to the gap between primal and dual, whatever b is.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import PLQLoss
from llsvm.solvers.kernel_machine.intercept import Intercept
from llsvm.solvers.kernel_machine.smoothing import SmoothedLoss
from llsvm.solvers.optim.rounding import ROUNDING
from llsvm.solvers.smo.kernels import add_rows

Vector = NDArray[np.float64]

_EVEN = 1e-15  # of Σ |β|: so far Σ β may be from where it should be


class WorkingSetProblem:
    """See the file's head. Arrays are (m,), for the rows in W.

    K: (m, m) float64, C order. sign, cost: y, which is the target t, and c. lower, upper, ridge: of β.
    diagonal: that of K + D. beta, f: as they are now, changed by whoever works on it.
    """

    def __init__(
        self,
        K: NDArray[np.float64],
        loss: PLQLoss,
        free_intercept: bool,
        sign: Vector,
        cost: Vector,
        beta: Vector,
        f: Vector,
        dual: float,
    ) -> None:
        """beta, f: copied. dual: the objective, of all rows, at β."""
        self.K, self.loss, self.free_intercept = K, loss, free_intercept
        self.sign, self.cost = sign, cost
        self.lower, self.upper = bounds(loss, sign, cost)
        self.ridge = loss.ridge / cost
        self.diagonal = K.diagonal() + self.ridge
        np.maximum(self.diagonal, ROUNDING * float(self.diagonal.max(initial=1e-300)), out=self.diagonal)
        self.beta, self.f = beta.copy(), f.copy()
        self._start, self._f_start, self._dual_start = beta.copy(), f.copy(), dual
        self.total = float(beta.sum())  # to be kept
        self._intercept = Intercept(free_intercept, SmoothedLoss(loss, 1.0), sign, cost)

    def __len__(self) -> int:
        return len(self.beta)

    @property
    def gradient(self) -> Vector:
        """Of the dual objective, t − f − D β."""
        return self.sign - self.f - self.ridge * self.beta

    @property
    def free(self) -> NDArray[np.bool_]:
        """Which rows are between their bounds."""
        return (self.beta > self.lower) & (self.beta < self.upper)

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

    def intercept(self, f: Vector) -> float:
        """The best b for f."""
        return self._intercept.exact(f, self.total)

    def dual(self, beta: Vector, f: Vector) -> float:
        """The objective, of all rows."""
        change = beta - self._start
        quadratic = float(change @ (f + self._f_start))
        ridge = float(self.ridge @ (beta * beta - self._start * self._start)) if self.loss.ridge else 0.0
        return self._dual_start + float(self.sign @ change) - 0.5 * (quadratic + ridge)

    def gap(self, beta: Vector, f: Vector) -> float:
        """What the rows add to it, with the best b."""
        score = f + self.intercept(f)
        losses = float(self.cost @ self.loss.value(self.sign * score))
        ridge = 0.5 * float(self.ridge @ (beta * beta)) if self.loss.ridge else 0.0
        return losses + float(beta @ (score - self.sign)) + ridge

    def missing(self, beta: Vector, f: Vector, allowed: float) -> float:
        """The gap over what it may be, a share ``allowed`` of the primal; at most 1: solved."""
        gap = self.gap(beta, f)
        primal = max(self.dual(beta, f) + gap, 0.0)
        return gap / (allowed * primal) if primal > 0 else (0.0 if gap <= 0 else math.inf)

    def balanced(self, beta: Vector, movable: NDArray[np.bool_]) -> Vector | None:
        """β with the sum that it is to keep, see ``balanced``."""
        if not self.free_intercept:
            return beta
        return balanced(beta, self.lower, self.upper, self.total, movable)


def bounds(loss: PLQLoss, sign: Vector, cost: Vector) -> tuple[Vector, Vector]:
    """Of β, (n,) each; sign, cost: (n,) y and c."""
    ends = sign * (loss.lower * cost), sign * (loss.upper * cost)
    return np.minimum(*ends), np.maximum(*ends)


def balanced(
    beta: Vector, lower: Vector, upper: Vector, total: float, movable: NDArray[np.bool_]
) -> Vector | None:
    """β within its bounds that sums to ``total``, moved by what the movable rows have room for; None where that is
    too little."""
    missing = total - float(beta.sum())
    if abs(missing) <= _EVEN * float(np.abs(beta).sum()):
        return beta
    room = np.where(movable, (upper - beta) if missing > 0 else (beta - lower), 0.0)
    endless = np.isinf(room)
    if endless.any():
        room = endless.astype(float)
    elif float(room.sum()) <= abs(missing):
        return None
    return np.clip(beta + missing / float(room.sum()) * room, lower, upper)
