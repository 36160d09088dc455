"""Threshold: ρ of the one-class SVM in coordinate descent, by the method of multipliers.

The dual has a constraint, Σ α_i = ν C (llsvm.objective.one_class), which steps on single α_i cannot keep. Instead
of steps on pairs of rows (Chou, Lin & Lin 2020), both of which would have to be at hand, its augmented Lagrangian
is maximised (Hestenes 1969, Powell 1969), with a multiplier ρ_k and σ = B²:

    max over 0 ≤ α ≤ C_i of  −½‖Σ α_i x_i‖² + ρ_k (Σ α − ν C) − ½ B² (Σ α − ν C)²,   then   ρ_{k+1} = ρ(α),

ρ(α) = ρ_k + B² (ν C − Σ α). That is the dual of the family's loss with target 0 and a constant feature B whose
weight is −ρ/B: it begins at −ρ_k/B − B ν C, and moves by B for each unit of α. So sweeps over rows, in whatever
block, survivors and second order are what they are for other losses.

In primal terms each ρ_{k+1} is a proximal point of min over w of P(w, ρ) (Rockafellar 1976), whose curvature in ρ
is 1/d², d the distance of 0 from the affine hull of the rows at ρ: what is missing to ν C falls by B²/d² + 1.
Between two full passes multipliers change as often as the survivors can bring Σ α to ν C by themselves; where that
does not get on (they are not all the rows that would move), once a pass, for all rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import parts_of
from llsvm.objective.one_class import (
    Candidates,
    best_threshold,
    feasible_weights,
    linear_part,
    linear_rounding,
    sum_rounding,
)
from llsvm.solvers.llsvm.duals import BlockState
from llsvm.solvers.llsvm.sweeps import Sweeps
from llsvm.solvers.optim.kernels import add_at

Vector = NDArray[np.float64]

# Value of the constant feature, in lengths of a row. Higher brings Σ α to ν C in fewer multipliers, but sweeps
# crawl; lower takes more multipliers.
BIAS = 3.0
# Value of the constant feature of second order, in units of that of sweeps: Newton steps do not crawl for it. Lower
# takes more multipliers, much higher loses digits.
STEEPNESS = 100.0
# Full passes that may leave as large a gap. After so many, multipliers change once a pass, for all rows: survivors
# in memory may not be all the rows that would move, and passes would never end. Lower gives up that speed too soon.
PATIENT_PASSES = 3


class OneClassThreshold:
    """Multiplier of the one problem of ``sweeps``, whose constant feature is ``bias``, B; it changes that problem's
    last weight and D.

    total, cost_sum: ν C and C. cautious: multipliers change once a pass.
    """

    def __init__(self, sweeps: Sweeps, total: float, cost_sum: float) -> None:
        """α is 0, and so is ρ_0."""
        self.total, self.cost_sum = total, cost_sum
        self.bias = sweeps.bias
        self._sweeps = sweeps
        self.cautious = False
        self._gaps: list[float] = []
        self._w = sweeps.w[0]
        self._alpha_sum = 0.0
        self._last_weight = 0.0  # as of _alpha_sum
        self._all_rows = np.zeros_like(self._w)  # Σ C_i x_i, the constant feature being 0
        self._pass: Candidates | None = None
        self._square, self._rho, self._linear = 0.0, 0.0, 0.0
        self.set(0.0, 0.0)
        self.update()

    # -- multipliers --------------------------------------------------------------------------------------

    @property
    def rho(self) -> float:
        """ρ(α)."""
        return -self.bias * float(self._w[-1])

    @property
    def alpha_sum(self) -> float:
        """Σ α: sweeps add B to the last weight for each unit."""
        return self._alpha_sum + (float(self._w[-1]) - self._last_weight) / self.bias

    def set(self, rho: float, alpha_sum: float) -> None:
        """Go on with this ρ(α), Σ α being that."""
        self._w[-1] = self._last_weight = -rho / self.bias
        self._alpha_sum = alpha_sum
        self._sweeps.dual[0] = -0.5 * float(np.einsum("i,i", self._w, self._w))

    def update(self) -> float:
        """Go on to the next multiplier; return how much was missing to Σ α = ν C, as a share of that."""
        alpha_sum = self.alpha_sum
        missing = self.total - alpha_sum
        self.set(self.rho + self.bias**2 * missing, alpha_sum)
        return abs(missing) / self.total if self.total > 0 else 0.0

    def within_reach(self, part: BlockState) -> bool:
        """Can Σ α become ν C by rows of the part alone? If not, a multiplier for them would be without bounds."""
        alpha = part.alpha[0]
        missing = self.total - self.alpha_sum
        return -float(alpha.sum()) <= missing <= float((part.cost(0) - alpha).sum())

    @property
    def size(self) -> float:
        """Size of the objective by α, which gaps are measured against."""
        return 0.5 * float(np.einsum("i,i", self._w[:-1], self._w[:-1]))

    @property
    def steep(self) -> float:
        """A larger B, for second order, which does not mind."""
        return self.bias if self.cautious else STEEPNESS * self.bias

    # -- second order, in whose weights the constant feature is ``steep`` ---------------------------------

    def steepened(self, w: Vector) -> Vector:
        """(d + 1,) w with the last weight for the steep feature."""
        return np.append(w[:-1], w[-1] * (self.bias / self.steep))

    def rest(self, others: float) -> float:
        """Return the last weight at α = 0 of some rows, at the multiplier ρ(α). others: Σ α of all other rows."""
        return -self.rho / self.steep - self.steep * (self.total - others)

    def take(self, v: Vector, alpha_sum: float) -> None:
        """Go on from these weights (d + 1,) of α with that sum."""
        self._w[:-1] = v[:-1]
        self.set(-self.steep * float(v[-1]), alpha_sum)

    # -- a full pass --------------------------------------------------------------------------------------

    def begin_pass(self, w: Vector | None) -> None:
        """w: (d + 1,) the weights it measures, with B as for sweeps; None in the first pass: 0."""
        self._pass = None
        self._square, self._rho, self._linear = 0.0, 0.0, 0.0
        if w is not None:
            self._square = float(np.einsum("i,i", w[:-1], w[:-1]))
            self._rho = -self.bias * float(w[-1])
            unit = max(abs(self._rho), self.bias * self._square**0.5) or 1.0
            self._pass = Candidates(self._rho, unit)

    def measure(self, part: BlockState, whole: bool) -> None:
        """Take in rows, with their margins at the weights that the pass measures. whole: these are all."""
        cost, off = part.cost(0), part.margin[0]
        if self._pass is None:
            add_at(*parts_of(part.block.X), part.members(0), cost, 0.0, False, self._all_rows)
        elif whole:
            self._alpha_sum, self._last_weight = float(part.alpha[0].sum()), float(self._w[-1])
            score = off + self._rho
            self._rho = best_threshold(score, cost, self.total) if cost.any() else 0.0
            self._linear = linear_part(score, cost, self.total, self._rho)
        else:
            self._pass.add(off, cost)

    def end_pass(self, whole: bool) -> float:
        """P of the weights that the pass measures, as long as is best, with the best ρ."""
        if self._pass is not None:
            centre = self._pass.centre
            if not whole:
                self._rho, self._linear = self._pass.best(self.total)
            self._linear += linear_rounding(self.total, self._rho, self.cost_sum, centre)
        self._pass = None
        return self._length * (0.5 * self._square * self._length + self._linear)

    @property
    def _length(self) -> float:
        """t, see llsvm.objective.one_class."""
        return max(-self._linear / self._square, 0.0) if self._square > 0 else 0.0

    def certified(self, w: NDArray[np.floating]) -> NDArray[np.floating]:
        """(1, d + 1) what the pass has measured of w, (1, d + 1): the weights, then −ρ."""
        coef = self._length * w
        coef[0, -1] = -self._length * self._rho
        return coef

    def dual(self) -> NDArray[np.float64]:
        """(1,) D of the feasible α next to the current α. It may fall, but no other α are kept to prove more."""
        v = self.feasible(np.empty(len(self._w)))[:-1]
        lost = sum_rounding(self.total, self.rho, int(self._sweeps.visits.sum()))
        return np.array([-0.5 * float(np.einsum("i,i", v, v)) - lost])

    def feasible(self, out: Vector) -> Vector:
        """out, (d + 1,): the weights that a feasible α makes, next to ρ(α)."""
        out[-1] = self._w[-1]
        feasible_weights(
            self._w[:-1], self.alpha_sum, self.total, self.cost_sum, self._all_rows[:-1], out=out[:-1]
        )
        return out

    def note(self, gap: float) -> None:
        """Take in the gap of a pass: where the last ones have not brought it down, multipliers change once a
        round from now on."""
        self._gaps.append(gap)
        before = self._gaps[-1 - PATIENT_PASSES :]
        if len(before) > PATIENT_PASSES and gap >= before[0]:
            self.cautious = True

    # -- what a SolverState holds of it -------------------------------------------------------------------

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"alpha_sum": np.array(self.alpha_sum), "all_rows": self._all_rows[:-1]}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what these were; the weights have been restored."""
        self._all_rows[:-1] = arrays["all_rows"]
        self._alpha_sum, self._last_weight = float(arrays["alpha_sum"]), float(self._w[-1])
