"""Regulariser: ½‖w‖², or ‖w‖₁ smoothed with μ (NESVM eqs. 24, 28)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Penalised(NamedTuple):
    """The regulariser at some w.

    smoothed, exact: its value as smoothed, and itself.
    linear: what of it the gap accounts for without smoothing: all of ½‖w‖², and u·w of ‖w‖₁.
    gradient: u (width,) of the first.
    """

    smoothed: float
    exact: float
    linear: float
    gradient: NDArray[np.float64]


class Regulariser:
    """See the file's head; w is (width,) everywhere."""

    def __init__(self, l1: bool, free_intercept: bool) -> None:
        """l1: ‖w‖₁ instead of ½‖w‖².
        free_intercept: the last weight is not penalised.
        """
        self.l1 = l1
        self._free_intercept = free_intercept

    def exact(self, w: NDArray[np.float64]) -> float:
        """The value at w."""
        penalised = w[: self.penalised(len(w))]
        return float(np.abs(penalised).sum()) if self.l1 else 0.5 * float(penalised @ penalised)

    def at(self, w: NDArray[np.float64], mu: float) -> Penalised:
        """At w; mu: of the smoothing of ‖w‖₁."""
        penalised = w[: self.penalised(len(w))]
        gradient = np.zeros_like(w)
        u = gradient[: len(penalised)]
        exact = self.exact(w)
        if not self.l1:
            u[:] = penalised
            return Penalised(exact, exact, exact, gradient)
        np.clip(penalised / mu, -1.0, 1.0, out=u)
        linear = float(u @ penalised)
        return Penalised(linear - 0.5 * mu * float(u @ u), exact, linear, gradient)

    def penalised(self, width: int) -> int:
        """So many of the first weights are penalised."""
        return width - 1 if self._free_intercept else width

    def ridge(self, mu: float) -> float:
        """ρ: the largest curvature."""
        return 1.0 / mu if self.l1 else 1.0
