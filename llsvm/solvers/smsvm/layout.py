"""What the smoothed Newton method (smsvm) would do with the memory there is: a pure function, which the solver goes
by and ``auto`` asks before."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from llsvm.block import FLOAT64_BYTES
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.memory.sizes import format_size
from llsvm.objective.losses import Loss, PLQLoss
from llsvm.solvers.smsvm.multipliers import MULTIPLIER_ROW_BYTES
from llsvm.solvers.smsvm.newton import FEW_COLUMNS
from llsvm.solvers.smsvm.sums import row_bytes
from llsvm.solvers.smsvm.tuning import DEFAULT, SmSVMTuning

# The first five are for the memory plan: where one is too low, a run takes more memory than its limit; where it is
# too high, rows leave memory, or runs are refused, under limits that have room for them.
PROBLEM_VECTORS = 24
"""Vectors as long as the weights that a problem holds beside those of the threads: Descent, its copy for rows near
the margin, the rows left out, conjugate gradients and a report; measured where weights take most of the memory."""
COLUMN_VECTORS = 12
"""Such vectors of each problem where problems are solved by columns, one after the other, and ..."""
WORKER_VECTORS = 16
"""... such vectors beside them of each problem that is being solved."""
HESSIAN_BYTES = 32
"""Bytes per element of a Hessian over a working set: the Hessian, a part of it, its factor, and products."""
SLACK_BYTES = 64
"""Bytes per row for its slack, and for choosing the rows of least slack that are kept."""
PIECES_SHARE = 0.25
"""The largest share of all available memory for the pieces of rows that threads work on. With more, small limits
have too little left for the rows themselves; with less, pieces are so small there that calls cost more than
work."""
MEMORY_SHARE = 0.25
"""The largest share of the memory that is left for each of three things: Hessians, problems that are solved at the
same time, and the copy of columns where rows are not all in memory. With more, fewer rows stay in memory, and
passes read the others again; with less, active sets are smaller, and steps are more."""
_SPARE = 1.2
"""Rows count as staying in memory where it has room for so many times their bytes. With less, an estimate of these
that is a little too low sends rows to disk in mid-run; with more, runs whose rows would fit go without the methods
for rows in memory."""


@dataclass(frozen=True, slots=True)
class Layout:
    """needs: for ``Stream.prepare``, the Hessian's line included where there is one.

    most_active: columns that a Hessian may have. wide: no Hessian over all columns. all_near: all rows are in
    memory and stay at hand. by_columns: L1 by coordinate descent on the columns of these. by_products: L2 by
    products with the Hessian. Else there is a Hessian. workers: problems that are solved by columns at the same
    time. keeps_near: rows near where the loss bends are kept between passes, the others being as good as straight
    lines. tuning: with pieces of rows, Hessians, and Hessians over working sets, that the memory has room for.
    copied_values: of columns of the rows at hand, that a step may copy."""

    needs: Needs
    most_active: int
    wide: bool
    all_near: bool
    by_columns: bool
    by_products: bool
    workers: int
    keeps_near: bool
    tuning: SmSVMTuning
    enough_bytes: int = 0
    copied_values: int = 0

    @property
    def few_columns(self) -> bool:
        """Return whether it is L1 on wide data, with no room for more than an active set at a time."""
        return self.wide and not (self.by_columns or self.by_products)

    def in_words(self, n_features: int) -> str:
        """Return a description of what replaces a Hessian over all features; "" where there is such a Hessian."""
        columns = "coordinate descent and Newton's steps on the columns of the rows in memory"
        columns += f", {self.workers} problems at a time" * (self.workers > 1)
        if not self.wide:
            return columns if self.by_columns else ""
        nbytes = format_size(float(FLOAT64_BYTES * (n_features + 1) ** 2))
        what = f"no Hessian over all {n_features:,} features, which would take {nbytes}: "
        if self.by_columns:
            return what + columns
        if self.by_products:
            return what + (
                "conjugate gradients on the rows in memory"
                if self.all_near
                else "conjugate gradients, with a pass for each product until few rows are near the margin"
            )
        what += f"the active set is limited to {self.most_active:,} of them at a time"
        megabytes = math.ceil(self.enough_bytes / 1e6)
        return what + f" (--memory-limit {megabytes}MB has room for all of them)" * (megabytes > 0)


def layout(
    problems: int,
    threads: int,
    l1: bool,
    loss: Loss,
    memory: MemoryLeft,
    tuning: SmSVMTuning = DEFAULT,
    intercept: bool = False,
    pairs: bool = False,
) -> Layout:
    """problems: binary ones. l1: the penalty has an L1 part. loss: of a row. intercept: it is not penalised.
    pairs: problems are of two classes each."""
    dataset, available_bytes, in_memory = memory.dataset, memory.available_bytes, memory.in_memory
    n = dataset.n_columns + 1
    # a dense piece is held three times as float64, while it is summed up
    copies, piece_row_bytes = (3, row_bytes(n)) if dataset.is_dense else (1, row_bytes(0))
    whole_pieces = threads * copies * max(tuning.piece_bytes, piece_row_bytes)
    share = min(1.0, PIECES_SHARE * max(available_bytes, 0) / whole_pieces)
    tuning = replace(tuning, piece_bytes=int(share * tuning.piece_bytes))
    piece_rows = threads * max(1, tuning.piece_bytes // piece_row_bytes)
    # bytes per element of a Hessian: that of each thread, and three while the model is solved
    element_bytes = FLOAT64_BYTES * problems * (threads + 3)
    vector_bytes = FLOAT64_BYTES * n
    vectors_bytes = vector_bytes * problems  # of one of each problem
    # with a free intercept each thread sums rows by the sign of α_i y_i, and problems hold six vectors more
    sides = (6 + threads) * intercept
    lines = {
        "weights": vectors_bytes * (PROBLEM_VECTORS + 2 * threads + sides),
        "rows at hand": piece_rows * copies * piece_row_bytes,
    }
    if pairs:  # whose rows are copied by ``Block.take``, with the positions of their values
        lines["rows at hand"] += math.ceil(
            piece_rows * (piece_row_bytes if dataset.is_dense else 4 * dataset.bytes_per_row)
        )
    left, largest = available_bytes - sum(lines.values()), tuning.max_active
    room = int((max(left, 0) * MEMORY_SHARE / element_bytes) ** 0.5)
    most_active = min(n, largest, max(room, 1))
    tuning = replace(tuning, max_active=most_active)
    wide = n > most_active or (n > FEW_COLUMNS and n > dataset.n_rows)
    many_columns = wide or (n > FEW_COLUMNS and loss.bends_everywhere)  # for active sets by their Hessian
    row_work = SLACK_BYTES + FLOAT64_BYTES * (dataset.n_classes - 1 if pairs else problems)
    if (l1 and many_columns) or ((l1 or intercept or not in_memory) and isinstance(loss, PLQLoss)):
        row_work = max(row_work, MULTIPLIER_ROW_BYTES)
    rows = dataset.n_rows * (dataset.bytes_per_row + row_work)
    # bytes of a value of a copy by column, whose row number takes 4; each row has a value of the constant feature
    value_bytes, all_values = 4 + dataset.dtype.itemsize, dataset.nnz + dataset.n_rows
    by_column = value_bytes * all_values * (many_columns and l1)  # of all rows, which a step may copy
    left_over = left - _SPARE * (rows + by_column)
    column_weights = vectors_bytes * (COLUMN_VECTORS + threads + sides) + vector_bytes * WORKER_VECTORS
    saved_bytes = max(0, lines["weights"] - column_weights) if l1 else 0
    # with so little left over, 64-bit values must have room too: a run may begin again with them
    added_bytes = FLOAT64_BYTES - dataset.dtype.itemsize
    widened = _SPARE * (1 + (by_column > 0)) * added_bytes * all_values
    most_left_over = max(left_over, left_over + saved_bytes - widened)
    all_near = (many_columns if l1 else wide) and in_memory and most_left_over >= 0
    by_columns, by_products, workers, copied_values = all_near and l1, wide and not l1, 1, 0
    if by_columns:
        lines["weights"] -= saved_bytes
        left_over += saved_bytes
        copied_values, lines["columns of rows at hand"] = all_values, by_column
        problem_bytes = MULTIPLIER_ROW_BYTES * dataset.n_rows + by_column
        workers_bytes = (threads - 1) * (problem_bytes + vector_bytes * WORKER_VECTORS)
        if problems > 1 and threads > 1 and workers_bytes <= MEMORY_SHARE * left_over:
            workers = threads
            lines["problems at once"] = workers_bytes
            left_over -= workers_bytes
        if loss.bends_everywhere:
            working_set_bytes = HESSIAN_BYTES * workers  # per element of a Hessian
            columns = min(n, largest, int((MEMORY_SHARE * left_over / working_set_bytes) ** 0.5))
            tuning = replace(tuning, max_active=columns)
            lines["working sets of columns"] = working_set_bytes * columns**2
    elif not by_products:
        lines["Hessian"] = element_bytes * most_active**2
    if wide and l1 and not (by_columns or dataset.is_dense) and isinstance(loss, PLQLoss):
        # not at the price of rows in memory
        copied_bytes = MEMORY_SHARE * max(left - lines["Hessian"], 0)
        unused = memory.spare_bytes(Needs(lines, row_work)) if in_memory else -1
        if unused >= 0:
            copied_bytes = min(copied_bytes, unused)
        copied_values = min(int(copied_bytes / value_bytes), all_values)
        lines["columns of rows at hand"] = value_bytes * copied_values
    surplus = lines["rows at hand"] - whole_pieces + most_left_over
    enough_bytes = math.ceil(memory.limit_bytes - surplus) if wide and l1 and not by_columns else 0
    # a copy of the near rows, where it has room
    keeps_near = isinstance(loss, PLQLoss) and (loss.ridge == 0 or loss.lower == 0 or loss.epsilon > 0)
    copy = (
        keeps_near
        and not all_near
        and in_memory
        and 2 * _SPARE * rows <= available_bytes - sum(lines.values())
    )
    needs = Needs(lines, row_work, copy)
    return Layout(
        needs,
        most_active,
        wide,
        all_near,
        by_columns=by_columns,
        by_products=by_products,
        workers=workers,
        keeps_near=keeps_near,
        tuning=tuning,
        enough_bytes=enough_bytes,
        copied_values=copied_values,
    )
