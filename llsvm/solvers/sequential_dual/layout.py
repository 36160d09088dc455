"""What the sequential dual method would do with the memory there is: a pure function."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.costs import RowCosts
from llsvm.settings.settings import Settings
from llsvm.solvers.optim.rounding import DOUBLE_BELOW_TOL
from llsvm.solvers.sequential_dual.extrapolation import VARIABLE_BYTES
from llsvm.solvers.sequential_dual.multipliers import line_bytes, row_bytes
from llsvm.solvers.sequential_dual.newton_system import SMALL
from llsvm.solvers.sequential_dual.tuning import SequentialDualTuning

WEIGHTS, NEWTON = "weights", "Newton's method"  # lines of the ledger
ROW_WORK_BYTES = 64  # beside the row and its shares: number, cost, slack, orders
# Shares that are stored are 32-bit floats where rows are not too long: a share a is then a multiple of 2^-24, which
# moves the row's scores by u = C_i ‖x_i‖² times that and its gap by C_i times as much, while what it adds to P may
# be as little as C_i / 2u.
ROUNDING_SHARE = 0.5  # so much of the tolerance that may come to
FEWER = 1, 2, 5  # of the worst rows Newton's method takes all, or this part of them


@dataclass(frozen=True, slots=True)
class WorstRoom:
    """For the worst rows (worst_rows.py). rows_bytes: for copies of the rows themselves, out of core. weights: so
    many float64 of the columns that they have; 0: no room for Newton's method. matrix_numbers: and of its
    matrices."""

    rows_bytes: int
    weights: int
    matrix_numbers: int


@dataclass(frozen=True, slots=True)
class Layout:
    """needs: for ``Stream.prepare``. extrapolates: there is room for that; extrapolation_bytes: for each row, or
    0. keeps: a copy of the weights as last certified has room. dtype: of shares. sparse: they are packed where they
    are stored. matrix_numbers: so many float64 have room for the matrices of Newton's steps;
    None: there is no room for Newton's method. worst: what the worst rows have; None: these are left alone."""

    needs: Needs
    extrapolates: bool
    extrapolation_bytes: int
    keeps: bool
    dtype: np.dtype
    sparse: bool
    matrix_numbers: int | None = None
    worst: WorstRoom | None = None


def layout(
    settings: Settings,
    class_weight: NDArray[np.float64],
    threads: int,
    memory: MemoryLeft,
    tuning: SequentialDualTuning,
) -> Layout:
    """class_weight: (n_classes,) factors of C."""
    dataset, available = memory.dataset, memory.available_bytes
    k = len(dataset.classes)
    weights_bytes = 8 * k * (dataset.n_columns + 1)
    few = k < tuning.extrapolate_below and 2 * weights_bytes <= tuning.extrapolate_share * available
    extrapolates = tuning.extrapolation and few
    keeps = weights_bytes <= tuning.keep_share * available
    as_float32 = _as_float32(settings, class_weight, dataset.squared_norm)
    wanted, without = (_layout(extrapolates, each, as_float32, memory, tuning) for each in (keeps, False))
    each = next((each for each in (wanted, without) if memory.has_room(each.needs)), None)
    chosen = each or _layout(False, False, as_float32, memory, tuning)
    plan = _with_worst_rows(_with_newton(chosen, threads, memory, tuning), threads, memory, tuning)
    missing = _missing_bytes(plan, threads, memory, tuning)
    return replace(plan, needs=replace(plan.needs, missing_bytes=missing)) if missing else plan


