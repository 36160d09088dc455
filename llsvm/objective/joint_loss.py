"""Losses of all k margins of a row at once, the joint multi-class methods': what is said of them outside their
solvers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class JointLoss:
    """A loss of all k margins of a row at once, with duals of its own (Keerthi et al. 2008).

    number: by which kernels know it.
    slope: of the loss, and spread: of ‖Σ α x‖, in units of C_i ‖x_i‖, at most; bounded: the α of a row sum to at
    most so many C_i. What the rounding of values can hide follows from these (rounding.py).
    at_zero: the loss of a row where all weights are 0. linear: the dual is linear in α but for the weights, and
    then at_zero is what all α at their bounds sum to.
    """

    name: str
    number: int
    slope: float
    spread: float
    bounded: float
    at_zero: float
    linear: bool = True


def joint_loss(name: str, n_classes: int) -> JointLoss:
    """The loss of the joint multi-class method ``name``, for so many classes."""
    if name == "crammer-singer":
        return JointLoss(name, 0, math.sqrt(2.0), math.sqrt(2.0), 1.0, 1.0)
    if name == "weston-watkins":
        others = n_classes - 1.0
        return JointLoss(name, 1, others + math.sqrt(others), math.sqrt(2.0), others, others)
    if name == "softmax":
        return JointLoss(name, 2, math.sqrt(2.0), math.sqrt(2.0), 1.0, math.log(n_classes), False)
    raise KeyError(name)


def softmax(scores: Array) -> tuple[Array, Array, Array]:
    """Of (n, k) scores: the probabilities (n, k), the scores less the row's largest (n, k), and the logarithm (n,)
    of the sum of their exponentials. Log losses and entropies are sums of the latter two, whose signs agree: those
    next to 0 keep their digits."""
    rows, largest = np.arange(len(scores)), scores.argmax(axis=1)
    behind = scores - scores[rows, largest][:, None]
    p = np.exp(behind)
    p[rows, largest] = 0.0
    others = p.sum(axis=1)
    p[rows, largest] = 1.0
    p /= 1.0 + others[:, None]
    return p, behind, np.log1p(others)
