"""Metric: the norm in which NESVM measures lengths, and in which the Lipschitz constant L of the gradient is taken.

Nesterov's method allows any norm. The loss has the Hessian Σ_zone h_i x_i x_iᵀ ≼ τ G with G = Σ h_i x_i x_iᵀ and
a curvature τ ≤ 1/μ that is searched for, so the metric is ρ I + τ G (ρ: of the regulariser). "gram" holds G
itself (its eigenvectors, (d + 1)² numbers), "scalar" only the largest eigenvalue, which is the paper's norm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.optim.lapack import eigenvectors

Vector = NDArray[np.float64]
_VALUES, _VECTORS = "metric: eigenvalues", "metric: eigenvectors"


class Metric(Protocol):
    """name: "gram" or "scalar".
    largest: the largest eigenvalue of G.
    """

    name: str
    largest: float

    def solve(self, ridge: float, curvature: float, g: Vector) -> Vector:
        """(ridge I + curvature G)⁻¹ g, (width,).

        ridge, curvature: ρ and τ.
        g: (width,).
        """
        ...

    def square(self, ridge: float, curvature: float, step: Vector) -> float:
        """stepᵀ (ridge I + curvature G) step."""
        ...

    def arrays(self) -> Mapping[str, Vector]:
        """What ``largest`` alone does not tell, for a state."""
        ...


class ScalarMetric:
    name = "scalar"

    def __init__(self, largest: float) -> None:
        self.largest = largest

    def solve(self, ridge: float, curvature: float, g: Vector) -> Vector:
        return g / (ridge + curvature * self.largest)

    def square(self, ridge: float, curvature: float, step: Vector) -> float:
        return float(step @ step) * (ridge + curvature * self.largest)

    def arrays(self) -> Mapping[str, Vector]:
        return {}


class GramMetric:
    name = "gram"

    def __init__(self, values: Vector, vectors: Vector) -> None:
        """values: (width,) eigenvalues of G, none negative.
        vectors: (width, width) its eigenvectors, in columns.
        """
        self._values, self._vectors = values, np.asfortranarray(vectors)  # the layout decides the last bits
        self.largest = float(values.max(initial=0.0))

    @classmethod
    def of(cls, G: Vector) -> GramMetric:
        """G: (d, d), symmetric; its lower triangle is read."""
        values, vectors = eigenvectors(G)
        return cls(np.maximum(values, 0.0), vectors)

    @classmethod
    def restored(cls, saved: Mapping[str, Vector]) -> GramMetric | None:
        """From ``arrays``, which are copied; None where they are of another metric."""
        if _VECTORS not in saved:
            return None
        return cls(saved[_VALUES].copy(), saved[_VECTORS].copy(order="F"))

    @staticmethod
    def nbytes(width: int) -> int:
        """G, and what its decomposition takes meanwhile."""
        return 8 * 4 * width * width

    def solve(self, ridge: float, curvature: float, g: Vector) -> Vector:
        return self._vectors @ ((self._vectors.T @ g) / (ridge + curvature * self._values))

    def square(self, ridge: float, curvature: float, step: Vector) -> float:
        along = self._vectors.T @ step
        return float(ridge * (step @ step) + curvature * (along * along) @ self._values)

    def arrays(self) -> Mapping[str, Vector]:
        return {_VALUES: self._values, _VECTORS: self._vectors}
