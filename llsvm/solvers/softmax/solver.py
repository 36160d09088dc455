"""Multinomial logistic regression (softmax) by Newton's method, out of core.

Primal:  P(W) = ½ Σ_m ‖w_m‖² + Σ_i C_i (log Σ_m e^{w_m·x_i} − w_{y_i}·x_i), the constant feature ``bias`` part of x.
Dual:    D(p) = Σ_i C_i H(p_i) − ½ ‖Σ_i C_i x_i (1_{y_i} − p_i)ᵀ‖², each p_i in the simplex, H(p) = −Σ_m p_m log p_m
         (Yu, Huang & Lin 2011, eq. 7 and 64, in units of C_i).
One problem, whatever the number of classes. Stop when P − D ≤ tol · P, both over all rows.

With ``intercept`` the constant feature's weights are not penalised, and Σ_i C_i (1_{y_i} − p_i) must be 0:
intercept.py mixes p with one distribution until it is.

A pass measures P at a trial W, with its gradient and its curvatures. The p_i there are feasible: with them, P − D
is ½ ‖∇P‖². If P has fallen enough (Armijo), Newton's step from there gives the next trial, else the step is halved.
The step is that of the whole Hessian, summed in the pass itself, if weights are few; else of conjugate gradients
as accurate as pays (truncated Newton; Lin, Weng & Keerthi 2008), preconditioned with the Hessian's diagonal, or,
where columns are few, with the Hessian of a sample of the rows (sub-sampled Newton: Byrd, Chin, Neveitt & Nocedal
2011), see preconditioner.py. A product with the Hessian is a pass over the rows, and counts as one unless they are
in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.costs import RowCosts
from llsvm.objective.joint_loss import joint_loss
from llsvm.process.threads import Threads
from llsvm.settings.settings import Settings
from llsvm.solvers.report import Report
from llsvm.solvers.softmax.layout import layout
from llsvm.solvers.softmax.passes import Passes
from llsvm.solvers.softmax.run import SoftmaxRun
from llsvm.solvers.softmax.tuning import DEFAULT, SoftmaxTuning
from llsvm.solvers.state import AtWeights, Shares, SolverState, Sums, data_of, objective_of
from llsvm.stream.stream import Stream


class Softmax:
    """See the file's head. ``solve`` yields a Report after each pass."""

    def __init__(
        self,
        settings: Settings,
        class_weight: NDArray[np.float64],
        threads: int = 1,
        tuning: SoftmaxTuning = DEFAULT,
    ) -> None:
        """class_weight: (n_classes,) factors of C."""
        self.settings = settings
        self.threads = threads
        self.tuning = tuning
        self._costs = RowCosts.of_classes(settings.C, class_weight)
        self._objective = objective_of(settings, class_weight)
        self._saved: SolverState | None = None
        self._run: SoftmaxRun | None = None

    def needs(self, memory: MemoryLeft) -> Needs:
        return layout(self.threads, memory, self.tuning, self.settings.intercept).needs

    def solve(self, stream: Stream) -> Iterator[Report]:
        settings, dataset = self.settings, stream.dataset
        saved, self._saved = self._saved, None
        if saved is not None:
            saved.require("softmax", data_of(dataset))
        plan = layout(self.threads, stream.memory_left, self.tuning, settings.intercept)
        stream.prepare(plan.needs)
        loss = joint_loss("softmax", len(dataset.classes))
        bound = stream.rounding_bound(
            loss, self._costs.by_class, settings.constant, free_bias=settings.intercept
        )
        with Threads(self.threads, stream.progress.stop) as threads:
            passes = Passes(stream, self._costs, threads, settings.constant)
            self._run = SoftmaxRun(stream, passes, settings, bound, plan, self.tuning, saved)
            del saved  # which may be large
            yield from self._run.reports()

    def begin_at(self, shares: Shares, sums: Sums | None = None) -> bool:
        """False: it works on weights."""
        return False

    def state(self) -> SolverState:
        """See llsvm.solvers.base."""
        assert self._run is not None, "there is a state after the first report"
        return self._run.state(self._objective)

    def dual_point(self) -> AtWeights | None:
        """See llsvm.solvers.base."""
        return AtWeights() if self._run is not None and self._run.dual_is_here else None

    def restore(self, state: SolverState) -> None:
        """See llsvm.solvers.base. The data are looked at when ``solve`` has them."""
        state.require("softmax", self._objective)
        self._saved = state
