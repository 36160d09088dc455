"""The best weights: the best multiple of given ones, and those of the least primal measured so far.

Where C is large, margins a little below 1 cost more than all else, and longer weights have none of them.
P(t) = ½ t² ‖w‖² + Σ C_i max(0, 1 − t m_i) is convex in t, and piecewise quadratic: its minimum is found by sorting.
Any weights may be certified, those that are handed back are t w.

``BestPrimal`` keeps the best weights of each problem, which may lie on disk (llsvm.files.growing).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.files.growing import multiply
from llsvm.objective.certificate import Certificate
from llsvm.objective.rounding import RoundingBound, squares_of

Vector = NDArray[np.float64]

# t is taken where it closes all but this share of the gap: where it gains less, the next steps gain as much.
LEFT = 0.1
FAR = 0.1  # of the objective: a smaller gap is left to the solver alone
_STEPS = 1 << 15  # of log t: the t found is at most 3e-5 of itself too long, which P, flat there, hardly sees
_ENDS = 8 * _STEPS + 1  # up to t = e^8


def best_factor(square: float, margin: Vector, cost: Vector) -> float:
    """Return the t ≥ 1 of the least P(t); rows of a margin of 1 or more are not looked at, since none of them
    costs.

    square: ‖w‖². margin, cost: (n,) m_i and C_i."""
    short = margin < 1.0
    margin, weighted = margin[short], margin[short] * cost[short]
    total_slope = float(weighted.sum())  # −dP/dt of the rows that cost, with t² ‖w‖² / t left out
    if not square < total_slope:
        return 1.0
    positive = np.flatnonzero(margin > 0.0)
    positive = positive[
        np.argsort(-margin[positive], kind="stable")
    ]  # in the order that they cease to cost: at t = 1 / m
    ends = 1.0 / margin[positive]
    left = total_slope - np.cumsum(weighted[positive])
    rises = ends * square >= left
    first = int(rises.argmax()) if rises.any() else len(ends)
    before = total_slope if first == 0 else float(left[first - 1])
    end = float(ends[first]) if first < len(ends) else np.inf
    return max(1.0, min(end, before / square)) if square > 0.0 else 1.0


def scaled_primal(square: float, margin: Vector, cost: Vector) -> tuple[float, float]:
    """Return the best t, and P(t)."""
    t = best_factor(square, margin, cost)
    losses = np.maximum(1.0 - t * margin, 0.0)
    return t, 0.5 * t * t * square + float(np.einsum("i,i", cost, losses))


class Folded:
    """Margins by steps of log(1 / m), their costs summed: 4 MB for any number of margins. Where a step ends,
    at t = e^(j / _STEPS), P(t) is known as well as from all margins: each of them costs there or does not."""

    def __init__(self) -> None:
        self._cost, self._weighted = np.zeros(_ENDS), np.zeros(_ENDS)  # Σ C_i and Σ C_i m_i of each step

    def add(self, margin: Vector, cost: Vector) -> None:
        """Add margins below 1, and their costs, (n,) both. Those that no t up to e^8 brings to 1 are in the
        last."""
        step = np.full(len(margin), _ENDS - 1)
        reachable = margin > np.exp(-8.0)
        step[reachable] = (-_STEPS * np.log(margin[reachable])).astype(np.int64)
        self._cost += np.bincount(step, cost, _ENDS)
        self._weighted += np.bincount(step, cost * margin, _ENDS)

    def best(self, square: float) -> tuple[float, float]:
        """Return the t among the ends of steps of the least P(t), and that. square: ‖w‖²."""
        t = np.exp(np.arange(_ENDS) / _STEPS)
        losses = np.cumsum(self._cost[::-1])[::-1] - t * np.cumsum(self._weighted[::-1])[::-1]
        primal = 0.5 * square * t * t + np.maximum(losses, 0.0)
        at = int(primal.argmin())
        return float(t[at]), float(primal[at])


class BestPrimal:
    """The smallest primal met so far of each problem, and its weights."""

    def __init__(self, k: int, make: Callable[[tuple[int, int]], NDArray[np.float64]] = np.zeros) -> None:
        """make: zeros of that shape for them."""
        self.primal = np.full(k, np.inf)
        self.close_squares = np.full(k, np.inf)
        self.coef: NDArray[np.float64] | None = None
        self._make = make
        self._squares = np.full((k, 2), np.nan)  # of the weights, see RoundingBound; NaN where they are new

    def offer_zeros(
        self, primal: NDArray[np.float64], close_squares: NDArray[np.float64], shape: tuple[int, int]
    ) -> None:
        """Offer the first weights, (k, d + 1), all 0. Arguments as in ``offer``."""
        self.coef = self._make(shape)
        self.primal[...], self.close_squares[...], self._squares[...] = primal, close_squares, 0.0

    def offer(
        self,
        primal: NDArray[np.float64],
        close_squares: NDArray[np.float64],
        w: NDArray[np.floating] | Sequence[NDArray[np.floating]],
        factor: NDArray[np.float64] | None = None,
    ) -> None:
        """``w`` (k, d + 1) is copied where it is better. close_squares: (k,) as ``Sweeps.losses`` has them;
        infinite where they are not known. factor: (k,) it was so many times w that was measured."""
        better = primal < self.primal
        first = self.coef is None
        coef = self.coef = self._make((len(w), len(w[0]))) if self.coef is None else self.coef
        for c in range(len(w)):
            if better[c] or first:
                multiply(w[c], 1.0 if factor is None or not better[c] else float(factor[c]), coef[c])
                self._squares[c] = np.nan
            if better[c]:
                self.primal[c], self.close_squares[c] = primal[c], close_squares[c]

    def certificate(self, dual: NDArray[np.float64], passes: int, bound: RoundingBound) -> Certificate:
        assert self.coef is not None
        for c in np.flatnonzero(np.isnan(self._squares[:, 0])):
            self._squares[c] = squares_of(self.coef[c])
        return bound.certificate(
            self.coef, self.primal, dual, passes, self.close_squares, squares=self._squares
        )

    @property
    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return all arrays, for a SolverState; views. Weights are there once some were offered."""
        arrays = {"best_primal": self.primal, "best_close_squares": self.close_squares}
        return arrays if self.coef is None else {**arrays, "best_coef": self.coef}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what ``arrays`` were, which are copied."""
        self.primal[...] = arrays["best_primal"]
        self.close_squares[...] = arrays["best_close_squares"]
        if "best_coef" in arrays:
            self.take(arrays["best_coef"])

    def take(self, coef: NDArray[np.float64]) -> None:
        """Let these be the weights, which are copied; (k, d + 1)."""
        if self.coef is None:
            self.coef = self._make((len(coef), len(coef[0])))
        self.coef[...] = coef
        self._squares[...] = np.nan
