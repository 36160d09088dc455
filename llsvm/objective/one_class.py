"""The one-class SVM's objective: the threshold that suits given weights, and a dual point that is feasible.

    P(w, ρ) = ½‖w‖² − ν C ρ + Σ C_i max(0, ρ − w·x_i),   C_i the row's sample weight, C their sum

    D(α) = −½‖Σ α_i x_i‖²,   0 ≤ α_i ≤ C_i,   Σ α_i = ν C

(Schölkopf et al. 2001 times ν n, as Chou, Lin & Lin 2020 and LIBLINEAR's -s 21 have it). At the optimum P = D =
−½‖w‖² ≤ 0. P is convex and piecewise linear in ρ, whose best value is where rows of w·x < ρ weigh ν C in all; and
P(t w, t ρ) = ½ t²‖w‖² + t L, L = −ν C ρ + Σ C_i max(0, ρ − w·x_i), is least at t = −L/‖w‖², where it is
−½ L²/‖w‖². So only the direction of w has to be found.

α whose sum S is not ν C is made feasible by the segment to 0 or to α = C_i, which keeps it within its bounds:
α ν C/S where S is too large, else (1 − θ) α + θ C_i, θ = (ν C − S)/(C − S).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.rounding import NOISE

Vector = NDArray[np.float64]

FLAT = 1e-9  # of C: a slope of P in ρ that is as good as 0
TRACE = 1e-10  # of ρ
NEGLIGIBLE = 1e-6  # of a row's length: a w / (ν C) that is as good as 0
FINEST, COARSEST, RATIO = 1e-12, 1e6, 1.25  # distances of candidates, as shares of their unit


def best_threshold(score: Vector, cost: Vector, total: float) -> float:
    """ρ of the least P, in the middle where there are many (as LIBSVM's, for b); a trace less, so that rows that
    are at it are no outliers, whatever rounding does.

    score: (n,) w·x_i. cost: (n,) C_i, not all 0. total: ν C."""
    order = np.argsort(score, kind="stable")
    order = order[cost[order] > 0]
    slope = np.cumsum(cost[order]) - total
    flat = FLAT * float(cost.sum())
    first = min(int(np.searchsorted(slope, -flat)), len(order) - 1)
    last = min(first + 1, len(order) - 1) if slope[first] <= flat else first
    rho = 0.5 * float(score[order[first]] + score[order[last]])
    return rho - TRACE * abs(rho)


def linear_part(score: Vector, cost: Vector, total: float, rho: float) -> float:
    """L, see the file's head. score, cost: (n,)."""
    return float(np.einsum("i,i", cost, np.maximum(rho - score, 0.0))) - total * rho


def linear_rounding(total: float, rho: float, cost_sum: float, centre: float) -> float:
    """Return by how much more than measured L may be, where scores were known as what they are above ``centre``.

    t = −L/‖w‖² multiplies what rounding changes of L: where L is little else, the least P of the measured L would
    be below the optimum. total, cost_sum: ν C and C."""
    return 2.0 * NOISE * (total * abs(rho) + cost_sum * abs(centre))


class Candidates:
    """Many values of ρ around one, of which a pass over rows finds the best: nothing is kept of the rows but what
    they weigh, and how their scores sum up, between one candidate and the next."""

    def __init__(self, centre: float, unit: float) -> None:
        """centre: about where the best ρ is. unit: > 0, what distances from it are shares of."""
        count = math.ceil(math.log(COARSEST / FINEST) / math.log(RATIO))
        above = unit * FINEST * RATIO ** np.arange(count)
        self.centre = centre
        self._off = np.concatenate([-above[::-1], [0.0], above])
        self._weight, self._sum = np.zeros(len(self._off) + 1), np.zeros(len(self._off) + 1)

    def add(self, off: Vector, cost: Vector) -> None:
        """Add rows. off: (n,) scores less ``centre``. cost: (n,) C_i."""
        place = np.searchsorted(self._off, off)
        self._weight += np.bincount(place, cost, len(self._weight))
        self._sum += np.bincount(place, cost * off, len(self._sum))

    def best(self, total: float) -> tuple[float, float]:
        """ρ and L. total: ν C."""
        losses = self._off * np.cumsum(self._weight)[:-1] - np.cumsum(self._sum)[:-1]
        each = losses - total * (self.centre + self._off)
        at = int(np.argmin(each))
        return self.centre + float(self._off[at]), float(each[at])


def feasible_weights(
    v: Vector, alpha_sum: float, total: float, cost_sum: float, all_rows: Vector, out: Vector
) -> Vector:
    """Return Σ α_i x_i of the feasible α next to one whose sum is ``alpha_sum``.

    v: (d,) Σ α_i x_i. total, cost_sum: ν C and C. all_rows: (d,) Σ C_i x_i. out: (d,) where the answer is put."""
    if alpha_sum >= total:
        return np.multiply(v, total / alpha_sum if alpha_sum > 0 else 0.0, out=out)
    share = min((total - alpha_sum) / (cost_sum - alpha_sum), 1.0)
    np.multiply(v, 1.0 - share, out=out)
    out += share * all_rows
    return out


def negligible(total: float, squared_norm: float) -> float:
    """Return an objective that is as good as 0: that of a w which is NEGLIGIBLE. total: ν C. squared_norm: of a
    row."""
    return 0.5 * (NEGLIGIBLE * total) ** 2 * squared_norm


def sum_rounding(total: float, rho: float, n_steps: int) -> float:
    """Return what D may gain at most from a sum of α that so many steps have rounded: the constraint's
    multiplier is ρ."""
    return 2.0 * NOISE * math.sqrt(n_steps + 1.0) * total * abs(rho)
