"""Regulariser: ½‖w‖², or ‖w‖₁ smoothed with μ (NESVM eqs. 24, 28)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Penalised(NamedTuple):
    """The regulariser at some w.

    value, gradient: as smoothed; u (width,).
    smoothing_gap: what smoothing adds to the gap: ‖w‖₁ − u·w.
    """

    value: float
    gradient: NDArray[np.float64]
    smoothing_gap: float = 0.0


class Regulariser:
    """Exact and smoothed regulariser, see the file's head; w is (width,) everywhere."""

    def __init__(self, l1: bool, free_intercept: bool) -> None:
        """l1: ‖w‖₁ instead of ½‖w‖².
        free_intercept: the last weight is not penalised.
        """
        self.l1 = l1
        self._free_intercept = free_intercept

    def exact(self, w: NDArray[np.float64]) -> float:
        """The value at w."""
        penalised = w[:-1] if self._free_intercept else w
        return float(np.abs(penalised).sum()) if self.l1 else 0.5 * float(penalised @ penalised)

    def at(self, w: NDArray[np.float64], mu: float) -> Penalised:
        """At w; mu: of the smoothing of ‖w‖₁."""
        exact, gradient = self.exact(w), w.copy()
        if self._free_intercept:
            gradient[-1] = 0.0
        if not self.l1:
            return Penalised(exact, gradient)
        gradient = np.clip(gradient / mu, -1.0, 1.0)
        linear = float(gradient @ w)
        return Penalised(linear - 0.5 * mu * float(gradient @ gradient), gradient, exact - linear)

    def ridge(self, mu: float) -> float:
        """ρ: the largest curvature."""
        return 1.0 / mu if self.l1 else 1.0
