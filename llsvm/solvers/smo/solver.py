"""SMO: kernel machines in their dual, by working sets, then by Newton's method on the free rows.

    min over β, b of  ½ βᵀKβ + Σ c_i loss(y_i ((Kβ)_i + b))

    max over β of     tᵀβ − ½ βᵀ(K + D) β,  α = y β within its bounds, Σ β = 0 where b is not penalised

Loss: hinge (D = 0), squared hinge, least squares (D = 1/(2c)). Sequential minimal optimisation (Platt 1998) with
the second-order working sets of Fan, Chen and Lin 2005 finds which rows are at their bounds, and where that is most
of the work solves the problem. Where C is large the free rows remain, with an ill-conditioned K: when the steps
have cost as much as Newton's method would, by counted prices, the augmented Lagrangian method takes over, whose
systems are those of the free rows (newton.py). Least squares have no bounds: conjugate gradients, or one system.

A pass is a reading of K. Where K is in memory, all rows are worked on, and the pass measures the certificate on the
very β that are handed back. Where it is not, a pass begins with another reading for K of a working set of each
problem, the rows nearest to moving (Joachims 1998), which is solved in memory; least squares make a step of
conjugate gradients. What 64-bit sums may have lost counts as gap (KernelObjective). Stop when gap ≤ tol · primal.
"""

from __future__ import annotations

import math

from llsvm.solvers.kernel_machine.problem import ProblemRows
from llsvm.solvers.kernel_machine.run import KernelRun, KernelSolver
from llsvm.solvers.optim.lapack import one_blas_thread
from llsvm.solvers.smo.problem import SMOProblem
from llsvm.solvers.state import SolverState


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
