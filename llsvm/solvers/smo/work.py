"""Worker: which method works on a subproblem, and how long: pairs of rows at first, Newton's method where that is
cheaper, conjugate gradients for least squares. Prices decide, counted and not clocked (tuning.py)."""

from __future__ import annotations

import math

import numpy as np

from llsvm.process.work import count_products, count_updates
from llsvm.solvers.kernel_machine.objective import not_definite
from llsvm.solvers.saved_numbers import SavedNumbers
from llsvm.solvers.smo.conjugate import ConjugateGradients
from llsvm.solvers.smo.kernels import INDEFINITE, pair_steps, single_steps
from llsvm.solvers.smo.newton import Multipliers, NewtonWork, newton_price
from llsvm.solvers.smo.subproblem import Subproblem
from llsvm.solvers.smo.tuning import SMOTuning
from llsvm.solvers.state import Value
from llsvm.stream.progress import Progress

_LOOK_STEPS = 5  # of conjugate gradients, between looks at the gap
_SETTLED = 1e-13  # of the largest gradient: ascents that are only rounding


class Worker:
    """On one problem, from pass to pass.

    solved: the subproblem was, when work on it ended.
    steps: of pairs, single rows and conjugate gradients, so far. newton: steps and σ.
    """

    def __init__(self, tuning: SMOTuning, progress: Progress) -> None:
        self.solved = False
        self.steps = 0
        self.newton = NewtonWork()
        self._tuning, self._progress = tuning, progress
        self._spent = 0.0  # ns, but by Newton's method
        self._by_newton = False  # he has been changed to
        self._no_newton = False  # he does not get on

    def run(
        self,
        sub: Subproblem,
        gradients: ConjugateGradients | None,
        allowed: float,
        most_rows: int,
        budget: float,
    ) -> None:
        """Until the gap is ``allowed`` times the primal, or about ``budget`` ns are spent.

        gradients: for least squares on all rows. most_rows: of a system that there is room for.
        """
        until = self._spent + self.newton.ns + budget
        missing = sub.missing(sub.beta, sub.f, allowed)
        while missing > 1.0 and self._spent + self.newton.ns < until and not self._progress.out_of_time:
            if self._by_newton and not self._no_newton:
                left = until - self._spent - self.newton.ns
                multipliers = Multipliers(sub, most_rows, self._tuning, self._progress)
                self._no_newton = not multipliers.run(self.newton, allowed, left)
                missing = sub.missing(sub.beta, sub.f, allowed)
                continue
            before, spent = missing, self._spent
            if gradients is not None:
                moves = self._conjugate(sub, gradients)
            else:
                moves = self._pairs(sub)
            missing = sub.missing(sub.beta, sub.f, allowed)
            if missing > 1.0:
                self._by_newton = self._newton_is_cheaper(
                    sub, most_rows, before, missing, self._spent - spent
                )
                if not moves and (not self._by_newton or self._no_newton):
                    break
        self.solved = missing <= 1.0

    def _newton_is_cheaper(
        self, sub: Subproblem, most_rows: int, before: float, missing: float, spent: float
    ) -> bool:
        """before, missing: times the allowed gap before and after so many ns of other work."""
        free = int(np.count_nonzero(sub.free))
        first = self._tuning.first_steps * len(sub) * self._tuning.step_price * len(sub)
        if free > most_rows or self._no_newton or self._spent < first:
            return False
        steps = 1.0 if math.isinf(sub.loss.lower) else self._tuning.newton_steps
        price = steps * newton_price(free, len(sub), self._tuning)
        fell = math.log(before / missing) if math.isfinite(before) and before > missing else 0.0
        to_come = spent * math.log(missing) / fell if fell > 0 else math.inf
        return to_come > price or self._spent > price

    def _pairs(self, sub: Subproblem) -> bool:
        """Some steps of pairs, or of single rows; False where none was to be made."""
        n, gradient = len(sub), sub.gradient
        steps = max(1, int(self._tuning.steps_between * n))
        beta, work = sub.beta.copy(), np.empty((3, n))
        enough = _SETTLED * float(np.abs(gradient).max(initial=0.0))
        make = pair_steps if sub.free_intercept else single_steps
        made = make(
            sub.K,
            sub.diagonal,
            sub.lower,
            sub.upper,
            beta,
            gradient,
            work[0],
            work[1],
            work[2],
            steps,
            enough,
        )
        if made == INDEFINITE:
            raise not_definite()
        sub.take(beta, sub.target - gradient - sub.ridge * beta)
        self.steps += made
        self._spent += self._tuning.step_price * n * made
        count_updates(made, n * made, True)
        return bool(made)

    def _conjugate(self, sub: Subproblem, gradients: ConjugateGradients) -> bool:
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
            self.steps += 1
            self._spent += float(len(sub)) ** 2
        return True

    # -- state ------------------------------------------------------------------------------------------

    def numbers(self) -> dict[str, Value]:
        return {
            "solved": self.solved,
            "steps": self.steps,
            "sigma": self.newton.sigma,
            "newton ns": self.newton.ns,
            "newton steps": self.newton.steps,
            "spent": self._spent,
            "by newton": self._by_newton,
            "no newton": self._no_newton,
        }

    def restore(self, saved: SavedNumbers) -> None:
        """Take up ``numbers``."""
        self.solved, self.steps = saved.flag("solved"), saved.whole("steps")
        sigma = saved.real("sigma") if saved.has("sigma") else None
        self.newton = NewtonWork(sigma, saved.real("newton ns"), saved.whole("newton steps"))
        self._spent = saved.real("spent")
        self._by_newton, self._no_newton = saved.flag("by newton"), saved.flag("no newton")
