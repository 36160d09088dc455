"""Worker: which method works on a subproblem, and how long: pairs of rows at first, Newton's method where that is
cheaper, conjugate gradients for least squares. Prices decide, counted and not clocked (tuning.py)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

import numpy as np

from llsvm.process.work import count_products, count_updates
from llsvm.solvers.kernel_machine.objective import not_definite
from llsvm.solvers.optim.rounding import ROUNDING
from llsvm.solvers.saved_numbers import SavedNumbers
from llsvm.solvers.smo.conjugate import KernelConjugateGradients
from llsvm.solvers.smo.kernels import INDEFINITE, pair_steps, single_steps
from llsvm.solvers.smo.newton import KernelMultipliers, NewtonWork, newton_price
from llsvm.solvers.smo.subproblem import WorkingSetProblem
from llsvm.solvers.smo.tuning import SMOTuning
from llsvm.solvers.state import Value
from llsvm.stream.progress import Progress

_LOOK_STEPS = 5  # of conjugate gradients, between looks at the gap


@dataclass(frozen=True, slots=True)
class WorkDone:
    """solved: the subproblem was, when work on it ended. steps: of pairs, single rows and conjugate gradients.
    ns: that these took. by_newton: Newton's method has been changed to. no_newton: it does not get on."""

    solved: bool = False
    steps: int = 0
    ns: float = 0.0
    by_newton: bool = False
    no_newton: bool = False


class Worker:
    """On one problem, from pass to pass. done: so far, but for Newton's method. newton: its steps and σ."""

    def __init__(self, tuning: SMOTuning, progress: Progress) -> None:
        self.done, self.newton = WorkDone(), NewtonWork()
        self._tuning, self._progress = tuning, progress

    def run(
        self,
        sub: WorkingSetProblem,
        gradients: KernelConjugateGradients | None,
        allowed: float,
        most_rows: int,
        budget: float,
    ) -> None:
        """Until the gap is ``allowed`` times the primal, or about ``budget`` ns are spent.

        gradients: for least squares on all rows. most_rows: of a system that there is room for.
        """
        until = self._ns + budget
        missing = sub.missing(sub.beta, sub.f, allowed)
        while missing > 1.0 and self._ns < until and not self._progress.out_of_time:
            if self.done.by_newton and not self.done.no_newton:
                multipliers = KernelMultipliers(sub, most_rows, self._tuning, self._progress, self.newton)
                no_newton = not multipliers.run(allowed, until - self._ns)
                self.done, self.newton = replace(self.done, no_newton=no_newton), multipliers.work
                missing = sub.missing(sub.beta, sub.f, allowed)
                continue
            moves = self._pairs(sub) if gradients is None else self._conjugate(sub, gradients)
            missing = sub.missing(sub.beta, sub.f, allowed)
            if missing > 1.0:
                self.done = replace(self.done, by_newton=self._newton_is_cheaper(sub, most_rows))
                if not moves and (not self.done.by_newton or self.done.no_newton):
                    break
        self.done = replace(self.done, solved=missing <= 1.0)

    @property
    def _ns(self) -> float:
        """All that has been spent."""
        return self.done.ns + self.newton.ns

    def _count(self, steps: int, ns: float) -> None:
        self.done = replace(self.done, steps=self.done.steps + steps, ns=self.done.ns + ns)

    def _newton_is_cheaper(self, sub: WorkingSetProblem, most_rows: int) -> bool:
        """Has other work cost as much as Newton's method is expected to?"""
        free = int(np.count_nonzero(sub.free))
        if free > most_rows or self.done.no_newton:
            return False
        steps = 1.0 if math.isinf(sub.loss.lower) else self._tuning.newton_steps
        return self.done.ns > steps * newton_price(free, len(sub), self._tuning)

    def _pairs(self, sub: WorkingSetProblem) -> bool:
        """Some steps of pairs, or of single rows; False where none was to be made."""
        n, gradient = len(sub), sub.gradient
        steps = max(1, int(self._tuning.steps_between * n))
        beta, work = sub.beta.copy(), np.empty((3, n))
        enough = ROUNDING * float(np.abs(gradient).max(initial=0.0))
        make = pair_steps if sub.free_intercept else single_steps
        fixed = (sub.K, sub.diagonal, sub.lower, sub.upper)
        made = make(*fixed, beta, gradient, *work, steps, enough)
        if made == INDEFINITE:
            raise not_definite()
        sub.take(beta, sub.sign - gradient - sub.ridge * beta)
        self._count(made, self._tuning.step_price * n * made)
        count_updates(made, n * made, True)
        return bool(made)

    def _conjugate(self, sub: WorkingSetProblem, gradients: KernelConjugateGradients) -> bool:
        """Some steps of conjugate gradients; False where nothing is left to gain."""
        for _ in range(_LOOK_STEPS):
            gradient = sub.gradient
            gradients.turn(gradient)
            count_products(len(sub), len(sub) ** 2, True)
            image = np.asarray(sub.K @ gradients.direction)
            step = gradients.step(gradient, image)
            if step == 0:
                return False
            sub.take(sub.beta + step * gradients.direction, sub.f + step * image)
            self._count(1, float(len(sub)) ** 2)
        return True

    # -- state ------------------------------------------------------------------------------------------

    def numbers(self) -> dict[str, Value]:
        return {"done": asdict(self.done), "newton": asdict(self.newton)}

    def restore(self, saved: SavedNumbers) -> None:
        """Take up ``numbers``."""
        self.done = saved.part("done").into(self.done)
        self.newton = saved.part("newton").into(self.newton)
