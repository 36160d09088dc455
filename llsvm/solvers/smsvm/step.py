"""Newton's step where the Hessian is too large to hold: by its products with vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.optim.conjugate_gradients import UNTIL, ConjugateGradients
from llsvm.solvers.optim.newton_system import MOST_PRODUCTS
from llsvm.solvers.smsvm.descent import Descent
from llsvm.solvers.smsvm.sums import Point, Sums
from llsvm.solvers.state import SolverState

Vector = NDArray[np.float64]
SumUp = Callable[[list[Point]], list[Sums]]


class NewtonStep:
    """A Newton step, (H + ridge) s = −gradient, by conjugate gradients that are preconditioned by the diagonal.

    point: where the Hessian H is. products: of H with vectors, so far."""

    def __init__(
        self, problem: Descent, point: Point, diagonal: Vector, ridge: Vector, until: float, products: int = 0
    ) -> None:
        """ridge: (n,), or (1,) for all. diagonal: (n,) of H + ridge. until: the residual falls to this share of the
        gradient."""
        self.problem, self.point, self.products = problem, point, products
        self._diagonal, self._ridge, self._until = diagonal, ridge, until
        self._system = ConjugateGradients(-problem.last.gradient, lambda r: r / diagonal)

    @property
    def done(self) -> bool:
        return self.products >= MOST_PRODUCTS or self._system.fell_to(self._until)

    @property
    def direction(self) -> Vector:
        """(n,) that H is to be multiplied with next."""
        return self._system.direction

    def advance(self, product: Vector) -> None:
        """Move on by a product of H with the direction, (n,)."""
        self.products += 1
        self._system.advance(product + self._ridge * self.direction)

    def finish(self, tol: float) -> None:
        """Let the problem aim at where this has led."""
        fall = 0.5 * float((self._system.residual - self.problem.last.gradient) @ self._system.solution)
        self.problem.step_to(self.problem.w + self._system.solution, fall)
        self.problem.reduce_smoothing(tol)

    def arrays(self, name: str) -> dict[str, Vector]:
        """Return what ``restore`` wants, for a SolverState; name: of the problem."""
        arrays = {f"{name} diagonal": self._diagonal, f"{name} ridge": self._ridge}
        return arrays | self._system.arrays(name)

    @classmethod
    def restore(cls, problem: Descent, name: str, state: SolverState, products: int) -> NewtonStep:
        """Return the step of which ``arrays`` are in the state, after so many products in passes."""
        diagonal, ridge = (np.array(state.arrays[f"{name} {a}"]) for a in ("diagonal", "ridge"))
        point = replace(problem.new_point(), straight=False, diagonal=True)
        step = cls(problem, point, diagonal, ridge, UNTIL, products)
        step._system.restore(name, state)
        return step


def multiply(steps: list[NewtonStep], sum_up: SumUp) -> bool:
    """Make a product of the Hessian for each step that wants one; return False where none does."""
    going = [step for step in steps if not step.done]
    if not going:
        return False
    points = [replace(step.point, diagonal=False, direction=step.direction) for step in going]
    for step, sums in zip(going, sum_up(points), strict=True):
        step.advance(sums.product)
    return True
