"""What the sequential dual method would do with the memory there is: a pure function."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from llsvm.block import FLOAT64_BYTES
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.problems import RowCosts
from llsvm.settings.settings import Settings
from llsvm.solvers.optim.line_search import DOUBLE_BELOW_TOL
from llsvm.solvers.optim.newton_system import MOST_ORDER, matrix_bytes
from llsvm.solvers.sequential_dual import multipliers
from llsvm.solvers.sequential_dual.multipliers import ROW_DIMENSIONS, NewtonRoom
from llsvm.solvers.sequential_dual.problem import LISTED_BYTES

WEIGHTS_LINE, NEWTON_LINE = "weights", "Newton's method"  # lines of the memory plan
# Classes from which on stored shares are packed, since most are 0: packing takes less memory, and more time to get
# and set shares.
SPARSE_FROM = 32
# Share of the memory left for the matrices of Newton's method over all rows, or for all but copies of rows where it
# is over the worst. A larger share leaves less for rows and survivors; with a smaller one fewer data have room for
# it, and without it two of nine hard problems are not solved.
MEMORY_SHARE = 0.25
# Rows that Newton's method takes in all where it has no room for all rows (rounds.py). With fewer, rows that
# contradict the worst ones are left out; more take memory that grows with their square.
WORST_ROWS = 200
# Shares that are stored are 32-bit floats where rows are not too long: a share a is then a multiple of 2^-24, which
# moves the row's scores by u = C_i ‖x_i‖² times that and its gap by C_i times as much, while what it adds to P may
# be as little as C_i / 2u. This share of the tolerance that may come to: with more, rounding may keep the gap open;
# with less, more problems take twice the memory for shares.
ROUNDING_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Layout:
    """needs: for ``Stream.prepare``. extrapolates: there is room for that. dtype: of shares. sparse: they are
    packed where they are stored. newton: None: there is no room for Newton's method."""

    needs: Needs
    extrapolates: bool
    dtype: np.dtype
    sparse: bool
    newton: NewtonRoom | None = None

    @property
    def grid(self) -> float:
        """Shares are multiples of 1 over this, so that their sums are exact."""
        return 2.0 ** (24 if self.dtype == np.float32 else 50)


def layout(
    settings: Settings,
    class_weight: NDArray[np.float64],
    threads: int,
    memory: MemoryLeft,
) -> Layout:
    """class_weight: (n_classes,) factors of C."""
    dataset = memory.dataset
    as_float32 = _as_float32(settings, class_weight, dataset.squared_norm)
    plan = _layout(True, as_float32, memory)
    if not memory.has_room(plan.needs):
        plan = _layout(False, as_float32, memory)
    if not memory.fits_in_one_block(plan.needs):
        return _with_newton_by_readings(plan, threads, memory)
    return _with_newton(plan, threads, memory)


def _with_newton_by_readings(plan: Layout, threads: int, memory: MemoryLeft) -> Layout:
    """The same, and Newton's method over rows that are read for each step, if a matrix of all weights has room."""
    dataset = memory.dataset
    k, width = len(dataset.classes), dataset.n_columns + 1
    matrices = matrix_bytes(k * width, dense=False)
    lines = {**plan.needs.lines, NEWTON_LINE: multipliers.line_bytes((width, k), threads, matrices)}
    needs = replace(plan.needs, lines=lines)
    fits = k * width <= MOST_ORDER and matrices <= _most_bytes(memory) and memory.has_room(needs)
    return replace(plan, needs=needs, newton=NewtonRoom(matrices, True)) if fits else plan


