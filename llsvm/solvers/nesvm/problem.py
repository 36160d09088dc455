"""One binary problem of a linear NESVM: its points, its μ (Algorithm 2), and its best dual point.

Dual points are feasible points made of the α of a pass, and the best among their mixtures, without keeping their α.
α_i = −c_i φ'(m_i) is within its bounds. An unpenalised intercept asks for Σ α y = 0 too, which holds at the optimum
only: the side of y with the larger sum is scaled down to the other's, which keeps α within its bounds.

The dual of an SVM is D(α) = s − ½‖v‖² with s and v = Σ α_i y_i x_i linear in α, and mixtures of feasible points
are feasible. So (s, v) of the best point so far and of a new one suffice for the best point on the segment between
them. With l1, D = s if ‖v‖∞ ≤ 1; a point is shrunk until it is. For squared losses s holds Σ α − Σ α²/(4c), concave
in α: a mixture is worth at least the mixture of the s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import PLQLoss
from llsvm.process.trace import trace
from llsvm.settings.settings import Settings
from llsvm.solvers.nesvm import kernels as kernel
from llsvm.solvers.nesvm.nesterov import Metric, PaperSteps, Regulariser, SearchedSteps, Steps
from llsvm.solvers.state import SolverState, restored
from llsvm.solvers.stopping import is_within

Vector = NDArray[np.float64]

# The first μ: a larger one has easier first stages, and more of them; a smaller one has fewer stages, and the first
# is harder, as its problem is less smooth and begins far from its solution.
FIRST_MU = 5.0
# A stage begins at no less than this share of the last one's μ: a larger share makes more stages, each of which
# starts nearer to its solution.
MU_FACTOR = 0.5
# μ falls while smoothing makes up more than this share of the gap asked for. A larger share leaves less for the
# rest of the gap, at an easier problem.
SMOOTHING_SHARE = 0.7


def feasible_point(sums: Vector, grad: Vector) -> tuple[float, Vector]:
    """Return s (Σ α, less Σ α²/(4c) of squared losses) and v (width,) = Σ α y x of a feasible α.

    sums: (N_SUMS,) of a pass, see kernels.py.
    grad: (1 or 2, width) of that pass; 2 where the intercept is not penalised.
    """
    alpha = sums[[kernel.ALPHA_PLUS, kernel.ALPHA_MINUS]]
    minus = float(sums[kernel.ALPHA_SQUARES_MINUS])
    squares = np.array([sums[kernel.ALPHA_SQUARES] - minus, minus])
    if len(grad) == 1:
        return float(alpha.sum() - squares.sum()), grad[0].copy()
    factor = np.where(alpha > 0.0, max(float(alpha.min()), 0.0) / np.where(alpha > 0.0, alpha, 1.0), 0.0)
    v = factor @ grad
    v[-1] = 0.0
    return float(factor @ alpha - factor**2 @ squares), v


@dataclass(frozen=True, slots=True)
class BestDual:
    """The best dual point known.

    value: its dual objective.
    s: what of that is linear in α. v: (width,) Σ α y x. Neither is kept with l1.
    """

    value: float
    s: float
    v: Vector

    @classmethod
    def zero(cls, width: int) -> BestDual:
        """Return α = 0."""
        return cls(0.0, 0.0, np.zeros(width))

    def mixed_with(self, s: float, v: Vector) -> BestDual:
        """Return the best point on the way to another one; l2."""
        step = v - self.v
        slope, curvature = s - self.s - float(self.v @ step), float(step @ step)
        share = float(np.clip(slope / curvature, 0.0, 1.0)) if curvature > 0.0 else float(slope > 0.0)
        s, v = self.s + share * (s - self.s), self.v + share * step
        return BestDual(max(self.value, s - 0.5 * float(v @ v)), s, v)

    def or_shrunk(self, s: float, v: Vector) -> BestDual:
        """Return the better of this and another point, which is shrunk until it is feasible; l1."""
        return replace(self, value=max(self.value, s / max(1.0, float(np.abs(v).max(initial=0.0)))))


def lower_mu(mu: float, smoothing_gap: float, allowed: float) -> float:
    """Return the next μ of a homotopy: smoothing's part of the gap falls with its square, and is to be half of what
    is allowed; a stage begins at ``MU_FACTOR`` of the μ of the last, at least."""
    # Half is less than SMOOTHING_SHARE, so that μ need not fall again for a part that is a little larger than
    # foreseen, and as much is left to the rest of the gap. Less would make the problem harder than it has to be.
    return mu * max(MU_FACTOR, math.sqrt(0.5 * allowed / smoothing_gap))


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
