"""RowCosts: C · class weight · sample weight, the one place where that is multiplied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block


@dataclass(frozen=True, slots=True)
class RowCosts:
    """The factor C_i of each row's loss.

    by_class: (n_classes,) float64, C times the class's weight; of a row of sample weight 1.
    """

    by_class: NDArray[np.float64]

    @classmethod
    def of_classes(cls, C: float, class_weight: NDArray[np.float64]) -> RowCosts:
        """C: of the settings, > 0. class_weight: (n_classes,) float64 factors of it."""
        return cls(C * class_weight)

    def of(self, block: Block) -> NDArray[np.float64]:
        """(n,) float64 C_i of the block's rows, which come from a Stream."""
        cost = self.by_class[block.class_ids]
        return cost if block.weight is None else cost * block.weight
