"""RunSolver: what solvers have in common whose state is that of one run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.costs import RowCosts
from llsvm.process.threads import Threads
from llsvm.settings.settings import Settings
from llsvm.solvers.report import Report
from llsvm.solvers.state import DualPoint, Shares, ShareSums, SolverState, Value, data_of, objective_of
from llsvm.stream.stream import Stream


class SolverRun(Protocol):
    """A run over a stream."""

    def reports(self) -> Iterator[Report]:
        """Go on to the end; a report after each pass."""
        ...

    def state(self, objective: dict[str, Value]) -> SolverState:
        """Return the state after the last report. objective: what the state depends on beside the data."""
        ...

    def dual_point(self) -> DualPoint | None:
        """Return the dual point of the last certificate, as ``Solver.dual_point`` does."""
        ...


class RunSolver(ABC):
    """A Solver (llsvm.solvers.base): ``solve`` yields a Report after each pass, after which its state may be asked
    for.

    name: of the method, as in Settings and in states.
    """

    name: ClassVar[str]

    def __init__(self, settings: Settings, class_weight: NDArray[np.float64], threads: int = 1) -> None:
        """settings: with C, not λ.
        class_weight: (n_classes,) float64 factors of C.
        threads: at least 1.
        """
        self.settings = settings
        self.threads = threads
        one_vs_rest = settings.multiclass == "ovr"
        self.costs = RowCosts.of_classes(settings.C, class_weight, one_vs_rest=one_vs_rest)
        self._objective = objective_of(settings, class_weight)
        self._saved: SolverState | None = None  # to go on from
        self._run: SolverRun | None = None

    @abstractmethod
    def needs(self, memory: MemoryLeft) -> Needs:
        """Return the needs of ``solve``, as ``Solver.needs`` does."""

    @abstractmethod
    def _begin(self, stream: Stream, saved: SolverState | None, threads: Threads) -> SolverRun:
        """Spend the memory limit and begin, or go on from a state for these data."""

    def solve(self, stream: Stream) -> Iterator[Report]:
        """Yield the reports of ``Solver.solve``. Raises UsageError where the state to go on from is that of other
        data."""
        saved, self._saved = self._saved, None
        if saved is not None:
            saved.require(self.name, data_of(stream.dataset))
        with Threads(self.threads, stream.progress.stop) as threads:
            self._run = self._begin(stream, saved, threads)
            del saved  # which may be large
            yield from self._run.reports()

    def begin_at(self, shares: Shares, sums: ShareSums | None = None) -> bool:
        """False: these methods begin at weights."""
        return False

    def state(self) -> SolverState:
        """Return the state of the run, as ``Solver.state`` does."""
        assert self._run is not None, "there is a state after the first report"
        return self._run.state(self._objective)

    def dual_point(self) -> DualPoint | None:
        """Return the dual point of the run, as ``Solver.dual_point`` does."""
        return None if self._run is None else self._run.dual_point()

    def restore(self, state: SolverState) -> None:
        """Let ``solve`` go on from this state, as ``Solver.restore`` does."""
        state.require(self.name, self._objective)
        self._saved = state
