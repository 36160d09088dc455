"""SmSVM: smoothed Newton with an L1 active set (Hajewski, Oliveira & Stewart, ICDM 2018), in a handful of passes.

Primal:  P(w) = C Σ_i c_i φ(m_i) + (l2/2) ‖w‖² + l1 ‖w‖₁,  φ(m) the hinge max(0, z), z_i = 1 − m_i = 1 −
y_i w·x_i, or another loss (objective/losses.py, penalty.py);
the constant feature ``bias`` is part of x and penalised, or, as ``intercept``, not (α is then made feasible as in
Sums.balanced). One problem per class (one-vs-rest) or per pair for more than
two.
Smoothed: F_a(w) has ψ_a(z) = ½ (z + √(z² + a²)) (eq. 1.5) for max(0, z).

Algorithm 1, a pass per line: each pass is at w + s, s the step that the pass before has led to, and sums
    the true hinge loss, and with α_i = C c_i ψ'_a(z_i) a feasible dual point: the certificate;
    the gradient for all columns and the Hessian for the active ones: the next step (Algorithm 2);
    F_a(w + t s) for a grid of t: if t = 1 was a bad choice, the next pass is at the best t instead.
a is halved when the step gains little against what the smoothing costs (Algorithm 3), down to what the
tolerance needs. Three things differ from the paper, all to save passes. The Hessian weights are those of the
primal-dual Newton step (kernels.py): a may then be halved at nearly every pass. Newton, line search and
active set run on the quadratic model to its minimiser (newton.py), where the paper takes one step and
changes one weight per pass. And rows near the margin stay in memory: once a is so small that the others are as
good as straight lines, Algorithm 1 goes on with the near rows alone until their problem is solved, and then
passes over all rows again, which certifies the result or, with the same line search, corrects it.

Losses of squares are smooth, with a curvature that jumps where the square ends (a generalised Newton method,
Mangasarian 2002; Keerthi & DeCoste 2005): they have no a, the same steps and line search, α_i = −C c_i φ'(m_i) and
the dual Σ C c_i b(α_i/(C c_i)) − ..., which is as large as the primal at the optimum. Of the squared hinge, rows
far beyond the margin add nothing; those with a loss are all among the "near" ones. The logistic loss, whose b is
the entropy (Yu, Huang & Lin 2011), is smooth too, and no row of it is far. Losses of t − w·x that are straight on
both sides are two hinges.

Active set: all columns while their Hessian is small; else the weights that are not zero and, with L1, those with
|∂f/∂w_j| > ½ l1, the largest first. No Hessian is formed on wide data (more columns than rows, or than memory
has room for): with L2 Newton's steps are found by conjugate gradients, a product being a pass where the rows are
not in memory, where all of them are "near". With L1 on wide data, and of losses without straight parts on some
hundreds of columns, the method of multipliers takes over after the first pass where the rows and their copy by
column are in memory; else the active set is limited.
Where this crawls with L1, a free intercept or rows that are not all in memory (a large C, nearly separable classes,
raw columns), the method of multipliers solves the problem of the rows at hand (multipliers.py), and the pass after
that certifies the result; its working sets are not limited to the columns that a Hessian has room for.
Stop when P − D ≤ tol · P.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.losses import loss_of
from llsvm.objective.penalty import Penalty
from llsvm.objective.problems import Fold, Problems, RowCosts
from llsvm.process.threads import Threads
from llsvm.settings.settings import Settings
from llsvm.solvers.base import Report
from llsvm.solvers.smsvm.layout import Layout, layout
from llsvm.solvers.smsvm.run import NewtonRun
from llsvm.solvers.smsvm.tuning import DEFAULT, SmSVMTuning
from llsvm.solvers.state import AtWeights, Shares, ShareSums, SolverState, data_of, objective_of
from llsvm.stream.stream import Stream


class SmSVM:
    """A Solver (llsvm.solvers.base); see the file's head."""

    def __init__(
        self,
        settings: Settings,
        class_weight: NDArray[np.float64],
        threads: int = 1,
        tuning: SmSVMTuning = DEFAULT,
        leaves_out: Fold | None = None,
    ) -> None:
        """class_weight: (n_classes,) factors of C. leaves_out: a fold of the rows that takes no part, or None."""
        self.settings = settings
        self.class_weight = class_weight
        self.threads = threads
        self.tuning = tuning
        self.leaves_out = leaves_out
        self._restored: SolverState | None = None
        self._run: NewtonRun | None = None

    def layout(self, memory: MemoryLeft) -> Layout:
        """Return the layout that the solver would use with the memory left."""
        settings, dataset = self.settings, memory.dataset
        l1 = Penalty.of(settings, dataset.weight_sum).l1 > 0
        problems = Problems(dataset.n_classes, settings.multiclass == "ovo")
        k, pairs, loss = len(problems), problems.pairs, loss_of(settings)
        return layout(k, self.threads, l1, loss, memory, self.tuning, settings.intercept, pairs)

    def needs(self, memory: MemoryLeft) -> Needs:
        return self.layout(memory).needs

    def solve(self, stream: Stream) -> Iterator[Report]:
        """A Report after each full pass, and after each step on the rows near the margin."""
        self.prepare(stream)
        with self._new_threads() as threads:
            yield from self.run.passes_to_the_end(threads)

    def begin_at(self, shares: Shares, sums: ShareSums | None = None) -> bool:
        """False: it works on weights."""
        return False

    def state(self) -> SolverState:
        """Views of weights and a few numbers: a pass, or epochs on the rows near the margin, are over, and where
        the next pass is to be is known."""
        run = self.run
        of = objective_of(self.settings, self.class_weight) | data_of(run.stream.dataset)
        arrays, numbers = run.saved()
        return SolverState("smsvm", run.passes, of, arrays, numbers=numbers)

    def dual_point(self) -> AtWeights | None:
        """Return the dual point at the best weights, as ``Solver.dual_point`` does."""
        smoothing = self.run.dual_smoothing()
        return None if smoothing is None else AtWeights(smoothing)

    def restore(self, state: SolverState) -> None:
        """The state of solver llsvm is a warm start: of its best weights, their primal and its dual bound."""
        solver = "llsvm" if state.solver == "llsvm" else "smsvm"
        state.require(solver, objective_of(self.settings, self.class_weight))
        self._restored = state

    # -- a regularisation path ------------------------------------------------------------------------------

    def prepare(self, stream: Stream) -> None:
        """Spend the memory limit, and begin at w = 0, or where ``restore`` says."""
        memory = stream.memory_left
        state, self._restored = self._restored, None
        self._run = NewtonRun(self.settings, self._costs_of, self.layout(memory), stream)
        if state is not None:
            state.require(state.solver, data_of(stream.dataset))
            if state.solver == "llsvm":
                self._run.begin_with(state)
            else:
                self._run.restore(state)

    def optimise(self, penalty: Penalty) -> Iterator[Report]:
        """Passes until the problem with this penalty is solved, as many as the settings allow; begins where the
        last one ended."""
        self.run.begin_again(penalty)
        with self._new_threads() as threads:
            yield from self.run.passes_to_the_end(threads, self.passes)

    def largest_lambda1(self) -> float:
        """The smallest λ₁ with which all weights are zero: the largest |Σ c_i φ' y_i x_ij| / N there."""
        run = self.run
        with self._new_threads() as threads:
            return run.largest_gradient(threads) / (run.penalty.C * run.stream.dataset.n_rows)

    def _costs_of(self, C: float) -> RowCosts:
        one_vs_rest = self.settings.multiclass == "ovr"
        return RowCosts.of_classes(C, self.class_weight, self.leaves_out, one_vs_rest)

    def _new_threads(self) -> Threads:
        return Threads(self.threads, self.run.progress.stop)

    @property
    def run(self) -> NewtonRun:
        """Over the stream that was prepared."""
        assert self._run is not None
        return self._run

    @property
    def passes(self) -> int:
        """Full passes made so far."""
        return self.run.passes
