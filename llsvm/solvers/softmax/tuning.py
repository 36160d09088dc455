"""SoftmaxTuning: the constants that its speed depends on, and never its answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SoftmaxTuning:
    max_whole: int = 1500
    """Weights: a Hessian over so many at most is summed in the pass that measures; more take products with it."""
    hessian_share: float = 0.25
    """Of the memory there is, at most, for that Hessian."""
    max_products: int = 250
    """Of conjugate gradients in a step, each a pass where rows are not in memory, and as many with a sample in each
    of these."""
    max_columns: int = 2048
    """Up to so many have the Hessian of a sample as the preconditioner ..."""
    rows_per_column: int = 8
    """... of so many rows for each of them."""
    accuracy: float = 0.1
    """To which conjugate gradients solve far from the optimum, and those of a sample anywhere; nearer, the former
    solve to the root of the gradient's share."""
    decrease: float = 1e-4
    """Of the line search (Armijo)."""


DEFAULT = SoftmaxTuning()
