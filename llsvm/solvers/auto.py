"""Auto: the solver that ``solver="auto"`` stands for, and the change from one to another where a trial ends."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.settings.settings import Settings
from llsvm.settings.solver import SOLVERS
from llsvm.solvers import make_solver
from llsvm.solvers.base import Solver
from llsvm.solvers.choose import DEFAULT, AutoTuning, Choice, choose, enough
from llsvm.solvers.report import STALLED, Report
from llsvm.solvers.state import SolverState, Value, data_of, objective_of
from llsvm.stream.stream import Stream

if TYPE_CHECKING:
    from llsvm.solvers.llsvm.solver import LLSVM


@dataclass(slots=True)
class _Trial:
    """Of coordinate descent. before: its work when the round began. converged: it is done."""

    before: int = 0
    converged: bool = False


@dataclass(frozen=True, slots=True)
class _Change:
    """To smsvm, and why. state: that it begins with."""

    why: str
    state: SolverState


class Auto:
    """A Solver (llsvm.solvers.base). ``choice`` says which one is at work and why, and changes with it."""

    def __init__(
        self,
        settings: Settings,
        class_weight: NDArray[np.float64],
        threads: int,
        memory: MemoryLeft,
        tuning: AutoTuning = DEFAULT,
    ) -> None:
        """memory: what is left once the data have been read."""
        self.settings = settings
        self.class_weight = class_weight
        self.threads = threads
        self.tuning = tuning
        self.choice = choose(settings, threads, memory, tuning)
        self._trial = _Trial()
        self._change: _Change | None = None
        self._at_work: Solver | None = None
        self._restored: SolverState | None = None

    def needs(self, memory: MemoryLeft) -> Needs:
        """Of the solver to begin with."""
        return self._solver().needs(memory)

    def solve(self, stream: Stream) -> Iterator[Report]:
        if self.choice.newton is None:
            yield from self._begin().solve(stream)
            return
        yield from self._try_llsvm(stream, self.choice.newton)
        if self._change is not None:
            change, self._change, self._at_work = self._change, None, None  # and all that it holds
            self.choice, self._restored = Choice("smsvm", change.why), change.state
            stream.reset()
            yield from self._begin().solve(stream)

    def _begin(self) -> Solver:
        """The solver of ``choice``, where the one before, or a run that was stopped, has come to."""
        self._at_work, state = self._solver(), self._restored
        self._restored = None
        if state is not None:
            self._at_work.restore(state)
        return self._at_work

    def _solver(self) -> Solver:
        name = self.choice.solver
        chosen = replace(self.settings, solver=name) if name in SOLVERS else self.settings
        if name == "smsvm":
            from llsvm.solvers.smsvm.solver import SmSVM

            return SmSVM(chosen, self.class_weight, self.threads, self.tuning.smsvm)
        return make_solver(chosen, self.class_weight, self.threads)

    def _try_llsvm(self, stream: Stream, newton: float) -> Iterator[Report]:
        """Passes of coordinate descent. Where they end before it has converged, ``_change`` says where to."""
        n_rows, most, trial = stream.dataset.n_rows, self.settings.max_passes, self._trial
        first = cast("LLSVM", self._begin())
        first.allowance = self.tuning.round * newton * n_rows
        reports = cast(Generator[Report, None, None], first.solve(stream))
        for report in reports:
            active = report.survivors if report.kind == "pass" and report.passes > 1 else None
            in_round = first.work - trial.before
            why = enough(newton, n_rows, first.work, in_round, report.passes, active, self.tuning)
            if report.cause == STALLED:
                why = (
                    why or f"after {report.passes} passes of coordinate descent the gap hardly fell any more"
                )
            may_change = stream.in_one_block or not self.choice.at_hand
            trial.converged |= report.converged
            if trial.converged or not may_change or (most and report.passes >= most):
                why = ""
            if why:
                report.cause, report.note = "", f"going on with smsvm: {why}"
                report.resumable = True
                self._change = _Change(why, self._warm_start(first, report, stream))
                yield report
                reports.close()
                return
            if report.kind == "pass":
                trial.before = first.work
            yield report
        if trial.converged:
            spent = f"{first.updates / n_rows:.0f} updates a row were enough"
            self.choice = replace(self.choice, why=f"{spent}; {self.choice.why}")

    def _warm_start(self, first: LLSVM, report: Report, stream: Stream) -> SolverState:
        """What Newton's method takes of coordinate descent's state, and nothing that holds its memory."""
        assert report.certificate is not None
        assert report.coef is not None
        arrays = {
            "best_coef": report.coef,
            "best_primal": np.array(report.certificate.primal),
            "dual": np.array(first.dual),
        }
        of = objective_of(self.settings, self.class_weight) | data_of(stream.dataset)
        return SolverState("llsvm", report.passes, of, arrays)

    # -- state --------------------------------------------------------------------------------------------

    def state(self) -> SolverState:
        """That of the solver at work, or, where coordinate descent's trial has just ended, that which smsvm begins
        with; and which it is."""
        if self._change is not None:
            state, name, why = self._change.state, "smsvm", self._change.why
        else:
            assert self._at_work is not None, "solve() comes first"
            state, name, why = self._at_work.state(), self.choice.solver, self.choice.why
        own: dict[str, Value] = {
            "at work": name,
            "state of": state.solver,
            "why": why,
            "work before": int(self._trial.before),
            "converged": self._trial.converged,
        }
        return replace(state, solver="auto", numbers={**state.numbers, "auto": own})

    def restore(self, state: SolverState) -> None:
        state.require("auto", {})
        own = cast(dict[str, Any], state.numbers["auto"])
        if own["at work"] == "smsvm" and self.choice.newton is not None:
            self.choice = Choice("smsvm", own["why"])
        self._trial = _Trial(own["work before"], own["converged"])
        self._restored = replace(state, solver=own["state of"])
        self._solver().restore(self._restored)  # refuses what is not for this objective
