"""One binary problem of a kernel machine. Points come in pairs: β and f = Kβ, both (n,)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import PLQLoss
from llsvm.settings.settings import Settings
from llsvm.solvers.kernel_machine.intercept import Intercept
from llsvm.solvers.kernel_machine.objective import KernelObjective
from llsvm.solvers.kernel_machine.rows import ProblemRows
from llsvm.solvers.kernel_machine.run import rounding_numbers, saved_roundings
from llsvm.solvers.kernel_machine.smoothing import SmoothedLoss
from llsvm.solvers.nesvm.best_dual import BestDual
from llsvm.solvers.nesvm.tuning import KernelTuning
from llsvm.solvers.saved_numbers import SavedNumbers
from llsvm.solvers.state import Value
from llsvm.solvers.state_arrays import ProblemArrays

Vector = NDArray[np.float64]

_TRACES = 1e-9  # of the largest |β|: a row below is no support vector
_PROMISE = 1e-12  # of F: rounding of what a step was to gain


class KernelProblem:
    """A problem, from pass to pass.

    rows: (n,) numbers of those that take part.
    best_beta, best_b: (n,) and the intercept: the solution that is handed back.
    primal, dual, roundings, dual_beta: see MachineProblem.
    converged: their gap is within the tolerance.
    loss: smoothed with the μ of now.
    L: the Lipschitz constant searched for.
    """

    def __init__(
        self,
        settings: Settings,
        tuning: KernelTuning,
        loss: PLQLoss,
        part: ProblemRows,
        arrays: ProblemArrays,
    ) -> None:
        self.settings = settings
        self.tuning = tuning
        self.rows, self._sign, self._cost, sizes = part
        self.loss = SmoothedLoss(loss, settings.mu or tuning.mu)
        self._intercept = Intercept(settings.intercept, self.loss, self._sign, self._cost)
        self._objective = KernelObjective(loss, settings.intercept, self._sign, self._cost, sizes)
        self.L = 2.0  # the search costs no pass
        # certified
        nothing = np.zeros(len(self.rows))
        self.best_beta, self.dual_beta = arrays.vector("best beta"), arrays.vector("dual beta")
        self.best_b = self._intercept.exact(nothing)
        self.primal = self._objective.primal(nothing, nothing, self.best_b)
        self.dual = 0.0  # of α = 0
        self.roundings = (0.0, 0.0)
        self.converged = False
        self._gap, self._since = np.inf, 0  # as last measured, and how many passes ago
        self._offered: list[Vector] = []  # β to be measured, then α y; within a pass
        # the best so far, as far as is known without measuring
        self._best_dual = BestDual(arrays, kernel=True)
        self._beta, self._estimate = arrays.vector("beta"), np.inf
        self._share = tuning.prune_share
        self._settled = False  # solved, as far as is known
        # Nesterov's sequences
        self._alpha = arrays.vector("alpha")  # at w
        self._w, self._f_w, self._b_w = arrays.vector("w"), arrays.vector("f of w"), 0.0
        self._y, self._f_y = arrays.vector("y"), arrays.vector("f of y")
        self._t = 1.0
        self._has_momentum = False

    @property
    def ended(self) -> bool:
        return self.converged

    # -- passes -----------------------------------------------------------------------------------------

    def wanted(self, last: bool) -> list[Vector]:
        """What K must be multiplied with, each (n,): α y at w; or, where that does not matter any more, and now and
        then, what is to be measured. last: there is no other pass."""
        gap, tuning = self._estimate - self._best_dual.value, self.tuning
        fallen, waited = gap <= tuning.certify_at * self._gap, self._since >= tuning.max_passes_between
        self._offered = []
        if (self._settled or last or fallen or waited) and np.isfinite(self._estimate):
            self._offered.append(_without_traces(self._beta))
            if self._settled or last:
                self._offered.append(_without_traces(self._pruned()))
            feasible = self._objective.feasible(self._best_dual.v * self._sign)
            self._offered.append(feasible * self._sign)
        return self._offered if self._settled else [self._direction(), *self._offered]

    def take(self, images: list[Vector]) -> None:
        """Take in the products with K, each (n,), of what was wanted."""
        self._since += 1
        if self._offered:
            self._certify(images[-len(self._offered) :])
        if len(images) > len(self._offered) and not self.converged:
            self._advance_from(images[0])

    def _certify(self, images: list[Vector]) -> None:
        """Measure what was offered; of solutions that are good enough, the last has the fewest support vectors."""
        v, image = self._offered[-1], images[-1]
        tol, first = self.settings.tol, np.inf
        more, less = self.roundings
        dual, lost = self._objective.measured_dual(v, image, self.best_b)
        if dual > self.dual:
            self.dual_beta[:], self.dual, less = v, dual, lost
        solutions = list(zip(self._offered[:-1], images, strict=False))
        intercepts = [self._intercept.exact(f) for _, f in solutions]
        for number, ((beta, f), b) in enumerate(zip(solutions, intercepts, strict=True)):
            primal, lost = self._objective.measured_primal(beta, f, b)
            first = primal + lost if number == 0 else first
            self._objective.check_symmetry(beta, f, v, image)
            if primal + lost < self.primal + more or primal + lost - self.dual <= tol * primal:
                self.best_beta[:], self.best_b, self.primal, more = beta, b, primal, lost
        self.roundings = more, less
        self._gap, self._since = self.primal + more - self.dual, 0
        self.converged = bool(self._gap <= tol * self.primal)
        if self._settled and not self.converged:
            # what the steps went by was not so: they go on from what has been measured, to a smaller gap
            self._settled = False
            self._share *= self.tuning.certify_at
            self._estimate = first
            self._w[:] = self._y[:] = self._offered[0]
            self._f_w[:] = self._f_y[:] = images[0]
            self._has_momentum, self._t = False, 1.0

    def _pruned(self) -> Vector:
        """The best β on the rows that have α ≠ 0 now, and on those where it is large nevertheless."""
        large = np.abs(self._beta) > self.tuning.prune_below * np.abs(self._beta).max(initial=0.0)
        return np.where((self._alpha != 0) | large, self._beta, 0.0)

    # -- steps ------------------------------------------------------------------------------------------

    def _direction(self) -> Vector:
        """α y at w, (n,)."""
        self._b_w = self._intercept.smoothed(self._f_w, self._b_w)
        self._alpha[:] = self._cost * self.loss.dual(self._sign * (self._f_w + self._b_w))
        return self._alpha * self._sign

    def _advance_from(self, image: Vector) -> None:
        """Take in K α y, (n,), and move on."""
        beta, f = self._w, self._f_w
        v = self._alpha * self._sign
        margin = self._sign * (f + self._b_w)
        F = 0.5 * float(beta @ f) + float(self._cost @ self.loss.value(margin))
        self._offer(beta, f, self._b_w)
        self._offer(v, image, self._intercept.smoothed(image, self._b_w))
        self._best_dual.add(self._objective.linear_part(self._alpha), v, image)
        slope, slope_f = beta - v, f - image
        smoothing_gap = 0.0
        if not self.loss.smooth:
            exact = self._cost @ self.loss.loss.value(margin)
            smoothing_gap = float(exact - self._alpha @ (1.0 - margin))
        square = float(slope @ slope_f)
        self._step(F, slope, slope_f, square)
        self._offer(self._y, self._f_y, self._intercept.smoothed(self._f_y, self._b_w))
        allowed = self.settings.tol * self._estimate
        self._settled = bool(self._estimate - self._best_dual.value <= self._share * allowed)
        self._lower_mu(smoothing_gap, allowed, 0.5 * square)

    def _lower_mu(self, smoothing_gap: float, allowed: float, rest: float) -> None:
        """Make μ smaller if it is time to. rest: ½‖∇‖² bounds F_μ(w) − F_μ(w*), as the regulariser is strongly
        convex with constant 1 in this norm."""
        if self.loss.smooth or not self.settings.homotopy:
            return
        target = self.tuning.mu_target
        if smoothing_gap > (target + 0.1) * allowed and rest < smoothing_gap:
            aim = float(np.sqrt(target * allowed / smoothing_gap))
            self.loss.mu *= max(self.tuning.mu_factor, min(0.9, aim))

    def _step(self, F: float, slope: Vector, slope_f: Vector, square: float) -> None:
        """From w with the smallest L that keeps its promise, then momentum, unless it points uphill.

        slope, slope_f: ∇F = β − α y, and K times it. square: their product."""
        self._objective.check_definite(slope, square, F)
        self.L = 1.0 + (self.L - 1.0) * self.tuning.ease
        while True:
            y, f_y = self._w - slope / self.L, self._f_w - slope_f / self.L
            margin = self._sign * (f_y + self._intercept.smoothed(f_y, self._b_w))
            value = 0.5 * float(y @ f_y) + float(self._cost @ self.loss.value(margin))
            if not value > F - square / (2.0 * self.L) + _PROMISE * abs(F):  # nor where these are no numbers
                break
            self.L = 1.0 + (self.L - 1.0) * self.tuning.tighten
        if not self._has_momentum or slope @ (f_y - self._f_y) > 0:
            self._t = 1.0
        t = float((1.0 + np.sqrt(1.0 + 4.0 * self._t**2)) / 2.0)
        momentum = (self._t - 1.0) / t
        self._w[:], self._f_w[:] = y + momentum * (y - self._y), f_y + momentum * (f_y - self._f_y)
        self._y[:], self._f_y[:] = y, f_y
        self._has_momentum, self._t = True, t

    def _offer(self, beta: Vector, f: Vector, b: float) -> None:
        primal = self._objective.primal(beta, f, b)
        if primal < self._estimate:
            self._estimate = primal
            self._beta[:] = beta

    # -- state ------------------------------------------------------------------------------------------

    def numbers(self) -> dict[str, Value]:
        """What there is to know beside the arrays."""
        return {
            "mu": self.loss.mu,
            "L": self.L,
            "best b": self.best_b,
            "primal": self.primal,
            "dual": self.dual,
            **rounding_numbers(self.roundings),
            "converged": self.converged,
            "gap": self._gap,
            "since": self._since,
            "estimate": self._estimate,
            "share": self._share,
            "settled": self._settled,
            "b of w": self._b_w,
            "t": self._t,
            "momentum": self._has_momentum,
            "best dual": self._best_dual.numbers(),
        }

    def restore(self, saved: SavedNumbers) -> None:
        """Take up ``numbers``; the arrays are those of the state already."""
        self.loss.mu, self.L = saved.real("mu"), saved.real("L")
        self.best_b, self.primal, self.dual = saved.real("best b"), saved.real("primal"), saved.real("dual")
        self.roundings = saved_roundings(saved)
        self.converged, self._settled = saved.flag("converged"), saved.flag("settled")
        self._gap, self._since = saved.real("gap"), saved.whole("since")
        self._estimate, self._share = saved.real("estimate"), saved.real("share")
        self._b_w, self._t = saved.real("b of w"), saved.real("t")
        self._has_momentum = saved.flag("momentum")
        self._best_dual.restore(saved.part("best dual"))


def _without_traces(beta: Vector) -> Vector:
    """β without what is next to nothing: rows of it need not be saved."""
    return np.where(np.abs(beta) > _TRACES * np.abs(beta).max(initial=0.0), beta, 0.0)
