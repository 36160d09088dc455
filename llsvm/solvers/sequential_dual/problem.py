"""The direct multi-class problems (eqs. 1 and 14), their duals in shares (eqs. 4 and 16), and sums over rows with
theirs.

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

The method of multipliers (multipliers.py) takes the dual variables p (``JointDual``). For some rows, with scores
s_im = w_m·x_i, e_im = [m ≠ y_i] and a quadratic that is maximised over a convex set S_i:

    Crammer-Singer   p_i ∈ S_i = {p ≥ 0, Σ_m p_im = C_i}: p_im = C_i a_im for m ≠ y_i, and what is left is p_iy
    Weston-Watkins   p_i ∈ S_i = {0 ≤ p_im ≤ C_i for m ≠ y_i, p_iy = 0}: p_im = C_i a_im

Row i adds x_i v_iᵀ to the weights, v_im = −p_im for m ≠ y_i, and v_iy is what these lack to 0;
D = Σ p_im e_im − ½ ‖W‖². All arrays are of n rows: p, scores and the like (n, k) float64; y (n,) int32; cost (n,).

Visits of rows and Newton's method keep the weights and D by adding up what they change. Each addition may be off
by 2^-52 of its terms, and where C_i ‖x_i‖ is large, terms are far larger than the D that is left in the end: after
some loops, D as kept may be above that of any feasible point. So where that could matter both are summed again from
the shares, which are exact (``Loops.resum``).

Costs that are larger than any dual variable becomes are taken for smaller ones, in the dual alone
(``lower_costs``). Shares are multiples of 1/grid of C_i, and a visit knows them to 2^-52 of it: p_im to C_i
‖x_i‖² 2^-50 in units of 1/‖x_i‖², of which it may be few. At the optimum Σ_im p_im = Σ ‖w_m‖² + Σ C_i loss_i,
which is at most 2 P of any weights. So costs above that may be taken for it: the optimum of the dual stays what
it is, and what is feasible is feasible. P is measured with the costs as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.objective.problems import Positions
from llsvm.process.threads import Threads
from llsvm.solvers.optim.lapack import dot
from llsvm.solvers.optim.row_operator import RowProducts
from llsvm.solvers.sequential_dual.kernels import N_TOTALS, prox_rows
from llsvm.solvers.state import ArrayRows
from llsvm.spill.row_state import RowState
from llsvm.stream.progress import Progress
from llsvm.stream.sparse_state import SparseState

StoredShares = ArrayRows | RowState | SparseState  # of all rows
Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Ids = NDArray[np.integer]

# Bytes of a row, a share, a dimension of a face, or a value that is copied, in lists and in work on them: eight
# numbers. With fewer a run would take more memory than its limit; with more it would ask for a larger limit than it
# needs.
LISTED_BYTES = 64
# C_i ‖x_i‖² below which the grid of shares is fine enough. With less, costs are lowered, and all shares rounded,
# where that helps nothing; with more, p_im of large costs are too coarse for gaps to close.
LONG = 2.0**30


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


class JointDual(ABC):
    """Dual of a direct multi-class problem, with what Crammer-Singer and Weston-Watkins have in common.
    weston_watkins: whether it is Weston and Watkins's."""

    weston_watkins: bool

    @abstractmethod
    def of_shares(self, share: NDArray[np.floating], y: Ids, cost: Array) -> Array:
        """p of the shares."""

    @abstractmethod
    def shares(self, p: Array, y: Ids, cost: Array, grid: float) -> Array:
        """The shares of p, feasible as multiples of 1/grid."""

    def nearest(self, share: Array, y: Ids) -> Array:
        """Feasible shares, nearly those: without what is negative, or of the own class; more than 1 is scaled."""
        share = np.clip(share, 0.0, 1.0)
        share[np.arange(len(y)), y] = 0.0
        return share

    def prox(
        self, base: Array, scores: Array, sigma: float, y: Ids, cost: Array
    ) -> tuple[Array, Array, Array]:
        """Return the p ∈ S that maximises ⟨p, ∂D/∂p⟩ − ‖p − base‖² / 2σ, the gradient being that at these scores,
        its coefficients v, and totals; see ``prox_rows``."""
        p, v, totals = np.empty(base.shape), np.empty(base.shape), np.zeros(N_TOTALS)
        prox_rows(base, scores, sigma, y, cost, self.weston_watkins, p, v, totals)
        return p, v, totals

    def coefficients(self, p: Array, y: Ids) -> Array:
        """Return v, v_iy being exact where p_iy is far larger than all others."""
        i, v = np.arange(len(y)), -p
        v[i, y] = 0.0
        v[i, y] = -v.sum(axis=1)
        return v

    @abstractmethod
    def losses(self, scores: Array, y: Ids) -> Array:
        """(n,) loss_i."""

    @abstractmethod
    def face(self, p: Array, cost: Array) -> Mask:
        """(n, k) Which of p are free: the prox is differentiable in them."""

    @abstractmethod
    def pair(self, face: Mask, y: Ids, a: int, b: int) -> Array:
        """(n,) P_i[a, b]: while the face stays, −v_i changes by σ P_i s_i if the scores do by s_i."""

    @abstractmethod
    def dimensions(self, face: Mask) -> tuple[Positions, Positions]:
        """(r,) The rows, ascending, and a class for each dimension of their faces: the rank of P_i."""

    def n_dimensions(self, face: Mask) -> Positions:
        """(n,) How many there are of each row."""
        n: Positions = face.sum(axis=1)
        return n

    @abstractmethod
    def factors(self, face: Mask, y: Ids, m: Positions) -> Array:
        """P_i = Σ q qᵀ over the dimensions of row i: the q of each, (r, k). face, y: of its row. m: its class."""

    def gaps(self, share: NDArray[np.floating], scores: Array, y: Ids, cost: Array) -> Array:
        """(n,) C_i (loss_i − Σ_m a_im (s_m + e_im − s_y))."""
        over = scores - scores[np.arange(len(y)), y][:, None]
        over += 1.0
        gap: Array = cost * (self.losses(scores, y) - np.einsum("ij,ij->i", share, over))  # a_iy is 0
        return gap


