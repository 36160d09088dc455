"""Conjugate gradients: a Newton step where the Hessian is too large to hold, by its products with vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.smsvm.tuning import DEFAULT

Vector = NDArray[np.float64]


class ConjugateGradients:
    """Solves (H + ridge) step = −gradient, preconditioned by its diagonal, a product at a time."""

    def __init__(
        self, gradient: Vector, diagonal: Vector, ridge: Vector, until: float = DEFAULT.cg_until
    ) -> None:
        """gradient, diagonal: (n,), the latter of H + ridge. ridge: (n,), or (1,) for all. until: the residual's
        norm falls to this share."""
        self.ridge = ridge
        self._until = until
        self.gradient, self.diagonal = gradient, diagonal
        self.step = np.zeros_like(gradient)
        self.residual = -gradient
        self.direction = self.residual / diagonal
        self.size = self.first = float(self.residual @ self.direction)

    @property
    def done(self) -> bool:
        return self.size <= self._until**2 * self.first

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

    def arrays(self, name: str) -> dict[str, Vector]:
        """What it goes on from, for a SolverState; name: of the problem."""
        return {
            f"{name} step": self.step,
            f"{name} residual": self.residual,
            f"{name} direction": self.direction,
            f"{name} diagonal": self.diagonal,
            f"{name} ridge": self.ridge,
            f"{name} sizes": np.array([self.size, self.first]),
        }

    @classmethod
    def restored(
        cls, name: str, arrays: Mapping[str, NDArray[Any]], gradient: Vector, until: float
    ) -> ConjugateGradients:
        """As it was when it gave ``arrays``, which are copied."""
        size, first = arrays[f"{name} sizes"].tolist()
        diagonal, ridge = np.array(arrays[f"{name} diagonal"]), np.array(arrays[f"{name} ridge"])
        run = cls(gradient, diagonal, ridge, until)
        run.step, run.residual = np.array(arrays[f"{name} step"]), np.array(arrays[f"{name} residual"])
        run.direction, run.size, run.first = np.array(arrays[f"{name} direction"]), size, first
        return run
