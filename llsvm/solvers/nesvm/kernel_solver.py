"""NESVM with kernels: Nesterov's method on ½ βᵀKβ + Σ c_i loss(y_i ((Kβ)_i + b)).

Zhou, Tao, Wu 2010, end of section II-C. Loss: hinge, smoothed with u_i = median((1 − m_i)/μ, 0, 1), or, as they
are, squared hinge max(0, 1 − m)² and least squares (1 − m)². In the norm of the kernel's own space the gradient is
β − α y: a pass over K makes one product, K (α y), with which every point in sight (w^k, y^k, z^k are combinations)
knows its Kβ: backtracking costs no pass. b, if there is one, is not penalised and minimised over exactly for every
f = Kβ (intercept.py), so that Σ α y is nearly 0. One problem per class or pair (kernel_problem.py), in the same
passes.

What steers the steps is not proof: f of the points in sight is carried from pass to pass, with its rounding. The
certificate is measured afresh, with products of its own in a pass that is made anyway: of the β that is handed
back, as it is saved, and of a feasible α, the best mixture of recent ones, clipped to its bounds, with Σ α y = 0 as
in feasible.py. D(α) = Σ α − Σ α²/(4c) of squared losses − ½ (α y)ᵀK(α y). What 64-bit sums may have lost of both
counts as gap (kernel_objective.py): with a large C that is what bounds it. Stop when gap ≤ tol · primal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix, concat
from llsvm.features.feature_map import FeatureMap, KernelFunction
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.costs import RowCosts
from llsvm.objective.losses import plq_loss_of
from llsvm.objective.problems import class_signs
from llsvm.process.threads import Threads
from llsvm.settings.settings import Settings
from llsvm.solvers.nesvm.arrays import StateArrays
from llsvm.solvers.nesvm.kernel_matrix import KernelMatrix
from llsvm.solvers.nesvm.kernel_problem import KernelProblem, ProblemRows
from llsvm.solvers.nesvm.layout import KernelLayout, kernel_layout
from llsvm.solvers.nesvm.numbers import SavedNumbers
from llsvm.solvers.nesvm.tuning import KernelTuning
from llsvm.solvers.report import ROUNDED, Report
from llsvm.solvers.state import SolverState, Value, data_of, objective_of
from llsvm.stream.stream import Stream

Vector = NDArray[np.float64]

_NAME = "nesvm"


class KernelNESVM:
    """See the file's head. ``solve`` yields a Report after each pass over the kernel matrix, and its state may be
    asked for after each."""

    def __init__(
        self,
        settings: Settings,
        class_weight: NDArray[np.float64],
        threads: int = 1,
        tuning: KernelTuning | None = None,
    ) -> None:
        """settings: with C, not λ.
        class_weight: (n_classes,) float64 factors of C.
        threads: at least 1.
        tuning: None for the usual.
        """
        self.settings = settings
        self.tuning = tuning or KernelTuning()
        self.threads = threads
        self.loss = plq_loss_of(settings)
        self.costs = RowCosts.of_classes(settings.C, class_weight)
        self._objective = objective_of(settings, class_weight)
        self._saved: SolverState | None = None  # to go on from
        self._run: _Run | None = None

    def layout(self, memory: MemoryLeft) -> KernelLayout:
        """What it would do with the memory there is."""
        return kernel_layout(self.settings, self.tuning, memory)

    def needs(self, memory: MemoryLeft) -> Needs:
        """See Solver."""
        return self.layout(memory).needs

    def solve(self, stream: Stream) -> Iterator[Report]:
        """As Solver.solve. Raises DataError for a kernel that is none, or values beyond 64-bit floats; UsageError
        where the state to go on from is that of other data."""
        saved, self._saved = self._saved, None
        if saved is not None:
            saved.require(_NAME, data_of(stream.dataset))
        matrix = self._matrix(stream)
        signs = class_signs(len(stream.dataset.classes), self.settings.multiclass == "ovo")
        with Threads(self.threads) as threads:
            matrix.build(threads)
        self._run = _Run(self, stream, matrix, signs, saved)
        del saved  # which may be large
        yield from self._run.reports()

    def state(self) -> SolverState:
        """The iterates, momentum and μ of all problems, their dual points and best solutions. The kernel matrix is
        computed anew."""
        assert self._run is not None, "there is a state after the first report"
        return self._run.state(self._objective)

    def restore(self, state: SolverState) -> None:
        """See llsvm.solvers.base."""
        state.require(_NAME, self._objective)
        self._saved = state

    def _matrix(self, stream: Stream) -> KernelMatrix:
        """Not yet computed; spends the memory limit."""
        layout, settings = self.layout(stream.memory_left), self.settings
        gamma = 1.0 / stream.dataset.n_features if settings.gamma is None else settings.gamma
        function = KernelFunction(settings.kernel or "rbf", gamma, settings.degree, settings.coef0)
        matrix = KernelMatrix(stream, function, self.constant, layout.matrix)
        stream.prepare(layout.needs)
        return matrix

    @property
    def constant(self) -> float:
        """What a penalised constant feature adds to each value of the kernel."""
        return 0.0 if self.settings.intercept else self.settings.constant**2


class _Run:
    """One run of a solver over a stream: its problems, and how far they are."""

    def __init__(
        self,
        solver: KernelNESVM,
        stream: Stream,
        matrix: KernelMatrix,
        signs: NDArray[np.float64],
        saved: SolverState | None,
    ) -> None:
        self.settings, self.constant = solver.settings, solver.constant
        self.stream, self.matrix = stream, matrix
        ids, cost, sizes = self._rows(solver)
        pairs, by_class = solver.settings.multiclass == "ovo", solver.costs.by_class
        # of the sample weights alone: what else rounding does is counted here
        self.bound = replace(stream.rounding_bound(solver.loss, by_class, 0.0, pairs), noise=0.0)
        parts = [ProblemRows.of(row[ids], cost, sizes) for row in signs]
        widths = [len(part.rows) for part in parts]
        self.arrays = StateArrays(widths, None if saved is None else saved.arrays)
        self.problems = [
            KernelProblem(solver.settings, solver.tuning, solver.loss, part, self.arrays.of(j))
            for j, part in enumerate(parts)
        ]
        self.passes = 0
        if saved is not None:
            self.passes, numbers = saved.passes, SavedNumbers(saved.numbers)
            for problem, own in zip(self.problems, numbers.parts("problems", len(parts)), strict=True):
                problem.restore(own)
            self.arrays.forget_saved()
            stream.random_state = numbers.mapping("stream")

    def _rows(self, solver: KernelNESVM) -> tuple[NDArray[np.int32], Vector, Vector]:
        """Class ids (n,), c_i (n,) and ``KernelMatrix.sizes`` (2, n) of all rows, in a pass."""
        n_rows = self.stream.dataset.n_rows
        ids, cost, sizes = np.empty(n_rows, np.int32), np.empty(n_rows), np.empty((2, n_rows))
        for block in self.stream.all():
            ids[block.rows] = block.y
            cost[block.rows] = solver.costs.of(block)
            sizes[:, block.rows] = self.matrix.sizes(block)
        return ids, cost, sizes

    # -- passes -----------------------------------------------------------------------------------------

    def reports(self) -> Iterator[Report]:
        most = self.settings.max_passes
        while not (all(problem.converged for problem in self.problems) or (most and self.passes >= most)):
            self._pass(bool(most and self.passes + 1 >= most))
            yield self._report()

    def _pass(self, last: bool) -> None:
        """One product with K for all that the problems want to know; last: of the run."""
        todo = [p for p in self.problems if not p.converged]
        wanted = [p.wanted(last) for p in todo]
        A = np.zeros((self.matrix.n, sum(map(len, wanted))))
        at = 0
        for problem, vectors in zip(todo, wanted, strict=True):
            for vector in vectors:
                A[problem.rows, at] = vector
                at += 1
        KA, at = self.matrix.times(A), 0
        for problem, vectors in zip(todo, wanted, strict=True):
            problem.take([KA[problem.rows, at + i] for i in range(len(vectors))])
            at += len(vectors)
        self.passes += 1

    def _report(self) -> Report:
        problems = self.problems
        beta = np.zeros((len(problems), self.matrix.n))
        for row, problem in zip(beta, problems, strict=True):
            row[problem.rows] = problem.best_beta
        intercept = np.array([p.best_b for p in problems]) + self.constant * beta.sum(axis=1)
        coef = np.c_[beta, intercept]
        primal, dual = [p.primal for p in problems], [p.dual for p in problems]
        certificate = self.bound.certificate(coef, primal, dual, self.passes)
        done = all(p.converged for p in problems)
        converged = done and certificate.relative_gap <= self.settings.tol
        L, mu = max(p.L for p in problems), max(p.loss.mu for p in problems)
        return Report(
            "pass",
            self.passes,
            coef,
            certificate,
            certificate.total_dual,
            int(np.count_nonzero(beta.any(axis=0))),
            converged,
            cause=ROUNDED if done and not converged else "",
            note=f"kernel matrix in {self.matrix.place}; step searched: L = {L:.4g}, mu = {mu:.3g}",
            resumable=True,
            extra={"L": L, "mu": mu},
            expand=partial(self._expand, beta),
        )

    def _expand(self, beta: Vector) -> tuple[NDArray[np.bool_], FeatureMap]:
        """Which rows are support vectors, and the map that holds them; in a pass."""
        dataset, function = self.stream.dataset, self.matrix.function
        support = (beta != 0).any(axis=0)
        support[0] |= not support.any()  # the intercept alone: the map is of a row nevertheless
        base = dataset.first_column
        if function.name == "precomputed":
            columns = np.flatnonzero(support)
            return support, FeatureMap("kernel", function, dataset.n_features, columns, None, base)
        parts = [block.take(support[block.rows]) for block in self.stream.all()]
        rows = concat([part for part in parts if part.n_rows])
        rows = rows.take(np.argsort(rows.rows))
        X: Matrix = rows.X
        if isinstance(X, CSR):
            X = CSR(X.indptr, X.indices - np.int32(base), X.data)
        else:
            X = np.ascontiguousarray(X[:, base:])
        return support, FeatureMap("kernel", function, dataset.n_features, X, None, base)

    # -- state ------------------------------------------------------------------------------------------

    def state(self, objective: dict[str, Value]) -> SolverState:
        return SolverState(
            _NAME,
            self.passes,
            {**objective, **data_of(self.stream.dataset)},
            self.arrays.by_name,
            numbers={
                "problems": [problem.numbers() for problem in self.problems],
                "stream": self.stream.random_state,
            },
        )
