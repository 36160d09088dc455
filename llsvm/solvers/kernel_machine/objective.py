"""KernelObjective: what a solution and a dual point of a kernel machine are worth, whatever rounding has done.

Certificates rest on this: sums in 64 bits lose something, and with a large C that is what bounds the gap. What they
may have lost, given the sizes of K, α and β, is counted beside the primal and taken from the dual.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import DataError
from llsvm.objective.losses import PLQLoss
from llsvm.solvers.optim.rounding import BEYOND_ROUNDING

Vector = NDArray[np.float64]

_INDEFINITE = 1e-3  # of the objective: vᵀKv below minus this is more than rounding
_ROUNDING = 4.0 * np.finfo(np.float64).eps  # of what the terms of a sum come to, that summing them may lose


class KernelObjective:
    """Of one problem, over its n rows."""

    def __init__(self, loss: PLQLoss, intercept: bool, sign: Vector, cost: Vector, sizes: Vector) -> None:
        """intercept: there is one that is not penalised.
        sign, cost: (n,) y and c, c > 0.
        sizes: (2, n) what tells how exactly the kernel is known, see ``KernelFunction.sizes``.
        """
        self._loss = loss
        self._intercept = intercept and len(cost) > 0  # without rows there is nothing to balance
        self._sign, self._cost = sign, cost
        self._norms, self._squared_norms = sizes

    def primal(self, beta: Vector, f: Vector, b: float) -> float:
        """As 64-bit sums have it.

        beta, f: (n,) β and Kβ.
        b: the intercept.
        """
        losses = self._loss.value(self._sign * (f + b))
        return 0.5 * float(beta @ f) + float(self._cost @ losses)

    def measured_primal(self, beta: Vector, f: Vector, b: float) -> tuple[float, float]:
        """``primal``, and by how much more it may be."""
        lost, margin = self._lost(beta), self._sign * (f + b)
        error = np.where(f == 0, 0.0, _ROUNDING * (1.0 + abs(b))) + lost  # 1 ∓ b alone is as good as exact
        more = self._loss.largest_value(margin, error) - self._loss.value(margin)
        return self.primal(beta, f, b), float(lost @ np.abs(beta)) + float(self._cost @ more)

    def measured_dual(self, v: Vector, image: Vector, b: float) -> tuple[float, float]:
        """At least so large is D at α y = v, and what was taken from it for that.

        v, image: (n,) v and Kv.
        b: about where the intercept is.
        """
        alpha = v * self._sign
        total, sizes = float(alpha.sum()), float(np.abs(alpha).sum())
        squares = self._squares(alpha)
        total, sizes = total - squares, sizes + squares
        if self._intercept:  # Σ α y is not 0 to the last bit
            sizes *= 1.0 + abs(b)
        rounding = _ROUNDING * sizes + float(self._lost(v) @ np.abs(v))
        return total - 0.5 * float(v @ image) - rounding, rounding

    def linear_part(self, alpha: Vector) -> float:
        """Σ c b(α/c): what of D is not the square of a norm."""
        return float(alpha.sum()) - self._squares(alpha)

    def _squares(self, alpha: Vector) -> float:
        """½ ridge Σ α²/c."""
        return 0.5 * self._loss.ridge * float((alpha * alpha / self._cost).sum()) if self._loss.ridge else 0.0

    def feasible(self, alpha: Vector) -> Vector:
        """A feasible α near by, see feasible.py."""
        lower, upper = self._loss.lower * self._cost, self._loss.upper * self._cost
        alpha = np.clip(alpha, lower, upper)
        if not self._intercept:
            return alpha
        if math.isinf(self._loss.lower):
            return alpha - self._sign * self._cost * (float(alpha @ self._sign) / float(self._cost.sum()))
        positive = self._sign > 0
        plus, minus = float(alpha[positive].sum()), float(alpha[~positive].sum())
        smaller = min(plus, minus)
        if smaller <= 0:
            return np.zeros_like(alpha)
        return alpha * np.where(positive, smaller / plus, smaller / minus)

    def check_symmetry(self, beta: Vector, f: Vector, v: Vector, image: Vector) -> None:
        """Raise DataError where βᵀKv is not vᵀKβ; f = Kβ, image = Kv."""
        size = float(self._norms @ np.abs(beta)) * float(self._norms @ np.abs(v))
        rounding = float(self._lost(v) @ np.abs(beta))
        if abs(float(beta @ image) - float(v @ f)) > BEYOND_ROUNDING * size + rounding:
            raise not_symmetric()

    def check_definite(self, v: Vector, square: float, objective: float) -> None:
        """Raise DataError where square = vᵀKv is negative."""
        if square < -_INDEFINITE * abs(objective) - float(self._lost(v) @ np.abs(v)):
            raise not_definite()

    def _lost(self, v: Vector) -> Vector:
        """(n,) by how much rounding may have changed each value of K v."""
        v = np.abs(v)
        far = self._squared_norms * float(v.sum()) + float(self._squared_norms @ v)
        return _ROUNDING * (self._norms * float(self._norms @ v) + far)


def not_definite() -> DataError:
    """Of a kernel matrix."""
    return DataError(
        "the kernel matrix is not positive semi-definite (a vector v with vᵀKv < 0 was met), so there is no "
        "optimum to certify; pass another --kernel, or a matrix that is"
    )


def not_symmetric() -> DataError:
    """Of a kernel matrix."""
    return DataError(
        "the kernel matrix is not symmetric (vectors u and v with uᵀKv ≠ vᵀKu were met), so there is no optimum to "
        "certify; pass a matrix that is"
    )
