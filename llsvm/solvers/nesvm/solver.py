"""NESVM: Nesterov's method on smoothed SVMs (Zhou, Tao, Wu, "NESVM: a fast gradient method for SVMs", 2010).

Objective, Σ over rows, c_i = C · class weight · sample weight, X_i with the constant feature appended (eq. 37):

    C-SVM   ½‖w‖² + Σ c_i max(0, 1 − y_i w·x_i)     loss hinge, penalty l2            (eqs. 45-48)
    LP-SVM  ‖w‖₁ + Σ c_i max(0, 1 − y_i w·x_i)      loss hinge, penalty l1            (eqs. 49-52)
    LS-SVM  ½‖w‖² + Σ c_i (1 − y_i w·x_i)²          loss least-squares, penalty l2    (eqs. 53-56)

With ``intercept`` the weight of the constant feature is not penalised. Hinge and ‖·‖₁ are smoothed with μ
(eqs. 6, 24); μ falls as the certificate of the *unsmoothed* problem asks (homotopy). A pass does both products,
X w and Xᵀ α, all losses and the certificate. One problem per class or pair of classes, in the same passes.

Step "paper" is Algorithm 1 with L of eqs. 48 and 52, and 1 + 2 λ_max(Σ c x xᵀ) for eq. 56, whose printed
constant is too small; homotopy as in Algorithm 2, μ_t = μ₀/(t + 1). Step "auto": see nesterov.py.

Certificate: α_i = c_i u_i (2 c_i (1 − m_i) for squares) is feasible. An unpenalised intercept asks for Σ α y = 0:
the α of the side with the larger sum are scaled down to the other's (hinge), or α_i y_i is shifted by a
multiple of c_i (squares). l1 asks for ‖Σ α y x‖∞ ≤ 1: α is scaled. The best mixture of the passes'
points counts (llsvm/solvers/nesvm/bundle.py). Under l1 a few passes more leave out what weights the gap allows
(llsvm/solvers/nesvm/thinning.py). Stop when gap ≤ tol · primal, or, if ``stop`` is "change", by the paper's
|ΔF_μ| < tol, which also ends each stage of the homotopy until μ ≤ mu_end.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.costs import RowCosts
from llsvm.objective.losses import loss_of
from llsvm.objective.problems import class_signs, count_problems
from llsvm.objective.rounding import SHARE
from llsvm.settings.settings import Settings
from llsvm.solvers.nesvm import kernels as kernel
from llsvm.solvers.nesvm.bundle import DualBundle
from llsvm.solvers.nesvm.layout import Layout, layout
from llsvm.solvers.nesvm.metric import GramMetric, Metric, ScalarMetric
from llsvm.solvers.nesvm.nesterov import PaperSteps, SearchedSteps
from llsvm.solvers.nesvm.thinning import Thinning
from llsvm.solvers.report import SETTLED, Report
from llsvm.stream.stream import Stream

POWER_PASSES = 20
THIN_PASSES = 6  # at most, each measures two weights
MU, PAPER_MU = 1.0, 5.0
MU_FACTOR = 0.5  # μ falls at most so fast,
MU_TARGET = 0.6  # and not below where smoothing makes up this share of the gap that is asked for
GAP_RULE = 4.0  # what is not smoothing in the gap is at most so many times it (scalar metric, or l1)
RULE = 0.01  # the next step promises to gain less than this share of it: time for a smaller μ


class NESVM:
    """See the file's head. ``solve`` yields a Report after each pass."""

    def __init__(self, settings: Settings, class_weight: NDArray[np.float64], threads: int = 1) -> None:
        """class_weight: (n_classes,) factors of C."""
        self.settings = settings
        self.class_weight = class_weight
        self.threads = threads
        self.squares = settings.loss == "least-squares"
        self.bias = settings.constant

    def layout(self, memory: MemoryLeft) -> Layout:
        """What it would do with the memory there is."""
        return layout(self.settings, self.threads, memory)

    def needs(self, memory: MemoryLeft) -> Needs:
        return self.layout(memory).needs

    def solve(self, stream: Stream) -> Iterator[Report]:
        dataset, settings = stream.dataset, self.settings
        width, n_classes, pairs = dataset.n_columns + 1, len(dataset.classes), settings.multiclass == "ovo"
        self._prepare(stream, width)
        self.signs = class_signs(n_classes, pairs)
        lasso = settings.penalty == "l1"
        l1, l2 = float(lasso), float(not lasso)
        self.costs = RowCosts.of_classes(settings.C, self.class_weight)
        self.loss = loss_of(settings.loss)
        constant, free = self.bias, settings.intercept
        self.bound = stream.rounding_bound(self.loss, self.costs.by_class, constant, pairs, l1, l2, free)
        with ThreadPoolExecutor(self.threads) as self.pool:
            metric, passes = self._survey(stream, width)
            self.problems = [self._problem(j, dataset.counts, metric, width) for j in range(len(self.signs))]
            most = max(settings.max_passes or 0, passes + 2) if settings.max_passes else 0
            while True:
                self._pass(stream, width)
                passes += 1
                report = self._report(passes, metric)
                yield report
                if all(p.ended for p in self.problems) or (most and passes >= most):
                    break
            if report.converged and settings.penalty == "l1" and settings.stop == "gap":
                yield from self._thin(stream, width, metric, passes, most)

    # -- set up -----------------------------------------------------------------------------------------

    def _prepare(self, stream: Stream, width: int) -> None:
        """Spend the memory limit."""
        plan, settings = self.layout(stream.memory_left), self.settings
        stream.prepare(plan.needs)
        dataset, pairs = stream.dataset, settings.multiclass == "ovo"
        k = count_problems(len(dataset.classes), pairs)
        self.grad = (k, 2 if settings.intercept else 1, width)
        self.gram, self.bundle = plan.gram, plan.bundle

    def _survey(self, stream: Stream, width: int) -> tuple[Metric, int]:
        """One pass for G = Σ h_i x_i x_iᵀ, h the curvature of the loss, or for a bound of its eigenvalues.

        Returns the metric and how many passes were made.
        """
        G = np.zeros((width, width)) if self.gram else None
        trace = self.steepest = 0.0
        for block in stream.all():
            cost = self.costs.of(block)
            norms = _norms(block, self.bias)
            curvature = 2.0 * cost if self.squares else cost / norms[:, 1]
            trace += float(curvature @ norms[:, 0])
            self.steepest = max(self.steepest, float((curvature * norms[:, 0]).max(initial=0.0)))
            if G is not None:
                _add_gram(block, curvature, self.bias, G)
        if G is not None:
            return GramMetric(G), 1
        if self.settings.step == "paper" and self.squares:
            return ScalarMetric(1.05 * self._largest(stream, width)), 2 + POWER_PASSES
        return ScalarMetric(trace), 1

    def _largest(self, stream: Stream, width: int) -> float:
        """λ_max of Σ 2 c x xᵀ by power iteration; each step is a pass, as 2 c (1 − q·x) x at q and at 0."""
        rng = np.random.default_rng(self.settings.seed)
        signs, self.signs = self.signs, np.ones((1, len(self.class_weight)))
        sums, shape = np.zeros((1, kernel.N_SUMS)), (1, 1, width)
        zero = np.zeros((1, width))
        start = self._evaluate(stream, zero, zero, np.ones(1), sums, shape)[0, 0]
        q, value = rng.standard_normal(width), 0.0
        for _ in range(POWER_PASSES):
            q /= np.linalg.norm(q)
            q = start - self._evaluate(stream, q[None], zero, np.ones(1), sums, shape)[0, 0]
            value = float(np.linalg.norm(q))
        self.signs = signs
        return value

    def _problem(self, j: int, counts: NDArray[np.int64], metric: Metric, width: int) -> _Problem:
        settings = self.settings
        n_rows = int(counts[self.signs[j] != 0].sum())
        # eqs. 48 and 52 for the hinge; the corrected eq. 56 for squares
        paper_L = metric.largest if self.squares else n_rows * self.steepest
        problem = _Problem(settings, metric, paper_L, width, self.bundle)
        if self.bound.lost:
            problem.tol *= 1.0 - SHARE  # the rest is for what rounding has hidden
        return problem

    def _thin(self, stream: Stream, width: int, metric: Metric, passes: int, most: int) -> Iterator[Report]:
        """Leave out what weights the gap allows: more passes, which measure thinner weights."""
        thinnings = [problem.thinning() for problem in self.problems]
        last = passes + THIN_PASSES if not most else min(passes + THIN_PASSES, most)
        while passes < last and not all(thinning.done for thinning in thinnings):
            W, V = (np.stack(each) for each in zip(*(t.candidates() for t in thinnings), strict=True))
            sums = np.zeros((len(W), kernel.N_SUMS))
            self._evaluate(stream, W, V, np.ones(len(W)), sums, self.grad)
            for j, (problem, thinning) in enumerate(zip(self.problems, thinnings, strict=True)):
                primal = float(sums[j, kernel.LOSS]) + problem.exact_penalty(W[j])
                thinning.take((primal, float(sums[j, kernel.V_LOSS]) + problem.exact_penalty(V[j])))
                problem.coef, problem.primal = thinning.w, thinning.primal
            passes += 1
            yield self._report(passes, metric)

    # -- a pass -----------------------------------------------------------------------------------------

    def _pass(self, stream: Stream, width: int) -> None:
        """Measure at w and y of every problem that is not solved yet, and move on."""
        todo = [j for j, problem in enumerate(self.problems) if not problem.ended]
        W = np.stack([problem.steps.w for problem in self.problems])
        V = np.stack([problem.steps.y for problem in self.problems])
        mu = np.array([problem.mu for problem in self.problems])
        sums = np.zeros((len(W), kernel.N_SUMS))
        grad = self._evaluate(stream, W, V, mu, sums, self.grad, np.array(todo))
        for j in todo:
            self.problems[j].measure(sums[j], grad[j])

    def _evaluate(
        self,
        stream: Stream,
        W: NDArray[np.float64],
        V: NDArray[np.float64],
        mu: NDArray[np.float64],
        sums: NDArray[np.float64],
        shape: tuple[int, int, int],
        todo: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float64]:
        """Σ α_i y_i x_i at W over all rows, (shape); ``sums`` is added to. Threads take ranges of rows, and their
        parts are summed in a fixed order."""
        which = np.arange(len(W)) if todo is None else todo
        parts = np.zeros((self.threads, *shape))
        part_sums = np.zeros((self.threads, *sums.shape))

        def work(thread: int, rows: Block, cost: NDArray[np.float64]) -> None:
            X = rows.X
            head = (X.indptr, X.indices, X.data) if isinstance(X, CSR) else (X,)
            run = kernel.gradient_csr if isinstance(X, CSR) else kernel.gradient_dense
            tail = (W, V, self.bias, mu, self.squares, shape[1] == 2, parts[thread], part_sums[thread])
            run(*head, rows.y, cost, self.signs, which, *tail)

        for block in stream.all():
            cost = self.costs.of(block)
            cuts = np.linspace(0, block.n_rows, self.threads + 1).astype(int)
            jobs = [
                self.pool.submit(work, t, block.slice(cuts[t], cuts[t + 1]), cost[cuts[t] : cuts[t + 1]])
                for t in range(self.threads)
            ]
            for job in jobs:
                job.result()
        sums += part_sums.sum(axis=0)
        for thread in range(1, self.threads):
            parts[0] += parts[thread]
        return parts[0]

    def _report(self, passes: int, metric: Metric) -> Report:
        problems = self.problems
        primal = tuple(p.primal for p in problems)
        dual = tuple(p.bundle.best for p in problems)
        largest = max(p.steps.L for p in problems)
        mu = max(p.mu for p in problems)
        how = "paper's constant" if self.settings.step == "paper" else f"searched, {metric.name} metric"
        note = f"step {how}: L = {largest:.4g}" + ("" if self.squares else f", mu = {mu:.3g}")
        coef = np.stack([p.coef for p in problems])
        certificate = self.bound.certificate(coef, primal, dual, passes)
        ended = all(p.ended for p in problems)
        converged = ended and certificate.relative_gap <= self.settings.tol
        return Report(
            "pass",
            passes,
            coef,
            certificate,
            sum(dual),
            converged=converged,
            cause=SETTLED if ended and not converged and self.settings.stop == "change" else "",
            note=note,
            extra={"L": largest, "mu": mu},
        )


