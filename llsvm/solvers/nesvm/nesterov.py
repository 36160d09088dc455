"""Nesterov's iterations: from the gradient at w^k to the next points y^k and w^{k+1}, of one problem.

``PaperSteps`` are eqs. 33-35 with a given Lipschitz constant. ``SearchedSteps`` are the same two sequences with
what makes them fast: steps in a metric (metric.py), y^k = w^k − (ρ I + τ G)⁻¹ ∇F(w^k), whose τ falls and rises by
the decrease that y^k brought (backtracking; F(y^k) is measured in the pass that measures the gradient at w^{k+1}),
and momentum that starts anew when it points uphill (O'Donoghue and Candès 2015, gradient scheme).

Both have w, where the gradient is wanted, and y, where the value is, the better solution: (width,) each; L, the
Lipschitz constant as assumed by the last step; and the decrement ½ ∇F·(w − y), what that step promised to gain.
``advance`` makes a step and returns what comes next, in new arrays. It takes g, the gradient at w, and whether F is
the function of the last call, else w is a warm start for another; the searched step F and F_y too, the values at w
and at y, and ridge, ρ, the curvature of the regulariser. Their fields are what a state has of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.nesvm.metric import Metric
from llsvm.solvers.optim.line_search import ROUNDING

Vector = NDArray[np.float64]

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
class PaperSteps:
    """Algorithm 1 with constant L: y = w − ∇/L, z = w* − Σ (i+1)/2 ∇_i / L, w = 2/(k+3) z + (k+1)/(k+3) y.

    The guess w* is 0 at first, and the warm start for each next function of a homotopy. sum: Σ (i+1)/2 ∇_i.
    """

    w: Vector
    y: Vector
    guess: Vector
    sum: Vector
    L: float
    decrement: float = math.inf
    k: int = 0

    @classmethod
    def begin(cls, width: int, L: float) -> PaperSteps:
        zero = np.zeros(width)
        return cls(w=zero, y=zero, guess=zero, sum=zero, L=L)

    def advance(self, g: Vector, same: bool) -> PaperSteps:
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

    w: Vector
    y: Vector
    y_before: Vector
    last_w: Vector
    last_g: Vector
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
        self, F: float, g: Vector, F_y: float, ridge: float, same: bool, metric: Metric
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
