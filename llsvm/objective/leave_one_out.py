"""Leave-one-out error, at most, from the dual variables and margins of one training.

Trained without row t, a model gives it a margin of at least y_t w·x_t − α_t ‖x_t‖² (Jaakkola & Haussler 1999,
theorem 1, of problems without an intercept: ours is the weight of a constant feature). So it can only be wrong
where that is not positive. With ξ_t = 1 − y_t w·x_t this is α_t ‖x_t‖² + ξ_t ≥ 1, the ξα estimate of Joachims
(2000, "Estimating the generalization performance of an SVM efficiently") with ρ = 1 and each row's own norm for
R². It holds for the optimum; of weights within a small gap of that it is a close estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block, Matrix

_PIECE_BYTES = 1 << 15  # of dense rows, as float64: copies of them are not reserved


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
        from llsvm.kernels import row_sums

        row_sums.squared_norms(X.indptr, X.data, rows, out)
        return out
    step = max(1, _PIECE_BYTES // (8 * X.shape[1]))
    for start in range(0, len(rows), step):
        piece = X[rows[start : start + step]]
        np.einsum("ij,ij->i", piece, piece, dtype=np.float64, out=out[start : start + step])
    return out
