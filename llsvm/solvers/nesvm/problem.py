"""One binary problem of a linear NESVM: its points, its μ and its best dual point."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import PLQLoss
from llsvm.process.trace import trace
from llsvm.settings.settings import Settings
from llsvm.solvers.nesvm import kernels as kernel
from llsvm.solvers.nesvm.dual import FIRST_MU, MU_FACTOR, SMOOTHING_SHARE, BestDual, feasible_point, lower_mu
from llsvm.solvers.nesvm.metric import Metric
from llsvm.solvers.nesvm.nesterov import PaperSteps, SearchedSteps, Steps
from llsvm.solvers.nesvm.regulariser import Regulariser
from llsvm.solvers.state import SolverState, restored
from llsvm.solvers.stopping import is_within

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LinearProgress:
    """Progress on a problem from pass to pass, all of which is in a state.

    steps: where it is.
    mu: of the smoothed loss.
    dual: the best dual point.
    F: F_μ at the last pass; is_same: F_μ is the function of the pass before.
    ended: by the stopping rule.
    """

    steps: Steps
    mu: float
    dual: BestDual
    F: float = math.inf
    is_same: bool = False
    ended: bool = False


class LinearProblem:
    """A problem, from pass to pass. at: how far it is."""

    def __init__(
        self,
        settings: Settings,
        loss: PLQLoss,
        regulariser: Regulariser,
        width: int,
        paper_L: float,
        metric: Metric,
        tol: float,
        name: str,
        saved: SolverState | None,
    ) -> None:
        """width: of the weights.
        paper_L: eqs. 48, 52 and 56 (corrected) without the regulariser, for μ = 1.
        metric: of the searched step.
        tol: relative gap, as measured, at which to stop.
        name, saved: the state to go on from, and under which name it has the problem.
        """
        self.settings, self.tol, self.metric = settings, tol, metric
        self.smooth = math.isfinite(loss.smoothness)
        self.regulariser = regulariser
        self._first_mu, self._paper_L = settings.mu or FIRST_MU, paper_L
        is_paper = settings.step == "paper"
        steps = (
            PaperSteps.begin(width, self._constant(self._first_mu))
            if is_paper
            else SearchedSteps.begin(width)
        )
        start = LinearProgress(steps, self._first_mu, BestDual.zero(width))
        self.at = start if saved is None else restored(name, saved, start)

    def _constant(self, mu: float) -> float:
        """L of the paper, eqs. 48, 52 and 56 (corrected)."""
        return self.regulariser.ridge(mu) + self._paper_L / (1.0 if self.smooth else mu)

    # -- a pass -----------------------------------------------------------------------------------------

    def measure(self, sums: Vector, grad: Vector, primal: float) -> None:
        """Take in a pass.

        sums: (N_SUMS,) of it, see kernels.py.
        grad: (1 or 2, width) Σ α y x at w, by sides if there are two.
        primal: the best that has been measured.
        """
        at = self.at
        steps, mu = at.steps, at.mu
        of_w, of_y = self.regulariser.at(steps.w, mu), self.regulariser.at(steps.y, mu)
        v = grad.sum(axis=0)
        F, F_y = float(of_w.value + sums[kernel.SMOOTHED]), float(of_y.value + sums[kernel.V_SMOOTHED])
        alpha = sums[kernel.ALPHA_PLUS] + sums[kernel.ALPHA_MINUS]
        smoothing_gap = float(sums[kernel.LOSS] - alpha + steps.w @ v) + of_w.smoothing_gap
        add = at.dual.or_shrunk if self.regulariser.l1 else at.dual.mixed_with
        dual = add(*feasible_point(sums, grad))
        if self._stops(F, primal, dual.value):
            self.at = replace(at, dual=dual, ended=True)
            return
        g = of_w.gradient - v
        if isinstance(steps, PaperSteps):
            steps = steps.advance(g, at.is_same)
        else:
            steps = steps.advance(F, g, F_y, self.regulariser.ridge(mu), at.is_same, self.metric)
        lower = self._lower_mu(steps, smoothing_gap, F, primal)
        if lower != mu and isinstance(steps, PaperSteps):
            steps = steps.warm_start(self._constant(lower))
        self.at = LinearProgress(steps, lower, dual, F, is_same=lower == mu)

    def _stops(self, F: float, primal: float, dual: float) -> bool:
        settings, at = self.settings, self.at
        if settings.stop == "change":
            last = self.smooth or not settings.homotopy or at.mu <= settings.mu_end
            return bool(last and at.is_same and abs(F - at.F) < settings.tol)
        return is_within(self.tol, primal, dual)

    # -- homotopy ---------------------------------------------------------------------------------------

    def _lower_mu(self, steps: Steps, smoothing_gap: float, F: float, primal: float) -> float:
        """Return the next μ, a smaller one if it is time to.

        steps: that come next. smoothing_gap: smoothing's part of the gap at w, as far as w is a solution.
        """
        at, change = self.at, self.settings.stop == "change"
        if self.smooth or not self.settings.homotopy:
            return at.mu
        is_paper, allowed = isinstance(steps, PaperSteps), self.settings.tol if change else self.tol * primal
        if is_paper or change:  # Algorithm 2: F_μ has settled
            ready = abs(F - at.F) < allowed
        else:
            large = smoothing_gap > SMOOTHING_SHARE * allowed
            ready = large and steps.decrement < smoothing_gap  # what the next step gains
        if not ready:
            return at.mu
        if is_paper:  # eq. 44, μ₀/(t + 1)
            mu = 1.0 / (1.0 / at.mu + 1.0 / self._first_mu)
        elif change:
            mu = max(MU_FACTOR * at.mu, self.settings.mu_end)
        else:
            mu = lower_mu(at.mu, smoothing_gap, allowed)
        trace("smoothing.lowered", mu=mu, before=at.mu)
        return mu
