"""MachineProblem: what every method keeps of a binary problem: its rows, and what is certified."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from llsvm.settings.settings import Settings
from llsvm.solvers.kernel_machine.intercept import Intercept
from llsvm.solvers.kernel_machine.objective import KernelObjective
from llsvm.solvers.kernel_machine.rows import ProblemRows
from llsvm.solvers.kernel_machine.smoothing import SmoothedLoss
from llsvm.solvers.saved_numbers import SavedNumbers
from llsvm.solvers.state import Value
from llsvm.solvers.state_arrays import ProblemArrays

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Certified:
    """What the best solution and the best dual point are worth.

    b: the intercept. primal, dual: measured of the solution, and certified of a feasible α.
    primal_rounding, dual_rounding: by how much more the primal may be; what was taken from the dual, for what sums
        may lose.
    converged: their gap is within the tolerance.
    """

    b: float
    primal: float
    dual: float = 0.0  # of α = 0
    primal_rounding: float = 0.0
    dual_rounding: float = 0.0
    converged: bool = False

    @property
    def gap(self) -> float:
        return self.primal + self.primal_rounding - self.dual

    def judged(self, tol: float) -> Certified:
        """With ``converged`` as it is for this tolerance."""
        return replace(self, converged=bool(self.gap <= tol * self.primal))


class MachineProblem:
    """A problem, from pass to pass.

    rows: (n,) numbers of those that take part.
    best_beta, dual_beta: (n,) the solution that is handed back, and α y of the best dual point.
    certified: what these are worth.
    """

    def __init__(
        self, settings: Settings, loss: SmoothedLoss, part: ProblemRows, arrays: ProblemArrays
    ) -> None:
        """loss: may change its μ."""
        self.settings = settings
        self.rows, self._sign, self._cost, sizes = part
        self._intercept = Intercept(settings.intercept, loss, self._sign, self._cost)
        self._objective = KernelObjective(loss.loss, settings.intercept, self._sign, self._cost, sizes)
        self.best_beta, self.dual_beta = arrays.vector("best beta"), arrays.vector("dual beta")
        nothing = np.zeros(len(self.rows))
        b = self._intercept.exact(nothing)
        self.certified = Certified(b, self._objective.primal(nothing, nothing, b))

    @property
    def ended(self) -> bool:
        """Its gap is within the tolerance, or nothing more can be done about it."""
        return self.certified.converged

    def certify_dual(self, v: Vector, image: Vector, b: float) -> None:
        """Measure a feasible α y = v, and keep it where it is the best. image: K v. b: about the intercept."""
        certified, (dual, lost) = self.certified, self._objective.measured_dual(v, image, b)
        if dual > certified.dual:
            self.dual_beta[:] = v
            certified = replace(certified, dual=dual, dual_rounding=lost)
        self.certified = certified.judged(self.settings.tol)

    def certify_solution(self, beta: Vector, f: Vector, b: float) -> float:
        """Measure a solution, and keep it where it is the best, or within the tolerance. Returns how large its
        primal may be."""
        certified, (primal, lost) = self.certified, self._objective.measured_primal(beta, f, b)
        largest = primal + lost
        within = largest - certified.dual <= self.settings.tol * primal
        if within or largest < certified.primal + certified.primal_rounding:
            self.best_beta[:] = beta
            certified = replace(certified, b=b, primal=primal, primal_rounding=lost)
        self.certified = certified.judged(self.settings.tol)
        return largest

    def numbers(self) -> dict[str, Value]:
        """What there is to know beside the arrays, for a state."""
        return {"certified": asdict(self.certified)}

    def restore(self, saved: SavedNumbers) -> None:
        """Take up ``numbers``; the arrays are those of the state already."""
        self.certified = saved.part("certified").into(self.certified)
