"""NESVM: Nesterov's method on smoothed SVMs (Zhou, Tao, Wu, "NESVM: a fast gradient method for SVMs", 2010).

Objective, Σ over rows, c_i = C · class weight · sample weight, X_i with the constant feature appended (eq. 37):

    C-SVM      ½‖w‖² + Σ c_i max(0, 1 − y_i w·x_i)     loss hinge, penalty l2            (eqs. 45-48)
    L2-SVM     ½‖w‖² + Σ c_i max(0, 1 − y_i w·x_i)²    loss squared_hinge, penalty l2
    LP-SVM     ‖w‖₁ + Σ c_i max(0, 1 − y_i w·x_i)      loss hinge, penalty l1            (eqs. 49-52)
    LS-SVM     ½‖w‖² + Σ c_i (1 − y_i w·x_i)²          loss least-squares, penalty l2    (eqs. 53-56)

With ``intercept`` the weight of the constant feature is not penalised. Hinge and ‖·‖₁ are smoothed with μ
(eqs. 6, 24); μ falls as the certificate of the *unsmoothed* problem asks (homotopy). The squared losses are smooth
as they are. A pass does both products, X w and Xᵀ α, all losses and the certificate. One problem per class or pair
of classes, in the same passes.

Step "paper" is Algorithm 1 with L of eqs. 48 and 52, and 1 + 2 λ_max(Σ c x xᵀ) for eq. 56, whose printed
constant is too small (1 + 2 Σ c ‖x‖² where memory has no room for that matrix); homotopy as in Algorithm 2,
μ_t = μ₀/(t + 1). Step "auto": see nesterov.py.

Certificate: α_i = −c_i φ'(m_i) is feasible (c_i u_i for the hinge, 2 c_i (1 − m_i) for least squares); what an
unpenalised intercept asks for beside, and mixtures of the passes' points: problem.py. l1 asks for ‖Σ α y x‖∞ ≤ 1: α
is scaled. Stop when gap ≤ tol · primal, or, if ``stop`` is "change", by the paper's
|ΔF_μ| < tol, which also ends each stage of the homotopy until μ ≤ mu_end. Smoothed, ‖w‖₁ leaves small weights where
the optimum has zeros: solver smsvm has these exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.block import FLOAT64_BYTES
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.best import BestPrimal
from llsvm.objective.losses import plq_loss_of
from llsvm.objective.problems import class_signs, count_problems, signs_bytes
from llsvm.objective.rounding import SHARE, RoundingBound
from llsvm.process.threads import Threads
from llsvm.settings.settings import Settings
from llsvm.solvers.base import SETTLED, Report, RunSolver
from llsvm.solvers.nesvm import kernels as kernel
from llsvm.solvers.nesvm.nesterov import (
    GRAM_MATRICES,
    MAX_GRAM_COLUMNS,
    WEIGHT_VECTORS,
    GradientPass,
    Metric,
    Regulariser,
    paper_constant,
)
from llsvm.solvers.nesvm.problem import LinearProblem
from llsvm.solvers.optim.row_operator import COST_BYTES
from llsvm.solvers.state import DualPoint, SolverState, Value, data_of, problem_name, saved_values
from llsvm.solvers.stopping import StoppingRule
from llsvm.stream.stream import Stream

Array = NDArray[np.float64]

_VALUES, _VECTORS = "metric: eigenvalues", "metric: eigenvectors"


class LinearLayout(NamedTuple):
    """needs: for ``Stream.prepare``. has_gram: there is room for the Gram matrix."""

    needs: Needs
    has_gram: bool


def linear_layout(settings: Settings, threads: int, memory: MemoryLeft) -> LinearLayout:
    """Return what a linear machine does: the Gram matrix is made where it sends no rows in memory to disk."""
    dataset = memory.dataset
    n_classes, pairs = len(dataset.classes), settings.multiclass == "ovo"
    weights_bytes = FLOAT64_BYTES * count_problems(n_classes, pairs) * (dataset.n_columns + 1)
    sides = 2 if settings.intercept else 1
    lines = {
        "weights": weights_bytes * WEIGHT_VECTORS,
        "gradients": weights_bytes * sides * (threads + 1),
        "signs of classes": signs_bytes(n_classes, pairs),
    }
    # of a row: its cost and norms, and their product with the largest curvature
    row_bytes, width = COST_BYTES + 3 * FLOAT64_BYTES, dataset.n_columns + 1
    without_gram = Needs(lines, row_bytes)
    gram_bytes = GRAM_MATRICES * FLOAT64_BYTES * width * width
    with_gram = Needs({**lines, "Gram matrix": gram_bytes}, row_bytes)
    is_used = (settings.step != "paper" or settings.loss != "hinge") and width <= MAX_GRAM_COLUMNS
    has_room = memory.fits_in_one_block if memory.fits_in_one_block(without_gram) else memory.has_room
    has_gram = is_used and has_room(with_gram)
    return LinearLayout(with_gram if has_gram else without_gram, has_gram)


class NESVM(RunSolver):
    """Nesterov's method on smoothed SVMs, see the file's head. Its state: the iterates, momentum and μ of all
    problems, their dual points and best weights, and the paper's constant."""

    name = "nesvm"

    def needs(self, memory: MemoryLeft) -> Needs:
        return linear_layout(self.settings, self.threads, memory).needs

    def _begin(self, stream: Stream, saved: SolverState | None, threads: Threads) -> _NesterovRun:
        layout = linear_layout(self.settings, self.threads, stream.memory_left)
        stream.prepare(layout.needs)
        return _NesterovRun(self, self._gradient(stream, threads), layout.has_gram, saved)

    def _gradient(self, stream: Stream, threads: Threads) -> GradientPass:
        settings = self.settings
        signs = class_signs(len(stream.dataset.classes), settings.multiclass == "ovo")
        if self.costs.positive is not None:
            np.fill_diagonal(signs, self.costs.positive)
        constant, split = settings.constant, settings.intercept
        return GradientPass(
            stream, threads, self.costs, constant, split, kernel.LOSS_NUMBERS[settings.loss], signs
        )


