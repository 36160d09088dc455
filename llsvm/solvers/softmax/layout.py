"""What multinomial logistic regression would do with the memory there is: a pure function."""

from __future__ import annotations

from dataclasses import dataclass

from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.solvers.row_products import piece_bytes
from llsvm.solvers.softmax.tuning import SoftmaxTuning

WEIGHTS = (
    14  # arrays as large as the weights: a point, a trial, a step, conjugate gradients, what is reported
)
OF_INTERCEPT = 4  # more, where it is free: sums of classes, a feasible point's gradient
OF_THREADS = 2  # and for each thread: sums and curvatures
PIECES = 8  # pieces of rows, for each thread
SHARED = 3  # of the Hessian that all classes share: itself, its factor
ROW_WORK_BYTES = 24  # C_i, and what is gathered of them


@dataclass(frozen=True, slots=True)
class Layout:
    """needs: for ``Stream.prepare``. whole: there is a Hessian over all weights, else products with it. shared: for
    these, rows stay in memory and there is one that all classes share."""

    needs: Needs
    whole: bool
    shared: bool = False


def layout(threads: int, memory: MemoryLeft, tuning: SoftmaxTuning, intercept: bool = False) -> Layout:
    """intercept: it is free."""
    k, width = len(memory.dataset.classes), memory.dataset.n_columns + 1
    lines = {
        "weights": 8 * k * width * (WEIGHTS + OF_INTERCEPT * intercept + OF_THREADS * threads),
        "rows at hand": PIECES * threads * piece_bytes(width if memory.dataset.is_dense else 0),
    }
    without = Layout(Needs(lines, ROW_WORK_BYTES), False)
    hessian_bytes = 8 * (k * width) ** 2
    if k * width > tuning.max_whole or hessian_bytes > tuning.hessian_share * memory.available_bytes:
        sample = min(tuning.rows_per_column * width, memory.dataset.n_rows)
        shared_bytes = 8 * width * (SHARED * width + 2 * sample)
        shared = Needs({**lines, "preconditioner": shared_bytes}, ROW_WORK_BYTES)
        if width <= tuning.max_columns and memory.fits_in_one_block(shared):
            return Layout(shared, False, True)
        return without
    needs = Needs({**lines, "Hessian": hessian_bytes}, ROW_WORK_BYTES)
    return Layout(needs, True) if memory.has_room(needs) else without
