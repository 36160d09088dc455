"""Newton's step where the Hessian is too large to hold: by its products with vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.optim.conjugate_gradients import ConjugateGradients
from llsvm.solvers.smsvm.descent import Descent
from llsvm.solvers.smsvm.sums import Point, Sums

Vector = NDArray[np.float64]
SumUp = Callable[[list[Point]], list[Sums]]


class NewtonStep:
    """A Newton step, (H + ridge) s = −gradient, by conjugate gradients that are preconditioned by the diagonal.

    point: where the Hessian H is. ridge: (n,), or (1,) for all. diagonal: (n,) of H + ridge. until: the residual
    falls to this share of the gradient."""

    def __init__(
        self,
        problem: Descent,
        point: Point,
        diagonal: Vector,
        ridge: Vector,
        until: float,
    ) -> None:
        self.problem, self.point, self.until = problem, point, until
        self.diagonal, self.ridge = diagonal, ridge
        self.system = ConjugateGradients(-problem.last.gradient, lambda r: r / diagonal)

    @property
    def done(self) -> bool:
        return self.system.fell_to(self.until)

    def advance(self, product: Vector) -> None:
        """product: H times the system's direction."""
        self.system.advance(product + self.ridge * self.system.direction)

    @property
    def fall(self) -> float:
        """Of the quadratic model, by the step."""
        return 0.5 * float((self.system.residual - self.problem.last.gradient) @ self.system.solution)


def multiply(steps: list[NewtonStep], sum_up: SumUp) -> bool:
    """A product of the Hessian for each step that wants one; False where none does."""
    going = [step for step in steps if not step.done]
    if not going:
        return False
    points = [replace(step.point, diagonal=False, direction=step.system.direction) for step in going]
    for step, sums in zip(going, sum_up(points), strict=True):
        step.advance(sums.product)
    return True
