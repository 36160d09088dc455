"""MachineProblem: what every method keeps of a binary problem: its rows, and what is certified."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.costs import RowCosts
from llsvm.objective.losses import PLQLoss
from llsvm.settings.settings import Settings
from llsvm.solvers.kernel_machine.matrix import KernelMatrix
from llsvm.solvers.kernel_machine.objective import KernelObjective
from llsvm.solvers.stopping import is_certified
from llsvm.stream.stream import Stream

Vector = NDArray[np.float64]

# Certificates that fail where the problem was to be solved, or passes that gain nothing, at which it is given up,
# as rounding keeps its gap open. With fewer, problems are given up that would be solved; with more, hopeless ones
# take more passes.
FAILURES = 12


class ProblemRows(NamedTuple):
    """The rows that take part in a problem.

    rows: (n,) their numbers.
    sign, cost: (n,) y and c > 0.
    sizes: (2, n) what tells how exactly the kernel is known, see ``KernelFunction.sizes``.
    """

    rows: NDArray[np.intp]
    sign: Vector
    cost: Vector
    sizes: Vector


def rows_of_problems(
    stream: Stream, matrix: KernelMatrix, costs: RowCosts, signs: NDArray[np.float64]
) -> list[ProblemRows]:
    """The rows of each problem, read in a pass over the data.

    signs: (problems, n_classes) y of each class in each problem, 0 where it takes no part."""
    n_rows, problems = stream.dataset.n_rows, []
    ids, row_cost, sizes = np.empty(n_rows, np.int32), np.empty(n_rows), np.empty((2, n_rows))
    for block in stream.all():
        ids[block.rows], row_cost[block.rows] = block.y, costs.of(block)
        sizes[:, block.rows] = matrix.sizes(block)
    for of_class in signs:
        sign = of_class[ids]
        cost = costs.in_problem(row_cost, int(np.argmax(of_class)), sign > 0)
        part = np.flatnonzero((sign != 0) & (cost > 0))
        problems.append(ProblemRows(part, sign[part], cost[part], sizes[:, part]))
    return problems


@dataclass(frozen=True, slots=True)
class Certified:
    """The best solution and the best dual point, and what they are worth; arrays are never changed.

    best_beta: (n,) the solution that is handed back; b: its intercept.
    dual_beta: (n,) α y of the best dual point.
    primal, dual: measured of the solution, and certified of a feasible α.
    primal_rounding, dual_rounding: by how much more the primal may be; what was taken from the dual, for what sums
        may lose.
    """

    best_beta: Vector
    dual_beta: Vector
    b: float
    primal: float
    dual: float = 0.0  # of α = 0
    primal_rounding: float = 0.0
    dual_rounding: float = 0.0

    @property
    def gap(self) -> float:
        return self.primal + self.primal_rounding - self.dual

    def is_within(self, tol: float) -> bool:
        """Return whether this proves ``tol``. Raises CertificateError."""
        return is_certified(tol, self.primal, self.dual, self.primal_rounding)


@dataclass(frozen=True, slots=True)
class MachineProgress:
    """Progress of a method on its problem from pass to pass, all of which is in a state; methods add fields.

    failures: see ``FAILURES``.
    """

    certified: Certified
    failures: int = field(default=0, kw_only=True)

    @property
    def share(self) -> float:
        """Share of the gap allowed at which a method takes the problem for solved; less after each failure."""
        # more than half of it would let more certificates fail, less would take more steps
        return 0.5**self.failures


class MachineProblem:
    """A problem, from pass to pass.

    rows: (n,) numbers of those that take part.
    at: how far it is.
    """

    at: MachineProgress

    def __init__(self, settings: Settings, loss: PLQLoss, part: ProblemRows) -> None:
        self.settings = settings
        self.rows, self._sign, self._cost, sizes = part
        self._objective = KernelObjective(loss, settings.intercept, self._sign, self._cost, sizes)

    def _nothing_certified(self) -> Certified:
        """Return what β = 0 and α = 0 are worth."""
        beta, dual_beta = np.zeros((2, len(self.rows)))
        b = self._objective.intercept(beta)
        return Certified(beta, dual_beta, b, self._objective.primal(beta, beta, b))

    @property
    def converged(self) -> bool:
        return self.at.certified.is_within(self.settings.tol)

    @property
    def ended(self) -> bool:
        """Its gap is within the tolerance, or nothing more can be done about it."""
        return self.converged or self.at.failures >= FAILURES

    def certify_dual(self, v: Vector, image: Vector, b: float) -> None:
        """Measure a feasible α y = v, and keep it where it is the best. image: K v. b: about the intercept."""
        dual, lost = self._objective.measured_dual(v, image, b)
        before = self.at.certified
        if dual > before.dual:
            certified = replace(before, dual_beta=v, dual=dual, dual_rounding=lost)
            self.at = replace(self.at, certified=certified)

    def certify_solution(self, beta: Vector, f: Vector, b: float) -> float:
        """Measure a solution, and keep it where it is the best, or within the tolerance. Returns how large its
        primal may be."""
        primal, lost = self._objective.measured_primal(beta, f, b)
        largest, before = primal + lost, self.at.certified
        measured = replace(before, best_beta=beta, b=b, primal=primal, primal_rounding=lost)
        if largest < before.primal + before.primal_rounding or measured.is_within(self.settings.tol):
            self.at = replace(self.at, certified=measured)
        return largest

    def other_arrays(self, name: str) -> dict[str, Vector]:
        """Return those for a state that are not in ``at``. name: of the problem in states."""
        return {}
