"""MachineProblem: what every method keeps of a binary problem: its rows, and what is certified."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.certificate import Certificate
from llsvm.objective.costs import RowCosts
from llsvm.objective.losses import PLQLoss
from llsvm.settings.settings import Settings
from llsvm.solvers.kernel_machine.matrix import KernelMatrix
from llsvm.solvers.kernel_machine.objective import KernelObjective
from llsvm.solvers.saved_numbers import SavedNumbers
from llsvm.solvers.state import SolverState, Value
from llsvm.solvers.state_arrays import ProblemArrays
from llsvm.stream.stream import Stream

Vector = NDArray[np.float64]


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
    n_rows, found = stream.dataset.n_rows, []
    ids, row_cost, sizes = np.empty(n_rows, np.int32), np.empty(n_rows), np.empty((2, n_rows))
    for block in stream.all():
        ids[block.rows], row_cost[block.rows] = block.y, costs.of(block)
        sizes[:, block.rows] = matrix.sizes(block)
    for of_class in signs:
        sign = of_class[ids]
        cost = costs.in_problem(row_cost, int(np.argmax(of_class)), sign > 0)
        part = np.flatnonzero((sign != 0) & (cost > 0))
        found.append(ProblemRows(part, sign[part], cost[part], sizes[:, part]))
    return found


@dataclass(frozen=True, slots=True)
class Certified:
    """What the best solution and the best dual point are worth.

    b: the intercept. primal, dual: measured of the solution, and certified of a feasible α.
    primal_rounding, dual_rounding: by how much more the primal may be; what was taken from the dual, for what sums
        may lose.
    """

    b: float
    primal: float
    dual: float = 0.0  # of α = 0
    primal_rounding: float = 0.0
    dual_rounding: float = 0.0

    @property
    def gap(self) -> float:
        return self.primal + self.primal_rounding - self.dual

    def proves(self, tol: float) -> bool:
        """See Certificate."""
        return Certificate((self.primal,), (self.dual,), 0, (self.primal_rounding,)).proves(tol)


class MachineProblem:
    """A problem, from pass to pass.

    rows: (n,) numbers of those that take part.
    best_beta, dual_beta: (n,) the solution that is handed back, and α y of the best dual point.
    certified: what these are worth.
    """

    def __init__(self, settings: Settings, loss: PLQLoss, part: ProblemRows, arrays: ProblemArrays) -> None:
        self.settings = settings
        self.rows, self._sign, self._cost, sizes = part
        self._objective = KernelObjective(loss, settings.intercept, self._sign, self._cost, sizes)
        self.best_beta, self.dual_beta = arrays.vector("best beta"), arrays.vector("dual beta")
        nothing = np.zeros(len(self.rows))
        b = self._objective.intercept(nothing)
        self.certified = Certified(b, self._objective.primal(nothing, nothing, b))

    @property
    def converged(self) -> bool:
        return self.certified.proves(self.settings.tol)

    @property
    def ended(self) -> bool:
        """Its gap is within the tolerance, or nothing more can be done about it."""
        return self.converged

    def certify_dual(self, v: Vector, image: Vector, b: float) -> None:
        """Measure a feasible α y = v, and keep it where it is the best. image: K v. b: about the intercept."""
        dual, lost = self._objective.measured_dual(v, image, b)
        if dual > self.certified.dual:
            self.dual_beta[:] = v
            self.certified = replace(self.certified, dual=dual, dual_rounding=lost)

    def certify_solution(self, beta: Vector, f: Vector, b: float) -> float:
        """Measure a solution, and keep it where it is the best, or within the tolerance. Returns how large its
        primal may be."""
        primal, lost = self._objective.measured_primal(beta, f, b)
        largest, before = primal + lost, self.certified
        measured = replace(before, b=b, primal=primal, primal_rounding=lost)
        if largest < before.primal + before.primal_rounding or measured.proves(self.settings.tol):
            self.best_beta[:] = beta
            self.certified = measured
        return largest

    def numbers(self) -> dict[str, Value]:
        """What there is to know beside the arrays, for a state."""
        return {"certified": asdict(self.certified)}

    def arrays(self, name: str) -> dict[str, Vector]:
        """Those for a state that are not in ``ProblemArrays``. name: what theirs begin with."""
        return {}

    def restore(self, saved: SavedNumbers, state: SolverState, name: str) -> None:
        """Take up ``numbers`` and ``arrays``; those of ``ProblemArrays`` are those of the state already."""
        self.certified = saved.part("certified").into(self.certified)
