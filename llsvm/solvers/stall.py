"""Stall: passes that come too slowly to where a certificate is wanted."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from llsvm.process.trace import trace
from llsvm.solvers.optim.rounding import ROUNDING

WINDOW = 20  # passes, over which progress is looked at: single ones bring now little, now much


class Stall:
    """What the gaps of one or several problems have done in the last passes.

    A gap falls ever more slowly, so passes that would not do if it fell as fast as of late will not do at all."""

    def __init__(self, tol: float, max_passes: int | None) -> None:
        self._tol = tol
        self._max_passes = max_passes or None
        self._least: float | NDArray[np.float64] = np.inf  # primal
        self._gaps: deque[NDArray[np.float64]] = deque(maxlen=WINDOW + 1)

    def note(self, passes: int, primal: ArrayLike, dual: ArrayLike) -> bool:
        """Take in a pass, so many having been made: its primal and the dual reached, (p,) each.
        Does no problem that is short of the tolerance get there by the last pass?"""
        best = self._least = np.minimum(self._least, np.atleast_1d(primal))
        gap = best - dual
        self._gaps.append(gap)
        missing = gap - self._tol * np.abs(best)
        behind = missing > 0
        if len(self._gaps) <= WINDOW or not behind.any():
            return False
        fell = self._gaps[0] - gap
        stands = fell <= ROUNDING * np.abs(best)
        to_come = np.inf if self._max_passes is None else max(self._max_passes - passes, 0) / WINDOW * fell
        ended = bool(np.all((stands | (to_come < missing))[behind]))
        if ended:
            trace("passes.stalled", passes=passes, missing=missing[behind], fell=fell[behind], window=WINDOW)
        return ended

    @property
    def last_share(self) -> float:
        """At most which share of a problem's gap the last pass left; 1 before the second."""
        if len(self._gaps) < 2:
            return 1.0
        before, after = self._gaps[-2], self._gaps[-1]
        return float(np.max(np.divide(after, before, out=np.ones_like(after), where=before > 0)))

    def passes_to_go(self, enough: NDArray[np.float64]) -> float:
        """How many passes more a problem takes, at most, to a gap of ``enough``, (p,), if each leaves as large a
        share of it as the last did; infinite before the second pass, and where that left all of it."""
        if len(self._gaps) < 2:
            return np.inf
        before, after = self._gaps[-2], self._gaps[-1]
        behind = after > np.maximum(enough, 0.0)
        fell = np.log(np.maximum(before, after)[behind] / after[behind])
        least = np.maximum(enough[behind], ROUNDING * after[behind])  # a dual may be 0, and so ask for all
        missing, never = np.log(after[behind] / least), np.full(len(fell), np.inf)
        return float(np.max(np.divide(missing, fell, out=never, where=fell > ROUNDING), initial=0.0))

    @property
    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """What it remembers, for a SolverState: the least primal, (p,), and the gaps of the last passes, (w, p)."""
        gaps = np.array(self._gaps) if self._gaps else np.zeros((0, 0))
        return {"stall_primal": np.atleast_1d(self._least), "stall_gaps": gaps}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what ``arrays`` were. Raises ValueError where they do not go together."""
        least, gaps = np.array(arrays["stall_primal"]), np.array(arrays["stall_gaps"])
        if least.ndim != 1 or gaps.ndim != 2 or (len(gaps) and gaps.shape[1] != len(least)):
            raise ValueError(f"primals of shape {least.shape} with gaps of shape {gaps.shape}")
        self._least = least
        self._gaps.clear()
        self._gaps.extend(gaps)
