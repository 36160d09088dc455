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
    positive: (n_classes,) another factor, of the rows of a class in the problem where it stands against the rest;
        None: 1 for all.
    """

    by_class: NDArray[np.float64]
    leaves_out: Fold | None = None
    positive: NDArray[np.float64] | None = None

    @classmethod
    def of_classes(
        cls,
        C: float,
        class_weight: NDArray[np.float64],
        leaves_out: Fold | None = None,
        one_vs_rest: bool = False,
    ) -> RowCosts:
        """C: of the settings, > 0. class_weight: (n_classes,) float64 factors of it. one_vs_rest: each class stands
        against the rest: of three or more the weights are those of the positive rows alone, as LIBLINEAR has it.
        Raises UsageError for costs whose squares, times those of sample weights, would be no 64-bit floats."""
        by_class = C * class_weight
        bad = (by_class > 0) & ((by_class < _LEAST) | (by_class > _MOST))
        if bad.any():
            raise UsageError(
                f"-C times the weight of a class is {by_class[bad][0]:g}; pass one from {_LEAST:g} to {_MOST:g}"
            )
        if are_of_positive_rows(class_weight, one_vs_rest):
            return cls(np.full(len(by_class), C), leaves_out, class_weight)
        return cls(by_class, leaves_out)

    @property
    def largest(self) -> NDArray[np.float64]:
        """Return (n_classes,) the largest C_i of a row of sample weight 1, in all problems."""
        return self.by_class if self.positive is None else self.by_class * np.maximum(self.positive, 1.0)

    def in_problem(
        self, cost: NDArray[np.float64], positive: int, in_class: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Return (n,) C_i in the problem where class ``positive`` is the positive one. cost: of the rows, see
        ``of``. in_class: which of them are of it."""
        return cost if self.positive is None else np.where(in_class, cost * self.positive[positive], cost)

    def of(self, block: Block) -> NDArray[np.float64]:
        """Return (n,) float64 C_i of the block's rows, which come from a Stream."""
        cost = self.by_class[block.class_ids]
        if block.weight is not None:
            cost = cost * block.weight
        if self.leaves_out is not None:
            cost[self.leaves_out.contains(block.rows, block.class_ids)] = 0.0
        return cost


def are_of_positive_rows(class_weight: NDArray[np.float64], one_vs_rest: bool) -> bool:
    """Return whether class weights, (n_classes,), differ from problem to problem."""
    return one_vs_rest and len(class_weight) > 2 and bool((class_weight != 1.0).any())
