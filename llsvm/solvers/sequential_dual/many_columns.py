"""What follows the loops where there are many columns, too many for the matrices of Newton's method: loops over the
worst rows (worst_rows.py), and, where these brought little, Newton's method over the same few."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.sequential_dual.loops import Loops
from llsvm.solvers.sequential_dual.rounds import Rounds
from llsvm.solvers.sequential_dual.shares import BlockShares, squared_norm
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
        """All rows are at hand: a loop over them, then the worst. left: the share of the gap that the last pass
        did."""
        loops.tol_share *= self._tuning.tol_share_falls  # P is far above what loops meet
        loops.train([part], self._tuning.block_until_in_memory, 1)
        self._settle(part, self._worst.choose(part, loops.w), loops, left, progress)

    def survey(self, rounds: Rounds) -> tuple[float, BlockShares | None]:
        """P at the weights as the last pass left them, and the worst of all rows, which are read for it."""
        rounds.start[...] = rounds.loops.w
        losses, worst = self._worst.choose_of(rounds.parts(), rounds.start)
        return 0.5 * squared_norm(rounds.start) + losses, worst

    def step_out_of_core(
        self, worst: BlockShares | None, rounds: Rounds, left: float, progress: Progress
    ) -> int:
        """Settle the worst rows of a survey; returns how many they are."""
        rounds.loops.tol_share *= self._tuning.tol_share_falls
        if worst is None:
            return 0
        self._settle(worst, np.arange(worst.n_rows), rounds.loops, left, progress)
        rounds.shares.set(worst.rows, worst.share)
        return worst.n_rows

    def _settle(
        self, part: BlockShares, rows: NDArray[np.int64], loops: Loops, left: float, progress: Progress
    ) -> None:
        """By loops, or by Newton's method if the last pass left more than ``newton_from`` of the gap."""
        first, self.begun = not self.begun, True
        if first or left <= self._tuning.newton_from or not self._worst.has_newton:
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
