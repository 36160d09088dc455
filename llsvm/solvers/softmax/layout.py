"""What multinomial logistic regression would do with the memory there is: a pure function."""

from __future__ import annotations

from dataclasses import dataclass

from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.solvers.row_products import piece_bytes
from llsvm.solvers.softmax.sample import sample_bytes
from llsvm.solvers.softmax.tuning import SoftmaxTuning

WEIGHTS = (
    14  # arrays as large as the weights: a point, a trial, a step, conjugate gradients, what is reported
)
OF_INTERCEPT = 4  # more, where it is free: sums of classes, a feasible point's gradient
OF_THREADS = 2  # and for each thread: sums and curvatures
PIECES = 8  # pieces of rows, for each thread
OF_SAMPLE = 7  # more arrays as large as the weights, where a sample's Hessian is solved
SHARED = 3  # of the Hessian that a sample's classes share: itself, its factor, a piece's
ROW_WORK_BYTES = 24  # C_i, and what is gathered of them
BEND_BYTES = 32  # and, for a sample, how much rows bend, sums of it, and those that are met


@dataclass(frozen=True, slots=True)
class Layout:
    """needs: for ``Stream.prepare``. whole: there is a Hessian over all weights, else products with it.
    sample_rows: whose Hessian is the preconditioner of these; 0: its diagonal is. shared: there is one that its
    classes share, too."""

    needs: Needs
    whole: bool
    sample_rows: int = 0
    shared: bool = False


def layout(threads: int, memory: MemoryLeft, tuning: SoftmaxTuning, intercept: bool = False) -> Layout:
    """intercept: it is free."""
    k, width = len(memory.dataset.classes), memory.dataset.n_columns + 1
    lines = {
        "weights": 8 * k * width * (WEIGHTS + OF_INTERCEPT * intercept + OF_THREADS * threads),
        "rows at hand": PIECES * threads * piece_bytes(width if memory.dataset.is_dense else 0),
    }
    without = Layout(Needs(dict(lines), ROW_WORK_BYTES), False)
    hessian_bytes = 8 * (k * width) ** 2
    if k * width > tuning.max_whole or hessian_bytes > tuning.hessian_share * memory.available_bytes:
        if width > tuning.max_columns:
            return without
        wanted = memory.fits_in_one_block if memory.fits_in_one_block(without.needs) else memory.has_room
        n_rows = min(tuning.rows_per_column * width, memory.dataset.n_rows)
        weights = lines["weights"] + 8 * k * width * OF_SAMPLE
        for sample_rows, shared in ((n_rows, True), (n_rows, False), (n_rows // 2, False)):
            lines |= {"weights": weights, "sample": sample_bytes(sample_rows, memory.dataset)}
            lines["preconditioner"] = 8 * SHARED * width * width * shared
            sampled = Layout(Needs(dict(lines), ROW_WORK_BYTES + BEND_BYTES), False, sample_rows, shared)
            if wanted(sampled.needs):
                return sampled
        return without
    pairs = 8 * min(threads, k) * width**2  # what is to be added to the part of a pair of classes
    needs = Needs({**lines, "Hessian": hessian_bytes + pairs}, ROW_WORK_BYTES)
    return Layout(needs, True) if memory.has_room(needs) else without
