"""Losses: one object for each, with all the mathematics of it that is not in a kernel.

A loss φ(m, t) of a row's margin m and target t stands in the primal as Σ C_i φ(m_i, t_i), C_i as ``RowCosts`` has
it. Classification: m_i = y_i w·x_i, y_i = ±1, and t_i = 1. Regression: m_i = w·x_i, and t_i is the number to meet.
The conjugate makes the dual: with α_i = C_i a_i and w = Σ α_i y_i x_i (regression: without y_i; penalty ½‖w‖²),

    D(α) = Σ C_i b(a_i, t_i) − ½‖w(α)‖²,   b(a, t) = −φ*(−a),   lower ≤ a_i ≤ upper

so that C_i φ(m_i) + α_i m_i − C_i b(a_i) ≥ 0 is what row i adds to the duality gap (Fenchel and Young), and
C_i φ'(m_i) = −α_i at the optimum.

All but the logistic loss are piecewise linear-quadratic (Rockafellar & Wets 1998, 11.14; Aravkin et al. 2013) and
one family, of four numbers; one_class has a linear term beside them (one_class.py):

    b(a, t) = t a − epsilon |a| − ½ ridge a²
    φ(m, t) = max over lower ≤ a ≤ upper of  a (t − m) − epsilon |a| − ½ ridge a²

    loss                          φ of z = t − m                                lower, upper   ridge  epsilon
    hinge                         max(0, z)                                     0, 1           0      0
    squared_hinge                 max(0, z)²                                    0, ∞           ½      0
    least-squares                 z²                                            −∞, ∞          ½      0
    epsilon_insensitive           max(0, |z| − ε)                               −1, 1          0      ε
    squared_epsilon_insensitive   max(0, |z| − ε)²                              −∞, ∞          ½      ε
    quantile                      max(τ z, (τ − 1) z)                           τ − 1, τ       0      0
    huber                         ½ z² where |z| ≤ δ, beyond δ |z| − ½ δ²       −δ, δ          1      0
    one_class                     max(0, z), t = 0, m = w·x − ρ                 0, 1           0      0

To add one of the family: a line in ``new_loss`` and a name in llsvm.settings.objective (guide internals, To add a
loss). Kernels know a loss by these four numbers, since Numba does not keep compiled what is passed a function.
Which solver takes which loss is said in settings/methods.py.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.settings.objective import CLASSIFICATION, ONE_CLASS, REGRESSION, UNLABELLED
from llsvm.settings.settings import Settings

Vector = NDArray[np.float64]
Target = Vector | float  # of each row, or of all; 1 for a class


@dataclass(frozen=True)
class Loss(ABC):
    """φ(m, t) and what follows from it. Arrays are float64, of any one shape; a has no unit, margins have the
    target's.

    name: as in Settings. kind: what the labels are for it, a name of llsvm.settings.objective.
    lower, upper: bounds of a_i = α_i / C_i; infinite where there are none.
    slope: the largest |φ'|, infinite where it is not bounded.
    smoothness: the largest second derivative, infinite where φ has a kink (solvers smooth it).
    """

    name: str
    kind: str
    lower: float
    upper: float

    @property
    def slope(self) -> float:
        return max(abs(self.lower), abs(self.upper))

    @property
    @abstractmethod
    def smoothness(self) -> float: ...

    @property
    def bends_everywhere(self) -> bool:
        """Return whether φ is smooth, and not straight anywhere but where it is 0: Newton's method on the primal
        takes it."""
        return math.isfinite(self.smoothness) and math.isinf(self.upper)

    @abstractmethod
    def value(self, margin: Vector, target: Target = 1.0) -> Vector:
        """φ(m, t)."""

    @abstractmethod
    def derivative(self, margin: Vector, target: Target = 1.0) -> Vector:
        """φ'(m, t), in m; where there is a kink, one between the derivatives at its sides."""

    def largest_value(self, margin: Vector, error: Vector, target: Target = 1.0) -> Vector:
        """Return the largest φ of margins that are off by at most ``error`` ≥ 0."""
        return np.maximum(
            self.value(margin - error, target), self.value(margin + error, target)
        )  # φ is convex

    @abstractmethod
    def is_flat(self, margin: Vector, within: float, target: Target = 1.0) -> NDArray[np.bool_]:
        """Return where φ is 0, and 0 too at all margins that are at most ``within`` away."""

    @abstractmethod
    def dual_value(self, a: Vector, target: Target = 1.0) -> Vector:
        """Return b(a, t) = −φ*(−a), for lower ≤ a ≤ upper."""

    @abstractmethod
    def dual_gradient(self, a: Vector, margin: Vector, target: Target = 1.0) -> Vector:
        """−∂D/∂α_i = m − b'(a, t): a step against it raises D. At a kink of b, the one nearest to 0."""

    @abstractmethod
    def slack(
        self,
        alpha: Vector,
        margin: Vector,
        cost: Vector | float = 1.0,
        target: Target = 1.0,
        negligible: float = 0.0,
    ) -> Vector:
        """Return how far each row's dual gradient is on the right side of 0 at the bound or kink that α_i is at;
        0 where the row is free (at neither) or violates the optimality conditions (KKT). Where no α rests at a
        bound: about how far the margin would have to move before the row adds more than ``negligible`` C_i to the
        gap. cost: C_i; α and cost of any unit, as long as it is the same. NaN where the margin is."""

    @abstractmethod
    def free(self, alpha: Vector, cost: Vector | float = 1.0) -> NDArray[np.bool_]:
        """Return which α_i are between their bounds, and at none of them nor at a kink of b."""

    def alpha(self, share: NDArray[np.floating], cost: Vector) -> Vector:
        """α of a = α/C as it was stored, as float32 or float64: what was rounded to a bound is at it."""
        alpha: Vector = share * cost
        for bound in (self.lower, self.upper):
            if bound not in (-1.0, 0.0, 1.0) and math.isfinite(bound):  # these are stored as they are
                near = np.abs(share - share.dtype.type(bound)) <= np.finfo(share.dtype).eps * abs(bound)
                alpha = np.where(near, bound * cost, alpha)
        return alpha

    @abstractmethod
    def prox(self, a: Vector, margin: Vector, step: Vector | float, target: Target = 1.0) -> Vector:
        """Return the maximiser a⁺ of  b(a⁺, t) − a⁺ m − (a⁺ − a)² / (2 step): the proximal point of the dual
        (Rockafellar 1976). step: > 0, in units of 1/C_i: σ/C_i where α moves by σ."""

    @abstractmethod
    def prox_slope(self, a: Vector, step: Vector | float) -> Vector:
        """−∂a⁺/∂m where ``prox`` of ``step`` gave a: one of the generalised Jacobian, 0 at bounds and kinks."""


