"""Feasible dual points of the α of a pass, and the best among them and their mixtures, without keeping their α.

α_i = −c_i φ'(m_i) is within its bounds. An unpenalised intercept asks for Σ α y = 0 too, which holds at the optimum
only: the side of y with the larger sum is scaled down to the other's, which keeps α within its bounds.

The dual of an SVM is D(α) = s − R*(v) with s and v = Σ α_i y_i x_i linear in α, and mixtures of feasible points
are feasible. So (s, v) of the best point so far and of a new one suffice for the best point on the segment between
them:

    l2:  max_θ  s + θ Δs − ½‖v + θ Δv‖²  over [0, 1], from (0, 0), α = 0, on
    l1:  D = s if ‖v‖∞ ≤ 1; a point is shrunk until it is (α = 0 is feasible, so the segment to it is too)

For squared losses s holds Σ α − Σ α²/(4c), concave in α: a mixture is worth at least the mixture of the s.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.nesvm import kernels as kernel
from llsvm.solvers.saved_numbers import SavedNumbers
from llsvm.solvers.state import Value
from llsvm.solvers.state_arrays import ProblemArrays

Vector = NDArray[np.float64]


def feasible_point(sums: Vector, grad: Vector) -> tuple[float, Vector]:
    """Return s (Σ α, less Σ α²/(4c) of squared losses) and v (width,) = Σ α y x of a feasible α.

    sums: (N_SUMS,) of a pass, see kernels.py.
    grad: (1 or 2, width) of that pass; 2 where the intercept is not penalised.
    """
    alpha = sums[[kernel.ALPHA_PLUS, kernel.ALPHA_MINUS]]
    minus = float(sums[kernel.ALPHA_SQUARES_MINUS])
    squares = np.array([sums[kernel.ALPHA_SQUARES] - minus, minus])
    if len(grad) == 1:
        return float(alpha.sum() - squares.sum()), grad[0].copy()
    factor = np.where(alpha > 0.0, max(float(alpha.min()), 0.0) / np.where(alpha > 0.0, alpha, 1.0), 0.0)
    v = factor @ grad
    v[-1] = 0.0
    return float(factor @ alpha - factor**2 @ squares), v


def lower_mu(mu: float, smoothing_gap: float, allowed: float) -> float:
    """Return the next μ of a homotopy: smoothing's part of the gap falls with its square, and is to be half of what
    is allowed; a stage begins at half of the μ of the last, at least."""
    return mu * max(0.5, math.sqrt(0.5 * allowed / smoothing_gap))


class BestDual:
    """Of one problem; see the file's head.

    value: the best dual objective known.
    v: (width,) Σ α y x of the point that has it (not with l1).
    """

    def __init__(self, arrays: ProblemArrays, l1: bool = False, kernel: bool = False) -> None:
        """arrays: for v.
        l1: the dual is that of ‖w‖₁.
        kernel: v holds the coefficients α y, and products are vᵀKv'.
        """
        self.value = self._s = 0.0  # of α = 0
        self._l1 = l1
        if not l1:
            self.v = arrays.vector("best dual: v")
            self._image = arrays.vector("best dual: K v") if kernel else self.v

    def add(self, s: float, v: Vector, image: Vector | None = None) -> None:
        """Take a feasible point.

        s: what of its dual objective is linear in α.
        v: (width,) Σ α y x, or the coefficients α y.
        image: (width,) K v of the latter.
        """
        if self._l1:
            self.value = max(self.value, s / max(1.0, float(np.abs(v).max(initial=0.0))))
            return
        image = v if image is None else image
        step, step_image, more = v - self.v, image - self._image, s - self._s
        slope, curvature = more - float(self._image @ step), float(step_image @ step)
        if slope <= 0.0:
            return
        share = min(slope / curvature, 1.0) if curvature > 0.0 else 1.0
        self._s += share * more
        self.v += share * step
        if self._image is not self.v:
            self._image += share * step_image
        self.value = max(self.value, self._s - 0.5 * float(self.v @ self._image))

    def numbers(self) -> dict[str, Value]:
        """What there is to know beside the arrays."""
        return {"value": self.value, "s": self._s}

    def restore(self, saved: SavedNumbers) -> None:
        """Take up ``numbers``; the arrays are restored by themselves."""
        self.value, self._s = saved.real("value"), saved.real("s")
