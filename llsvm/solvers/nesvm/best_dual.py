"""BestDual: the best dual point among feasible ones and mixtures of them, without keeping their α.

The dual of an SVM is D(α) = s − R*(v) with s and v = Σ α_i y_i x_i linear in α, and mixtures of feasible points
are feasible. So (s, v) of the best point so far and of a new one suffice for the best point on the segment between
them:

    l2:  max_θ  s + θ Δs − ½‖v + θ Δv‖²  over [0, 1], from (0, 0), α = 0, on
    l1:  D = s if ‖v‖∞ ≤ 1; a point is shrunk until it is (α = 0 is feasible, so the segment to it is too)

For squared losses s holds Σ α − Σ α²/(4c), concave in α: a mixture is worth at least the mixture of the s.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.saved_numbers import SavedNumbers
from llsvm.solvers.state import Value
from llsvm.solvers.state_arrays import ProblemArrays

Vector = NDArray[np.float64]


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