class _Problem:
    """One binary problem: its points, its μ, its best solution and its best dual point."""

    def __init__(self, settings: Settings, metric: Metric, paper_L: float, width: int, bundle: int) -> None:
        self.settings = settings
        self.tol = settings.tol  # of the gap as measured
        self.squares = settings.loss == "least-squares"
        self.l1 = settings.penalty == "l1"
        self.paper = settings.step == "paper"
        self.first_mu = settings.mu or (PAPER_MU if self.paper else MU)
        self.mu = self.first_mu
        self.mu_w = self.first_mu  # of the smoothed ‖w‖₁
        self.stage = 0
        self.bundle = DualBundle(width, bundle, self.l1)
        self.coef = np.zeros(width)
        self.primal = np.inf
        self.ended = False
        self.scalar = metric.name == "scalar"
        self._paper_L = paper_L
        self._F = np.inf
        self._same = False  # F_μ is the function of the pass before
        self._rows: tuple[float, float, NDArray[np.float64]] | None = None  # Σ c, Σ c y, Σ c x, for squares
        self.steps: PaperSteps | SearchedSteps
        if self.paper:
            self.steps = PaperSteps(width, self._constant())
        else:
            # squares have the curvature 1 everywhere; a smoothed hinge has at most 1/μ, in its zone only
            start = 1.0 if self.squares and not self.scalar else (0.05 if self.scalar else 0.2) / self.mu
            self.steps = SearchedSteps(width, metric, start, self.squares and not self.scalar)

    def _constant(self) -> float:
        """L of the paper, eqs. 48, 52 and 56 (corrected)."""
        return self._ridge() + self._paper_L / (1.0 if self.squares else self.mu)

    def _ridge(self) -> float:
        return 1.0 / self.mu_w if self.l1 else 1.0

    def measure(self, sums: NDArray[np.float64], grad: NDArray[np.float64]) -> None:
        """Take in a pass: sums (N_SUMS,), grad (1 or 2, width) = Σ α y x at w, by sides if there are two."""
        w, y = self.steps.w, self.steps.y
        value_w, exact_w, slope = self._penalty(w)
        value_y, exact_y, _ = self._penalty(y)
        v = grad.sum(axis=0)
        F, F_y = value_w + sums[kernel.SMOOTHED], value_y + sums[kernel.V_SMOOTHED]
        self._offer(exact_w + sums[kernel.LOSS], w)
        self._offer(exact_y + sums[kernel.V_LOSS], y)
        self.bundle.add(*self._feasible(sums, grad))
        alpha = sums[kernel.ALPHA_PLUS] + sums[kernel.ALPHA_MINUS]
        smoothing = 0.0
        if not self.squares:
            smoothing = float(sums[kernel.LOSS] - alpha + w @ v + exact_w - self._linear(w, slope))
        if self._stop(F):
            return
        self.steps.advance(F, slope - v, F_y, self._ridge(), self._same)
        self._same = True
        if self._next_mu(smoothing, F):
            self._same = False
        self._F = F

    def _offer(self, primal: float, w: NDArray[np.float64]) -> None:
        if primal < self.primal:
            self.primal, self.coef = float(primal), w.copy()

    def _stop(self, F: float) -> bool:
        if self.settings.stop == "change":
            last = self.squares or not self.settings.homotopy or self.mu <= self.settings.mu_end
            self.ended = bool(last and self._same and abs(F - self._F) < self.settings.tol)
        else:
            gap = self.primal - self.bundle.best
            self.ended = bool(gap <= self.tol * self.primal)
        return self.ended

    def thinning(self) -> Thinning:
        penalised = len(self.coef) - 1 if self.settings.intercept else len(self.coef)
        limit = self.bundle.best / (1.0 - self.tol) if self.tol < 1 else np.inf
        return Thinning(self.coef, self.primal, penalised, limit, self.mu_w)

    def exact_penalty(self, w: NDArray[np.float64]) -> float:
        return self._penalty(w)[1]

    # -- the regulariser --------------------------------------------------------------------------------

    def _penalty(self, w: NDArray[np.float64]) -> tuple[float, float, NDArray[np.float64]]:
        """The regulariser, smoothed and exact, and its gradient u (eqs. 24, 28); the intercept is free."""
        penalised = w[:-1] if self.settings.intercept else w
        slope = np.zeros_like(w)
        u = slope[: len(penalised)]
        if not self.l1:
            u[:] = penalised
            value = 0.5 * float(penalised @ penalised)
            return value, value, slope
        np.clip(penalised / self.mu_w, -1.0, 1.0, out=u)
        return (
            float(u @ penalised - 0.5 * self.mu_w * (u @ u)),
            float(np.abs(penalised).sum()),
            slope,
        )

    def _linear(self, w: NDArray[np.float64], slope: NDArray[np.float64]) -> float:
        """What of the regulariser the gap accounts for without smoothing: all of ½‖w‖², and u·w of ‖w‖₁."""
        return float(slope @ w) if self.l1 else 0.5 * float(slope @ slope)

    # -- the dual ---------------------------------------------------------------------------------------

    def _feasible(
        self, sums: NDArray[np.float64], grad: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64]]:
        """A feasible dual point: s (Σ α, for squares less Σ α²/(4c)) and v = Σ α y x."""
        plus, minus = float(sums[kernel.ALPHA_PLUS]), float(sums[kernel.ALPHA_MINUS])
        if not self.settings.intercept:
            return plus + minus - float(sums[kernel.ALPHA_SQUARES]), grad[0].copy()
        if self.squares:
            return self._shifted(plus, minus, float(sums[kernel.ALPHA_SQUARES]), grad)
        smaller = min(plus, minus)
        v = grad[0] * (smaller / plus if plus > 0 else 0.0) + grad[1] * (
            smaller / minus if minus > 0 else 0.0
        )
        v[-1] = 0.0
        return 2.0 * smaller, v

    def _shifted(
        self, plus: float, minus: float, squares: float, grad: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64]]:
        """Squares: α_i y_i − t c_i sums to 0 for t = Σ α y / Σ c."""
        if self._rows is None:  # the first pass is at w = 0, where α = 2c
            self._rows = (plus + minus) / 2, (plus - minus) / 2, (grad[0] - grad[1]) / 2
        total, balance, rows = self._rows
        t = (plus - minus) / total
        s = plus + minus - t * balance
        squares += -t * (plus - minus) / 2 + t * t * total / 4
        v = grad[0] + grad[1] - t * rows
        v[-1] = 0.0
        return s - squares, v

    # -- homotopy ---------------------------------------------------------------------------------------

    def _next_mu(self, smoothing: float, F: float) -> bool:
        """Make μ smaller if it is time to. smoothing: its part of the gap at w, as far as w is a solution."""
        if self.squares or not self.settings.homotopy:
            return False
        change = self.settings.stop == "change"
        if isinstance(self.steps, PaperSteps) or change:
            if not (self._same and abs(F - self._F) < self.settings.tol * (1.0 if change else self.primal)):
                return False
            self._next_stage()
            return True
        allowed = self.tol * self.primal
        if smoothing <= (MU_TARGET + 0.1) * allowed:
            return False
        if self.scalar or self.l1:
            ready = self.primal - self.bundle.best - smoothing < GAP_RULE * smoothing
        else:
            ready = self.steps.decrement < RULE * smoothing
        if ready:
            # smoothing's part of the gap falls with the square of μ
            aim = float(np.sqrt(MU_TARGET * allowed / smoothing))
            self._set_mu(self.mu * max(MU_FACTOR, min(MU_FACTOR**0.2, aim)))
        return ready

    def _next_stage(self) -> None:
        """Algorithm 2: F_μ has settled, on to the next μ; eq. 44 with the paper's step, else by halves."""
        self.stage += 1
        if isinstance(self.steps, PaperSteps):
            self._set_mu(self.first_mu / (self.stage + 1))
            self.steps.L = self._constant()
            self.steps.warm_start()
        else:
            self._set_mu(max(MU_FACTOR * self.mu, self.settings.mu_end))

    def _set_mu(self, mu: float) -> None:
        self.mu_w *= mu / self.mu
        self.mu = mu