@dataclass(frozen=True)
class PLQLoss(Loss):
    """A piecewise linear-quadratic loss; see the file's head.

    lower ≤ 0 ≤ upper. ridge: the curvature of −b; 0: b is straight, but for a kink. epsilon: half the jump of b' at
    0, ≥ 0; where there is one, 0 is strictly between the bounds.
    """

    ridge: float = 0.0
    epsilon: float = 0.0

    @property
    def smoothness(self) -> float:
        return 1.0 / self.ridge if self.ridge > 0 else math.inf

    def value(self, margin: Vector, target: Target = 1.0) -> Vector:
        return self._value(target - margin)

    def derivative(self, margin: Vector, target: Target = 1.0) -> Vector:
        above, below = self._sides(target - margin)
        return self._dual(below, -self.lower) - self._dual(above, self.upper)

    def largest_value(self, margin: Vector, error: Vector, target: Target = 1.0) -> Vector:
        z = target - margin
        return np.maximum(self._value(z + error), self._value(z - error))

    def is_flat(self, margin: Vector, within: float, target: Target = 1.0) -> NDArray[np.bool_]:
        z = target - margin
        flat = np.ones(z.shape, bool)
        if self.upper > 0:
            flat &= z + within <= self.epsilon
        if self.lower < 0:
            flat &= within - z <= self.epsilon
        return flat

    def dual_value(self, a: Vector, target: Target = 1.0) -> Vector:
        value = target * a - 0.5 * self.ridge * a * a
        return value - self.epsilon * np.abs(a) if self.epsilon else value

    def dual_gradient(self, a: Vector, margin: Vector, target: Target = 1.0) -> Vector:
        gradient = margin - target + self.ridge * a
        if not self.epsilon:
            return gradient
        at_kink = np.sign(gradient) * np.maximum(np.abs(gradient) - self.epsilon, 0.0)
        return np.where(a == 0, at_kink, gradient + self.epsilon * np.sign(a))

    def slack(
        self,
        alpha: Vector,
        margin: Vector,
        cost: Vector | float = 1.0,
        target: Target = 1.0,
        negligible: float = 0.0,
    ) -> Vector:
        if math.isinf(self.lower) and math.isinf(self.upper):
            # no α rests, but at 0; the row adds C e² / (2 ridge) to the gap at most, its margin being off by e
            a = np.divide(alpha, cost, out=np.zeros_like(margin), where=np.greater(cost, 0))
            off = np.abs(target - margin - self.ridge * a - self.epsilon * np.sign(a))
            if self.epsilon:
                off = np.where(a == 0, off - self.epsilon, off)
            return np.maximum(math.sqrt(2.0 * self.ridge * negligible) - off, 0.0)
        outward = np.zeros_like(margin)
        if self.epsilon:
            outward = np.where(alpha == 0, self.epsilon - np.abs(target - margin), outward)
        if math.isfinite(self.lower):
            at_bound = alpha <= (self.lower * cost if self.lower else 0.0)
            at_it = target - self.ridge * self.lower + self.epsilon
            outward = np.where(at_bound, margin - at_it, outward)
        if math.isfinite(self.upper):
            at_bound = alpha >= self.upper * cost
            at_it = target - self.ridge * self.upper - self.epsilon
            outward = np.maximum(outward, np.where(at_bound, at_it - margin, 0.0))
        return np.maximum(outward, 0.0)

    def free(self, alpha: Vector, cost: Vector | float = 1.0) -> NDArray[np.bool_]:
        free = np.ones(alpha.shape, bool) if not self.epsilon else alpha != 0
        if math.isfinite(self.lower):
            free &= alpha > self.lower * cost
        if math.isfinite(self.upper):
            free &= alpha < self.upper * cost
        return free

    def prox(self, a: Vector, margin: Vector, step: Vector | float, target: Target = 1.0) -> Vector:
        point = a + step * (target - margin)
        if self.epsilon:
            point = np.sign(point) * np.maximum(np.abs(point) - step * self.epsilon, 0.0)
        return np.clip(point / (1.0 + step * self.ridge), self.lower, self.upper)

    def prox_slope(self, a: Vector, step: Vector | float) -> Vector:
        return np.where(self.free(a), step / (1.0 + step * self.ridge), 0.0)

    def _value(self, z: Vector) -> Vector:
        if self.lower == 0:
            return self._of_side(np.maximum(z - self.epsilon if self.epsilon else z, 0.0), self.upper)
        above, below = self._sides(z)
        return self._of_side(above, self.upper) + self._of_side(below, -self.lower)

    def _sides(self, z: Vector) -> tuple[Vector, Vector]:
        """Return how far z is above ε, and below −ε; each 0 where it is not."""
        return np.maximum(z - self.epsilon, 0.0), np.maximum(-z - self.epsilon, 0.0)

    def _dual(self, part: Vector, bound: float) -> Vector:
        """|a| of the definition of φ at ``part`` ≥ 0 of one side, whose bound that is."""
        return np.minimum(part / self.ridge, bound) if self.ridge > 0 else np.where(part > 0, bound, 0.0)

    def _of_side(self, part: Vector, bound: float) -> Vector:
        if bound == 0:
            return np.zeros_like(part)
        if self.ridge == 0:
            return bound * part if bound != 1 else part
        if math.isinf(bound):
            return part * part * (0.5 / self.ridge)
        a = self._dual(part, bound)
        return a * (part - 0.5 * self.ridge * a)


