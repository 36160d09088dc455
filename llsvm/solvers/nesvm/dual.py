"""Feasible dual points of the α of a pass, and the best among their mixtures, without keeping their α.

α_i = −c_i φ'(m_i) is within its bounds. An unpenalised intercept asks for Σ α y = 0 too, which holds at the optimum
only: the side of y with the larger sum is scaled down to the other's, which keeps α within its bounds.

The dual of an SVM is D(α) = s − ½‖v‖² with s and v = Σ α_i y_i x_i linear in α, and mixtures of feasible points
are feasible. So (s, v) of the best point so far and of a new one suffice for the best point on the segment between
them. With l1, D = s if ‖v‖∞ ≤ 1; a point is shrunk until it is. For squared losses s holds Σ α − Σ α²/(4c), concave
in α: a mixture is worth at least the mixture of the s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.nesvm import kernels as kernel

Vector = NDArray[np.float64]

# The first μ: a larger one has easier first stages, and more of them; a smaller one has fewer stages, and the first
# is harder, as its problem is less smooth and begins far from its solution.
FIRST_MU = 5.0
# A stage begins at no less than this share of the last one's μ: a larger share makes more stages, each of which
# starts nearer to its solution.
MU_FACTOR = 0.5
# μ falls while smoothing makes up more than this share of the gap asked for. A larger share leaves less for the
# rest of the gap, at an easier problem.
SMOOTHING_SHARE = 0.7


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


@dataclass(frozen=True, slots=True)
class BestDual:
    """The best dual point known.

    value: its dual objective.
    s: what of that is linear in α. v: (width,) Σ α y x. Neither is kept with l1.
    """

    value: float
    s: float
    v: Vector

    @classmethod
    def zero(cls, width: int) -> BestDual:
        """Return α = 0."""
        return cls(0.0, 0.0, np.zeros(width))

    def mixed_with(self, s: float, v: Vector) -> BestDual:
        """Return the best point on the way to another one; l2."""
        step = v - self.v
        slope, curvature = s - self.s - float(self.v @ step), float(step @ step)
        share = float(np.clip(slope / curvature, 0.0, 1.0)) if curvature > 0.0 else float(slope > 0.0)
        s, v = self.s + share * (s - self.s), self.v + share * step
        return BestDual(max(self.value, s - 0.5 * float(v @ v)), s, v)

    def or_shrunk(self, s: float, v: Vector) -> BestDual:
        """Return the better of this and another point, which is shrunk until it is feasible; l1."""
        return replace(self, value=max(self.value, s / max(1.0, float(np.abs(v).max(initial=0.0)))))


def lower_mu(mu: float, smoothing_gap: float, allowed: float) -> float:
    """Return the next μ of a homotopy: smoothing's part of the gap falls with its square, and is to be half of what
    is allowed; a stage begins at ``MU_FACTOR`` of the μ of the last, at least."""
    # Half is less than SMOOTHING_SHARE, so that μ need not fall again for a part that is a little larger than
    # foreseen, and as much is left to the rest of the gap. Less would make the problem harder than it has to be.
    return mu * max(MU_FACTOR, math.sqrt(0.5 * allowed / smoothing_gap))
