"""The problems that a training solves: which rows take part, with which signs, at what cost, the penalty, and the
losses by their definitions (see the guides solvers and losses)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.dataset import DatasetInfo
from llsvm.settings.objective import CLASSIFICATION, DIRECT, ONE_CLASS, SOFTMAX
from llsvm.settings.settings import Settings

Array = NDArray[np.float64]


def margin_losses(settings: Settings, margin: Array, target: Array) -> Array:
    """Return φ of each row. margin: y w·x of classes, whose targets are 1; w·x of numbers. Any shape."""
    off, epsilon = target - margin, settings.epsilon
    beyond = np.maximum(np.abs(off) - epsilon, 0.0)
    by_name = {
        "hinge": lambda: np.maximum(off, 0.0),
        "squared_hinge": lambda: np.maximum(off, 0.0) ** 2,
        "least-squares": lambda: off**2,
        "logistic": lambda: np.logaddexp(0.0, -margin),
        "epsilon_insensitive": lambda: beyond,
        "squared_epsilon_insensitive": lambda: beyond**2,
        "quantile": lambda: np.maximum(settings.quantile * off, (settings.quantile - 1.0) * off),
        "huber": lambda: _huber(np.abs(off), settings.delta),
        "one_class": lambda: np.maximum(-margin, 0.0),
    }
    return by_name[settings.loss]()


@dataclass(frozen=True, slots=True)
class Conjugate:
    """Term of the dual for a row: b(a, t) = t a − epsilon |a| − ½ ridge a², or an entropy, lower ≤ a ≤ upper."""

    lower: float
    upper: float
    ridge: float = 0.0
    epsilon: float = 0.0
    entropy: bool = False

    def at(self, margin: Array, target: Array, smoothing: Array) -> Array:
        """Return the a of each row at its margin: minus the slope of its loss. smoothing: (p,) s > 0 where it
        has a kink: then max(0, z) is ½ (z + √(z² + s²))."""
        off = target - margin
        if self.entropy:
            return np.where(margin > 0, np.exp(-np.abs(margin)), 1.0) / (1.0 + np.exp(-np.abs(margin)))
        if self.ridge > 0:
            beyond = np.sign(off) * np.maximum(np.abs(off) - self.epsilon, 0.0)
            return np.clip(beyond / self.ridge, self.lower, self.upper)
        above, below = off - self.epsilon, -off - self.epsilon
        return 0.5 * (
            self.upper * (1.0 + above / np.hypot(above, smoothing))
            + self.lower * (1.0 + below / np.hypot(below, smoothing))
        )

    def value(self, a: Array, target: Array) -> Array:
        if self.entropy:
            inner = np.where((a > 0) & (a < 1), a, 0.5)
            # log1p: below 1e-16, 1 − a is 1, and (1 − a) log(1 − a) is −a still
            return np.where(a == inner, -a * np.log(inner) - (1.0 - a) * np.log1p(-inner), 0.0)
        return target * a - self.epsilon * np.abs(a) - 0.5 * self.ridge * a * a


def conjugate_of(settings: Settings) -> Conjugate:
    """Return the conjugate of a loss of margins."""
    epsilon, tau, delta = settings.epsilon, settings.quantile, settings.delta
    return {
        "hinge": Conjugate(0.0, 1.0),
        "squared_hinge": Conjugate(0.0, np.inf, 0.5),
        "least-squares": Conjugate(-np.inf, np.inf, 0.5),
        "logistic": Conjugate(0.0, 1.0, entropy=True),
        "epsilon_insensitive": Conjugate(-1.0, 1.0, epsilon=epsilon),
        "squared_epsilon_insensitive": Conjugate(-np.inf, np.inf, 0.5, epsilon),
        "quantile": Conjugate(tau - 1.0, tau),
        "huber": Conjugate(-delta, delta, 1.0),
        "one_class": Conjugate(0.0, 1.0),
    }[settings.loss]


def _huber(size: Array, delta: float) -> Array:
    return np.where(size <= delta, 0.5 * size**2, delta * (size - 0.5 * delta))


def joint_losses(form: str, scores: Array, classes: NDArray[np.intp]) -> Array:
    """Return the loss of each row, (n,), in the joint multi-class methods. scores: (n, k). classes: (n,) the row's
    class."""
    rows = np.arange(len(classes))
    margins = scores - scores[rows, classes][:, None]  # of the row's own class
    if form == "softmax":
        largest = margins.argmax(axis=1)
        largest_margin = margins[rows, largest]
        others = np.exp(margins - largest_margin[:, None])
        others[rows, largest] = 0.0
        return largest_margin + np.log1p(others.sum(axis=1))  # which keeps the digits of what is next to 0
    margins += 1.0
    margins[rows, classes] = 0.0
    if form == "crammer-singer":
        return margins.max(axis=1)
    return np.maximum(margins, 0.0).sum(axis=1)  # weston-watkins


JOINT = (*DIRECT, SOFTMAX)


@dataclass(frozen=True, slots=True)
class Problems:
    """P(w) = (l2/2) ‖w‖² + l1 ‖w‖₁ + C Σ_i c_i φ_i, of each problem.

    factors: (problems, n_classes) of the class weights; one against the rest, of three classes or more, those of
    the positive rows of a problem. signs: (problems, n_classes) y of the rows of each class, 0 where they take no
    part; of no meaning to the joint methods.
    """

    settings: Settings
    C: float
    l1: float
    l2: float
    factors: Array
    signs: Array

    @classmethod
    def of(cls, settings: Settings, dataset: DatasetInfo) -> Problems:
        """Return the problems of a training. dataset: read. Raises nothing: settings and labels are those of a
        training that went through."""
        k = len(dataset.classes)
        C, l1, l2 = _penalty(settings, dataset.weight_sum)
        factors = np.ones(max(k, 1))
        if settings.class_weight == "balanced":
            sums = dataset.class_sums
            factors[sums > 0] = sums.sum() / (np.count_nonzero(sums) * sums[sums > 0])
        elif isinstance(settings.class_weight, Mapping):
            given = {_key(label): factor for label, factor in settings.class_weight.items()}
            factors = np.array([given.get(_key(label), 1.0) for label in dataset.classes])
        if dataset.kind != CLASSIFICATION:
            signs = np.ones((1, 1))
        elif k == 2:
            signs = np.array([[-1.0, 1.0]])
        elif settings.multiclass == "ovo":
            signs = np.zeros((k * (k - 1) // 2, k))
            for row, (i, j) in zip(signs, combinations(range(k), 2), strict=True):
                row[i], row[j] = 1.0, -1.0
        else:
            signs = 2.0 * np.eye(k) - 1.0
        if settings.multiclass == "ovr" and k > 2:
            factors = np.where(signs > 0, factors, 1.0)
        else:
            factors = np.broadcast_to(factors, (len(signs), len(factors)))
        return cls(settings, C, l1, l2, factors, signs)

    @property
    def are_joint(self) -> bool:
        """Return whether there is one problem, of all classes' weights."""
        return self.settings.multiclass in JOINT

    @property
    def count(self) -> int:
        return 1 if self.are_joint else len(self.signs)

    @property
    def width(self) -> int:
        """Return how many numbers the losses of a row take."""
        return self.factors.shape[1] if self.are_joint else len(self.signs)

    @property
    def row_width(self) -> int:
        """Return the number of dual variables of a row: of each problem that it takes part in."""
        k = self.signs.shape[1]
        return k - 1 if self.settings.multiclass == "ovo" and k > 2 else self.width

    def cost(self, block: Block) -> Array:
        """Return (n, problems) c_i."""
        cost = self.factors[: self.count, block.class_ids].T
        return cost if block.weight is None else cost * block.weight.astype(np.float64)[:, None]

    def full_cost(self, block: Block) -> Array:
        """Return (n, problems) C c_i; of one_class c_i."""
        cost = self.cost(block)
        return cost if self.settings.loss == ONE_CLASS else self.C * cost

    def losses(self, block: Block, scores: Array, lost: Array) -> tuple[Array, Array]:
        """Return (problems,) C Σ c_i φ_i over the block's rows, and at most so large they are; of one_class
        without C. scores, lost: (n, weights' rows), and by how much rounding may have changed these."""
        cost = self.full_cost(block)
        if self.are_joint:
            classes, form = block.class_ids.astype(np.intp), self.settings.multiclass
            worst, rows = scores + lost, np.arange(block.n_rows)
            worst[rows, classes] = (scores - lost)[rows, classes]
            value, largest = (joint_losses(form, each, classes) for each in (scores, worst))
            return cost.T @ value, cost.T @ largest
        signs, target = self.signs[:, block.class_ids].T, np.ones((1, 1))
        if block.has_targets:
            target = block.y[:, None]
        margin = signs * scores
        value, below, above = (
            margin_losses(self.settings, each, target) for each in (margin, margin - lost, margin + lost)
        )
        of_these = signs != 0
        largest = np.maximum(below, above)  # losses are convex: no smaller ones are farther off
        sums = [(cost * np.where(of_these, each, 0.0)).sum(axis=0) for each in (value, largest)]
        return sums[0], sums[1]

    def penalty(self, squares: Array, sizes: Array) -> Array:
        """Return (p,) the penalty of each problem. squares, sizes: (p,) ‖w‖² and ‖w‖₁, of the weights that are
        penalised."""
        return 0.5 * self.l2 * squares + self.l1 * sizes


def _penalty(settings: Settings, n_rows: float) -> tuple[float, float, float]:
    """Return C, l1, l2. With λ: (1/N) Σ c_i φ + (λ₂/2) ‖w‖² + λ₁ ‖w‖₁ is P / (N C), C = 1/(N (λ₁ + λ₂))."""
    lambda1, lambda2 = settings.lambda1, settings.lambda2
    if lambda1 is not None or lambda2 is not None:
        both = (lambda1 or 0.0) + (lambda2 or 0.0)
        return 1.0 / ((n_rows or 1.0) * both), (lambda1 or 0.0) / both, (lambda2 or 0.0) / both
    l1 = {"l2": 0.0, "l1": 1.0, "elasticnet": settings.l1_ratio}[settings.penalty]
    return settings.C, l1, 1.0 - l1


def _key(label: Any) -> Any:
    """Return a label as a key: 1, 1.0 and "1" are the same."""
    try:
        return float(label)
    except (TypeError, ValueError):
        return str(label)
