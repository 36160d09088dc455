"""What the smoothed Newton method (smsvm) would do with the memory there is: a pure function, which the solver goes
by and ``auto`` asks before."""

from __future__ import annotations

from dataclasses import dataclass

from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.solvers.smsvm.columns import Columns
from llsvm.solvers.smsvm.smoothed import work_bytes

HESSIAN_SHARE = 4  # Hessians get at most this part (1/4) of the memory that is left
MAX_ACTIVE = 4096  # columns of a Hessian: beyond, the cube of it costs more than passes do
ALL_ACTIVE = 512  # up to so many columns all of them are active, however few the rows
# of a problem, beside those of the threads: Descent, its copy for near rows, what is far, conjugate gradients, a
# report; measured where the weights are most of all that is held
VECTORS = 24
ROW_WORK_BYTES = 64  # distance, and what keeping the nearest rows takes
SPARE = 1.2  # a little more room than rows take, before they are counted on to stay in memory
COPIED = 2.5  # the same, with a copy of the near ones


@dataclass(frozen=True, slots=True)
class Layout:
    """needs: for ``Stream.prepare``, the Hessian's line included where there is one.

    most_active: columns that a Hessian may have. wide: no Hessian over all columns. all_near: all rows are in
    memory and stay at hand. by_columns: L1 by coordinate descent on the columns of these. by_products: L2 by
    products with the Hessian."""

    needs: Needs
    most_active: int
    wide: bool
    all_near: bool
    by_columns: bool
    by_products: bool


def layout(problems: int, threads: int, l1: bool, memory: MemoryLeft) -> Layout:
    """problems: binary ones. l1: the penalty has an L1 part."""
    dataset, available_bytes, in_memory = memory.dataset, memory.available_bytes, memory.in_memory
    n = dataset.n_columns + 1
    copies = 8 * problems * (threads + 3)  # bytes per element of a Hessian: each thread's, and the solution's
    lines = {
        "weights": 8 * problems * n * (VECTORS + 2 * threads),
        "rows at hand": threads * work_bytes(n, dataset.is_dense),
    }
    left = available_bytes - sum(lines.values())
    room = int((max(left, 0) / HESSIAN_SHARE / copies) ** 0.5)
    most_active = min(n, MAX_ACTIVE, max(room, 1))
    wide = n > most_active or (n > ALL_ACTIVE and n > dataset.n_rows)
    row_work = ROW_WORK_BYTES + 8 * problems
    rows = dataset.n_rows * (dataset.bytes_per_row + row_work)
    by_column = (
        Columns.bytes_per_row(dataset.nnz / dataset.n_rows, dataset.dtype.itemsize) if wide and l1 else 0
    )
    all_near = wide and in_memory and SPARE * (rows + dataset.n_rows * by_column) <= left
    by_columns, by_products = all_near and l1, wide and not l1
    if by_columns:
        row_work += by_column
    elif not by_products:
        lines["Hessian"] = copies * most_active**2
    # a copy of the near rows, where it has room
    copy = not all_near and in_memory and COPIED * rows <= available_bytes - sum(lines.values())
    needs = Needs(lines, row_work, copy)
    return Layout(needs, most_active, wide, all_near, by_columns, by_products)
