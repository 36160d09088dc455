"""RowCosts: C · class weight · sample weight, the one place where that is multiplied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.objective.problems import Fold


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
        """C: of the settings, > 0. class_weight: (n_classes,) float64 factors of it."""
        return cls(C * class_weight, leaves_out)

    def of(self, block: Block) -> NDArray[np.float64]:
        """(n,) float64 C_i of the block's rows, which come from a Stream."""
        cost = self.by_class[block.class_ids]
        if block.weight is not None:
            cost = cost * block.weight
        if self.leaves_out is not None:
            cost[self.leaves_out.contains(block.rows, block.class_ids)] = 0.0
        return cost
