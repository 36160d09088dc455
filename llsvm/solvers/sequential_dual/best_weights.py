"""The weights that are certified: which multiple of those measured, and the best of all passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.certificate import Certificate
from llsvm.objective.rounding import RoundingBound
from llsvm.solvers.optim.blas import dot
from llsvm.solvers.row_products import coef_of
from llsvm.solvers.sequential_dual.problem import JointProblem
from llsvm.solvers.sequential_dual.scale import Multiple, beyond_rounding, scaled
from llsvm.solvers.sequential_dual.shares import BlockShares
from llsvm.solvers.state import Value

Array = NDArray[np.float64]


class BestWeights:
    """copy: (d + 1, k) room for a copy of the best; None: each certificate is of the weights just measured, as they
    are. much: rounding matters where it comes to more than this relative gap."""

    def __init__(self, copy: Array | None, bound: RoundingBound, problem: JointProblem, much: float) -> None:
        self.copy = copy
        self.best = Multiple(1.0, np.inf)  # what was copied
        self._bound, self._problem, self._much = bound, problem, much

    def multiple(self, part: BlockShares, w: Array, losses: float, dual: float) -> Multiple:
        """Return the best multiple of w. part: all rows. losses: Σ C_i loss_i of w. dual: D."""
        primal = 0.5 * dot(w, w) + losses
        plain = self.rounded(scaled(self._problem, part, w, primal, dual), w, dual)
        if plain.rounding_gap <= self._much:
            return plain
        shift = plain.factor * self._bound.margin_shift(coef_of(w))
        longer = self.rounded(beyond_rounding(self._problem, part, w, plain.factor, shift), w, dual)
        return min(plain, longer, key=lambda multiple: multiple.primal + multiple.rounding)

    def rounded(self, multiple: Multiple, w: Array, dual: float) -> Multiple:
        """Return the same with what rounding may add to P. w: as measured. dual: D."""
        measured, factor = self._certificate(multiple, w, min(dual, multiple.primal), 0), multiple.factor
        rounding, gap = factor * sum(measured.rounding), factor * measured.rounding_gap
        return replace(multiple, rounding=rounding, rounding_gap=gap)

    def certificate(
        self, multiple: Multiple, w: Array, dual: float, passes: int
    ) -> tuple[Array, Certificate]:
        """Return the best weights so far, (d + 1, k), where a copy of them is kept, else w; and the certificate of
        these."""
        if self.copy is not None:
            if multiple.primal + multiple.rounding < self.best.primal + self.best.rounding:
                self.best = multiple
                np.multiply(w, multiple.factor, out=self.copy)
            w, multiple = self.copy, self.best
        return w, self._certificate(multiple, w, dual, passes)

    def _certificate(self, multiple: Multiple, w: Array, dual: float, passes: int) -> Certificate:
        close = np.array([multiple.close])
        return self._bound.certificate(coef_of(w), [multiple.primal], [dual], passes, close, multiple.beyond)

    # -- what a SolverState holds of it -----------------------------------------------------------------

    @property
    def arrays(self) -> dict[str, Array]:
        return {} if self.copy is None else {"best w": self.copy}

    @property
    def numbers(self) -> dict[str, Value]:
        finite: dict[str, Value] = {
            name: value for name, value in asdict(self.best).items() if np.isfinite(value)
        }
        return {} if self.copy is None else {"best": finite}

    def restore(self, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> None:
        """Go on from what these were."""
        if self.copy is not None and "best w" in arrays:
            self.copy[...] = arrays["best w"]
            self.best = Multiple(**numbers["best"])
