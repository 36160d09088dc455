"""Metric: the norm in which NESVM measures lengths, and in which the Lipschitz constant L of the gradient is taken.

Nesterov's method allows any norm. The loss has the Hessian Σ_zone h_i x_i x_iᵀ ≼ τ G with G = Σ h_i x_i x_iᵀ and
a curvature τ ≤ 1/μ that is searched for, so the metric is ρ I + τ G (ρ: of the regulariser). "gram" holds G
itself (its eigenvectors, (d + 1)² numbers), "scalar" only the largest eigenvalue, which is the paper's norm.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


class Metric(Protocol):
    name: str
    largest: float
    """The largest eigenvalue of G."""

    def solve(self, ridge: float, curvature: float, g: Vector) -> Vector:
        """(ridge I + curvature G)⁻¹ g."""
        ...

    def square(self, ridge: float, curvature: float, step: Vector) -> float:
        """stepᵀ (ridge I + curvature G) step."""
        ...


class ScalarMetric:
    name = "scalar"

    def __init__(self, largest: float) -> None:
        self.largest = largest

    def solve(self, ridge: float, curvature: float, g: Vector) -> Vector:
        return g / (ridge + curvature * self.largest)

    def square(self, ridge: float, curvature: float, step: Vector) -> float:
        return float(step @ step) * (ridge + curvature * self.largest)


class GramMetric:
    name = "gram"

    def __init__(self, G: NDArray[np.float64]) -> None:
        """G: (d, d), symmetric; its lower triangle is read, and it is overwritten."""
        from scipy.linalg import eigh

        values, self._vectors = eigh(G, lower=True, overwrite_a=True, check_finite=False, driver="evd")
        self._values = np.maximum(values, 0.0)
        self.largest = float(self._values.max(initial=0.0))

    @staticmethod
    def nbytes(width: int) -> int:
        """G, and what its decomposition takes meanwhile."""
        return 8 * 4 * width * width

    def solve(self, ridge: float, curvature: float, g: Vector) -> Vector:
        return self._vectors @ ((self._vectors.T @ g) / (ridge + curvature * self._values))

    def square(self, ridge: float, curvature: float, step: Vector) -> float:
        along = self._vectors.T @ step
        return float(ridge * (step @ step) + curvature * (along * along) @ self._values)
