"""The problem of a kernel machine: primal and dual, bounded whatever rounding has done, and what is certified.

    primal  ½ βᵀKβ + Σ c_i φ(y_i (f_i + b)),  f = Kβ
    dual    yᵀβ − ½ βᵀ(K + D) β,  α = y β within its bounds, Σ β = 0 where b is not penalised; D = ridge/c

Certificates rest on ``KernelObjective``: sums in 64 bits lose something, and with a large C that is what bounds the
gap. What they may have lost, given the sizes of K, α and β, is counted beside the primal and taken from the dual.
``MachineProblem`` is what every method keeps of a binary problem: its rows, and what is certified.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import PLQLoss
from llsvm.objective.problems import RowCosts
from llsvm.settings.settings import Settings
from llsvm.solvers.kernel_machine.matrix import KernelMatrix, not_definite, not_symmetric
from llsvm.solvers.optim.line_search import BEYOND_ROUNDING, MOST_POINTS, ROUNDING, regula_falsi
from llsvm.solvers.stopping import is_certified
from llsvm.stream.stream import Stream

Vector = NDArray[np.float64]

# Share of what the terms of a sum come to that summing them may lose: with less, certificates might claim what does
# not hold; with more, gaps stay open at a large C.
_ROUNDING = 4.0 * np.finfo(np.float64).eps
# Certificates that fail where the problem was to be solved, or passes that gain nothing, at which it is given up,
# as rounding keeps its gap open. With fewer, problems are given up that would be solved; with more, hopeless ones
# take more passes.
FAILURES = 12


class KernelObjective:
    """The objective of one problem, over its n rows; arrays are (n,).

    loss, sign, cost, sizes: see ``__init__``.
    free_intercept: there is one that is not penalised, and there are rows that it may fit.
    lower, upper, ridge: the bounds of β = α y, and D.
    """

    def __init__(self, loss: PLQLoss, intercept: bool, sign: Vector, cost: Vector, sizes: Vector) -> None:
        """intercept: there is one that is not penalised.
        sign, cost: (n,) y and c, c > 0.
        sizes: (2, n) what tells how exactly the kernel is known, see ``KernelFunction.sizes``.
        """
        self.loss, self.sign, self.cost, self.sizes = loss, sign, cost, sizes
        self.free_intercept = intercept and len(cost) > 0
        ends = sign * (loss.lower * cost), sign * (loss.upper * cost)
        self.lower, self.upper = np.minimum(*ends), np.maximum(*ends)
        self.ridge = loss.ridge / cost
        self._norms, self._squared_norms = sizes

    def part(self, rows: slice | NDArray[np.intp]) -> KernelObjective:
        """The same of some of the rows."""
        sizes = self.sizes[:, rows]
        return KernelObjective(self.loss, self.free_intercept, self.sign[rows], self.cost[rows], sizes)

    @property
    def diagonal(self) -> Vector:
        """Return the diagonal of K + D, approximately."""
        return self._norms * self._norms + self.ridge

    def gradient(self, beta: Vector, f: Vector) -> Vector:
        """Return the gradient of the dual: y − f − D β."""
        return self.sign - f - self.ridge * beta

    def free(self, beta: Vector) -> NDArray[np.bool_]:
        """Return which β are strictly between their bounds."""
        return (beta > self.lower) & (beta < self.upper)

    def intercept(self, f: Vector, total: float = 0.0) -> float:
        """The best b for f, in the middle where there are many (as LIBSVM's); 0 where it is penalised.

        total: Σ β, not 0 where rows are a part of a problem's and the others keep their β."""
        if not self.free_intercept:
            return 0.0
        if self.loss.ridge > 0:
            return self.smoothed_intercept(self.loss, f, total)
        ends = self.sign - f  # a row's loss ends here (y = 1) or begins: the slope grows by its cost
        order = np.argsort(ends)
        slope = np.cumsum(self.cost[order]) - self.cost[self.sign > 0].sum() + total
        flat = len(ends) * _ROUNDING * self.cost.sum()  # what a running sum may be off by
        first = min(int(np.searchsorted(slope, -flat)), len(ends) - 1)
        last = min(first + 1, len(ends) - 1) if slope[first] <= flat else first
        return 0.5 * float(ends[order[first]] + ends[order[last]])

    def smoothed_intercept(self, loss: PLQLoss, f: Vector, total: float = 0.0) -> float:
        """The best b for a loss without a kink."""
        if not self.free_intercept:
            return 0.0
        low, high = -2.0 - float(f.max()), 2.0 - float(f.min())

        def slope(t: float) -> float:
            derivative = loss.derivative(self.sign * (f + low + t * (high - low)))
            return total + float((self.cost * derivative) @ self.sign)

        tolerance = ROUNDING * float(self.cost.sum())
        return low + regula_falsi(slope, slope(0.0), slope(1.0), tolerance, MOST_POINTS) * (high - low)

    def primal(self, beta: Vector, f: Vector, b: float) -> float:
        """Return the primal objective, summed in float64.

        beta, f: (n,) β and Kβ.
        b: the intercept.
        """
        losses = self.loss.value(self.sign * (f + b))
        return 0.5 * float(beta @ f) + float(self.cost @ losses)

    def measured_primal(self, beta: Vector, f: Vector, b: float) -> tuple[float, float]:
        """``primal``, and by how much more it may be."""
        lost, margin = self._lost(beta), self.sign * (f + b)
        error = np.where(f == 0, 0.0, _ROUNDING * (1.0 + abs(b))) + lost  # 1 ∓ b alone is as good as exact
        more = self.loss.largest_value(margin, error) - self.loss.value(margin)
        return self.primal(beta, f, b), float(lost @ np.abs(beta)) + float(self.cost @ more)

    def measured_dual(self, v: Vector, image: Vector, b: float) -> tuple[float, float]:
        """At least so large is D at α y = v, and what was taken from it for that.

        v, image: (n,) v and Kv.
        b: about where the intercept is.
        """
        alpha = v * self.sign
        total, sizes = float(alpha.sum()), float(np.abs(alpha).sum())
        squares = self._squares(alpha)
        total, sizes = total - squares, sizes + squares
        if self.free_intercept:  # Σ α y is not 0 to the last bit
            sizes *= 1.0 + abs(b)
        rounding = _ROUNDING * sizes + float(self._lost(v) @ np.abs(v))
        return total - 0.5 * float(v @ image) - rounding, rounding

    def linear_part(self, alpha: Vector) -> float:
        """Σ c b(α/c): what of D is not the square of a norm."""
        return float(alpha.sum()) - self._squares(alpha)

    def _squares(self, alpha: Vector) -> float:
        """½ ridge Σ α²/c."""
        return 0.5 * float(self.ridge @ (alpha * alpha)) if self.loss.ridge else 0.0

    def feasible(self, alpha: Vector) -> Vector:
        """A feasible α near by, see nesvm/problem.py."""
        alpha = np.clip(alpha, self.loss.lower * self.cost, self.loss.upper * self.cost)
        if not self.free_intercept:
            return alpha
        if math.isinf(self.loss.lower):
            return alpha - self.sign * self.cost * (float(alpha @ self.sign) / float(self.cost.sum()))
        positive = self.sign > 0
        plus, minus = float(alpha[positive].sum()), float(alpha[~positive].sum())
        smaller = min(plus, minus)
        if smaller <= 0:
            return np.zeros_like(alpha)
        return alpha * np.where(positive, smaller / plus, smaller / minus)

    def balanced(self, beta: Vector, total: float, movable: NDArray[np.bool_]) -> Vector | None:
        """β within its bounds that sums to ``total`` where b is free, moved by what the movable rows have room for;
        None where that is too little."""
        missing = total - float(beta.sum())
        if not self.free_intercept or abs(missing) <= _ROUNDING * float(np.abs(beta).sum()):
            return beta
        room = np.where(movable, (self.upper - beta) if missing > 0 else (beta - self.lower), 0.0)
        endless = np.isinf(room)
        if endless.any():
            room = endless.astype(float)
        elif float(room.sum()) <= abs(missing):
            return None
        return np.clip(beta + missing / float(room.sum()) * room, self.lower, self.upper)

    def check_symmetry(self, beta: Vector, f: Vector, v: Vector, image: Vector) -> None:
        """Raise DataError where βᵀKv is not vᵀKβ; f = Kβ, image = Kv."""
        size = float(self._norms @ np.abs(beta)) * float(self._norms @ np.abs(v))
        rounding = float(self._lost(v) @ np.abs(beta))
        if abs(float(beta @ image) - float(v @ f)) > BEYOND_ROUNDING * size + rounding:
            raise not_symmetric()

    def check_definite(self, v: Vector, square: float) -> None:
        """Raise DataError where square = vᵀKv is negative."""
        if square < -BEYOND_ROUNDING * float(self._norms @ np.abs(v)) ** 2 - float(self._lost(v) @ np.abs(v)):
            raise not_definite()

    def _lost(self, v: Vector) -> Vector:
        """(n,) by how much rounding may have changed each value of K v."""
        v = np.abs(v)
        far = self._squared_norms * float(v.sum()) + float(self._squared_norms @ v)
        return _ROUNDING * (self._norms * float(self._norms @ v) + far)


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
