"""What a run of a kernel machine's solver is, whatever the method: problems, passes over the kernel matrix,
reports, a state, and the map of support vectors that a model keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from llsvm.features.feature_map import FeatureMap, KernelFunction
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.certificate import Certificate
from llsvm.objective.losses import plq_loss_of
from llsvm.objective.problems import Problems, class_signs
from llsvm.process.threads import Threads
from llsvm.settings.settings import Settings
from llsvm.solvers.base import ROUNDED, Report, RunSolver
from llsvm.solvers.kernel_machine.layout import KernelLayout, kernel_layout
from llsvm.solvers.kernel_machine.matrix import KernelMatrix, chosen_rows
from llsvm.solvers.kernel_machine.problem import MachineProblem, ProblemRows, rows_of_problems
from llsvm.solvers.optim.lapack import one_blas_thread
from llsvm.solvers.state import ArrayRows, RowShares, SolverState, Value, data_of, problem_name, saved_values
from llsvm.solvers.stopping import StoppingRule
from llsvm.stream.stream import Stream

Vector = NDArray[np.float64]

P = TypeVar("P", bound=MachineProblem)


class KernelRun(ABC, Generic[P]):
    """One run of a solver over a stream: its problems, and how far they are.

    passes: products with the kernel matrix made.
    """

    def __init__(
        self,
        solver: KernelSolver,
        stream: Stream,
        matrix: KernelMatrix,
        layout: KernelLayout,
        threads: Threads,
        saved: SolverState | None,
    ) -> None:
        """matrix: built. saved: for these data, or None."""
        self.name, self.layout, self.threads = solver.name, layout, threads
        self.settings, self.loss = solver.settings, plq_loss_of(solver.settings)
        self.rule = StoppingRule(self.settings.tol, self.settings.max_passes)
        self.constant = penalised_constant(solver.settings)
        self.stream, self.matrix = stream, matrix
        n_classes, pairs = len(stream.dataset.classes), solver.settings.multiclass == "ovo"
        parts = rows_of_problems(stream, matrix, solver.costs, class_signs(n_classes, pairs))
        self._parts, self._of_classes = parts, Problems(n_classes, pairs)
        self.passes = 0
        if saved is not None:
            self.passes = saved.passes
            stream.restore_random_state(saved.numbers["stream"])
        self.problems = [self._problem(problem_name(j), part, saved) for j, part in enumerate(parts)]

    @abstractmethod
    def _problem(self, name: str, part: ProblemRows, saved: SolverState | None) -> P:
        """Make a problem, which goes on from what a state has under its name."""

    @abstractmethod
    def _pass(self, last: bool) -> None:
        """Work on the problems that have not ended. last: there is no other pass in this run."""

    @abstractmethod
    def _note(self) -> tuple[str, dict[str, float]]:
        """For a report, as people read it and as numbers."""

    def reports(self) -> Iterator[Report]:
        if not self.matrix.complete or (self._ended and not self.passes):  # β = 0 is certified without it
            yield self._report()
            return
        while not (self._ended or self.rule.is_last(self.passes)):
            self._pass(self.rule.is_last(self.passes + 1))
            self.passes += 1
            yield self._report()

    @property
    def _ended(self) -> bool:
        return all(problem.ended for problem in self.problems)

    def _products(self, of_problems: list[list[Vector]], problems: list[P]) -> list[list[Vector]]:
        """K times the vectors of each of the problems, in one reading."""
        A = np.zeros((self.matrix.n, sum(map(len, of_problems))))
        asked = list(zip(problems, of_problems, strict=True))
        columns = iter(A.T)
        for problem, vectors in asked:
            for vector in vectors:
                next(columns)[problem.rows] = vector
        images = iter(self.matrix.times(A).T)
        return [[next(images)[problem.rows] for _ in vectors] for problem, vectors in asked]

    def _report(self) -> Report:
        problems = self.problems
        beta = np.zeros((len(problems), self.matrix.n))
        for row, problem in zip(beta, problems, strict=True):
            row[problem.rows] = problem.at.certified.best_beta
        intercept = np.array([p.at.certified.b for p in problems]) + self.constant * beta.sum(axis=1)
        coef = np.c_[beta, intercept]
        certificate = self._certificate()
        converged = self.rule.judge(certificate).converged
        note, extra = self._note()
        return Report(
            "pass",
            self.passes,
            coef,
            certificate,
            certificate.total_dual,
            int(np.count_nonzero(beta.any(axis=0))),
            converged,
            cause=ROUNDED if self._ended and not converged else "",
            note=f"kernel matrix in {self.matrix.place}; {note}",
            resumable=True,
            extra=extra,
            expand=partial(self._expand, beta),
        )

    def _certificate(self) -> Certificate:
        certified = [p.at.certified for p in self.problems]
        lost = max(
            ((c.primal_rounding + c.dual_rounding) / c.primal for c in certified if c.primal > 0), default=0.0
        )
        return Certificate(
            tuple(c.primal for c in certified),
            tuple(c.dual for c in certified),
            self.passes,
            tuple(c.primal_rounding for c in certified),
            lost,
            lost,
        )

    def _expand(self, beta: Vector) -> tuple[NDArray[np.bool_], FeatureMap]:
        """Return which rows are support vectors, and the map that holds them. Called in a pass."""
        dataset, function = self.stream.dataset, self.matrix.function
        support = (beta != 0).any(axis=0)
        support[0] |= not support.any()  # the intercept alone: the map is of a row nevertheless
        base = dataset.first_column
        if function.name == "precomputed":
            columns = np.flatnonzero(support)
            return support, FeatureMap("kernel", function, dataset.n_features, columns, None, base)
        self.matrix.release()  # the support vectors take its place
        X = chosen_rows(self.stream, support)
        return support, FeatureMap("kernel", function, dataset.n_features, X, None, base)

    def dual_point(self) -> RowShares:
        """Return the dual variables of all rows, as ``Solver.dual_point`` does."""
        classes = self._of_classes
        values = np.zeros((self.matrix.n, classes.width))
        for c, (problem, part) in enumerate(zip(self.problems, self._parts, strict=True)):
            place: int | NDArray[np.intp] = c
            if classes.pairs:
                i, j = classes.pair(c)
                place = np.where(part.sign > 0, j - 1, i)
            values[part.rows, place] = problem.at.certified.dual_beta * part.sign / part.cost
        return RowShares(ArrayRows(values))

    def state(self, objective: dict[str, Value]) -> SolverState:
        """The kernel matrix is not in it: it is computed anew."""
        arrays: dict[str, Vector] = {}
        numbers: dict[str, Value] = {"stream": self.stream.random_state}
        for j, problem in enumerate(self.problems):
            its_arrays, its_numbers = saved_values(problem_name(j), problem.at)
            arrays |= its_arrays | problem.other_arrays(problem_name(j))
            numbers |= its_numbers
        of = {**objective, **data_of(self.stream.dataset)}
        return SolverState(self.name, self.passes, of, arrays, numbers=numbers)


class KernelSolver(RunSolver):
    """A solver of kernel machines. ``solve`` raises DataError for a kernel that is none, or values beyond 64-bit
    floats."""

    run: ClassVar[type[KernelRun[Any]]]
    solves_blocks: ClassVar[bool]
    """Whether the method works on blocks of the kernel matrix; else on products with it alone."""

    def layout(self, memory: MemoryLeft) -> KernelLayout:
        """Return the layout that the solver would use with the memory left."""
        return kernel_layout(self.settings, memory, self.threads if self.solves_blocks else 0)

    def needs(self, memory: MemoryLeft) -> Needs:
        return self.layout(memory).needs

    def _begin(self, stream: Stream, saved: SolverState | None, threads: Threads) -> KernelRun[Any]:
        settings, layout = self.settings, self.layout(stream.memory_left)
        gamma = 1.0 / stream.dataset.n_features if settings.gamma is None else settings.gamma
        function = KernelFunction(settings.kernel or "rbf", gamma, settings.degree, settings.coef0)
        matrix = KernelMatrix(stream, function, penalised_constant(settings), layout)
        stream.prepare(layout.needs)
        with one_blas_thread():
            matrix.build(threads)
        return self.run(self, stream, matrix, layout, threads, saved)


def penalised_constant(settings: Settings) -> float:
    """Return the number that a penalised constant feature adds to each value of the kernel."""
    return 0.0 if settings.intercept else settings.constant**2
