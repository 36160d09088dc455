"""Thinning: which weights of a certified solution under ‖w‖₁ can be exactly zero.

A method that smooths ‖w‖₁ ends with weights that are small where the optimum has zeros. As many of the smallest
are left out as the gap allows: w with its ``count`` smallest weights zero is measured, two counts a pass, and the
largest count is kept whose objective stays within the limit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.saved_numbers import SavedNumbers
from llsvm.solvers.state import Value


class Thinning:
    """A search over counts.

    w: (d,) the thinnest weights found.
    primal: their objective.
    """

    def __init__(
        self, w: NDArray[np.float64], primal: float, penalised: int, limit: float, zone: float
    ) -> None:
        """w: (d,) to begin with; must not change.
        primal: of w.
        penalised: the first so many weights may become zero.
        limit: on the objective.
        zone: weights up to this size are likely to be zero at the optimum: the first guess.
        """
        self.primal, self._limit = primal, limit
        size = np.abs(w[:penalised])
        self._order = np.argsort(size, kind="stable")
        self._whole = w
        self._low = int(np.count_nonzero(size == 0))  # so many can be left out,
        self._high = penalised + 1  # and so many cannot
        self.w = self._without(self._low)
        guess = min(int(np.count_nonzero(size <= zone)), penalised)
        self._counts = self._within(guess, (guess + self._low) // 2)

    @property
    def done(self) -> bool:
        return self._high - self._low <= 1

    def candidates(self) -> list[NDArray[np.float64]]:
        """Two weights (d,) to measure."""
        return [self._without(count) for count in self._counts]

    def take(self, primals: tuple[float, float]) -> None:
        """The objectives of the candidates."""
        if self.done:
            return
        for count, primal in sorted(zip(self._counts, primals, strict=True)):
            if primal <= self._limit and self._low < count < self._high:
                self._low, self.primal = count, primal
                self.w = self._without(count)
            elif primal > self._limit and count > self._low:
                self._high = min(self._high, count)
        third = (self._high - self._low) // 3
        self._counts = self._within(self._low + max(third, 1), self._high - max(third, 1))

    def numbers(self) -> dict[str, Value]:
        """How far the search is."""
        low, high = self._counts
        return {
            "low": self._low,
            "high": self._high,
            "next low": low,
            "next high": high,
            "primal": self.primal,
        }

    def restore(self, saved: SavedNumbers) -> None:
        """Go on from ``numbers`` of a search over the same w."""
        self._low, self._high, self.primal = saved.whole("low"), saved.whole("high"), saved.real("primal")
        self._counts = saved.whole("next low"), saved.whole("next high")
        self.w = self._without(self._low)

    def _within(self, *counts: int) -> tuple[int, ...]:
        return tuple(max(self._low, min(count, self._high - 1)) for count in counts)

    def _without(self, count: int) -> NDArray[np.float64]:
        thin = self._whole.copy()
        thin[self._order[:count]] = 0.0
        return thin
