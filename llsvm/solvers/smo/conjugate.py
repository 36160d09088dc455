"""Least squares: (K + D) β + b = t, Σ β = 0 where b is free, by conjugate gradients.

Preconditioned with the diagonal, projected onto Σ β = 0 (Gould, Hribar, Nocedal 2001, algorithm 2.1). A step costs
one product with K, whoever makes it. The gap is a by-product, as f = Kβ is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.kernel_machine.objective import not_definite
from llsvm.solvers.optim.rounding import BEYOND_ROUNDING

Vector = NDArray[np.float64]


@dataclass(slots=True)
class KernelConjugateGradients:
    """At β; arrays are (n,).

    diagonal: that of K + D. ridge: D. free_intercept: Σ β is kept. direction: of the last step, changed in place.
    square: rᵀM⁻¹r of the last step, 0 before the first.
    """

    diagonal: Vector
    ridge: Vector
    free_intercept: bool
    direction: Vector
    square: float = 0.0

    def turn(self, gradient: Vector) -> None:
        """The next direction, from the gradient t − f − D β."""
        z = gradient / self.diagonal
        if self.free_intercept:
            inverse = 1.0 / self.diagonal
            z -= inverse * (float(z.sum()) / float(inverse.sum()))
        square = float(gradient @ z)
        keep = square / self.square if self.square > 0 else 0.0
        self.direction *= keep
        self.direction += z
        if self.free_intercept:
            self.direction -= self.direction.mean()  # rounding
        self.square = square

    def step(self, gradient: Vector, image: Vector) -> float:
        """How far to go along the direction; image: K times it. 0 where nothing is left to gain. Raises DataError
        where K is not definite."""
        squares = self.direction * self.direction
        bend = float(self.direction @ image) + float(self.ridge @ squares)
        if bend < -BEYOND_ROUNDING * float(self.diagonal @ squares):
            raise not_definite()
        return float(self.direction @ gradient) / bend if bend > 0 else 0.0
