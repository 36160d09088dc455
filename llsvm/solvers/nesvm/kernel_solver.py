"""NESVM with kernels: Nesterov's method on ½ βᵀKβ + Σ c_i loss(y_i ((Kβ)_i + b)).

Zhou, Tao, Wu 2010, end of section II-C. Loss: hinge, smoothed with u_i = median((1 − m_i)/μ, 0, 1), or, as they
are, squared hinge max(0, 1 − m)² and least squares (1 − m)². In the norm of the kernel's own space the gradient is
β − α y: a pass over K makes one product, K (α y), with which every point in sight (w^k, y^k, z^k are combinations)
knows its Kβ: backtracking costs no pass. b, if there is one, is not penalised and minimised over exactly for every
f = Kβ, so that Σ α y is nearly 0. One problem per class or pair, in the same passes. Points come in pairs: β and
f = Kβ, both (n,).

What steers the steps is not proof: f of the points in sight is carried from pass to pass, with its rounding. The
certificate is measured afresh, with products of its own in a pass that is made anyway: of the β that is handed
back, as it is saved, and of a feasible α, the best of those met, clipped to its bounds, with Σ α y = 0 as
in problem.py. D(α) = Σ α − Σ α²/(4c) of squared losses − ½ (α y)ᵀK(α y). What 64-bit sums may have lost of both
counts as gap (KernelObjective): with a large C that is what bounds it. Stop when gap ≤ tol · primal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import PLQLoss
from llsvm.settings.settings import Settings
from llsvm.solvers.kernel_machine.problem import MachineProblem, MachineProgress, ProblemRows
from llsvm.solvers.kernel_machine.run import KernelRun, KernelSolver
from llsvm.solvers.nesvm.nesterov import EASE, TIGHTEN
from llsvm.solvers.nesvm.problem import FIRST_MU, SMOOTHING_SHARE, lower_mu
from llsvm.solvers.optim.line_search import ROUNDING
from llsvm.solvers.state import SolverState, restored

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class KernelProgress(MachineProgress):
    """Iterates of Nesterov's method on one problem; arrays are (n,) and never changed: a step makes others.

    mu: of the smoothing, by the prox-function a² (eq. 5), so that μ adds to the loss's ridge; 0 where that has no
        kink.
    dual, dual_v: the best dual objective, as far as is known without measuring, and its α y.
    beta: the best β, as far as is known without measuring.
    alpha: α at w. w, f_w, y, f_y: Nesterov's sequences, and K times them. L: the Lipschitz constant searched for.
    estimate: the least primal, as far as is known without measuring. settled: solved, as far
        as is known. b: the intercept at w. t: Nesterov's, 1 without momentum.
    """

    mu: float
    dual_v: Vector
    beta: Vector
    alpha: Vector
    w: Vector
    f_w: Vector
    y: Vector
    f_y: Vector
    dual: float = 0.0
    L: float = 2.0  # the search costs no pass
    estimate: float = math.inf
    settled: bool = False
    b: float = 0.0
    t: float = 1.0


class KernelProblem(MachineProblem):
    """Binary problem of a kernel machine, solved by Nesterov's method. See the file's head."""

    at: KernelProgress

    def __init__(
        self,
        settings: Settings,
        loss: PLQLoss,
        part: ProblemRows,
        name: str,
        saved: SolverState | None,
    ) -> None:
        super().__init__(settings, loss, part)
        mu, n = 0.0 if loss.ridge > 0 else settings.mu or FIRST_MU, len(self.rows)
        best, zero = self._nothing_certified(), np.zeros(n)
        start = KernelProgress(best, mu, zero, zero, zero, zero, zero, zero, zero)
        self.at = start if saved is None else restored(name, saved, start)
        self._offered: list[Vector] = []  # β to be measured, then α y; within a pass

    @property
    def smoothed(self) -> PLQLoss:
        """The loss with the μ of now."""
        return replace(self._objective.loss, ridge=self._objective.loss.ridge + self.at.mu)

    def _intercept(self, f: Vector) -> float:
        """The best b of the smoothed loss for f."""
        return self._objective.smoothed_intercept(self.smoothed, f)

    # -- passes -----------------------------------------------------------------------------------------

    def vectors(self, last: bool) -> list[Vector]:
        """Return what K must be multiplied with, each (n,): α y at w; or, where that does not matter any more, and
        now and then, what is to be measured. last: there is no other pass."""
        gap = self.at.estimate - self.at.dual
        self._offered, ends = [], self.at.settled or last
        # where the gap seems halved: the sooner, the more columns a product has, and the earlier the news
        if (ends or gap <= 0.5 * self.at.certified.gap) and np.isfinite(self.at.estimate):
            self._offered.append(self.at.beta)
            if ends:  # the best β on the rows that have α ≠ 0 now, too
                self._offered.append(np.where(self.at.alpha != 0, self.at.beta, 0.0))
            feasible = self._objective.feasible(self.at.dual_v * self._sign)
            self._offered.append(feasible * self._sign)
        return self._offered if self.at.settled else [self._direction(), *self._offered]

    def take(self, images: list[Vector]) -> None:
        """Take in the products with K, each (n,), of what ``vectors`` has returned."""
        if self._offered:
            self._certify(images[-len(self._offered) :])
        if len(images) > len(self._offered) and not self.converged:
            self._advance_from(images[0])

    def _certify(self, images: list[Vector]) -> None:
        """Measure what was offered; of solutions that are good enough, the last has the fewest support vectors."""
        v, image = self._offered[-1], images[-1]
        self.certify_dual(v, image, self.at.certified.b)
        primals = []
        for beta, f in zip(self._offered[:-1], images, strict=False):
            self._objective.check_symmetry(beta, f, v, image)
            primals.append(self.certify_solution(beta, f, self._objective.intercept(f)))
        if self.at.settled and not self.converged:
            # what the steps went by was not so: they go on from what has been measured, to a smaller gap
            at, beta, f = self.at, self._offered[0], images[0]
            at = replace(at, settled=False, failures=at.failures + 1, estimate=primals[0], t=1.0)
            self.at = replace(at, w=beta, f_w=f, y=beta, f_y=f)

    # -- steps ------------------------------------------------------------------------------------------

    def _direction(self) -> Vector:
        """α y at w, (n,)."""
        b = self._intercept(self.at.f_w)
        alpha = -self._cost * self.smoothed.derivative(self._sign * (self.at.f_w + b))
        self.at = replace(self.at, b=b, alpha=alpha)
        return alpha * self._sign

    def _advance_from(self, image: Vector) -> None:
        """Take in K α y, (n,), and move on."""
        beta, f = self.at.w, self.at.f_w
        v = self.at.alpha * self._sign
        margin = self._sign * (f + self.at.b)
        F = 0.5 * float(beta @ f) + float(self._cost @ self.smoothed.value(margin))
        self._offer(beta, f, self.at.b)
        self._offer(v, image, self._intercept(image))
        dual = self._objective.linear_part(self.at.alpha) - 0.5 * float(v @ image)
        if dual > self.at.dual:
            self.at = replace(self.at, dual=dual, dual_v=v)
        slope, slope_f = beta - v, f - image
        smoothing_gap = 0.0
        if self.at.mu:
            exact = self._cost @ self._objective.loss.value(margin)
            smoothing_gap = float(exact - self.at.alpha @ (1.0 - margin))
        square = float(slope @ slope_f)
        self._step(F, slope, slope_f, square)
        self._offer(self.at.y, self.at.f_y, self._intercept(self.at.f_y))
        allowed = self.settings.tol * self.at.estimate
        largest_gap = max(self.at.share * allowed, ROUNDING * self.at.estimate)
        self.at = replace(self.at, settled=bool(self.at.estimate - self.at.dual <= largest_gap))
        self._lower_mu(smoothing_gap, allowed, 0.5 * square)

    def _lower_mu(self, smoothing_gap: float, allowed: float, rest: float) -> None:
        """Make μ smaller if it is time to. rest: ½‖∇‖² bounds F_μ(w) − F_μ(w*), as the regulariser is strongly
        convex with constant 1 in this norm."""
        if not self.at.mu or not self.settings.homotopy:
            return
        if smoothing_gap > SMOOTHING_SHARE * allowed and rest < smoothing_gap:
            self.at = replace(self.at, mu=lower_mu(self.at.mu, smoothing_gap, allowed))

    def _step(self, F: float, slope: Vector, slope_f: Vector, square: float) -> None:
        """From w with the smallest L that keeps its promise, then momentum, unless it points uphill.

        slope, slope_f: ∇F = β − α y, and K times it. square: their product."""
        self._objective.check_definite(slope, square)
        L = 1.0 + (self.at.L - 1.0) * EASE
        while True:
            y, f_y = self.at.w - slope / L, self.at.f_w - slope_f / L
            margin = self._sign * (f_y + self._intercept(f_y))
            value = 0.5 * float(y @ f_y) + float(self._cost @ self.smoothed.value(margin))
            # nor where these are no numbers
            if not value > F - square / (2.0 * L) + ROUNDING * abs(F):
                break
            L = 1.0 + (L - 1.0) * TIGHTEN
        before = 1.0 if slope @ (f_y - self.at.f_y) > 0 else self.at.t
        t = float((1.0 + np.sqrt(1.0 + 4.0 * before**2)) / 2.0)
        momentum = (before - 1.0) / t
        w, f_w = y + momentum * (y - self.at.y), f_y + momentum * (f_y - self.at.f_y)
        self.at = replace(self.at, w=w, f_w=f_w, y=y, f_y=f_y, L=L, t=t)

    def _offer(self, beta: Vector, f: Vector, b: float) -> None:
        primal = self._objective.primal(beta, f, b)
        if primal < self.at.estimate:
            self.at = replace(self.at, estimate=primal, beta=beta)


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
