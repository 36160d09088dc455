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
        loops.tighten()  # P is far above what loops meet
        loops.train([part], self._tuning.until, 1)
        rows = self._worst.choose(part, loops.w)
        if not self._by_newton(left):
            loops.settle_rows(part, rows)
            return
        for more in range(self._tuning.worst_joined, -1, -1):
            self._solve(part, rows, loops, progress)
            worse = np.setdiff1d(self._worst.choose(part, loops.w), rows) if more else rows[:0]
            if not len(worse) or progress.out_of_time:
                break
            rows = np.append(rows, worse)  # what contradicts them: neither can be settled alone

    def survey(self, rounds: Rounds) -> tuple[float, BlockShares | None]:
        """P at the weights as the last pass left them, and the worst of all rows, which are read for it."""
        rounds.start[...] = rounds.loops.w
        losses, worst = self._worst.choose_of(rounds.parts(), rounds.start)
        return 0.5 * squared_norm(rounds.start) + losses, worst

    def step_out_of_core(
        self, worst: BlockShares | None, rounds: Rounds, left: float, progress: Progress
    ) -> int:
        """Settle the worst rows of a survey; returns how many they are."""
        rounds.loops.tighten()
        if worst is None:
            return 0
        rows = np.arange(worst.n_rows)
        if self._by_newton(left):
            self._solve(worst, rows, rounds.loops, progress)
        else:
            rounds.loops.settle_rows(worst, rows)
        rounds.shares.set(worst.rows, worst.share)
        return worst.n_rows

    def _by_newton(self, left: float) -> bool:
        """Are the rows due for Newton's method? If the last pass left more than ``newton_from`` of the gap, but not
        the first time."""
        first, self.begun = not self.begun, True
        return not first and left > self._tuning.newton_from and self._worst.has_newton

    def _solve(self, part: BlockShares, rows: NDArray[np.int64], loops: Loops, progress: Progress) -> None:
        loops.dual += self._worst.solve(part, rows, loops.w, progress)
        loops.made += 1

    # -- what a SolverState holds of it -----------------------------------------------------------------

    @property
    def numbers(self) -> dict[str, Value]:
        return {"many columns": self.begun}

    def restore(self, numbers: Mapping[str, Any]) -> None:
        """Go on from what these were."""
        self.begun = numbers.get("many columns", False)
