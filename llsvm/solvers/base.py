"""What every solver keeps: the protocol ``Solver``, the ``Report`` that it yields after each pass, and
``RunSolver``, a base class for solvers whose state is that of one run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.certificate import Certificate, LeaveOneOut
from llsvm.objective.problems import RowCosts
from llsvm.process.threads import Threads
from llsvm.settings.settings import Settings
from llsvm.solvers.state import DualPoint, Shares, ShareSums, SolverState, Value, data_of, objective_of
from llsvm.stream.stream import Stream

STALLED = "stalled"  # the gap falls too slowly for the passes that are left, or not at all
SETTLED = "settled"  # what the paper's rule watches no longer changes, however large the gap may be
NO_ROOM = "memory"  # stalled, since the memory limit has no room for what would get on
ROUNDED = "rounding"  # what is missing to the tolerance is lost in rounding
UPDATES = "updates_per_row"  # in ``Report.extra``: so often each row has been updated so far, on average
# Of processor that this has taken, as told by counts, so that runs repeat; llsvm: beside the updates themselves
SECONDS = "priced_seconds"
# Values that a sweep visits, or products of two that a matrix takes, between two looks at the clock: up to 0.2
# seconds of work at the prices of llsvm/process/work.py. With more, runs go on for longer after --max-seconds; with
# fewer, they make more calls.
LOOK_VALUES = 1e8


def in_passes(number: int, what: str = "pass") -> str:
    """Return a number of passes in words, such as "1 pass" or "3 passes"."""
    return f"{number} {what}" + ("" if number == 1 else "es")


def updates_a_row(number: float) -> str:
    """Return a number of updates in words, such as "1 update a row" or "3 updates a row"."""
    whole = f"{number:.0f}"
    return f"{whole} update{'' if whole == '1' else 's'} a row"


@dataclass(slots=True)
class Report:
    """Report of a solver after a pass.

    kind: "read" (the first reading of the source), "pass" (a full pass over all rows), "epoch" (work on the
    survivors). passes: full passes so far, the first reading not counted. coef: (k, columns) float64, the best
    certified weights, the bias in the last column if there is one; None before there are any; they may lie in a
    file (llsvm.files.growing). dual: the dual objective now. survivors: of a pass, rows that
    are free or violate their optimality condition; of epochs, those that were kept. note: one
    sentence for people, or "".
    cause: where a solver ends here without having converged, and knows why: one of STALLED, NO_ROOM, SETTLED,
    ROUNDED.
    resumable: the solver's ``state()`` may be asked for now; true of at least one report between any two full
    passes.
    expand: where ``coef`` are weights of rows, (k, rows), then the intercept: makes a pass, and gives which rows
    count and the FeatureMap (llsvm.features.feature_map) that holds them.
    left_out: of a hinge and two classes, what leaving each row out would come to at most, at these dual variables;
    None where that is not known.
    pruned: what it came to that small weights became zero, plain values (llsvm/training/pruning.py); else None.
    """

    kind: str
    passes: int
    coef: NDArray[np.float64] | None = None
    certificate: Certificate | None = None
    dual: float = float("nan")
    survivors: int = 0
    converged: bool = False
    note: str = ""
    cause: str = ""
    resumable: bool = False
    extra: dict[str, float] = field(default_factory=dict)
    expand: Callable[[], tuple[NDArray[np.bool_], Any]] | None = None
    left_out: LeaveOneOut | None = None
    pruned: dict[str, Any] | None = None


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
