"""One binary problem of a kernel machine in its dual variables β = α y, from pass to pass."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import PLQLoss
from llsvm.settings.settings import Settings
from llsvm.solvers.kernel_machine.intercept import Intercept
from llsvm.solvers.kernel_machine.objective import KernelObjective
from llsvm.solvers.kernel_machine.rows import ProblemRows
from llsvm.solvers.kernel_machine.run import rounding_numbers, saved_roundings
from llsvm.solvers.kernel_machine.smoothing import SmoothedLoss
from llsvm.solvers.saved_numbers import SavedNumbers
from llsvm.solvers.smo.conjugate import ConjugateGradients
from llsvm.solvers.smo.subproblem import Subproblem, balanced, bounds
from llsvm.solvers.smo.tuning import SMOTuning
from llsvm.solvers.smo.work import Worker
from llsvm.solvers.state import Value
from llsvm.solvers.state_arrays import ProblemArrays
from llsvm.stream.progress import Progress

Vector = NDArray[np.float64]

_TRACE = 1e-12  # of c: β so near a bound is at it
_STANDS = 1e-12  # of the dual: a pass that gains no more has gained nothing
_FAILURES = 12  # certificates that fail where the problem was to be solved, or passes that gain nothing


class SMOProblem:
    """See the file's head.

    rows: (n,) numbers of those that take part.
    beta, f: (n,) feasible, and Kβ as the last pass has measured it.
    best_beta, best_b, primal, dual, roundings, dual_beta, converged: see MachineProblem.
    worker: what has been done so far, and how.
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
        self.tol, self.tuning, self.loss = settings.tol, tuning, loss
        self.rows, self._sign, self._cost, sizes = part
        self._free = settings.intercept
        self._lower, self._upper = bounds(loss, self._sign, self._cost)
        self._intercept = Intercept(self._free, SmoothedLoss(loss, 1.0), self._sign, self._cost)
        self._objective = KernelObjective(loss, self._free, self._sign, self._cost, sizes)
        self.least_squares = math.isinf(loss.lower)
        self.beta, self.f = arrays.vector("beta"), arrays.vector("f")
        self.best_beta = arrays.vector("best beta")
        self.dual_beta = arrays.vector("dual beta")
        self.best_b = self._intercept.exact(self.f)
        self.primal = self._objective.primal(self.f, self.f, self.best_b)
        self.dual = 0.0  # of α = 0
        self.roundings = (0.0, 0.0)
        self.converged = False
        self.worker = Worker(tuning, progress)
        self._share, self._failures = tuning.share, 0
        self._whole = False  # all rows have been worked on
        self._gradients: ConjugateGradients | None = None
        if self.least_squares:
            ridge = loss.ridge / self._cost
            self._ridge = ridge
            self._gradients = ConjugateGradients(
                sizes[0] ** 2 + ridge, ridge, self._free, arrays.vector("direction")
            )

    @property
    def ended(self) -> bool:
        return self.converged or self._failures >= _FAILURES

    # -- a pass -----------------------------------------------------------------------------------------

    def working_set(self, size: int) -> NDArray[np.intp]:
        """Positions of the rows to work on, ascending: half of them those that violate their optimality conditions
        most, as many in either direction; then those that are free, then others, the nearest to moving first."""
        n = len(self.rows)
        if size >= n:
            return np.arange(n)
        g = self._sign - self.f - self.loss.ridge / self._cost * self.beta - self.best_b
        ascent = np.where(self.beta < self._upper, g, -np.inf)
        descent = np.where(self.beta > self._lower, -g, -np.inf)
        taken = np.zeros(n, bool)
        for each in (ascent, descent):
            taken[np.argsort(-each, kind="stable")[: size // 4]] = True
        order = np.argsort(-np.maximum(ascent, descent), kind="stable")
        order = order[~taken[order]]
        free = ((self.beta < self._upper) & (self.beta > self._lower))[order]
        chosen = np.concatenate([np.flatnonzero(taken), order[free], order[~free]])[:size]
        return np.sort(chosen)

    def work(
        self, K: NDArray[np.float64], chosen: NDArray[np.intp] | None, most_rows: int, budget: float
    ) -> None:
        """Work on some of the rows.

        K: (m, m) of them. chosen: (m,) their positions, None for all. most_rows: for whose system Newton's method
        has room. budget: ns, about.
        """
        W = slice(None) if chosen is None else chosen
        sub = Subproblem(
            K,
            self.loss,
            self._free,
            self._sign[W],
            self._cost[W],
            self.beta[W],
            self.f[W],
            self._dual_value(),
        )
        self.worker.run(sub, self._gradients, self._share * self.tol, most_rows, budget)
        self._whole = chosen is None
        self.beta[W] = sub.beta

    def _dual_value(self) -> float:
        alpha = self.beta * self._sign
        return self._objective.linear_part(alpha) - 0.5 * float(self.beta @ self.f)

    def direction(self) -> Vector:
        """Of conjugate gradients where K is not in memory: its image is asked for with that of β."""
        assert self._gradients is not None
        self._gradients.turn(self._sign - self.f - self._ridge * self.beta)
        return self._gradients.direction

    def follow(self, image: Vector) -> None:
        """Go along it; image: K times it."""
        assert self._gradients is not None
        self._objective.check_symmetry(self.beta, self.f, self._gradients.direction, image)
        gradient = self._sign - self.f - self._ridge * self.beta
        step = self._gradients.step(gradient, image)
        self.beta += step * self._gradients.direction
        self.f += step * image

    def solution(self) -> Vector:
        """β, to be measured: as feasible as rounding allows, with rows at a bound that are as good as there."""
        beta, lower, upper = self.beta, self._lower, self._upper
        trace = _TRACE * self._cost
        beta[beta - lower <= trace] = lower[beta - lower <= trace]
        beta[upper - beta <= trace] = upper[upper - beta <= trace]
        if self._free:
            even = balanced(beta, lower, upper, 0.0, (beta > lower) & (beta < upper))
            beta[:] = self._objective.feasible(beta * self._sign) * self._sign if even is None else even
        return beta

    def take(self, image: Vector) -> None:
        """Take in K times ``solution()``, and certify it."""
        beta, objective = self.beta, self._objective
        self.f[:] = image
        before = self.dual
        objective.check_definite(beta, float(beta @ image), self.primal)
        b = self._intercept.exact(image)
        more, less = self.roundings
        dual, lost = objective.measured_dual(beta, image, b)
        if dual > self.dual:
            self.dual_beta[:], self.dual, less = beta, dual, lost
        primal, lost = objective.measured_primal(beta, image, b)
        if primal + lost < self.primal + more:
            self.best_beta[:], self.best_b, self.primal, more = beta, b, primal, lost
        self.roundings = more, less
        self.converged = bool(self.primal + more - self.dual <= self.tol * self.primal)
        if self.converged:
            return
        stands = self.dual - before <= _STANDS * abs(self.dual)
        if stands or (self._whole and self.worker.solved):
            self._share *= self.tuning.share
            self._failures += 1

    # -- state ------------------------------------------------------------------------------------------

    def numbers(self) -> dict[str, Value]:
        """What there is to know beside the arrays."""
        return {
            "best b": self.best_b,
            "primal": self.primal,
            "dual": self.dual,
            **rounding_numbers(self.roundings),
            "converged": self.converged,
            "share": self._share,
            "failures": self._failures,
            "square": self._gradients.square if self._gradients else 0.0,
            "worker": self.worker.numbers(),
        }

    def restore(self, saved: SavedNumbers) -> None:
        """Take up ``numbers``; the arrays are those of the state already."""
        self.best_b, self.primal, self.dual = saved.real("best b"), saved.real("primal"), saved.real("dual")
        self.roundings = saved_roundings(saved)
        self.converged, self._share = saved.flag("converged"), saved.real("share")
        self._failures = saved.whole("failures")
        if self._gradients is not None:
            self._gradients.square = saved.real("square")
        self.worker.restore(saved.part("worker"))