@dataclass(frozen=True)
class LogisticLoss(Loss):
    """φ(m) = log(1 + e^−m), whose dual variables are strictly inside their bounds (Yu, Huang & Lin 2011):
    b(a) = −a log a − (1 − a) log(1 − a), which is 0 at both. Targets are 1 and not looked at."""

    name: str = "logistic"
    kind: str = CLASSIFICATION
    lower: float = 0.0
    upper: float = 1.0

    @property
    def smoothness(self) -> float:
        return 0.25

    @property
    def bends_everywhere(self) -> bool:
        return True

    def value(self, margin: Vector, target: Target = 1.0) -> Vector:
        return np.maximum(-margin, 0.0) + np.log1p(np.exp(-np.abs(margin)))

    def derivative(self, margin: Vector, target: Target = 1.0) -> Vector:
        return -logistic(-margin)

    def is_flat(self, margin: Vector, within: float, target: Target = 1.0) -> NDArray[np.bool_]:
        return np.zeros(margin.shape, bool)

    def dual_value(self, a: Vector, target: Target = 1.0) -> Vector:
        inner = np.where((a > 0) & (a < 1), a, 0.5)
        # log1p: below 1e-16, 1 − a is 1, and (1 − a) log(1 − a) is −a still
        return np.where(a == inner, -a * np.log(inner) - (1.0 - a) * np.log1p(-inner), 0.0)

    def dual_gradient(self, a: Vector, margin: Vector, target: Target = 1.0) -> Vector:
        with np.errstate(divide="ignore"):
            return margin + np.log(a) - np.log1p(-a)

    def slack(
        self,
        alpha: Vector,
        margin: Vector,
        cost: Vector | float = 1.0,
        target: Target = 1.0,
        negligible: float = 0.0,
    ) -> Vector:
        # near the optimum, a row whose margin is off by e adds ½ C a (1 − a) e² to the gap
        a = np.divide(alpha, cost, out=np.zeros_like(margin), where=np.greater(cost, 0))
        gap = np.maximum(self.value(margin) + a * margin - self.dual_value(a), 0.0)
        half_curvature = np.maximum(0.5 * a * (1.0 - a), FLATTEST)
        return np.maximum(np.sqrt(negligible / half_curvature) - np.sqrt(gap / half_curvature), 0.0)

    def free(self, alpha: Vector, cost: Vector | float = 1.0) -> NDArray[np.bool_]:
        return np.ones(alpha.shape, bool)

    def prox(self, a: Vector, margin: Vector, step: Vector | float, target: Target = 1.0) -> Vector:
        """Find a⁺ = 1 / (1 + e^z):  z − m − (a⁺ − a) / step = 0, which rises in z at least as fast as z does;
        Newton's method, halving the interval that the root is in where a step would leave it or hardly helps."""
        low, high = margin - a / step, margin + (1.0 - a) / step
        z = np.clip(np.log1p(-a) - np.log(a) if np.all((a > 0) & (a < 1)) else margin, low, high)
        before = np.full_like(z, np.inf)
        for _ in range(MAX_PROX_STEPS):
            inside = logistic(-z)
            residual = z - margin - (inside - a) / step
            low, high = np.where(residual < 0, z, low), np.where(residual > 0, z, high)
            moved = z - residual / (1.0 + inside * (1.0 - inside) / step)
            done = np.abs(moved - z) <= PROX_ACCURACY * (1.0 + np.abs(z))
            slow = (moved < low) | (moved > high) | (2 * np.abs(residual) > before)
            z, before = np.where(slow & ~done, 0.5 * (low + high), moved), np.abs(residual)
            if done.all():
                break
        return logistic(-z)

    def prox_slope(self, a: Vector, step: Vector | float) -> Vector:
        curvature = a * (1.0 - a)
        return step * curvature / (step + curvature)


