"""What SMO would do with the memory there is: a pure function."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from llsvm.memory.plan import MemoryLeft
from llsvm.objective.problems import count_problems
from llsvm.settings.settings import Settings
from llsvm.solvers.kernel_machine.layout import (
    SHARE,
    KernelLayout,
    MatrixLayout,
    machine_needs,
    matrix_layout,
    state_lines,
)

VECTORS = 45  # of a row, per problem, temporary ones counted: a subproblem's, Newton's
FEWEST_ROWS = 64  # of a working set


@dataclass(frozen=True, slots=True)
class SMOLayout(KernelLayout):
    """set_rows: of a working set, at most. system_rows: of a system of Newton's method, at most."""

    set_rows: int
    system_rows: int


def smo_layout(settings: Settings, threads: int, memory: MemoryLeft) -> SMOLayout:
    """K in memory where it fits, with what room there is for Newton's method; else on disk, and its blocks in
    memory."""
    dataset, n_classes = memory.dataset, len(memory.dataset.classes)
    pairs, precomputed = settings.multiclass == "ovo" and n_classes > 2, settings.kernel == "precomputed"
    problems, lines = count_problems(n_classes, pairs), state_lines(settings, dataset, VECTORS)
    at_work = min(threads, problems)
    most = int(np.sort(dataset.counts)[-2:].sum()) if pairs else dataset.n_rows
    # a block of K is copied where problems are of some of the rows
    copied = 8 * most**2 * at_work if pairs or len(dataset.counts) != n_classes else 0
    left = memory.available_bytes - sum(lines.values())

    def held(matrix: MatrixLayout, blocks: int, set_rows: int, system_rows: int) -> SMOLayout:
        more = {"blocks of the kernel matrix": blocks} if blocks else {}
        more["systems of rows"] = 8 * system_rows**2 * at_work
        needs = machine_needs(lines, {**matrix.lines, **more}, dataset, precomputed)
        return SMOLayout(needs, matrix, set_rows, system_rows)

    matrix = matrix_layout(dataset, precomputed, left - copied, copied=True)
    if matrix.in_memory:
        bare = held(matrix, copied, most, 0)
        room = 2 * SHARE * max(left - bare.needs.nbytes, 0) / (8 * at_work)
        for wanted in (held(matrix, copied, most, min(most, math.isqrt(int(room)))), bare):
            if memory.has_room(wanted.needs):
                return wanted
    matrix, share = matrix_layout(dataset, precomputed, left, spilled=True), 2 * SHARE
    while True:
        rows = math.isqrt(max(int(share * left), 0) // (8 * (problems + at_work)))
        rows = min(max(rows, FEWEST_ROWS), most)
        wanted = held(matrix, 8 * rows**2 * problems, rows, rows)
        if rows <= FEWEST_ROWS or memory.has_room(wanted.needs):
            return wanted
        share *= 0.5
