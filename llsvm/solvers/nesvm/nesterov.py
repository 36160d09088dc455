"""Nesterov's iterations: from the gradient at w^k to the next points y^k and w^{k+1}, of one problem.

``PaperSteps`` are eqs. 33-35 with a given Lipschitz constant. ``SearchedSteps`` are the same two sequences with
what makes them fast: L falls and rises by the decrease that y^k brought (backtracking; F(y^k) is measured in the
pass that measures the gradient at w^{k+1}), and momentum starts anew when it points uphill (O'Donoghue and Candès
2015, gradient scheme).
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.nesvm.tuning import NESVMTuning
from llsvm.solvers.saved_numbers import SavedNumbers
from llsvm.solvers.state import Value
from llsvm.solvers.state_arrays import ProblemArrays

Vector = NDArray[np.float64]
VECTORS = 8  # that a problem's steps hold at most, temporary ones counted

_ROUNDING = 1e-12


class Steps(Protocol):
    """What both have in common.

    w: (width,) where the gradient is wanted; always the same array, as y is.
    y: (width,) where the value is wanted: the better solution.
    L: the Lipschitz constant of the gradient, as assumed by the last step.
    """

    w: Vector
    y: Vector
    L: float

    def advance(self, F: float, g: Vector, F_y: float, ridge: float, same: bool) -> None:
        """Go on.

        F, g: F(w), and ∇F(w), (width,).
        F_y: F(y).
        ridge: ρ, the curvature of the regulariser.
        same: F is the function that the last call was about; else w is a warm start for another one.
        """
        ...

    def numbers(self) -> dict[str, Value]:
        """What there is to know beside the arrays."""
        ...

    def restore(self, saved: SavedNumbers) -> None:
        """Take up ``numbers``; the arrays are restored by themselves."""
        ...


class PaperSteps:
    """Algorithm 1 with constant L: y = w − ∇/L, z = w* − Σ (i+1)/2 ∇_i / L, w = 2/(k+3) z + (k+1)/(k+3) y.

    The guess w* is 0 at first, and the warm start for each next function of a homotopy.
    """

    def __init__(self, arrays: ProblemArrays, L: float) -> None:
        self.L = L
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
        np.subtract(self.w, g / self.L, out=self.y)
        self._sum += (k + 1) / 2 * g
        z = self._guess - self._sum / self.L
        self.w[:] = 2 / (k + 3) * z + (k + 1) / (k + 3) * self.y
        self.k = k + 1

    def warm_start(self) -> None:
        """The next function is begun where this one ended, at y (before ``advance``)."""
        self.w[:] = self.y

    def numbers(self) -> dict[str, Value]:
        return {"L": self.L, "k": self.k}

    def restore(self, saved: SavedNumbers) -> None:
        self.L, self.k = saved.real("L"), saved.whole("k")


class SearchedSteps:
    """See the file's head. t: Nesterov's momentum counter, t_{k+1} = (1 + √(1 + 4 t_k²))/2."""

    def __init__(self, arrays: ProblemArrays, tuning: NESVMTuning) -> None:
        self.w = arrays.vector("w")
        self.y = arrays.vector("y")
        self.L = 0.0
        self._tuning = tuning
        self._curvature = 0.0  # of the losses: L less that of the regulariser; 0 before the first step
        self._t = 1.0
        self._y_before = arrays.vector("y before")  # of the step before, unless momentum is to begin anew
        self._has_momentum = False
        # the last step began at w with F and its gradient
        self._last_w = arrays.vector("last w")
        self._last_g = arrays.vector("last gradient")
        self._last_F = math.nan

    def advance(self, F: float, g: Vector, F_y: float, ridge: float, same: bool) -> None:
        if (
            not self._curvature
        ):  # a smaller one promises more than there is to gain, since F is nowhere below 0
            self._curvature = 0.5 * float(g @ g) / F if F > 0.0 else 1.0
        elif same and not self._promise_kept(F_y):
            self._curvature *= self._tuning.tighten
            if F_y > self._last_F:  # the step led uphill: take it back, and again with the larger L
                F, g = self._last_F, self._last_g
                self.w[:] = self._last_w
                self._has_momentum = False
        else:
            self._curvature *= self._tuning.ease
        if not self._has_momentum or g @ (self.y - self._y_before) > 0:
            self._t = 1.0
        self.L = ridge + self._curvature
        y = self.w - g / self.L
        t = (1.0 + math.sqrt(1.0 + 4.0 * self._t**2)) / 2.0
        momentum = (self._t - 1.0) / t
        self._last_F = F
        self._last_g[:], self._last_w[:] = g, self.w
        self.w[:] = y + momentum * (y - self.y)
        self._has_momentum, self._t = True, t
        self._y_before[:] = self.y
        self.y[:] = y

    def _promise_kept(self, F_y: float) -> bool:
        """F(y) ≤ F(w) + ∇·(y − w) + ½ L ‖y − w‖² for the last step?"""
        step = self.y - self._last_w
        promise = self._last_F + float(self._last_g @ step) + 0.5 * self.L * float(step @ step)
        return F_y <= promise + _ROUNDING * abs(self._last_F)

    def numbers(self) -> dict[str, Value]:
        return {
            "L": self.L,
            "curvature": self._curvature,
            "t": self._t,
            "momentum": self._has_momentum,
            "last F": self._last_F,
        }

    def restore(self, saved: SavedNumbers) -> None:
        self.L, self._curvature = saved.real("L"), saved.real("curvature")
        self._t, self._has_momentum = saved.real("t"), saved.flag("momentum")
        self._last_F = saved.real("last F")
