"""Stages: what loops do between two measurements, where all rows are in memory.

From nothing, they train the rows that were free or violating, until these have got on. A run that begins at the
shares of most rows begins with weights that are nearly right, and what such loops make of them for a while is not:
so many rows that nearly violate soon do. So its loops are over both, and go on to the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from llsvm.objective.costs import RowCosts
from llsvm.solvers.sequential_dual.loops import Loops
from llsvm.solvers.sequential_dual.prices import Due, WhatIsDue
from llsvm.solvers.sequential_dual.shares import BlockShares
from llsvm.solvers.sequential_dual.tuning import SequentialDualTuning
from llsvm.solvers.state import Sums, Value, much_the_same

_BEGUN = "begun after"


@dataclass(frozen=True, slots=True)
class Stages:
    """begun_after: passes that have summed the weights of most rows to begin at; None: it begins with none, or at
    those of other costs."""

    tuning: SequentialDualTuning
    begun_after: int | None = None

    def begun(self, passes: int, sums: Sums | None, costs: RowCosts) -> Stages:
        """Those of a run that has begun at such sums, after so many passes."""
        same = sums is not None and much_the_same(costs.by_class, sums.by_class)
        return Stages(self.tuning, passes if same else None)

    def train(self, part: BlockShares, loops: Loops, passes: int, primal: float, due: WhatIsDue) -> None:
        """part: all rows, as the last of so many passes has measured them, and P. due: what loops from nothing have
        cost as much as."""
        tuning = self.tuning
        if self.begun_after is None:
            loops.train([part], tuning.until, tuning.loops_in_memory, lambda: due() is Due.NEWTON)
            return
        stage = passes - self.begun_after
        near = np.flatnonzero(part.slack < tuning.warm_slack / stage)
        if stage > 2:
            loops.tighten()
        loops.settle(part, near, tuning.until * (primal - loops.dual) if stage == 1 else 0.0)

    # -- what a SolverState holds of it -----------------------------------------------------------------

    @property
    def numbers(self) -> dict[str, Value]:
        return {} if self.begun_after is None else {_BEGUN: self.begun_after}

    def restored(self, numbers: Mapping[str, Any]) -> Stages:
        """Those that these were of."""
        return Stages(self.tuning, numbers.get(_BEGUN))
