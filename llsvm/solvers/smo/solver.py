"""SMO: kernel machines in their dual, by working sets, then by Newton's method on the free rows.

    min over β, b of  ½ βᵀKβ + Σ c_i loss(y_i ((Kβ)_i + b))

    max over β of     tᵀβ − ½ βᵀ(K + D) β,  α = y β within its bounds, Σ β = 0 where b is not penalised

Loss: hinge (D = 0), squared hinge, least squares (D = 1/(2c)). Sequential minimal optimisation (Platt 1998) with
the second-order working sets of Fan, Chen and Lin 2005 finds which rows are at their bounds, and where that is most
of the work solves the problem. Where C is large the free rows remain, with an ill-conditioned K: when the steps
have cost as much as Newton's method would, by the prices of work that is counted (llsvm/process/work.py), the
augmented Lagrangian method takes over, whose systems are those of the free rows (subproblem.py). Least squares have
no bounds: their steps are those of conjugate gradients, preconditioned with the diagonal and projected onto Σ β = 0
where b is free (Gould, Hribar, Nocedal 2001, algorithm 2.1), then Newton's method is a single system.

A pass is a reading of K. Where K is in memory, all rows are worked on, and the pass measures the certificate on the
very β that are handed back. Where it is not, a pass begins with another reading for K of a working set of each
problem, the rows nearest to moving (Joachims 1998), which is solved in memory; least squares make a step of
conjugate gradients. What 64-bit sums may have lost counts as gap (KernelObjective). Stop when gap ≤ tol · primal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import PLQLoss
from llsvm.process.work import Work, count_products, count_updates
from llsvm.settings.settings import Settings
from llsvm.solvers.kernel_machine.matrix import not_definite
from llsvm.solvers.kernel_machine.problem import MachineProblem, MachineProgress, ProblemRows
from llsvm.solvers.kernel_machine.run import KernelRun, KernelSolver
from llsvm.solvers.optim.conjugate_gradients import ConjugateGradients
from llsvm.solvers.optim.lapack import one_blas_thread
from llsvm.solvers.optim.line_search import BEYOND_ROUNDING, ROUNDING
from llsvm.solvers.optim.newton_system import NEWTON_STEPS
from llsvm.solvers.smo.kernels import INDEFINITE, pair_steps, single_steps
from llsvm.solvers.smo.subproblem import NoRoom, WorkingSetProblem, newton
from llsvm.solvers.state import SolverState, restored
from llsvm.stream.progress import Progress

Vector = NDArray[np.float64]

# Rounds of steps in a pass, each moving as many rows as there are, or steps of Newton's method, at most: with
# fewer, large C takes more certificates, each a product with K; with more, progress is reported later.
PASS_ROUNDS = 64


@dataclass(frozen=True, slots=True)
class SMOProgress(MachineProgress):
    """How far SMO is; arrays are (n,) and never changed: a step makes others.

    beta, f: feasible, and Kβ as the last pass has measured it.
    steps: of pairs, single rows and conjugate gradients.
    seconds: of processor, as counted, that these took.
    newton_steps: of Newton's method, once it has taken over.
    no_room: its systems are too large.
    """

    beta: Vector
    f: Vector
    steps: int = 0
    seconds: float = 0.0
    newton_steps: int = 0
    no_room: bool = False


class SMOProblem(MachineProblem):
    """Binary problem of a kernel machine in its dual variables, see the file's head."""

    at: SMOProgress

    def __init__(
        self,
        settings: Settings,
        loss: PLQLoss,
        part: ProblemRows,
        progress: Progress,
        name: str,
        saved: SolverState | None,
    ) -> None:
        super().__init__(settings, loss, part)
        zero = np.zeros(len(self.rows))
        start = SMOProgress(self._nothing_certified(), beta=zero, f=zero)
        self.at = start if saved is None else restored(name, saved, start)
        self._progress = progress
        self._solved = False  # all rows have been worked on, to the end
        self._system = self._new_system() if math.isinf(loss.lower) else None
        if saved is not None and self._system is not None:
            self._system.restore(name, saved)

    # -- a pass -----------------------------------------------------------------------------------------

    def working_set(self, size: int) -> NDArray[np.intp]:
        """Positions of the rows to work on, ascending: half of them those that violate their optimality conditions
        most, as many in either direction; then those that are free, then others, the nearest to moving first."""
        n, of = len(self.rows), self._objective
        if size >= n:
            return np.arange(n)
        g = of.gradient(self.at.beta, self.at.f) - self.at.certified.b
        ascent = np.where(self.at.beta < of.upper, g, -np.inf)
        descent = np.where(self.at.beta > of.lower, -g, -np.inf)
        taken = np.zeros(n, bool)
        for gain in (ascent, descent):
            taken[np.argsort(-gain, kind="stable")[: size // 4]] = True  # a quarter each way: half in all
        order = np.argsort(-np.maximum(ascent, descent), kind="stable")
        order = order[~taken[order]]
        free = of.free(self.at.beta)[order]
        positions = np.concatenate([np.flatnonzero(taken), order[free], order[~free]])[:size]
        return np.sort(positions)

    def work(self, K: NDArray[np.float64], working_set: NDArray[np.intp] | None, most_rows: int) -> None:
        """Work on some of the rows.

        K: (m, m) of them. working_set: (m,) their positions, None for all. most_rows: for whose system Newton's
        method has room.
        """
        W = slice(None) if working_set is None else working_set
        of, allowed = self._objective, self.settings.tol * self.at.share
        dual = of.linear_part(self.at.beta * of.sign) - 0.5 * float(self.at.beta @ self.at.f)
        sub = WorkingSetProblem(K, of.part(W), self.at.beta[W], self.at.f[W], dual, allowed)
        solved, moves, rounds = sub.is_solved(sub.beta, sub.f), True, 0
        while moves and not solved and rounds < PASS_ROUNDS and not self._progress.out_of_time:
            if self._newton_is_next(sub, most_rows):
                solved = self._newton(sub, most_rows)
                break
            moves = self._pairs(sub) if self._system is None else self._conjugate(sub)
            solved, rounds = sub.is_solved(sub.beta, sub.f), rounds + 1
        self._solved = solved and working_set is None
        beta = self.at.beta.copy()
        beta[W] = sub.beta
        self.at = replace(self.at, beta=beta)

    def _newton_is_next(self, sub: WorkingSetProblem, most_rows: int) -> bool:
        """Return whether other work has cost as much as Newton's method is expected to."""
        if self.at.no_room or self.at.newton_steps:
            return not self.at.no_room
        n, free = len(sub), int(np.count_nonzero(sub.objective.free(sub.beta)))
        a_step = Work(
            factorizations=1,
            factor_terms=free**3 // 3,
            solved_terms=2 * free * free,
            multiplied_dense_values=3 * n * free,
        )
        steps = 1 if self._system is not None else NEWTON_STEPS
        return free <= most_rows and self.at.seconds > steps * a_step.seconds

    def _newton(self, sub: WorkingSetProblem, most_rows: int) -> bool:
        """Steps of Newton's method; is the subproblem solved?"""
        try:
            steps, solved = newton(sub, most_rows, PASS_ROUNDS, self._progress)
        except NoRoom:
            self.at = replace(self.at, no_room=True)
            return False
        self.at = replace(self.at, newton_steps=self.at.newton_steps + steps)
        return solved

    def _pairs(self, sub: WorkingSetProblem) -> bool:
        """A round of steps of pairs, or of single rows; False where none was to be made."""
        n, of, beta = len(sub), sub.objective, sub.beta.copy()
        gradient, diagonal = of.gradient(beta, sub.f), sub.K.diagonal() + of.ridge
        # above 0 even where K is 0: steps divide by it
        np.maximum(diagonal, ROUNDING * float(diagonal.max(initial=1e-300)), out=diagonal)
        tolerance = ROUNDING * float(np.abs(gradient).max(initial=0.0))
        make, max_steps = (pair_steps, (n + 1) // 2) if of.free_intercept else (single_steps, n)
        up, down, score = np.empty((3, n))
        made = make(
            sub.K, diagonal, of.lower, of.upper, beta, gradient, up, down, score, max_steps, tolerance
        )
        if made == INDEFINITE:
            raise not_definite()
        sub.take(beta, of.sign - gradient - of.ridge * beta)
        count_updates(made, n * made, True)
        self._count(made, Work(updated_rows=made, updated_dense_values=n * made))
        return bool(made)

    def _count(self, steps: int, work: Work) -> None:
        at = self.at
        self.at = replace(at, steps=at.steps + steps, seconds=at.seconds + work.seconds)

    # -- conjugate gradients ----------------------------------------------------------------------------

    def _new_system(self) -> ConjugateGradients:
        """(K + D) δ + b = y − f − D β, Σ δ = 0 where b is free: what β lacks."""
        inverse, free_intercept = 1.0 / self._objective.diagonal, self._objective.free_intercept

        def precondition(residual: Vector) -> Vector:
            z = residual * inverse
            return z - inverse * (float(z.sum()) / float(inverse.sum())) if free_intercept else z

        return ConjugateGradients(self._objective.gradient(self.at.beta, self.at.f), precondition)

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
        """Return the direction of the next step where K is not in memory: its image is asked for with that of β."""
        assert self._system is not None
        return self._system.direction

    def follow(self, image: Vector) -> None:
        """Go along ``direction``; image: K times it."""
        self._objective.check_symmetry(self.at.beta, self.at.f, self.direction(), image)
        self.at = replace(self.at, beta=self.at.beta + self._change(image))

    def _change(self, image: Vector) -> Vector:
        """Return the change of β by a step. image: K times the direction, changed. Raises DataError where K is not
        definite."""
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
        beta, of = self.at.beta.copy(), self._objective
        for bound in (of.lower, of.upper):
            near = np.abs(beta - bound) <= ROUNDING * of.cost
            beta[near] = bound[near]
        balanced = of.balanced(beta, 0.0, of.free(beta))
        beta = of.feasible(beta * of.sign) * of.sign if balanced is None else balanced
        self.at = replace(self.at, beta=beta)
        return beta

    def take(self, image: Vector) -> None:
        """Take in K times ``solution()``, which comes first, and certify that."""
        beta, before = self.at.beta, self.at.certified
        self.at = replace(self.at, f=image)
        self._objective.check_definite(beta, float(beta @ image))
        b = self._objective.intercept(image)
        self.certify_dual(beta, image, b)
        self.certify_solution(beta, image, b)
        dual = self.at.certified.dual
        if not self.converged and (self._solved or dual - before.dual <= ROUNDING * abs(dual)):
            self.at = replace(self.at, failures=self.at.failures + 1)
            if self._system is not None and self._system.solution.any():  # rounding has led it astray
                self._system = self._new_system()

    def other_arrays(self, name: str) -> dict[str, Vector]:
        return {} if self._system is None else self._system.arrays(name)


class _SMORun(KernelRun[SMOProblem]):
    def _problem(self, name: str, part: ProblemRows, saved: SolverState | None) -> SMOProblem:
        return SMOProblem(self.settings, self.loss, part, self.stream.progress, name, saved)

    def _pass(self, last: bool) -> None:
        todo = [p for p in self.problems if not p.ended]
        with one_blas_thread():
            if self.matrix.in_memory:
                self.threads.map(self._work_on_all, todo)
            elif math.isinf(self.loss.lower):
                self._step(todo)
            else:
                self._work_on_sets(todo)

    def _work_on_all(self, problem: SMOProblem) -> None:
        """Solve the problem over all its rows, and measure β with the same block of K."""
        K = self.matrix.block(problem.rows)
        problem.work(K, None, self.layout.system_rows)
        problem.take(K @ problem.solution())

    def _work_on_sets(self, todo: list[SMOProblem]) -> None:
        """Work on rows whose blocks of K are in memory together; then measure all rows."""
        working_sets = [p.working_set(self.layout.set_rows) for p in todo]
        blocks = self.matrix.gather([p.rows[W] for p, W in zip(todo, working_sets, strict=True)])

        def work(number: int) -> None:
            todo[number].work(blocks[number], working_sets[number], self.layout.system_rows)

        self.threads.map(work, range(len(todo)))
        images = self._products([[p.solution()] for p in todo], todo)
        for problem, (image,) in zip(todo, images, strict=True):
            problem.take(image)

    def _step(self, todo: list[SMOProblem]) -> None:
        """Make a step of conjugate gradients, with K on disk: β is measured in the same reading."""
        directions = [p.direction() for p in todo]
        images = self._products([[p.solution(), d] for p, d in zip(todo, directions, strict=True)], todo)
        for problem, direction, (image, along) in zip(todo, directions, images, strict=True):
            problem.take(image)
            # where rounding has led it astray, it has begun anew, in another direction
            if not problem.ended and problem.direction() is direction:
                problem.follow(along)

    def _note(self) -> tuple[str, dict[str, float]]:
        steps = sum(p.at.steps for p in self.problems)
        newton = sum(p.at.newton_steps for p in self.problems)
        return f"{steps:,} steps, {newton:,} of Newton's method", {"steps": steps, "newton_steps": newton}


class SMO(KernelSolver):
    """Kernel machines by working sets, then by Newton's method, see the file's head. Its state: β of all problems,
    and what has been spent on which method."""

    name = "smo"
    run = _SMORun
    solves_blocks = True
