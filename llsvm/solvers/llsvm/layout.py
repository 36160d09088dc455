"""What coordinate descent (llsvm) would do with the memory there is: a pure function."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from llsvm.dataset import DatasetInfo
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.costs import RowCosts
from llsvm.objective.losses import loss_of
from llsvm.objective.problems import Problems, Variant
from llsvm.settings.objective import ONE_CLASS
from llsvm.settings.settings import Settings
from llsvm.solvers.llsvm.duals import block_state_bytes
from llsvm.solvers.llsvm.multipliers import ROW_BYTES as NEWTON_ROW_BYTES
from llsvm.solvers.llsvm.second_order import (
    SECOND_ORDER,
    missing_bytes,
    useful_bytes,
)
from llsvm.solvers.llsvm.sweeps import copies_of_weights
from llsvm.solvers.llsvm.tuning import LLSVMTuning
from llsvm.solvers.optim.rounding import DOUBLE_BELOW_TOL

WEIGHTS = "weights"  # the ledger's line
# Bytes that working on a row takes beside the row itself: row number, cost, sign, order, slack and what is
# computed from them; per problem: α, margin, position in the active set.
ROW_WORK_BYTES = 96
ROW_PROBLEM_BYTES = 32
PAIR_BYTES = 40  # more where pairs of classes are the problems: order by class, the pair's α and margins
# More of each thread for the costs of a problem that has its own; and of each variant of the problems that has
# such, for these and who is left out
COST_BYTES = 16
THREAD_BYTES = 64
"""Of a row, for each thread beyond the first, at a problem of its own: sign, order, what follows from them."""
# A dual variable that is free is off by 2^-25 of its value as float32, which moves its own row's margin by C ‖x‖²
# times that, and the gap by twice as large a share. Where that is more than this share of the tolerance (times the
# spread of a regression's targets), and below DOUBLE_BELOW_TOL, they are stored as float64.
ROUNDING_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Layout:
    """needs: for ``Stream.prepare``. at_hand: all rows come as one block, and their dual variables stay with them
    as float64. round_to_float32: those that are stored are float32.
    few_copies: of the weights; those that a pass measures are float32, and the best so far lie on disk.
    start_on_disk: so do those that a pass measures.
    tuning: as the memory allows. second_order_bytes: see Run."""

    needs: Needs
    at_hand: bool
    round_to_float32: bool
    few_copies: bool
    start_on_disk: bool
    tuning: LLSVMTuning
    second_order_bytes: int = 0

    @property
    def state_dtype(self) -> np.dtype:
        return np.dtype(np.float32 if self.round_to_float32 else np.float64)


def layout(
    settings: Settings,
    class_weight: NDArray[np.float64],
    threads: int,
    memory: MemoryLeft,
    problems: Problems,
    tuning: LLSVMTuning,
) -> Layout:
    """class_weight: (n_classes,) factors of C. problems: to be solved together; alone, and where no state is kept,
    they do with few copies of their weights where there is no room for more; another of these goes to disk where
    all rows are at hand then."""
    planned = partial(_layout, settings, class_weight, threads, memory, problems)
    found = planned(tuning)
    fixed = settings.paper or settings.loss == ONE_CLASS or settings.tol < DOUBLE_BELOW_TOL
    fixed = fixed or memory.keeps_state or len(problems.variants) > 1
    if fixed or memory.has_room(found.needs):
        return found
    alone = replace(tuning, parallel_above=sys.maxsize)  # threads that share rows have a copy each
    few = planned(alone, few_copies=True)
    if few.at_hand:
        return few
    on_disk = planned(alone, few_copies=True, start_on_disk=True)
    return on_disk if on_disk.at_hand else few


def _layout(
    settings: Settings,
    class_weight: NDArray[np.float64],
    threads: int,
    memory: MemoryLeft,
    problems: Problems,
    tuning: LLSVMTuning,
    few_copies: bool = False,
    start_on_disk: bool = False,
) -> Layout:
    dataset = memory.dataset
    k, width = len(problems), problems.width
    weights_bytes = 8 * k * (dataset.n_columns + 1)
    # w, w as a pass or its epochs begin, the best so far; each thread's own of one problem
    copies = copies_of_weights(dataset.n_columns, threads, tuning) * weights_bytes // k
    # of the one-class SVM: Σ C_i x_i, weights of a feasible α, as they are offered, and of second order
    more = 4 * weights_bytes if settings.loss == ONE_CLASS else 0
    start = min(threads, k) * weights_bytes // k if start_on_disk else weights_bytes // 2
    own = weights_bytes + start if few_copies else 3 * weights_bytes
    lines = {WEIGHTS: own + copies + more}
    row_work_bytes = ROW_WORK_BYTES + PAIR_BYTES * problems.pairs + ROW_PROBLEM_BYTES * width
    row_work_bytes += THREAD_BYTES * (min(threads, k) - 1)
    row_work_bytes += COST_BYTES * min(threads, k) * problems.has_own_weights
    row_work_bytes += COST_BYTES * sum(variant != Variant() for variant in problems.variants)
    spare = memory.spare_bytes(Needs(lines, row_work_bytes))
    # Without room for Newton's method over all rows, sweeps in memory crawl at large C, where blocks get on, if
    # there is room for these. What the method takes for each column would be missing there, too.
    room = spare + dataset.n_rows * (row_work_bytes - block_state_bytes(width))
    crawls = room < NEWTON_ROW_BYTES * dataset.n_rows
    in_blocks = Needs(lines, row_work_bytes, True, 8 * width)
    at_hand = spare >= 0 and not settings.paper and not (crawls and memory.has_room(in_blocks))
    missing = second_order = 0
    if at_hand:
        lines[SECOND_ORDER] = second_order = min(useful_bytes(memory, min(threads, k)), spare)
        missing = missing_bytes(memory, room)
    by_class = RowCosts.of_classes(settings.C, class_weight).by_class
    least = 1.0 if problems.of_rest else 0.0  # others than positive rows have weight 1
    weights = (v.cost * np.maximum(v.class_weight or 1.0, least) for v in problems.variants)
    cost = max(float((by_class * each).max()) for each in weights)
    round_to_float32 = not at_hand and shares_as_float32(settings, cost, dataset)
    itemsize = 4 if round_to_float32 else 8
    state_bytes = 0 if at_hand else width * itemsize
    needs = Needs(lines, row_work_bytes, not at_hand, state_bytes, missing_bytes=missing)
    return Layout(needs, at_hand, round_to_float32, few_copies, start_on_disk, tuning, second_order)


def shares_as_float32(settings: Settings, cost: float, dataset: DatasetInfo) -> bool:
    """Is float32 enough for dual variables? cost: the largest of a row of weight 1."""
    longest = dataset.squared_norm + settings.constant**2
    slope = loss_of(settings).slope
    off = 2.0**-24 * cost * longest * (slope if math.isfinite(slope) else 1.0)
    unit = dataset.target.spread if dataset.target is not None and math.isfinite(slope) else 1.0
    return settings.tol >= DOUBLE_BELOW_TOL and off <= ROUNDING_SHARE * settings.tol * unit