class _NesterovRun:
    """One run of a solver over a stream: its problems, and how far they are."""

    def __init__(
        self, solver: NESVM, gradient: GradientPass, has_gram: bool, saved: SolverState | None
    ) -> None:
        """has_gram: there is room for the Gram matrix."""
        self.settings = solver.settings
        self.loss = plq_loss_of(self.settings)
        self.gradient = gradient
        self.smooth = math.isfinite(self.loss.smoothness)
        dataset = gradient.stream.dataset
        k, self.width = len(gradient.signs), dataset.n_columns + 1
        self.bound = self._rounding_bound(solver)
        paper = self.settings.step == "paper"
        self.passes = int(paper or has_gram)  # for what the steps have to know of the rows
        self.rule = StoppingRule(self.settings.tol, self.settings.max_passes, least_passes=self.passes + 2)
        self.metric, self.paper_constant, self.best = Metric.identity(), 0.0, BestPrimal(k)
        self.regulariser = Regulariser(self.settings.penalty == "l1", self.settings.intercept)
        if saved is None:
            if has_gram:
                self.metric = Metric.gram(gradient, self.width, not self.smooth)
            if paper:
                self.paper_constant = self._paper_constant(has_gram)
        else:
            if has_gram:  # not where it was kept under a larger memory limit
                vectors = saved.arrays[_VECTORS].copy()
                self.metric = Metric(saved.arrays[_VALUES].copy(), vectors, not self.smooth)
            self.passes, self.paper_constant = saved.passes, saved.numbers["paper's constant"]
            saved.require_shapes({"best_primal": (k,), "best_coef": (k, self.width)})
            self.best.restore(saved.arrays)
            gradient.stream.restore_random_state(saved.numbers["stream"])
        self.problems = [self._problem(j, saved) for j in range(k)]

    def _rounding_bound(self, solver: NESVM) -> RoundingBound:
        settings = self.settings
        l1 = float(settings.penalty == "l1")
        pairs, free = settings.multiclass == "ovo", settings.intercept
        cost, constant = solver.costs.largest, settings.constant
        stream = self.gradient.stream
        return stream.rounding_bound(self.loss, cost, constant, pairs, l1, 1.0 - l1, free)

    def _paper_constant(self, has_gram: bool) -> float:
        """Eqs. 48 and 52 of one row of the hinge; of squares the largest eigenvalue of Σ 2 c x xᵀ, as eq. 56 has to
        be corrected, or what it is not above."""
        if self.smooth and has_gram:
            return float(self.metric.values.max())
        return paper_constant(self.gradient, self.width, not self.smooth)

    def _problem(self, j: int, saved: SolverState | None) -> LinearProblem:
        takes_part = self.gradient.signs[j] != 0
        n_rows = int(self.gradient.stream.dataset.counts[takes_part].sum())
        paper_L = self.paper_constant * (1 if self.smooth else n_rows)
        # half of the tolerance is for what rounding has hidden
        tol = self.settings.tol * (1.0 - SHARE) if self.bound.lost else self.settings.tol
        regulariser, metric = self.regulariser, self.metric
        name, settings = problem_name(j), self.settings
        return LinearProblem(settings, self.loss, regulariser, self.width, paper_L, metric, tol, name, saved)

    # -- passes -----------------------------------------------------------------------------------------

    def reports(self) -> Iterator[Report]:
        """Passes until all problems are solved."""
        while not (all(problem.at.ended for problem in self.problems) or self.rule.is_last(self.passes)):
            self._pass()
            yield self._report()

    def _pass(self) -> None:
        """Measure at w and y of every problem that is not solved yet, and move on."""
        todo = [j for j, problem in enumerate(self.problems) if not problem.at.ended]
        steps = [problem.at.steps for problem in self.problems]
        W, V = np.array([each.w for each in steps]), np.array([each.y for each in steps])
        mu = np.array([problem.at.mu for problem in self.problems])
        sums, grad = self.gradient.run(W, V, mu, np.array(todo))
        self._offer(W, sums[:, kernel.LOSS], todo)
        self._offer(V, sums[:, kernel.V_LOSS], todo)
        for j in todo:
            self.problems[j].measure(sums[j], grad[j], float(self.best.primal[j]))
        self.passes += 1

    def _offer(self, points: Array, losses: Array, todo: list[int]) -> None:
        """Points (k, width) whose losses (k,) have been measured, of some problems."""
        primal, unknown = np.full((2, len(points)), np.inf)
        for j in todo:
            primal[j] = self.regulariser.exact(points[j]) + losses[j]
        self.best.offer(primal, unknown, points)

    @property
    def _best_coef(self) -> Array:
        assert self.best.coef is not None, "there are weights after the first pass"
        return self.best.coef

    def _report(self) -> Report:
        problems, settings = self.problems, self.settings
        dual = np.array([p.at.dual.value for p in problems])
        largest = max(p.at.steps.L for p in problems)
        mu = max(p.at.mu for p in problems)
        how = "paper's constant" if settings.step == "paper" else "searched"
        note = f"step {how}: L = {largest:.4g}" + ("" if self.smooth else f", mu = {mu:.3g}")
        certificate = self.best.certificate(dual, self.passes, self.bound)
        ended = all(p.at.ended for p in problems)
        converged = ended and self.rule.judge(certificate).converged
        return Report(
            "pass",
            self.passes,
            self._best_coef.copy(),
            certificate,
            float(dual.sum()),
            converged=converged,
            cause=SETTLED if ended and not converged and settings.stop == "change" else "",
            note=note,
            resumable=True,
            extra={"L": largest, "mu": mu},
        )

    def dual_point(self) -> DualPoint | None:
        """None: it is a mixture of points, of which sums over rows are kept."""
        return None

    # -- state ------------------------------------------------------------------------------------------

    def state(self, objective: dict[str, Value]) -> SolverState:
        stream = self.gradient.stream
        arrays = self.best.arrays | {_VALUES: self.metric.values, _VECTORS: self.metric.vectors}
        numbers: dict[str, Value] = {"paper's constant": self.paper_constant, "stream": stream.random_state}
        for j, problem in enumerate(self.problems):
            its_arrays, its_numbers = saved_values(problem_name(j), problem.at)
            arrays, numbers = arrays | its_arrays, numbers | its_numbers
        of = {**objective, **data_of(stream.dataset)}
        return SolverState(NESVM.name, self.passes, of, arrays, numbers=numbers)
