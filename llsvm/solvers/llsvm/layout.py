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
from llsvm.objective.losses import loss_of
from llsvm.objective.problems import Problems, RowCosts
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
from llsvm.solvers.optim.line_search import DOUBLE_BELOW_TOL

WEIGHTS = "weights"  # the line of the memory plan for all copies of the weights
# Share of the tolerance that storing dual variables as 32-bit floats may add to a gap. Lower stores more problems'
# as 64-bit floats, which take twice the bytes; higher leaves gaps that rounding keeps open.
ROUNDING_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Layout:
    """How coordinate descent uses the memory.

    needs: for ``Stream.prepare``.
    in_memory: all rows come as one block, and their dual variables stay with them as float64.
    round_to_float32: dual variables that are stored are float32.
    few_copies: of the weights; those that a pass measures are float32, and the best so far lie on disk.
    start_on_disk: the weights that a pass measures lie on disk, too.
    tuning: as the memory allows. second_order_bytes: see Run."""

    needs: Needs
    in_memory: bool
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
    """Return what coordinate descent does with the memory.

    Where not all copies of the weights have room, it does with few of them, unless a state is kept or the problems
    have variants; and where only the weights that a pass measures keep the rows out of memory, these go to disk.

    class_weight: (n_classes,) factors of C. problems: to be solved together."""
    planned = partial(_layout, settings, class_weight, threads, memory, problems)
    usual = planned(tuning)
    needs_all = settings.paper or settings.loss == ONE_CLASS or settings.tol < DOUBLE_BELOW_TOL
    needs_all = needs_all or memory.keeps_state or len(problems.variants) > 1
    if needs_all or memory.has_room(usual.needs):
        return usual
    unshared = replace(tuning, parallel_above=sys.maxsize)  # threads that share rows have a copy each
    few = planned(unshared, few_copies=True)
    if few.in_memory:
        return few
    on_disk = planned(unshared, few_copies=True, start_on_disk=True)
    return on_disk if on_disk.in_memory else few


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
    """Return what coordinate descent does with so many copies of the weights; the arguments as of ``layout``.

    All rows are in memory if they have room there, and Newton's method over them has, too, or blocks have none.
    What they leave is for Newton's method, and what it would want beside that is noted as missing."""
    dataset = memory.dataset
    k, width = len(problems), problems.width
    weights_bytes = FLOAT64_BYTES * k * (dataset.n_columns + 1)
    # w, w as a pass or its epochs begin, the best so far; each thread's own of one problem
    copies = copies_of_weights(dataset.n_columns, threads, tuning) * weights_bytes // k
    # of the one-class SVM: Σ C_i x_i, weights of a feasible α, as they are offered, and of second order
    one_class = 4 * weights_bytes if settings.loss == ONE_CLASS else 0
    start = min(threads, k) * weights_bytes // k if start_on_disk else weights_bytes // 2
    run_bytes = weights_bytes + start if few_copies else 3 * weights_bytes
    lines = {WEIGHTS: run_bytes + copies + one_class}
    work_bytes = row_work_bytes(problems, threads)
    spare_bytes = memory.spare_bytes(Needs(lines, work_bytes))
    # Without room for Newton's method over all rows, sweeps in memory crawl at large C, where blocks get on, if
    # there is room for these. What the method takes for each column would be missing there, too.
    room = spare_bytes + dataset.n_rows * (work_bytes - block_state_bytes(width))
    has_newton = room >= newton_bytes(dataset.n_rows, 0, 0, dense=False)
    in_blocks = Needs(lines, work_bytes, True, FLOAT64_BYTES * width)
    in_memory = spare_bytes >= 0 and not settings.paper and (has_newton or not memory.has_room(in_blocks))
    missing = second_order = 0
    if in_memory:
        lines[SECOND_ORDER] = second_order = min(useful_bytes(memory, min(threads, k)), spare_bytes)
        missing = missing_bytes(memory, room)
    by_class = RowCosts.of_classes(settings.C, class_weight).by_class
    least_weight = 1.0 if problems.of_rest else 0.0  # others than positive rows have weight 1
    factors = (v.cost * np.maximum(v.class_weight or 1.0, least_weight) for v in problems.variants)
    cost = max(float((by_class * factor).max()) for factor in factors)
    round_to_float32 = not in_memory and shares_as_float32(settings, cost, dataset)
    dtype = np.dtype(np.float32 if round_to_float32 else np.float64)
    state_bytes = 0 if in_memory else width * dtype.itemsize
    needs = Needs(lines, work_bytes, not in_memory, state_bytes, missing_bytes=missing)
    return Layout(needs, in_memory, round_to_float32, few_copies, start_on_disk, tuning, second_order)


def shares_as_float32(settings: Settings, cost: float, dataset: DatasetInfo) -> bool:
    """Return whether float32 is enough for dual variables. cost: the largest of a row of weight 1.

    One that is free is off by 2^-25 of its value as float32, which moves its own row's margin by C ‖x‖² times that,
    and the gap by twice as large a share. Where that is more than ``ROUNDING_SHARE`` of the tolerance (times the
    spread of a regression's targets), and below DOUBLE_BELOW_TOL, they are stored as float64."""
    longest = dataset.squared_norm + settings.constant**2
    slope = loss_of(settings).slope
    off = 0.5 * float(np.finfo(np.float32).eps) * cost * longest * (slope if math.isfinite(slope) else 1.0)
    unit = dataset.target.spread if dataset.target is not None and math.isfinite(slope) else 1.0
    return settings.tol >= DOUBLE_BELOW_TOL and off <= ROUNDING_SHARE * settings.tol * unit
