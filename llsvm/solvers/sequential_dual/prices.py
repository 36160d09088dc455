"""When loops have cost as much as Newton's method would: counts and prices, no clock, so that runs repeat."""

from __future__ import annotations

import numpy as np

from llsvm.dataset import DatasetInfo
from llsvm.solvers.sequential_dual.loops import Loops
from llsvm.solvers.sequential_dual.newton_system import MAX_PRODUCTS, SMALL
from llsvm.solvers.sequential_dual.shares import BlockShares
from llsvm.solvers.sequential_dual.tuning import SequentialDualTuning

_STEP_ROWS = 4096


def is_due(
    loops: Loops, part: BlockShares, dataset: DatasetInfo, matrix_numbers: int, tuning: SequentialDualTuning
) -> bool:
    """loops: and what they have done so far. matrix_numbers: see newton_system.py."""
    values = dataset.nnz / max(dataset.n_rows, 1)
    spent = loops.made * tuning.loop + loops.scores * (tuning.score + tuning.score_value * values)
    if spent <= tuning.newton_start:
        return False
    return spent > tuning.newton_start + tuning.newton_steps * _step(part, dataset, matrix_numbers, tuning)


def _step(
    part: BlockShares, dataset: DatasetInfo, matrix_numbers: int, tuning: SequentialDualTuning
) -> float:
    """ns of a step, if the shares are inside their bounds that are so now."""
    n, k = part.share.shape
    values, width = dataset.nnz / max(dataset.n_rows, 1), dataset.n_columns + 1
    on_face, rank, pairs = 0, 0, 0
    for start in range(0, n, _STEP_ROWS):
        some = part.share[start : start + _STEP_ROWS]
        free = np.count_nonzero((some > 0) & (some < 1), axis=1)
        on_face += int(np.count_nonzero(free))
        rank += int(free.sum())
        pairs += int(((free + 1) ** 2)[free > 0].sum())
    product = 2.0 * n * k * (tuning.step_score + tuning.step_value * values)
    copied = on_face * part.block.nbytes / max(n, 1) / 8
    whole = k * width
    if whole <= SMALL or (whole * whole <= matrix_numbers and whole <= 2 * rank):
        system = pairs * width**2 * tuning.step_product + whole**3 * tuning.step_factor
    elif 2 * (rank * rank + copied) <= matrix_numbers and 2 * rank <= whole:
        system = on_face**2 * values * tuning.step_product + rank**3 * tuning.step_factor
    elif whole * whole <= matrix_numbers:
        system = pairs * width**2 * tuning.step_product + whole**3 * tuning.step_factor
    else:
        system = 0.5 * MAX_PRODUCTS * product
    return product + system