class CrammerSinger(JointDual):
    weston_watkins = False

    def nearest(self, share: Array, y: Ids) -> Array:
        share = super().nearest(share, y)
        share /= np.maximum(share.sum(axis=1), 1.0)[:, None]
        return share

    def of_shares(self, share: NDArray[np.floating], y: Ids, cost: Array) -> Array:
        p = share.astype(np.float64)
        p[np.arange(len(y)), y] = 1.0 - p.sum(axis=1)
        p *= cost[:, None]
        return p

    def shares(self, p: Array, y: Ids, cost: Array, grid: float) -> Array:
        i = np.arange(len(y))
        share = np.floor(p / np.where(cost > 0, cost, 1.0)[:, None] * grid) / grid
        share[i, y] = 0.0
        excess = np.maximum(share.sum(axis=1) - 1.0, 0.0)  # of rounding: the sums are exact
        share[i, share.argmax(axis=1)] -= excess
        return share

    def losses(self, scores: Array, y: Ids) -> Array:
        own_score = scores[np.arange(len(y)), y]
        over = scores + 1.0
        over[np.arange(len(y)), y] = own_score
        largest: Array = over.max(axis=1) - own_score
        return largest

    def face(self, p: Array, cost: Array) -> Mask:
        return p > 0

    def pair(self, face: Mask, y: Ids, a: int, b: int) -> Array:
        both = face[:, a] & face[:, b]
        return both * ((a == b) - 1.0 / np.maximum(face.sum(axis=1), 1))

    def dimensions(self, face: Mask) -> tuple[Positions, Positions]:
        row, m = np.nonzero(face & (np.cumsum(face, axis=1, dtype=np.int32) > 1))
        return row, m

    def n_dimensions(self, face: Mask) -> Positions:
        return np.maximum(super().n_dimensions(face) - 1, 0)

    def factors(self, face: Mask, y: Ids, m: Positions) -> Array:
        """Helmert's: the t-th, t ≥ 1, is (1, ..., 1, −t) / √(t (t + 1)) over the first t + 1 classes of a face."""
        i, place = np.arange(len(m)), np.cumsum(face, axis=1) - 1
        t = place[i, m].astype(np.float64)
        q = (face & (place < t[:, None])).astype(np.float64)
        q[i, m] = -t
        q /= np.sqrt(t * (t + 1.0))[:, None]
        return q


class WestonWatkins(JointDual):
    weston_watkins = True

    def of_shares(self, share: NDArray[np.floating], y: Ids, cost: Array) -> Array:
        return share * cost[:, None]

    def shares(self, p: Array, y: Ids, cost: Array, grid: float) -> Array:
        return np.minimum(np.rint(p / np.where(cost > 0, cost, 1.0)[:, None] * grid) / grid, 1.0)

    def losses(self, scores: Array, y: Ids) -> Array:
        i = np.arange(len(y))
        over = scores - scores[i, y][:, None]
        over += 1.0
        over[i, y] = 0.0
        total: Array = np.maximum(over, 0.0).sum(axis=1)
        return total

    def face(self, p: Array, cost: Array) -> Mask:
        return (p > 0) & (p < cost[:, None])

    def pair(self, face: Mask, y: Ids, a: int, b: int) -> Array:
        if a == b:
            return face[:, a] + (y == a) * face.sum(axis=1).astype(np.float64)
        return -1.0 * ((face[:, a] & (y == b)) | (face[:, b] & (y == a)))

    def dimensions(self, face: Mask) -> tuple[Positions, Positions]:
        row, m = np.nonzero(face)
        return row, m

    def factors(self, face: Mask, y: Ids, m: Positions) -> Array:
        i, q = np.arange(len(m)), np.zeros(face.shape)
        q[i, m], q[i, y] = 1.0, -1.0
        return q


