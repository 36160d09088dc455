"""RowCosts: C · class weight · sample weight, the one place where that is multiplied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.errors import UsageError
from llsvm.objective.problems import Fold

_LEAST, _MOST = 1e-60, 1e60  # of C_i, without the weight of the row


@dataclass(frozen=True, slots=True)
class RowCosts:
    """The factor C_i of each row's loss.

    by_class: (n_classes,) float64, C times the class's weight; of a row of sample weight 1.
    leaves_out: a fold of the rows that count nothing, or None.
    """

    by_class: NDArray[np.float64]
    leaves_out: Fold | None = None

    @classmethod
    def of_classes(
        cls, C: float, class_weight: NDArray[np.float64], leaves_out: Fold | None = None
    ) -> RowCosts:
        """C: of the settings, > 0. class_weight: (n_classes,) float64 factors of it. Raises UsageError for costs
        whose squares, times those of sample weights, would be no 64-bit floats."""
        by_class = C * class_weight
        bad = (by_class > 0) & ((by_class < _LEAST) | (by_class > _MOST))
        if bad.any():
            raise UsageError(
                f"-C times the weight of a class is {by_class[bad][0]:g}; pass one from {_LEAST:g} to {_MOST:g}"
            )
        return cls(by_class, leaves_out)

    def of(self, block: Block) -> NDArray[np.float64]:
        """(n,) float64 C_i of the block's rows, which come from a Stream."""
        cost = self.by_class[block.class_ids]
        if block.weight is not None:
            cost = cost * block.weight
        if self.leaves_out is not None:
            cost[self.leaves_out.contains(block.rows, block.class_ids)] = 0.0
        return cost
