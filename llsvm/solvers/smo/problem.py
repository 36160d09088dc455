"""One binary problem of a kernel machine in its dual variables β = α y, from pass to pass.

Steps of pairs of rows come first; where these have cost as much as Newton's method is expected to, by the prices of
work that is counted (llsvm/process/work.py), that takes over. Least squares have no bounds: their steps are those
of conjugate gradients, preconditioned with the diagonal and projected onto Σ β = 0 where b is free (Gould, Hribar,
Nocedal 2001, algorithm 2.1), then Newton's method is a single system.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import PLQLoss
from llsvm.process.work import Work, count_products, count_updates
from llsvm.settings.settings import Settings
from llsvm.solvers.kernel_machine.objective import not_definite
from llsvm.solvers.kernel_machine.problem import MachineProblem, ProblemRows
from llsvm.solvers.optim.conjugate_gradients import ConjugateGradients
from llsvm.solvers.optim.rounding import BEYOND_ROUNDING, ROUNDING
from llsvm.solvers.saved_numbers import SavedNumbers
from llsvm.solvers.smo.kernels import INDEFINITE, pair_steps, single_steps
from llsvm.solvers.smo.newton import NoRoom, newton
from llsvm.solvers.smo.subproblem import WorkingSetProblem
from llsvm.solvers.state import SolverState, Value
from llsvm.solvers.state_arrays import ProblemArrays
from llsvm.stream.progress import Progress

Vector = NDArray[np.float64]

_FAILURES = 12  # certificates that fail where the problem was to be solved, or passes that gain nothing


@dataclass(frozen=True, slots=True)
class SMOTuning:
    """What the speed of SMO hangs on.

    pass_rounds: rounds of steps in a pass, each moving as many rows as there are, or steps of Newton's method:
        fewer certificates for later news.
    newton_steps: what Newton's method is expected to take: a later change to it.
    """

    pass_rounds: int = 64
    newton_steps: int = 10


@dataclass(frozen=True, slots=True)
class WorkDone:
    """steps: of pairs, single rows and conjugate gradients. seconds: of processor, as counted, that these took.
    newton_steps: of Newton's method, once it has taken over. no_room: its systems are too large. failures: see
    ``_FAILURES``."""

    steps: int = 0
    seconds: float = 0.0
    newton_steps: int = 0
    no_room: bool = False
    failures: int = 0


class SMOProblem(MachineProblem):
    """See the file's head.

    rows: (n,) numbers of those that take part.
    beta, f: (n,) feasible, and Kβ as the last pass has measured it.
    done: the work so far.
    """

    def __init__(
        self,
        settings: Settings,
        tuning: SMOTuning,
        loss: PLQLoss,
        part: ProblemRows,
        arrays: ProblemArrays,
        progress: Progress,
    ) -> None:
        super().__init__(settings, loss, part, arrays)
        self.beta, self.f = arrays.vector("beta"), arrays.vector("f")
        self.done = WorkDone()
        self._tuning, self._progress = tuning, progress
        self._solved = False  # all rows have been worked on, to the end
        self._system = self._new_system() if math.isinf(loss.lower) else None

    @property
    def ended(self) -> bool:
        return self.converged or self.done.failures >= _FAILURES

    # -- a pass -----------------------------------------------------------------------------------------

    def working_set(self, size: int) -> NDArray[np.intp]:
        """Positions of the rows to work on, ascending: half of them those that violate their optimality conditions
        most, as many in either direction; then those that are free, then others, the nearest to moving first."""
        n, of = len(self.rows), self._objective
        if size >= n:
            return np.arange(n)
        g = of.gradient(self.beta, self.f) - self.certified.b
        ascent = np.where(self.beta < of.upper, g, -np.inf)
        descent = np.where(self.beta > of.lower, -g, -np.inf)
        taken = np.zeros(n, bool)
        for each in (ascent, descent):
            taken[np.argsort(-each, kind="stable")[: size // 4]] = True
        order = np.argsort(-np.maximum(ascent, descent), kind="stable")
        order = order[~taken[order]]
        free = of.free(self.beta)[order]
        chosen = np.concatenate([np.flatnonzero(taken), order[free], order[~free]])[:size]
        return np.sort(chosen)

    def work(self, K: NDArray[np.float64], chosen: NDArray[np.intp] | None, most_rows: int) -> None:
        """Work on some of the rows.

        K: (m, m) of them. chosen: (m,) their positions, None for all. most_rows: for whose system Newton's method
        has room.
        """
        W = slice(None) if chosen is None else chosen
        of, allowed = self._objective, self.settings.tol * 0.5**self.done.failures
        dual = of.linear_part(self.beta * of.sign) - 0.5 * float(self.beta @ self.f)
        sub = WorkingSetProblem(K, of.part(W), self.beta[W], self.f[W], dual, allowed)
        solved, moves, rounds = sub.is_solved(sub.beta, sub.f), True, 0
        while moves and not solved and rounds < self._tuning.pass_rounds and not self._progress.out_of_time:
            if self._newton_is_next(sub, most_rows):
                solved = self._newton(sub, most_rows)
                break
            moves = self._pairs(sub) if self._system is None else self._conjugate(sub)
            solved, rounds = sub.is_solved(sub.beta, sub.f), rounds + 1
        self._solved = solved and chosen is None
        self.beta[W] = sub.beta

    def _newton_is_next(self, sub: WorkingSetProblem, most_rows: int) -> bool:
        """Has other work cost as much as Newton's method is expected to?"""
        if self.done.no_room or self.done.newton_steps:
            return not self.done.no_room
        n, free = len(sub), int(np.count_nonzero(sub.objective.free(sub.beta)))
        a_step = Work(
            factorizations=1,
            factor_terms=free**3 // 3,
            solved_terms=2 * free * free,
            multiplied_dense_values=3 * n * free,
        )
        steps = 1 if self._system is not None else self._tuning.newton_steps
        return free <= most_rows and self.done.seconds > steps * a_step.seconds

    def _newton(self, sub: WorkingSetProblem, most_rows: int) -> bool:
        """Steps of Newton's method; is the subproblem solved?"""
        try:
            steps, solved = newton(sub, most_rows, self._tuning.pass_rounds, self._progress)
        except NoRoom:
            self.done = replace(self.done, no_room=True)
            return False
        self.done = replace(self.done, newton_steps=self.done.newton_steps + steps)
        return solved

    def _pairs(self, sub: WorkingSetProblem) -> bool:
        """A round of steps of pairs, or of single rows; False where none was to be made."""
        n, of, beta = len(sub), sub.objective, sub.beta.copy()
        gradient, diagonal = of.gradient(beta, sub.f), sub.K.diagonal() + of.ridge
        np.maximum(diagonal, ROUNDING * float(diagonal.max(initial=1e-300)), out=diagonal)
        enough = ROUNDING * float(np.abs(gradient).max(initial=0.0))
        make, most = (pair_steps, (n + 1) // 2) if of.free_intercept else (single_steps, n)
        fixed = (sub.K, diagonal, of.lower, of.upper)
        made = make(*fixed, beta, gradient, *np.empty((3, n)), most, enough)
        if made == INDEFINITE:
            raise not_definite()
        sub.take(beta, of.sign - gradient - of.ridge * beta)
        count_updates(made, n * made, True)
        self._count(made, Work(updated_rows=made, updated_dense_values=n * made))
        return bool(made)

    def _count(self, steps: int, work: Work) -> None:
        done = self.done
        self.done = replace(done, steps=done.steps + steps, seconds=done.seconds + work.seconds)

    # -- conjugate gradients ----------------------------------------------------------------------------

    def _new_system(self) -> ConjugateGradients:
        """(K + D) δ + b = y − f − D β, Σ δ = 0 where b is free: what β lacks."""
        inverse, free_intercept = 1.0 / self._objective.diagonal, self._objective.free_intercept

        def precondition(residual: Vector) -> Vector:
            z = residual * inverse
            return z - inverse * (float(z.sum()) / float(inverse.sum())) if free_intercept else z

        return ConjugateGradients(self._objective.gradient(self.beta, self.f), precondition)

    def _conjugate(self, sub: WorkingSetProblem) -> bool:
        """A step with K in memory; False where nothing is left to gain."""
        assert self._system is not None
        n, of = len(sub), sub.objective
        count_products(n, n * n, True)
        change = self._change(np.asarray(sub.K @ self._system.direction))
        self._count(1, Work(multiplied_rows=n, multiplied_dense_values=n * n))
        beta = sub.beta + change
        sub.take(beta, of.sign - self._system.residual - of.ridge * beta)
        return bool(change.any())

    def direction(self) -> Vector:
        """Of the next step where K is not in memory: its image is asked for with that of β."""
        assert self._system is not None
        return self._system.direction

    def follow(self, image: Vector) -> None:
        """Go along it; image: K times it."""
        self._objective.check_symmetry(self.beta, self.f, self.direction(), image)
        self.beta += self._change(image)

    def _change(self, image: Vector) -> Vector:
        """Of β, by a step; image: K times the direction, changed. Raises DataError where K is not definite."""
        assert self._system is not None
        direction, before = self._system.direction, self._system.solution.copy()
        squares, product = direction * direction, image + self._objective.ridge * direction
        if float(direction @ product) < -BEYOND_ROUNDING * float(self._objective.diagonal @ squares):
            raise not_definite()
        self._system.advance(product)
        return self._system.solution - before

    # -- the end of a pass ------------------------------------------------------------------------------

    def solution(self) -> Vector:
        """β, to be measured: as feasible as rounding allows, with rows at a bound that are as good as there."""
        beta, of = self.beta, self._objective
        for bound in (of.lower, of.upper):
            near = np.abs(beta - bound) <= ROUNDING * of.cost
            beta[near] = bound[near]
        even = of.balanced(beta, 0.0, of.free(beta))
        beta[:] = of.feasible(beta * of.sign) * of.sign if even is None else even
        return beta

    def take(self, image: Vector) -> None:
        """Take in K times ``solution()``, and certify it."""
        beta, before = self.beta, self.certified
        self.f[:] = image
        self._objective.check_definite(beta, float(beta @ image))
        b = self._objective.intercept(image)
        self.certify_dual(beta, image, b)
        self.certify_solution(beta, image, b)
        dual = self.certified.dual
        if not self.converged and (self._solved or dual - before.dual <= ROUNDING * abs(dual)):
            self.done = replace(self.done, failures=self.done.failures + 1)
            if self._system is not None and self._system.solution.any():  # rounding has led it astray
                self._system = self._new_system()

    # -- state ------------------------------------------------------------------------------------------

    def numbers(self) -> dict[str, Value]:
        return super().numbers() | {"done": asdict(self.done)}

    def arrays(self, name: str) -> dict[str, Vector]:
        return {} if self._system is None else self._system.arrays(name)

    def restore(self, saved: SavedNumbers, state: SolverState, name: str) -> None:
        super().restore(saved, state, name)
        self.done = saved.part("done").into(self.done)
        if self._system is not None:
            self._system.restore(name, state)