def _with_newton(plan: Layout, threads: int, memory: MemoryLeft, tuning: SequentialDualTuning) -> Layout:
    """The same, and Newton's method, if that has room where all rows stay in memory without it; or where they do
    not, and a matrix of all weights has."""
    if not tuning.newton:
        return plan
    dataset = memory.dataset
    k, width = len(dataset.classes), dataset.n_columns + 1
    most = min(int(tuning.newton_share * memory.available_bytes) // 8, tuning.newton_numbers)
    wanted = (k * width) ** 2
    if not memory.fits_in_one_block(plan.needs):
        lines = {**plan.needs.lines, NEWTON: line_bytes((width, k), threads, wanted)}
        needs = replace(plan.needs, lines=lines)
        fits = wanted <= most and memory.has_room(needs)
        return replace(plan, needs=needs, matrix_numbers=wanted) if fits else plan
    if plan.dtype != np.float64:
        return plan
    if wanted > most and k * width > SMALL:
        wanted = min(most, max(k * width**2, 2 * (dataset.n_rows * (k - 1)) ** 2))
    lines = {**plan.needs.lines, NEWTON: line_bytes((width, k), threads, wanted)}
    needs = replace(plan.needs, lines=lines, row_work_bytes=plan.needs.row_work_bytes + row_bytes(k))
    return replace(plan, needs=needs, matrix_numbers=wanted) if memory.fits_in_one_block(needs) else plan


def _with_worst_rows(plan: Layout, threads: int, memory: MemoryLeft, tuning: SequentialDualTuning) -> Layout:
    """The same, and room for the worst rows: Newton's, or where there are too many columns for that, in memory or
    not, room of their own, if the limit does without."""
    dataset = memory.dataset
    k, width, n = len(dataset.classes), dataset.n_columns + 1, tuning.worst_rows
    in_memory = memory.fits_in_one_block(plan.needs)
    if plan.matrix_numbers is not None and not in_memory:
        return plan
    if plan.matrix_numbers is not None:
        return replace(plan, worst=WorstRoom(0, k * width, plan.matrix_numbers))
    if not tuning.newton or plan.dtype != np.float64 or k * width**2 <= tuning.newton_numbers:
        return plan
    fits = memory.fits_in_one_block if in_memory else memory.has_room
    most = int(tuning.worst_share * (memory.available_bytes - plan.needs.nbytes))
    for rows in (*(n // part for part in FEWER), 0):
        room, nbytes = _worst_room(rows, k, width, threads, memory, tuning)
        needs = replace(plan.needs, lines={**plan.needs.lines, "worst rows": nbytes})
        if nbytes <= most and fits(needs):
            return replace(plan, needs=needs, worst=room)
    return plan


def _worst_room(
    rows: int, k: int, width: int, threads: int, memory: MemoryLeft, tuning: SequentialDualTuning
) -> tuple[WorstRoom, int]:
    """With Newton's method for so many rows, and the bytes that it takes."""
    dataset, n = memory.dataset, tuning.worst_rows
    rows_bytes = int(max(2 * n * dataset.held_bytes_per_row, memory.pages.largest_row_bytes)) + 8 * n * k
    columns = 1 + min(width, int(n * dataset.nnz / max(dataset.n_rows, 1)) + 1) * rows // n
    matrix_numbers = min(2 * (rows * (k - 1)) ** 2, tuning.newton_numbers)
    room = WorstRoom(rows_bytes, k * columns if rows else 0, matrix_numbers)
    nbytes = 4 * rows_bytes + n * (ROW_WORK_BYTES + row_bytes(k))
    nbytes += line_bytes((columns, k), threads, matrix_numbers) if rows else 0
    return room, nbytes


def _missing_bytes(plan: Layout, threads: int, memory: MemoryLeft, tuning: SequentialDualTuning) -> int:
    """Of what second order needs where all rows stay in memory: Newton's method of its own, or over the worst
    rows."""
    has_newton = plan.worst is not None and plan.worst.weights > 0
    if has_newton or not tuning.newton or not memory.fits_in_one_block(plan.needs):
        return 0
    dataset = memory.dataset
    k, width = len(dataset.classes), dataset.n_columns + 1
    if k * width**2 <= tuning.newton_numbers:
        wanted = line_bytes((width, k), threads, k * width**2) + dataset.n_rows * row_bytes(k)
    else:
        nbytes = _worst_room(tuning.worst_rows // FEWER[-1], k, width, threads, memory, tuning)[1]
        wanted = int(nbytes / tuning.worst_share)
    wanted += dataset.n_rows * k * (np.dtype(np.float64).itemsize - plan.dtype.itemsize)
    return max(1, wanted - memory.spare_bytes(plan.needs))


def _layout(
    extrapolates: bool, keeps: bool, as_float32: bool, memory: MemoryLeft, tuning: SequentialDualTuning
) -> Layout:
    """as_float32: that is precise enough for shares that are stored."""
    dataset = memory.dataset
    k = len(dataset.classes)
    # the weights, now and as a pass begins, or, in memory, as last certified; for extrapolation two more copies;
    # shares
    weights_bytes = 8 * k * (dataset.n_columns + 1)
    extrapolation_bytes = VARIABLE_BYTES * (1 + k // 16) if extrapolates else 0
    copies, sparse = 4 if extrapolates else 2, k >= tuning.sparse_from
    stored = np.dtype(np.float32 if as_float32 else np.float64)

    def needs(dtype: np.dtype, keeps: bool = False) -> Needs:
        lines = {WEIGHTS: (copies + keeps) * weights_bytes}
        return Needs(lines, ROW_WORK_BYTES + k * dtype.itemsize + extrapolation_bytes)

    # Where all rows stay at hand their shares do too, as float64 if these have room.
    double = np.dtype(np.float64)
    at_hand = memory.fits_in_one_block(needs(double))
    dtype = double if at_hand else stored
    at_hand = at_hand or memory.fits_in_one_block(needs(stored))
    if at_hand:
        return Layout(needs(dtype), extrapolates, extrapolation_bytes, True, dtype, sparse)
    if not memory.has_room(needs(dtype, keeps)):
        dtype = np.dtype(np.float32)  # rather than to refuse
    chosen = replace(needs(dtype, keeps), row_state_bytes=k * dtype.itemsize, sparse_state=sparse)
    return Layout(chosen, extrapolates, extrapolation_bytes, keeps, dtype, sparse)


def _as_float32(settings: Settings, class_weight: NDArray[np.float64], squared_norm: float) -> bool:
    """Is float32 enough for shares that are stored?"""
    cost = float(RowCosts.of_classes(settings.C, class_weight).by_class.max())
    size = cost * (squared_norm + settings.constant**2)
    off = 2.0**-23 * size * size
    return settings.tol >= DOUBLE_BELOW_TOL and off <= ROUNDING_SHARE * settings.tol