def _with_newton(plan: Layout, threads: int, memory: MemoryLeft) -> Layout:
    """The same, and Newton's method over all rows or the worst, if all rows stay in memory with it. Else what is
    missing for it."""
    dataset, needs = memory.dataset, plan.needs
    k, width = len(dataset.classes), dataset.n_columns + 1
    order = k * width if k * width <= MOST_ORDER else min(dataset.n_rows * (k - 1), MOST_ORDER)
    matrices = min(matrix_bytes(order, dense=False), _most_bytes(memory))
    # the worst rows are copied; those that are longer than the mean may be, too, but fewer of them
    values = math.ceil(WORST_ROWS * dataset.nnz / max(dataset.n_rows, 1))
    copies = LISTED_BYTES * values + multipliers.list_bytes(min(dataset.n_rows, WORST_ROWS), k)
    lists = multipliers.list_bytes(dataset.n_rows, k) - ROW_DIMENSIONS * LISTED_BYTES * dataset.n_rows
    nbytes = multipliers.line_bytes((width, k), threads, matrices) + copies + max(0, lists)
    row_work_bytes = needs.row_work_bytes + multipliers.row_bytes(k)
    with_all = replace(needs, lines={**needs.lines, NEWTON_LINE: nbytes}, row_work_bytes=row_work_bytes)
    is_double = plan.dtype == np.float64
    if is_double and memory.fits_in_one_block(with_all):
        return replace(plan, needs=with_all, newton=NewtonRoom(matrices, True, values))
    rows_columns = 1 + min(dataset.n_columns, values)
    matrices = matrix_bytes(min(WORST_ROWS * (k - 1), MOST_ORDER), dense=False)
    free_bytes = memory.spare_bytes(needs) - copies
    worst_bytes = multipliers.line_bytes((rows_columns, k), threads, matrices)
    if not is_double or worst_bytes > MEMORY_SHARE * free_bytes:
        all_bytes = nbytes + dataset.n_rows * multipliers.row_bytes(k)
        more_bytes = dataset.n_rows * k * (FLOAT64_BYTES - plan.dtype.itemsize)  # of shares as float64
        needed_bytes = min(all_bytes, int(worst_bytes / MEMORY_SHARE)) + more_bytes
        return replace(plan, needs=replace(needs, missing_bytes=max(1, needed_bytes - free_bytes)))
    lines = {**needs.lines, NEWTON_LINE: worst_bytes + copies}
    return replace(plan, needs=replace(needs, lines=lines), newton=NewtonRoom(matrices, False, values))


def _most_bytes(memory: MemoryLeft) -> int:
    return int(MEMORY_SHARE * memory.available_bytes)


def _layout(extrapolates: bool, as_float32: bool, memory: MemoryLeft) -> Layout:
    """as_float32: that is precise enough for shares that are stored."""
    dataset = memory.dataset
    k = len(dataset.classes)
    # the weights, now and as a pass begins, or, in memory, as last certified; for extrapolation two more copies
    weights = {WEIGHTS_LINE: (2 + 2 * extrapolates) * FLOAT64_BYTES * k * (dataset.n_columns + 1)}
    # its number, cost, slack and orders; and, for extrapolation, a share inside its bounds
    row_work_bytes = LISTED_BYTES * (1 + extrapolates)
    stored, double = np.dtype(np.float32 if as_float32 else np.float64), np.dtype(np.float64)
    sparse = k >= SPARSE_FROM

    def needs(dtype: np.dtype) -> Needs:
        return Needs(weights, row_work_bytes + k * dtype.itemsize)

    # Where all rows stay at hand their shares do too, as float64 if these have room.
    for dtype in (double, stored):
        if memory.fits_in_one_block(needs(dtype)):
            return Layout(needs(dtype), extrapolates, dtype, sparse)
    # in blocks: as float32 rather than to refuse
    dtype = stored if memory.has_room(needs(stored)) else np.dtype(np.float32)
    stored_needs = replace(needs(dtype), row_state_bytes=k * dtype.itemsize, sparse_state=sparse)
    return Layout(stored_needs, extrapolates, dtype, sparse)


def _as_float32(settings: Settings, class_weight: NDArray[np.float64], squared_norm: float) -> bool:
    """Return whether float32 is precise enough for shares that are stored."""
    cost = float(RowCosts.of_classes(settings.C, class_weight).by_class.max())
    size = cost * (squared_norm + settings.constant**2)
    off = 2.0**-23 * size * size
    return settings.tol >= DOUBLE_BELOW_TOL and off <= ROUNDING_SHARE * settings.tol
