"""Losses: one object for each, with all the mathematics of it that is not in a kernel.

A loss φ(m) of a row's margin m = y (w·x) stands in the primal as Σ C_i φ(m_i), C_i as ``row_costs`` gives it. Its
conjugate makes the dual: with α_i = C_i a_i and w = Σ α_i y_i x_i (penalty ½‖w‖²),

    D(α) = Σ C_i b(a_i) − ½‖w(α)‖²,   b(a) = −φ*(−a),   lower ≤ a_i ≤ upper

so that C_i φ(m_i) + α_i m_i − C_i b(a_i) ≥ 0 is what row i adds to the duality gap (Fenchel and Young), and
C_i φ'(m_i) = −α_i at the optimum.

To add a loss: a class here and a line in LOSSES; its number in the kernels of the solvers that take it, each of
which knows losses by number only, since Numba does not keep compiled what is passed a function; and its name where
settings/methods.py says which solver takes which loss.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


class Loss(ABC):
    """φ(m) and what follows from it. Arrays are float64, of any one shape; margins and a have no unit.

    name: as in Settings. number: by which kernels know it.
    lower, upper: bounds of a_i = α_i / C_i; infinite where there are none.
    ridge: the curvature of −b, so that b(a) = a − ½ ridge a² within the bounds (0: b is a straight line).
    slope: the largest |φ'|, infinite where it is not bounded.
    smoothness: the largest second derivative, infinite where φ has a kink (solvers smooth it).
    """

    name: ClassVar[str]
    number: ClassVar[int]
    lower: ClassVar[float]
    upper: ClassVar[float]
    ridge: ClassVar[float]
    slope: ClassVar[float]
    smoothness: ClassVar[float]

    @abstractmethod
    def value(self, margin: Vector) -> Vector:
        """φ(m)."""

    @abstractmethod
    def derivative(self, margin: Vector) -> Vector:
        """φ'(m); where there is a kink, one between the derivatives at its sides."""

    @abstractmethod
    def largest_value(self, margin: Vector, error: Vector) -> Vector:
        """The largest φ of margins that are off by at most ``error`` ≥ 0."""

    def dual_value(self, a: Vector) -> Vector:
        """b(a) = −φ*(−a), for lower ≤ a ≤ upper."""
        return a - 0.5 * self.ridge * a * a

    def dual_gradient(self, a: Vector, margin: Vector) -> Vector:
        """−∂D/∂α_i = m − b'(a): a step against it raises D."""
        return margin - 1.0 + self.ridge * a

    def slack(self, alpha: Vector, margin: Vector, cost: Vector | float = 1.0) -> Vector:
        """How far each row's dual gradient is on the right side of 0 at the bound that α_i is at; 0 where the row
        is free (between its bounds) or violates the optimality conditions (KKT). cost: C_i; α and cost of any unit,
        as long as it is the same. NaN where the margin is."""
        outward = np.zeros_like(margin)
        if math.isfinite(self.lower):
            at_bound = alpha <= (self.lower * cost if self.lower else 0.0)
            outward = np.where(at_bound, margin - (1.0 - self.ridge * self.lower), outward)
        if math.isfinite(self.upper):
            at_bound = alpha >= self.upper * cost
            outward = np.maximum(outward, np.where(at_bound, (1.0 - self.ridge * self.upper) - margin, 0.0))
        return np.maximum(outward, 0.0)

    def free(self, alpha: Vector, cost: Vector | float = 1.0) -> NDArray[np.bool_]:
        """Which α_i are between their bounds, and at neither."""
        free = np.ones(alpha.shape, bool)
        if math.isfinite(self.lower):
            free &= alpha > self.lower * cost
        if math.isfinite(self.upper):
            free &= alpha < self.upper * cost
        return free


class Hinge(Loss):
    """φ(m) = max(0, 1 − m)."""

    name = "hinge"
    number = 0
    lower, upper = 0.0, 1.0
    ridge = 0.0
    slope = 1.0
    smoothness = np.inf

    def value(self, margin: Vector) -> Vector:
        return np.maximum(0.0, 1.0 - margin)

    def derivative(self, margin: Vector) -> Vector:
        return np.where(margin < 1.0, -1.0, 0.0)

    def largest_value(self, margin: Vector, error: Vector) -> Vector:
        return np.maximum(0.0, 1.0 - margin + error)


class SquaredHinge(Loss):
    """φ(m) = max(0, 1 − m)² (LIBLINEAR -s 1 and 2; Hsieh et al. 2008)."""

    name = "squared_hinge"
    number = 1
    lower, upper = 0.0, np.inf
    ridge = 0.5
    slope = np.inf
    smoothness = 2.0

    def value(self, margin: Vector) -> Vector:
        z = np.maximum(0.0, 1.0 - margin)
        return z * z

    def derivative(self, margin: Vector) -> Vector:
        return -2.0 * np.maximum(0.0, 1.0 - margin)

    def largest_value(self, margin: Vector, error: Vector) -> Vector:
        z = np.maximum(0.0, 1.0 - margin + error)
        return z * z


class LeastSquares(Loss):
    """φ(m) = (1 − m)², the loss of LS-SVM (NESVM eq. 53)."""

    name = "least-squares"
    number = 2
    lower, upper = -np.inf, np.inf
    ridge = 0.5
    slope = np.inf
    smoothness = 2.0

    def value(self, margin: Vector) -> Vector:
        return (1.0 - margin) ** 2

    def derivative(self, margin: Vector) -> Vector:
        return -2.0 * (1.0 - margin)

    def largest_value(self, margin: Vector, error: Vector) -> Vector:
        return (np.abs(1.0 - margin) + error) ** 2


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Hinge(), SquaredHinge(), LeastSquares())}


def loss_of(name: str) -> Loss:
    """The loss that Settings call ``name``."""
    return LOSSES[name]


@dataclass(frozen=True, slots=True)
class JointLoss:
    """A loss of all k margins of a row at once, with duals of its own (Keerthi et al. 2008).

    number: by which kernels know it.
    slope: of the loss, and spread: of ‖Σ α x‖, in units of C_i ‖x_i‖, at most; bounded: the α of a row sum to at
    most so many C_i. What the rounding of values can hide follows from these (rounding.py).
    """

    name: str
    number: int
    slope: float
    spread: float
    bounded: float

    @property
    def at_zero(self) -> float:
        """The loss of a row where all weights are 0. It is what all α at their bounds sum to: the dual is linear in
        them but for the weights."""
        return self.bounded


def joint_loss(name: str, n_classes: int) -> JointLoss:
    """The loss of the joint multi-class method ``name``, for so many classes."""
    if name == "crammer-singer":
        return JointLoss(name, 0, math.sqrt(2.0), math.sqrt(2.0), 1.0)
    if name == "weston-watkins":
        others = n_classes - 1.0
        return JointLoss(name, 1, others + math.sqrt(others), math.sqrt(2.0), others)
    raise KeyError(name)
