"""Warm: how a run goes on that has begun at dual variables from elsewhere, and a probe of how far margins drift."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from llsvm.objective.problems import Positions
from llsvm.solvers.llsvm.block_state import BlockState
from llsvm.solvers.llsvm.tuning import LLSVMTuning, WarmTuning
from llsvm.solvers.state import Value


@dataclass(frozen=True, slots=True)
class Warm:
    """begun_after: passes that have summed the weights to begin at. tuning: what goes for it."""

    begun_after: int
    tuning: WarmTuning

    def is_first(self, passes: int) -> bool:
        """Is this pass, the first being 1, or the round that it begins, the first of the run?"""
        return passes == self.begun_after + 1

    def until(self, passes: int) -> float:
        """The share of what epochs have met first at which they end."""
        return self.tuning.first_until if self.is_first(passes) else self.tuning.until

    def tol_share(self, in_memory: bool) -> float:
        """Of the gap asked for, at which epochs end. in_memory: all rows are."""
        return self.tuning.tol_share if in_memory else self.tuning.spilled_tol_share

    @property
    def numbers(self) -> Value:
        """For a SolverState."""
        return {"begun after": self.begun_after, "new rows": self.tuning.own_sweeps > 0}

    @classmethod
    def of(cls, numbers: Mapping[str, Any], tuning: LLSVMTuning) -> Warm | None:
        """What these were of."""
        chosen = tuning.warm if numbers["new rows"] else tuning.other_costs
        return None if chosen is None else cls(numbers["begun after"], chosen)


class Probe:
    """How far the margins of some rows of a problem have drifted since they were looked at."""

    def __init__(self, part: BlockState, c: int, most: int) -> None:
        """most: so many rows, at most."""
        self._part, self._c, self._most = part, c, most
        self._rows: Positions = np.zeros(0, np.intp)
        self._margin = np.zeros(0)

    def look(self, rows: Positions) -> None:
        """At some of these."""
        some = np.linspace(0, len(rows) - 1, min(len(rows), self._most)).astype(np.intp)
        self._rows, _, self._margin = self._part.of(self._c, rows[some])

    def drift(self) -> float:
        """Root mean square; infinite where none was looked at."""
        if not len(self._rows):
            return math.inf
        moved = self._part.of(self._c, self._rows)[2] - self._margin
        return float(np.sqrt(np.mean(moved * moved)))
