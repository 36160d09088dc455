"""BestPrimal: the best weights measured so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.certificate import Certificate
from llsvm.objective.rounding import RoundingBound


class BestPrimal:
    """The smallest primal met so far of each problem, and its weights."""

    def __init__(self, k: int) -> None:
        self.primal = np.full(k, np.inf)
        self.close_squares = np.full(k, np.inf)
        self.coef: NDArray[np.float64] | None = None

    def offer(
        self,
        primal: NDArray[np.float64],
        close_squares: NDArray[np.float64],
        w: NDArray[np.float64] | Sequence[NDArray[np.float64]],
        factor: NDArray[np.float64] | None = None,
    ) -> None:
        """``w`` (k, d + 1) is copied where it is better. close_squares: (k,) as ``Sweeps.losses`` has them;
        infinite where they are not known. factor: (k,) it was so many times w that was measured."""
        if self.coef is None:
            self.coef = np.array(w)
        for c in np.flatnonzero(primal < self.primal).tolist():  # one by one: no copy of them all
            self.coef[c] = w[c]
            if factor is not None and factor[c] != 1.0:
                self.coef[c] *= factor[c]
            self.primal[c], self.close_squares[c] = primal[c], close_squares[c]

    def certificate(self, dual: NDArray[np.float64], passes: int, bound: RoundingBound) -> Certificate:
        assert self.coef is not None
        return bound.certificate(self.coef, self.primal, dual, passes, self.close_squares)

    @property
    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """All of it, for a SolverState; views. Weights are there once some were offered."""
        arrays = {"best_primal": self.primal, "best_close_squares": self.close_squares}
        return arrays if self.coef is None else {**arrays, "best_coef": self.coef}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what ``arrays`` were, which are copied."""
        self.primal[...] = arrays["best_primal"]
        self.close_squares[...] = arrays["best_close_squares"]
        if "best_coef" in arrays:
            self.coef = np.array(arrays["best_coef"], np.float64)
