"""Nesterov's iterations: from the gradient at w^k to the next points y^k and w^{k+1}, of one problem.

``PaperSteps`` are eqs. 33-35 with a given Lipschitz constant. ``SearchedSteps`` are the same two sequences in a
metric (metric.py), y^k = w^k − H⁻¹∇F(w^k), H = ρ I + τ G, with what makes them fast: τ is halved and
doubled by the decrease that y^k brought (backtracking; F(y^k) is measured in the pass that measures the gradient at
w^{k+1}), and momentum starts anew when it points uphill (O'Donoghue and Candès 2015, gradient scheme).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.nesvm.metric import Metric

Vector = NDArray[np.float64]
VECTORS = 8  # that a problem's steps hold at most, temporary ones counted

_EASE = 0.98  # τ falls by this factor after every step that kept its promise
_TIGHTEN = 2.0
_ROUNDING = 1e-12


class Steps(Protocol):
    w: Vector
    """Where the gradient is wanted."""
    y: Vector
    """Where the value is wanted: the better solution."""
    L: float
    """The Lipschitz constant of the gradient, as assumed by the last step."""

    def advance(self, F: float, g: Vector, F_y: float, ridge: float, same: bool) -> None:
        """Go on from F(w), g = ∇F(w) and F(y). ridge: ρ, the curvature of the regulariser. same: F is the
        function that the last call was about; else w is a warm start for another one."""
        ...


class PaperSteps:
    """Algorithm 1 with constant L: y = w − ∇/L, z = w* − Σ (i+1)/2 ∇_i / L, w = 2/(k+3) z + (k+1)/(k+3) y.

    The guess w* is 0 at first, and the warm start for each next function of a homotopy.
    """

    def __init__(self, width: int, L: float) -> None:
        self.L = L
        self.w = np.zeros(width)
        self.y = self.w.copy()
        self.k = 0
        self._guess = self.w.copy()
        self._sum = np.zeros(width)

    def advance(self, F: float, g: Vector, F_y: float, ridge: float, same: bool) -> None:
        if not same:
            self.k = 0
            self._guess[:] = self.w
            self._sum[:] = 0.0
        k = self.k
        np.subtract(self.w, g / self.L, out=self.y)
        self._sum += (k + 1) / 2 * g
        z = self._guess - self._sum / self.L
        self.w = 2 / (k + 3) * z + (k + 1) / (k + 3) * self.y
        self.k = k + 1

    def warm_start(self) -> None:
        """The next function is begun where this one ended, at y (before ``advance``)."""
        self.w = self.y.copy()


class SearchedSteps:
    """See the file's head. t: Nesterov's momentum counter, t_{k+1} = (1 + √(1 + 4 t_k²))/2."""

    def __init__(self, width: int, metric: Metric, curvature: float, exact: bool) -> None:
        """curvature: τ to begin with. exact: it is the true one, so it may not fall."""
        self.w = np.zeros(width)
        self.y = self.w.copy()
        self.L = float("nan")
        self.decrement = np.inf
        """½ gᵀH⁻¹g at w: what the next step promises to gain."""
        self._metric = metric
        self._curvature = curvature
        self._exact = exact
        self._before: Vector | None = None  # y of the step before
        self._last: tuple[float, Vector, Vector, float] | None = None  # F, g, w and τ of the last step
        self._t = 1.0

    def advance(self, F: float, g: Vector, F_y: float, ridge: float, same: bool) -> None:
        if same and self._last is not None and not self._promise_kept(F_y, ridge):
            self._curvature *= _TIGHTEN
            if F_y > self._last[0]:  # the step led uphill: take it back, and again with the larger τ
                F, g, self.w, _ = self._last
                self._before = None
                self._t = 1.0
        elif self._last is not None and not self._exact:
            self._curvature *= _EASE
        if self._before is not None and g @ (self.y - self._before) > 0:
            self._t = 1.0
        if self._before is None:
            self._t = 1.0
        step = self._metric.solve(ridge, self._curvature, g)
        self.decrement = 0.5 * float(g @ step)
        self.L = ridge + self._curvature * self._metric.largest
        y = self.w - step
        t = (1.0 + np.sqrt(1.0 + 4.0 * self._t**2)) / 2.0
        momentum = (self._t - 1.0) / t
        self._last = (F, g, self.w, self._curvature)
        self.w = y + momentum * (y - self.y)
        self._before, self.y, self._t = self.y, y, t

    def _promise_kept(self, F_y: float, ridge: float) -> bool:
        """F(y) ≤ F(w) + ∇·(y − w) + ½ ‖y − w‖²_H for the last step?"""
        assert self._last is not None
        F, g, w, curvature = self._last
        step = self.y - w
        promise = F + float(g @ step) + 0.5 * self._metric.square(ridge, curvature, step)
        return F_y <= promise + _ROUNDING * abs(F)
