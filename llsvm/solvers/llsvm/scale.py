"""Which multiple of its weights a pass measures and hands back: see llsvm/objective/scale.py. Where C is large,
coordinate descent knows the weights' direction long before its margins are exact enough to cost little.

Only the hinge has it: smooth losses cost next to nothing where a margin is a little short. The best multiple is
found where all rows are at hand; elsewhere a pass that follows second order over spilled rows tries some, and
one of weights that were rounded to 32-bit floats: what that takes off the margins of free rows, which should be 1,
costs as much for each of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.scale import FAR, LEFT, best_factor, scaled_primal
from llsvm.solvers.llsvm.block_state import BlockState
from llsvm.solvers.llsvm.run import Run

Vector = NDArray[np.float64]

OF_ROUNDED = np.concatenate([[1.0], 1.0 + 0.5 ** np.arange(10.0, 24.0)])  # of weights
TRIED = np.concatenate([[1.0], 1.0 + 0.5 ** np.arange(0.0, 15.0, 0.5)])  # multiples


class Scale:
    """For the problems of a run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        loss = run.sweeps.loss
        self._is_hinge, self._is_rounded = loss.name == "hinge", run.start.dtype == np.float32

    def factors(self, second_order: bool) -> Vector:
        """Those that a pass over several blocks tries. second_order: has second order
        over spilled rows made the weights?"""
        if not self._is_hinge:
            return TRIED[:1]
        if self._is_rounded and not self._run.stream.in_one_block:
            return OF_ROUNDED
        return TRIED if second_order else TRIED[:1]

    def factor(self, part: BlockState, c: int, square: float) -> float:
        """Of weights of problem ``c`` with this ‖w‖², whose margins the part has: all rows."""
        if not self._is_hinge:
            return 1.0
        if self._is_rounded:
            rows, _, margin = part.of(c)
            return best_factor(square, margin, part.cost(c)[rows])
        t, primal, scaled = self._primals(part, c, square)
        dual = float(self._run.sweeps.dual[c])
        return t if scaled - dual <= LEFT * (primal - dual) else 1.0

    def is_enough(self, part: BlockState, c: int, gap: float, enough: float) -> bool:
        """Is that of the best multiple of the present weights at most ``enough``, though the gap as met is far
        above? As far as the part's margins tell, which are as last seen."""
        sweeps = self._run.sweeps
        dual = float(sweeps.dual[c])
        if not self._is_hinge or gap <= FAR * dual or part is not self._run.duals.whole:
            return False
        square = float(np.einsum("i,i", sweeps.w[c], sweeps.w[c]))
        return self._primals(part, c, square)[2] - dual <= enough

    def gap_at_rest(self, w: Vector, sums: Vector) -> float:
        """The gap of the best of ``TRIED``, were all other rows of the problem at rest, at 0 with a margin of 1
        or more or at C with less: ½ (t − 1)² ‖w‖² and what these rows add. w: (d + 1,). sums: see
        ``rows_gaps``."""
        square = float(np.einsum("i,i", w, w))
        return float(np.min(0.5 * (self.factors(True) - 1.0) ** 2 * square + sums))

    def rows_gaps(self, alpha: Vector, margin: Vector, cost: Vector, target: Vector | float) -> Vector:
        """What rows (n,) add to the gap of a problem at each of the multiples that a pass tries: Σ t α m + C φ(t
        m) − C b(α/C)."""
        loss, factors = self._run.sweeps.loss, self.factors(True)
        share = np.divide(alpha, cost, out=np.zeros_like(alpha), where=cost > 0)
        linear = float(np.einsum("i,i", alpha, margin))
        fixed = float(np.einsum("i,i", cost, loss.dual_value(share, target)))
        each = [float(np.einsum("i,i", cost, loss.value(t * margin, target))) for t in factors]
        return factors * linear + np.array(each) - fixed

    def _primals(self, part: BlockState, c: int, square: float) -> tuple[float, float, float]:
        """The best factor, P(w), and P(factor · w). square: ‖w‖²."""
        rows, _, margin = part.of(c)
        cost = part.cost(c)[rows]
        primal = 0.5 * square + float(np.einsum("i,i", cost, np.maximum(1.0 - margin, 0.0)))
        dual = float(self._run.sweeps.dual[c])
        if not primal - dual > FAR * primal:
            return 1.0, primal, primal
        t, scaled = scaled_primal(square, margin, cost)
        return t, primal, scaled
