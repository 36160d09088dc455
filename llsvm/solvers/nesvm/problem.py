"""One binary problem of a linear NESVM: its points, its μ and its best dual point."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import PLQLoss
from llsvm.process.trace import trace
from llsvm.settings.settings import Settings
from llsvm.solvers.nesvm import kernels as kernel
from llsvm.solvers.nesvm.best_dual import BestDual
from llsvm.solvers.nesvm.feasible import FeasiblePoints
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
        self.settings = settings
        self.tuning = tuning
        self.tol = tol
        self.smooth = math.isfinite(loss.smoothness)
        self.regulariser = regulariser
        self.dual = BestDual(arrays, self.regulariser.l1)
        self.feasible = FeasiblePoints(loss, settings.intercept, arrays)
        self.ended = False
        self._paper_L = paper_L
        self._first_mu = settings.mu or (tuning.paper_mu if settings.step == "paper" else tuning.mu)
        self.mu = self._first_mu
        self._mu_w = self._first_mu  # of the smoothed ‖w‖₁
        self._stage = 0
        self._F = np.inf
        self._same = False  # F_μ is the function of the pass before
        self.steps: Steps
        self._paper: PaperSteps | None = None
        if settings.step == "paper":
            self.steps = self._paper = PaperSteps(arrays, self._constant())
        else:
            self.steps = SearchedSteps(arrays, tuning, metric)

    def _constant(self) -> float:
        """L of the paper, eqs. 48, 52 and 56 (corrected)."""
        return self.regulariser.ridge(self._mu_w) + self._paper_L / (1.0 if self.smooth else self.mu)

    # -- a pass -----------------------------------------------------------------------------------------

    def measure(self, sums: Vector, grad: Vector, primal: float) -> None:
        """Take in a pass.

        sums: (N_SUMS,) of it, see kernels.py.
        grad: (1 or 2, width) Σ α y x at w, by sides if there are two.
        primal: the best that has been measured.
        """
        w, y = self.steps.w, self.steps.y
        of_w, of_y = self.regulariser.at(w, self._mu_w), self.regulariser.at(y, self._mu_w)
        v = grad.sum(axis=0)
        F, F_y = of_w.smoothed + sums[kernel.SMOOTHED], of_y.smoothed + sums[kernel.V_SMOOTHED]
        self.dual.add(*self.feasible.point(sums, grad))
        alpha = sums[kernel.ALPHA_PLUS] + sums[kernel.ALPHA_MINUS]
        smoothing_gap = 0.0
        if not self.smooth:
            smoothing_gap = float(sums[kernel.LOSS] - alpha + w @ v + of_w.exact - of_w.linear)
        self.ended = self._stops(F, primal)
        if self.ended:
            return
        ridge = self.regulariser.ridge(self._mu_w)
        self.steps.advance(float(F), of_w.gradient - v, float(F_y), ridge, self._same)
        self._same = not self._lower_mu(smoothing_gap, float(F), primal)
        self._F = float(F)

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
        if self._paper is not None or self.settings.stop == "change":
            allowed = self.settings.tol * (1.0 if self.settings.stop == "change" else primal)
            if not abs(F - self._F) < allowed:
                return False
            self._next_stage()
            return True
        allowed, target = self.tol * primal, self.tuning.mu_target
        if smoothing_gap <= (target + 0.1) * allowed:
            return False
        ready = self.steps.decrement < self.tuning.decrement * smoothing_gap
        if ready:
            # smoothing's part of the gap falls with the square of μ
            aim, factor = float(np.sqrt(target * allowed / smoothing_gap)), self.tuning.mu_factor
            self._set_mu(self.mu * max(factor, min(factor**0.2, aim)))
        return ready

    def _next_stage(self) -> None:
        """Algorithm 2: F_μ has settled, on to the next μ; eq. 44 with the paper's step, else by halves."""
        self._stage += 1
        if self._paper is not None:
            self._set_mu(self._first_mu / (self._stage + 1))
            self._paper.warm_start(self._constant())
        else:
            self._set_mu(max(self.tuning.mu_factor * self.mu, self.settings.mu_end))

    def _set_mu(self, mu: float) -> None:
        trace("smoothing.lowered", mu=mu, before=self.mu)
        self._mu_w *= mu / self.mu
        self.mu = mu

    # -- state ------------------------------------------------------------------------------------------

    def numbers(self) -> dict[str, Value]:
        """What there is to know beside the arrays."""
        return {
            "ended": self.ended,
            "mu": self.mu,
            "mu of weights": self._mu_w,
            "stage": self._stage,
            "F": self._F,
            "same F": self._same,
            "steps": self.steps.numbers(),
            "dual": self.dual.numbers(),
            "feasible": self.feasible.numbers(),
        }

    def restore(self, saved: SavedNumbers) -> None:
        """Take up ``numbers``; the arrays are those of the state already."""
        self.ended, self._F = saved.flag("ended"), saved.real("F")
        self.mu, self._mu_w = saved.real("mu"), saved.real("mu of weights")
        self._stage, self._same = saved.whole("stage"), saved.flag("same F")
        self.steps.restore(saved.part("steps"))
        self.dual.restore(saved.part("dual"))
        self.feasible.restore(saved.part("feasible"))
