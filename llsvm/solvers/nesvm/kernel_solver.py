"""NESVM with kernels: Nesterov's method on ½ βᵀKβ + Σ c_i loss(y_i ((Kβ)_i + b)).

Zhou, Tao, Wu 2010, end of section II-C. Loss: hinge, smoothed with u_i = median((1 − m_i)/μ, 0, 1), or, as they
are, squared hinge max(0, 1 − m)² and least squares (1 − m)². In the norm of the kernel's own space the gradient is
β − α y: a pass over K makes one product, K (α y), with which every point in sight (w^k, y^k, z^k are combinations)
knows its Kβ: backtracking costs no pass. b, if there is one, is not penalised and minimised over exactly for every
f = Kβ, so that Σ α y is nearly 0. One problem per class or pair (kernel_problem.py), in the same
passes.

What steers the steps is not proof: f of the points in sight is carried from pass to pass, with its rounding. The
certificate is measured afresh, with products of its own in a pass that is made anyway: of the β that is handed
back, as it is saved, and of a feasible α, the best of those met, clipped to its bounds, with Σ α y = 0 as
in dual.py. D(α) = Σ α − Σ α²/(4c) of squared losses − ½ (α y)ᵀK(α y). What 64-bit sums may have lost of both
counts as gap (KernelObjective): with a large C that is what bounds it. Stop when gap ≤ tol · primal.
"""

from __future__ import annotations

from llsvm.solvers.kernel_machine.problem import ProblemRows
from llsvm.solvers.kernel_machine.run import KernelRun, KernelSolver
from llsvm.solvers.nesvm.kernel_problem import KernelProblem
from llsvm.solvers.state import SolverState


class _KernelRun(KernelRun[KernelProblem]):
    def _problem(self, name: str, part: ProblemRows, saved: SolverState | None) -> KernelProblem:
        return KernelProblem(self.settings, self.loss, part, name, saved)

    def _pass(self, last: bool) -> None:
        """One product with K for all that the problems want to know."""
        todo = [p for p in self.problems if not p.ended]
        images = self._products([p.vectors(last) for p in todo], todo)
        for problem, of_problem in zip(todo, images, strict=True):
            problem.take(of_problem)

    def _note(self) -> tuple[str, dict[str, float]]:
        L, mu = max(p.at.L for p in self.problems), max(p.at.mu for p in self.problems)
        return f"step searched: L = {L:.4g}, mu = {mu:.3g}", {"L": L, "mu": mu}


class KernelNESVM(KernelSolver):
    """NESVM with kernels, see the file's head. Its state: the iterates, momentum and μ of all problems, their dual
    points and best solutions; the kernel matrix is computed anew."""

    name = "nesvm"
    run = _KernelRun
    solves_blocks = False
