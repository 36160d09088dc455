"""DualBundle: the best dual point among all mixtures of a few feasible ones, without keeping their α.

The dual of an SVM is D(α) = s − R*(v) with s and v = Σ α_i y_i x_i linear in α, and mixtures of feasible
points are feasible; so the pairs (s, v) of some passes suffice to find the best mixture of their α:

    l2:  max_θ  θ·s − ½‖Vθ‖²  over the simplex, with (0, 0) among the points
    l1:  D = s if ‖v‖∞ ≤ 1; a point is shrunk until it is (α = 0 is feasible, so the segment to it is too)

For squared losses s holds Σ α − Σ α²/(4c), concave in α: a mixture is worth at least the mixture of the s.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.saved_numbers import SavedNumbers
from llsvm.solvers.state import Value
from llsvm.solvers.state_arrays import ProblemArrays

_STEPS = 100
_PRECISION = 1e-6  # of the mixture, relative


class DualBundle:
    """At most ``size`` points of one problem; see the file's head.

    best: the best dual objective known.
    """

    def __init__(self, arrays: ProblemArrays, size: int, l1: bool = False) -> None:
        """arrays: for s (size + 1,), v of each point (size + 1, width), their products, shares of the best mixture.
        size: points kept, at least 2.
        l1: the dual is that of ‖w‖₁.
        """
        self.best = 0.0  # D(0)
        self._l1 = l1
        self._n = 1  # the first point is α = 0
        points = 0 if l1 else size + 1  # the l1 dual keeps its best value alone
        self._s = arrays.table("bundle: s", points)
        self._V = arrays.vectors("bundle: v", points)
        self._products = arrays.table("bundle: products", points, points)
        self._share = arrays.table("bundle: shares", points)

    @staticmethod
    def nbytes(width: int, size: int) -> int:
        return 8 * (size + 1) * (width + size + 3)

    def numbers(self) -> dict[str, Value]:
        """What there is to know beside the arrays."""
        return {"best": self.best, "points": self._n}

    def restore(self, saved: SavedNumbers) -> None:
        """Take up ``numbers``; the arrays are restored by themselves."""
        self.best, self._n = saved.real("best"), saved.whole("points")

    def add(self, s: float, v: NDArray[np.float64], image: NDArray[np.float64] | None = None) -> float:
        """Take a feasible point; returns the best dual objective known.

        s: what of its dual objective is linear in α.
        v: (width,) Σ α y x.
        image: (width,) K v where v holds the coefficients α y and products are vᵀKv'; None for v itself.
        """
        if self._l1:
            return self._add_l1(s, v)
        image = v if image is None else image
        at = self._place()
        self._s[at], self._V[at] = s, v
        row = self._V[: self._n] @ image
        self._products[at, : self._n] = row
        self._products[: self._n, at] = row
        self._share[at] = 0.0
        self.best = max(self.best, s - 0.5 * float(v @ image), self._mix())
        return self.best

    def mixture(self) -> NDArray[np.float64]:
        """v (width,) of the mixture that was found last (not with l1)."""
        return np.asarray(self._share[: self._n] @ self._V[: self._n])

    def _place(self) -> int:
        """Where the next point goes: a free place, or that of the point which the best mixture needs least."""
        if self._n < len(self._s):
            self._n += 1
            return self._n - 1
        return 1 + int(np.argmin(self._share[1:]))

    def _mix(self) -> float:
        """Maximise over the simplex by steps between two points, from the last mixture; returns the best value."""
        n = self._n
        s, products, share = self._s[:n], self._products[:n, :n], self._share[:n]
        total = share.sum()
        share[:] = share / total if total > 0 else 1.0 / n
        slope = s - products @ share
        enough = _PRECISION * (1e-300 + abs(self.best))
        for _ in range(_STEPS):
            up = int(slope.argmax())
            down = int(np.where(share > 0, slope, np.inf).argmin())
            gain = slope[up] - slope[down]  # at least what any mixture is better than this one
            if gain <= enough:
                break
            bend = products[up, up] + products[down, down] - 2 * products[up, down]
            step = min(share[down], gain / bend) if bend > 0 else share[down]
            share[up] += step
            share[down] -= step
            slope -= step * (products[:, up] - products[:, down])
        return float(share @ s - 0.5 * share @ products @ share)

    def _add_l1(self, s: float, v: NDArray[np.float64]) -> float:
        largest = float(np.abs(v).max(initial=0.0))
        self.best = max(self.best, s / max(1.0, largest))
        return self.best
