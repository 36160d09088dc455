"""The duals of the direct multi-class problems as the method of multipliers takes them (multipliers.py).

For some rows, with scores s_im = w_m·x_i, e_im = [m ≠ y_i] and a quadratic that is maximised over a convex set S_i:

    Crammer-Singer   p_i ∈ S_i = {p ≥ 0, Σ_m p_im = C_i}: p_im = C_i a_im for m ≠ y_i, and what is left is p_iy
    Weston-Watkins   p_i ∈ S_i = {0 ≤ p_im ≤ C_i for m ≠ y_i, p_iy = 0}: p_im = C_i a_im

where a are the shares of shares.py. Row i adds x_i v_iᵀ to the weights, v_im = −p_im for m ≠ y_i, and v_iy is what
these lack to 0; D = Σ p_im e_im − ½ ‖W‖². All arrays are of n rows: p, scores and the like (n, k) float64; y (n,)
int32; cost (n,).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.problems import Positions
from llsvm.solvers.sequential_dual.kernels import N_TOTALS, prox_rows

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Ids = NDArray[np.integer]


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
