"""The method of multipliers (multipliers.py) over all rows where these do not fit in memory, but the matrix of a
step does: each look at the rows is a reading of the binary cache (every_row.py).

Blocks of rows and the survivors in memory are of no use meanwhile, and lend their room.
"""

from __future__ import annotations

from collections.abc import Iterator

from llsvm.solvers.optim.blas import one_blas_thread
from llsvm.solvers.sequential_dual.layout import WEIGHTS
from llsvm.solvers.sequential_dual.multipliers import JointMultipliers
from llsvm.solvers.sequential_dual.prices import Prices
from llsvm.solvers.sequential_dual.proximal_point import JointRows
from llsvm.solvers.sequential_dual.rounds import JointRounds
from llsvm.solvers.sequential_dual.shares import BlockShares
from llsvm.stream.every_row import EveryRow
from llsvm.stream.gathered import Gathered
from llsvm.stream.progress import Progress
from llsvm.stream.stream import Stream


class NewtonOverAllRows:
    """Newton's method over all rows: stages of its steps, each followed by a pass that measures."""

    def __init__(self, newton: JointMultipliers, rounds: JointRounds, stream: Stream, prices: Prices) -> None:
        self._newton, self._rounds, self._stream, self._prices = newton, rounds, stream, prices

    @property
    def begun(self) -> bool:
        return self._newton.W is not None

    @property
    def is_due(self) -> bool:
        """Have loops cost as much as it would, or is it at work?"""
        return self.begun or self._prices.readings_pay(self._rounds.n_active)

    def full_pass(self, measure: bool, epochs: bool) -> float:
        """Returns P at ``rounds.start``: Newton's weights, which are only measured, if D rose by the last stage;
        else as ``JointRounds.full_pass``, whose blocks are trained until this is due."""
        W = self._newton.W
        if W is not None and self._newton.gained:
            return self._rounds.measure(W)
        enough = None if self.begun else lambda: self.is_due
        return self._rounds.full_pass(measure, epochs, enough)

    def solve(self, enough: float) -> int:
        """A stage, until the gap is at most ``enough`` · D. Sets D to that of the shares; the survivors in memory
        are given up. Returns how many rows there are."""
        with Gathered(self._stream, WEIGHTS, 0) as gathered, one_blas_thread():
            gathered.drop_resident()
            self._solve(enough)
        return self._stream.dataset.n_rows

    def _solve(self, enough: float) -> None:
        """Nothing of it is held after."""
        stream, rounds, loops, newton = self._stream, self._rounds, self._rounds.loops, self._newton
        rows = rows_read(EveryRow(stream, _room_bytes(stream)), rounds, newton, stream.progress)
        loops.dual = rows.D
        loops.dual += newton.solve_rows(
            rows, loops.w, enough, self._prices.tuning.newton_stage, stream.progress
        )


def rows_read(
    every: EveryRow, rounds: JointRounds, newton: JointMultipliers, progress: Progress
) -> JointRows:
    """All rows, as Newton's method sees them."""

    def parts() -> Iterator[BlockShares]:
        return (rounds.part(every.block(number)) for number in range(len(every)))

    def store(part: BlockShares) -> None:
        rounds.shares.set(part.rows, part.share)

    return JointRows(parts, store, rounds.loops.w, True, *newton.tail, progress)


def has_room(stream: Stream) -> bool:
    """For readings of all rows, which must be in the cache."""
    return 0 < EveryRow.least_bytes(stream) <= _room_bytes(stream)


def _room_bytes(stream: Stream) -> int:
    return stream.plan.two_blocks_bytes + stream.plan.survivor_bytes
