"""What follows the loops where there are many columns, too many for the matrices of Newton's method: loops over the
worst rows (worst_rows.py), and, where these brought little, Newton's method over the same few."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llsvm.solvers.sequential_dual.loops import Loops
from llsvm.solvers.sequential_dual.shares import BlockShares
from llsvm.solvers.sequential_dual.tuning import SequentialDualTuning
from llsvm.solvers.sequential_dual.worst_rows import WorstRows
from llsvm.solvers.state import Value
from llsvm.stream.progress import Progress


class ManyColumns:
    """begun: its steps follow the loops from now on."""

    def __init__(self, worst: WorstRows, tuning: SequentialDualTuning) -> None:
        self.begun = False
        self._worst, self._tuning = worst, tuning

    def step(self, part: BlockShares, loops: Loops, left: float, progress: Progress) -> None:
        """A loop over all rows, then the worst: by loops, or by Newton's method if the last pass left more than
        ``newton_from`` of the gap; left: the share that it did."""
        tuning, first = self._tuning, not self.begun
        self.begun = True
        loops.tol_share *= tuning.tol_share_falls  # P is far above what loops meet
        loops.train([part], tuning.block_until_in_memory, 1)
        rows = self._worst.choose(part, loops.w)
        if first or left <= tuning.newton_from:
            loops.settle_rows(part, rows)
        else:
            loops.dual += self._worst.solve(part, rows, loops.w, progress)
            loops.made += 1

    # -- what a SolverState holds of it -----------------------------------------------------------------

    @property
    def numbers(self) -> dict[str, Value]:
        return {"many columns": self.begun}

    def restore(self, numbers: Mapping[str, Any]) -> None:
        """Go on from what these were."""
        self.begun = numbers.get("many columns", False)
