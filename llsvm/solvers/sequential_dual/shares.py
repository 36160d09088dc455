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

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.solvers.state import ArrayRows
from llsvm.spill.row_state import RowState
from llsvm.stream.sparse_state import SparseState

# Bytes of a row, a share, a dimension of a face, or a value that is copied, in lists and in work on them: eight
# numbers. With fewer a run would take more memory than its limit; with more it would ask for a larger limit than it
# needs.
LISTED_BYTES = 64


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

    @property
    def n_active(self) -> int:
        """Rows that were free or violating when they were last visited."""
        return int(np.count_nonzero(self.slack <= 0))

    def with_costs(self, cost: NDArray[np.float64]) -> BlockShares:
        """The same rows and arrays, with other costs above 0 where these are."""
        other = copy(self)
        other.cost = cost
        return other


KeptShares = ArrayRows | RowState | SparseState  # of all rows
