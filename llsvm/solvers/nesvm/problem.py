"""One binary problem of a linear NESVM: its points, its μ and its best dual point."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import PLQLoss
from llsvm.process.trace import trace
from llsvm.settings.settings import Settings
from llsvm.solvers.nesvm import kernels as kernel
from llsvm.solvers.nesvm.dual import BestDual, feasible_point, lower_mu
from llsvm.solvers.nesvm.metric import Metric
from llsvm.solvers.nesvm.nesterov import PaperSteps, SearchedSteps, Steps
from llsvm.solvers.nesvm.regulariser import Regulariser
from llsvm.solvers.nesvm.tuning import NESVMTuning
from llsvm.solvers.saved_numbers import SavedNumbers
from llsvm.solvers.state import Value
from llsvm.solvers.state_arrays import ProblemArrays

Vector = NDArray[np.float64]


class LinearProblem:
    """A problem, from pass to pass.

    steps: where it is.
    mu: of the smoothed loss.
    dual: the best dual point.
    ended: by the stopping rule.
    """

    def __init__(
        self,
        settings: Settings,
        tuning: NESVMTuning,
        loss: PLQLoss,
        regulariser: Regulariser,
        paper_L: float,
        metric: Metric,
        arrays: ProblemArrays,
        tol: float,
    ) -> None:
        """paper_L: eqs. 48, 52 and 56 (corrected) without the regulariser, for μ = 1.
        metric: of the searched step.
        arrays: its vectors are as long as the weights, (width,).
        tol: relative gap, as measured, at which to stop.
        """
        self.settings, self.tuning, self.tol = settings, tuning, tol
        self.smooth = math.isfinite(loss.smoothness)
        self.regulariser = regulariser
        self.dual = BestDual(arrays, regulariser.l1)
        self.ended = False
        self.mu = self._first_mu = settings.mu or tuning.mu
        self._paper_L = paper_L
        self._F = np.inf
        self._same = False  # F_μ is the function of the pass before
        self.steps: Steps
        if settings.step == "paper":
            self.steps = PaperSteps(arrays, self._constant())
        else:
            self.steps = SearchedSteps(arrays, tuning, metric)

    def _constant(self) -> float:
        """L of the paper, eqs. 48, 52 and 56 (corrected)."""
        return self.regulariser.ridge(self.mu) + self._paper_L / (1.0 if self.smooth else self.mu)

    # -- a pass -----------------------------------------------------------------------------------------

    def measure(self, sums: Vector, grad: Vector, primal: float) -> None:
        """Take in a pass.

        sums: (N_SUMS,) of it, see kernels.py.
        grad: (1 or 2, width) Σ α y x at w, by sides if there are two.
        primal: the best that has been measured.
        """
        w, y = self.steps.w, self.steps.y
        of_w, of_y = self.regulariser.at(w, self.mu), self.regulariser.at(y, self.mu)
        v = grad.sum(axis=0)
        F, F_y = float(of_w.value + sums[kernel.SMOOTHED]), float(of_y.value + sums[kernel.V_SMOOTHED])
        alpha = sums[kernel.ALPHA_PLUS] + sums[kernel.ALPHA_MINUS]
        smoothing_gap = float(sums[kernel.LOSS] - alpha + w @ v) + of_w.smoothing_gap
        self.dual.add(*feasible_point(sums, grad))
        self.ended = self._stops(F, primal)
        if self.ended:
            return
        self.steps.advance(F, of_w.gradient - v, F_y, self.regulariser.ridge(self.mu), self._same)
        self._same = not self._lower_mu(smoothing_gap, F, primal)
        self._F = F

    def _stops(self, F: float, primal: float) -> bool:
        if self.settings.stop == "change":
            last = self.smooth or not self.settings.homotopy or self.mu <= self.settings.mu_end
            return bool(last and self._same and abs(F - self._F) < self.settings.tol)
        return bool(primal - self.dual.value <= self.tol * primal)

    # -- homotopy ---------------------------------------------------------------------------------------

    def _lower_mu(self, smoothing_gap: float, F: float, primal: float) -> bool:
        """Make μ smaller if it is time to. smoothing_gap: smoothing's part of the gap at w, as far as w is a
        solution."""
        if self.smooth or not self.settings.homotopy:
            return False
        paper, change = isinstance(self.steps, PaperSteps), self.settings.stop == "change"
        allowed = self.settings.tol if change else self.tol * primal
        if paper or change:  # Algorithm 2: F_μ has settled
            ready = abs(F - self._F) < allowed
        else:
            large = smoothing_gap > self.tuning.smoothing_share * allowed
            ready = large and self.steps.decrement < self.tuning.decrement * smoothing_gap
        if not ready:
            return False
        if paper:  # eq. 44, μ₀/(t + 1)
            mu = 1.0 / (1.0 / self.mu + 1.0 / self._first_mu)
        elif change:
            mu = max(0.5 * self.mu, self.settings.mu_end)
        else:
            mu = lower_mu(self.mu, smoothing_gap, allowed)
        trace("smoothing.lowered", mu=mu, before=self.mu)
        self.mu = mu
        if isinstance(self.steps, PaperSteps):
            self.steps.warm_start(self._constant())
        return True

    # -- state ------------------------------------------------------------------------------------------

    def numbers(self) -> dict[str, Value]:
        """What there is to know beside the arrays."""
        return {
            "ended": self.ended,
            "mu": self.mu,
            "F": self._F,
            "same F": self._same,
            "steps": self.steps.numbers(),
            "dual": self.dual.numbers(),
        }

    def restore(self, saved: SavedNumbers) -> None:
        """Take up ``numbers``; the arrays are those of the state already."""
        self.ended, self._F = saved.flag("ended"), saved.real("F")
        self.mu, self._same = saved.real("mu"), saved.flag("same F")
        self.steps.restore(saved.part("steps"))
        self.dual.restore(saved.part("dual"))
