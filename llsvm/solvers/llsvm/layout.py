"""What coordinate descent (llsvm) would do with the memory there is: a pure function."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from llsvm.block import FLOAT64_BYTES
from llsvm.dataset import DatasetInfo
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.costs import RowCosts
from llsvm.objective.losses import loss_of
from llsvm.objective.problems import Problems
from llsvm.settings.objective import ONE_CLASS
from llsvm.settings.settings import Settings
from llsvm.solvers.llsvm.duals import block_state_bytes, row_work_bytes
from llsvm.solvers.llsvm.second_order import (
    SECOND_ORDER,
    missing_bytes,
    newton_bytes,
    useful_bytes,
)
from llsvm.solvers.llsvm.sweeps import copies_of_weights
from llsvm.solvers.llsvm.tuning import LLSVMTuning
from llsvm.solvers.optim.rounding import DOUBLE_BELOW_TOL
from llsvm.solvers.stopping import EXACT

WEIGHTS = "weights"  # the line of the memory plan for all copies of the weights


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
    weights_bytes = FLOAT64_BYTES * k * (dataset.n_columns + 1)
    # w, w as a pass or its epochs begin, the best so far; each thread's own of one problem
    copies = copies_of_weights(dataset.n_columns, threads, tuning) * weights_bytes // k
    # of the one-class SVM: Σ C_i x_i, weights of a feasible α, as they are offered, and of second order
    more = 4 * weights_bytes if settings.loss == ONE_CLASS else 0
    start = min(threads, k) * weights_bytes // k if start_on_disk else weights_bytes // 2
    own = weights_bytes + start if few_copies else 3 * weights_bytes
    lines = {WEIGHTS: own + copies + more}
    work_bytes = row_work_bytes(problems, threads)
    spare = memory.spare_bytes(Needs(lines, work_bytes))
    # Without room for Newton's method over all rows, sweeps in memory crawl at large C, where blocks get on, if
    # there is room for these. What the method takes for each column would be missing there, too.
    room = spare + dataset.n_rows * (work_bytes - block_state_bytes(width))
    crawls = room < newton_bytes(dataset.n_rows, 0, 0, dense=False)
    in_blocks = Needs(lines, work_bytes, True, FLOAT64_BYTES * width)
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
    dtype = np.dtype(np.float32 if round_to_float32 else np.float64)
    state_bytes = 0 if at_hand else width * dtype.itemsize
    needs = Needs(lines, work_bytes, not at_hand, state_bytes, missing_bytes=missing)
    return Layout(needs, at_hand, round_to_float32, few_copies, start_on_disk, tuning, second_order)


def shares_as_float32(settings: Settings, cost: float, dataset: DatasetInfo) -> bool:
    """Is float32 enough for dual variables? cost: the largest of a row of weight 1.

    One that is free is off by 2^-25 of its value as float32, which moves its own row's margin by C ‖x‖² times that,
    and the gap by twice as large a share. Where that is more than ``EXACT`` of the tolerance (times the spread of a
    regression's targets), and below DOUBLE_BELOW_TOL, they are stored as float64."""
    longest = dataset.squared_norm + settings.constant**2
    slope = loss_of(settings).slope
    off = 0.5 * float(np.finfo(np.float32).eps) * cost * longest * (slope if math.isfinite(slope) else 1.0)
    unit = dataset.target.spread if dataset.target is not None and math.isfinite(slope) else 1.0
    return settings.tol >= DOUBLE_BELOW_TOL and off <= EXACT * settings.tol * unit
