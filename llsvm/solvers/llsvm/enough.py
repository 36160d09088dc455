"""Enough: the gaps at which epochs over survivors end, between two full passes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.llsvm.run import Run
from llsvm.solvers.llsvm.warm import Warm

FIRST_MEASURED = 2  # full passes: one of them has measured weights, and knows who survives


class Enough:
    """Of one run.

    passes: full passes so far. early: these know too little of who survives.
    warm: how a run goes on that has begun at dual variables from elsewhere; None: it has not."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.passes, self.early = 0, True
        self.warm: Warm | None = None

    def begin(self, passes: int) -> None:
        """The last of so many full passes is at its end."""
        self.passes, self.early = passes, passes < FIRST_MEASURED

    @property
    def of_tol(self) -> float:
        """The gap that is small enough in any case, as a share of the objective."""
        run = self._run
        share = run.tuning.tol_share if self.warm is None else self.warm.tol_share(run.stream.in_one_block)
        return share * run.settings.tol

    @property
    def _until(self) -> float:
        return self._run.tuning.survivors_until if self.warm is None else self.warm.until(self.passes)

    def at_hand(self, first: float, c: int) -> float:
        """Of problem ``c``, over rows in memory, where it was ``first`` as they began."""
        return max(self._until * first, self.of_tol * float(self._run.sizes[c]))

    def spilled(self, first: NDArray[np.float64]) -> NDArray[np.float64]:
        """(k,) over spilled rows, where they were ``first``, (k,), as they began."""
        return np.maximum(self._until * first, self.of_tol * self._run.sizes)