def joint_dual(multiclass: str) -> JointDual:
    """Return the dual of the method that Settings call so."""
    return CrammerSinger() if multiclass == "crammer-singer" else WestonWatkins()


@dataclass(frozen=True, slots=True)
class JointProblem:
    """A direct multi-class problem, and what works on its rows.

    dual: of the loss. shape: (d + 1, k) of the weights. bias: value of the constant feature. grid: shares are
    multiples of 1/grid. threads: to divide rows over. progress: of the run.
    """

    dual: JointDual
    shape: tuple[int, int]
    bias: float
    grid: float
    threads: Threads
    progress: Progress

    def with_columns(self, width: int) -> JointProblem:
        """Return the same over rows of so many columns, the constant feature included."""
        return replace(self, shape=(width, self.shape[1]))

    def products(self, part: BlockShares) -> RowProducts:
        """Return the products of these rows with weights and coefficients."""
        return RowProducts(part.block, self.bias, *self.shape, self.progress)

    def terms(self, part: BlockShares) -> float:
        """Return Σ C_i² ‖x_i‖², at most: what the terms of D come to."""
        rows = self.products(part).operator
        return float(rows.squares(rows.all).sum()) * float(part.cost.max(initial=0.0)) ** 2

    def sum_of(self, parts: Iterable[BlockShares], w: Array) -> float:
        """Set w (d + 1, k) to the weights that the shares make; return D. parts: all rows, each once."""
        w[...], linear = 0.0, 0.0
        for part in parts:
            products = self.products(part)
            for rows in products.pieces(0, part.n_rows):
                linear += self.add_shares(part, products, rows, w)
        return linear - 0.5 * dot(w, w)

    def add_shares(self, part: BlockShares, products: RowProducts, rows: slice, sums: Array) -> float:
        """Add what the shares of these rows make to sums (d + 1, k); return Σ C_i a_im of them."""
        y, cost = part.labels(rows)
        v = self.dual.coefficients(self.dual.of_shares(part.share[rows], y, cost), y)
        products.add(products.matrix(rows), v, sums)
        return float(v[np.arange(len(y)), y].sum())

    def gaps(self, part: BlockShares, w: Array) -> Array:
        """Return (n,) C_i (loss_i + Σ_m a_im (s_y − s_m − 1)) at the weights w (d + 1, k)."""
        products, gap = self.products(part), np.empty(part.n_rows)
        for rows in products.pieces(0, part.n_rows):
            scores = products.scores(products.matrix(rows), w)
            gap[rows] = self.dual.gaps(part.share[rows], scores, part.block.y[rows], part.cost[rows])
        return gap


def with_costs(part: BlockShares, bound: float) -> BlockShares:
    """Return the rows with costs of ``bound`` at most; the part itself if it has none that are larger."""
    return part.with_costs(np.minimum(part.cost, bound)) if part.cost.max(initial=0.0) > bound else part


def needed_cost(part: BlockShares, terms: float, primal: float) -> float:
    """Return the largest cost that the dual needs, where that is worth the change; else infinity.

    part: all rows, with the costs as they are taken so far. terms: Σ C_i² ‖x_i‖². primal: P of some
    weights."""
    bound, largest = 2.0 * primal, float(part.cost.max(initial=0.0))
    is_long = terms > LONG * largest * part.n_rows
    # half of the largest cost at most: for less, shares are not worth rounding again
    return bound if is_long and 0.0 < 2.0 * bound < largest else np.inf


def lower_costs(problem: JointProblem, part: BlockShares, bound: float) -> BlockShares:
    """Return the rows with costs of ``bound`` at most, and shares in place that are those of the same dual
    variables, or of the nearest that these costs allow. part: rows with the costs as they are taken so far."""
    lower, dual = with_costs(part, bound), problem.dual
    for rows in problem.products(part).pieces(0, part.n_rows):
        y, cost = part.block.y[rows], lower.cost[rows]
        p = dual.of_shares(part.share[rows], y, part.cost[rows])
        p = dual.prox(p, np.zeros_like(p), 0.0, y, cost)[0]
        part.share[rows] = dual.shares(p, y, cost, problem.grid)
    return lower
