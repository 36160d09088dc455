"""Penalty: what is added to the losses, its conventions, and the dual that certifies it.

The objective is  C Σ_i c_i φ(y_i w·x_i) + (l2/2) ‖w‖² + l1 ‖w‖₁,  c_i the class weight times the sample weight:

    penalty      l2 and l1           the same with λ (SmSVM eqs. 1.1, 1.2), N rows
    l2           1, 0                C = 1 / (N λ₂)
    l1           0, 1                C = 1 / (N λ₁)
    elasticnet   1 − r, r            C = 1 / (N (λ₁ + λ₂)), r = λ₁ / (λ₁ + λ₂)

so (1/N) Σ c_i φ + (λ₂/2) ‖w‖² + λ₁ ‖w‖₁ is this objective divided by N C. An intercept that is not penalised is the
last weight, of a constant feature of 1, and in neither norm; the dual then asks for Σ α_i y_i = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class Penalty:
    """(l2/2) ‖w‖² + l1 ‖w‖₁, and the factor C of the losses it stands beside.

    intercept: the last weight is in neither norm.
    """

    C: float
    l1: float
    l2: float
    intercept: bool = False

    @classmethod
    def of(cls, settings: Settings, n_rows: float) -> Penalty:
        """Return the penalty that the settings ask for; λ₁ and λ₂ are turned into C and the share of L1. n_rows:
        the sum of the rows' sample weights."""
        lambda1, lambda2 = settings.lambda1, settings.lambda2
        share = {"l2": 0.0, "l1": 1.0, "elasticnet": settings.l1_ratio}[settings.penalty]
        if lambda1 is None and lambda2 is None:
            return cls(settings.C, share, 1.0 - share, settings.intercept)
        total = (lambda1 or 0.0) + (lambda2 or 0.0)
        share = (lambda1 or 0.0) / total
        return cls(1.0 / ((n_rows or 1.0) * total), share, 1.0 - share, settings.intercept)

    def value(self, w: NDArray[np.float64]) -> float:
        w = w[:-1] if self.intercept else w
        return float(0.5 * self.l2 * (w @ w) + self.l1 * np.abs(w).sum())

    def l2_of(self, n: int) -> NDArray[np.float64]:
        """Return (n,) the factor of each of the n weights."""
        return self._of_weights(self.l2, n)

    def l1_of(self, n: int) -> NDArray[np.float64]:
        """Return (n,) the same of ‖w‖₁."""
        return self._of_weights(self.l1, n)

    def _of_weights(self, factor: float, n: int) -> NDArray[np.float64]:
        factors = np.full(n, factor)
        if self.intercept:
            factors[-1] = 0.0
        return factors

    def dual(self, total: float, v: NDArray[np.float64], squares: float = 0.0, longest: float = 1.0) -> float:
        """Return the largest dual objective on the ray s α, 0 ≤ s ≤ longest, of dual variables with Σ α_i = total
        and Σ α_i y_i x_i = v (d,):  s total − s² squares − ‖soft(s v, l1)‖² / (2 l2), soft(v, l1)_j = sign(v_j)
        max(0, |v_j| − l1).

        squares: ½ ridge Σ α_i²/C_i of losses with a ridge (losses.py). longest: may be infinite where α has no
        upper bound, and then squares must not be 0 unless total is. Without l2 the point must keep |s v_j| ≤ l1
        for every j. With a free intercept Σ α_i y_i, the last of v, must be 0.

        total may be below 0 where targets are numbers: the dual then falls from s = 0 on. A negative s is no way
        out, −α being neither between the bounds nor worth −total where the loss has an epsilon.
        """
        if total <= 0:
            return 0.0
        size = np.abs(v)
        if squares > 0:  # beyond, the dual falls whatever v is
            longest = min(longest, total / (2 * squares))
        elif not math.isfinite(longest):
            longest = 1.0
        if self.l2 == 0:
            largest = float(np.max(size, initial=0.0))
            s = min(longest, self.l1 / largest) if largest > 0 else longest
            return total * s - squares * s * s

        def soft(s: float) -> NDArray[np.float64]:
            return np.maximum(s * size - self.l1, 0.0)

        def falls(s: float) -> bool:
            """Return whether the derivative at s is negative."""
            return (total - 2 * s * squares) * self.l2 < float(size @ soft(s))

        low, high = 0.0, longest
        if falls(longest):  # the largest is inside
            if self.l1 == 0 and squares > 0:
                high = total * self.l2 / (2 * squares * self.l2 + float(size @ size))
            else:
                for _ in range(60):
                    middle = 0.5 * (low + high)
                    if falls(middle):
                        high = middle
                    else:
                        low = middle
        at = soft(high)
        return high * total - high * high * squares - float(at @ at) / (2 * self.l2)