# Of the logistic loss
MAX_PROX_STEPS, PROX_ACCURACY = 100, 1e-14
FLATTEST = 1e-12  # curvature that is told from none


def logistic(z: Vector) -> Vector:
    """1 / (1 + e^−z)."""
    small = np.exp(-np.abs(z))
    return np.where(z >= 0, 1.0, small) / (1.0 + small)


def loss_of(settings: Settings) -> Loss:
    """Return the loss that the settings ask for."""
    return new_loss(settings.loss, settings.epsilon, settings.quantile, settings.delta)


def plq_loss_of(settings: Settings) -> PLQLoss:
    """Return the same for a method that takes no other losses than these."""
    loss = loss_of(settings)
    assert isinstance(loss, PLQLoss), loss.name
    return loss


def new_loss(name: str, epsilon: float = 0.1, quantile: float = 0.5, delta: float = 1.0) -> Loss:
    """Return the loss that Settings call ``name``; the parameters are those of the losses that have them."""
    infinity, epsilon, quantile, delta = math.inf, float(epsilon), float(quantile), float(delta)
    if name == "hinge":
        return PLQLoss(name, CLASSIFICATION, 0.0, 1.0)
    if name == "squared_hinge":
        return PLQLoss(name, CLASSIFICATION, 0.0, infinity, 0.5)
    if name == "least-squares":
        return PLQLoss(name, CLASSIFICATION, -infinity, infinity, 0.5)
    if name == "logistic":
        return LogisticLoss()
    if name == "epsilon_insensitive":
        return PLQLoss(name, REGRESSION, -1.0, 1.0, 0.0, epsilon)
    if name == "squared_epsilon_insensitive":
        return PLQLoss(name, REGRESSION, -infinity, infinity, 0.5, epsilon)
    if name == "quantile":
        return PLQLoss(name, REGRESSION, quantile - 1.0, quantile)
    if name == "huber":
        return PLQLoss(name, REGRESSION, -delta, delta, 1.0)
    if name == ONE_CLASS:
        return PLQLoss(name, UNLABELLED, 0.0, 1.0)
    raise KeyError(name)


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
    """Return the loss of the joint multi-class method ``name``, for so many classes."""
    if name == "crammer-singer":
        return JointLoss(name, 0, math.sqrt(2.0), math.sqrt(2.0), 1.0, 1.0)
    if name == "weston-watkins":
        others = n_classes - 1.0
        return JointLoss(name, 1, others + math.sqrt(others), math.sqrt(2.0), others, others)
    if name == "softmax":
        return JointLoss(name, 2, math.sqrt(2.0), math.sqrt(2.0), 1.0, math.log(n_classes), False)
    raise KeyError(name)


def softmax(scores: Vector) -> tuple[Vector, Vector, Vector]:
    """Return for scores (n, k) the probabilities (n, k), the scores less the row's largest (n, k), and the
    logarithm (n,) of the sum of their exponentials. Log losses and entropies are sums of the latter two, whose
    signs agree: those next to 0 keep their digits."""
    rows, largest = np.arange(len(scores)), scores.argmax(axis=1)
    behind = scores - scores[rows, largest][:, None]
    p = np.exp(behind)
    p[rows, largest] = 0.0
    others = p.sum(axis=1)
    p[rows, largest] = 1.0
    p /= 1.0 + others[:, None]
    return p, behind, np.log1p(others)
