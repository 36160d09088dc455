"""Losses of rows, by their definitions; see the guides (solvers, losses)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.settings.settings import Settings

Array = NDArray[np.float64]


def of_margins(settings: Settings, margin: Array, target: Array) -> Array:
    """φ of each row. margin: y w·x of classes, whose targets are 1; w·x of numbers. Any shape."""
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


def of_all_classes(form: str, scores: Array, classes: NDArray[np.intp]) -> Array:
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
