"""Auto: the solver that ``solver="auto"`` stands for, and the change from one to another where a trial ends."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.settings.settings import Settings
from llsvm.settings.solver import SOLVERS
from llsvm.solvers import make_solver
from llsvm.solvers.base import Solver
from llsvm.solvers.choose import ROUND, Choice, choose, enough
from llsvm.solvers.report import STALLED, Report, Start
from llsvm.stream.stream import Stream


class Auto:
    """A Solver (llsvm.solvers.base). ``choice`` says which one is at work and why, and changes with it."""

    def __init__(
        self, settings: Settings, class_weight: NDArray[np.float64], threads: int, memory: MemoryLeft
    ) -> None:
        """memory: what is left once the data have been read."""
        self.settings = settings
        self.class_weight = class_weight
        self.threads = threads
        self.choice = choose(settings, threads, memory)

    def solve(self, stream: Stream) -> Iterator[Report]:
        newton = self.choice.newton
        if newton is None:
            yield from self._first().solve(stream)
        else:
            yield from self._try_llsvm(stream, newton)

    def needs(self, memory: MemoryLeft) -> Needs:
        """Of the solver to begin with."""
        return self._first().needs(memory)

    def _first(self) -> Solver:
        name = self.choice.solver
        chosen = replace(self.settings, solver=name) if name in SOLVERS else self.settings
        return make_solver(chosen, self.class_weight, self.threads)

    def _try_llsvm(self, stream: Stream, newton: float) -> Iterator[Report]:
        from llsvm.solvers.llsvm.solver import LLSVM

        n_rows, most = stream.dataset.n_rows, self.settings.max_passes
        first = LLSVM(replace(self.settings, solver="llsvm"), self.class_weight, self.threads)
        first.allowance = ROUND * newton * n_rows
        before, converged = 0, False  # work, when the round began
        reports = cast(Generator[Report, None, None], first.solve(stream))
        for report in reports:
            moving = report.survivors if report.kind == "pass" and report.passes > 1 else None
            why = enough(newton, n_rows, first.work, first.work - before, report.passes, moving)
            if report.cause == STALLED:
                why = (
                    why or f"after {report.passes} passes of coordinate descent the gap hardly fell any more"
                )
            may_change = stream.in_one_block or not self.choice.at_hand
            converged |= report.converged
            if converged or not may_change or (most and report.passes >= most):
                why = ""
            if why:
                report.cause, report.note = "", f"going on with smsvm: {why}"
            yield report
            if why:
                break
            if report.kind == "pass":
                before = first.work
        else:
            if converged:
                spent = f"{first.updates / n_rows:.0f} updates a row were enough"
                self.choice = replace(self.choice, why=f"{spent}; {self.choice.why}")
            return
        reports.close()
        self.choice = Choice("smsvm", why)
        assert report.certificate is not None
        assert report.coef is not None
        start = Start(report.coef, report.certificate.primal, tuple(first.dual), report.passes)
        del first, reports  # and all they hold
        stream.reset()
        yield from self._newton(stream, start)

    def _newton(self, stream: Stream, start: Start) -> Iterator[Report]:
        from llsvm.solvers.smsvm.solver import SmSVM

        second = SmSVM(replace(self.settings, solver="smsvm"), self.class_weight, self.threads)
        yield from second.solve(stream, start)
