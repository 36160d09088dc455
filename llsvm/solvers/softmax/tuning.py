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
    """Of conjugate gradients in a step, each a pass where rows are not in memory."""
    max_columns: int = 2048
    """Up to so many have the Hessian of a sample as the preconditioner ..."""
    rows_per_column: int = 8
    """... of so many rows for each of them, ..."""
    sampled_accuracy: float = 0.1
    """... solved to this share of the residual ..."""
    max_sampled_products: int = 250
    """... in so many products with the sample, at most."""
    accuracy: float = 0.1
    """To which conjugate gradients solve far from the optimum; nearer, to the root of the gradient's share."""
    decrease: float = 1e-4
    """Of the line search (Armijo),"""
    shortest: float = 1e-10
    """which ends here."""


DEFAULT = SoftmaxTuning()
