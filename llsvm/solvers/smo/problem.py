"""One binary problem of a kernel machine in its dual variables β = α y, from pass to pass."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import PLQLoss
from llsvm.settings.settings import Settings
from llsvm.solvers.kernel_machine.problem import MachineProblem
from llsvm.solvers.kernel_machine.rows import ProblemRows
from llsvm.solvers.kernel_machine.smoothing import SmoothedLoss
from llsvm.solvers.optim.rounding import ROUNDING
from llsvm.solvers.saved_numbers import SavedNumbers
from llsvm.solvers.smo.conjugate import KernelConjugateGradients
from llsvm.solvers.smo.subproblem import WorkingSetProblem, balanced, bounds
from llsvm.solvers.smo.tuning import SMOTuning
from llsvm.solvers.smo.work import Worker
from llsvm.solvers.state import Value
from llsvm.solvers.state_arrays import ProblemArrays
from llsvm.stream.progress import Progress

Vector = NDArray[np.float64]

_FAILURES = 12  # certificates that fail where the problem was to be solved, or passes that gain nothing


class SMOProblem(MachineProblem):
    """See the file's head.

    rows: (n,) numbers of those that take part.
    beta, f: (n,) feasible, and Kβ as the last pass has measured it.
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
        super().__init__(settings, SmoothedLoss(loss, 1.0), part, arrays)
        self.tuning, self.loss, self._free = tuning, loss, settings.intercept
        self._lower, self._upper = bounds(loss, self._sign, self._cost)
        self._ridge = loss.ridge / self._cost
        self.least_squares = math.isinf(loss.lower)
        self.beta, self.f = arrays.vector("beta"), arrays.vector("f")
        self.worker = Worker(tuning, progress)
        self._share, self._failures = tuning.share, 0
        self._whole = False  # all rows have been worked on
        self._gradients: KernelConjugateGradients | None = None
        if self.least_squares:
            diagonal, direction = part.sizes[0] ** 2 + self._ridge, arrays.vector("direction")
            self._gradients = KernelConjugateGradients(diagonal, self._ridge, self._free, direction)

    @property
    def ended(self) -> bool:
        return self.certified.converged or self._failures >= _FAILURES

    # -- a pass -----------------------------------------------------------------------------------------

    def working_set(self, size: int) -> NDArray[np.intp]:
        """Positions of the rows to work on, ascending: half of them those that violate their optimality conditions
        most, as many in either direction; then those that are free, then others, the nearest to moving first."""
        n = len(self.rows)
        if size >= n:
            return np.arange(n)
        g = self._gradient - self.certified.b
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
        sub = WorkingSetProblem(
            K,
            self.loss,
            self._free,
            self._sign[W],
            self._cost[W],
            self.beta[W],
            self.f[W],
            self._dual_value(),
        )
        self.worker.run(sub, self._gradients, self._share * self.settings.tol, most_rows, budget)
        self._whole = chosen is None
        self.beta[W] = sub.beta

    def _dual_value(self) -> float:
        alpha = self.beta * self._sign
        return self._objective.linear_part(alpha) - 0.5 * float(self.beta @ self.f)

    @property
    def _gradient(self) -> Vector:
        """Of the dual objective."""
        return self._sign - self.f - self._ridge * self.beta

    def direction(self) -> Vector:
        """Of conjugate gradients where K is not in memory: its image is asked for with that of β."""
        assert self._gradients is not None
        self._gradients.turn(self._gradient)
        return self._gradients.direction

    def follow(self, image: Vector) -> None:
        """Go along it; image: K times it."""
        assert self._gradients is not None
        self._objective.check_symmetry(self.beta, self.f, self._gradients.direction, image)
        step = self._gradients.step(self._gradient, image)
        self.beta += step * self._gradients.direction
        self.f += step * image

    def solution(self) -> Vector:
        """β, to be measured: as feasible as rounding allows, with rows at a bound that are as good as there."""
        beta, lower, upper = self.beta, self._lower, self._upper
        near = ROUNDING * self._cost
        beta[beta - lower <= near] = lower[beta - lower <= near]
        beta[upper - beta <= near] = upper[upper - beta <= near]
        if self._free:
            even = balanced(beta, lower, upper, 0.0, (beta > lower) & (beta < upper))
            beta[:] = self._objective.feasible(beta * self._sign) * self._sign if even is None else even
        return beta

    def take(self, image: Vector) -> None:
        """Take in K times ``solution()``, and certify it."""
        beta, before = self.beta, self.certified
        self.f[:] = image
        self._objective.check_definite(beta, float(beta @ image), before.primal)
        b = self._intercept.exact(image)
        self.certify_dual(beta, image, b)
        self.certify_solution(beta, image, b)
        if self.certified.converged:
            return
        dual = self.certified.dual
        stands = dual - before.dual <= ROUNDING * abs(dual)
        if stands or (self._whole and self.worker.done.solved):
            self._share *= self.tuning.share_factor
            self._failures += 1

    # -- state ------------------------------------------------------------------------------------------

    def numbers(self) -> dict[str, Value]:
        return super().numbers() | {
            "share": self._share,
            "failures": self._failures,
            "square": self._gradients.square if self._gradients else 0.0,
            "worker": self.worker.numbers(),
        }

    def restore(self, saved: SavedNumbers) -> None:
        super().restore(saved)
        self._share, self._failures = saved.real("share"), saved.whole("failures")
        if self._gradients is not None:
            self._gradients = replace(self._gradients, square=saved.real("square"))
        self.worker.restore(saved.part("worker"))
