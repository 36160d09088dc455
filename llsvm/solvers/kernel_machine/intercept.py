"""Intercept: the best b for given f = Kβ: the minimiser of Σ c_i φ(y_i (f_i + b)), where it is not penalised.

Of some of the rows, the others' β kept: of that plus b Σ β, β of the rows that are looked at.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.kernel_machine.smoothing import SmoothedLoss
from llsvm.solvers.optim.line_search import MOST_POINTS
from llsvm.solvers.optim.rounding import ROUNDING

Vector = NDArray[np.float64]

_FLAT = 1e-9  # of Σ c: a slope of the hinge's losses, a sum of c, that counts as 0


class Intercept:
    """Of one problem, over its n rows; f is (n,) everywhere."""

    def __init__(self, free: bool, loss: SmoothedLoss, sign: Vector, cost: Vector) -> None:
        """free: there is one; else b is 0.
        loss: may change its μ.
        sign, cost: (n,) y and c.
        """
        self._free = free and len(sign) > 0  # no rows have none: of two classes, say, that weigh nothing
        self._loss = loss
        self._sign, self._cost = sign, cost

    def smoothed(self, f: Vector, start: float, total: float = 0.0) -> float:
        """Of the smoothed losses, to rounding: Newton's steps inside a bracket, from ``start``. total: Σ β."""
        if not self._free:
            return 0.0
        low, high = -2.0 - float(f.max()), 2.0 - float(f.min())
        b = min(max(start, low), high)
        scale = float(self._cost.sum())
        for _ in range(MOST_POINTS):
            margin = self._sign * (f + b)
            descent = float((self._cost * self._loss.dual(margin)) @ self._sign) - total  # falls as b grows
            if abs(descent) <= ROUNDING * scale:
                break
            low, high = (b, high) if descent > 0 else (low, b)
            curvature = self._loss.curvature(self._cost, margin)
            b = b + descent / curvature if curvature > 0 else 0.5 * (low + high)
            if not low < b < high:
                b = 0.5 * (low + high)
        return b

    def exact(self, f: Vector, total: float = 0.0) -> float:
        """Of the losses themselves, in the middle where there are many (as LIBSVM's). total: Σ β."""
        if self._loss.smooth or not self._free:
            return self.smoothed(f, 0.0, total)
        sign, cost = self._sign, self._cost
        ends = sign - f  # a row's loss ends here (y = 1) or begins: the slope grows by its cost
        order = np.argsort(ends)
        slope = np.cumsum(cost[order]) - cost[sign > 0].sum() + total
        flat = _FLAT * cost.sum()
        first = min(int(np.searchsorted(slope, -flat)), len(ends) - 1)
        last = min(first + 1, len(ends) - 1) if slope[first] <= flat else first
        return 0.5 * float(ends[order[first]] + ends[order[last]])
