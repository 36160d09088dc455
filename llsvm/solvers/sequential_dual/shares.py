"""The direct multi-class problems, their duals in shares, and rows at hand with theirs.

Keerthi, Sundararajan, Chang, Hsieh, Lin: A sequential dual method for large scale multi-class linear SVMs
(KDD 2008). With scores s_m = w_m·x_i and e_m = [m ≠ y_i], the loss of row i is

    Crammer-Singer (eq. 1)     max_m (s_m + e_m) − s_y
    Weston-Watkins (eq. 14)    Σ_{m≠y} max(0, 1 + s_m − s_y)

and costs C_i times that. Both duals have the same form in the shares a_im ≥ 0, m ≠ y_i, that the classes have
in the cost of row i:

    w_m = Σ_{i: y_i = m} C_i x_i Σ_c a_ic − Σ_{i: y_i ≠ m} C_i a_im x_i,    D(a) = Σ_im C_i a_im − ½ Σ_m ‖w_m‖²
    Crammer-Singer (eq. 4)     Σ_m a_im ≤ 1;  the paper's α_i^m = −C_i a_im, its α_i^y = C_i Σ_m a_im
    Weston-Watkins (eq. 16)    a_im ≤ 1;      the paper's α_i^m = C_i a_im

so one kernel does both, and only the sub-problem of a row differs. (The paper minimises f = −D.) Both losses are
hinges: the paper has no squared ones.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.spill.row_state import RowState
from llsvm.stream.sparse_state import SparseState


class BlockShares:
    """Rows at hand with what the solver keeps for them.

    cost: (n,) C_i. share: (n, k) dual variables. slack: (n,) float32 of the scores, ∞ for rows that cost nothing.
    """

    def __init__(self, block: Block, cost: NDArray[np.float64], share: NDArray[np.floating]) -> None:
        self.block = block
        self.rows = block.rows.copy()  # the block's own may be a view of a buffer that changes
        self.n_rows = block.n_rows
        self.cost = cost
        self.share = share
        self.slack = np.where(cost > 0, 0.0, np.inf).astype(np.float32)

    def labels(self, rows: slice) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Return the class ids and the costs of these rows."""
        return self.block.y[rows], self.cost[rows]

    def with_costs(self, cost: NDArray[np.float64]) -> BlockShares:
        """The same rows and arrays, with other costs above 0 where these are."""
        other = copy(self)
        other.cost = cost
        return other


class SharesAtHand:
    """The shares of all rows in an array, (n, k), as RowValues."""

    def __init__(self, share: NDArray[np.floating]) -> None:
        self.array = share
        self.n_rows, self.width = share.shape
        self.dtype = share.dtype

    def get(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        return self.array[rows]

    def set(self, rows: NDArray[np.int64], values: NDArray[Any]) -> None:
        self.array[rows] = values


KeptShares = SharesAtHand | RowState | SparseState  # of all rows


def squared_norm(w: NDArray[np.float64]) -> float:
    """Σ ‖w_m‖²; not by BLAS, whose threads would spin between the loops."""
    return float(np.einsum("ij,ij", w, w))


def coef_of(w: NDArray[np.float64]) -> NDArray[np.float64]:
    """(k, d + 1), a view; for two classes the difference (1, d + 1), which decides between them."""
    return w.T if w.shape[1] > 2 else (w[:, 1:] - w[:, :1]).T
