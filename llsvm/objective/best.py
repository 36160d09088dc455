"""BestPrimal: the best weights measured so far, which may lie on disk (llsvm.files.growing)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.files.growing import multiply
from llsvm.objective.certificate import Certificate
from llsvm.objective.rounding import RoundingBound, squares_of


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
