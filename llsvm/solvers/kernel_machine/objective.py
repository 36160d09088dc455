"""KernelObjective: primal and dual of a kernel machine, bounded whatever rounding has done, and the best intercept.

    primal  ½ βᵀKβ + Σ c_i φ(y_i (f_i + b)),  f = Kβ
    dual    yᵀβ − ½ βᵀ(K + D) β,  α = y β within its bounds, Σ β = 0 where b is not penalised; D = ridge/c

Certificates rest on this: sums in 64 bits lose something, and with a large C that is what bounds the gap. What they
may have lost, given the sizes of K, α and β, is counted beside the primal and taken from the dual.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import DataError
from llsvm.objective.losses import PLQLoss
from llsvm.solvers.optim.line_search import BEYOND_ROUNDING, MOST_POINTS, ROUNDING, regula_falsi

Vector = NDArray[np.float64]

# Share of what the terms of a sum come to that summing them may lose: with less, certificates might claim what does
# not hold; with more, gaps stay open at a large C.
_ROUNDING = 4.0 * np.finfo(np.float64).eps


class KernelObjective:
    """The objective of one problem, over its n rows; arrays are (n,).

    loss, sign, cost, sizes: see ``__init__``.
    free_intercept: there is one that is not penalised, and there are rows that it may fit.
    lower, upper, ridge: the bounds of β = α y, and D.
    """

    def __init__(self, loss: PLQLoss, intercept: bool, sign: Vector, cost: Vector, sizes: Vector) -> None:
        """intercept: there is one that is not penalised.
        sign, cost: (n,) y and c, c > 0.
        sizes: (2, n) what tells how exactly the kernel is known, see ``KernelFunction.sizes``.
        """
        self.loss, self.sign, self.cost, self.sizes = loss, sign, cost, sizes
        self.free_intercept = intercept and len(cost) > 0
        ends = sign * (loss.lower * cost), sign * (loss.upper * cost)
        self.lower, self.upper = np.minimum(*ends), np.maximum(*ends)
        self.ridge = loss.ridge / cost
        self._norms, self._squared_norms = sizes

    def part(self, rows: slice | NDArray[np.intp]) -> KernelObjective:
        """The same of some of the rows."""
        sizes = self.sizes[:, rows]
        return KernelObjective(self.loss, self.free_intercept, self.sign[rows], self.cost[rows], sizes)

    @property
    def diagonal(self) -> Vector:
        """Return the diagonal of K + D, approximately."""
        return self._norms * self._norms + self.ridge

    def gradient(self, beta: Vector, f: Vector) -> Vector:
        """Return the gradient of the dual: y − f − D β."""
        return self.sign - f - self.ridge * beta

    def free(self, beta: Vector) -> NDArray[np.bool_]:
        """Return which β are strictly between their bounds."""
        return (beta > self.lower) & (beta < self.upper)

    def intercept(self, f: Vector, total: float = 0.0) -> float:
        """The best b for f, in the middle where there are many (as LIBSVM's); 0 where it is penalised.

        total: Σ β, not 0 where rows are a part of a problem's and the others keep their β."""
        if not self.free_intercept:
            return 0.0
        if self.loss.ridge > 0:
            return self.smoothed_intercept(self.loss, f, total)
        ends = self.sign - f  # a row's loss ends here (y = 1) or begins: the slope grows by its cost
        order = np.argsort(ends)
        slope = np.cumsum(self.cost[order]) - self.cost[self.sign > 0].sum() + total
        flat = len(ends) * _ROUNDING * self.cost.sum()  # what a running sum may be off by
        first = min(int(np.searchsorted(slope, -flat)), len(ends) - 1)
        last = min(first + 1, len(ends) - 1) if slope[first] <= flat else first
        return 0.5 * float(ends[order[first]] + ends[order[last]])

    def smoothed_intercept(self, loss: PLQLoss, f: Vector, total: float = 0.0) -> float:
        """The best b for a loss without a kink."""
        if not self.free_intercept:
            return 0.0
        low, high = -2.0 - float(f.max()), 2.0 - float(f.min())

        def slope(t: float) -> float:
            derivative = loss.derivative(self.sign * (f + low + t * (high - low)))
            return total + float((self.cost * derivative) @ self.sign)

        tolerance = ROUNDING * float(self.cost.sum())
        return low + regula_falsi(slope, slope(0.0), slope(1.0), tolerance, MOST_POINTS) * (high - low)

    def primal(self, beta: Vector, f: Vector, b: float) -> float:
        """Return the primal objective, summed in float64.

        beta, f: (n,) β and Kβ.
        b: the intercept.
        """
        losses = self.loss.value(self.sign * (f + b))
        return 0.5 * float(beta @ f) + float(self.cost @ losses)

    def measured_primal(self, beta: Vector, f: Vector, b: float) -> tuple[float, float]:
        """``primal``, and by how much more it may be."""
        lost, margin = self._lost(beta), self.sign * (f + b)
        error = np.where(f == 0, 0.0, _ROUNDING * (1.0 + abs(b))) + lost  # 1 ∓ b alone is as good as exact
        more = self.loss.largest_value(margin, error) - self.loss.value(margin)
        return self.primal(beta, f, b), float(lost @ np.abs(beta)) + float(self.cost @ more)

    def measured_dual(self, v: Vector, image: Vector, b: float) -> tuple[float, float]:
        """At least so large is D at α y = v, and what was taken from it for that.

        v, image: (n,) v and Kv.
        b: about where the intercept is.
        """
        alpha = v * self.sign
        total, sizes = float(alpha.sum()), float(np.abs(alpha).sum())
        squares = self._squares(alpha)
        total, sizes = total - squares, sizes + squares
        if self.free_intercept:  # Σ α y is not 0 to the last bit
            sizes *= 1.0 + abs(b)
        rounding = _ROUNDING * sizes + float(self._lost(v) @ np.abs(v))
        return total - 0.5 * float(v @ image) - rounding, rounding

    def linear_part(self, alpha: Vector) -> float:
        """Σ c b(α/c): what of D is not the square of a norm."""
        return float(alpha.sum()) - self._squares(alpha)

    def _squares(self, alpha: Vector) -> float:
        """½ ridge Σ α²/c."""
        return 0.5 * float(self.ridge @ (alpha * alpha)) if self.loss.ridge else 0.0

    def feasible(self, alpha: Vector) -> Vector:
        """A feasible α near by, see nesvm/dual.py."""
        alpha = np.clip(alpha, self.loss.lower * self.cost, self.loss.upper * self.cost)
        if not self.free_intercept:
            return alpha
        if math.isinf(self.loss.lower):
            return alpha - self.sign * self.cost * (float(alpha @ self.sign) / float(self.cost.sum()))
        positive = self.sign > 0
        plus, minus = float(alpha[positive].sum()), float(alpha[~positive].sum())
        smaller = min(plus, minus)
        if smaller <= 0:
            return np.zeros_like(alpha)
        return alpha * np.where(positive, smaller / plus, smaller / minus)

    def balanced(self, beta: Vector, total: float, movable: NDArray[np.bool_]) -> Vector | None:
        """β within its bounds that sums to ``total`` where b is free, moved by what the movable rows have room for;
        None where that is too little."""
        missing = total - float(beta.sum())
        if not self.free_intercept or abs(missing) <= _ROUNDING * float(np.abs(beta).sum()):
            return beta
        room = np.where(movable, (self.upper - beta) if missing > 0 else (beta - self.lower), 0.0)
        endless = np.isinf(room)
        if endless.any():
            room = endless.astype(float)
        elif float(room.sum()) <= abs(missing):
            return None
        return np.clip(beta + missing / float(room.sum()) * room, self.lower, self.upper)

    def check_symmetry(self, beta: Vector, f: Vector, v: Vector, image: Vector) -> None:
        """Raise DataError where βᵀKv is not vᵀKβ; f = Kβ, image = Kv."""
        size = float(self._norms @ np.abs(beta)) * float(self._norms @ np.abs(v))
        rounding = float(self._lost(v) @ np.abs(beta))
        if abs(float(beta @ image) - float(v @ f)) > BEYOND_ROUNDING * size + rounding:
            raise not_symmetric()

    def check_definite(self, v: Vector, square: float) -> None:
        """Raise DataError where square = vᵀKv is negative."""
        if square < -BEYOND_ROUNDING * float(self._norms @ np.abs(v)) ** 2 - float(self._lost(v) @ np.abs(v)):
            raise not_definite()

    def _lost(self, v: Vector) -> Vector:
        """(n,) by how much rounding may have changed each value of K v."""
        v = np.abs(v)
        far = self._squared_norms * float(v.sum()) + float(self._squared_norms @ v)
        return _ROUNDING * (self._norms * float(self._norms @ v) + far)


def not_definite() -> DataError:
    """Return the error of a kernel matrix that is not positive semi-definite."""
    return DataError(
        "the kernel matrix is not positive semi-definite (a vector v with vᵀKv < 0 was met), so there is no "
        "optimum to certify; pass another --kernel, or a matrix that is"
    )


def not_symmetric() -> DataError:
    """Return the error of a kernel matrix that is not symmetric."""
    return DataError(
        "the kernel matrix is not symmetric (vectors u and v with uᵀKv ≠ vᵀKu were met), so there is no optimum to "
        "certify; pass a matrix that is"
    )
