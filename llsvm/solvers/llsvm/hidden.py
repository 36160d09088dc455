"""Hidden: what rounding values to 32-bit floats hides of problems that sweeps over rows at hand have just solved.

The next full pass would tell, of all problems. Where there are several, one that is solved tells it before others
have been worked on: the run begins again with 64-bit floats then, and all that work would be thrown away."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.rounding import SHARE
from llsvm.solvers.llsvm.block_state import BlockState
from llsvm.solvers.llsvm.run import Run

MAX_RATIO = 2.0  # of P to D where sweeps have ended


class Hidden:
    """floor: the largest share of a solved problem's gap that rounding hides, as Certificate.rounding_floor; 0 if
    it leaves enough of the gap asked for, or nothing is to be gained from knowing."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.floor = 0.0
        source = run.stream.source.info()
        self._asks = source.rereadable and run.settings.stop == "gap" and run.threshold is None

    def shows(self, part: BlockState, solve: Callable[[int], object], crawls: NDArray[np.bool_]) -> bool:
        """Solve the open problems by sweeps, unless the first shows that rounding hides too much of it: the
        smallest, of which it hides most. Does any show it? Said once: who goes on all the same is not asked to
        begin again in each round.

        part: all their rows. crawls: (k,) set by ``solve`` for those that sweeps have not solved."""
        sweeps = self._run.sweeps
        first, others = list[int](), list(sweeps.open)
        asks = self._asks and not self.floor and self._run.bound.lost > 0 and len(others) > 1
        if asks:
            first = [min(others, key=lambda c: len(part.members(c)))]
            others.remove(first[0])
        for some in (first, others):
            sweeps.each(solve, some)
            if asks:
                floor = max((self._of(part, c) for c in some if not crawls[c]), default=0.0)
                self.floor = floor if floor > SHARE * self._run.settings.tol else 0.0
            if asks and self.floor:
                return True
        return False

    def _of(self, part: BlockState, c: int) -> float:
        run, w, dual = self._run, self._run.sweeps.w[c], float(self._run.sweeps.dual[c])
        if dual <= 0.0 or run.bound.floor(c, len(run.sweeps.w), w, dual) <= SHARE * run.settings.tol:
            return 0.0
        losses, close_squares, _ = run.sweeps.losses(part, c)  # by margins as last seen: P may be far less
        primal = min(0.5 * float(np.einsum("i,i", w, w)) + losses, MAX_RATIO * dual)
        return run.bound.floor(c, len(run.sweeps.w), w, primal, math.sqrt(close_squares))
