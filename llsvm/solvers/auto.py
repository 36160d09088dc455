"""``solver="auto"``: which method is likely to take the least processor time, and why (``choose``); and ``Auto``,
the solver that changes from one method to another where a trial ends. Every choice reaches the same certified
optimum.

What only one solver can do, it does. Else coordinate descent (llsvm) begins: on most data it is the fastest, and
rows in memory it finishes by a Newton's method of its own. Where that has no room, and the smoothed Newton method
(smsvm) is cheap, coordinate descent is on trial. Newton's cost is known beforehand, so many times that of a pass,
nearly whatever C is; coordinate descent's is not: it grows with C and with how many rows stay between the margins.
So its updates are counted, and once they, with those that rows out of memory still ask for, come to as much as
Newton would take, smsvm starts, which is told the dual bound reached. No clock is looked at, so that runs repeat.

The prices are processor time in ns on the machine of tools/bench/README.md; only their ratios matter. Those of an
update are the same as in llsvm/process/work.py. Those of Newton's method are higher: at the prices there a pass
would cost about half as much (a factorization a quarter, the matrix of dense rows half), and trials would end
sooner.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from llsvm.dataset import DatasetInfo
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.losses import loss_of
from llsvm.objective.problems import Problems
from llsvm.process.trace import trace
from llsvm.settings.objective import REGRESSION
from llsvm.settings.settings import Settings
from llsvm.settings.solver import SOLVERS
from llsvm.solvers import make_solver
from llsvm.solvers.base import ROUNDED, STALLED, Report, Solver, updates_a_row
from llsvm.solvers.kernel_machine.layout import kernel_layout
from llsvm.solvers.llsvm.tuning import DEFAULT as LLSVM_TUNING
from llsvm.solvers.optim.newton_system import NEWTON_STEPS
from llsvm.solvers.smsvm.tuning import DEFAULT as SMSVM_TUNING
from llsvm.solvers.smsvm.tuning import SmSVMTuning
from llsvm.solvers.state import DualPoint, Shares, ShareSums, SolverState, Value, data_of, objective_of
from llsvm.stream.stream import Stream

if TYPE_CHECKING:
    from llsvm.solvers.llsvm.solver import LLSVM


# Nanoseconds that loading the code of smsvm takes, once. With fewer, small data change to it that coordinate
# descent would have solved; with more, they stay with coordinate descent for too long. (llsvm's own Newton's
# method, which loads less, counts 1e8.)
NEWTON_START = 2e8
# Rounds of coordinate descent that are still to come where rows are not in memory: each visits those that are free
# or violating as often as all so far have. With fewer, a trial on disk makes passes that Newton would not need;
# with more, it ends where coordinate descent was nearly done.
ROUNDS_TO_COME = 5


@dataclass(frozen=True, slots=True)
class Choice:
    """solver: a key of SOLVERS. why: a sentence. newton: where not None, the solver is on trial, and this is what
    smsvm would cost instead, in its updates per row."""

    solver: str
    why: str
    newton: float | None = None


def choose(
    settings: Settings, threads: int, memory: MemoryLeft, tuning: SmSVMTuning = SMSVM_TUNING
) -> Choice:
    """memory: what is left once the data have been read. tuning: of the solver that may be changed to."""
    if settings.only_solver is not None:
        only = Choice(*settings.only_solver)
        return _nesvm_instead(settings, threads, memory) or only if only.solver == "smo" else only
    from llsvm.solvers.llsvm.layout import layout as coordinate_descent
    from llsvm.solvers.smsvm.layout import layout as newtons_method

    dataset = memory.dataset
    columns, problems = dataset.n_features, Problems(dataset.n_classes, settings.multiclass == "ovo")
    loss = loss_of(settings)
    if loss.kind == REGRESSION and not math.isfinite(loss.smoothness) and columns >= dataset.n_rows:
        # weights meet all targets: what the smoothed sides of the loss have of α is then a small difference
        return Choice(
            "llsvm", f"Newton's method smooths the {settings.loss} loss, and needs more rows than features"
        )
    of_classes = np.ones(dataset.n_classes)
    descent = coordinate_descent(settings, of_classes, threads, memory, problems, LLSVM_TUNING)
    if descent.in_memory and not descent.needs.missing_bytes:
        return Choice("llsvm", "all rows are in memory, with room for a Newton's method of its own")
    newtons = newtons_method(len(problems), threads, False, loss, memory, tuning, pairs=problems.pairs)
    if newtons.by_products:
        return Choice(
            "llsvm",
            f"Hessians of {columns:,} features are too large for Newton's method (smsvm) or the memory limit",
        )
    if not memory.has_room(newtons.needs):
        return Choice("llsvm", "the memory limit has no room for Newton's method")
    newton = newton_updates(dataset, len(problems), problems.width)
    return Choice("llsvm", f"Newton's method would cost as much as {updates_a_row(newton)}", newton)


def _nesvm_instead(settings: Settings, threads: int, memory: MemoryLeft) -> Choice | None:
    """Choose nesvm instead of smo, or return None: with the squared hinge most rows stay free, and small working
    sets take many passes."""
    if settings.loss != "squared_hinge" or kernel_layout(settings, memory, threads).in_memory:
        return None
    rows = memory.dataset.n_rows
    return Choice(
        "nesvm", f"the kernel matrix of {rows:,} rows is on disk, where smo is slow with squared hinge"
    )


def newton_updates(dataset: DatasetInfo, problems: int = 1, of_row: int | None = None) -> float:
    """Return how many updates of each row by coordinate descent cost as much as smsvm in all. of_row: the number of
    problems that a row takes part in; None: all."""
    n, rows, r = dataset.n_features, max(dataset.n_rows, 1), _values_of_row(dataset)
    # of a row: its products, and its part of a Hessian
    a_pass = 100 + r + (0.05 if dataset.is_dense else 0.4) * r * r
    update = 100 + (0.45 if dataset.is_dense else 2) * r
    work = NEWTON_STEPS * ((of_row or problems) * a_pass + problems * n**3 / 15 / rows)
    return (work + NEWTON_START / rows) / update


def _values_of_row(dataset: DatasetInfo) -> float:
    return float(dataset.n_features) if dataset.is_dense else dataset.nnz / max(dataset.n_rows, 1)


def why_trial_ends(newton: float, n_rows: int, updates: int, passes: int, active: int) -> str:
    """Return why the trial of llsvm should end here, or "".

    newton: see Choice. updates: what sweeps came to so far, in updates of rows. active: rows that were free or
    violated their optimality conditions in the last full pass; 0 until that is known of a pass that was measured,
    and where all rows are in memory.
    """
    spent = updates / n_rows + passes
    to_come = ROUNDS_TO_COME * spent * active / n_rows
    if spent + to_come < newton:
        return ""
    more = f", and {active / n_rows:.0%} of the rows still moved" if to_come else ""
    return (
        f"coordinate descent had not converged after {updates_a_row(spent)}{more}; smsvm's passes cost about as "
        f"much as {newton:.0f}"
    )


@dataclass(frozen=True, slots=True)
class _Change:
    """To another solver, and why. state: that it begins with."""

    solver: str
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
        tuning: SmSVMTuning = SMSVM_TUNING,
    ) -> None:
        """memory: what is left once the data have been read. tuning: of smsvm."""
        self.settings = settings
        self.class_weight = class_weight
        self.threads = threads
        self._tuning = tuning
        self.choice = choose(settings, threads, memory, tuning)
        self._n_rows = memory.dataset.n_rows
        self._converged = False  # coordinate descent is done
        self._change: _Change | None = None
        self._taken_over_at = 0  # full passes when smsvm made its first
        self._back = False  # coordinate descent has been given the problem back, and keeps it
        self.at_work: Solver | None = None
        """The solver of ``choice``, once it has begun."""
        self._restored: SolverState | None = None
        self._start: tuple[Shares, ShareSums | None] | None = None

    def begin_at(self, shares: Shares, sums: ShareSums | None = None) -> bool:
        """Let the solver to begin with start at these dual variables; return whether it has a use for them."""
        if not self._solver().begin_at(shares):
            return False
        self._start = shares, sums
        return True

    @property
    def ended(self) -> Choice | None:
        """Return the choice that follows coordinate descent's trial; None while that lasts, and where there is no
        trial."""
        if self._change is not None and self._change.solver == "smsvm":
            return Choice(self._change.solver, self._change.why)
        return self.choice if self._on_trial or self._back else None

    def begin_with(self, ended: Choice) -> None:
        """Let ``solve`` begin with what has followed the trial on the same rows in other precision, if this one
        would be on trial, too."""
        if self.choice.newton is not None:
            self.choice, self._back = ended, ended.solver == "llsvm"

    def needs(self, memory: MemoryLeft) -> Needs:
        """Return the needs of the solver to begin with."""
        return self._solver().needs(memory)

    def solve(self, stream: Stream) -> Iterator[Report]:
        trace("solver.chosen", solver=self.choice.solver, why=self.choice.why)
        yield from self._passes(stream)
        while self._change is not None:
            change, self._change, self.at_work = self._change, None, None  # and all that it holds
            self.choice, self._restored = Choice(change.solver, change.why), change.state
            trace("solver.changed", solver=change.solver, why=change.why, passes=change.state.passes)
            self._back = change.solver == "llsvm"
            stream.reset()
            yield from self._passes(stream)

    def _passes(self, stream: Stream) -> Iterator[Report]:
        """Yield the reports of the solver of ``choice``; where they end in ``_change``, another solver has to go
        on."""
        if self.choice.newton is not None:
            yield from self._try_llsvm(stream, self.choice.newton)
        elif self._on_trial:
            yield from self._watch_smsvm(stream)
        else:
            yield from self._begin().solve(stream)

    @property
    def _on_trial(self) -> bool:
        """Return whether Newton's method has taken over from coordinate descent, which could take the problem
        back."""
        return self.choice.solver == "smsvm" and self.settings.only_solver is None and not self._back

    def _begin(self) -> Solver:
        """The solver of ``choice``, where the one before, or a run that was stopped, has come to."""
        self.at_work, state = self._solver(), self._restored
        self._restored = None
        if state is not None:
            self.at_work.restore(state)
        if self._start is not None:
            shares, sums = self._start
            self.at_work.begin_at(shares, sums)
            self._start = None
        return self.at_work

    def _solver(self) -> Solver:
        name = self.choice.solver
        settings = replace(self.settings, solver=name) if name in SOLVERS else self.settings
        if name == "smsvm":
            from llsvm.solvers.smsvm.solver import SmSVM

            return SmSVM(settings, self.class_weight, self.threads, self._tuning)
        if self.choice.newton is not None:
            from llsvm.solvers.llsvm.solver import LLSVM

            allowance = self.choice.newton * self._n_rows
            return LLSVM(settings, self.class_weight, self.threads, allowance=allowance)
        return make_solver(settings, self.class_weight, self.threads)

    def _try_llsvm(self, stream: Stream, newton: float) -> Iterator[Report]:
        """Passes of coordinate descent. Where they end before it has converged, ``_change`` says where to."""
        n_rows, max_passes = self._n_rows, self.settings.max_passes
        first = cast("LLSVM", self._begin())
        reports = cast(Generator[Report, None, None], first.solve(stream))
        for report in reports:
            known = report.kind == "pass" and report.passes > 1 and not stream.in_one_block
            active = report.survivors if known else 0
            why = why_trial_ends(newton, n_rows, first.work, report.passes, active)
            if report.cause == STALLED and not why:
                why = f"after {report.passes} passes of coordinate descent the gap hardly fell any more"
            self._converged |= report.converged
            if self._converged or (max_passes and report.passes >= max_passes):
                why = ""
            if why:
                yield self._change_to(
                    "smsvm", why, self._warm_start(report, stream, "llsvm", first.dual), report
                )
                reports.close()
                first.close()  # its dual variables may be a file, which it would make again
                return
            yield report
        if self._converged:
            spent = updates_a_row(first.updates / n_rows)
            self.choice = replace(self.choice, why=f"{spent} sufficed; {self.choice.why}")

    def _watch_smsvm(self, stream: Stream) -> Iterator[Report]:
        """Passes of Newton's method. Where its gap stands still, coordinate descent goes on."""
        max_passes = self.settings.max_passes
        reports = cast(Generator[Report, None, None], self._begin().solve(stream))
        for report in reports:
            self._taken_over_at = self._taken_over_at or report.passes
            is_last = report.converged or (max_passes and report.passes >= max_passes - 1)
            if report.kind == "pass" and report.cause in (STALLED, ROUNDED) and not is_last:
                why = f"after {report.passes - self._taken_over_at} passes of smsvm its gap stood still"
                yield self._change_to("llsvm", why, self._warm_start(report, stream, "smsvm"), report)
                reports.close()
                return
            yield report

    def _change_to(self, solver: str, why: str, state: SolverState, last: Report) -> Report:
        """Let another solver go on from ``state``; returns the last report of the one at work, which says so."""
        self._change = _Change(solver, why, state)
        return replace(last, cause="", note=f"going on with {solver}: {why}", resumable=True)

    def _warm_start(
        self, report: Report, stream: Stream, solver: str, dual: NDArray[np.float64] | None = None
    ) -> SolverState:
        """Return the part of one solver's state that the other starts from, without anything that holds the memory
        of the first. dual: (k,), of coordinate descent."""
        assert report.certificate is not None
        assert report.coef is not None
        arrays = {"best_coef": report.coef, "best_primal": np.array(report.certificate.primal)}
        if dual is not None:
            arrays["dual"] = np.array(dual)
        of = objective_of(self.settings, self.class_weight) | data_of(stream.dataset)
        return SolverState(
            solver, report.passes, of, arrays, numbers={"stream generator": stream.random_state}
        )

    # -- state --------------------------------------------------------------------------------------------

    def state(self) -> SolverState:
        """Return the state of the solver at work, or, where coordinate descent's trial has just ended, the one that
        smsvm begins with, and the name of that solver."""
        if self._change is not None:
            state, name, why = self._change.state, self._change.solver, self._change.why
        else:
            assert self.at_work is not None, "solve() comes first"
            state, name, why = self.at_work.state(), self.choice.solver, self.choice.why
        values: dict[str, Value] = {
            "at work": name,
            "state of": state.solver,
            "why": why,
            "converged": self._converged,
            "taken over at": self._taken_over_at,
            "back": self._back or (self._change is not None and name == "llsvm"),
        }
        return replace(state, solver="auto", numbers={**state.numbers, "auto": values})

    def dual_point(self) -> DualPoint | None:
        """Return the dual point of the solver that came to the end."""
        return None if self.at_work is None else self.at_work.dual_point()

    def restore(self, state: SolverState) -> None:
        state.require("auto", {})
        values = cast(dict[str, Any], state.numbers["auto"])
        self._taken_over_at, self._back = values["taken over at"], values["back"]
        if (values["at work"] == "smsvm" or self._back) and self.choice.newton is not None:
            self.choice = Choice(values["at work"], values["why"])
        self._converged = values["converged"]
        self._restored = replace(state, solver=values["state of"])
        self._solver().restore(self._restored)  # refuses what is not for this objective
