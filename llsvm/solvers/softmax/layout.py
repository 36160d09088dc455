"""What multinomial logistic regression would do with the memory there is: a pure function."""

from __future__ import annotations

from dataclasses import dataclass

from llsvm.block import FLOAT64_BYTES
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.solvers.optim.newton_system import MOST_ORDER
from llsvm.solvers.optim.row_operator import COST_BYTES, pieces_bytes, weights_bytes
from llsvm.solvers.softmax.passes import Curvature

WHOLE_ORDER = 1500
"""The most weights, of all classes, whose whole Hessian is summed and factorized. Higher, that costs more than
products do: with 2,410 weights 6 to 11 times as much; lower, steps that the pass itself could find take
products."""
INTERCEPT_ARRAYS = 4
"""Arrays as large as the weights that a free intercept takes: sums of classes and a feasible gradient. Too few, and
a run takes more memory than its limit; too many, and it does without a Hessian that has room."""


@dataclass(frozen=True, slots=True)
class Layout:
    """needs: for ``Stream.prepare``. curvature: what passes sum of the Hessian."""

    needs: Needs
    curvature: Curvature


def layout(threads: int, memory: MemoryLeft, intercept: bool = False) -> Layout:
    """Return what there is room for without sending rows that are in memory to disk.

    intercept: it is free."""
    k, width = len(memory.dataset.classes), memory.dataset.n_columns + 1
    lines = {
        "weights": weights_bytes((width, k), threads, INTERCEPT_ARRAYS * intercept),
        "rows at hand": pieces_bytes(width if memory.dataset.is_dense else 0, threads),
    }
    without = Needs(lines, COST_BYTES)
    has_room = memory.fits_in_one_block if memory.fits_in_one_block(without) else memory.has_room
    for kind, order, max_order, more in (
        # the part of a pair of classes, to which each thread adds
        (Curvature.WHOLE, k * width, min(WHOLE_ORDER, MOST_ORDER), min(threads, k)),
        (Curvature.SHARED, width, MOST_ORDER, 1 + threads),  # the factor, and what each thread sums
    ):
        needs = Needs({**lines, "Hessian": FLOAT64_BYTES * (order**2 + more * width**2)}, COST_BYTES)
        if order <= max_order and has_room(needs):
            return Layout(needs, kind)
    return Layout(without, Curvature.DIAGONAL)
