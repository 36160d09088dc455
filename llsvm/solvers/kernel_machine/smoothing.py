"""SmoothedLoss: a loss as the steps of kernel machines see it, smoothed where it has a kink, by the prox-function
u² (NESVM eq. 5).

φ(m) = max_a {b(a) − a m} over the bounds of a, with b(a) = a − ½ ridge a² (objective/losses.py). Smoothed:

    φ_μ(m) = max_a {b(a) − a m − ½ μ a²},   reached at a(m) = median((1 − m)/(ridge + μ), lower, upper)

and φ_μ' = −a. Losses without a kink have μ = 0, and are themselves.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import PLQLoss

Vector = NDArray[np.float64]


class SmoothedLoss:
    """See the file's head.

    loss: what it is of.
    smooth: that has no kink.
    mu: of the smoothing; may be changed where the loss is not smooth, and says nothing where it is.
    """

    def __init__(self, loss: PLQLoss, mu: float) -> None:
        self.loss = loss
        self.smooth = math.isfinite(loss.smoothness)
        self.mu = mu

    @property
    def _width(self) -> float:
        """Where no bound is met, the second derivative is 1 over this."""
        return self.loss.ridge + (0.0 if self.smooth else self.mu)

    def smooth_by(self, mu: float) -> None:
        """Take another μ."""
        self.mu = mu

    def dual(self, margin: Vector) -> Vector:
        """a(m), of the margins' shape."""
        return np.clip((1.0 - margin) / self._width, self.loss.lower, self.loss.upper)

    def value(self, margin: Vector) -> Vector:
        """φ_μ(m)."""
        a = self.dual(margin)
        return a * (1.0 - margin) - 0.5 * self._width * a * a

    def curvature(self, cost: Vector, margin: Vector) -> float:
        """Σ c_i φ_μ''(m_i)."""
        a = self.dual(margin)
        return float(cost[(a > self.loss.lower) & (a < self.loss.upper)].sum()) / self._width
