"""Enough: the gaps at which epochs over survivors end, between two full passes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.process.trace import trace
from llsvm.solvers.llsvm.run import Run
from llsvm.solvers.llsvm.warm import Warm


class Enough:
    """Of one run.

    passes: full passes so far. early: these know too little of who survives.
    met: (k,) the gap of the spilled rows, as the last epoch of the last round met it; NaN where there was none.
    warm: how a run goes on that has begun at dual variables from elsewhere; None: it has not."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._tol_share = run.tuning.tol_share
        self.passes, self.early = 0, True
        self.met = np.full(len(run.sweeps.w), np.nan)
        # (k,) has the last pass found no more than the epochs before it had met?
        self._told = np.zeros(len(self.met), bool)
        self.warm: Warm | None = None

    def begin(self, passes: int, gaps: NDArray[np.float64]) -> None:
        """The last of so many full passes is at its end, and has certified the gaps (k,)."""
        self._told = gaps <= self.met
        self.met = np.full_like(self.met, np.nan)
        tuning = self._run.tuning
        self.passes, self.early = passes, passes < tuning.face.first_pass
        self._tol_share = tuning.tol_share * tuning.share_falls ** max(0, passes - tuning.share_from)
        if self.warm is not None:
            self._tol_share *= self.warm.tol_share(self._run.stream.in_one_block) / tuning.tol_share

    @property
    def of_tol(self) -> float:
        """The gap that is small enough in any case, as a share of the objective."""
        return self._tol_share * self._run.settings.tol

    def at_hand(self, first: float, c: int) -> float:
        """Of problem ``c``, over rows in memory, where it was ``first`` as they began."""
        until = self._run.tuning.survivors_until if self.warm is None else self.warm.until(self.passes)
        return max(until * first, self.of_tol * float(self._run.sizes[c]))

    def spilled(
        self, first: NDArray[np.float64], stepped: NDArray[np.bool_], few: bool = False
    ) -> NDArray[np.float64]:
        """(k,) over spilled rows (few?), where they were ``first``, (k,), as they began. stepped: (k,) there have
        been steps along faces."""
        tuning, wanted = self._run.tuning, self._run.settings.tol * self._run.sizes
        if self.warm is not None:
            return np.maximum(self.warm.until(self.passes) * first, self._tol_share * wanted)
        gaps = first * (tuning.first_until if self.early else tuning.spill_until) * ~stepped
        gaps[few & (gaps < wanted)] = 0.0
        share = np.where(self._told, tuning.told_tol_share, tuning.spill_tol_share)
        if first.any():
            trace("epoch.made", met=self.met, enough_by_first_epoch=gaps, enough_by_tolerance=share * wanted)
        return np.maximum(gaps, share * wanted)
