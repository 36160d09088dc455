"""Multinomial logistic regression (softmax) by Newton's method, out of core.

Primal:  P(W) = ½ Σ_m ‖w_m‖² + Σ_i C_i (log Σ_m e^{w_m·x_i} − w_{y_i}·x_i), the constant feature ``bias`` part of x.
Dual:    D(p) = Σ_i C_i H(p_i) − ½ ‖Σ_i C_i x_i (1_{y_i} − p_i)ᵀ‖², each p_i in the simplex, H(p) = −Σ_m p_m log p_m
         (Yu, Huang & Lin 2011, eq. 7 and 64, in units of C_i).
One problem, whatever the number of classes. Stop when P − D ≤ tol · P, both over all rows.

With ``intercept`` the constant feature's weights are not penalised, and Σ_i C_i (1_{y_i} − p_i) must be 0:
intercept.py mixes p with one distribution until it is.

A pass measures P at a trial W, with its gradient and its curvatures. The p_i there are feasible: with them, P − D
is ½ ‖∇P‖². If P has not risen, Newton's step from there gives the next trial, else the step is halved.
The step is that of the whole Hessian, summed in the pass itself, if weights are few; else of conjugate gradients
as accurate as pays (truncated Newton; Lin, Weng & Keerthi 2008), preconditioned with the Hessian's diagonal, or,
where columns are few, with one matrix for all classes, the Hessian of a class if all had the mean of their
curvatures: classes' gradients sum up to 0, and so steps do. It is summed in the pass that measures. A product with
the Hessian is a pass over the rows, and counts as one unless they are in memory.
"""

from __future__ import annotations

from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.losses import joint_loss
from llsvm.process.threads import Threads
from llsvm.solvers.base import RunSolver
from llsvm.solvers.softmax.layout import Layout, layout
from llsvm.solvers.softmax.passes import Passes
from llsvm.solvers.softmax.run import SoftmaxRun
from llsvm.solvers.state import SolverState
from llsvm.stream.stream import Stream


class Softmax(RunSolver):
    """Softmax by Newton's method, see the file's head. ``solve`` yields a Report after each pass."""

    name = "softmax"

    def _layout(self, memory: MemoryLeft) -> Layout:
        return layout(self.threads, memory, self.settings.intercept)

    def needs(self, memory: MemoryLeft) -> Needs:
        return self._layout(memory).needs

    def _begin(self, stream: Stream, saved: SolverState | None, threads: Threads) -> SoftmaxRun:
        settings = self.settings
        plan = self._layout(stream.memory_left)
        stream.prepare(plan.needs)
        loss, cost = joint_loss("softmax", len(stream.dataset.classes)), self.costs.by_class
        bound = stream.rounding_bound(loss, cost, settings.constant, free_bias=settings.intercept)
        passes = Passes(stream, self.costs, threads, settings.constant, plan.curvature)
        return SoftmaxRun(passes, settings, bound, saved)
