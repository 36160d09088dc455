"""When loops have cost as much as second order would: counts and prices, no clock, so that runs repeat."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum, auto

import numpy as np

from llsvm.dataset import DatasetInfo
from llsvm.solvers.report import SECONDS, UPDATES
from llsvm.solvers.sequential_dual.loops import Loops
from llsvm.solvers.sequential_dual.multipliers import Multipliers
from llsvm.solvers.sequential_dual.newton_system import MAX_PRODUCTS, Way, way_of
from llsvm.solvers.sequential_dual.shares import BlockShares
from llsvm.solvers.sequential_dual.tuning import SequentialDualTuning

READINGS = 4  # of all rows, in a step of Newton's method
PAIRS = 6  # of classes that a row on a face adds to its matrix, about
_STEP_ROWS = 4096


class Due(Enum):
    """NOTHING but loops; NEWTON: multipliers.py; MANY_COLUMNS: many_columns.py."""

    NOTHING = auto()
    NEWTON = auto()
    MANY_COLUMNS = auto()


WhatIsDue = Callable[[], Due]


def what_is_due(
    newton: Multipliers | None,
    loops: Loops,
    part: BlockShares,
    dataset: DatasetInfo,
    tuning: SequentialDualTuning,
    primal: float,
    tol: float,
) -> Due:
    """loops: and what they have done so far. newton: None: it has no room; nothing is due once it has begun.
    primal: the least P so far. tol: the relative gap asked for.

    Loops go on while they are expected to reach that, at the rate at which they have closed it so far, for what
    Newton's method would cost, but not for ever."""
    values = dataset.nnz / max(dataset.n_rows, 1)
    spent = _spent(loops, values, tuning)
    if spent <= 0.0 or newton is None or newton.W is not None:
        return Due.NOTHING
    n, k = part.share.shape
    width = dataset.n_columns + 1
    on_face, rank, pairs = 0, 0, 0
    for start in range(0, n, _STEP_ROWS):
        some = part.share[start : start + _STEP_ROWS]
        free = np.count_nonzero((some > 0) & (some < 1), axis=1)
        on_face += int(np.count_nonzero(free))
        rank += int(free.sum())
        pairs += int(((free + 1) ** 2)[free > 0].sum())
    product = _product(k, values, tuning)
    copied = on_face * part.block.nbytes / max(n, 1) / 8
    whole = k * width
    way = way_of(whole, rank, copied, newton.matrix_numbers)
    if way is Way.PRODUCTS and k * width**2 > newton.matrix_numbers:  # no room for a preconditioner
        return Due.MANY_COLUMNS if worst_rows_are_due(loops, on_face, dataset, tuning) else Due.NOTHING
    if way is Way.WHOLE:
        system = pairs * _square(dataset, tuning) + whole**3 * tuning.step_factor
    elif way is Way.RANK:
        system = on_face**2 * values * tuning.step_product + rank**3 * tuning.step_factor
    else:
        system = 0.5 * MAX_PRODUCTS * n * product
    price, gap, goal = tuning.newton_steps * (n * product + system), primal - loops.dual, tol * primal
    if spent <= tuning.newton_patience * price or gap <= goal:
        return Due.NOTHING
    closed = math.log(max(loops.loss_at_zero(part) / gap, 1.0))
    is_slow = spent * math.log(gap / goal) > price * closed
    return Due.NEWTON if is_slow or spent > tuning.loops_patience * price else Due.NOTHING


def readings_pay(loops: Loops, n_active: int, dataset: DatasetInfo, tuning: SequentialDualTuning) -> bool:
    """Have loops cost what Newton's method would whose rows are read each time? n_active: rows on a face, or that
    may be."""
    n, values = dataset.n_rows, dataset.nnz / max(dataset.n_rows, 1)
    k, width = len(dataset.classes), dataset.n_columns + 1
    step = READINGS * tuning.read_value * dataset.nnz + n * _product(k, values, tuning)
    step += n_active * PAIRS * _square(dataset, tuning) + (k * width) ** 3 * tuning.step_factor
    return _spent(loops, values, tuning) > tuning.readings_patience * tuning.newton_steps * step


def worst_rows_are_due(
    loops: Loops, n_active: int, dataset: DatasetInfo, tuning: SequentialDualTuning
) -> bool:
    """n_active: rows on a face, or that may be."""
    values = dataset.nnz / max(dataset.n_rows, 1)
    product = _product(len(dataset.classes), values, tuning)
    return _spent(loops, values, tuning) > tuning.worst_products * n_active * product


def work_so_far(loops: Loops, dataset: DatasetInfo, tuning: SequentialDualTuning) -> dict[str, float]:
    """On loops, for ``Report.extra``."""
    n, k = max(dataset.n_rows, 1), len(dataset.classes)
    seconds = 1e-9 * _of_loops(loops, dataset.nnz / n, tuning)
    return {UPDATES: loops.scores / (n * k), SECONDS: seconds}


def _spent(loops: Loops, values: float, tuning: SequentialDualTuning) -> float:
    """ns, on loops so far, beyond what loading Newton's method takes; values: of a row."""
    return _of_loops(loops, values, tuning) - tuning.newton_start


def _of_loops(loops: Loops, values: float, tuning: SequentialDualTuning) -> float:
    """ns, so far; values: of a row. A share that extrapolation moves costs two scores: one, and adding to the
    weights."""
    scores = loops.scores + 2.0 * loops.moved
    return loops.made * tuning.loop + scores * (tuning.score + tuning.score_value * values)


def _square(dataset: DatasetInfo, tuning: SequentialDualTuning) -> float:
    """ns, of a row with itself."""
    width, values = dataset.n_columns + 1, dataset.nnz / max(dataset.n_rows, 1)
    dense = width**2 * tuning.step_product
    return dense if dataset.is_dense else min(dense, (values + 1.0) ** 2 * tuning.step_sparse)


def _product(k: int, values: float, tuning: SequentialDualTuning) -> float:
    """ns, of a row with the weights, and back."""
    return 2.0 * k * (tuning.step_score + tuning.step_value * values)
