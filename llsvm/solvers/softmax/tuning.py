"""SoftmaxTuning: the constants that its speed depends on, and never its answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SoftmaxTuning:
    max_order: int = 2000
    """Of a Hessian that is factorized: that takes the cube of it, which beyond is more than products take."""
    max_products: int = 250
    """In a step, each a pass where rows are not in memory: rounding may keep them from ever getting there."""
    accuracy: float = 0.1
    """To which conjugate gradients solve far from the optimum; nearer, to the root of the gradient's share."""


DEFAULT = SoftmaxTuning()
