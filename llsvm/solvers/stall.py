"""Stall: the part of a StoppingRule (stopping.py) that solvers use which do not hand it certificates yet."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from llsvm.objective.certificate import Certificate
from llsvm.solvers.stopping import ROUNDING, WINDOW, StoppingRule

__all__ = ["ROUNDING", "WINDOW", "Stall"]


class Stall(StoppingRule):
    """A StoppingRule that is asked for stalls only."""

    def __init__(self, tol: float, max_passes: int | None) -> None:
        super().__init__(tol, max_passes)

    def note(self, passes: int, primal: ArrayLike, dual: ArrayLike) -> bool:
        """Take in a pass, so many having been made: its primal and the dual reached, (p,) each. Return whether no
        problem that is short of the tolerance gets there by the last pass."""
        objectives = tuple(np.atleast_1d(primal).tolist()), tuple(np.atleast_1d(dual).tolist())
        return bool(self.judge(Certificate(*objectives, passes)).cause)
