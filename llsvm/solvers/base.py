"""Solver: the protocol that every method keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.solvers.report import Report
from llsvm.solvers.state import DualPoint, Shares, ShareSums, SolverState
from llsvm.stream.stream import Stream

# Values that a sweep visits, or products of two that a matrix takes, between two looks at the clock: up to 0.2
# seconds of work at the prices of llsvm/process/work.py. With more, runs go on for longer after --max-seconds; with
# fewer, they make more calls.
LOOK_VALUES = 1e8


class Solver(Protocol):
    """A generator of passes, which can be stopped and gone on with. Whoever iterates shows the progress and stops
    on time.

    The last report's ``coef`` and ``certificate`` are the result. A solver holds no large array that
    ``stream.prepare`` was not told of, and reads rows through the stream only.
    """

    def needs(self, memory: MemoryLeft) -> Needs:
        """Return what ``solve`` will ask ``stream.prepare`` for: a pure function of settings, threads and
        ``memory``."""
        ...

    def solve(self, stream: Stream) -> Iterator[Report]:
        """Passes over a stream that has been read; ends when converged, or out of passes. Begins where ``restore``
        has put it, else at w = 0."""
        ...

    def begin_at(self, shares: Shares, sums: ShareSums | None = None) -> bool:
        """Let ``solve`` begin at these dual variables, in any bounds; False where the method has no use for them.
        sums: of them; without, or where they do not fit, it takes a pass to make them."""
        ...

    def state(self) -> SolverState:
        """Return what ``restore`` needs to go on from here; called after a report with ``resumable``."""
        ...

    def dual_point(self) -> DualPoint | None:
        """Return the point that the dual of the last certificate belongs to, once ``solve`` has ended; None where
        it is stored neither by row nor at the weights that ``solve`` has come to."""
        ...

    def restore(self, state: SolverState) -> None:
        """Let ``solve`` go on from there, over a stream of the same rows under the same limits: the same weights,
        bit for bit, as if it had not stopped. Raises UsageError for the state of another method, or other data."""
        ...
