"""What a solver says after each pass, and what a model keeps of it: the certificate, and the leave-one-out error.

The leave-one-out error, at most, follows from the dual variables and margins of one training. Trained without row
t, a model gives it a margin of at least y_t w·x_t − α_t ‖x_t‖² (Jaakkola & Haussler 1999, theorem 1, of problems
without an intercept: ours is the weight of a constant feature). So it can only be wrong where that is not
positive. With ξ_t = 1 − y_t w·x_t this is α_t ‖x_t‖² + ξ_t ≥ 1, the ξα estimate of Joachims (2000, "Estimating
the generalization performance of an SVM efficiently") with ρ = 1 and each row's own norm for R². It holds for the
optimum; of weights within a small gap of that it is a close estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block, Matrix
from llsvm.errors import CertificateError

ROUNDING = 1e-7  # of the primal: sums over all rows do not put the dual farther above it than that
_PIECE_BYTES = 1 << 15  # of dense rows, as float64: copies of them are not reserved


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
    negligible: an objective that is not positive, and at least minus this, is as good as 0. Infinite where no
    weights have an objective below 0, as with all losses but one_class: primal 0 is then the optimum.

    Every certificate passes through here: CertificateError where a number is not finite, or where a dual is above
    its primal by more than rounding, which no feasible point and no weights can bring about. So it is made once
    ``rounding`` is known, and not of figures as they were measured.
    """

    primal: tuple[float, ...]
    dual: tuple[float, ...]
    passes: int
    rounding: tuple[float, ...] = ()
    rounding_gap: float = field(default=0.0, compare=False)
    rounding_floor: float = field(default=0.0, compare=False)
    negligible: float = math.inf

    def __post_init__(self) -> None:
        rounding = self.rounding or (0.0,) * len(self.primal)
        for number, (primal, dual, more) in enumerate(zip(self.primal, self.dual, rounding, strict=True)):
            which = f" of problem {number + 1} of {len(self.primal)}" if len(self.primal) > 1 else ""
            if not all(map(math.isfinite, (primal, dual, more))):
                raise CertificateError(
                    f"the objective{which} is not finite (primal {primal:g}, dual {dual:g}), so nothing can be "
                    "certified: values, C, or class and sample weights are too large for 64-bit floats; scale the "
                    "values (--scale) or pass smaller ones"
                )
            if dual - primal > more + ROUNDING * max(abs(primal), abs(dual)):
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
        """Return the largest ``relative_gap`` of the problems.

        Where summing has put the dual above, the size of the difference: so much that amounts to."""
        return max(self.gaps, default=0.0)

    def proves(self, tol: float) -> bool:
        """Return whether every problem is within ``tol`` of its optimum, as a share: what "converged" means."""
        return self.relative_gap <= tol

    @property
    def gaps(self) -> tuple[float, ...]:
        """Return (p,) the relative gap of each problem."""
        rounding = self.rounding or (0.0,) * len(self.primal)
        return tuple(
            relative_gap(*each, self.negligible)
            for each in zip(self.primal, self.dual, rounding, strict=True)
        )

    @property
    def is_nothing(self) -> bool:
        """Return whether the optimum is as good as 0, where objectives may be negative: then w = 0 is as good as
        any weights."""
        objectives = zip(self.primal, self.dual, strict=True)
        return any(primal <= 0 and -dual <= self.negligible < math.inf for primal, dual in objectives)

    def open(self, tol: float) -> list[int]:
        """Return the problems whose own relative gap is still above ``tol``."""
        return [j for j, gap in enumerate(self.gaps) if not gap <= tol]

    def as_dict(self) -> dict[str, Any]:
        return {
            "primal": self.total_primal,
            "dual": self.total_dual,
            "relative_gap": self.relative_gap,
            "passes": self.passes,
            "problems": [{"primal": p, "dual": d} for p, d in zip(self.primal, self.dual, strict=True)],
        }


def relative_gap(primal: float, dual: float, rounding: float = 0.0, negligible: float = math.inf) -> float:
    """Return how far the primal is above the optimum at most, as a share: (|primal − dual| + rounding) over the
    primal or, where that is not positive, over −dual. See Certificate for ``negligible``; 0 within it.

    The optimum P* is in [dual, primal]. P > 0: no weights have less than (1 − gap) P. P < 0: P* is at least the
    dual, so (P − P*) / |P*| ≤ (P − dual) / |dual|, and no weights have less than P / (1 − gap); from P = 0 on, the
    gap is 1 or more."""
    off = abs(primal - dual) + rounding
    if primal > 0:
        return off / primal
    return 0.0 if -dual <= negligible else off / -dual


@dataclass(frozen=True, slots=True)
class LeaveOneOut:
    """positives, negatives: rows of the second class, and of the first. wrong_positives, wrong_negatives: those
    that a model trained without them might get wrong. All rows with a weight count the same."""

    positives: int
    negatives: int
    wrong_positives: int
    wrong_negatives: int

    def as_dict(self) -> dict[str, Any]:
        """Return plain values: rows; error, at most; recall and precision of the second class, at least."""
        right = self.positives - self.wrong_positives
        positives = right + self.wrong_negatives
        rows = self.positives + self.negatives
        return {
            "rows": rows,
            "error": (self.wrong_positives + self.wrong_negatives) / rows,
            "recall": right / self.positives if self.positives else 0.0,
            "precision": right / positives if positives else 0.0,
        }


class LeaveOneOutCounts:
    """Counts rows as blocks of them go by. bias: the constant feature's value."""

    def __init__(self, bias: float) -> None:
        self._bias = bias
        self._counts = np.zeros((2, 2), np.int64)  # of the second class, of the first: rows, wrong ones

    def add(
        self,
        block: Block,
        alpha: NDArray[np.float64],
        margin: NDArray[np.float64],
        positive: NDArray[np.bool_],
        there: NDArray[np.bool_],
    ) -> None:
        """Add rows. alpha, margin: (n,) of the same weights. positive: (n,) of the second class. there: (n,) has
        it a weight?"""
        wrong = there & (margin <= 0)
        doubtful = np.flatnonzero(there & (margin > 0) & (alpha > 0))
        if len(doubtful):
            squares = squared_norms(block.X, doubtful) + self._bias**2
            wrong[doubtful] = alpha[doubtful] * squares >= margin[doubtful]
        for row, side in zip(self._counts, (positive, ~positive), strict=True):
            row += np.count_nonzero(there & side), np.count_nonzero(wrong & side)

    def answer(self) -> LeaveOneOut:
        (positives, wrong_positives), (negatives, wrong_negatives) = self._counts.tolist()
        return LeaveOneOut(positives, negatives, wrong_positives, wrong_negatives)


def squared_norms(X: Matrix, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """‖x_i‖² of the rows (m,), ascending."""
    out = np.empty(len(rows))
    if isinstance(X, CSR):
        from llsvm.kernels import products

        products.squared_norms(X.indptr, X.data, rows, out)
        return out
    step = max(1, _PIECE_BYTES // (8 * X.shape[1]))
    for start in range(0, len(rows), step):
        piece = X[rows[start : start + step]]
        np.einsum("ij,ij->i", piece, piece, dtype=np.float64, out=out[start : start + step])
    return out
