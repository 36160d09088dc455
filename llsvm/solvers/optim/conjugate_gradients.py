"""Preconditioned conjugate gradients (Hestenes & Stiefel 1952; Nocedal & Wright, Numerical Optimization, algorithm
5.3): A x = b for a symmetric positive definite A that is known by its products with vectors."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.optim.lapack import dot
from llsvm.solvers.state import SolverState
from llsvm.stream.progress import Progress

Array = NDArray[np.float64]

# Share of its right side that the residual of a Newton system may keep. Lower takes more products, for as many
# steps of Newton's method; higher makes more steps.
UNTIL = 0.1
_ARRAYS = ("step", "residual", "direction")  # their names in states


class Way(Enum):
    """How a Newton system is solved: by a matrix of the order of its columns, by one of the order of its rows, or
    by conjugate gradients."""

    COLUMNS = auto()
    ROWS = auto()
    PRODUCTS = auto()


class ConjugateGradients:
    """The state of one run, which whoever makes the products moves on.

    solution, residual, direction: arrays of the shape of b: x so far, b − A x, and what A is multiplied by next.
    """

    def __init__(self, right: Array, precondition: Callable[[Array], Array]) -> None:
        """Begin at x = 0.

        right: b, float64, of any shape; copied.
        precondition: an approximate A⁻¹ times such an array, which it returns in a new one. It may differ from one
            product to the next (an inner iteration): directions are made conjugate by the change of the residual
            (Polak & Ribière; Notay 2000), which for a fixed one is the same.
        """
        self._precondition = precondition
        self.solution = np.zeros_like(right)
        self.residual = right.copy()
        self.direction = precondition(self.residual)
        self.size = self.first_size = dot(self.residual, self.direction)

    def fell_to(self, share: float) -> bool:
        """Return whether the residual, in the norm of the preconditioner, is at most this share of b's."""
        return self.size <= share * share * self.first_size

    def advance(self, product: Array) -> bool:
        """Take a step along ``direction``; product: A times it, which is overwritten.

        Returns False, and takes none, where the product shows no positive curvature: b is 0, or A is not positive
        definite as far as rounding lets it be seen.
        """
        curvature = dot(self.direction, product)
        if not curvature > 0.0:
            return False
        length = self.size / curvature
        self.solution += length * self.direction
        product *= length
        self.residual -= product
        scaled = self._precondition(self.residual)
        before, self.size = self.size, dot(self.residual, scaled)
        self.direction *= -dot(product, scaled) / before
        self.direction += scaled
        return True

    def arrays(self, name: str) -> dict[str, Array]:
        """Return what ``restore`` wants, for a SolverState; name: of the system."""
        sizes = np.array([self.size, self.first_size])
        arrays = (self.solution, self.residual, self.direction)
        return {f"{name} {a}": array for a, array in zip(_ARRAYS, arrays, strict=True)} | {
            f"{name} sizes": sizes
        }

    def restore(self, name: str, state: SolverState) -> None:
        """Go on from what gave ``arrays``, which the state has; they are copied. Raises UsageError where it has
        none of these shapes."""
        shapes = {f"{name} {a}": self.solution.shape for a in _ARRAYS}
        state.require_shapes(shapes | {f"{name} sizes": (2,)})
        self.solution, self.residual, self.direction = (np.array(state.arrays[a]) for a in shapes)
        self.size, self.first_size = state.arrays[f"{name} sizes"].tolist()


def conjugate_gradients(
    times: Callable[[Array], Array],
    right: Array,
    precondition: Callable[[Array], Array],
    until: float,
    max_products: int,
    progress: Progress,
) -> Array:
    """Solve A x = b nearly, and return x.

    times: A times an array, in a new one.
    right: b. precondition: see ``ConjugateGradients``.
    until: the residual falls to this share of b.
    max_products: products of A with a vector, at most.
    progress: of the run; where its time is over, x is what was found so far.
    """
    run = ConjugateGradients(right, precondition)
    for _ in range(max_products):
        if run.fell_to(until) or progress.out_of_time or not run.advance(times(run.direction)):
            break
    return run.solution
