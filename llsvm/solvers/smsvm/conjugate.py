"""Conjugate gradients: a Newton step where the Hessian is too large to hold, by its products with vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

MAX_CG, CG_UNTIL = 30, 0.1  # products per Newton step; the residual's norm falls to this share


class ConjugateGradients:
    """Solves (H + ridge) step = −gradient, preconditioned by its diagonal, a product at a time."""

    def __init__(self, gradient: Vector, diagonal: Vector, ridge: float) -> None:
        """diagonal: of H + ridge."""
        self.ridge = ridge
        self.gradient, self.diagonal = gradient, diagonal
        self.step = np.zeros_like(gradient)
        self.residual = -gradient
        self.direction = self.residual / diagonal
        self.size = self.first = float(self.residual @ self.direction)

    @property
    def done(self) -> bool:
        return self.size <= CG_UNTIL**2 * self.first

    def advance(self, product: Vector) -> None:
        """product: H times ``direction``."""
        product = product + self.ridge * self.direction
        length = self.size / float(self.direction @ product)
        self.step += length * self.direction
        self.residual -= length * product
        scaled = self.residual / self.diagonal
        before, self.size = self.size, float(self.residual @ scaled)
        self.direction = scaled + self.size / before * self.direction

    @property
    def fall(self) -> float:
        """Of the quadratic model, by the step."""
        return 0.5 * float((self.residual - self.gradient) @ self.step)
