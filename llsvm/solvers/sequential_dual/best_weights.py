"""The weights that are certified: which multiple of those measured, and the best of all passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.certificate import Certificate
from llsvm.objective.rounding import RoundingBound
from llsvm.solvers.sequential_dual.scale import Multiple, beyond_rounding, scaled
from llsvm.solvers.sequential_dual.shares import BlockShares, coef_of
from llsvm.solvers.state import Value

Array = NDArray[np.float64]


class BestWeights:
    """kept: (d + 1, k) room for a copy of the best; None: each certificate is of the weights just measured, as they
    are. each_class: see ``scaled``. much: rounding matters where it comes to more than this relative gap."""

    def __init__(self, kept: Array | None, bound: RoundingBound, each_class: bool, much: float) -> None:
        self.kept = kept
        self.best = Multiple(1.0, np.inf)  # what was copied
        self._bound, self._each_class, self._much = bound, each_class, much

    def multiple(
        self, part: BlockShares, w: Array, bias: float, primal: float, dual: float, always: bool
    ) -> Multiple:
        """Which multiple of w is best. part: all rows. primal, dual: P(w) and D. always: see ``scaled``."""
        if self.kept is None:
            return Multiple(1.0, primal)
        plain = scaled(part, w, bias, self._each_class, primal, dual, always)
        if self.rounding_gap(plain, w, dual) <= self._much:
            return plain
        shift = plain.factor * self._bound.margin_shift(coef_of(w))
        longer = beyond_rounding(part, w, bias, self._each_class, plain.factor, shift)
        self.rounding_gap(longer, w, dual)
        return min(plain, longer, key=lambda multiple: multiple.primal + multiple.rounding)

    def rounding_gap(self, multiple: Multiple, w: Array, dual: float) -> float:
        """Set what rounding may add to P; returns the relative gap that is due to it."""
        found = self._certificate(multiple, w, min(dual, multiple.primal), 0)
        multiple.rounding = multiple.factor * sum(found.rounding)
        return multiple.factor * found.rounding_gap

    def certificate(
        self, multiple: Multiple, w: Array, dual: float, passes: int
    ) -> tuple[Array, Certificate]:
        """Of the best weights so far, where they are kept, and which these are (d + 1, k)."""
        if self.kept is not None:
            self.offer(multiple, w)
            w, multiple = self.kept, self.best
        return w, self._certificate(multiple, w, dual, passes)

    def offer(self, multiple: Multiple, w: Array) -> None:
        """Keep these weights, where any are kept and they are better than what was."""
        best = self.best
        if self.kept is not None and multiple.primal + multiple.rounding < best.primal + best.rounding:
            self.best = multiple
            np.multiply(w, multiple.factor, out=self.kept)

    def _certificate(self, multiple: Multiple, w: Array, dual: float, passes: int) -> Certificate:
        close = np.array([multiple.close])
        return self._bound.certificate(coef_of(w), [multiple.primal], [dual], passes, close, multiple.beyond)

    # -- what a SolverState holds of it -----------------------------------------------------------------

    @property
    def arrays(self) -> dict[str, Array]:
        return {} if self.kept is None else {"best w": self.kept}

    @property
    def numbers(self) -> dict[str, Value]:
        best = self.best
        each = {"factor": best.factor, "primal": best.primal, "close": best.close, "beyond": best.beyond}
        finite = {
            name: value for name, value in {**each, "rounding": best.rounding}.items() if np.isfinite(value)
        }
        return {} if self.kept is None else {"best": dict(finite)}

    def restore(self, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> None:
        """Go on from what these were."""
        if self.kept is not None and "best w" in arrays:
            self.kept[...] = arrays["best w"]
            self.best = Multiple(**numbers["best"])