def _norms(block: Block, bias: float) -> NDArray[np.float64]:
    """(n, 2): ‖x_i‖² and ‖x_i‖∞ with the constant feature."""
    out = np.empty((block.n_rows, 2))
    X = block.X
    if isinstance(X, CSR):
        kernel.norms_csr(X.indptr, X.indices, X.data, bias, out)
        return out
    np.einsum("ij,ij->i", X, X, out=out[:, 0], dtype=np.float64, casting="same_kind")
    out[:, 0] += bias * bias
    out[:, 1] = np.maximum(np.maximum(X.max(axis=1), -X.min(axis=1)), bias)
    out[out[:, 1] <= 0, 1] = 1.0
    return out


_STEP_ROWS = 512


def _add_gram(block: Block, weight: NDArray[np.float64], bias: float, G: NDArray[np.float64]) -> None:
    """Add Σ weight_i x_i x_iᵀ to the lower triangle of G (d + 1, d + 1)."""
    X = block.X
    if isinstance(X, CSR):
        kernel.gram_csr(X.indptr, X.indices, X.data, weight, bias, G)
        return
    d = X.shape[1]
    for start in range(0, block.n_rows, _STEP_ROWS):
        rows = np.full((min(_STEP_ROWS, block.n_rows - start), len(G)), bias)
        rows[:, :d] = X[start : start + len(rows)]
        rows[:, d:-1] = 0.0
        rows *= np.sqrt(weight[start : start + len(rows), None])
        G += rows.T @ rows
