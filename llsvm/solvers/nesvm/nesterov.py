"""Nesterov's iterations: from the gradient at w^k to the next points y^k and w^{k+1}, of one problem.

``PaperSteps`` are eqs. 33-35 with a given Lipschitz constant. ``SearchedSteps`` are the same two sequences with
what makes them fast: steps in a metric (metric.py), y^k = w^k − (ρ I + τ G)⁻¹ ∇F(w^k), whose τ falls and rises by
the decrease that y^k brought (backtracking; F(y^k) is measured in the pass that measures the gradient at w^{k+1}),
and momentum that starts anew when it points uphill (O'Donoghue and Candès 2015, gradient scheme).

Both have w, where the gradient is wanted, and y, where the value is, the better solution: (width,) each, always the
same arrays; L, the Lipschitz constant as assumed by the last step; and the decrement ½ ∇F·(w − y), what that step
promised to gain. ``advance`` takes F and g, the value and the gradient at w; F_y, the value at y; ridge, ρ, the
curvature of the regulariser; and whether F is the function of the last call, else w is a warm start for another.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.nesvm.metric import Metric
from llsvm.solvers.nesvm.tuning import NESVMTuning
from llsvm.solvers.optim.rounding import ROUNDING
from llsvm.solvers.saved_numbers import SavedNumbers
from llsvm.solvers.state import Value
from llsvm.solvers.state_arrays import ProblemArrays

Vector = NDArray[np.float64]
VECTORS = 8  # that a problem's steps hold at most, temporary ones counted


class PaperSteps:
    """Algorithm 1 with constant L: y = w − ∇/L, z = w* − Σ (i+1)/2 ∇_i / L, w = 2/(k+3) z + (k+1)/(k+3) y.

    The guess w* is 0 at first, and the warm start for each next function of a homotopy.
    """

    def __init__(self, arrays: ProblemArrays, L: float) -> None:
        self.L, self.decrement = L, math.inf
        self.w = arrays.vector("w")
        self.y = arrays.vector("y")
        self.k = 0
        self._guess = arrays.vector("guess")
        self._sum = arrays.vector("weighted sum of gradients")

    def advance(self, F: float, g: Vector, F_y: float, ridge: float, same: bool) -> None:
        if not same:
            self.k = 0
            self._guess[:] = self.w
            self._sum[:] = 0.0
        k = self.k
        self.decrement = 0.5 * float(g @ g) / self.L
        np.subtract(self.w, g / self.L, out=self.y)
        self._sum += (k + 1) / 2 * g
        z = self._guess - self._sum / self.L
        self.w[:] = 2 / (k + 3) * z + (k + 1) / (k + 3) * self.y
        self.k = k + 1

    def warm_start(self, L: float) -> None:
        """The next function, with its L, is begun where this one ended, at y (before ``advance``)."""
        self.w[:], self.L = self.y, L

    def numbers(self) -> dict[str, Value]:
        return {"L": self.L, "k": self.k}

    def restore(self, saved: SavedNumbers) -> None:
        self.L, self.k = saved.real("L"), saved.whole("k")


class SearchedSteps:
    """See the file's head. t: Nesterov's momentum counter, t_{k+1} = (1 + √(1 + 4 t_k²))/2."""

    def __init__(self, arrays: ProblemArrays, tuning: NESVMTuning, metric: Metric) -> None:
        self.w = arrays.vector("w")
        self.y = arrays.vector("y")
        self.L = 0.0
        self._tuning, self._metric = tuning, metric
        self._curvature = 0.0  # τ; 0 before the first step
        self._ridge = 0.0  # ρ at the last step
        self.decrement = math.inf
        self._t = 1.0
        self._y_before = arrays.vector("y before")  # of the step before
        # the last step began at w with F and its gradient
        self._last_w = arrays.vector("last w")
        self._last_g = arrays.vector("last gradient")
        self._last_F = math.nan

    def advance(self, F: float, g: Vector, F_y: float, ridge: float, same: bool) -> None:
        if not self._curvature:
            self._curvature = self._metric.first_curvature(g, F)
        elif same and not self._promise_kept(F_y):
            self._curvature *= 2.0
            if F_y > self._last_F:  # the step led uphill: take it back, and again with the larger L
                F, g = self._last_F, self._last_g
                self.w[:] = self._last_w
                self._t = 1.0
        else:
            self._curvature *= self._tuning.ease
        if g @ (self.y - self._y_before) > 0:
            self._t = 1.0
        self._ridge = ridge
        self.L = ridge + self._curvature * float(self._metric.values.max())
        step = self._metric.solve(ridge, self._curvature, g)
        self.decrement = 0.5 * float(g @ step)
        y = self.w - step
        t = (1.0 + math.sqrt(1.0 + 4.0 * self._t**2)) / 2.0
        momentum = (self._t - 1.0) / t
        self._last_F = F
        self._last_g[:], self._last_w[:] = g, self.w
        self.w[:] = y + momentum * (y - self.y)
        self._t = t
        self._y_before[:] = self.y
        self.y[:] = y

    def _promise_kept(self, F_y: float) -> bool:
        """F(y) ≤ F(w) + ∇·(y − w) + ½ ‖y − w‖² in the metric for the last step?"""
        step = self.y - self._last_w
        square = self._metric.square(self._ridge, self._curvature, step)
        promise = self._last_F + float(self._last_g @ step) + 0.5 * square
        return F_y <= promise + ROUNDING * abs(self._last_F)

    def numbers(self) -> dict[str, Value]:
        return {
            "L": self.L,
            "curvature": self._curvature,
            "ridge": self._ridge,
            "t": self._t,
            "last F": self._last_F,
        }

    def restore(self, saved: SavedNumbers) -> None:
        self.L, self._curvature = saved.real("L"), saved.real("curvature")
        self._ridge, self._t, self._last_F = saved.real("ridge"), saved.real("t"), saved.real("last F")


Steps = PaperSteps | SearchedSteps
