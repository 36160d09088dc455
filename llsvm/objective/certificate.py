"""Certificate and Report: what a solver says after each pass, and what a model keeps of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from llsvm.errors import CertificateError

ROUNDING = 1e-7  # of the primal: sums over all rows do not put the dual farther above it than that


@dataclass(frozen=True, slots=True)
class Certificate:
    """Proof of how far ``coef`` is from the optimum, measured in one full pass over all rows.

    primal: (p,) objective of the returned weights for each of the p problems (one for binary and direct
    multi-class, one per class for one-vs-rest). dual: (p,) objective of a feasible dual point, so the optimum
    of each problem lies in [dual, primal]. passes: full passes over the data made when it was measured.
    rounding: (p,) by how much more the primal may be on the data before their values were rounded, (): not at all;
    the dual holds for those data (see rounding.py). rounding_gap: how much of a relative gap is due to that, at
    most, primal and dual together; rounding_floor: about how much of that stays when the rest is closed; neither
    is kept in a model's file.

    Every certificate passes through here: CertificateError where a number is not finite, or where a dual is above
    its primal by more than rounding, which no feasible point and no weights can bring about.
    """

    primal: tuple[float, ...]
    dual: tuple[float, ...]
    passes: int
    rounding: tuple[float, ...] = ()
    rounding_gap: float = field(default=0.0, compare=False)
    rounding_floor: float = field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        for number, (primal, dual) in enumerate(zip(self.primal, self.dual, strict=True)):
            which = f" of problem {number + 1} of {len(self.primal)}" if len(self.primal) > 1 else ""
            if not (math.isfinite(primal) and math.isfinite(dual)):
                raise CertificateError(
                    f"the objective{which} is not finite (primal {primal:g}, dual {dual:g}), so nothing can be "
                    "certified: values, C, or class and sample weights are too large for 64-bit floats; scale the "
                    "values (--scale) or pass smaller ones"
                )
            if dual - primal > ROUNDING * max(abs(primal), abs(dual)):
                raise CertificateError(
                    f"the dual objective{which} is above the primal ({dual:.9g} > {primal:.9g}), which cannot be: "
                    "something that was kept in memory or on disk has changed, or this is a bug in llsvm; the "
                    "result is not to be trusted and nothing is written"
                )

    @property
    def total_primal(self) -> float:
        return float(sum(self.primal))

    @property
    def total_dual(self) -> float:
        return float(sum(self.dual))

    @property
    def relative_gap(self) -> float:
        """The largest (primal + rounding - dual) / primal over the problems; 0 where the primal is 0.

        Where summing has put the dual above, the size of the difference: so much that amounts to."""
        return max(self.gaps, default=0.0)

    @property
    def gaps(self) -> tuple[float, ...]:
        """(p,) the relative gap of each problem."""
        rounding = self.rounding or (0.0,) * len(self.primal)
        return tuple(map(relative_gap, self.primal, self.dual, rounding))

    def open(self, tol: float) -> list[int]:
        """The problems whose own relative gap is still above ``tol``."""
        return [j for j, gap in enumerate(self.gaps) if not gap <= tol]

    def as_dict(self) -> dict[str, Any]:
        return {
            "primal": self.total_primal,
            "dual": self.total_dual,
            "relative_gap": self.relative_gap,
            "passes": self.passes,
            "problems": [{"primal": p, "dual": d} for p, d in zip(self.primal, self.dual, strict=True)],
        }


def relative_gap(primal: float, dual: float, rounding: float = 0.0) -> float:
    """(|primal - dual| + rounding) / primal; 0 where the primal is 0."""
    return (abs(primal - dual) + rounding) / primal if primal > 0 else 0.0
