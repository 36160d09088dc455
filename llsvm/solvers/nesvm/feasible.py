"""From the α of a pass to a feasible dual point of a linear machine.

α_i = −c_i φ'(m_i) is within its bounds. An unpenalised intercept asks for Σ α y = 0 too, which holds at the optimum
only. The side with the larger sum is scaled down to the other's, or, where α may have any sign, α_i y_i is shifted
by a multiple of c_i: both keep α within its bounds.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import PLQLoss
from llsvm.solvers.nesvm import kernels as kernel
from llsvm.solvers.saved_numbers import SavedNumbers
from llsvm.solvers.state import Value
from llsvm.solvers.state_arrays import ProblemArrays

Vector = NDArray[np.float64]


class FeasiblePoints:
    """Of one problem."""

    def __init__(self, loss: PLQLoss, intercept: bool, arrays: ProblemArrays) -> None:
        """loss: whose α these are.
        intercept: there is one that is not penalised.
        arrays: its vectors are as long as the weights, (width,).
        """
        self._intercept = intercept
        self._shifts = intercept and math.isinf(loss.lower)
        if self._shifts:
            self._rows = arrays.vector("sum of costs times rows")
            self._cost = self._balance = 0.0  # Σ c, Σ c y: known after the first pass

    def point(self, sums: Vector, grad: Vector) -> tuple[float, Vector]:
        """s (Σ α, less Σ α²/(4c) of squared losses) and v (width,) = Σ α y x of a feasible α.

        sums: (N_SUMS,) of a pass, see kernels.py.
        grad: (1 or 2, width) of that pass.
        """
        if not self._intercept:
            total = float(sums[kernel.ALPHA_PLUS]) + float(sums[kernel.ALPHA_MINUS])
            return total - float(sums[kernel.ALPHA_SQUARES]), grad[0].copy()
        return self._shifted(sums, grad) if self._shifts else self._scaled(sums, grad)

    def _scaled(self, sums: Vector, grad: Vector) -> tuple[float, Vector]:
        plus, minus = float(sums[kernel.ALPHA_PLUS]), float(sums[kernel.ALPHA_MINUS])
        smaller = min(plus, minus)
        of_plus = smaller / plus if plus > 0 else 0.0
        of_minus = smaller / minus if minus > 0 else 0.0
        v = grad[0] * of_plus + grad[1] * of_minus
        v[-1] = 0.0
        minus_squares = float(sums[kernel.ALPHA_SQUARES_MINUS])
        plus_squares = float(sums[kernel.ALPHA_SQUARES]) - minus_squares
        return 2.0 * smaller - (of_plus**2 * plus_squares + of_minus**2 * minus_squares), v

    def _shifted(self, sums: Vector, grad: Vector) -> tuple[float, Vector]:
        """α_i y_i − t c_i sums to 0 for t = Σ α y / Σ c."""
        plus, minus = float(sums[kernel.ALPHA_PLUS]), float(sums[kernel.ALPHA_MINUS])
        if self._cost == 0.0:  # the first pass is at w = 0, where α = 2c
            self._cost, self._balance = (plus + minus) / 2, (plus - minus) / 2
            self._rows[:] = (grad[0] - grad[1]) / 2
        t = (plus - minus) / self._cost
        s = plus + minus - t * self._balance
        squares = float(sums[kernel.ALPHA_SQUARES])
        squares += -t * (plus - minus) / 2 + t * t * self._cost / 4
        v = grad[0] + grad[1] - t * self._rows
        v[-1] = 0.0
        return s - squares, v

    def numbers(self) -> dict[str, Value]:
        """What there is to know beside the arrays."""
        return {"cost": self._cost, "balance": self._balance} if self._shifts else {}

    def restore(self, saved: SavedNumbers) -> None:
        if self._shifts:
            self._cost, self._balance = saved.real("cost"), saved.real("balance")
